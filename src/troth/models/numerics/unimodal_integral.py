"""Ln ∫ exp f for many unimodal functions, by the trapezoidal rule on the range within 16 nats of the peak.

The functions are analytic up to a distance of π from the real line, like the log density of a log-gamma variable. With
steps of width/(1 + width), at most 0.5, the rule is accurate to 1e-7. Only the lengths of the tails differ much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from troth.core.contract import Array, Indexes

Slopes: TypeAlias = Callable[[Array, Indexes], tuple[Array, Array, Array]]

_ITERATIONS = 100
_DROP = 16.0
_MAX_STEP = 0.5
_LONG_TAIL = 40.0  # in steps; longer tails are integrated with growing steps
_GROWING_STEP, _MAX_UNIT = 0.2, 1.2
_MAX_TAIL, _MIN_SLOPE = 1e15, 1e-14  # a nearly uninformative prior has a long, flat tail
_CELLS = 96


class Peaks(NamedTuple):
    """Modes of functions, the value and width there, and the distances to 16 nats below, left and right."""

    mode: Array
    value: Array
    width: Array
    left: Array
    right: Array


def find_peaks(slopes: Slopes, start: Array, tolerance: float) -> tuple[Array, Array, Array]:
    """Return the modes of functions ``(function,)``, and the value and width there, by Newton's method.

    ``slopes`` returns selected functions and their first two derivatives. Modes are found to a fraction ``tolerance``
    of the width, because the rule is equally accurate a little off the peak.
    """
    mode, peak, width = np.array(start), np.empty(len(start)), np.empty(len(start))
    active = np.arange(len(start))
    for _ in range(_ITERATIONS):
        x = mode[active]
        value, slope, bend = slopes(x, active)
        curvature = np.where(-bend > 1e-8, -bend, np.abs(slope) + 1e-8)
        peak[active], width[active] = value, 1 / np.sqrt(curvature)
        remaining = np.flatnonzero(np.abs(slope) > tolerance * np.sqrt(curvature))
        if len(remaining) == 0:
            break
        active = active[remaining]
        mode[active] = x[remaining] + np.clip(slope[remaining] / curvature[remaining], -2.0, 2.0)
    return mode, peak, width


def find_tails(slopes: Slopes, mode: Array, value: Array, width: Array) -> Peaks:
    """Estimate the lengths of tails from above: tangents to a concave function cross a level beyond the function."""
    ends, every_function = [], np.arange(len(mode))
    for side in (-1.0, 1.0):
        distance = np.minimum(5.0 * width, _MAX_TAIL)
        for _ in range(2):
            height, slope, _ = slopes(mode + side * distance, every_function)
            excess = height - (value - _DROP)
            distance = np.clip(distance + excess / np.maximum(-side * slope, _MIN_SLOPE), 4.0 * width, _MAX_TAIL)
        ends.append(distance)
    return Peaks(mode, value, width, *ends)


def log_integral(values: Callable[[Array, Indexes], Array], peaks: Peaks) -> Array:
    """Ln ∫ exp f dx; ``values`` evaluates functions, given by their indices, at points."""
    integral = np.empty(len(peaks.mode))
    step = np.minimum(peaks.width / (1 + peaks.width), _MAX_STEP)
    growing = np.maximum(peaks.left, peaks.right) > _LONG_TAIL * step
    for selected, grows in ((~growing, False), (growing, True)):
        rows = np.flatnonzero(selected)
        if len(rows) == 0:
            continue
        unit = np.minimum(peaks.width[rows], _MAX_UNIT) if grows else step[rows]
        left, right = peaks.left[rows] / unit, peaks.right[rows] / unit
        if grows:
            left, right = np.arcsinh(left) / _GROWING_STEP, np.arcsinh(right) / _GROWING_STEP
        before, after = np.ceil(left).astype(np.intp), np.ceil(right).astype(np.intp)
        count = before + after + 1
        ends = np.cumsum(count)
        function = np.repeat(rows, count)
        steps = (np.arange(ends[-1]) - np.repeat(ends - count + before, count)).astype(np.float64)
        steps = _GROWING_STEP * steps if grows else steps
        x = peaks.mode[function] + np.repeat(unit, count) * (np.sinh(steps) if grows else steps)
        terms = np.exp(values(x, function) - peaks.value[function])
        if grows:
            terms *= _GROWING_STEP * np.cosh(steps)
        integral[rows] = np.log(np.add.reduceat(terms, ends - count) * unit) + peaks.value[rows]
    return integral


def draw_points(uniform: Array, values: Callable[[Array], Array], peaks: Peaks) -> Array:
    """Transform two uniform draws per function, ``(2, function)``, into a draw with density proportional to exp f.

    The density is approximated as constant within each of many narrow cells.
    """
    cell = (peaks.left + peaks.right) / _CELLS
    middles = peaks.mode[:, None] - peaks.left[:, None] + cell[:, None] * (np.arange(_CELLS) + 0.5)
    below = np.cumsum(np.exp(values(middles) - peaks.value[:, None]), axis=-1)
    index = (below < uniform[0][:, None] * below[:, -1:]).sum(axis=-1)
    return np.asarray(peaks.mode - peaks.left + cell * (index + uniform[1]))
