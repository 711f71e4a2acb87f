"""The integral over a common location and an unknown spread, for families whose reports depend on both.

The log evidence L given the spread is analytic in δ = spread² near 0: it hardly changes where data cannot distinguish
spreads from 0. So L is a smooth function of w = ln(δ₀ + δ), where δ₀ is the resolution of the largest report, with the
nearest singularity at a distance of π. L is computed at Chebyshev points of the relevant interval of w, each by an
integral over the location, and Gauss–Legendre quadrature integrates its exponential over the spread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from troth.core.blocks import for_each_chunk
from troth.core.contract import Array, Generator, Indexes
from troth.models.numerics.spread_grid import CHANCE_OF_NO_SPREAD
from troth.models.numerics.unimodal_integral import Peaks, Slopes, draw_points, find_peaks, find_tails, log_integral

_COARSE_POINTS = 10
_NEGLIGIBLE = 17.0  # nats below the best spread
_PRECISION = 14.0  # −ln of the error of L
_MAX_POINTS = 64  # Chebyshev points
_CELLS = 256  # of the histogram from which spreads are drawn
_CHUNK = 256
_DRAWS = 1024  # per chunk


class Location(Protocol):
    """Log-likelihood plus log prior as a unimodal function of the location, for reports and spreads."""

    without_spread: Array  # log evidence of each report at spread 0
    start: Array  # close to the mode at spread 0
    resolution: Array  # δ₀ of each report
    providers: Array  # number of providers in each report's sums

    def constant(self, delta: Array, report: Indexes) -> Array:
        """Return the terms that do not depend on the location."""

    def slopes(self, x: Array, delta: Array, report: Indexes) -> tuple[Array, Array, Array]:
        """Return the function without its constant terms, and its first and second derivative."""

    def values(self, x: Array, delta: Array, report: Indexes) -> Array:
        """Return the function alone, with points on the last axis."""


class BySpread(NamedTuple):
    """L at Chebyshev points of an interval of w, ``(report, point)``, for reports with equally many points."""

    report: Indexes
    evidence: Array
    low: Array
    high: Array
    resolution: Array
    without_spread: Array
    providers: Array

    def integrate(self, low: float, high: float) -> Array:
        """Return the log evidence, with a log-uniform prior of the spread on [low, high] and a point mass at 0.

        The integrand over w is exp(L)·(δ₀ + δ)/δ. Its integral for exp(L) = exp(L₀)·δ₀/(δ₀ + δ) is known, and only the
        difference from it is integrated numerically.
        """
        total = np.empty(len(self.report))
        widths = (self.high - self.low) * np.sqrt(1 + self.providers / 16)
        steep = np.sqrt(self.evidence.max(axis=1) - self.evidence.min(axis=1))  # near an end, where nodes are dense
        finer = np.ceil(np.log2(np.maximum(widths / 5, steep / 12)))
        levels = np.clip(np.nan_to_num(finer), 0, 5).astype(int)  # for NaN any level will do: the result is NaN
        for level in np.unique(levels).tolist():
            rows = levels == level
            matrix, nodes, weights = _quadrature(self.evidence.shape[1], 32 << level)
            known, half = self.resolution[rows, None], 0.5 * (self.high - self.low)[rows, None]
            values, without_spread = self.evidence[rows], self.without_spread[rows, None]
            top = np.maximum(values.max(axis=1, keepdims=True), without_spread)
            values, ratio = values - top, np.exp(without_spread - top)
            between = np.zeros((len(values), len(nodes)))
            for point, row in enumerate(matrix):
                between += values[:, point, None] * row
            outer = np.exp(self.low[rows, None] + half * (1 + nodes))
            excess = (np.exp(between) * outer - ratio * known) / (outer - known)
            ends = np.log(-np.expm1(np.log(known) - np.stack([self.low[rows, None], self.high[rows, None]])))
            spread = half[:, 0] * (excess * weights).sum(axis=1) + (ratio * (ends[1] - ends[0]))[:, 0]
            mixed = CHANCE_OF_NO_SPREAD * ratio[:, 0] + (1 - CHANCE_OF_NO_SPREAD) / (2 * np.log(high / low)) * spread
            total[rows] = np.log(mixed) + top[:, 0]
        return total

    def draw(self, rows: Indexes, uniform: Array, low: float, high: float) -> Array:
        """Transform two uniform draws, ``(2, draw)``, into spreads of the reports in ``rows``."""
        first, last = (np.log(np.exp(end) - self.resolution)[:, None] for end in (self.low, self.high))
        step = (last - first) / _CELLS
        v = first + step * (np.arange(_CELLS) + 0.5)
        u = (np.log(np.exp(v) + self.resolution[:, None]) - self.low[:, None]) / (self.high - self.low)[:, None]
        points = self.evidence.shape[1]
        angles = np.pi * (np.arange(points) + 0.5) / points
        above, below = np.zeros_like(u), np.zeros_like(u)
        for point, angle in enumerate(angles):
            gap = 2 * u - 1 - np.cos(angle)
            term = (-1) ** point * np.sin(angle) / np.where(gap == 0, 1e-200, gap)
            above, below = above + term * self.evidence[:, point, None], below + term
        between = above / below
        top = np.maximum(between.max(axis=1), self.without_spread)[:, None]
        weights = (1 - CHANCE_OF_NO_SPREAD) / (2 * np.log(high / low)) * step * np.exp(between - top)
        without_spread = CHANCE_OF_NO_SPREAD * np.exp(self.without_spread[:, None] - top)
        summed = np.cumsum(np.concatenate([without_spread, weights], axis=1), axis=1)
        cell = (summed[rows] < (uniform[0] * summed[rows, -1])[:, None]).sum(axis=1)
        inside = v[rows, np.maximum(cell - 1, 0)] + step[rows, 0] * (uniform[1] - 0.5)
        return np.where(cell == 0, 0.0, np.exp(0.5 * inside))


@lru_cache(maxsize=64)
def _quadrature(points: int, nodes: int) -> tuple[Array, Array, Array]:
    """Return the interpolation matrix from Chebyshev points to Gauss–Legendre nodes, the nodes and their weights."""
    x, weights = np.polynomial.legendre.leggauss(nodes)
    angles = np.pi * (np.arange(points) + 0.5) / points
    powers = np.cos(np.arange(points)[:, None] * angles) * np.where(np.arange(points) > 0, 2.0, 1.0)[:, None] / points
    return np.asarray(powers.T @ np.cos(np.arange(points)[:, None] * np.arccos(x))), x, weights


def evidence_by_spread(location: Location, low: float, high: float) -> list[BySpread]:
    """Compute L on the relevant interval of each report, grouped by the number of points."""
    reports = len(location.start)
    report_of_step = np.repeat(np.arange(reports), _COARSE_POINTS)
    first = np.log(low**2 + location.resolution)
    step = (np.log(high**2 + location.resolution) - first) / (_COARSE_POINTS - 1)
    steps = np.tile(np.arange(_COARSE_POINTS), reports)
    delta = np.exp(first[report_of_step] + step[report_of_step] * steps) - location.resolution[report_of_step]
    slopes = _slopes_at(location, delta, report_of_step)
    coarse = find_tails(slopes, *find_peaks(slopes, location.start[report_of_step], 0.3))
    laplace = coarse.value + np.log(coarse.width) + location.constant(delta, report_of_step)
    laplace = laplace.reshape(reports, _COARSE_POINTS)
    relevant = laplace > laplace.max(axis=1, keepdims=True) - _NEGLIGIBLE
    left = np.maximum(np.argmax(relevant, axis=1) - 1, 0)
    right = np.minimum(_COARSE_POINTS - np.argmax(relevant[:, ::-1], axis=1), _COARSE_POINTS - 1)
    ends = first + step * left, first + step * right
    length = ends[1] - ends[0]
    points = np.ceil((_PRECISION + np.log1p(location.providers)) / np.arcsinh(2 * np.pi / length) / 4).astype(int) * 4
    points = np.minimum(points, _MAX_POINTS)

    report = np.repeat(np.arange(reports), points)
    number = np.arange(len(report)) - np.repeat(np.cumsum(points) - points, points)
    u = 0.5 * (1 + np.cos(np.pi * (number + 0.5) / points[report]))
    deltas = np.exp(ends[0][report] + length[report] * u) - location.resolution[report]
    position = left[report] + (right - left)[report] * u
    before = np.minimum(position.astype(np.intp), _COARSE_POINTS - 2)
    part = position - before
    before += _COARSE_POINTS * report

    def between(values: Array) -> Array:
        return np.asarray((1 - part) * values[before] + part * values[before + 1])

    peak, value, width = find_peaks(_slopes_at(location, deltas, report), between(coarse.mode), 0.15)
    tails = (1.05 * width * between(tail / coarse.width) for tail in (coarse.left, coarse.right))
    evidence = log_integral(
        lambda x, function: location.values(x, deltas[function], report[function]), Peaks(peak, value, width, *tails)
    ) + location.constant(deltas, report)
    groups = []
    for count in np.unique(points).tolist():
        rows = np.flatnonzero(points == count)
        values = evidence[np.repeat(points == count, points)].reshape(len(rows), count)
        by_report = (ends[0], ends[1], location.resolution, location.without_spread, location.providers)
        groups.append(BySpread(rows, values, *(array[rows] for array in by_report)))
    return groups


def _slopes_at(location: Location, delta: Array, report: Indexes) -> Slopes:
    """Return the slopes of functions that each belong to one report and one δ."""
    return lambda x, chosen: location.slopes(x, delta[chosen], report[chosen])


def integrate(statistics: Array, location: Callable[[Array], Location], low: float, high: float) -> Array:
    """Return the log evidence of statistics ``(..., statistic)``: the integral over location and spread."""
    distinct, inverse = _distinct(statistics.reshape(-1, statistics.shape[-1]))
    result = np.empty(len(distinct))

    def work(chunk: slice) -> None:
        for group in evidence_by_spread(location(distinct[chunk]), low, high):
            result[chunk][group.report] = group.integrate(low, high)

    for_each_chunk(len(distinct), _CHUNK, work)
    return np.asarray(result[inverse].reshape(statistics.shape[:-1]))


def draw(
    rng: Generator, statistics: Array, location: Callable[[Array], Location], low: float, high: float
) -> tuple[Array, Array]:
    """Draw (location, spread) for statistics ``(report, statistic)``.

    If the spread is 0, the caller must draw the location from its exact posterior.
    """
    distinct, inverse = _distinct(statistics)
    order = np.argsort(inverse, kind="stable")
    ends = np.searchsorted(inverse[order], np.arange(len(distinct) + 1))
    uniform = rng.random((4, len(statistics)))
    samples = np.empty((2, len(statistics)))

    def work(reports: slice) -> None:
        local = location(distinct[reports])
        groups = evidence_by_spread(local, low, high)
        for first in range(ends[reports.start], ends[reports.stop], _DRAWS):
            chosen = order[first : min(first + _DRAWS, ends[reports.stop])]
            report, spread = inverse[chosen] - reports.start, np.empty(len(chosen))
            for group in groups:
                rows = np.flatnonzero(np.isin(report, group.report))
                within = np.searchsorted(group.report, report[rows])
                spread[rows] = group.draw(within, uniform[:2, chosen[rows]], low, high)
            samples[:, chosen] = _draw_location(local, report, spread, uniform[2:, chosen], low), spread

    for_each_chunk(len(distinct), _CHUNK, work)
    return samples[0], samples[1]


def _draw_location(location: Location, report: Indexes, spread: Array, uniform: Array, low: float) -> Array:
    delta = np.where(spread > 0, spread, low) ** 2
    slopes = _slopes_at(location, delta, report)
    peaks = find_tails(slopes, *find_peaks(slopes, location.start[report], 0.1))
    return draw_points(uniform, lambda x: location.values(x, delta[:, None], report[:, None]), peaks)


def _distinct(statistics: Array) -> tuple[Array, Indexes]:
    """Return the distinct rows of a table, and the index of each row among them."""
    flat = np.ascontiguousarray(statistics) + 0.0
    _, first, inverse = np.unique(flat.view(np.dtype((np.void, flat.itemsize * flat.shape[1]))), True, True)
    return flat[first], inverse.ravel()
