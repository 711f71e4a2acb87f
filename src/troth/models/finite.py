"""Finitely many states of the world: the paper's discrete setting, which can approximate any likelihood."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import comb
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import gammaln

from troth.core.contract import Array, Extremes, Forecast, Generator, Mask, Model
from troth.core.errors import DataError, MissingCapabilityError, ParameterError
from troth.core.past import PastTasks
from troth.core.reductions import Counts, Reduction
from troth.core.sensitivity import Peers, Price, Sensitivity
from troth.models.family import Example, Matrix, Vector
from troth.models.first_guess import FirstGuess
from troth.models.numerics.collisions import log_same_counts, log_same_sequence
from troth.models.numerics.count_recovery import recover_counts
from troth.models.numerics.dispersed import draw_codes, draw_counts
from troth.models.numerics.extremes import unordered_datasets
from troth.models.numerics.finite_extremes import can_contradict, finite_extremes, finite_extremes_of, log_likelihoods
from troth.models.numerics.identification import (
    FULL_RANK,
    compare_predictions,
    exact_linear_price,
    kruskal_rank,
    peer_cosines,
    squared_singular_value,
)
from troth.models.numerics.possible_statistics import SLACK, none_above
from troth.models.parameters import flag, matrix, parameter, probabilities
from troth.models.shared.finite_states import FittedStates

if TYPE_CHECKING:
    from troth.models.fitting.workers import FittedWorkers

_MAX_ENUMERATION = 200_000
_ACCURACY = 0.7  # of an unknown worker, in a first guess
_MAX_CONDITION = 1e4  # of a table whose log-likelihoods determine counts accurately
_MAX_STATES = 12  # for which the k-rank is quick to compute


@dataclass(frozen=True)
class Finite(FittedStates):
    """Rows that are symbols 0 … K−1, whose distribution depends on θ, one of m states.

    Statistic: Σ log p(d|θ), one entry per θ, −∞ allowed. Λ(t) = logsumexp(log p(θ) + t).

    The likelihood is p(symbol|θ) as ``likelihood[θ, symbol]``, zeros allowed; providers may have different tables. A
    likelihood that is not ``normalised``, which `from_posteriors` may return, is known up to a factor per symbol. Log
    PMI is the same, but such a model cannot draw data.

    Examples
    --------
    >>> model = Finite(prior=[0.5, 0.5], likelihood=[[0.9, 0.1], [0.2, 0.8]])
    >>> model.statistics([0, 0, 1]).round(3)
    array([-2.513, -3.442])
    """

    prior: Vector = field(
        metadata=parameter("probabilities of the states; likelihood has a row for each", probabilities, [0.5, 0.3, 0.2])
    )
    likelihood: Matrix = field(
        metadata=parameter(
            "one row per state, one column per symbol", matrix, [[0.95, 0.05], [0.85, 0.15], [0.6, 0.4]], known=True
        )
    )
    normalised: bool = field(
        default=True, metadata=parameter("false if it is known only up to a factor per symbol", flag, known=True)
    )

    description: ClassVar[str] = "symbols, and a few possible states of the world"
    example: ClassVar[Example] = Example(
        "a test whose accuracy is known, in a season that is calm, usual or epidemic",
        ("result",),
        "laboratory",
        labels=("negative", "positive"),
    )

    recovers_rows: ClassVar[bool] = True
    own_likelihoods: ClassVar[bool] = True
    by_state: ClassVar[tuple[str, ...]] = ("likelihood",)
    _value_word = "symbol"

    def __post_init__(self) -> None:
        super().__post_init__()
        table, states = np.array(self.likelihood), len(self.prior)
        sums = table.sum(axis=1)
        worst = int(np.argmax(np.abs(sums - 1)))
        problem = ""
        if len(table) != states:
            problem = f" must have {states} rows, one per state, not {len(table)}"
        elif (table < 0).any():
            state, symbol = np.argwhere(table < 0)[0]
            problem = f"[{state}, {symbol}] is below 0"
        elif self.normalised and abs(sums[worst] - 1) > 1e-6:
            problem = f"[{worst}] must sum to 1 over symbols, not {sums[worst]:.9g}"
        if problem:
            raise ParameterError(f"Finite: likelihood{problem}", parameter="likelihood")

    @classmethod
    def from_posteriors(cls, prior: Any, posteriors: Any) -> Finite:
        """Create a model from the posterior of each symbol, as in the paper.

        log p(θ|d) − log p(θ) differs from log p(d|θ) by a constant per row, which cancels in log PMI: the analyst
        need not know p(d|θ). If the posteriors determine p(d), the likelihood is recovered too.

        Parameters
        ----------
        prior
            p(θ).
        posteriors
            p(θ|symbol) as ``posteriors[symbol, θ]``.

        Examples
        --------
        >>> model = Finite.from_posteriors(prior=[0.5, 0.5], posteriors=[[0.75, 0.25], [0.25, 0.75]])
        >>> np.array(model.likelihood).round(12).tolist()
        [[0.75, 0.25], [0.25, 0.75]]
        """
        from scipy.optimize import nnls  # slow to import

        p, q = (np.asarray(a, dtype=np.float64) for a in (prior, posteriors))
        if p.ndim != 1 or q.ndim != 2 or q.shape[1] != len(p):
            raise ParameterError(f"Finite: posteriors must have shape (symbols, {p.size}), not {q.shape}")
        if not (np.isfinite(p).all() and np.isfinite(q).all() and (p > 0).all()):
            raise ParameterError("Finite: prior and posteriors must be finite, and the prior above 0")
        if (q < 0).any() or not np.allclose(q.sum(axis=1), 1, rtol=0, atol=1e-6):
            raise ParameterError("Finite: each row posteriors[symbol] must be non-negative and sum to 1")
        weights, gap = nnls(q.T, p)
        if gap > 1e-2:
            raise ParameterError(
                "Finite: no frequencies of the symbols average these posteriors to this prior, so they contradict it"
            )
        ratio = q.T / p[:, None]
        if np.linalg.matrix_rank(q) == len(q) and gap < 1e-9 and (weights > 0).all():
            table = ratio * weights
            return cls(tuple(p), (table / table.sum(axis=1, keepdims=True)).tolist())
        return cls(tuple(p), ratio.tolist(), normalised=False)

    @cached_property
    def _log_table(self) -> Array:
        """Log p(symbol|θ) as ``[symbol, θ]``."""
        with np.errstate(divide="ignore"):
            return np.ascontiguousarray(np.log(np.array(self.likelihood, dtype=np.float64)).T)

    @property
    def reduction(self) -> Reduction:
        """Counts of each symbol."""
        return Counts(len(self.likelihood[0]))

    def from_summary(self, summary: Array, /) -> Array:
        """Map counts of symbols to log-likelihoods, with 0·(−∞) = 0."""
        return log_likelihoods(np.asarray(summary, dtype=np.float64), self._log_table)

    def statistics(self, data: Any, /) -> Array:
        """Sum the log-likelihoods of the rows, one entry per state, along the last axis."""
        t = self.from_summary(self.summary(data))
        impossible = np.isneginf(t).all(axis=-1)
        if impossible.any():
            self._explain_impossible(np.asarray(data)[tuple(np.argwhere(impossible)[0])])
        return t

    def _explain_impossible(self, symbols: Array) -> None:
        possible = np.ones(len(self.prior), dtype=bool)
        for row, symbol in enumerate(symbols.astype(np.intp)):
            possible &= ~np.isneginf(self._log_table[symbol])
            if not possible.any():
                raise DataError(
                    f"row {row}: symbol {symbol} cannot occur together with the rows before it in any state"
                )

    possible_statistics: ClassVar[str] = "log-likelihoods are sums of the symbols' log-likelihoods"

    def possible(self, statistics: Array, /) -> Mask:
        """Return where statistics can be sums of the symbols' log-likelihoods.

        A sum exceeds 0 only in states where the log-likelihood of some symbol does, and is −∞ only in states that
        exclude some symbol. If the symbols' log-likelihoods are linearly independent, they determine the counts, and
        none is negative.
        """
        t, table = np.asarray(statistics, dtype=np.float64), self._log_table
        excluded = np.isneginf(t)
        valid = none_above(t, np.where(table.max(axis=0) <= 0, 0.0, np.inf))
        valid &= ~(excluded & ~np.isneginf(table).any(axis=0)).any(axis=-1)
        if self._to_counts is None:
            return valid
        counts = t @ self._to_counts
        slack = SLACK * (1 + np.abs(t).max(axis=-1, keepdims=True)) * (1 + np.abs(self._to_counts).sum())
        valid &= (counts >= -slack).all(axis=-1) & (np.abs(counts @ table - t) <= slack).all(axis=-1)
        return np.asarray(valid)

    @cached_property
    def _to_counts(self) -> Array | None:
        """The matrix that maps log-likelihoods to counts of symbols, or None if they do not determine the counts."""
        if np.isneginf(self._log_table).any() or not np.linalg.cond(self._log_table.T) < _MAX_CONDITION:
            return None
        return np.asarray(np.linalg.pinv(self._log_table)) if len(self._log_table) <= len(self.prior) else None

    def counts(self, statistics: Array, rows: Array | None = None, /) -> Array:
        """Recover the count of each symbol from log-likelihoods, if they determine it."""
        return recover_counts(self._log_table, statistics, rows)

    def rows(self, statistics: Array, /) -> Array:
        """Recover the number of rows from log-likelihoods, if they determine it."""
        return np.asarray(recover_counts(self._log_table, statistics, only_rows=True).sum(axis=-1))

    def log_pmi_extremes(self, rows: int, peers: Peers, _: tuple[float, float] | None = None, /) -> Extremes:
        """Extremes over every report of up to ``rows`` rows: in closed form for two states, otherwise by a search.

        With two states log PMI depends on a report only through its log-likelihood ratio and is monotone in it, so
        the most one-sided reports are extreme. Otherwise all reports are tried, up to the order of their rows, or, if
        there are too many, a search moves rows from symbol to symbol until no move helps.
        """
        tables = self._tables(peers)
        blocks = [(self._log_table, rows), *((model._log_table, limit) for model, limit in tables.items())]
        log_prior = self._log_prior
        zeros = any(np.isneginf(table).any() for table, _ in blocks)
        if len(self.prior) == 2 and not zeros:
            one_sided = [_one_sided(table, limit) for table, limit in blocks]
            low, high = finite_extremes_of(log_prior, one_sided[0], one_sided[1:])
        else:
            low, high = finite_extremes(log_prior, blocks, zeros)
        return Extremes(low, min(high, float(-log_prior.min())), zeros and can_contradict(blocks))

    def _tables(self, peers: Peers) -> dict[Finite, int]:
        """Return the total row limit of the peers with each table."""
        tables: Counter[Finite] = Counter()
        for other, rows in self._in_one_space(peers):
            tables[other] += rows
        return tables

    def paper_bounds(self, rows: int, peers: Peers, _: tuple[float, float] | None = None, /) -> Extremes:
        """Bounds of the paper's appendix: PMI ≤ 1/min p(θ), and PMI ≥ η(own)·η(peers).

        η = 1/(1 + |Θ|·Π U^N·T^{ΣN−1}) bounds the smallest positive posterior, where T is the spread of the prior and U
        that of the posteriors of one row; for an empty report the spread is T itself.
        """
        tables = self._tables(peers)
        log_prior = self._log_prior
        log_t = float(np.ptp(log_prior))

        def log_eta(parts: Sequence[tuple[Finite, int]]) -> float:
            total = sum(count for _, count in parts)
            spread = sum(count * model._log_posterior_spread for model, count in parts) + (total - 1) * log_t
            return -float(np.logaddexp(0.0, np.log(len(log_prior)) + max(spread, log_t)))

        zeros = any(np.isneginf(model._log_table).any() for model in (self, *tables))
        low = log_eta([(self, rows)]) + log_eta(list(tables.items()))
        return Extremes(low, float(-log_prior.min()), zeros)

    @property
    def _log_posterior_spread(self) -> float:
        """Ln U: the largest distance between positive log posteriors of one row."""
        joint = self._log_prior + self._log_table
        possible = joint[~np.isneginf(joint).all(axis=1)]
        posteriors = possible - self.log_evidence(possible - self._log_prior)[:, None]
        positive = posteriors[np.isfinite(posteriors)]
        return float(positive.max() - positive.min())

    def forecast(self, own: Array, peers: Sequence[tuple[Model, Array]], unordered: bool, /) -> Forecast:
        """Predict peers' data: Σ p² = qᵀKq, with q = p(θ|own) and K the probability of equal data in two states."""
        log_posterior = self.log_posterior(own)
        log_probability, log_outcomes = log_posterior, np.zeros(())
        tables: list[Finite] = []
        for model, counts in peers:
            if not isinstance(model, Finite):
                raise MissingCapabilityError(f"a Finite model cannot predict the data of {type(model).__name__}")
            tables.append(model)
            rows, symbols = counts.sum(axis=-1), counts.shape[-1]
            log_probability = log_probability + model.from_summary(counts)
            if unordered:
                log_probability = log_probability + (gammaln(rows + 1) - gammaln(counts + 1).sum(axis=-1))[..., None]
                log_outcomes = log_outcomes + gammaln(rows + symbols) - gammaln(rows + 1) - gammaln(symbols)
            else:
                log_outcomes = log_outcomes + rows * np.log(symbols)
        sizes = np.stack([counts.sum(axis=-1) for _, counts in peers], axis=-1)
        collision_probability = _collision_probability(tables, sizes, np.exp(log_posterior), unordered)
        return Forecast(np.exp(log_probability).sum(axis=-1), collision_probability, log_outcomes)

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of symbols for each state."""
        return draw_codes(rng, self._sampling_table[parameters[..., 0].astype(np.intp)], rows)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw log-likelihood vectors for each state and number of rows."""
        table = self._sampling_table[parameters[..., 0].astype(np.intp)]
        return self.from_summary(draw_counts(rng, table, design[..., 0]))

    @property
    def _sampling_table(self) -> Array:
        if not self.normalised:
            raise MissingCapabilityError(
                "this Finite model was built from posteriors, which do not determine p(d|θ), so it cannot draw data; "
                "give the likelihood instead"
            )
        return np.array(self.likelihood)

    def expected_log_evidence(self, design: Array, /) -> Array | None:
        """E[Λ] over all datasets of this many rows, in any order, less a term that is linear in rows.

        E[Λ(t)] − E[Σ_θ p(θ|t) t_θ] = −E[KL(posterior ‖ prior)], and the second expectation is a sum over rows.
        """
        rows, symbols = int(np.asarray(design)[..., 0].item()), len(self._log_table)
        if not self.normalised or comb(rows + symbols - 1, rows) > _MAX_ENUMERATION:
            return None
        counts = unordered_datasets(rows, symbols)
        statistics = self.from_summary(counts)
        evidence = self.log_evidence(statistics)
        possible = np.isfinite(evidence)
        log_orders = gammaln(rows + 1) - gammaln(counts + 1).sum(axis=-1)
        probability = np.exp(log_orders + evidence)[possible]
        posterior = np.exp(self._log_prior + statistics[possible] - evidence[possible, None])
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.where(posterior > 0, posterior * (np.log(posterior) - self._log_prior), 0.0).sum(axis=-1)
        return np.asarray(-(probability @ gain) / probability.sum())

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:
        """Full rank of Q₋ᵢ suffices; without it, all admissible reports are compared, if there are not too many.

        Proof. rank(Q₋ᵢ) is that of its Gram matrix, the entrywise product over peers of powers of small Gram matrices
        (erratum E15), here scaled to cosines. Without it P₋ᵢΔ = 0 has solutions, and a lie is free if and only if the
        difference Δ of the posteriors of two admissible reports is one. ∎
        """
        cosines, lengths = peer_cosines(peers, len(self.prior))
        smallest = float(np.linalg.eigvalsh(cosines)[0])
        if smallest > FULL_RANK:
            return Sensitivity("proved", "Q of the peers has full rank (E15)", smallest)
        if len(self.prior) <= _MAX_STATES and self.k_rank_condition(peers):
            return Sensitivity("proved", "the k-rank condition holds (the paper's Corollary)", smallest)
        return compare_predictions(self, rows, cosines, lengths, smallest)

    def price_of_lying(self, rows: int, peers: Peers, low: float = -np.inf, /) -> Price | None:
        """Return e² and a linear price: a lie costs at least e²‖Δ‖², e the smallest singular value of P₋ᵢ (E4)."""
        if not self.normalised:
            return None
        quadratic = squared_singular_value(peers, len(self.prior))
        return Price(quadratic, exact_linear_price(self, rows, peers, low))

    def k_rank_condition(self, peers: Peers, /) -> bool:
        """Return whether the paper's Corollary applies: Σ_j (k-rank(G_j) − 1)·N_j + 1 ≥ |Θ|."""
        total = 1
        for model, rows in peers:
            table = np.array(model.likelihood)
            table = table[:, table.any(axis=0)]
            joint = np.array(model.prior)[:, None] * table
            total += (kruskal_rank((joint / joint.sum(axis=0)).T) - 1) * rows
        return bool(total >= len(self.prior))

    @property
    def score_measure(self) -> str | None:
        """Scores omit nothing, unless the table is known only up to a factor per symbol."""
        return "nothing" if self.normalised else None

    @classmethod
    def first_guess_of_labels(cls, labels: int, /) -> FirstGuess:
        """Assume that classes are equally frequent, and that seven of ten answers are correct."""
        error = (1 - _ACCURACY) / (labels - 1)
        table = [[round(_ACCURACY if k == code else error, 12) for code in range(labels)] for k in range(labels)]
        meanings = {
            "prior": "How often each class occurs, as you expected before anybody answered.",
            "likelihood": "How an unknown worker answers: a line for each class, a column for each label.",
        }
        advice = (
            "This is a guess that does not depend on the data. Learn a confusion matrix for each worker from past "
            "tasks with `troth fit campaign.toml past.csv --gold gold.csv`, never from the labels that you pay for."
        )
        parameters = {"prior": [round(1 / labels, 12)] * labels, "likelihood": table}
        return FirstGuess(parameters, meanings=meanings, advice=advice)

    given_parameters: ClassVar[tuple[str, ...]] = ("likelihood",)

    uses_gold: ClassVar[bool] = True

    @classmethod
    def fit_tasks(cls, past: PastTasks, **_: Any) -> FittedWorkers:
        """Learn the frequency of each class, one per label, and the confusion matrix of each worker."""
        from troth.models.fitting.workers import fit_workers  # which imports Finite

        if past.reduction.labels is None:
            raise DataError(f"{cls.__name__} is learnt from labels, and the past tasks have values")
        return fit_workers(past.task, past.worker, past.summaries, past.workers, past.classes)


