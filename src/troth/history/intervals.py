"""Confidence intervals for means of correlated daily numbers, and levels for multiple tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtr, stdtr, stdtrit

if TYPE_CHECKING:
    from troth.core.contract import Array

POWER = 0.8
"""The probability with which a detectable gain is found."""

MAX_CORRELATION = 0.97
"""The maximum correlation of neighbouring days that an interval assumes."""

_DRAWS = 2000


class Interval(NamedTuple):
    """A mean over days, its confidence interval, and one-sided p-values for a mean above and below 0."""

    mean: float
    low: float
    high: float
    above: float
    below: float
    days: int
    error: float = np.inf
    freedom: float = 1.0

    def detectable(self, level: float, negligible: float = 0.0) -> float:
        """Return the true mean that a one-sided test at this level detects with probability `POWER`.

        Examples
        --------
        >>> steady = over_days(np.tile([0.0, 0.2], 50), 0.05)
        >>> round(steady.detectable(0.05), 3)
        0.025
        """
        if not np.isfinite(self.error):
            return float("inf")
        needed = stdtrit(self.freedom, POWER) - stdtrit(self.freedom, level)
        return negligible + float(needed) * self.error


def over_days(daily: Array, false_alarm: float, negligible: float = 0.0, extra: float = 0.0) -> Interval:
    """Return the mean of daily numbers with an interval that allows for correlated days.

    The variance is that of Newey and West after prewhitening. With ρ ≥ 0 the bias-corrected correlation of neighbouring
    days, the residuals e_t = x_t − ρx_{t−1} have a long-run variance with Bartlett's weights up to lag
    ⌊4(T/100)^{2/9}⌋; the variance of the mean is this divided by (1 − ρ)²T. Student's t has T(1 − ρ)/(1 + ρ) − 1
    degrees of freedom, from the effective number of independent days. Missing days are left out. The p-value of a mean
    above 0 is that of a mean above ``negligible``, and ``extra`` is added to the variance of the mean.

    Examples
    --------
    >>> interval = over_days(np.array([0.1, 0.3, np.nan, 0.2, 0.2]), false_alarm=0.05)
    >>> round(interval.mean, 3), interval.days
    (0.2, 4)
    """
    x = np.asarray(daily, dtype=np.float64)
    x = x[~np.isnan(x)]
    days = len(x)
    if days < 3:
        return Interval(float(x.mean()) if days else np.nan, -np.inf, np.inf, 1.0, 1.0, days)
    mean = float(x.mean())
    residual = x - mean
    squares = float(residual @ residual)
    if squares <= 1e-30 * days * max(mean**2, 1e-300) and not extra:
        return Interval(mean, mean, mean, float(mean <= negligible), float(mean >= 0), days, 0.0, days - 1.0)
    correlation = _correlation(residual, squares)
    e = residual[1:] - correlation * residual[:-1]
    lags = min(int(4 * (days / 100) ** (2 / 9)), len(e) - 1)
    variance = float(e @ e)
    variance += 2 * sum((1 - lag / (lags + 1)) * float(e[lag:] @ e[:-lag]) for lag in range(1, lags + 1))
    long_run = max(variance, float(e @ e)) / (len(e) - 1) / (1 - correlation) ** 2
    error = float(np.sqrt(max(long_run, squares / (days - 1)) / days + extra))
    freedom = max(days * (1 - correlation) / (1 + correlation) - 1, 1.0)
    margin = -float(stdtrit(freedom, false_alarm / 2)) * error
    above = float(stdtr(freedom, (negligible - mean) / error))
    below = float(stdtr(freedom, mean / error))
    return Interval(mean, mean - margin, mean + margin, above, below, days, error, freedom)


def _correlation(residual: Array, squares: float) -> float:
    """Return the correlation of neighbouring days, with Kendall's bias correction if it is significant."""
    days, correlation = len(residual), 0.0
    if squares > 0:
        correlation = float(residual[1:] @ residual[:-1]) / squares
    if correlation > days**-0.5:
        correlation += (1 + 3 * correlation) / days
    return min(max(correlation, 0.0), MAX_CORRELATION)


def joint_level(columns: Array, false_alarm: float) -> float:
    """Return the level for each of several one-sided tests that bounds their family-wise error by ``false_alarm``.

    ``columns`` are daily numbers ``(day, comparison)``, NaN if missing. Correlated columns are accounted for: the
    largest of the standardised means is simulated by weighting days with normal numbers (the multiplier bootstrap). The
    level is Bonferroni's if columns are independent, and never below it.

    Examples
    --------
    >>> one = np.random.default_rng(1).normal(size=(80, 1))
    >>> bool(0.04 < joint_level(np.tile(one, 30), 0.05) < 0.06)  # thirty copies are one comparison
    True
    """
    centred = columns - np.nanmean(np.where(np.isnan(columns).all(axis=0), 0.0, columns), axis=0)
    centred = np.nan_to_num(centred)
    size = np.sqrt((centred**2).sum(axis=0))
    used = size > 1e-15 * max(float(size.max(initial=0.0)), 1e-300)
    bonferroni = false_alarm / max(int(columns.shape[1]), 1)
    if not used.any():
        return bonferroni
    weights = np.random.default_rng(len(columns)).standard_normal((_DRAWS, len(columns)))
    largest = (weights @ (centred[:, used] / size[used])).max(axis=1)
    return max(bonferroni, float(ndtr(-np.quantile(largest, 1 - false_alarm))))
