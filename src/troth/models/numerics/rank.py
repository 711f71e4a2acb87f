"""Rank of what peers' symbols say about finitely many states, and what a lie costs by it.

Q₋ᵢ and P₋ᵢ are the paper's matrices of posteriors and of probabilities of the peers' data, a column for each state.
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from troth.core.contract import Array
from troth.core.sensitivity import Peers
from troth.models.numerics.collisions import log_same_type
from troth.models.numerics.reports import enumerate_reports

_LARGEST_COMPARISON = 2_000_000

FULL_RANK = 1e-9
"""Smallest eigenvalue of a matrix of cosines from which full rank is certain in double precision."""


def peer_cosines(peers: Peers, states: int) -> tuple[Array, Array]:
    """Cosines between the columns of P₋ᵢ, one per state, and the columns' lengths up to a common factor."""
    cosines, log_lengths = np.ones((states, states)), np.zeros(states)
    for model, rows in peers:
        if rows == 0:
            continue
        table = np.array(model.likelihood)
        lengths = np.linalg.norm(table, axis=1)
        cosines *= np.clip(table @ table.T / np.outer(lengths, lengths), 0.0, 1.0) ** rows
        log_lengths += rows * np.log(lengths)
    np.fill_diagonal(cosines, 1.0)
    return cosines, np.exp(log_lengths - log_lengths.max())


def kruskal_rank(matrix: Array) -> int:
    """Return the largest r such that any r columns are linearly independent.

    Examples
    --------
    >>> kruskal_rank(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]))
    2
    """
    columns = int(matrix.shape[1])
    for size in range(1, columns + 1):
        if any(np.linalg.matrix_rank(matrix[:, chosen]) < size for chosen in combinations(range(columns), size)):
            return size - 1
    return columns


def squared_singular_value(peers: Peers, states: int) -> float:
    """Return e_i², the least eigenvalue of P₋ᵢᵀP₋ᵢ over the peers' data up to the order of rows (erratum E4)."""
    log_gram = np.zeros((states, states))
    for model, rows in peers:
        log_gram = log_gram + log_same_type(np.array(model.likelihood), rows)
    values = np.linalg.eigvalsh(np.exp(log_gram))
    return float(values[0]) if values[0] > 1e-12 * values[-1] else 0.0


def exact_linear_price(model: Any, rows: int, peers: Peers, low: float = -np.inf) -> float | None:
    """Return the least expected loss over ‖Δ‖ of all reports, in nats of log PMI, or None if they are too many.

    Where PMI = 0 the score is ``low``, as the rule pays it; without a rule the loss is a Kullback-Leibler divergence.
    """
    size = comb(rows + len(model.likelihood[0]), rows) ** 2
    for other, count in peers:
        size *= comb(count + len(other.likelihood[0]) - 1, count)
    if size > _LARGEST_COMPARISON:
        return None
    _, own, _ = enumerate_reports(model, range(rows + 1))
    pooled, orders = np.zeros((1, len(model.prior))), np.zeros(1)
    for other, count in peers:
        _, t, log_orders = enumerate_reports(other, [count])
        pooled = (pooled[:, None] + t[None]).reshape(-1, pooled.shape[1])
        orders = (orders[:, None] + log_orders[None]).ravel()
    possible = np.isfinite(model.log_evidence(pooled))
    pooled, orders = pooled[possible], orders[possible]
    log_p = model.log_evidence(own[:, None] + pooled[None]) - model.log_evidence(own)[:, None]
    chance = np.exp(orders + log_p)
    score = np.maximum(log_p - model.log_evidence(pooled), low)
    posterior = model.posterior_probabilities(own)
    least = np.inf
    for i in range(len(own)):
        seen = chance[i] > 0
        loss = chance[i, seen] @ (score[i, seen][:, None] - score[:, seen].T)
        distance = np.linalg.norm(posterior - posterior[i], axis=1)
        apart = distance > 1e-9
        least = min(least, float((loss[apart] / distance[apart]).min(initial=np.inf)))
    return least if np.isfinite(least) else None
