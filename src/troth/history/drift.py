"""How a model ages: what each stretch of days looked like under the fit that paid it, and under older ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.history.intervals import over_days

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.contract import Array
    from troth.history.stretches import Split


_MATERIAL = 0.02  # nats per report: an older fit has also seen fewer days, and loses a little by that alone


@dataclass(frozen=True)
class Stretch:
    """A stretch of days that one fit paid.

    Attributes
    ----------
    first, last
        Labels of its first and last day.
    days, fitted_days
        How many days were paid, and how many the model was fitted to.
    truth
        Mean payment of what was reported, in units of the cap.
    lie, gain
        The lie that gained most on average over providers, and its gain.
    log_score, oldest_score
        Mean log probability of a day under the model fitted last, and under the first fit of all; NaN where models do
        not know it.
    """

    first: Any
    last: Any
    days: int
    fitted_days: int
    truth: float
    lie: str
    gain: float
    log_score: float
    oldest_score: float


@dataclass(frozen=True)
class Age:
    """What a fit of some age has lost: the log score per day of a fresh fit minus its own, on the same days.

    Attributes
    ----------
    days
        How many days passed between the last day of the fresh fit and that of the old one.
    loss, low, high
        Mean loss per day in nats, with its confidence interval.
    """

    days: int
    loss: float
    low: float
    high: float


def ages_of(scores: Array, splits: Sequence[Split], false_alarm: float) -> tuple[Age, ...]:
    """Return the loss of older fits from daily log scores ``(fit, day)``, NaN before a fit's own stretch."""
    ages = []
    for back in range(1, len(splits)):
        loss = np.full(scores.shape[1], np.nan)
        for now in range(back, len(splits)):
            paid = splits[now].paid
            loss[paid] = scores[now, paid] - scores[now - back, paid]
        gap = int(np.median([splits[now].paid[0] - splits[now - back].paid[0] for now in range(back, len(splits))]))
        interval = over_days(loss, 2 * false_alarm / (len(splits) - 1))
        if np.isfinite(interval.mean):
            ages.append(Age(gap, interval.mean, interval.low, interval.high))
    return tuple(ages)


def shelf_life(ages: Sequence[Age], stretch: int, providers: int) -> str:
    """Say how long a fit stays good: until it loses significantly more than 0.02 nats per report.

    Examples
    --------
    >>> shelf_life([Age(30, 0.2, -0.1, 0.5), Age(60, 1.0, 0.4, 1.6)], stretch=30, providers=4)
    'A fit stays good for about 30 days: one that is 60 days older than the newest predicts worse...'
    """
    if not ages:
        return ""
    worse = next((age for age in ages if age.low > _MATERIAL * providers), None)
    if worse is None:
        oldest = ages[-1]
        return (
            f"A fit stays good for at least {oldest.days} days, as far as these days can tell: older fits do not "
            f"predict significantly worse (by {oldest.loss:.2g} nats a day, at most {oldest.high:.2g})."
        )
    good = max([stretch, *(age.days for age in ages if age.days < worse.days)])
    return (
        f"A fit stays good for about {good} days: one that is {worse.days} days older than the "
        f"newest predicts worse, by {worse.loss:.2g} nats a day (it has also seen fewer days)."
    )
