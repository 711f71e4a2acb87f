"""Changes over the days: payments of each stretch, the ageing of fits, and growing gains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtr

from troth.core.formats import share, true_minus
from troth.history.intervals import MAX_CORRELATION, joint_level, over_days

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.contract import Array
    from troth.history.splits import Split


_MATERIAL = 0.02  # nats per report; older fits lose a little just because they have seen fewer days
_MIN_DAYS = 20  # minimum number of days to estimate a slope


@dataclass(frozen=True)
class Stretch:
    """A stretch of days that one fit paid.

    Attributes
    ----------
    first, last
        Labels of its first and last day.
    days, fitted_days
        The numbers of days that were paid, and that the model was fitted to.
    truth
        The mean payment of the actual reports, in units of the cap.
    lie, gain
        The lie that gained most on average over providers, and its gain.
    log_score, oldest_score
        The mean log probability of a day under the stretch's own fit and under the first fit; NaN if unknown.
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
    """The loss of an old fit compared with a fresh one, in nats per day, with its confidence interval.

    The loss is the log score of the fresh fit minus that of the old one, on the same days.
    """

    days: int
    loss: float
    low: float
    high: float


def ages_of(scores: Array, splits: Sequence[Split], false_alarm: float) -> tuple[Age, ...]:
    """Return the losses of older fits from daily log scores ``(fit, day)``, NaN before a fit's own stretch."""
    ages = []
    for lag in range(1, len(splits)):
        loss = np.full(scores.shape[1], np.nan)
        for now in range(lag, len(splits)):
            paid = splits[now].paid
            loss[paid] = scores[now, paid] - scores[now - lag, paid]
        gap = int(np.median([splits[now].paid[0] - splits[now - lag].paid[0] for now in range(lag, len(splits))]))
        interval = over_days(loss, 2 * false_alarm / (len(splits) - 1))
        if np.isfinite(interval.mean):
            ages.append(Age(gap, interval.mean, interval.low, interval.high))
    return tuple(ages)


def shelf_life(ages: Sequence[Age], stretch: int, providers: int) -> str:
    """Describe how long a fit stays good: until it loses significantly more than 0.02 nats per report.

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
    lifetime = max([stretch, *(age.days for age in ages if age.days < worse.days)])
    return (
        f"A fit stays good for about {lifetime} days: one that is {worse.days} days older than the "
        f"newest predicts worse, by {worse.loss:.2g} nats a day (it has also seen fewer days)."
    )


@dataclass(frozen=True)
class Trend:
    """A lie whose gain rises significantly over the days, in units of the cap.

    Attributes
    ----------
    first, last
        Its mean gains over the first and the last third of the days, averaged over providers.
    slope, error
        The rise of its gain from the first day to the last along a straight line, and its standard error.
    """

    lie: str
    first: float
    last: float
    slope: float
    error: float

    def __str__(self) -> str:
        trend = "gains more" if self.last > 0 else "costs less"
        first, last = (share(gain, 1, sign=True) for gain in (self.first, self.last))
        gains = f"{first} of the cap in the first third of the days, {last} in the last"
        return f"{true_minus(self.lie)} {trend} as time goes on: {gains}."


def trends_of(lies: Sequence[str], daily: Array, false_alarm: float) -> tuple[Trend, ...]:
    """Return the lies whose daily gains ``(day, lie)`` rise significantly, the steepest first.

    The slope b is that of least squares. Its variance is σ²/Σ(t − t̄)² with the long-run variance σ² = s²/(1 − ρ)²,
    where s² is the variance of the residuals' innovations and ρ the correlation of neighbouring days. Fitting a line to
    few days hides this correlation, and a random walk looks like a trend. So ρ is estimated conservatively: at least
    the mean over lies, corrected for bias, plus half a standard error. The false-alarm rate holds for all lies
    together.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> daily = rng.normal(0, 0.1, size=(90, 2)) + [[0, 0.003 * day] for day in range(90)]
    >>> [trend.lie for trend in trends_of(["steady", "rising"], daily, 0.05)]
    ['rising']
    """
    x = daily[~np.isnan(daily).any(axis=1)]
    days = len(x)
    if days < _MIN_DAYS:
        return ()
    time = np.linspace(-0.5, 0.5, days)
    slopes = time @ x / (time @ time)
    residuals = x - x.mean(axis=0) - np.outer(time, slopes)
    level = joint_level(time[:, None] * residuals, false_alarm)
    errors, freedom = _errors(residuals)
    errors /= np.sqrt(time @ time)
    with np.errstate(divide="ignore", invalid="ignore"):
        p_values = stdtr(freedom, -slopes / errors)
    third, trends = days // 3, []
    for k in map(int, np.flatnonzero((errors > 0) & (p_values <= level))):
        first, last = float(x[:third, k].mean()), float(x[-third:, k].mean())
        trends.append(Trend(lies[k], first, last, float(slopes[k]), float(errors[k])))
    return tuple(sorted(trends, key=lambda trend: -trend.slope))


def _errors(residuals: Array) -> tuple[Array, Array]:
    """Return the long-run standard deviation of each column of residuals, and its degrees of freedom."""
    days = len(residuals)
    squares = (residuals**2).sum(axis=0)
    correlation = (residuals[1:] * residuals[:-1]).sum(axis=0) / np.where(squares > 0, squares, 1.0)
    correlation = np.maximum(correlation, correlation[squares > 0].mean() if (squares > 0).any() else 0.0)
    correlation += (2 + 4 * correlation) / days + 0.5 * days**-0.5
    correlation = np.clip(correlation, 0.0, MAX_CORRELATION)
    innovations = residuals[1:] - correlation * residuals[:-1]
    variance = np.maximum((innovations**2).sum(axis=0) / (days - 3) / (1 - correlation) ** 2, squares / (days - 2))
    return np.sqrt(variance), np.maximum(days * (1 - correlation) / (1 + correlation) - 2, 1.0)