def _one_sided(table: Array, rows: int) -> Array:
    """Return the two reports of ``rows`` rows with the smallest and the largest log-likelihood ratio of two states."""
    ratios = table[:, 0] - table[:, 1]
    return rows * table[[int(ratios.argmin()), int(ratios.argmax())]]


def _collision_probability(tables: Sequence[Finite], sizes: Array, posterior: Array, unordered: bool) -> Array:
    """Return qᵀKq for each posterior q, with K the probability that two states yield equal data of these sizes."""
    log_same = log_same_counts if unordered else log_same_sequence
    shape = np.broadcast_shapes(sizes.shape[:-1], posterior.shape[:-1])
    flat = np.broadcast_to(sizes, (*shape, sizes.shape[-1])).reshape(-1, sizes.shape[-1])
    q = np.broadcast_to(posterior, (*shape, posterior.shape[-1])).reshape(-1, posterior.shape[-1])
    distinct, inverse = np.unique(flat, axis=0, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    ends = np.searchsorted(inverse.ravel()[order], np.arange(len(distinct) + 1))
    collision_probability = np.empty(len(q))
    for k, size in enumerate(distinct):
        same = sum(log_same(model._sampling_table, int(rows)) for model, rows in zip(tables, size, strict=True))
        members = order[ends[k] : ends[k + 1]]
        collision_probability[members] = np.einsum("ni,ij,nj->n", q[members], np.exp(same), q[members])
    return collision_probability.reshape(shape)
