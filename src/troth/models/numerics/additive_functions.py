"""Smooth functions that add over providers, carried as Chebyshev series.

A log-likelihood with a free spread is a sum over providers of functions of one number, such as lnΓ(a + k) − lnΓ(a + 1)
of a > 0. They are analytic on a log scale, with the nearest singularity at a distance of π, so that a few dozen
coefficients determine them to the last digits wherever they are wanted, and coefficients add.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from troth.core.contract import Array


_POWERS = 10


class LogScale:
    """Chebyshev series of functions of a in [0, highest], on the scale of ln(origin + a)."""

    def __init__(self, highest: float, terms: int, origin: float = 1.0) -> None:
        self.terms, self.origin = terms, origin
        self.half = 0.5 * np.log1p(highest / origin)
        angles = np.pi * (np.arange(terms) + 0.5) / terms
        self._nodes = origin * np.expm1(self.half * (1 + np.cos(angles)))
        self._to_series = 2 / terms * np.cos(np.outer(np.arange(terms), angles))
        self._to_series[0] /= 2

    def series(self, function: Callable[[Array], Array]) -> Array:
        """Coefficients of a function of the nodes, which come on the last axis."""
        return np.asarray(np.einsum("...n,kn->...k", function(self._nodes), self._to_series))

    def tables(self, series: Array) -> Array:
        """Polynomials in each cell of the scale, ``(function, cell, power)``, from series ``(function, term)``."""
        return np.asarray(np.einsum("fk,kp->fp", series, self._to_tables)).reshape(len(series), -1, _POWERS)

    @cached_property
    def _to_tables(self) -> Array:
        cells = self.cells
        local = np.cos(np.pi * (np.arange(_POWERS) + 0.5) / _POWERS)
        middles = (2 * np.arange(cells) + 1) / cells - 1
        angles = np.arccos(np.clip(middles[:, None] + local / cells, -1, 1))
        values = np.cos(np.arange(self.terms)[:, None, None] * angles)
        to_powers = np.linalg.inv(np.vander(local, _POWERS, increasing=True))
        return np.asarray((values @ to_powers.T).reshape(self.terms, -1))

    @property
    def cells(self) -> int:
        """How many cells there are: each is short enough for a polynomial of degree 9."""
        return int(np.ceil(2 * self.half / 0.3))

    def place(self, a: Array) -> Array:
        """Where a lies on the scale, in cells."""
        return np.asarray(np.log1p(a / self.origin) * self.unit)

    @cached_property
    def unit(self) -> float:
        """Cells for each unit of ln(origin + a)."""
        return float(self.cells / (2 * self.half))


def evaluate(tables: Array, which: NDArray[np.intp], at: Array) -> Array:
    """Evaluate functions ``which`` at places in cells; beyond the last they go on as straight lines."""
    coefficients, x, beyond = _local(tables, which, at)
    value = coefficients[..., -1]
    for power in range(_POWERS - 2, -1, -1):
        value = value * x + coefficients[..., power]
    if beyond.any():
        value = value + beyond * (coefficients @ (2.0 * np.arange(_POWERS)))
    return np.asarray(value)


def evaluate_slopes(tables: Array, which: NDArray[np.intp], at: Array) -> tuple[Array, Array]:
    """First and second derivative with respect to the place, in cells."""
    coefficients, x, beyond = _local(tables, which, at)
    value, slope, bend = coefficients[..., -1], np.zeros_like(x), np.zeros_like(x)
    for power in range(_POWERS - 2, -1, -1):
        bend = bend * x + 2 * slope
        slope = slope * x + value
        value = value * x + coefficients[..., power]
    return 2 * slope, np.where(beyond > 0, 0.0, 4 * bend)


def _local(tables: Array, which: NDArray[np.intp], at: Array) -> tuple[Array, Array, Array]:
    """Coefficients of the cells, the place in them from −1 to 1, and how far beyond the last cell."""
    cells = tables.shape[1]
    inside = np.minimum(at, float(cells))
    cell = np.minimum(inside.astype(np.intp), cells - 1)
    return tables.reshape(-1, _POWERS)[which * cells + cell], 2 * (inside - cell) - 1, at - inside


def by_count(counts: Array, function: Callable[[Array], Array]) -> Array:
    """Evaluate a function of counts ``(n, 1)`` once for each different count."""
    distinct, which = np.unique(counts, return_inverse=True)
    return np.asarray(function(distinct[:, None])[which.reshape(counts.shape)])
