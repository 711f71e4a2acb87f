"""Yes or no, from providers whose rates differ: beta-binomial with mean m and pseudo-counts a = m·s, b = (1 − m)·s.

Given m and s a report of k ones among n rows has the log-likelihood F_k(a) + F_{n−k}(b) − F_n(s) with
F_k(a) = lnΓ(a + k) − lnΓ(a). For k > 0 it is ln a + lnΓ(k) + G_k(a), G_k(a) = Σ_{0<i<k} log1p(a/i), which is smooth
down to a = 0. So what adds over providers are counts, two functions of one number each, and one number for each s.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betaln, expit, log_expit, logit

from troth.core.blocks import for_each_chunk
from troth.models.numerics.additive_functions import LogScale, evaluate, evaluate_slopes
from troth.models.numerics.unimodal_integral import draw_points, find_peaks, laplace, log_integral

if TYPE_CHECKING:
    from collections.abc import Callable

    from troth.core.contract import Array, Generator

_TERMS = 84
_COUNTS = 5  # ones, zeros, providers with rows, with ones, with zeros
_NEGLIGIBLE = 25.0  # nats below the best spread at which a rough integral will do, a stencil away
_STENCIL = 9
_NARROW = 0.2  # on the scale of logit m
_CHUNK = 16


@lru_cache(maxsize=8)
def _scale(highest: float) -> LogScale:
    return LogScale(highest, _TERMS)


def report_width(spreads: Array) -> int:
    """How many numbers `summarise_report` returns."""
    return _COUNTS + 2 * _TERMS + len(spreads) - 1


def summarise_report(ones: Array, zeros: Array, spreads: Array) -> Array:
    """What adds over providers, for the spreads (s = spread⁻²) other than 0, the first."""
    strength = spreads[1:] ** -2.0
    rows = ones + zeros
    some_ones, some_zeros = (ones > 0).astype(np.float64), (zeros > 0).astype(np.float64)
    mixed = (ones > 0) & (zeros > 0)
    orders = np.where(mixed, betaln(np.where(mixed, ones, 1.0), np.where(mixed, zeros, 1.0)), 0.0)

    def total(n: Array) -> Array:
        return np.where(n > 0, betaln(strength, np.maximum(n, 1.0)), 0.0)

    constant = _by_count(rows, total) + (some_ones + some_zeros)[..., None] * np.log(strength) + orders[..., None]
    counts = np.stack([ones, zeros, (rows > 0).astype(np.float64), some_ones, some_zeros], axis=-1)
    scale = _scale(float(strength.max()))

    def rising(n: Array) -> Array:
        return scale.series(lambda a: np.where(n > 0, -betaln(np.maximum(n, 1.0), a + 1) - np.log(a + n), 0.0))

    return np.concatenate([counts, _by_count(ones, rising), _by_count(zeros, rising), constant], axis=-1)


def evidence_by_spread(statistics: Array, alpha: float, beta: float, spreads: Array) -> Array:
    """Ln ∫ Beta(m; α, β) exp(log-likelihood) dm for each spread, 0 first, where it is ln B(α + ones, β + zeros)."""
    flat = np.ascontiguousarray(statistics.reshape(-1, statistics.shape[-1])) + 0.0
    _, first, which = np.unique(flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))), True, True)
    distinct = flat[first]
    evidence = np.empty((len(distinct), len(spreads)))
    evidence[:, 0] = betaln(alpha + distinct[:, 0], beta + distinct[:, 1]) - betaln(alpha, beta)

    def work(chunk: slice) -> None:
        evidence[chunk, 1:] = _integrate_mean(distinct[chunk], alpha, beta, spreads[1:] ** -2.0)

    for_each_chunk(len(distinct), _CHUNK, work)
    return evidence[which.ravel()].reshape(*statistics.shape[:-1], -1)


def draw_mean(rng: Generator, t: Array, alpha: float, beta: float, spread: Array, spreads: Array) -> Array:
    """Draw m given statistics ``(report, statistic)`` and a spread for each."""
    exact = rng.beta(alpha + t[:, 0], beta + t[:, 1])
    report, strength = np.arange(len(t)), np.maximum(spread, spreads[1]) ** -2.0
    mean = _Mean(t, alpha, beta, spreads[1:] ** -2.0)
    start = logit((alpha + t[:, 0]) / (alpha + beta + t[:, 0] + t[:, 1]))
    peak, width = find_peaks(lambda x: mean.slopes(x, strength, report), start)

    def values(x: Array) -> Array:
        return mean.values(x, strength[:, None], report)

    return np.where(spread > 0, expit(draw_points(rng.random((2, len(t))), values, peak, width)), exact)


class _Mean:
    """The log-likelihood as a function of logit m, for pairs of a report and a strength s."""

    def __init__(self, t: Array, alpha: float, beta: float, strength: Array) -> None:
        self._scale = _scale(float(strength.max()))
        series = np.split(t[:, _COUNTS : _COUNTS + 2 * _TERMS], 2, axis=1)
        self._ones, self._zeros = (self._scale.tables(part) for part in series)
        self._a, self._b = alpha + t[:, 3], beta + t[:, 4]

    def slopes(self, x: Array, s: Array, report: Array) -> tuple[Array, Array]:
        """First and second derivative; d ln(1 + a)/dm = s/(1 + a), and the place is proportional to ln(1 + a)."""
        m, w, a, b = expit(x), expit(-x), self._a[report], self._b[report]
        v, unit = m * w, self._scale.cells / (2 * self._scale.half)
        first, second = a * w - b * m, -(a + b) * v
        for tables, rate, sign in ((self._ones, m, 1.0), (self._zeros, w, -1.0)):
            slope, bend = evaluate_slopes(tables, report, self._scale.place(rate * s))
            chain = unit * s / (1 + rate * s)
            of_rate, of_rate_twice = sign * slope * chain, (bend - slope / unit) * chain**2
            first, second = first + v * of_rate, second + v * v * of_rate_twice + v * (w - m) * of_rate
        return first, second

    def values(self, x: Array, s: Array, report: Array) -> Array:
        """The log-likelihood plus the log prior in logit m, but for terms without m."""
        report = report.reshape(*report.shape, *(1,) * (x.ndim - report.ndim))
        log_m = log_expit(x)
        value = (self._a + self._b)[report] * log_m - self._b[report] * x
        value += evaluate(self._ones, report, self._scale.place(np.exp(log_m) * s))
        return np.asarray(value + evaluate(self._zeros, report, self._scale.place(np.exp(log_m - x) * s)))


def _integrate_mean(t: Array, alpha: float, beta: float, strength: Array) -> Array:
    """Integrate over m for each spread: exactly where the spread is plausible, roughly where it is not."""
    mean = _Mean(t, alpha, beta, strength)
    constant = t[:, _COUNTS + 2 * _TERMS :] - betaln(alpha, beta)
    start = logit((alpha + t[:, 0]) / (alpha + beta + t[:, 0] + t[:, 1]))
    places = np.arange(len(strength))
    few = np.unique(np.append(places[::4], places[-1]))
    everyone = np.repeat(np.arange(len(t))[:, None], len(few), axis=1)
    peaks, widths = find_peaks(lambda x: mean.slopes(x, strength[few], everyone), np.repeat(start[:, None], len(few), 1))
    rough = laplace(mean.values(peaks, strength[few], everyone), widths) + constant[:, few]
    evidence, guess = (np.stack([np.interp(places, few, row) for row in part]) for part in (rough, peaks))
    best = evidence > evidence.max(axis=1, keepdims=True) - _NEGLIGIBLE
    near = np.stack([np.convolve(row, np.ones(2 * _STENCIL + 1), "same") > 0.5 for row in best])
    report, spread = np.nonzero(near)
    s = strength[spread]
    peak, width = find_peaks(lambda x: mean.slopes(x, s, report), guess[near])
    integral = log_integral(lambda x, which: mean.values(x, s[which][:, None], report[which]), peak, width, _NARROW)
    evidence[near] = integral + constant[near]
    return evidence


def _by_count(counts: Array, function: Callable[[Array], Array]) -> Array:
    """Evaluate a function of counts ``(n, 1)`` once for each different count."""
    distinct, which = np.unique(counts, return_inverse=True)
    return np.asarray(function(distinct[:, None])[which.reshape(counts.shape)])
