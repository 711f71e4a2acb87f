"""Smooth functions that add over providers, carried by their values at Chebyshev nodes.

A log-likelihood with a free spread is a sum over providers of functions of one number, such as lnΓ(a + k) − lnΓ(a + 1)
of a > 0. They are analytic on a log scale, with the nearest singularity at a distance of π, so that a few dozen values
determine them to the last digits wherever they are wanted, and values add.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.polynomial import chebyshev

if TYPE_CHECKING:
    from troth.core.contract import Array


class LogScale:
    """Chebyshev nodes for functions of a in [0, highest], on the scale of ln(origin + a)."""

    def __init__(self, highest: float, nodes: int, origin: float = 1.0) -> None:
        self.origin = origin
        self._middle = 0.5 * (np.log(origin + highest) + np.log(origin))
        self._half = 0.5 * np.log1p(highest / origin)
        self._places = np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)

    @property
    def nodes(self) -> Array:
        """Where functions are evaluated."""
        return np.asarray(self.origin * np.expm1(self._middle - np.log(self.origin) + self._half * self._places))

    @cached_property
    def _to_series(self) -> Array:
        """Maps values at the nodes to Chebyshev coefficients."""
        count = len(self._places)
        series = 2 / count * np.cos(np.outer(np.arange(count), np.arccos(self._places)))
        series[0] /= 2
        return np.asarray(series)

    @cached_property
    def _to_slopes(self) -> tuple[Array, Array]:
        """Maps values at the nodes to the coefficients of both derivatives on the log scale."""
        first = np.zeros_like(self._to_series)
        first[:-1] = chebyshev.chebder(self._to_series, axis=0) / self._half
        second = np.zeros_like(first)
        second[:-2] = chebyshev.chebder(self._to_series, 2, axis=0) / self._half**2
        return first, second

    def series(self, values: Array) -> Array:
        """Chebyshev coefficients of functions from their values, coefficients first."""
        return np.asarray(np.tensordot(self._to_series, values, axes=(1, -1)))

    def slopes(self, values: Array) -> tuple[Array, Array]:
        """Chebyshev coefficients of both derivatives with respect to ln(origin + a)."""
        first, second = self._to_slopes
        return np.tensordot(first, values, axes=(1, -1)), np.tensordot(second, values, axes=(1, -1))

    def place(self, a: Array) -> Array:
        """Where a lies on the scale, from −1 to 1; beyond the highest it is taken to be the highest."""
        at = (np.log(self.origin + a) - self._middle) / self._half
        return np.clip(at, -1.0, 1.0)


def evaluate(series: Array, at: Array) -> Array:
    """Sum Chebyshev series at places, by Clenshaw's recurrence; the leading axes of places are those of the series."""
    shape = (*series.shape[1:], *(1,) * (at.ndim - series.ndim + 1))
    twice = 2 * at
    later, latest = np.zeros_like(at), np.zeros_like(at)
    for coefficient in series[:0:-1]:
        later, latest = twice * later - latest + coefficient.reshape(shape), later
    return np.asarray(at * later - latest + series[0].reshape(shape))
