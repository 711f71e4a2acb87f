"""The number of orders of a report's rows, recovered from its log-likelihoods and its number of rows.

ln p(labels|θ) = Σ_k g_θk(c_k) − h(N) adds over labels k, whatever the dispersion. So the labels are cut into two
halves, all counts of either half are listed, and pairs whose parts add up to the report's log-likelihoods are searched
in a sorted list: with K labels about N^{K/2} numbers in place of N^{K−1}. Different counts that explain a report
equally well are an ambiguity only if their numbers of orders differ.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import TypeAlias

import numpy as np
from scipy.special import gammaln, xlogy

from troth.core.contract import Array
from troth.core.errors import MissingCapabilityError
from troth.models.numerics.dispersed import log_rising, pseudo_counts
from troth.models.numerics.extremes import unordered_datasets

Table: TypeAlias = tuple[tuple[float, ...], ...]

_LARGEST_HALF = 1_000_000
_CLOSE = 1e-11


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
    few, many = _halves(table, dispersion, rows)
    strength = pseudo_counts(np.ones(()), np.asarray(dispersion))
    t = np.array([*statistic, -float(rows)])
    t[:-1] += log_rising(strength, np.asarray(float(rows)))
    weights = _weights(len(t))
    slack = _CLOSE * (1 + np.abs(t) @ weights)
    wanted = t @ weights - few[0]
    first, last = np.searchsorted(many[0], wanted - slack), np.searchsorted(many[0], wanted + slack)
    one = np.repeat(np.arange(len(wanted)), last - first)
    two = np.arange(len(one)) + np.repeat(first - np.concatenate([[0], np.cumsum(last - first)[:-1]]), last - first)
    fits = (np.abs(few[1][one] + many[1][two] - t) <= _CLOSE * (1 + np.abs(t).max())).all(axis=1)
    orders = gammaln(rows + 1) - few[2][one[fits]] - many[2][two[fits]]
    if len(orders) == 0:
        raise MissingCapabilityError(
            f"these log-likelihoods are not those of any dataset of {rows} rows: pass rows= as reported"
        )
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
    if comb(rows + symbols - cut, symbols - cut) > _LARGEST_HALF:
        raise MissingCapabilityError(
            f"the counts of {symbols} labels cannot be recovered from the log-likelihoods of {rows} rows, unless "
            "labels are merged"
        )
    strength = pseudo_counts(np.ones(()), np.asarray(dispersion))
    every = np.arange(rows + 1.0)
    parts = xlogy(every, p[..., None]) + log_rising(p[..., None] * strength, every)  # [state, symbol, count]
    log_factorials = gammaln(every + 1)
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
