"""Decide whether peers' data distinguish a provider's reports: by rank for finitely many states, or by enumeration.

Q₋ᵢ and P₋ᵢ are the paper's matrices of posteriors and of probabilities of the peers' data, with a column per state.
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from troth.core.contract import Array
from troth.core.information import second_difference
from troth.core.sensitivity import Peers, Sensitivity, refuted_without_data
from troth.models.numerics.collisions import log_same_counts
from troth.models.numerics.enumeration import enumerate_reports, enumerate_together

_MAX_REPORTS = 360_000
_MAX_PAIRED_REPORTS = 600
_MAX_COMPARISON = 2_000_000
_EQUAL = 1e-12  # relative squared norm up to which predictions count as equal
_LOG_PMI_TOLERANCE = 1e-6

FULL_RANK = 1e-9
"""Smallest eigenvalue of a matrix of cosines from which full rank is certain in double precision."""


def dirichlet_sensitivity(model: Any, prior: Array, rows: int, peers: Peers) -> Sensitivity:
    """Decide for counts with a Dirichlet prior: two peer rows suffice, one reveals only ratios of posterior counts."""
    if refutation := refuted_without_data(peers):
        return refutation
    if sum(count for _, count in peers) >= 2:
        return Sensitivity("proved", "two peer rows determine all posterior counts")
    if comb(rows + len(prior), rows) > _MAX_REPORTS:
        return Sensitivity("undecided", "one peer row shows only ratios of counts, and reports are too many to compare")
    _, reports, _ = enumerate_reports(model, range(rows + 1))
    posterior = prior + reports
    shares = (posterior / posterior.sum(axis=1, keepdims=True)).round(12)
    _, first, inverse = np.unique(shares, axis=0, return_index=True, return_inverse=True)
    for i, group in enumerate(inverse.ravel()):
        if first[group] != i:
            reason = "one peer row shows only ratios of counts, and these reports share theirs"
            return Sensitivity("refuted", reason, 0.0, _pair(reports, int(first[group]), i))
    return Sensitivity("proved", "no two admissible reports have proportional posterior counts")


def compare_predictions(model: Any, rows: int, cosines: Array, norms: Array, eigenvalue: float) -> Sensitivity:
    """Compare the predictive distributions of the peers under all admissible reports, if there are not too many.

    ``cosines`` are those between the peers' distributions under each state, ``norms`` the norms of these up to a common
    factor, and ``eigenvalue`` the smallest eigenvalue of the cosines.
    """
    labels = model.reduction.width
    if comb(rows + labels, labels) > _MAX_PAIRED_REPORTS:
        reason = "Q of the peers may lack rank, and reports are too many to compare"
        return Sensitivity("undecided", reason, eigenvalue)
    counts, statistics, _ = enumerate_reports(model, range(rows + 1))
    posterior = model.posterior_probabilities(statistics)
    _, representative = np.unique(posterior.round(10), axis=0, return_index=True)
    pairs = np.array(list(combinations(representative, 2)), dtype=np.intp).reshape(-1, 2)
    difference = (posterior[pairs[:, 0]] - posterior[pairs[:, 1]]) * norms
    squares = np.einsum("pi,ij,pj->p", difference, cosines, difference)
    equal = squares <= _EQUAL * (difference**2).sum(axis=1)
    if equal.any():
        first, second = pairs[int(np.argmax(equal))]
        return Sensitivity(
            "refuted", "peers' data are equally likely under both reports", 0.0, _pair(counts, first, second)
        )
    margin = float(squares.min(initial=1.0))
    return Sensitivity("proved", "no two admissible reports predict the same of the peers", margin)


def compare_log_pmi(model: Any, rows: int, peers: Peers) -> Sensitivity:
    """Compare the log PMI of all admissible reports with the possible first three rows of the largest peer.

    The prediction of a peer's first rows follows from the prediction of all its rows. So if two reports predict the
    first rows differently, the peers' data distinguish them.
    """
    if refutation := refuted_without_data(peers):
        return refutation
    labels = model.reduction.width
    if comb(rows + labels, labels) > _MAX_PAIRED_REPORTS:
        return Sensitivity("undecided", "reports are too many to compare what they predict of the peers")
    counts, statistics, _ = enumerate_reports(model, range(rows + 1))
    _, outcomes, _ = enumerate_reports(model, [min(3, max(n for _, n in peers))])
    scores = second_difference(model, statistics[:, None], outcomes)
    gaps = np.abs(scores[:, None] - scores).max(axis=-1) + np.eye(len(scores))
    first, second = (int(i) for i in np.unravel_index(np.argmin(gaps), gaps.shape))
    gap = float(gaps[first, second])
    if gap > _LOG_PMI_TOLERANCE:
        return Sensitivity("proved", "no two admissible reports predict the same of the peers", gap)
    if max(n for _, n in peers) <= 3 and sum(n > 0 for _, n in peers) == 1:
        reason = "peers' data are equally likely under both reports"
        return Sensitivity("refuted", reason, 0.0, _pair(counts, first, second))
    return Sensitivity("undecided", "three rows of a peer do not distinguish all reports", gap)


def _pair(reports: Array, first: int, second: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    a, b = (tuple(int(n) for n in reports[k]) for k in (first, second))
    return a, b


def peer_cosines(peers: Peers, states: int) -> tuple[Array, Array]:
    """Return the cosines between the columns of P₋ᵢ, one per state, and the columns' norms up to a common factor."""
    cosines, log_norms = np.ones((states, states)), np.zeros(states)
    for model, rows in peers:
        if rows == 0:
            continue
        table = np.array(model.likelihood)
        norms = np.linalg.norm(table, axis=1)
        cosines *= np.clip(table @ table.T / np.outer(norms, norms), 0.0, 1.0) ** rows
        log_norms += rows * np.log(norms)
    np.fill_diagonal(cosines, 1.0)
    return cosines, np.exp(log_norms - log_norms.max())


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
    """Return e_i², the smallest eigenvalue of P₋ᵢᵀP₋ᵢ over the peers' data up to the order of rows (erratum E4)."""
    log_gram = np.zeros((states, states))
    for model, rows in peers:
        log_gram = log_gram + log_same_counts(np.array(model.likelihood), rows)
    values = np.linalg.eigvalsh(np.exp(log_gram))
    return float(values[0]) if values[0] > 1e-12 * values[-1] else 0.0


