"""The least and the greatest log PMI of a normal mean, whose providers may have different values and precisions.

A report is a precision w and a weighted deviation h between w·low and w·high; both add over providers. For given
precisions log PMI is quadratic in own and peers' (h₁, h₂): concave in each, so its least value lies at a corner of the
admissible rectangle, and a saddle in both, so its greatest value lies on an edge, where h₁ = h₂λ₁/w₂ or the end nearest
to it answers h₂, or the reverse. Corners do not suffice: providers with different offsets agree best inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from troth.core.contract import Array, Indexes
from troth.models.numerics.extremes import coarse, neighbours

_ALL_PAIRS = 1 << 18  # combinations of precisions up to this many are all tried
_STEPS = 65  # precisions of peers tried at a time, where they are not all tried


class Side(NamedTuple):
    """A provider's possible precisions, ascending from 0, and the least and the greatest mean of its report."""

    precisions: Array
    low: float
    high: float


def normal_extremes(
    log_pmi: Callable[[Array, Array], Array], prior: float, own: Side, peers: Sequence[Side]
) -> tuple[float, float]:
    """Least and greatest log PMI of one provider's reports with those of its peers, together.

    Few combinations of precisions are all tried. Where they are many, peers may have every precision from 0 to that of
    all their rows, which encloses what whole numbers of rows make, and the search is refined around the best. The
    precision of the prior is ``prior``.
    """

    def scores(w: Array, v: Array, least: Array, greatest: Array) -> tuple[Array, Array]:
        """Least and greatest log PMI for each own precision w and each precision v of peers with h₂ in a range."""
        w = w[:, None]
        ends = w * own.low, w * own.high

        def at(h1: Array, h2: Array) -> Array:
            statistics = (np.stack(np.broadcast_arrays(*pair), axis=-1) for pair in ((w, h1), (v, h2)))
            return log_pmi(*(np.broadcast_to(t, (len(w), len(v), 2)) for t in statistics))

        lows = [at(h1, h2) for h1 in ends for h2 in (least, greatest)]
        with np.errstate(divide="ignore", invalid="ignore"):  # empty reports, whose log PMI is 0 whatever h is
            highs = [at(np.clip(np.nan_to_num(h2 * ((prior + w) / v)), *ends), h2) for h2 in (least, greatest)]
            highs += [at(h1, np.clip(np.nan_to_num(h1 * ((prior + v) / w)), least, greatest)) for h1 in ends]
        return np.min(lows, axis=0), np.max(highs, axis=0)

    if len(own.precisions) * prod(len(side.precisions) for side in peers) <= _ALL_PAIRS:
        lows, highs = scores(own.precisions, *_all_sums(peers))
        return min(0.0, float(lows.min())), max(0.0, float(highs.max()))
    ends = []
    for end in (0, 1):
        w, v, best = coarse(own.precisions), _first_precisions(peers), 0.0
        while True:
            values = (2 * end - 1) * scores(w, v, *_envelope(peers, v))[end]
            i, j = divmod(int(values.argmax()), len(v))
            if not values[i, j] > best * (1 + 1e-13):
                break
            best = float(values[i, j])
            w = neighbours(own.precisions, w[[i]])
            v = np.unique(np.append(np.linspace(v[max(j - 1, 0)], v[min(j + 1, len(v) - 1)], _STEPS), v[j]))
        ends.append((2 * end - 1) * best)
    return min(0.0, ends[0]), max(0.0, ends[1])


def _all_sums(peers: Sequence[Side]) -> tuple[Array, Array, Array]:
    """Return every precision that peers have together, with the least and the greatest h."""
    sums = np.zeros((3, 1))
    for side in peers:
        vertices = side.precisions * np.array([[1.0], [side.low], [side.high]])
        sums = (sums[:, :, None] + vertices[:, None, :]).reshape(3, -1)
    v, least, greatest = np.unique(sums, axis=1)
    return v, least, greatest


def _first_precisions(peers: Sequence[Side]) -> Array:
    """Return precisions from which to start: of each provider, of the first few together, and many between."""
    full = np.array([side.precisions[-1] for side in peers])
    filled = [np.cumsum(full[order]) for order in _orders(peers)]
    total = full.sum()
    return np.unique(
        np.concatenate([[0.0, total], *filled, total * np.geomspace(1e-12, 1, 300), np.linspace(0, total, 300)])
    )


def _envelope(peers: Sequence[Side], v: Array) -> tuple[Array, Array]:
    """Least and greatest h of peers with precision v together: those with the lowest, or highest, means fill it."""
    full, low, high = (np.array(x) for x in zip(*((s.precisions[-1], s.low, s.high) for s in peers), strict=True))
    ends = []
    for order, means in zip(_orders(peers), (low, high), strict=True):
        steps = np.concatenate([[0.0], np.cumsum(full[order])])
        ends.append(np.interp(v, steps, np.concatenate([[0.0], np.cumsum((full * means)[order])])))
    return ends[0], ends[1]


def _orders(peers: Sequence[Side]) -> tuple[Indexes, Indexes]:
    return np.argsort([side.low for side in peers]), np.argsort([-side.high for side in peers])
