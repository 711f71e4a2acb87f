"""Confidence over days: means of daily differences whose neighbours may be alike, and many of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import t as student

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from troth.core.contract import Array


class Interval(NamedTuple):
    """A mean over days, its confidence interval, and one-sided p-values for a mean above and below 0."""

    mean: float
    low: float
    high: float
    above: float
    below: float
    days: int


def over_days(daily: Array, false_alarm: float, negligible: float = 0.0) -> Interval:
    """Mean of daily numbers with a Newey–West interval, wide enough for days that resemble their neighbours.

    The variance adds autocovariances up to lag L = ⌊4(T/100)^{2/9}⌋ with Bartlett's weights, and Student's t has
    T/(1 + L) − 1 degrees of freedom, as many as there are separate stretches of days. Missing days are left out. The
    p-value of a mean above 0 is that of a mean above ``negligible``.

    Examples
    --------
    >>> interval = over_days(np.array([0.1, 0.3, np.nan, 0.2, 0.2]), false_alarm=0.05)
    >>> round(interval.mean, 3), interval.days
    (0.2, 4)
    """
    x = np.asarray(daily, dtype=np.float64)
    x = x[~np.isnan(x)]
    days = len(x)
    if days < 2:
        return Interval(float(x.mean()) if days else np.nan, -np.inf, np.inf, 1.0, 1.0, days)
    mean = float(x.mean())
    lags = min(int(4 * (days / 100) ** (2 / 9)), days - 1)
    residual = x - mean
    squares = float(residual @ residual)
    variance = squares
    for lag in range(1, lags + 1):
        variance += 2 * (1 - lag / (lags + 1)) * float(residual[lag:] @ residual[:-lag])
    error = float(np.sqrt(max(variance, 0.5 * squares) / days / (days - 1)))
    freedom = max(days / (1 + lags) - 1, 1.0)
    if error <= 1e-15 * max(abs(mean), 1e-300) or error == 0:
        return Interval(mean, mean, mean, float(mean <= negligible), float(mean >= 0), days)
    margin = float(student.isf(false_alarm / 2, freedom)) * error
    above = float(student.sf((mean - negligible) / error, freedom))
    below = float(student.cdf(mean / error, freedom))
    return Interval(mean, mean - margin, mean + margin, above, below, days)


def holm(p: Array, false_alarm: float) -> NDArray[np.bool_]:
    """Return which hypotheses Holm's method rejects: any true one with probability ``false_alarm`` at most.

    Examples
    --------
    >>> holm(np.array([0.001, 0.04, 0.6]), 0.05).tolist()
    [True, False, False]
    """
    order = np.argsort(p, kind="stable")
    passed = p[order] <= false_alarm / np.arange(len(p), 0, -1)
    rejected = np.empty(len(p), dtype=bool)
    rejected[order] = np.logical_and.accumulate(passed)
    return rejected