def exact_linear_price(model: Any, rows: int, peers: Peers, low: float = -np.inf) -> float | None:
    """Return the minimum over pairs of reports of the expected loss per ‖Δ‖, in nats, or None if there are too many.

    At PMI = 0 the score is ``low``, as the rule pays it; without a rule the loss is a Kullback–Leibler divergence.
    """
    size = comb(rows + len(model.likelihood[0]), rows) ** 2
    for other, count in peers:
        size *= comb(count + len(other.likelihood[0]) - 1, count)
    if size > _MAX_COMPARISON:
        return None
    _, own, _ = enumerate_reports(model, range(rows + 1))
    pooled, orders = enumerate_together(peers, len(model.prior))
    possible = np.isfinite(model.log_evidence(pooled))
    pooled, orders = pooled[possible], orders[possible]
    log_p = model.log_evidence(own[:, None] + pooled[None]) - model.log_evidence(own)[:, None]
    probability = np.exp(orders + log_p)
    score = np.maximum(log_p - model.log_evidence(pooled), low)
    posterior = model.posterior_probabilities(own)
    price = np.inf
    for i in range(len(own)):
        support = probability[i] > 0
        loss = probability[i, support] @ (score[i, support][:, None] - score[:, support].T)
        distance = np.linalg.norm(posterior - posterior[i], axis=1)
        distinct = distance > 1e-9
        price = min(price, float((loss[distinct] / distance[distinct]).min(initial=np.inf)))
    return price if np.isfinite(price) else None
