"""The minimum and maximum log PMI of a normal mean whose providers may differ in their values and precisions.

A report is a precision w and a weighted deviation h between w·low and w·high; both add over providers. For given
precisions log PMI is quadratic in the own and the peers' deviations (h₁, h₂). It is concave in each, so its minimum
lies at a corner of the admissible rectangle. It is a saddle in both, so its maximum lies on an edge, where
h₁ = h₂λ₁/w₂, cut off at the ends, is the best response to h₂, or vice versa. Corners do not suffice: providers with
different offsets agree best inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from troth.core.contract import Array, Indexes
from troth.models.numerics.extremes import coarse_counts, nearby_counts

_MAX_EXHAUSTIVE = 1 << 18  # up to this many combinations of precisions are all tried
_STEPS = 65  # precisions of peers per refinement


class Side(NamedTuple):
    """A provider's possible precisions, ascending from 0, and the lowest and highest mean of its report."""

    precisions: Array
    low: float
    high: float


def normal_extremes(
    log_pmi: Callable[[Array, Array], Array], prior: float, own: Side, peers: Sequence[Side]
) -> tuple[float, float]:
    """Return the minimum and maximum log PMI of one provider's report with the sum of its peers' reports.

    Few combinations of precisions are all tried. If there are many, peers may have every precision from 0 to that of
    all their rows, which includes all that integer numbers of rows give, and the search is refined around the best.
    ``prior`` is the precision of the prior.
    """

    def scores(w: Array, v: Array, lowest: Array, highest: Array) -> tuple[Array, Array]:
        """Return the extremes for each own precision w and each precision v of peers, with h₂ in a range."""
        w = w[:, None]
        ends = w * own.low, w * own.high

        def evaluate(h1: Array, h2: Array) -> Array:
            statistics = (np.stack(np.broadcast_arrays(*pair), axis=-1) for pair in ((w, h1), (v, h2)))
            return log_pmi(*(np.broadcast_to(t, (len(w), len(v), 2)) for t in statistics))

        lows = [evaluate(h1, h2) for h1 in ends for h2 in (lowest, highest)]
        with np.errstate(divide="ignore", invalid="ignore"):  # empty reports, whose log PMI is 0 for any h
            highs = [evaluate(np.clip(np.nan_to_num(h2 * ((prior + w) / v)), *ends), h2) for h2 in (lowest, highest)]
            highs += [evaluate(h1, np.clip(np.nan_to_num(h1 * ((prior + v) / w)), lowest, highest)) for h1 in ends]
        return np.min(lows, axis=0), np.max(highs, axis=0)

    if len(own.precisions) * prod(len(side.precisions) for side in peers) <= _MAX_EXHAUSTIVE:
        lows, highs = scores(own.precisions, *_all_sums(peers))
        return min(0.0, float(lows.min())), max(0.0, float(highs.max()))
    extremes = []
    for end, sign in enumerate((-1, 1)):
        w, v, best = coarse_counts(own.precisions), _first_precisions(peers), 0.0
        while True:
            values = sign * scores(w, v, *_envelope(peers, v))[end]
            i, j = divmod(int(values.argmax()), len(v))
            if not values[i, j] > best * (1 + 1e-13):
                break
            best = float(values[i, j])
            w = nearby_counts(own.precisions, w[[i]])
            v = np.unique(np.append(np.linspace(v[max(j - 1, 0)], v[min(j + 1, len(v) - 1)], _STEPS), v[j]))
        extremes.append(sign * best)
    return min(0.0, extremes[0]), max(0.0, extremes[1])


def _all_sums(peers: Sequence[Side]) -> tuple[Array, Array, Array]:
    """Return every total precision of the peers, with its lowest and highest h."""
    sums = np.zeros((3, 1))
    for side in peers:
        vertices = side.precisions * np.array([[1.0], [side.low], [side.high]])
        sums = (sums[:, :, None] + vertices[:, None, :]).reshape(3, -1)
    v, lowest, highest = np.unique(sums, axis=1)
    return v, lowest, highest


def _first_precisions(peers: Sequence[Side]) -> Array:
    """Return starting points: cumulative precisions in both orders of means, and dense logarithmic and linear grids."""
    full = np.array([side.precisions[-1] for side in peers])
    partial = [np.cumsum(full[order]) for order in _orders(peers)]
    total = full.sum()
    return np.unique(
        np.concatenate([[0.0, total], *partial, total * np.geomspace(1e-12, 1, 300), np.linspace(0, total, 300)])
    )


def _envelope(peers: Sequence[Side], v: Array) -> tuple[Array, Array]:
    """Return the lowest and highest h of peers with total precision v, filled in the order of their means."""
    full, low, high = (np.array(x) for x in zip(*((s.precisions[-1], s.low, s.high) for s in peers), strict=True))
    bounds = []
    for order, means in zip(_orders(peers), (low, high), strict=True):
        steps = np.concatenate([[0.0], np.cumsum(full[order])])
        bounds.append(np.interp(v, steps, np.concatenate([[0.0], np.cumsum((full * means)[order])])))
    return bounds[0], bounds[1]


def _orders(peers: Sequence[Side]) -> tuple[Indexes, Indexes]:
    return np.argsort([side.low for side in peers]), np.argsort([-side.high for side in peers])
