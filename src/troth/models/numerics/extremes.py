"""The minimum and maximum of log PMI over all admissible reports, by closed forms and small searches.

They rest on two facts. Adding a row d to a report changes log PMI by ln p(d|own, peers)/p(d|own), a ratio of two
distributions over d. If every d is admissible, some row does not lower log PMI and some row does not raise it, so full
reports attain the extremes. And log PMI is unimodal in each count, so a minimum lies at the ends of every range, and
the best response to given peers is known.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import comb

import numpy as np

from troth.core.contract import Array
from troth.models.numerics.second_difference import dirichlet_log_pmi

_MAX_EXHAUSTIVE = 5000  # up to this many own reports are all tried
_MAX_EXHAUSTIVE_COUNTS = 64  # up to this many counts are all tried; otherwise a coarse grid is refined


def dirichlet_extremes(prior: Array, own: int, peers: int) -> tuple[float, float]:
    """Return the minimum and maximum Dirichlet log PMI of reports of up to ``own`` and ``peers`` rows.

    Write F = Σ_k H(α_k; a_k, b_k) − H(Σα; |a|, |b|) with H(α; a, b) = lnΓ(α+a+b) + lnΓ(α) − lnΓ(α+a) − lnΓ(α+b) ≥ 0.
    Minimum: full reports in two different categories leave only −H(Σα; own, peers). Maximum: for given own counts the
    sum is separable and concave in the peers' counts, which water-filling maximises. Few own reports are all tried;
    otherwise a local search starts from rows spread over the categories with the smallest α.
    """
    if own == 0 or peers == 0:
        return 0.0, 0.0

    first, second = np.eye(len(prior))[:2]
    low = float(dirichlet_log_pmi(prior, own * first, peers * second))
    exhaustive = comb(own + len(prior) - 1, own) <= _MAX_EXHAUSTIVE
    reports = unordered_datasets(own, len(prior)) if exhaustive else _starts(prior, own)
    scores = dirichlet_log_pmi(prior, reports, best_counts(prior, reports, peers))
    while not exhaustive:
        best = scores.max()
        reports = _neighbours(reports[np.argsort(scores)[-20:]])
        scores = dirichlet_log_pmi(prior, reports, best_counts(prior, reports, peers))
        if scores.max() <= best:
            return low, float(best)
    return low, float(scores.max())


def best_counts(prior: Array, other: Array, rows: int) -> Array:
    """Return, for each vector of other counts, the counts of ``rows`` rows that maximise Σ_k H(α_k; counts_k, other_k).

    The n-th row in category k adds ln(1 + other_k/(α_k + n − 1)), which decreases in n, so the greedy choice is
    optimal. Bisection of the water level finds it.
    """
    low, high = np.zeros(len(other)), 2 * (other / prior).max(axis=1)
    for _ in range(100):
        level = 0.5 * (low + high)
        over = _filled(prior, other, level).sum(axis=1) > rows
        low, high = np.where(over, level, low), np.where(over, high, level)
    counts = _filled(prior, other, high)
    while (short := counts.sum(axis=1) < rows).any():
        counts[short, np.argmax(other / (prior + counts), axis=1)[short]] += 1
    return counts


def _filled(prior: Array, other: Array, level: Array) -> Array:
    """Count the rows n per category with other/(α + n − 1) above the level."""
    return np.maximum(np.ceil(other / np.maximum(level, np.finfo(float).tiny)[:, None] - prior), 0.0) * (other > 0)


def _starts(prior: Array, own: int) -> Array:
    """Return starting points: rows over the categories with the smallest α, in equal or in halving parts."""
    order = np.argsort(prior, kind="stable")
    starts = np.zeros((2 * len(prior), len(prior)))
    for size in range(1, len(prior) + 1):
        starts[size - 1, order[:size]] = own // size
        starts[-size, order[:size]] = np.floor(own * 0.5 ** np.arange(1, size + 1))
    starts[:, order[0]] += own - starts.sum(axis=1)
    return starts


def _neighbours(counts: Array) -> Array:
    """Move various numbers of rows from one category to another in each report; the reports themselves are included."""
    categories = np.eye(counts.shape[1])
    moves = (categories[:, None] - categories[None]).reshape(-1, counts.shape[1])
    rows = counts[0].sum()
    steps = np.unique(np.ceil(rows * 0.5 ** np.arange(1, 12)))
    moved = (counts[:, None, None] + steps[:, None, None] * moves).reshape(-1, counts.shape[1])
    return np.unique(moved[(moved >= 0).all(axis=1)], axis=0)


def ray_extremes(
    log_pmi: Callable[[Array, Array], Array], own: tuple[Array, float, float], peers: tuple[Array, float, float]
) -> tuple[float, float]:
    """Return the minimum and maximum log PMI of statistics (n, s) with given counts n and s between n·low and n·high.

    In all families with these statistics there are P, Q ≥ 0 such that log PMI with peers (m, u) rises in s up to
    u(P + n)/m − Q and falls from there, and likewise in u. So for given n and m a minimum lies at a corner. So does the
    maximum: let s be the best response to u. By the envelope theorem the maximum over s rises in u if u > mQ/P and
    falls otherwise, and if the response is cut off at an end, the slope has the same sign. Hence it suffices to try
    reports whose rows all have the lowest value or all the highest, for every n and m or, if there are very many, on a
    coarse grid that is refined around the best.

    Each side has the possible counts, ascending from 0, and the lowest and highest mean that a report may have.
    """
    low, high = 0.0, 0.0
    (ns, *own_ends), (ms, *peer_ends) = own, peers
    n_tried, m_tried = coarse_counts(ns), coarse_counts(ms)
    while True:
        n, m = (x.ravel() for x in np.meshgrid(n_tried, m_tried, indexing="ij"))
        corners = [log_pmi(_pair(n, x * n), _pair(m, y * m)) for x in own_ends for y in peer_ends]
        lows, highs = np.min(corners, axis=0), np.max(corners, axis=0)
        better = lows.min() < low or highs.max() > high
        low, high = min(low, float(lows.min())), max(high, float(highs.max()))
        if not better or (len(n_tried) == len(ns) and len(m_tried) == len(ms)):
            return low, high
        best = [int(lows.argmin()), int(highs.argmax())]
        n_tried, m_tried = nearby_counts(ns, n[best]), nearby_counts(ms, m[best])


def count_ladder(limit: int, weight: float = 1.0) -> Array:
    """Return the numbers of rows up to a limit, times a weight; a large range is thinned out away from its ends."""
    if limit <= _MAX_EXHAUSTIVE:
        return weight * np.arange(limit + 1.0)
    middle = np.geomspace(_MAX_EXHAUSTIVE_COUNTS, limit, 2000).round()
    ends = np.arange(float(_MAX_EXHAUSTIVE_COUNTS)), limit - np.arange(float(_MAX_EXHAUSTIVE_COUNTS))
    return weight * np.unique(np.concatenate([middle, *ends]))


def _pair(n: Array, s: Array) -> Array:
    return np.stack([n, s], axis=-1)


def coarse_counts(counts: Array) -> Array:
    """Return a coarse grid of counts, from which a search starts."""
    if len(counts) <= _MAX_EXHAUSTIVE_COUNTS:
        return counts
    picks = np.unique(np.concatenate([[0, 1, 2, 3], np.geomspace(4, len(counts) - 1, 20)]).astype(np.intp))
    return counts[picks]


def nearby_counts(counts: Array, best: Array) -> Array:
    """Return counts near the best ones."""
    if len(counts) <= _MAX_EXHAUSTIVE_COUNTS:
        return counts
    steps = np.concatenate([[0], 2 ** np.arange(12)])
    picks = np.searchsorted(counts, best)[:, None, None] + steps * np.array([[-1], [1]])
    return np.asarray(counts[np.unique(np.clip(picks.ravel(), 0, len(counts) - 1))])


def unordered_datasets(rows: int, symbols: int) -> Array:
    """Return all datasets of ``rows`` rows up to order, as counts ``(dataset, symbol)``.

    Examples
    --------
    >>> unordered_datasets(2, 2)
    array([[0., 2.],
           [1., 1.],
           [2., 0.]])
    """
    bars = np.array(list(combinations(range(rows + symbols - 1), symbols - 1)), dtype=np.intp)
    bars = bars.reshape(comb(rows + symbols - 1, symbols - 1), symbols - 1)
    ends = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), rows + symbols - 1)])
    return (np.diff(ends, axis=1) - 1).astype(np.float64)
