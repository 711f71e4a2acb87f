"""Counts of providers whose rates differ: gamma-Poisson with mean λ and dispersion δ, the variance of the rate factor.

Given λ and δ, a report of n rows with sum S has the log-likelihood
S ln λ − S log1p(nv) − λ log1p(nv)/v + Σ_{i<S} log1p(iδ) with v = λδ. So the statistics are counts, two functions of v
and one function of δ.
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
from scipy.special import gammaln

from troth.core.contract import Array, Generator, Indexes
from troth.models.numerics.additive_functions import LogScale, by_count
from troth.models.numerics.dispersed import log_rising
from troth.models.numerics.spread_integral import draw, integrate

_COUNTS = 4  # rows, their sum, providers with rows, squared sums
_ORIGIN = 1e-6  # 1/rows of the largest report
_MAX_LOG_MEAN = 600.0  # the prior is negligible there, and exp does not overflow yet
_MAX_MEAN_RATIO = 1e3  # of the common mean to the prior mean


@lru_cache(maxsize=32)
def _scales(mean: float, spreads: tuple[float, float]) -> tuple[LogScale, LogScale]:
    """Return the scales of v and δ."""
    low, high = spreads[0] ** 2, spreads[1] ** 2
    return LogScale(0.0, _MAX_MEAN_RATIO * mean * high, _ORIGIN), LogScale(low, high, 0.0)


def summarise_counts(rows: Array, total: Array, mean: float, spreads: tuple[float, float]) -> Array:
    """Return the statistics of a report, for spreads (δ = spread²) in a range."""
    v, delta = (scale.nodes for scale in _scales(mean, spreads))

    def logs(n: Array) -> Array:
        return np.asarray(np.log1p(np.maximum(n * v, -0.75)))

    log_rows = by_count(rows, logs)
    shares = by_count(rows, lambda n: np.divide(logs(n), v, out=n * np.ones_like(v), where=v != 0))
    rising = by_count(total, lambda s: log_rising(1 / delta, s))
    counts = np.stack([rows, total, (rows > 0).astype(np.float64), (total + mean * rows) ** 2], axis=-1)
    return np.concatenate([counts, total[..., None] * log_rows, shares, rising], axis=-1)


def log_evidence(statistics: Array, shape: float, rate: float, spreads: tuple[float, float]) -> Array:
    """Ln ∫∫ Gamma(λ; shape, rate) p(spread) exp(log-likelihood) dλ dspread."""
    return integrate(statistics, partial(_LogMean, shape=shape, rate=rate, spreads=spreads), *spreads)


def draw_mean(rng: Generator, t: Array, shape: float, rate: float, spreads: tuple[float, float]) -> tuple[Array, Array]:
    """Draw λ and the spread given statistics ``(report, statistic)``."""
    exact = rng.standard_gamma(shape + t[:, 1]) / (rate + t[:, 0])
    x, spread = draw(rng, t, partial(_LogMean, shape=shape, rate=rate, spreads=spreads), *spreads)
    return np.where(spread > 0, np.exp(x), exact), spread


class _LogMean:
    """The log-likelihood as a function of x = ln λ."""

    def __init__(self, t: Array, shape: float, rate: float, spreads: tuple[float, float]) -> None:
        mean = shape / rate
        self._scale, self._delta_scale = _scales(mean, spreads)
        ends = np.cumsum([_COUNTS, len(self._scale.nodes), len(self._scale.nodes)])
        logs, shares, rising = np.split(t, ends, axis=1)[1:]
        self._logs, self._shares = self._scale.tables(logs), self._scale.tables(shares)
        self._rising = self._delta_scale.tables(rising)
        self._shape, self._rate, self._prior = shape + t[:, 1], rate, shape * np.log(rate) - gammaln(shape)
        self.without_spread = gammaln(self._shape) - self._shape * np.log(rate + t[:, 0]) + self._prior
        self.start = np.log(self._shape / (rate + t[:, 0]))
        self.resolution, self.providers = 1 / np.sqrt(1 + t[:, 3]), t[:, 2]

    def constant(self, delta: Array, report: Indexes) -> Array:
        """Return the terms that do not depend on λ."""
        return np.asarray(self._prior + self._rising.value(report, self._delta_scale.position(np.log(delta))))

    def slopes(self, x: Array, delta: Array, report: Indexes) -> tuple[Array, Array, Array]:
        """Return the log-likelihood and its first two derivatives; d ln(origin + v)/dx = v/(origin + v)."""
        mean = np.exp(np.minimum(x, _MAX_LOG_MEAN))
        v = mean * delta
        log_v = np.log(_ORIGIN + v)
        position, chain = self._scale.position(log_v), v / (_ORIGIN + v)
        bent = chain * (1 - chain)
        logs, log_slope, log_bend = self._logs.value_and_slopes(report, position)
        inside = position < self._scale.cells
        share, slope, bend = self._shares.value_and_slopes(report, np.minimum(position, self._scale.cells))
        slope, bend, share = slope * inside, bend * inside, share + self._rate
        share_slope, share_bend = slope * chain, bend * chain**2 + slope * bent
        value = self._shape[report] * x - logs - mean * share
        first = self._shape[report] - log_slope * chain - mean * (share + share_slope)
        second = -(log_bend * chain**2 + log_slope * bent) - mean * (share + 2 * share_slope + share_bend)
        return value, first, second

    def values(self, x: Array, delta: Array, report: Indexes) -> Array:
        """Return the log-likelihood plus the log prior of x."""
        mean = np.exp(np.minimum(x, _MAX_LOG_MEAN))
        position = self._scale.position(np.log(_ORIGIN + mean * delta))
        value = self._shape[report] * x - self._logs.value(report, position)
        share = self._shares.value(report, np.minimum(position, self._scale.cells))
        return np.asarray(value - mean * (self._rate + share))
