"""How a backtest splits days into stretches to pay and days to fit the model to."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from troth.core.errors import DataError, ParameterError

if TYPE_CHECKING:
    from troth.core.contract import Indexes

SPLITS = {
    "rolling": "each stretch is paid under a model fitted to the days before it, as a campaign would be",
    "blocks": (
        "each block is paid under a model fitted to the days before and after it: this interpolates, shows how well "
        "the model describes these days, and says nothing about a future that drifts away from them"
    ),
}
"""Ways to split days, with descriptions."""

_STRETCHES = 5
_MIN_FIRST_FIT = 30  # days of the first fit, if half of the history has this many


class Split(NamedTuple):
    """Indices of the days to pay, and of the days to fit the model to."""

    paid: Indexes
    fitted: Indexes


def first_days(days: int) -> int:
    """Return the number of days of the first fit of a rolling origin: a quarter, but at least 30, or half if fewer.

    Examples
    --------
    >>> [first_days(days) for days in (24, 60, 120, 400)]
    [12, 30, 30, 100]
    """
    return max(days // 4, min(_MIN_FIRST_FIT, days // 2))


def split_days(days: int, split: str, folds: int | None, gap: int, first: int | None) -> list[Split]:
    """Split days into stretches of at least three, with the days to fit each; parameters are those of `backtest`."""
    if split not in SPLITS:
        raise ParameterError(f"there is no split {split!r}; there are {', '.join(SPLITS)}")
    rolling = split == "rolling"

    def before_first(days: int) -> int:
        return (first_days(days) if first is None else first) if rolling else 0

    start = before_first(days)
    min_folds = 1 if rolling else 2
    folds = max(min_folds, min(_STRETCHES, (days - start) // 3)) if folds is None else folds
    if start < rolling and first is not None:
        raise DataError(f"a rolling origin needs at least 1 day before its first stretch, not {first}")
    if folds < min_folds or gap < 0:
        raise DataError(
            f"a backtest needs at least {min_folds} stretches and a gap of at least 0, not {folds} and {gap}"
        )
    if folds > (days - start) // 3:
        needed = next(enough for enough in count(3 * folds) if enough - before_first(enough) >= 3 * folds)
        after = f" after the {'days of a first fit' if first is None else f'first {first}'}" if rolling else ""
        raise DataError(
            f"{days} days are too few for {folds} stretch{'es' * (folds > 1)} of at least 3 days{after}: that "
            f"takes {needed} days"
            + (", so ask for fewer stretches, or give a longer history" if folds > min_folds else "")
        )
    order = np.arange(days)
    splits = []
    for paid_days in np.array_split(order[start:], folds):
        before, later = order < paid_days[0] - gap, order > paid_days[-1] + gap
        fitted = order[before if rolling else before | later]
        if not len(fitted):
            raise DataError(f"a gap of {gap} days leaves no days to fit")
        splits.append(Split(paid_days, fitted))
    return splits
