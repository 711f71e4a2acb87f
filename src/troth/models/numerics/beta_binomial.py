"""Yes or no, from providers whose rates differ: beta-binomial with mean m and pseudo-counts a = m·s, b = (1 − m)·s.

Given m and s a report of k ones among n rows has the log-likelihood F_k(a) + F_{n−k}(b) − F_n(s) with
F_k(a) = lnΓ(a + k) − lnΓ(a). For k > 0 it is ln a + lnΓ(k) + G_k(a), G_k(a) = Σ_{0<i<k} log1p(a/i), which is smooth
down to a = 0. So what adds over providers are counts, two functions of one number each, and one number for each s.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaln, expit, log_expit, logit

from troth.models.numerics.additive_functions import LogScale, by_count, evaluate, evaluate_slopes
from troth.models.numerics.location_integral import draw_location, for_distinct_reports, integrate_location

if TYPE_CHECKING:
    from troth.core.contract import Array, Generator
    from troth.models.numerics.location_integral import Places

_TERMS = 84
_COUNTS = 5  # ones, zeros, providers with rows, with ones, with zeros


@lru_cache(maxsize=8)
def _scale(highest: float) -> LogScale:
    return LogScale(highest, _TERMS)


def report_width(spreads: Array) -> int:
    """How many numbers `summarise_report` returns."""
    return _COUNTS + 2 * _TERMS + len(spreads) - 1


def summarise_report(ones: Array, zeros: Array, spreads: Array) -> Array:
    """Return what adds over providers, for the spreads (s = spread⁻²) other than 0, the first."""
    strength = spreads[1:] ** -2.0
    rows = ones + zeros
    some_ones, some_zeros = (ones > 0).astype(np.float64), (zeros > 0).astype(np.float64)
    mixed = (ones > 0) & (zeros > 0)
    orders = np.where(mixed, betaln(np.where(mixed, ones, 1.0), np.where(mixed, zeros, 1.0)), 0.0)

    def total(n: Array) -> Array:
        return np.where(n > 0, betaln(strength, np.maximum(n, 1.0)), 0.0)

    constant = by_count(rows, total) + (some_ones + some_zeros)[..., None] * np.log(strength) + orders[..., None]
    counts = np.stack([ones, zeros, (rows > 0).astype(np.float64), some_ones, some_zeros], axis=-1)
    scale = _scale(float(strength.max()))

    def rising(n: Array) -> Array:
        return scale.series(lambda a: np.where(n > 0, -betaln(np.maximum(n, 1.0), a + 1) - np.log(a + n), 0.0))

    return np.concatenate([counts, by_count(ones, rising), by_count(zeros, rising), constant], axis=-1)


def evidence_by_spread(statistics: Array, alpha: float, beta: float, spreads: Array) -> Array:
    """Ln ∫ Beta(m; α, β) exp(log-likelihood) dm for each spread, 0 first, where it is ln B(α + ones, β + zeros)."""

    def work(t: Array) -> Array:
        alike = betaln(alpha + t[:, 0], beta + t[:, 1]) - betaln(alpha, beta)
        return np.column_stack([alike, integrate_location(_Rate(t, alpha, beta, spreads), spreads[1:])])

    return for_distinct_reports(statistics, work, len(spreads))


def draw_rate(rng: Generator, t: Array, alpha: float, beta: float, spread: Array, spreads: Array) -> Array:
    """Draw m given statistics ``(report, statistic)`` and a spread for each."""
    exact = rng.beta(alpha + t[:, 0], beta + t[:, 1])
    drawn = draw_location(rng, _Rate(t, alpha, beta, spreads), np.maximum(spread, spreads[1]))
    return np.where(spread > 0, expit(drawn), exact)


class _Rate:
    """The log-likelihood as a function of x = logit m."""

    def __init__(self, t: Array, alpha: float, beta: float, spreads: Array) -> None:
        self._scale = _scale(float(spreads[1] ** -2.0))
        series = np.split(t[:, _COUNTS : _COUNTS + 2 * _TERMS], 2, axis=1)
        self._ones, self._zeros = (self._scale.tables(part) for part in series)
        self._a, self._b = alpha + t[:, 3], beta + t[:, 4]
        self.start = logit((alpha + t[:, 0]) / (alpha + beta + t[:, 0] + t[:, 1]))
        self.constant = t[:, _COUNTS + 2 * _TERMS :] - betaln(alpha, beta)

    def slopes(self, x: Array, spread: Array, report: Places) -> tuple[Array, Array]:
        """First and second derivative; d ln(1 + a)/dm = s/(1 + a), and the place is proportional to ln(1 + a)."""
        m, w, a, b, s = expit(x), expit(-x), self._a[report], self._b[report], spread**-2.0
        v, unit = m * w, self._scale.unit
        first, second = a * w - b * m, -(a + b) * v
        for tables, rate, sign in ((self._ones, m, 1.0), (self._zeros, w, -1.0)):
            slope, bend = evaluate_slopes(tables, report, self._scale.place(rate * s))
            chain = unit * s / (1 + rate * s)
            of_rate, of_rate_twice = sign * slope * chain, (bend - slope / unit) * chain**2
            first, second = first + v * of_rate, second + v * v * of_rate_twice + v * (w - m) * of_rate
        return first, second

    def values(self, x: Array, spread: Array, report: Places) -> Array:
        """Return the log-likelihood plus the log prior of x."""
        which, log_m, s = report[..., None], log_expit(x), spread**-2.0
        value = (self._a + self._b)[which] * log_m - self._b[which] * x
        value += evaluate(self._ones, which, self._scale.place(np.exp(log_m) * s))
        return np.asarray(value + evaluate(self._zeros, which, self._scale.place(np.exp(log_m - x) * s)))
