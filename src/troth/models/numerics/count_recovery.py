"""Recover the counts of symbols behind a vector of log-likelihoods, if they are unique.

The task is to find integers c with Σ_k c_k log p(k|θ) = t_θ for every θ. If the log-likelihoods of the possible symbols
are linearly independent, least squares finds them. Otherwise t bounds the number of rows on both sides, and all counts
within the bounds are tried. It is an error if several counts explain t equally well.

If a provider's rows share an effect, only the number of orders of its rows is recovered. Whatever the dispersion,
ln p(labels|θ) = Σ_k g_θk(c_k) − h(N) adds over labels k. So labels are split into two halves, all counts of each half
are listed, and a binary search finds pairs whose parts add up to the report's log-likelihoods. With K labels this takes
about N^{K/2} entries instead of N^{K−1}. Several counts that explain a report equally well are an ambiguity only if
their numbers of orders differ.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import gammaln, xlogy

from troth.core.contract import Array
from troth.core.errors import DataError, MissingCapabilityError
from troth.models.numerics.dispersed import log_rising, pseudo_counts
from troth.models.numerics.extremes import unordered_datasets

Table: TypeAlias = tuple[tuple[float, ...], ...]

_MAX_SEARCH = 2_000_000
_MAX_HALF = 1_000_000
_TOLERANCE = 1e-9
_HALVES_TOLERANCE = 1e-11
_NO_DATASET = "no dataset has these log-likelihoods under this model"


def recover_counts(log_table: Array, statistics: Array, rows: Array | None = None, *, only_rows: bool = False) -> Array:
    """Return counts of shape ``(..., symbol)`` for log-likelihoods ``(..., state)`` and ``log_table[symbol, state]``.

    Known numbers of rows add an equation: a state under which every row has log-likelihood −1. With ``only_rows``,
    counts may be ambiguous as long as their sum is not.
    """
    t = np.asarray(statistics, dtype=np.float64)
    if rows is not None:
        t = np.concatenate([t, -np.broadcast_to(rows, t.shape[:-1])[..., None]], axis=-1)
        log_table = np.hstack([log_table, np.full((len(log_table), 1), -1.0)])
    distinct, back = np.unique(t.reshape(-1, t.shape[-1]).round(10) + 0.0, axis=0, return_inverse=True)
    counts = np.full((len(distinct), len(log_table)), np.nan)
    patterns, inverse = np.unique(np.isneginf(distinct), axis=0, return_inverse=True)
    for i, excluded in enumerate(patterns):
        members = np.flatnonzero(inverse.ravel() == i)
        alive = ~excluded
        symbols = np.flatnonzero(np.isfinite(log_table[:, alive]).all(axis=1))
        ruling_out = np.isneginf(log_table[symbols][:, excluded])
        solved = _solve(log_table[np.ix_(symbols, alive)], distinct[np.ix_(members, alive)], ruling_out, only_rows)
        if not (solved @ ruling_out > 0).all():
            raise DataError(_NO_DATASET)
        counts[np.ix_(members, symbols)] = solved
    return np.asarray(np.nan_to_num(counts)[back.ravel()], dtype=np.float64).reshape(*t.shape[:-1], len(log_table))


def _solve(table: Array, t: Array, ruling_out: Any, only_rows: bool) -> Array:
    if len(table) == 0:
        return np.zeros((len(t), 0))
    if np.linalg.matrix_rank(table) == len(table):
        counts: Array = np.round(t @ np.linalg.pinv(table)).astype(np.float64)
        if (counts >= 0).all() and np.allclose(counts @ table, t, rtol=_TOLERANCE, atol=_TOLERANCE):
            return counts
        raise DataError(_NO_DATASET)
    return _search(table, t, ruling_out, only_rows)


def _search(table: Array, t: Array, ruling_out: Any, only_rows: bool) -> Array:
    """Try all counts of every number of rows that t allows, and keep those that rule out the excluded states."""
    best, worst = table.max(axis=0), table.min(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        upper, lower = (np.where(end < 0, t / end, fill) for end, fill in ((best, np.inf), (worst, 0.0)))
    high = np.floor(upper.min(axis=1) + 1e-6).max()
    low = int(np.ceil(np.maximum(lower.max(axis=1), 0) - 1e-6).min())
    if not np.isfinite(high) or comb(int(high) + len(table), len(table)) > _MAX_SEARCH:
        raise MissingCapabilityError(
            "the numbers of rows cannot be recovered from these log-likelihoods: pass rows= with the statistics"
        )
    candidates = np.concatenate([unordered_datasets(rows, len(table)) for rows in range(low, int(high) + 1)])
    weights = _weights(t.shape[1])
    projections = candidates @ (table @ weights)
    order = np.argsort(projections, kind="stable")
    slack = _TOLERANCE * (1 + np.abs(t) @ weights) * 10
    first = np.searchsorted(projections[order], t @ weights - slack)
    last = np.searchsorted(projections[order], t @ weights + slack)
    counts = np.empty((len(t), len(table)))
    for i in range(len(t)):
        matches = candidates[order[first[i] : last[i]]]
        matches = matches[np.isclose(matches @ table, t[i], rtol=_TOLERANCE, atol=_TOLERANCE).all(axis=1)]
        matches = matches[(matches @ ruling_out > 0).all(axis=1)]
        if len(matches) == 0:
            raise DataError(_NO_DATASET)
        if np.ptp(matches.sum(axis=1)) > 0 or (len(matches) > 1 and not only_rows):
            raise MissingCapabilityError(
                "several datasets have these log-likelihoods: pass rows= with the statistics, or use another rule"
            )
        counts[i] = matches[0]
    return counts


def log_orders(table: Array, dispersion: float, statistics: Array, rows: int) -> Array:
    """Return ln N!/Πc_k! of reports ``(report, state)`` of N rows each, under mean probabilities ``[state, symbol]``.

    Examples
    --------
    >>> table = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    >>> np.exp(log_orders(table, 0.0, np.log(table[:, 0] * table[:, 1] ** 2)[None], 3)).round(6)
    array([3.])
    """
    key: Table = tuple(tuple(float(p) for p in row) for row in table)
    return np.array([_log_orders(key, float(dispersion), tuple(t.tolist()), rows) for t in statistics])


@lru_cache(maxsize=1 << 16)
def _log_orders(table: Table, dispersion: float, statistic: tuple[float, ...], rows: int) -> float:
    first_half, second_half = _halves(table, dispersion, rows)
    strength = pseudo_counts(np.ones(()), np.asarray(dispersion))
    t = np.array([*statistic, -float(rows)])
    t[:-1] += log_rising(strength, np.asarray(float(rows)))
    weights = _weights(len(t))
    slack = _HALVES_TOLERANCE * (1 + np.abs(t) @ weights)
    targets = t @ weights - first_half.projections
    first, last = (np.searchsorted(second_half.projections, target) for target in (targets - slack, targets + slack))
    left = np.repeat(np.arange(len(targets)), last - first)
    right = np.arange(len(left)) + np.repeat(first - np.concatenate([[0], np.cumsum(last - first)[:-1]]), last - first)
    errors = np.abs(first_half.sums[left] + second_half.sums[right] - t)
    matches = (errors <= _HALVES_TOLERANCE * (1 + np.abs(t).max())).all(axis=1)
    left, right = left[matches], right[matches]
    orders = gammaln(rows + 1) - first_half.log_factorials[left] - second_half.log_factorials[right]
    if len(orders) == 0:
        raise MissingCapabilityError(f"no dataset of {rows} rows has these log-likelihoods: pass rows= as reported")
    if np.ptp(orders) > 1e-9 * (1 + abs(orders[0])):
        raise MissingCapabilityError(
            "several datasets have these log-likelihoods, and differ in how many orders they have"
        )
    return float(orders[0])


class _Half(NamedTuple):
    """All counts of half of the labels, sorted by projection."""

    projections: Array
    sums: Array  # parts of the log-likelihoods, and minus the number of rows
    log_factorials: Array  # Σ ln c_k!


@lru_cache(maxsize=8)
def _halves(table: Table, dispersion: float, rows: int) -> tuple[_Half, _Half]:
    p = np.array(table)
    symbols = p.shape[1]
    cut = symbols // 2
    if comb(rows + symbols - cut, symbols - cut) > _MAX_HALF:
        raise MissingCapabilityError(
            f"the counts of {symbols} labels cannot be recovered from the log-likelihoods of {rows} rows, unless "
            "labels are merged"
        )
    strength = pseudo_counts(np.ones(()), np.asarray(dispersion))
    possible = np.arange(rows + 1.0)
    parts = xlogy(possible, p[..., None]) + log_rising(p[..., None] * strength, possible)  # [state, symbol, count]
    log_factorials = gammaln(possible + 1)
    halves = []
    for labels in (range(cut), range(cut, symbols)):
        counts = unordered_datasets(rows, len(labels) + 1)[:, :-1].astype(np.intp)  # other rows are the other half's
        sums = np.zeros((len(counts), len(p) + 1))
        for column, label in enumerate(labels):
            sums[:, :-1] += parts[:, label, counts[:, column]].T
        sums[:, -1] = -counts.sum(axis=1)
        projection = sums @ _weights(sums.shape[1])
        order = np.argsort(projection, kind="stable")
        halves.append(_Half(projection[order], sums[order], log_factorials[counts].sum(axis=1)[order]))
    return halves[0], halves[1]


def _weights(length: int) -> Array:
    """Return a direction along which distinct reports rarely have the same projection."""
    return np.asarray(np.sqrt(np.arange(2.0, 2.0 + length)))
