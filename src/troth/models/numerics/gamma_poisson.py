"""Counts from providers whose rates differ: gamma-Poisson with mean λ and dispersion δ, the variance of a factor.

Given λ and δ a report of n rows that add up to S has the log-likelihood
S ln λ − S log1p(nv) − λ log1p(nv)/v + Σ_{i<S} log1p(iδ) with v = λδ. So what adds over providers are counts, two
functions of v, and one number for each δ.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from troth.models.numerics.additive_functions import LogScale, by_count, evaluate, evaluate_slopes
from troth.models.numerics.dispersed import log_rising
from troth.models.numerics.location_integral import draw_location, for_distinct_reports, integrate_location

if TYPE_CHECKING:
    from troth.core.contract import Array, Generator
    from troth.models.numerics.location_integral import Places

_COUNTS = 3  # rows, their sum, providers with rows
_ORIGIN = 1e-6  # 1/rows of the largest report
_BEYOND = 1e3  # how far the common mean may lie above the prior's


@lru_cache(maxsize=32)
def _scale(mean: float, largest: float) -> LogScale:
    highest = _BEYOND * mean * largest**2
    return LogScale(highest, int(np.ceil(5.5 * np.log1p(highest / _ORIGIN))), _ORIGIN)


def summarise_counts(rows: Array, total: Array, mean: float, spreads: Array) -> Array:
    """Return what adds over providers, for the spreads (δ = spread²) other than 0, the first."""
    scale, delta = _scale(mean, float(spreads[-1])), spreads[1:] ** 2
    logs = by_count(rows, lambda n: scale.series(lambda v: np.log1p(n * v)))
    shares = by_count(rows, lambda n: scale.series(lambda v: n * (np.log1p(n * v) / np.where(n > 0, n * v, 1.0))))
    rising = by_count(total, lambda s: log_rising(1 / delta, s))
    counts = np.stack([rows, total, (rows > 0).astype(np.float64)], axis=-1)
    return np.concatenate([counts, total[..., None] * logs, shares, rising], axis=-1)


def evidence_by_spread(statistics: Array, shape: float, rate: float, spreads: Array) -> Array:
    """Ln ∫ Gamma(λ; shape, rate) exp(log-likelihood) dλ for each spread; in closed form at 0, the first."""
    prior = shape * np.log(rate) - gammaln(shape)

    def work(t: Array) -> Array:
        A = shape + t[:, 1]
        alike = gammaln(A) - A * np.log(rate + t[:, 0]) + prior
        return np.column_stack([alike, integrate_location(_LogMean(t, shape, rate, spreads), spreads[1:])])

    return for_distinct_reports(statistics, work, len(spreads))


def draw_mean(rng: Generator, t: Array, shape: float, rate: float, spread: Array, spreads: Array) -> Array:
    """Draw λ given statistics ``(report, statistic)`` and a spread for each."""
    exact = rng.standard_gamma(shape + t[:, 1]) / (rate + t[:, 0])
    drawn = draw_location(rng, _LogMean(t, shape, rate, spreads), np.maximum(spread, spreads[1]))
    return np.where(spread > 0, np.exp(drawn), exact)


class _LogMean:
    """The log-likelihood as a function of x = ln λ."""

    def __init__(self, t: Array, shape: float, rate: float, spreads: Array) -> None:
        self._scale = _scale(shape / rate, float(spreads[-1]))
        terms = self._scale.terms
        series = t[:, _COUNTS : _COUNTS + terms], t[:, _COUNTS + terms : _COUNTS + 2 * terms]
        self._logs, self._shares = (self._scale.tables(part) for part in series)
        self._shape, self._rate = shape + t[:, 1], rate
        self.start = np.log(self._shape / (rate + t[:, 0]))
        self.constant = t[:, _COUNTS + 2 * terms :] + shape * np.log(rate) - gammaln(shape)

    def slopes(self, x: Array, spread: Array, report: Places) -> tuple[Array, Array]:
        """First and second derivative; the place is proportional to ln(origin + v), and dv/dx = v."""
        mean = np.exp(x)
        v = mean * spread**2
        place, chain = self._scale.place(v), self._scale.unit * v / (_ORIGIN + v)
        bent = chain * _ORIGIN / (_ORIGIN + v)
        log_slope, log_bend = evaluate_slopes(self._logs, report, place)
        last = self._scale.cells
        slope, bend = (part * (place < last) for part in evaluate_slopes(self._shares, report, place))
        share = self._rate + evaluate(self._shares, report, np.minimum(place, last))
        share_slope, share_bend = slope * chain, bend * chain**2 + slope * bent
        first = self._shape[report] - log_slope * chain - mean * (share + share_slope)
        return first, -(log_bend * chain**2 + log_slope * bent) - mean * (share + 2 * share_slope + share_bend)

    def values(self, x: Array, spread: Array, report: Places) -> Array:
        """Return the log-likelihood plus the log prior of x."""
        which, mean = report[..., None], np.exp(x)
        place = self._scale.place(mean * spread**2)
        share = self._rate + evaluate(self._shares, which, np.minimum(place, self._scale.cells))
        return np.asarray(self._shape[which] * x - evaluate(self._logs, which, place) - mean * share)
