"""Ln ∫ exp f for many functions with one peak each, by the trapezoidal rule around the peak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from troth.core.contract import Array

_ITERATIONS = 100
_CLOSE = 0.05  # of a standard deviation: the rule is as exact a little off the peak
_T = 0.18 * np.arange(-24, 25)
_SKEWED = np.sinh(_T), np.log(0.18 * np.cosh(_T))
_NORMAL = 0.9 * np.arange(-7.0, 8.0), np.full(15, np.log(0.9))


def find_peaks(slopes: Callable[[Array], tuple[Array, Array]], start: Array) -> tuple[Array, Array]:
    """Return where functions peak and the width there, from their first two derivatives, by Newton's method."""
    x = start
    for _ in range(_ITERATIONS):
        slope, bend = slopes(x)
        curvature = np.where(-bend > 1e-8, -bend, np.abs(slope) + 1e-8)
        step = np.where(still := np.abs(slope) > _CLOSE * np.sqrt(curvature), slope / curvature, 0.0)
        if not still.any():
            break
        x = x + np.clip(step, -2.0, 2.0)
    return x, 1 / np.sqrt(curvature)


def log_integral(values: Callable[[Array, Any], Array], peak: Array, width: Array, narrow: float) -> Array:
    """Ln ∫ exp f by the trapezoidal rule, which converges exponentially for smooth functions that fall off.

    Functions narrower than ``narrow`` are near enough to a normal for equal steps of 0.9 widths; others, whose tails
    may be exponential, take x = peak + width·sinh t. ``values`` takes points ``(function, point)`` and which functions.
    """
    integral = np.empty(peak.shape)
    for which, (points, log_weights) in ((width < narrow, _NORMAL), (width >= narrow, _SKEWED)):
        if which.any():
            terms = values(peak[which][:, None] + width[which][:, None] * points, which) + log_weights
            top = terms.max(axis=-1)
            integral[which] = np.log(np.exp(terms - top[:, None]).sum(axis=-1)) + top + np.log(width[which])
    return integral


def laplace(values: Array, width: Array) -> Array:
    """Ln ∫ exp f roughly, from its value at the peak."""
    return np.asarray(values + np.log(np.sqrt(2 * np.pi) * width))


def draw_points(uniform: Array, values: Callable[[Array], Array], peak: Array, width: Array) -> Array:
    """Turn two uniform numbers for each function, ``(2, function)``, into a draw from its exponential.

    A cell of the trapezoidal rule is drawn, and a point in it: the density is taken to be constant within a cell.
    """
    points, log_weights = _SKEWED
    terms = values(peak[:, None] + width[:, None] * points) + log_weights
    below = np.cumsum(np.exp(terms - terms.max(axis=-1, keepdims=True)), axis=-1)
    cell = (below < uniform[0][:, None] * below[:, -1:]).sum(axis=-1)
    return np.asarray(peak + width * np.sinh(_T[cell] + 0.18 * (uniform[1] - 0.5)))
