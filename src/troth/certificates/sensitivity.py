"""Is any lie free? Whether every report with another posterior earns strictly less, family by family.

Under a strictly proper score a lie is free only if p(peers|report) = p(peers|truth) for all that peers could say. For
finite Θ that is a matter of rank (the paper's Theorem on sensitivity, made exact by erratum E15); for exponential
families of whether the peers' predictive distribution tells any two posteriors apart (the paper's h-condition).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from troth import models
from troth.certificates.reports import enumerate_reports
from troth.models.numerics.collisions import log_same_type
from troth.models.numerics.day_type_cosines import day_type_cosines

if TYPE_CHECKING:
    from troth.core.contract import Array

Verdict = Literal["proved", "refuted", "undecided"]

_FULL_RANK = 1e-9  # smallest eigenvalue of a matrix of cosines from which full rank is certain in double precision
_FREE = 1e-12
_MOST_REPORTS = 600


@dataclass(frozen=True)
class Sensitivity:
    """Whether one provider has a free lie, why, and if so which."""

    verdict: Verdict
    reason: str
    margin: float | None = None
    witness: tuple[Any, Any] | None = None


@singledispatch
def sensitivity(model: Any, rows: int, peers: Sequence[tuple[Any, int]]) -> Sensitivity:  # noqa: ARG001
    """Decide for a provider with up to ``rows`` rows whose peers have the given models and rows.

    An unknown family is undecided: its predictive distribution may or may not tell posteriors apart.
    """
    return Sensitivity("undecided", f"no proof is known for {type(model).__name__}")


def _nobody(peers: Sequence[tuple[Any, int]]) -> Sensitivity | None:
    if sum(rows for _, rows in peers) == 0:
        return Sensitivity("refuted", "peers without data cannot tell anything apart", 0.0, ("any report", "any other"))
    return None


@sensitivity.register
def _dirichlet(model: models.Categorical, rows: int, peers: Sequence[tuple[Any, int]]) -> Sensitivity:
    """Two peer rows suffice.

    Proof. With posterior counts x and N = Σx, one row has the predictive x_k/N. Two rows both in category k have
    x_k(x_k + 1)/(N(N + 1)); divided by the former, (x_k + 1)/(N + 1). From r = x_k/N and s = (x_k + 1)/(N + 1) follows
    N = (1 − s)/(s − r), where s > r because N > x_k, and then x. With one row only the ratios x_k/N show, so reports
    with proportional counts collide (erratum E3). ∎
    """
    if (nobody := _nobody(peers)) is not None:
        return nobody
    if sum(count for _, count in peers) >= 2:
        return Sensitivity("proved", "two peer rows determine all posterior counts")
    if comb(rows + len(model.alpha), rows) > _MOST_REPORTS**2:
        return Sensitivity("undecided", "one peer row shows only ratios of counts, and reports are too many to compare")
    counts, _, _ = enumerate_reports(model, range(rows + 1))
    return _proportional(np.array(model.alpha) + counts, counts)


@sensitivity.register
def _beta(model: models.Bernoulli, rows: int, peers: Sequence[tuple[Any, int]]) -> Sensitivity:
    """Two peer rows suffice, as for the categorical with two labels; at one row ratios may collide (erratum E3)."""
    if (nobody := _nobody(peers)) is not None:
        return nobody
    if sum(count for _, count in peers) >= 2:
        return Sensitivity("proved", "two peer rows determine both posterior counts")
    if rows > _MOST_REPORTS:
        return Sensitivity("undecided", "one peer row shows only ratios of counts, and reports are too many to compare")
    _, statistics, _ = enumerate_reports(model, range(rows + 1))
    return _proportional(np.array([model.alpha, model.beta]) + statistics, statistics)


def _proportional(posterior: Array, reports: Array) -> Sensitivity:
    """With one peer row, look for two reports whose posterior counts are proportional."""
    shares = (posterior / posterior.sum(axis=1, keepdims=True)).round(12)
    _, first, which = np.unique(shares, axis=0, return_index=True, return_inverse=True)
    for i, group in enumerate(which.ravel()):
        if first[group] != i:
            pair = tuple(tuple(int(n) for n in reports[k]) for k in (first[group], i))
            return Sensitivity(
                "refuted",
                "one peer row shows only ratios of counts, and these reports share theirs",
                0.0,
                (pair[0], pair[1]),
            )
    return Sensitivity("proved", "no two admissible reports have proportional posterior counts")


@sensitivity.register
def _negative_binomial(model: models.NegativeBinomial, rows: int, peers: Sequence[tuple[Any, int]]) -> Sensitivity:  # noqa: ARG001
    """One peer row suffices.

    Proof. With posterior (A, B) and S = A + B + r the predictive has p(1)/p(0) = r·B/S and
    p(2)/p(1) = (r+1)/2·(B+1)/(S+1). From u = B/S and v = (B+1)/(S+1), v > u, follow S = (1 − v)/(v − u), B and A. ∎
    """
    return _nobody(peers) or Sensitivity("proved", "the predictive at 0, 1 and 2 determines the posterior")


@sensitivity.register
def _poisson(model: models.Poisson, rows: int, peers: Sequence[tuple[Any, int]]) -> Sensitivity:  # noqa: ARG001
    """One peer row suffices.

    Proof. With posterior (a, b) the predictive has p(1)/p(0) = a/(b + 1) and 2p(2)/p(1) = (a + 1)/(b + 1); their
    difference is 1/(b + 1), which gives b and then a. ∎
    """
    return _nobody(peers) or Sensitivity("proved", "the predictive at 0, 1 and 2 determines the posterior")


@sensitivity.register
def _gamma(model: models.Gamma, rows: int, peers: Sequence[tuple[Any, int]]) -> Sensitivity:  # noqa: ARG001
    """One peer row suffices.

    Proof. With posterior (A, B) the predictive density is x^{k−1}(B + x)^{−(A+k)} up to a constant; its logarithm, less
    the known (k − 1) ln x, has derivative −(A + k)/(B + x), whose values at two points give A and B. ∎
    """
    return _nobody(peers) or Sensitivity("proved", "the predictive density determines the posterior")


@sensitivity.register(models.Normal)
@sensitivity.register(models.ProviderNormal)
def _normal(model: Any, rows: int, peers: Sequence[tuple[Any, int]]) -> Sensitivity:  # noqa: ARG001
    """One peer row suffices, against the paper's appendix (erratum E1).

    Proof. The predictive is normal with the posterior mean (plus a known offset), and with the posterior variance plus
    a known noise (and dispersion): it determines both. ∎
    """
    return _nobody(peers) or Sensitivity("proved", "the predictive's mean and variance determine the posterior (E1)")


@sensitivity.register
def _normal_unknown(model: models.NormalUnknownVariance, rows: int, peers: Sequence[tuple[Any, int]]) -> Sensitivity:  # noqa: ARG001
    """One peer row suffices.

    Proof. The predictive is Student's t with 2A degrees of freedom, A = shape + n/2, which gives n and with it λ; its
    location is the posterior mean and its squared scale B(λ + 1)/(Aλ), which gives B. ∎
    """
    return _nobody(peers) or Sensitivity("proved", "degrees of freedom, location and scale of one row determine it")


@sensitivity.register
def _multivariate(model: models.MultivariateNormal, rows: int, peers: Sequence[tuple[Any, int]]) -> Sensitivity:  # noqa: ARG001
    """One peer row suffices.

    Proof. The predictive's mean, and its covariance less the known noise, are the posterior's. ∎
    """
    return _nobody(peers) or Sensitivity("proved", "the predictive's mean and covariance determine the posterior")


@sensitivity.register
def _multivariate_unknown(
    model: models.MultivariateNormalUnknownCovariance,  # noqa: ARG001
    rows: int,  # noqa: ARG001
    peers: Sequence[tuple[Any, int]],
) -> Sensitivity:
    """One peer row suffices.

    Proof. The predictive is a multivariate t whose degrees of freedom give n, so the strength; its location is the
    posterior mean and its scale matrix a known multiple of Ψ. ∎
    """
    return _nobody(peers) or Sensitivity("proved", "degrees of freedom, location and scale of one row determine it")


@sensitivity.register(models.LinearRegression)
@sensitivity.register(models.LinearRegressionUnknownNoise)
def _regression(model: Any, rows: int, peers: Sequence[tuple[Any, int]]) -> Sensitivity:
    """As many peer rows as coefficients suffice (one more with unknown noise), for features in general position.

    Proof. Given peers' features Z the answers are normal with mean Zμ and covariance ZΣZᵀ + σ²: if Z has full column
    rank this determines μ and Σ. With unknown noise they are multivariate t: degrees of freedom give n, and the scale
    s(1 + ZΛ⁻¹Zᵀ) gives s on the orthogonal complement of Z, which is there from d + 1 rows on, then Λ. With fewer
    than d rows some direction of the coefficients is never seen: reports that differ in that direction alone collide. ∎
    """
    d, count = len(model.mean), sum(n for _, n in peers)
    if (nobody := _nobody(peers)) is not None:
        return nobody
    needed = d + (not isinstance(model, models.LinearRegression))
    if count >= needed:
        return Sensitivity("proved", f"{count} peer rows see all {d} coefficients, for features in general position")
    if count < d and rows > 0:
        pair = ("a row whose features peers never see", "the same row with another answer")
        return Sensitivity("refuted", f"{count} peer rows cannot see all {d} coefficients", 0.0, pair)
    return Sensitivity("undecided", "peers' answers may not separate noise from coefficients")


@sensitivity.register
def _finite(model: models.Finite, rows: int, peers: Sequence[tuple[Any, int]]) -> Sensitivity:
    """Full rank of Q₋ᵢ suffices; short of it all admissible reports are compared, if there are not too many.

    Proof. rank(Q₋ᵢ) is that of its Gram matrix, the entrywise product over peers of powers of small Gram matrices
    (erratum E15), here scaled to cosines. If it is short, P₋ᵢΔ = 0 has solutions, and a lie is free just if the
    difference Δ of the posteriors of two admissible reports is one. ∎
    """
    cosines, norms = _peer_cosines(peers, len(model.prior))
    least = float(np.linalg.eigvalsh(cosines)[0])
    if least > _FULL_RANK:
        return Sensitivity("proved", "Q of the peers has full rank (E15)", least)
    if len(model.prior) <= 12 and kruskal_condition(peers, len(model.prior)):
        return Sensitivity("proved", "the k-rank condition holds (the paper's Corollary)", least)
    return _compared(model, rows, len(model.likelihood[0]), cosines, norms, least)


@sensitivity.register
def _latent_class(model: models.LatentClass, rows: int, peers: Sequence[tuple[Any, int]]) -> Sensitivity:
    """Peers whose data have linearly independent laws under the day types suffice.

    Proof. As for finite models a lie is free only if P₋ᵢΔ = 0, and P₋ᵢ has full rank just if the matrix of cosines
    between its columns has: for independent peers the entrywise product of theirs, over any part of what they could
    report. One peer with at least one row of values or counts suffices if its means differ from type to type: the
    densities of normals with one variance and different means are linearly independent, and so are those of (negative
    binomial) sums, whose tails fall as powers of different numbers. ∎
    """
    if (nobody := _nobody(peers)) is not None:
        return nobody
    types = len(model.prior)
    unbounded = (other for other, n in peers if n and other.outcome in ("count", "real"))
    if any(len(set(other.means)) == types for other in unbounded):
        return Sensitivity("proved", "a peer's data have a different mean under each day type, and densities tell")
    cosines, log_norms = np.ones((types, types)), np.zeros(types)
    for (other, n), times in Counter(pair for pair in peers if pair[1]).items():
        part, norms = day_type_cosines(other, n)
        cosines, log_norms = cosines * part**times, log_norms + times * norms
    np.fill_diagonal(cosines, 1.0)
    least = float(np.linalg.eigvalsh(cosines)[0])
    if least > _FULL_RANK:
        return Sensitivity("proved", "peers' data have linearly independent laws under the day types", least)
    if model.outcome not in ("binary", "categorical"):
        return Sensitivity("undecided", "peers' laws may be linearly dependent, and reports cannot be listed", least)
    return _compared(model, rows, model.reduction.width, cosines, np.exp(log_norms - log_norms.max()), least)


def _compared(model: Any, rows: int, labels: int, cosines: Array, norms: Array, least: float) -> Sensitivity:
    """Compare what all admissible reports predict of the peers, if there are not too many."""
    if comb(rows + labels, labels) > _MOST_REPORTS:
        return Sensitivity("undecided", "Q of the peers may lack rank, and reports are too many to compare", least)
    counts, statistics, _ = enumerate_reports(model, range(rows + 1))
    log_posterior = np.log(np.array(model.prior)) + statistics
    posterior = np.exp(log_posterior - model.log_evidence(statistics)[:, None])
    _, first = np.unique(posterior.round(10), axis=0, return_index=True)
    pairs = np.array(list(combinations(first, 2)), dtype=np.intp).reshape(-1, 2)
    difference = (posterior[pairs[:, 0]] - posterior[pairs[:, 1]]) * norms
    seen = np.einsum("pi,ij,pj->p", difference, cosines, difference)
    free = seen <= _FREE * (difference**2).sum(axis=1)
    if free.any():
        one, two = pairs[int(np.argmax(free))]
        witness = tuple(tuple(int(n) for n in counts[k]) for k in (one, two))
        return Sensitivity(
            "refuted", "peers' data are equally likely under both reports", 0.0, (witness[0], witness[1])
        )
    return Sensitivity(
        "proved", "no two admissible reports predict the same of the peers", float(seen.min(initial=1.0))
    )


def _peer_cosines(peers: Sequence[tuple[Any, int]], states: int) -> tuple[Array, Array]:
    """Cosines between the columns of P₋ᵢ, one per state, and the columns' lengths up to a common factor."""
    cosines, log_norms = np.ones((states, states)), np.zeros(states)
    for model, rows in peers:
        if rows == 0:
            continue
        table = np.array(model.likelihood)
        lengths = np.linalg.norm(table, axis=1)
        cosines *= np.clip(table @ table.T / np.outer(lengths, lengths), 0.0, 1.0) ** rows
        log_norms += rows * np.log(lengths)
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
        for chosen in combinations(range(columns), size):
            if int(np.linalg.matrix_rank(matrix[:, list(chosen)])) < size:
                return size - 1
    return columns


