"""The least and the greatest log PMI over every admissible report: closed arguments and small searches.

Two facts carry all of it. Adding a row d to a report changes log PMI by ln p(d|own, peers)/p(d|own), a ratio of two
distributions over d, so where every d is admissible some row does not lower it and some row does not raise it: extremes
are attained by full reports. And along each count log PMI rises, then falls, so a minimum lies at the ends of every
range, and the best answer to given peers is known.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import comb

import numpy as np

from troth.core.contract import Array
from troth.models.numerics.second_difference import dirichlet_log_pmi

_ALL_TYPES = 5000  # own reports up to this many are all tried
_EXHAUSTIVE = 64  # counts up to this are all tried; beyond, a ladder of them is, and the best is refined


def dirichlet_extremes(prior: Array, own: int, peers: int) -> tuple[float, float]:
    """Least and greatest Dirichlet log PMI of reports of up to ``own`` and ``peers`` rows.

    Write F = Σ_k H(α_k; a_k, b_k) − H(Σα; |a|, |b|) with H(α; a, b) = lnΓ(α+a+b) + lnΓ(α) − lnΓ(α+a) − lnΓ(α+b) ≥ 0.
    Least: full reports in two different categories leave only −H(Σα; own, peers). Greatest: for given own counts the
    sum is separable and concave in the peers' counts, so a water level gives the best ones. If own reports are few
    all are tried; otherwise rows are spread over the categories with the least α, then moved until no move helps.
    """
    if own == 0 or peers == 0:
        return 0.0, 0.0

    first, second = np.eye(len(prior))[:2]
    low = float(dirichlet_log_pmi(prior, own * first, peers * second))
    few = comb(own + len(prior) - 1, own) <= _ALL_TYPES
    reports = unordered_datasets(own, len(prior)) if few else _spreads(prior, own)
    scores = dirichlet_log_pmi(prior, reports, best_counts(prior, reports, peers))
    while not few:
        best = scores.max()
        reports = _neighbours(reports[np.argsort(scores)[-20:]])
        scores = dirichlet_log_pmi(prior, reports, best_counts(prior, reports, peers))
        if scores.max() <= best:
            return low, float(best)
    return low, float(scores.max())


def best_counts(prior: Array, other: Array, rows: int) -> Array:
    """Return, for each vector of other counts, those of ``rows`` rows with the greatest Σ_k H(α_k; counts_k, other_k).

    The n-th row in category k adds ln(1 + other_k/(α_k + n − 1)), which falls with n, so the greedy choice is best; a
    water level finds it.
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
    """Count the rows per category whose worth other/(α + n − 1) is above a level."""
    return np.maximum(np.ceil(other / np.maximum(level, np.finfo(float).tiny)[:, None] - prior), 0.0) * (other > 0)


def _spreads(prior: Array, own: int) -> Array:
    """Own counts from which to start: shares of the rows over the categories with the least α, even and tapering."""
    order = np.argsort(prior, kind="stable")
    starts = np.zeros((2 * len(prior), len(prior)))
    for size in range(1, len(prior) + 1):
        starts[size - 1, order[:size]] = own // size
        starts[-size, order[:size]] = np.floor(own * 0.5 ** np.arange(1, size + 1))
    starts[:, order[0]] += own - starts.sum(axis=1)
    return starts


def _neighbours(counts: Array) -> Array:
    """Move some rows of each report from one category to another, in all ways, among them not at all."""
    categories = np.eye(counts.shape[1])
    moves = (categories[:, None] - categories[None]).reshape(-1, counts.shape[1])
    rows = counts[0].sum()
    steps = np.unique(np.ceil(rows * 0.5 ** np.arange(1, 12)))
    moved = (counts[:, None, None] + steps[:, None, None] * moves).reshape(-1, counts.shape[1])
    return np.unique(moved[(moved >= 0).all(axis=1)], axis=0)


def ray_extremes(
    log_pmi: Callable[[Array, Array], Array], own: tuple[Array, float, float], peers: tuple[Array, float, float]
) -> tuple[float, float]:
    """Least and greatest log PMI of statistics (n, s) with n among given counts and s between n·low and n·high.

    In all families with these statistics there are P, Q ≥ 0 such that log PMI with peers (m, u) rises in s up to
    u(P + n)/m − Q and falls from there, and likewise in u. So for given n and m a minimum lies at a corner. So does the
    maximum: let s answer u in the best way; by the envelope theorem what is reached rises in u where
    u > mQ/P, falls below, and where the answer is cut off at an end its slope has the same sign. Hence only reports
    whose rows all have the least or all the greatest value are tried, for every n and m or, if they are very many, for
    a ladder of them that is refined around the best.

    Either side has possible counts, ascending from 0, and the least and the greatest mean that a report may have.
    """
    low, high = 0.0, 0.0
    (ns, *own_ends), (ms, *peer_ends) = own, peers
    n_tried, m_tried = coarse(ns), coarse(ms)
    while True:
        n, m = (x.ravel() for x in np.meshgrid(n_tried, m_tried, indexing="ij"))
        corners = [log_pmi(_pair(n, x * n), _pair(m, y * m)) for x in own_ends for y in peer_ends]
        lows, highs = np.min(corners, axis=0), np.max(corners, axis=0)
        better = lows.min() < low or highs.max() > high
        low, high = min(low, float(lows.min())), max(high, float(highs.max()))
        if not better or (len(n_tried) == len(ns) and len(m_tried) == len(ms)):
            return low, high
        best = [int(lows.argmin()), int(highs.argmax())]
        n_tried, m_tried = neighbours(ns, n[best]), neighbours(ms, m[best])


def count_ladder(limit: int, weight: float = 1.0) -> Array:
    """Return the numbers of rows up to a limit, times a weight; of very many only those that can matter."""
    if limit <= _ALL_TYPES:
        return weight * np.arange(limit + 1.0)
    middle = np.geomspace(_EXHAUSTIVE, limit, 2000).round()
    ends = np.arange(float(_EXHAUSTIVE)), limit - np.arange(float(_EXHAUSTIVE))
    return weight * np.unique(np.concatenate([middle, *ends]))


def _pair(n: Array, s: Array) -> Array:
    return np.stack([n, s], axis=-1)


def coarse(counts: Array) -> Array:
    """Return some of very many counts, from which a search starts."""
    if len(counts) <= _EXHAUSTIVE:
        return counts
    picks = np.unique(np.concatenate([[0, 1, 2, 3], np.geomspace(4, len(counts) - 1, 20)]).astype(np.intp))
    return counts[picks]


def neighbours(counts: Array, best: Array) -> Array:
    """Return counts near the best ones."""
    if len(counts) <= _EXHAUSTIVE:
        return counts
    steps = np.concatenate([[0], 2 ** np.arange(12)])
    picks = np.searchsorted(counts, best)[:, None, None] + steps * np.array([[-1], [1]])
    return np.asarray(counts[np.unique(np.clip(picks.ravel(), 0, len(counts) - 1))])


def unordered_datasets(rows: int, symbols: int) -> Array:
    """All datasets of ``rows`` rows up to their order, as counts of shape ``(dataset, symbols)``.

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
