"""Ln ∫ exp f for many functions with one peak each, by the trapezoidal rule where f is within 16 nats of it.

The functions are analytic up to a distance of π from the real line, and like the logarithm of a gamma variable: the
rule with steps of width/(1 + width), and at most 0.5, is exact to 1e-7. What differs is how long the tails are.
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
_LONG = 40.0  # steps from which a tail is crossed in growing steps
_GROWING_STEP, _WIDEST = 0.2, 1.2
_FARTHEST, _FLATTEST = 1e15, 1e-14  # of a tail: a prior that says next to nothing has a long one
_CELLS = 96


class Peaks(NamedTuple):
    """Where functions peak, the value and the width there, and how far it is to 16 nats below, left and right."""

    mode: Array
    value: Array
    width: Array
    left: Array
    right: Array


def find_peaks(slopes: Slopes, start: Array, close: float) -> tuple[Array, Array, Array]:
    """Return where functions ``(function,)`` peak, the value and the width there, by Newton's method.

    ``slopes`` returns some functions and their first two derivatives. The peak is found to a fraction ``close`` of its
    width: the rule is as exact a little off the peak.
    """
    mode, top, width = np.array(start), np.empty(len(start)), np.empty(len(start))
    active = np.arange(len(start))
    for _ in range(_ITERATIONS):
        x = mode[active]
        value, slope, bend = slopes(x, active)
        curvature = np.where(-bend > 1e-8, -bend, np.abs(slope) + 1e-8)
        top[active], width[active] = value, 1 / np.sqrt(curvature)
        still = np.flatnonzero(np.abs(slope) > close * np.sqrt(curvature))
        if len(still) == 0:
            break
        active = active[still]
        mode[active] = x[still] + np.clip(slope[still] / curvature[still], -2.0, 2.0)
    return mode, top, width


def find_tails(slopes: Slopes, mode: Array, value: Array, width: Array) -> Peaks:
    """Find how long the tails are, roughly: tangents to a concave function cross a level beyond it."""
    ends, every_function = [], np.arange(len(mode))
    for side in (-1.0, 1.0):
        distance = np.minimum(5.0 * width, _FARTHEST)
        for _ in range(2):
            at, slope, _ = slopes(mode + side * distance, every_function)
            missing = at - (value - _DROP)
            distance = np.clip(distance + missing / np.maximum(-side * slope, _FLATTEST), 4.0 * width, _FARTHEST)
        ends.append(distance)
    return Peaks(mode, value, width, *ends)


def log_integral(values: Callable[[Array, Indexes], Array], peaks: Peaks) -> Array:
    """Ln ∫ exp f dx for ``values`` of points, each of one function."""
    integral = np.empty(len(peaks.mode))
    step = np.minimum(peaks.width / (1 + peaks.width), _MAX_STEP)
    growing = np.maximum(peaks.left, peaks.right) > _LONG * step
    for selected, grows in ((~growing, False), (growing, True)):
        rows = np.flatnonzero(selected)
        if len(rows) == 0:
            continue
        unit = np.minimum(peaks.width[rows], _WIDEST) if grows else step[rows]
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
    """Turn two uniform numbers for each function, ``(2, function)``, into a draw from its exponential.

    One of many narrow cells is drawn, and a point in it: the density is taken to be constant within a cell.
    """
    cell = (peaks.left + peaks.right) / _CELLS
    middles = peaks.mode[:, None] - peaks.left[:, None] + cell[:, None] * (np.arange(_CELLS) + 0.5)
    below = np.cumsum(np.exp(values(middles) - peaks.value[:, None]), axis=-1)
    index = (below < uniform[0][:, None] * below[:, -1:]).sum(axis=-1)
    return np.asarray(peaks.mode - peaks.left + cell * (index + uniform[1]))
