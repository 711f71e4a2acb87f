"""The integral over an unknown spread, whose prior is log-uniform on an interval with a point mass at 0.

The log evidence given the spread is a smooth function of ln spread², with the nearest singularity at a distance of π.
Polynomials through 16 values, spaced by 0.4, interpolate it to 1e-8, and Gauss–Legendre quadrature integrates its
exponential. With N effects, one per provider and coefficient, the posterior standard deviation of ln spread² is at
least √(2/N), which is the distance between the quadrature points.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, comb, log

import numpy as np

from troth.core.blocks import for_each_chunk
from troth.core.contract import Array, Generator, Indexes
from troth.models.numerics.log_sum_exp import log_sum_exp

CHANCE_OF_NO_SPREAD = 0.1
"""Prior probability that providers do not differ at all."""

_SPACING = 0.4
_STENCIL = 16
_COARSEST = 0.32  # distance of quadrature points for up to 16 effects; halved for every factor of four
_CHUNK = 1 << 15


class SpreadGrid:
    """Nodes at which a log evidence is evaluated, and the quadrature of its integral over the spread.

    The ``nodes`` are 0, and spreads from below the smallest to above the largest possible one.

    Examples
    --------
    >>> grid = SpreadGrid(0.01, 1.0)
    >>> bool(abs(grid.integrate(np.zeros(len(grid.nodes)), np.array(3.0))) < 1e-12)
    True
    """

    def __init__(self, smallest: float, largest: float) -> None:
        self._low, self._high = 2 * log(smallest), 2 * log(largest)
        margin = _STENCIL // 2 * _SPACING
        self._nodes = np.arange(self._low - margin, self._high + margin + _SPACING, _SPACING)
        self.nodes = np.concatenate([[0.0], np.exp(self._nodes / 2)])
        self._quadratures: dict[int, _Quadrature] = {}

    def draw(self, rng: Generator, evidence: Array, effects: Array) -> Array:
        """Draw a spread given its log evidence at the nodes."""
        quadrature = self.quadrature(float(np.max(effects, initial=0.0)))
        weights = quadrature.posterior(evidence)
        below = np.cumsum(np.exp(weights - weights.max(axis=-1, keepdims=True)), axis=-1)
        index = (below < rng.random((*below.shape[:-1], 1)) * below[..., -1:]).sum(axis=-1)
        points = 2 * np.log(quadrature.spreads[1:])
        ends = np.concatenate([[self._low] * 2, (points[1:] + points[:-1]) / 2, [self._high]])
        low, high = ends[index], ends[np.minimum(index + 1, len(ends) - 1)]
        return np.where(index > 0, np.exp((low + (high - low) * rng.random(index.shape)) / 2), 0.0)

    def interpolate(self, values: Array, spreads: Array) -> Array:
        """Interpolate values linearly in ln spread; their node axis follows the axes of the spreads."""
        position = 1 + (2 * np.log(np.maximum(spreads, self.nodes[1])) - self._nodes[0]) / _SPACING
        low = np.where(spreads > 0, np.minimum(position.astype(np.intp), len(self.nodes) - 2), 0)
        part = np.where(spreads > 0, position - low, 0.0)
        axis, more = spreads.ndim, (...,) + (None,) * (values.ndim - spreads.ndim - 1)
        low = low[(..., None, *more[1:])]
        below, above = (np.take_along_axis(values, low + k, axis).squeeze(axis) for k in (0, 1))
        return np.asarray(below + part[more] * (above - below))

    def quadrature(self, effects: float) -> _Quadrature:
        """Return the quadrature for the given number of effects."""
        level = max(0, ceil(log(max(effects, 1.0) / 16, 4) - 1e-9))
        if level not in self._quadratures:
            self._quadratures[level] = _Quadrature(self._nodes, self._low, self._high, _COARSEST / 2**level)
        return self._quadratures[level]

    def integrate(self, evidence: Array, effects: Array) -> Array:
        """Return the log evidence given its values at the nodes and the numbers of effects."""
        values, counts = evidence.reshape(-1, evidence.shape[-1]), np.broadcast_to(effects, evidence.shape[:-1])
        total = np.empty(len(values))
        quadratures = {count: self.quadrature(count) for count in np.unique(counts).tolist()}
        for quadrature in dict.fromkeys(quadratures.values()):
            rows = np.flatnonzero(np.isin(counts, [n for n, other in quadratures.items() if other is quadrature]))

            def work(chunk: slice, quadrature: _Quadrature = quadrature, rows: Indexes = rows) -> None:
                total[rows[chunk]] = log_sum_exp(quadrature.posterior(values[rows[chunk]]))

            for_each_chunk(len(rows), max(1, _CHUNK // len(quadrature.spreads)), work)
        return total.reshape(evidence.shape[:-1])


class _Quadrature:
    """Quadrature points, their weights, and interpolation from the nodes."""

    def __init__(self, nodes: Array, low: float, high: float, spacing: float) -> None:
        points, weights = np.polynomial.legendre.leggauss(ceil(np.pi / 2 * (high - low) / spacing))
        points = 0.5 * (low + high) + 0.5 * (high - low) * points
        self.spreads = np.concatenate([[0.0], np.exp(points / 2)])
        self._log_weights = np.log(np.concatenate([[CHANCE_OF_NO_SPREAD], (1 - CHANCE_OF_NO_SPREAD) * weights / 2]))
        self._first = np.searchsorted(nodes, points) - _STENCIL // 2
        gaps = points[:, None] - nodes[self._first[:, None] + np.arange(_STENCIL)]
        signs = np.array([(-1.0) ** i * comb(_STENCIL - 1, i) for i in range(_STENCIL)])
        terms = signs / np.where(gaps == 0, 1e-200, gaps)
        self._lagrange = terms / terms.sum(axis=1, keepdims=True)

    def posterior(self, evidence: Array) -> Array:
        """Return the log of prior times evidence at spread 0 and at each point, given the values at the nodes.

        Terms are added in a fixed order, so the result for one report does not depend on the rest of the batch.
        """
        top = evidence.max(axis=-1, keepdims=True)
        values = evidence[..., 1:] - top
        between = np.zeros((*evidence.shape[:-1], len(self._first)))
        for i in range(_STENCIL):
            between += self._lagrange[:, i] * values[..., self._first + i]
        return np.asarray(np.concatenate([evidence[..., :1], between + top], axis=-1) + self._log_weights)


spread_grid = lru_cache(maxsize=32)(SpreadGrid)
