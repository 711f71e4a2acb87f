"""Day types: every day has one of a few types, and each provider a distribution of data for each type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import comb
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from troth.core.contract import Array, Extremes, Forecast, Generator, Mask
from troth.core.errors import DataError, MissingCapabilityError, ParameterError
from troth.core.past import History
from troth.core.reductions import Counts, Moments, Reduction
from troth.core.sensitivity import Peers, Sensitivity, refuted_without_data
from troth.core.support import Support
from troth.models.family import Example, Matrix, ReducesRows, Vector, scalar_parameters
from troth.models.fitting.day_types.fit import ProgressCallback, fit_day_types
from troth.models.fitting.day_types.fitted import FittedDayTypes
from troth.models.fitting.day_types.outcomes import outcome_of
from troth.models.numerics.collisions import log_same_dispersed
from troth.models.numerics.count_recovery import log_orders
from troth.models.numerics.day_types import day_type_cosines, log_likelihood_ratios, max_log_ratio
from troth.models.numerics.dispersed import (
    LABELS,
    OUTCOMES,
    as_probabilities,
    count_log_likelihood,
    dispersed_mean_log_density,
    draw_effect,
    draw_rows,
    draw_summaries,
    labels_log_likelihood,
    log_likelihood,
    summaries_around,
)
from troth.models.numerics.extremes import unordered_datasets
from troth.models.numerics.finite_extremes import finite_extremes_of
from troth.models.numerics.identification import FULL_RANK, compare_predictions
from troth.models.numerics.possible_statistics import none_above
from troth.models.parameters import (
    Integer,
    Kind,
    Word,
    non_negative,
    number,
    parameter,
    positive,
    probabilities,
    vector_or_matrix,
)
from troth.models.shared.finite_states import FiniteStates

_MAX_REPORTS = 1_000_000  # combinations of own and peers' reports that are enumerated for an exact range
_MAX_ROWS = 1_000_000  # of a report that can be predicted, by a sum over all counts


@dataclass(frozen=True)
class LatentClass(ReducesRows, FiniteStates):
    """Days of m types; given the type, a provider's rows share an effect of that provider and day.

    θ is the type k with prior p(k). Given k a dataset of n rows is

    - ``"binary"``: beta-binomial with rate means[k] and intra-class correlation ρ = dispersion;
    - ``"categorical"``: Dirichlet-multinomial with probabilities means[k] and intra-class correlation ρ;
    - ``"count"``: Poisson with rate means[k]·g, where g ~ Gamma with mean 1 and variance dispersion;
    - ``"real"``: means[k] + u + noise, u ~ N(0, dispersion²) once and noise ~ N(0, spread²) in each row.

    At dispersion 0 rows are i.i.d. given the type. Statistic: the log-likelihood of the dataset under each type, up to
    terms that all types share; Λ(t) = logsumexp(log p + t). Summaries add over rows, statistics over providers, whose
    distributions may all differ as long as they share the prior. Statistics do not determine numbers of rows.

    Examples
    --------
    >>> model = LatentClass(prior=[0.5, 0.5], outcome="binary", means=[0.2, 0.6], dispersion=0.05)
    >>> model.statistics([1, 0, 0]).round(3)
    array([-2.143, -2.371])
    """

    prior: Vector = field(
        metadata=parameter("probabilities of the types; means have an entry for each", probabilities, [0.4, 0.4, 0.2])
    )
    outcome: str = field(
        metadata=parameter(f"what a row holds: {', '.join(OUTCOMES)}", Word(*OUTCOMES), "binary", known=True)
    )
    means: Vector | Matrix = field(
        metadata=parameter("mean, or row of probabilities, by type", vector_or_matrix, [0.05, 0.15, 0.45], known=True)
    )
    dispersion: float = field(
        default=0.0,
        metadata=parameter("how strongly a provider's rows on one day are correlated", non_negative, 0.02, known=True),
    )
    spread: float | None = field(
        default=None, metadata=parameter("standard deviation of a value, only for real outcomes", positive, known=True)
    )
    centre: float = field(
        default=0.0, metadata=parameter("origin of real values, shared by all providers", number, known=True)
    )

    description: ClassVar[str] = "a few possible types of days"
    example: ClassVar[Example] = Example(
        "parcels that arrive late, on quiet, usual and stormy days", ("late",), "depot"
    )
    independent_rows: ClassVar[bool] = False
    own_likelihoods: ClassVar[bool] = True
    state_word: ClassVar[str] = "day type"
    by_state: ClassVar[tuple[str, ...]] = ("means",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_means(len(self.prior))
        if self.outcome in LABELS and self.dispersion >= 1:
            raise self._parameter_error(
                "dispersion", f" is an intra-class correlation, so it must be below 1, not {self.dispersion!r}"
            )
        if self.outcome == "real":
            if self.spread is None:
                raise self._parameter_error("spread", " is missing; real outcomes need the spread of values")
        elif self.spread is not None or self.centre:
            name = "spread" if self.spread is not None else "centre"
            raise self._parameter_error(name, f" is only for real outcomes, not for {self.outcome!r}")

    @staticmethod
    def _parameter_error(name: str, problem: str) -> ParameterError:
        return ParameterError(f"LatentClass: {name}{problem}", parameter=name)

    def _check_means(self, types: int) -> None:
        means = np.array(self.means)
        if means.ndim != (2 if self.outcome == "categorical" else 1):
            expected = "a matrix" if self.outcome == "categorical" else "a vector"
            raise self._parameter_error("means", f" must be {expected}, not of shape {means.shape}")
        if self.outcome == "categorical":
            if means.shape[1] < 2:
                raise self._parameter_error("means", " must have at least two codes")
            sums = means.sum(axis=1)
            worst = int(np.argmax(np.abs(sums - 1)))
            if abs(sums[worst] - 1) > 1e-6:
                raise self._parameter_error("means", f"[{worst}] must sum to 1 over codes, not {sums[worst]:.9g}")
        if len(means) != types:
            raise self._parameter_error("means", f" must have {types} entries, one per type, not {len(means)}")
        high = 1.0 if self.outcome in LABELS else np.inf
        outside = np.argwhere(~((means > 0) & (means < high)))
        if self.outcome != "real" and len(outside):
            index = ", ".join(str(int(i)) for i in outside[0])
            bounds = "above 0" if self.outcome == "count" else "between 0 and 1; for certainties use Finite"
            raise self._parameter_error("means", f"[{index}] must lie {bounds}, not {means[tuple(outside[0])]!r}")

    @cached_property
    def _means(self) -> Array:
        """Means by type, less the centre."""
        return np.array(self.means, dtype=np.float64) - self.centre

    @property
    def _codes(self) -> int:
        return len(self.means[0]) if self.outcome == "categorical" else 2  # type: ignore[arg-type]

    @property
    def reduction(self) -> Reduction:
        """Counts of each label; for counts and values, the number of rows and their sum."""
        if self.outcome in LABELS:
            return Counts(self._codes)
        return Moments((self.centre,), support=Support(0, integer=True) if self.outcome == "count" else Support())

    def from_summary(self, summary: Array, /) -> Array:
        """Map a summary to log-likelihoods per type, less a constant that all types share.

        The constant is 0 for labels of up to a million rows, because predictions need the absolute log-likelihoods.
        Otherwise it is the largest of them, so that their differences stay accurate for any number of rows.
        """
        entries = np.asarray(summary, dtype=np.float64)
        arguments = self.outcome, entries, self._means, self.dispersion, self.spread or 0.0
        if self.outcome not in LABELS:
            return log_likelihood_ratios(*arguments)
        large = entries.sum(axis=-1, keepdims=True) > _MAX_ROWS
        absolute = log_likelihood(*arguments)
        return np.where(large, log_likelihood_ratios(*arguments), absolute) if large.any() else absolute

    possible_statistics: ClassVar[str] = "log-likelihoods, absolute or relative to the largest, are at most 0"

    def possible(self, statistics: Array, /) -> Mask:
        """Return where no log-likelihood exceeds 0."""
        return none_above(np.asarray(statistics, dtype=np.float64))

    def log_pmi_extremes(self, rows: int, peers: Peers, values: tuple[float, float] | None = None, /) -> Extremes:
        """Extremes over every report of up to ``rows`` rows: exact if few reports of labels exist, otherwise a bound.

        PMI = Σ_k p(k|a)e^{b_k} / Σ_k p(k)e^{b_k} is the ratio of two averages of numbers between min e^b and max e^b,
        so |log PMI| ≤ max b − min b, and by symmetry ≤ max a − min a. Peers' log-likelihoods add, so their spread is
        at most the sum of each one's. And PMI = Σ_k p(k|a)p(k|b)/p(k) ≤ 1/min p. ∎
        """
        models = [(self, rows), *self._in_one_space(peers)]
        highest = float(-self._log_prior.min())
        exact = self._enumerated_extremes(models)
        if exact is not None:
            return Extremes(exact[0], min(exact[1], highest))
        bounds = {(model, limit): model._spread_bound(limit, values) for model, limit in dict.fromkeys(models)}
        bound = min(bounds[self, rows], sum(bounds[peer] for peer in models[1:]))
        return Extremes(-bound, min(bound, highest))

    def _spread_bound(self, rows: int, values: tuple[float, float] | None) -> float:
        """Bound the difference between a report's log-likelihoods under any two types."""
        if self.outcome in LABELS:
            return max_log_ratio(self.outcome, rows, self._probabilities, self.dispersion)
        low, high = (value - self.centre for value in self._declared(values))
        return max_log_ratio(self.outcome, rows, self._means, self.dispersion, self.spread or 0.0, (low, high))

    def _enumerated_extremes(self, models: Sequence[tuple[LatentClass, int]]) -> tuple[float, float] | None:
        """Return minimum and maximum log PMI over all full reports of labels, or None if there are too many.

        Full reports are extreme: one more row x changes log PMI by ln p(x|own, peers)/p(x|own), the ratio of two
        distributions over rows, so some row does not lower it and some row does not raise it.
        """
        combinations = 1
        for model, limit in models:
            combinations *= comb(limit + model._codes - 1, limit)
            if model.outcome not in LABELS or combinations > _MAX_REPORTS:
                return None
        reports = [model.from_summary(unordered_datasets(limit, model._codes)) for model, limit in models]
        return finite_extremes_of(self._log_prior, reports[0], reports[1:])

    def forecast_terms(self, statistics: Array, rows: Array, unordered: bool, /) -> Array:
        """Return log-likelihoods of peers' reports, ln K for each pair of types, and the log number of reports.

        K is the probability that two reports with these numbers of rows are equal, one under each type. Peers are
        independent given the type, so all terms add over peers.
        """
        if self.outcome not in LABELS:
            raise MissingCapabilityError(
                f"LatentClass with {self.outcome} outcomes has infinitely many possible datasets"
            )
        t = np.asarray(statistics, dtype=np.float64)
        n = np.broadcast_to(np.asarray(rows, dtype=np.float64), t.shape[:-1])
        if not ((n == np.floor(n)) & (n >= 0)).all():
            raise DataError("numbers of rows must be whole numbers of at least 0")
        sizes, inverse = np.unique(n, return_inverse=True)
        if sizes.max(initial=0) > _MAX_ROWS:
            raise MissingCapabilityError(
                f"LatentClass predicts reports of up to {_MAX_ROWS:,} rows, not of {sizes[-1]:,.0f}"
            )
        flat, inverse = t.reshape(-1, t.shape[-1]), inverse.ravel()
        same = np.array([_log_same(self, int(size), unordered) for size in sizes])[inverse]
        if unordered:
            orders = np.empty(len(flat))
            for k, size in enumerate(sizes):
                orders[inverse == k] = log_orders(self._probabilities, self.dispersion, flat[inverse == k], int(size))
            flat = flat + orders[:, None]
            codes = float(self._codes)
            outcomes = gammaln(sizes + codes) - gammaln(sizes + 1) - gammaln(codes)
        else:
            outcomes = sizes * np.log(self._codes)
        return np.concatenate([flat, same, outcomes[inverse, None]], axis=-1).reshape(*t.shape[:-1], -1)

    def forecast_separately(self, own: Array, terms: Array, /) -> Forecast:
        """Σ_k q_k Π_j p_j(c_j|k) and qᵀKq, with q = p(k|own)."""
        log_posterior = self.log_posterior(own)
        types = len(self.prior)
        first, second = np.triu_indices(types)
        log_pairs = log_posterior[..., first] + log_posterior[..., second] + terms[..., types:-1]
        collision_probability = (np.where(first == second, 1.0, 2.0) * np.exp(log_pairs)).sum(axis=-1)
        probability = np.exp(log_posterior + terms[..., :types]).sum(axis=-1)
        return Forecast(probability, collision_probability, terms[..., -1])

    @property
    def _probabilities(self) -> Array:
        """Mean probabilities of labels, ``[type, code]``."""
        return as_probabilities(self.outcome, self._means)

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows for each type; the rows of a dataset share one effect."""
        means = np.array(self.means)[parameters[..., 0].astype(np.intp)]
        effect = draw_effect(self.outcome, rng, means, self.dispersion)
        return draw_rows(self.outcome, rng, effect, rows, self.spread or 0.0)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw log-likelihoods of fresh datasets for each type and number of rows, an effect for each dataset."""
        types, rows = scalar_parameters(parameters, design)
        effect = draw_effect(self.outcome, rng, np.array(self.means)[types.astype(np.intp)], self.dispersion)
        return self.from_summary(draw_summaries(self.outcome, rng, effect, rows, self.spread or 0.0, self.centre))

    def expected_log_evidence(self, _: Array, /) -> None:
        """Return None: a provider's rows are correlated, so designs do not add over providers."""
        return

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:
        """Peers whose data have linearly independent distributions under the day types suffice.

        Proof. As for finite models a lie is free only if P₋ᵢΔ = 0, and P₋ᵢ has full rank if and only if the matrix of
        cosines between its columns has: for independent peers the entrywise product of theirs, over any part of what
        they could report. One peer with at least one row of values or counts suffices if its means differ from type to
        type: the densities of normals with one variance and different means are linearly independent, and so are those
        of (negative binomial) sums, whose tails fall as powers of different numbers. ∎
        """
        if refutation := refuted_without_data(peers):
            return refutation
        types = len(self.prior)
        unbounded = (other for other, n in peers if n and other.outcome not in LABELS)
        if any(len(set(other.means)) == types for other in unbounded):
            return Sensitivity("proved", "a peer's data have a different mean under each day type")
        cosines, log_lengths = np.ones((types, types)), np.zeros(types)
        for (other, n), times in Counter(pair for pair in peers if pair[1]).items():
            part, lengths = day_type_cosines(other, n)
            cosines, log_lengths = cosines * part**times, log_lengths + times * lengths
        np.fill_diagonal(cosines, 1.0)
        smallest = float(np.linalg.eigvalsh(cosines)[0])
        if smallest > FULL_RANK:
            reason = "peers' data have linearly independent distributions under the day types"
            return Sensitivity("proved", reason, smallest)
        if self.outcome not in LABELS:
            reason = "peers' distributions may be linearly dependent, and reports cannot be listed"
            return Sensitivity("undecided", reason, smallest)
        return compare_predictions(self, rows, cosines, np.exp(log_lengths - log_lengths.max()), smallest)

    def base_measure(self, summaries: Array, reduction: Reduction, /) -> Array:
        """Return the terms that statistics omit: the log-likelihood under type 0 less its statistic."""
        converted, dispersion = reduction.convert(summaries, self.reduction), np.asarray(self.dispersion)
        first = self.from_summary(converted)[..., 0]
        if self.outcome == "real":
            s = summaries_around(summaries, reduction, float(np.array(self.means)[0]))
            return np.asarray(dispersed_mean_log_density(s, self.dispersion, self.spread or 0.0) - first)
        if self.outcome == "count":
            return np.asarray(count_log_likelihood(converted, self._means[:1], dispersion, True)[..., 0] - first)
        return np.asarray(labels_log_likelihood(converted, self._probabilities[:1], dispersion)[..., 0] - first)

    @property
    def score_measure(self) -> str | None:
        """For counts, their factorials, which no summary holds; nothing for labels and values."""
        return "ln x!" if self.outcome == "count" else "nothing"

    provider_effects: ClassVar[str] = "day types"

    @classmethod
    def suits_reduction(cls, reduction: Reduction, /) -> bool:
        """Return whether reports reduce one column of labels or numbers."""
        return isinstance(reduction, Counts) or (isinstance(reduction, Moments) and reduction.columns == 1)

    @classmethod
    def fit_options(cls, reduction: Reduction, /) -> Mapping[str, Kind | None]:
        """Return the options of `fit`; only real values have a spread."""
        counted = dict.fromkeys(("types", "max_types", "starts"), Integer(1))
        options: dict[str, Kind | None] = {"outcome": Word(*OUTCOMES), **counted, "seed": Integer(0), "progress": None}
        return {**options, "spread": positive} if outcome_of(reduction) == "real" else options

    @property
    def refit_options(self) -> Mapping[str, Any]:
        """The same number of day types."""
        return {"types": len(self.prior)}

    @classmethod
    def fit(  # type: ignore[override]
        cls,
        history: History,
        outcome: str | None = None,
        *,
        types: int | None = None,
        max_types: int = 8,
        starts: int = 4,
        seed: int = 0,
        spread: float | None = None,
        progress: ProgressCallback | None = None,
    ) -> FittedDayTypes:
        """Learn the day types and, for each provider, its means by type and the correlation of its rows.

        Parameters
        ----------
        history
            Past days, as for `Family.fit`.
        outcome
            ``"binary"``, ``"categorical"``, ``"count"`` or ``"real"``; by default, the one that suits the history.
        types
            Number of day types; by default, chosen from 1 … ``max_types``.
        starts
            Number of starting points of the optimisation.
        seed
            Seed of the starting points.
        spread
            Standard deviation of values within a day, for ``"real"``, if the history has no sums of squares.
        progress
            Called with the fraction of work done and the name of the current step.

        Examples
        --------
        >>> import troth
        >>> counts = {"a": (4, 13), "b": (6, 14)}
        >>> days = [(d, name, [20 - k[d % 2], k[d % 2]]) for d in range(40) for name, k in counts.items()]
        >>> learned = LatentClass.fit(troth.History.from_reports(days, Counts(2)), types=2)
        >>> [round(p, 1) for p in learned.population.prior], [round(p, 2) for p in learned.models["a"].means]
        ([0.5, 0.5], [0.21, 0.65])
        """
        return fit_day_types(cls, history, outcome, types, max_types, starts, seed, spread, progress)


@lru_cache(maxsize=1 << 14)
def _log_same(model: LatentClass, rows: int, unordered: bool) -> Array:
    """Log probability that two reports of ``rows`` rows are equal, for each pair of types."""
    return log_same_dispersed(model._probabilities, model.dispersion, rows, unordered)
