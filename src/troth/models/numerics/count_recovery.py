"""How many rows of each symbol a vector of log-likelihoods sums up, where that is unambiguous.

Whole counts c with Σ_k c_k log p(k|θ) = t_θ for every θ. If the log-likelihoods of the possible symbols are linearly
independent, least squares finds them. If not, t bounds the number of rows from both sides, and all datasets within the
bounds are tried, up to the order of rows. It is an error if different counts explain t equally well.

Where a provider's rows share an effect, the number of orders of the rows is recovered in their place.
ln p(labels|θ) = Σ_k g_θk(c_k) − h(N) adds over labels k, whatever the dispersion. So the labels are cut into two
halves, all counts of either half are listed, and pairs whose parts add up to the report's log-likelihoods are searched
in a sorted list: with K labels about N^{K/2} numbers in place of N^{K−1}. Different counts that explain a report
equally well are an ambiguity only if their numbers of orders differ.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import Any, TypeAlias

import numpy as np
from scipy.special import gammaln, xlogy

from troth.core.contract import Array
from troth.core.errors import DataError, MissingCapabilityError
from troth.models.numerics.dispersed import log_rising, pseudo_counts
from troth.models.numerics.extremes import unordered_datasets

Table: TypeAlias = tuple[tuple[float, ...], ...]

_MAX_SEARCH = 2_000_000
_MAX_HALF = 1_000_000
_CLOSE = 1e-9
_CLOSE_ORDERS = 1e-11
_NO_DATASET = "no dataset has these log-likelihoods under this model"


def recover_counts(log_table: Array, statistics: Array, rows: Array | None = None, *, only_rows: bool = False) -> Array:
    """Return counts of shape ``(..., symbol)`` for log-likelihoods ``(..., state)`` and ``log_table[symbol, state]``.

    Numbers of rows, where they are known, are one more equation: a state under which every row has log-likelihood −1.
    With ``only_rows`` counts may be ambiguous as long as their sum is not.
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
        if (counts >= 0).all() and np.allclose(counts @ table, t, rtol=_CLOSE, atol=_CLOSE):
            return counts
        raise DataError(_NO_DATASET)
    return _search(table, t, ruling_out, only_rows)


def _search(table: Array, t: Array, ruling_out: Any, only_rows: bool) -> Array:
    """Try every dataset of every number of rows that t allows and that rules out the states which are excluded."""
    best, worst = table.max(axis=0), table.min(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        most, least = (np.where(end < 0, t / end, fill) for end, fill in ((best, np.inf), (worst, 0.0)))
    sizes = np.floor(most.min(axis=1) + 1e-6), np.ceil(np.maximum(least.max(axis=1), 0) - 1e-6)
    high, low = sizes[0].max(), int(sizes[1].min())
    if not np.isfinite(high) or comb(int(high) + len(table), len(table)) > _MAX_SEARCH:
        raise MissingCapabilityError(
            "the numbers of rows cannot be recovered from these log-likelihoods: pass rows= with the statistics"
        )
    candidates = np.concatenate([unordered_datasets(rows, len(table)) for rows in range(low, int(high) + 1)])
    weights = _weights(t.shape[1])
    projections = candidates @ (table @ weights)
    order = np.argsort(projections, kind="stable")
    slack = _CLOSE * (1 + np.abs(t) @ weights) * 10
    first = np.searchsorted(projections[order], t @ weights - slack)
    last = np.searchsorted(projections[order], t @ weights + slack)
    counts = np.empty((len(t), len(table)))
    for i in range(len(t)):
        near = candidates[order[first[i] : last[i]]]
        near = near[np.isclose(near @ table, t[i], rtol=_CLOSE, atol=_CLOSE).all(axis=1)]
        near = near[(near @ ruling_out > 0).all(axis=1)]
        if len(near) == 0:
            raise DataError(_NO_DATASET)
        if np.ptp(near.sum(axis=1)) > 0 or (len(near) > 1 and not only_rows):
            raise MissingCapabilityError(
                "several datasets have these log-likelihoods: pass rows= with the statistics, or use another rule"
            )
        counts[i] = near[0]
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
    first_half, many = _halves(table, dispersion, rows)
    strength = pseudo_counts(np.ones(()), np.asarray(dispersion))
    t = np.array([*statistic, -float(rows)])
    t[:-1] += log_rising(strength, np.asarray(float(rows)))
    weights = _weights(len(t))
    slack = _CLOSE_ORDERS * (1 + np.abs(t) @ weights)
    targets = t @ weights - first_half[0]
    first, last = np.searchsorted(many[0], targets - slack), np.searchsorted(many[0], targets + slack)
    left = np.repeat(np.arange(len(targets)), last - first)
    right = np.arange(len(left)) + np.repeat(first - np.concatenate([[0], np.cumsum(last - first)[:-1]]), last - first)
    fits = (np.abs(first_half[1][left] + many[1][right] - t) <= _CLOSE_ORDERS * (1 + np.abs(t).max())).all(axis=1)
    orders = gammaln(rows + 1) - first_half[2][left[fits]] - many[2][right[fits]]
    if len(orders) == 0:
        raise MissingCapabilityError(f"no dataset of {rows} rows has these log-likelihoods: pass rows= as reported")
    if np.ptp(orders) > 1e-9 * (1 + abs(orders[0])):
        raise MissingCapabilityError(
            "several datasets have these log-likelihoods, and differ in how many orders they have"
        )
    return float(orders[0])


@lru_cache(maxsize=8)
def _halves(
    table: Table, dispersion: float, rows: int
) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array]]:
    """For each half of the labels: projections, in order for the second, parts of the log-likelihoods, Σ ln c_k!."""
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
        counts = unordered_datasets(rows, len(labels) + 1)[:, :-1].astype(np.intp)  # the rest is the other half's
        sums = np.zeros((len(counts), len(p) + 1))
        for column, label in enumerate(labels):
            sums[:, :-1] += parts[:, label, counts[:, column]].T
        sums[:, -1] = -counts.sum(axis=1)
        projection = sums @ _weights(sums.shape[1])
        order = np.argsort(projection, kind="stable")
        halves.append((projection[order], sums[order], log_factorials[counts].sum(axis=1)[order]))
    return halves[0], halves[1]


def _weights(length: int) -> Array:
    """Return a direction on which distinct reports rarely meet."""
    return np.asarray(np.sqrt(np.arange(2.0, 2.0 + length)))
