"""What a model declares about itself by plain attributes, with their defaults."""

from __future__ import annotations

from typing import Any, ClassVar

from troth.core.limits import MAX_ROWS


class Declarations:
    """The attributes that a model may have, with the value that is taken where it has none; families inherit them."""

    independent_rows: ClassVar[bool] = True
    """Whether rows are i.i.d. given θ. Data of several providers are then like one dataset."""

    explains_target: ClassVar[bool] = False
    """Whether a row is a pair of features and target: data are ``(z, y)``, and the last column is the target."""

    row_axes: ClassVar[int] = 0
    """How many axes of an array belong to one row: 0 for rows of one value, 1 for rows that are vectors."""

    max_rows: ClassVar[int] = MAX_ROWS
    """The most rows of a report, up to which log PMI keeps its digits."""

    recovers_rows: ClassVar[bool] = False
    """Whether ``rows`` has to search for the number of rows that explains a statistic."""

    evidence_cost: ClassVar[int] = 1
    """The approximate cost of one log evidence, in closed forms; more than 1 if it is an integral."""

    state_word: ClassVar[str] = "state"
    """The word for one of finitely many θ on the page."""

    approximation: ClassVar[str] = ""
    """What is not exact about the evidence and about draws of statistics, in words; empty if all is exact."""

    evidence_limit: ClassVar[str] = ""
    """The limit in which the evidence is exact, in words, such as ``"many rows"``; empty if it always is."""

    draws_limit: ClassVar[str] = ""
    """The limit in which draws of statistics have the distribution of data; empty if they always have."""

    limit_measured: ClassVar[str] = ""
    """Where the model's accuracy outside these limits was measured, in words; empty if nowhere."""

    assumption: ClassVar[str] = ""
    """What is assumed about θ beyond its prior, in words; empty if nothing is."""


DECLARED = tuple(Declarations.__annotations__)
"""The names of these attributes."""


def declared(model: Any) -> Declarations:
    """Return what a model declares, with the defaults of what it does not.

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
