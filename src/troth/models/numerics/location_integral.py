"""The integral over a common location for each spread: exact where the spread is plausible, rough where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from troth.core.blocks import for_each_chunk
from troth.models.numerics.unimodal_integral import draw_points, find_peaks, laplace, log_integral

if TYPE_CHECKING:
    from collections.abc import Callable

    from troth.core.contract import Array, Generator

_NEGLIGIBLE = 25.0  # nats below the best spread at which a rough integral will do, a stencil away
_STENCIL = 9
_NARROW = 0.2  # on a log scale, on which location is
_CHUNK = 16

Places: TypeAlias = NDArray[np.intp]


class Location(Protocol):
    """A log-likelihood plus log prior as a function of the location, which has one peak, for reports and spreads."""

    start: Array
    """Near the peak without any spread, ``(report,)``."""

    constant: Array
    """What does not depend on the location, ``(report, spread)``."""

    def slopes(self, x: Array, spread: Array, report: Places) -> tuple[Array, Array]:
        """First and second derivative."""

    def values(self, x: Array, spread: Array, report: Places) -> Array:
        """Return the function, but for what is constant; points are on the last axis."""


def for_distinct_reports(statistics: Array, work: Callable[[Array], Array], width: int) -> Array:
    """Apply ``work`` to chunks of different statistics, ``(..., width)``."""
    flat = np.ascontiguousarray(statistics.reshape(-1, statistics.shape[-1])) + 0.0
    _, first, which = np.unique(flat.view(np.dtype((np.void, flat.itemsize * flat.shape[1]))), True, True)
    distinct = flat[first]
    result = np.empty((len(distinct), width))

    def add(chunk: slice) -> None:
        result[chunk] = work(distinct[chunk])

    for_each_chunk(len(distinct), _CHUNK, add)
    return result[which.ravel()].reshape(*statistics.shape[:-1], width)


def integrate_location(location: Location, spreads: Array) -> Array:
    """Ln of the integral over the location for each report and spread above 0."""
    reports, places = len(location.start), np.arange(len(spreads))
    few = np.unique(np.append(places[::4], places[-1]))
    everyone = np.repeat(np.arange(reports)[:, None], len(few), axis=1)
    start = np.repeat(location.start[:, None], len(few), axis=1)
    peaks, widths = find_peaks(lambda x: location.slopes(x, spreads[few], everyone), start)
    at_peak = location.values(peaks[..., None], spreads[few][:, None], everyone)[..., 0]
    rough = laplace(at_peak, widths) + location.constant[:, few]
    evidence, guess = (np.stack([np.interp(places, few, row) for row in part]) for part in (rough, peaks))
    best = evidence > evidence.max(axis=1, keepdims=True) - _NEGLIGIBLE
    near = np.stack([np.convolve(row, np.ones(2 * _STENCIL + 1), "same") > 0.5 for row in best])
    report, place = np.nonzero(near)
    spread = spreads[place]
    peak, width = find_peaks(lambda x: location.slopes(x, spread, report), guess[near])

    def values(x: Array, which: Any) -> Array:
        return location.values(x, spread[which][:, None], report[which])

    evidence[near] = log_integral(values, peak, width, _NARROW) + location.constant[near]
    return evidence


def draw_location(rng: Generator, location: Location, spread: Array) -> Array:
    """Draw a location given a spread above 0 for each report."""
    report = np.arange(len(location.start))
    peak, width = find_peaks(lambda x: location.slopes(x, spread, report), location.start)
    uniform = rng.random((2, len(report)))
    return draw_points(uniform, lambda x: location.values(x, spread[:, None], report), peak, width)
