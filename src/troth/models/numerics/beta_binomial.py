"""Binary rows of providers whose rates differ: beta-binomial with mean m, pseudo-counts a = m·s and b = (1 − m)·s.

Given m and s, a report of k ones among n rows has the log-likelihood F_k(a) + F_{n−k}(b) − F_n(s) with
F_k(a) = lnΓ(a + k) − lnΓ(a). For k > 0, F_k(a) = ln a + lnΓ(k) + G_k(a) with G_k(a) = Σ_{0<i<k} log1p(a/i), which is
smooth down to a = 0. So the statistics are counts and three functions of one variable.
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
from scipy.special import betaln, expit, logit

from troth.core.contract import Array, Generator, Indexes
from troth.models.numerics.additive_functions import LogScale, by_count
from troth.models.numerics.spread_integral import draw, integrate

_COUNTS = 7  # ones, zeros, providers with rows, with ones, with zeros, squared rows, Σ ln B(ones, zeros)
_MAX_LOGIT = 600.0  # beyond it rates round to 1, and odds overflow


@lru_cache(maxsize=8)
def _scale(smallest: float) -> LogScale:
    return LogScale(0.0, smallest**-2.0, 1.0)


def summarise_report(ones: Array, zeros: Array, spreads: tuple[float, float]) -> Array:
    """Return the statistics of a report, for spreads (s = spread⁻²) in a range."""
    rows, nodes = ones + zeros, _scale(spreads[0]).nodes
    mixed = (ones > 0) & (zeros > 0)
    orders = np.where(mixed, betaln(np.where(mixed, ones, 1.0), np.where(mixed, zeros, 1.0)), 0.0)
    present = [(n > 0).astype(np.float64) for n in (rows, ones, zeros)]
    counts = np.stack([ones, zeros, *present, rows**2, orders], axis=-1)

    def rising(n: Array) -> Array:
        return np.where(n > 0, -betaln(np.maximum(n, 1.0), nodes + 1) - np.log(nodes + np.maximum(n, 1.0)), 0.0)

    return np.concatenate([counts, *(by_count(n, rising) for n in (ones, zeros, rows))], axis=-1)


def log_evidence(statistics: Array, alpha: float, beta: float, spreads: tuple[float, float]) -> Array:
    """Ln ∫∫ Beta(m; α, β) p(spread) exp(log-likelihood) dm dspread."""
    return integrate(statistics, partial(_Rate, alpha=alpha, beta=beta, smallest=spreads[0]), *spreads)


def draw_rate(rng: Generator, t: Array, alpha: float, beta: float, spreads: tuple[float, float]) -> tuple[Array, Array]:
    """Draw m and the spread given statistics ``(report, statistic)``."""
    exact = rng.beta(alpha + t[:, 0], beta + t[:, 1])
    x, spread = draw(rng, t, partial(_Rate, alpha=alpha, beta=beta, smallest=spreads[0]), *spreads)
    return np.where(spread > 0, expit(x), exact), spread


class _Rate:
    """The log-likelihood as a function of x = logit m."""

    def __init__(self, t: Array, alpha: float, beta: float, smallest: float) -> None:
        self._scale = _scale(smallest)
        self._ones, self._zeros, self._rows = map(self._scale.tables, np.split(t[:, _COUNTS:], 3, axis=1))
        self._a, self._b, self._prior = alpha + t[:, 3], beta + t[:, 4], betaln(alpha, beta)
        self._powers, self._orders = t[:, 3] + t[:, 4] - t[:, 2], t[:, 6] - self._prior
        self.without_spread = betaln(alpha + t[:, 0], beta + t[:, 1]) - self._prior
        self.start = logit((alpha + t[:, 0]) / (alpha + beta + t[:, 0] + t[:, 1]))
        self.resolution, self.providers = 1 / np.sqrt(1 + t[:, 5]), t[:, 2]

    def constant(self, delta: Array, report: Indexes) -> Array:
        """Return the terms that do not depend on m."""
        rows = self._rows.value(report, self._scale.position(np.log1p(1 / delta)))
        return np.asarray(self._orders[report] - self._powers[report] * np.log(delta) - rows)

    def slopes(self, x: Array, delta: Array, report: Indexes) -> tuple[Array, Array, Array]:
        """Return the log-likelihood and its first two derivatives; d ln(1 + a)/dm = s/(1 + a)."""
        odds, a, b, s = np.exp(np.minimum(x, _MAX_LOGIT)), self._a[report], self._b[report], 1 / delta
        both = 1 + odds
        w, log_both = 1 / both, np.log(both) + np.maximum(x - _MAX_LOGIT, 0.0)
        m = odds * w
        v = m * w
        value, first, second = a * x - (a + b) * log_both, a * w - b * m, -(a + b) * v
        for tables, rate, sign in ((self._ones, m, 1.0), (self._zeros, w, -1.0)):
            argument = 1 + rate * s
            part, slope, bend = tables.value_and_slopes(report, self._scale.position(np.log(argument)))
            chain = s / argument
            once, twice = sign * slope * chain, (bend - slope) * chain**2
            value, first, second = value + part, first + v * once, second + v * v * twice + v * (w - m) * once
        return value, first, second

    def values(self, x: Array, delta: Array, report: Indexes) -> Array:
        """Return the log-likelihood plus the log prior of x."""
        odds, s = np.exp(np.minimum(x, _MAX_LOGIT)), 1 / delta
        both = 1 + odds
        log_both = np.log(both)
        value = self._a[report] * x - (self._a + self._b)[report] * (log_both + np.maximum(x - _MAX_LOGIT, 0.0))
        value += self._ones.value(report, self._scale.position(np.log(both + odds * s) - log_both))
        value += self._zeros.value(report, self._scale.position(np.log(both + s) - log_both))
        return np.asarray(value)
