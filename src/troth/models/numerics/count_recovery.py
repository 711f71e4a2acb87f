"""How many rows of each symbol a vector of log-likelihoods sums up, where that is unambiguous.

Whole counts c with Σ_k c_k log p(k|θ) = t_θ for every θ. If the log-likelihoods of the possible symbols are linearly
independent, least squares finds them. If not, t bounds the number of rows from both sides, and all datasets within the
bounds are tried, up to the order of rows. It is an error if different counts explain t equally well.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np

from troth.core.contract import Array
from troth.core.errors import DataError, MissingCapabilityError
from troth.models.numerics.extremes import unordered_datasets

_LARGEST_SEARCH = 2_000_000
_CLOSE = 1e-9
_NO_DATASET = "these log-likelihoods are not those of any dataset under this model"


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
    patterns, which = np.unique(np.isneginf(distinct), axis=0, return_inverse=True)
    for i, excluded in enumerate(patterns):
        members = np.flatnonzero(which.ravel() == i)
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
    if not np.isfinite(high) or comb(int(high) + len(table), len(table)) > _LARGEST_SEARCH:
        raise MissingCapabilityError(
            "the numbers of rows cannot be recovered from these log-likelihoods: pass rows= beside the statistics"
        )
    candidates = np.concatenate([unordered_datasets(rows, len(table)) for rows in range(low, int(high) + 1)])
    weights = np.sqrt(np.arange(2.0, 2.0 + t.shape[1]))  # a projection on which distinct datasets rarely meet
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
                "several datasets have these log-likelihoods: pass rows= beside the statistics, or use another rule"
            )
        counts[i] = near[0]
    return counts