def kruskal_condition(peers: Sequence[tuple[Any, int]], states: int) -> bool:
    """Return whether the paper's Corollary applies: Σ_j (k-rank(G_j) − 1)·N_j + 1 ≥ |Θ|."""
    total = 1
    for model, rows in peers:
        table = np.array(model.likelihood)
        table = table[:, table.any(axis=0)]
        joint = np.array(model.prior)[:, None] * table
        total += (kruskal_rank((joint / joint.sum(axis=0)).T) - 1) * rows
    return bool(total >= states)


def squared_singular_value(peers: Sequence[tuple[Any, int]], states: int) -> float:
    """Return e_i², the least eigenvalue of P₋ᵢᵀP₋ᵢ with datasets counted by type (erratum E4)."""
    log_gram = np.zeros((states, states))
    for model, rows in peers:
        log_gram = log_gram + log_same_type(np.array(model.likelihood), rows)
    values = np.linalg.eigvalsh(np.exp(log_gram))
    return float(values[0]) if values[0] > 1e-12 * values[-1] else 0.0


def exact_linear_price(
    model: Any, rows: int, peers: Sequence[tuple[Any, int]], low: float = -np.inf, most: int = 2_000_000
) -> float | None:
    """Return the least expected loss over ‖Δ‖ of all reports, in nats of log PMI, or None if they are too many.

    Where PMI = 0 the score is ``low``, as the rule pays it; without a rule the loss is a Kullback-Leibler divergence.
    """
    size = comb(rows + len(model.likelihood[0]), rows) ** 2
    for other, count in peers:
        size *= comb(count + len(other.likelihood[0]) - 1, count)
    if size > most:
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
    posterior = np.exp(np.log(np.array(model.prior)) + own - model.log_evidence(own)[:, None])
    least = np.inf
    for i in range(len(own)):
        seen = chance[i] > 0
        loss = chance[i, seen] @ (score[i, seen][:, None] - score[:, seen].T)
        distance = np.linalg.norm(posterior - posterior[i], axis=1)
        apart = distance > 1e-9
        least = min(least, float((loss[apart] / distance[apart]).min(initial=np.inf)))
    return least if np.isfinite(least) else None
