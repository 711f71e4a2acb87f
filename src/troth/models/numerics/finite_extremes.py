"""The minimum and maximum finite log PMI of finite models, by enumeration of few reports or local search over many.

A block is a table of log-likelihoods ``[symbol, state]`` with a maximum number of rows: the own report is one block,
and all peers with the same table are another. An extra symbol "no row" allows shorter reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise, product
from math import comb, prod
from typing import TypeAlias

import numpy as np

from troth.core.contract import Array
from troth.models.numerics.extremes import unordered_datasets
from troth.models.numerics.log_sum_exp import log_sum_exp

Block: TypeAlias = tuple[Array, int]

_MAX_COMBINATIONS = 3_000_000
_BEAM_WIDTH = 40


def finite_extremes(log_prior: Array, blocks: Sequence[Block], zeros: bool) -> tuple[float, float]:
    """Return the minimum and maximum finite log PMI between the first block and all others.

    Without zeros in the tables, full reports attain them: adding a row changes log PMI by the log ratio of two
    distributions over rows, so some row does not lower it and some row does not raise it.
    """
    if zeros:
        blocks = [(np.vstack([table, np.zeros(table.shape[1])]), limit) for table, limit in blocks]
    if prod(comb(limit + len(table) - 1, limit) for table, limit in blocks) <= _MAX_COMBINATIONS:
        reports = [log_likelihoods(unordered_datasets(limit, len(table)), table) for table, limit in blocks]
        return finite_extremes_of(log_prior, reports[0], reports[1:])
    return -_maximise(log_prior, blocks, -1.0), _maximise(log_prior, blocks, 1.0)


def finite_extremes_of(log_prior: Array, own: Array, peers: Sequence[Array]) -> tuple[float, float]:
    """Return the minimum and maximum finite log PMI over all combinations of given reports."""
    pooled = reduce(lambda a, b: (a[:, None] + b[None]).reshape(-1, a.shape[1]), peers, np.zeros((1, len(log_prior))))
    low, high = 0.0, 0.0
    step = max(1, 500_000 // len(pooled))
    for start in range(0, len(own), step):
        scores = _log_pmi(log_prior, own[start : start + step, None], pooled[None])
        finite = scores[np.isfinite(scores)]
        low, high = min(low, float(finite.min(initial=0.0))), max(high, float(finite.max(initial=0.0)))
    return low, high


def can_contradict(blocks: Sequence[Block]) -> bool:
    """Return whether two reports can each be possible but impossible together, so that PMI = 0 occurs."""

    def possible_states(table: Array, limit: int) -> set[frozenset[int]]:
        """Return the non-empty sets of states that a report may leave possible."""
        all_states = frozenset(range(table.shape[1]))
        by_symbol = [frozenset(np.flatnonzero(np.isfinite(row)).tolist()) for row in table]
        reached, fresh = {all_states}, {all_states}
        for _ in range(min(limit, table.shape[1])):
            fresh = {old & new for old, new in product(fresh, by_symbol)} - reached
            reached |= fresh
        return {states for states in reached if states}

    own, *peer_blocks = (possible_states(table, limit) for table, limit in blocks)
    peers = {frozenset.intersection(*chosen) for chosen in product(*peer_blocks)} if peer_blocks else set()
    return any(first and second and not first & second for first, second in product(own, peers))


def log_likelihoods(counts: Array, table: Array) -> Array:
    """Return the log-likelihoods of counts, with 0·(−∞) = 0."""
    impossible = np.isneginf(table)
    t = np.einsum("...k,km->...m", counts, np.where(impossible, 0.0, table))
    excluded = np.einsum("...k,km->...m", counts, impossible.astype(np.float64)) > 0
    return np.where(excluded, -np.inf, t)


def _log_pmi(log_prior: Array, own: Array, peers: Array) -> Array:
    """Log PMI, or −∞ if either side or both together are impossible."""
    joint, alone, pooled = (log_sum_exp(log_prior + t) for t in (own + peers, own, peers))
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(joint), -np.inf, joint - alone - pooled)


def _maximise(log_prior: Array, blocks: Sequence[Block], sign: float) -> float:
    """Maximise the finite values of sign·log PMI by beam search, which moves rows between symbols."""
    edges = np.cumsum([0, *(len(table) for table, _ in blocks)])

    def value(counts: Array) -> Array:
        parts = [log_likelihoods(counts[:, a:b], blocks[k][0]) for k, (a, b) in enumerate(pairwise(edges))]
        score = sign * _log_pmi(log_prior, parts[0], sum(parts[1:], np.zeros_like(parts[0])))
        return np.where(np.isfinite(score), score, -np.inf)

    reports, best = _starts(blocks), -np.inf
    while True:
        scores = value(reports)
        order = np.argsort(scores)[-_BEAM_WIDTH:]
        top = float(scores[order[-1]])
        if not top > best + 1e-13:
            return max(best, top, 0.0)
        best, reports = top, _neighbours(reports[order], blocks, edges)


def _starts(blocks: Sequence[Block]) -> Array:
    """Return starting points: combinations of reports of a single symbol, and random mixtures."""
    rng = np.random.default_rng(20201206)
    choices = list(product(*(range(len(table)) for table, _ in blocks)))[:5000]
    pure = [
        [limit * np.eye(len(table))[k] for k, (table, limit) in zip(symbols, blocks, strict=True)]
        for symbols in choices
    ]
    mixed = [rng.multinomial(limit, rng.dirichlet(np.full(len(table), 0.4), size=4000)) for table, limit in blocks]
    return np.concatenate([np.array([np.concatenate(row) for row in pure]), np.hstack(mixed)]).astype(np.float64)


def _neighbours(counts: Array, blocks: Sequence[Block], edges: Array) -> Array:
    """Move 1, 2, 4, … rows from one symbol to another within each block; the reports themselves are included."""
    reports = [counts]
    for k, (table, limit) in enumerate(blocks):
        unit = np.zeros((len(table), counts.shape[1]))
        unit[:, edges[k] : edges[k + 1]] = np.eye(len(table))
        moves = (unit[:, None] - unit[None]).reshape(-1, counts.shape[1])
        steps = 2.0 ** np.arange(max(1, int(limit).bit_length()))
        moved = (counts[:, None, None] + steps[:, None, None] * moves).reshape(-1, counts.shape[1])
        reports.append(moved[(moved >= 0).all(axis=1)])
    return np.unique(np.concatenate(reports), axis=0)
