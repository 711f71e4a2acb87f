"""Smooth functions that add over providers, represented by their values on a logarithmic grid.

A log-likelihood with a free spread is a sum over providers of functions of one variable, such as
lnΓ(a + k) − lnΓ(a + 1) for a > 0. On a log scale they are analytic, with the nearest singularity at a distance of π.
Polynomials through 14 values, spaced by 0.2, interpolate them to 1e-12 of the singularity's strength, and values add.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from troth.core.contract import Array, Indexes

_SPACING = 0.2
_STENCIL = 14
_POWERS = 8  # higher powers of the interpolating polynomial are negligible within a cell


class LogScale:
    """A grid for functions of a in [lowest, highest], uniform in ln(origin + a).

    Functions are evaluated at its ``nodes``. Some lie below the lowest or above the highest a, but all above −origin.
    """

    def __init__(self, lowest: float, highest: float, origin: float) -> None:
        self.origin, self._low = origin, np.log(origin + lowest)
        self.cells = int(np.ceil((np.log(origin + highest) - self._low) / _SPACING))
        steps = np.arange(self.cells + _STENCIL - 1) - (_STENCIL // 2 - 1)
        self.nodes = np.exp(self._low + _SPACING * steps) - origin

    def position(self, logarithm: Array) -> Array:
        """Convert ln(origin + a) to a position in cells."""
        return np.asarray((logarithm - self._low) / _SPACING)

    def tables(self, values: Array) -> Tables:
        """Fit a polynomial in each cell to the values of functions, ``(function, node)``."""
        by_node = np.ascontiguousarray(values.T)
        ends = [(by_node[j : j + self.cells], by_node[_STENCIL - 1 - j :][: self.cells]) for j in range(_STENCIL // 2)]
        halves = [[left + right for left, right in ends], [left - right for left, right in ends]]
        coefficients = np.empty((_POWERS, self.cells, len(values)))
        for power, total in enumerate(coefficients):
            np.multiply(halves[power % 2][0], _FROM_VALUES[power, 0], out=total)
            for weight, part in zip(_FROM_VALUES[power, 1:], halves[power % 2][1:], strict=True):
                total += weight * part
        return Tables(coefficients.reshape(_POWERS, -1), self.cells, len(values))


def _from_values() -> Array:
    """Return the weights of values left of a cell's middle in its coefficients; on the right only signs may differ."""
    local = np.cos(np.pi * (np.arange(_POWERS) + 0.5) / _POWERS)
    nodes = 2.0 * np.arange(_STENCIL) - (_STENCIL - 1)
    lagrange = np.array(  # the cell is [−1, 1]
        [[np.prod([(x - other) / (node - other) for other in nodes if other != node]) for node in nodes] for x in local]
    )
    return np.asarray(np.linalg.solve(np.vander(local, _POWERS, increasing=True), lagrange)[:, : _STENCIL // 2])


_FROM_VALUES = _from_values()


class Tables:
    """Functions on one scale, as a polynomial in each cell; beyond the last cell they are extrapolated linearly."""

    def __init__(self, coefficients: Array, cells: int, functions: int) -> None:
        self._coefficients, self._cells, self._functions = coefficients, cells, functions

    def _local(self, function: Indexes, position: Array) -> tuple[Indexes, Array]:
        """Return the coefficients' indices, and the position in the cell from −1 to 1, or beyond 1 in the last cell."""
        cell = np.clip(position, 0.0, self._cells - 1.0).astype(np.intp)
        u = position - cell
        u += u
        u -= 1.0
        cell *= self._functions
        cell += function
        return cell, u

    def value(self, function: Indexes, position: Array) -> Array:
        """Evaluate functions, given by their indices, at positions in cells."""
        cell, u = self._local(function, position)
        beyond = np.maximum(u - 1.0, 0.0) if u.max(initial=0.0) > 1.0 else None
        u = u if beyond is None else u - beyond
        value = self._coefficients[-1].take(cell, mode="clip")
        slope: Array | float = 0.0
        part = np.empty_like(u)
        for power in self._coefficients[-2::-1]:
            if beyond is not None:
                slope = slope * u + value
            value *= u
            value += power.take(cell, mode="clip", out=part)
        return np.asarray(value if beyond is None else value + beyond * slope)

    def value_and_slopes(self, function: Indexes, position: Array) -> tuple[Array, Array, Array]:
        """Evaluate functions and their first and second derivatives with respect to ln(origin + a)."""
        cell, u = self._local(function, position)
        beyond = np.maximum(u - 1.0, 0.0)
        u = u - beyond
        value, slope, bend = self._coefficients[-1].take(cell, mode="clip"), np.zeros_like(u), np.zeros_like(u)
        for power in self._coefficients[-2::-1]:
            bend *= u
            bend += slope
            slope *= u
            slope += value
            value *= u
            value += power.take(cell, mode="clip")
        inside = beyond == 0
        return value + beyond * slope, (2 / _SPACING) * slope, (8 / _SPACING**2) * bend * inside


def by_count(counts: Array, function: Callable[[Array], Array]) -> Array:
    """Evaluate a function of counts ``(n, 1)`` once per distinct count."""
    distinct, inverse = np.unique(counts, return_inverse=True)
    return np.asarray(function(distinct[:, None])[inverse.reshape(counts.shape)])
