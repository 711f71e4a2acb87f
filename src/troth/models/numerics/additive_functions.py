"""Smooth functions that add over providers, carried as Chebyshev series.

A log-likelihood with a free spread is a sum over providers of functions of one number, such as lnΓ(a + k) − lnΓ(a + 1)
of a > 0. They are analytic on a log scale, with the nearest singularity at a distance of π, so that a few dozen
coefficients determine them to the last digits wherever they are wanted, and coefficients add.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from troth.core.contract import Array


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

    def place(self, a: Array) -> Array:
        """Where a lies on the scale, from −1 to 1; beyond the highest it is taken to be the highest."""
        return np.minimum(np.log1p(a / self.origin) / self.half - 1, 1.0)


def evaluate(series: Array, at: Array) -> Array:
    """Sum series ``(term, ...)`` at places whose leading axes are theirs, by Clenshaw's recurrence."""
    coefficients = series.reshape(*series.shape, *(1,) * (at.ndim - series.ndim + 1))
    twice = 2 * at
    later, latest, spare = np.zeros_like(at), np.zeros_like(at), np.empty_like(at)
    for coefficient in coefficients[:0:-1]:
        np.multiply(twice, later, out=spare)
        spare -= latest
        spare += coefficient
        later, latest, spare = spare, later, latest
    return np.asarray(at * later - latest + coefficients[0])


def evaluate_slopes(series: Array, at: Array) -> tuple[Array, Array]:
    """First and second derivative of series with respect to the place, by the derivatives of the recurrence."""
    coefficients = series.reshape(*series.shape, *(1,) * (at.ndim - series.ndim + 1))
    twice = 2 * at
    later, latest = np.zeros((3, *at.shape)), np.zeros((3, *at.shape))
    for coefficient in coefficients[:0:-1]:
        latest = twice * later - latest
        latest[0] += coefficient
        latest[1] += 2 * later[0]
        latest[2] += 4 * later[1]
        later, latest = latest, later
    return later[0] + at * later[1] - latest[1], 2 * later[1] + at * later[2] - latest[2]
