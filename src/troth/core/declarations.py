"""What a model declares about itself by plain attributes, and what holds where it declares nothing."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Declarations:
    """The attributes that a model may have, with the value that is taken where it has none."""

    independent_rows: bool = True
    """Whether rows are i.i.d. given θ, so that data of several providers are like one dataset of all their rows."""

    explains_target: bool = False
    """Whether a row is a pair of features and target: data are ``(z, y)``, and the last column is the target."""

    row_axes: int = 0
    """How many axes of an array belong to one row: 0 for rows of one value, 1 for rows that are vectors."""

    recovers_rows: bool = False
    """Whether ``rows`` has to search for the number of rows that explains a statistic."""

    state_word: str = "state"
    """What one of finitely many θ is called on the page."""

    approximation: str = ""
    """What is not exact about the evidence and about draws of statistics, in words; empty if all is exact."""

    evidence_limit: str = ""
    """The limit in which the evidence is exact, in words, such as ``"many rows"``; empty if it always is."""

    draws_limit: str = ""
    """The limit in which draws of statistics have the distribution of data; empty if they always have."""

    limit_measured: str = ""
    """Where it was measured how good the model is outside these limits, in words; empty if nowhere."""

    assumption: str = ""
    """What is assumed about θ beyond its prior, in words; empty if nothing is."""


DECLARED = tuple(each.name for each in fields(Declarations))
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
    return Declarations(**{name: getattr(model, name) for name in DECLARED if hasattr(model, name)})
