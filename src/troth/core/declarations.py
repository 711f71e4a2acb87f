"""Plain attributes by which a model declares its properties, and their defaults."""

from __future__ import annotations

from typing import Any, ClassVar

from troth.core.limits import MAX_ROWS


class Declarations:
    """The attributes that a model may declare, with their defaults; families inherit them."""

    independent_rows: ClassVar[bool] = True
    """Whether rows are i.i.d. given θ, so that the data of several providers are like one dataset."""

    explains_target: ClassVar[bool] = False
    """Whether a row consists of features and a target: data are ``(z, y)``, and the last column is the target."""

    row_axes: ClassVar[int] = 0
    """The number of array axes of one row: 0 for scalars, 1 for vectors."""

    max_rows: ClassVar[int] = MAX_ROWS
    """The maximum number of rows of a report, up to which log PMI is precise."""

    recovers_rows: ClassVar[bool] = False
    """Whether ``rows`` has to search for the number of rows that explains the statistics."""

    evidence_cost: ClassVar[int] = 1
    """The approximate cost of one log evidence, relative to a closed form; above 1 if it is an integral."""

    state_word: ClassVar[str] = "state"
    """The word for one of finitely many values of θ on the page."""

    approximation: ClassVar[str] = ""
    """What is approximate about the evidence and about drawn statistics; empty if both are exact."""

    evidence_limit: ClassVar[str] = ""
    """The limit in which the evidence is exact, such as ``"many rows"``; empty if it always is."""

    draws_limit: ClassVar[str] = ""
    """The limit in which drawn statistics have the distribution of real ones; empty if they always do."""

    limit_measured: ClassVar[str] = ""
    """The page that documents the model's measured accuracy outside these limits; empty if there is none."""

    assumption: ClassVar[str] = ""
    """What is assumed about θ beyond its prior; empty if nothing is."""


DECLARED = tuple(Declarations.__annotations__)
"""The names of the attributes."""


def declared(model: Any) -> Declarations:
    """Return a model's declarations, with defaults for those that it omits.

    Examples
    --------
    >>> import troth
    >>> declared(troth.models.LogisticRegression(mean=[0], precision=1)).evidence_limit
    'many rows with coefficients near the public point'
    >>> declared(object()).row_axes
    0
    """
    declarations = Declarations()
    vars(declarations).update({name: getattr(model, name) for name in DECLARED if hasattr(model, name)})
    return declarations
