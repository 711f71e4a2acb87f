"""Day types: finitely many kinds of days, and for each provider a law of its data on each of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import comb
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import gammaln

from troth.core.contract import Array, Extremes, Forecast, Generator, Model
from troth.core.errors import DataError, MissingCapabilityError, ParameterError, UnboundedRangeError
from troth.core.reductions import Counts, Moments, Reduction
from troth.core.sensitivity import Sensitivity, refuted_without_data
from troth.core.support import Support
from troth.models.categorical import count_codes, draw_codes
from troth.models.family import Family, moments, scalar_parameters
from troth.models.fitting.day_types.fit import fit_day_types
from troth.models.fitting.day_types.outcomes import outcome_of
from troth.models.geometric import count_and_sum
from troth.models.numerics.collisions import log_same_dispersed
from troth.models.numerics.day_type_cosines import day_type_cosines
from troth.models.numerics.dispersed import (
    LABELS,
    LAWS,
    as_probabilities,
    draw_effect,
    draw_rows,
    draw_sums,
    log_likelihood,
)
from troth.models.numerics.dispersed_mean import dispersed_mean_log_density, moments_around
from troth.models.numerics.extremes import datasets_by_type
from troth.models.numerics.finite_extremes import finite_extremes_of
from troth.models.numerics.identification import compare_predictions
from troth.models.numerics.likelihood_gaps import widest_spread
from troth.models.numerics.rank import FULL_RANK
from troth.models.numerics.row_orders import log_orders

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.core.past import History
    from troth.core.sensitivity import Peers
    from troth.models.family import Matrix, Vector
    from troth.models.fitting.day_types.fit import Watch
    from troth.models.fitting.day_types.fitted import FittedDayTypes

_ALL_REPORTS = 1_000_000  # pairs of own and peers' reports that are enumerated for an exact range
_MOST_ROWS = 1_000_000  # of a report whose probability is added up over all its counts


@dataclass(frozen=True)
class LatentClass(Family):
    """Days of m types; given the type, a provider's rows share a law and an effect of that provider and day.

    θ is the type k with prior p(k). Given k a dataset of n rows is

    - ``"binary"``: beta-binomial with rate means[k] and intra-class correlation ρ = dispersion;
    - ``"categorical"``: Dirichlet-multinomial with probabilities means[k] and intra-class correlation ρ;
    - ``"count"``: Poisson with rate means[k]·g, where g ~ Gamma with mean 1 and variance dispersion;
    - ``"real"``: means[k] + u + noise, u ~ N(0, dispersion²) once and noise ~ N(0, spread²) in each row.

    At dispersion 0 rows are i.i.d. given the type. Statistic: the log-likelihood of the dataset under each type, up to
    terms that do not depend on it; Λ(t) = logsumexp(log p + t). Summaries add over rows, statistics over providers,
    whose laws may all differ as long as they share the prior. Statistics do not tell numbers of rows.

    Parameters
    ----------
    prior
        p(k), positive numbers that sum to 1.
    law
        One of ``"binary"``, ``"categorical"``, ``"count"``, ``"real"``.
    means
        One rate, vector of probabilities, mean count or mean value per type.
    dispersion
        How much the provider's rows move together on a day beyond its type; 0 if they do not.
    spread
        Standard deviation of a value around its day's mean, for ``"real"`` alone.
    centre
        Values are summed as deviations from it, for ``"real"`` alone; providers that are paid together must share it.

    Examples
    --------
    >>> model = LatentClass(prior=[0.5, 0.5], law="binary", means=[0.2, 0.6], dispersion=0.05)
    >>> model.statistics([1, 0, 0]).round(3)
    array([-2.143, -2.371])
    """

    prior: Vector
    law: str
    means: Vector | Matrix
    dispersion: float = 0.0
    spread: float | None = None
    centre: float = 0.0

    independent_rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        prior = self._vector("prior")
        if not (prior > 0).all():
            raise ParameterError(f"LatentClass: prior[{int(np.argmin(prior))}] must be above 0; leave that type out")
        if abs(prior.sum() - 1) > 1e-6:
            raise ParameterError(f"LatentClass: prior must sum to 1, not {prior.sum():.9g}")
        if self.law not in LAWS:
            raise ParameterError(f"LatentClass: there is no law {self.law!r}; there are {', '.join(LAWS)}")
        self._check_means(len(prior))
        self._finite("dispersion")
        if self.dispersion != 0:
            self._positive("dispersion")
        if self.law in LABELS and self.dispersion >= 1:
            raise ParameterError(
                f"LatentClass: dispersion is an intra-class correlation, so it must be below 1, not {self.dispersion!r}"
            )
        self._finite("centre")
        if self.law == "real":
            if self.spread is None:
                raise ParameterError('LatentClass: spread is missing; the law "real" needs the spread of values')
            self._positive("spread")
        elif self.spread is not None or self.centre:
            name = "spread" if self.spread is not None else "centre"
            raise ParameterError(f'LatentClass: {name} is for the law "real" alone, not for {self.law!r}')

    def _check_means(self, types: int) -> None:
        if self.law == "categorical":
            means = self._array("means", 2)
            if means.shape[1] < 2:
                raise ParameterError("LatentClass: means must have at least two codes")
            sums = means.sum(axis=1)
            worst = int(np.argmax(np.abs(sums - 1)))
            if abs(sums[worst] - 1) > 1e-6:
                raise ParameterError(f"LatentClass: means[{worst}] must sum to 1 over codes, not {sums[worst]:.9g}")
        else:
            means = self._array("means", 1)
        if len(means) != types:
            raise ParameterError(f"LatentClass: means must have {types} entries, one per type, not {len(means)}")
        high = 1.0 if self.law in LABELS else np.inf
        outside = np.argwhere(~((means > 0) & (means < high)))
        if self.law != "real" and len(outside):
            place = ", ".join(str(int(i)) for i in outside[0])
            where = "above 0" if self.law == "count" else "between 0 and 1; for certainties use Finite"
            raise ParameterError(f"LatentClass: means[{place}] must lie {where}, not {means[tuple(outside[0])]!r}")

    @cached_property
    def _log_prior(self) -> Array:
        return np.asarray(np.log(self.prior), dtype=np.float64)

    @cached_property
    def _means(self) -> Array:
        """Means by type; of values, as deviations from the centre."""
        return np.array(self.means, dtype=np.float64) - self.centre

    @property
    def _codes(self) -> int:
        return len(self.means[0]) if self.law == "categorical" else 2  # type: ignore[arg-type]

    @property
    def support(self) -> Support:
        """Codes, counts or numbers."""
        if self.law in LABELS:
            return Support(0, self._codes - 1, integer=True)
        return Support(0, np.inf, integer=True) if self.law == "count" else Support()

    @property
    def reduction(self) -> Reduction:
        """Labels are counted; of counts and values, the rows and their sum."""
        return Counts(self._codes) if self.law in LABELS else Moments((self.centre,), support=self.support)

    def summary(self, data: Any, /) -> Array:
        """Add up rows along the last axis: counts of codes, or the number of rows and their sum."""
        what = {"count": "count", "real": "value"}.get(self.law, "code")
        rows = self.support.check(data, what)
        if self.law in LABELS:
            return count_codes(rows, self._codes)
        return moments(count_and_sum, rows, self.centre)

    def from_summary(self, summary: Array, /) -> Array:
        """Map sums over a provider's rows to log-likelihoods per type."""
        sums = np.asarray(summary, dtype=np.float64)
        return log_likelihood(self.law, sums, self._means, self.dispersion, self.spread or 0.0)

    def statistics(self, data: Any, /) -> Array:
        """Log-likelihoods per type of the rows along the last axis."""
        return self.from_summary(self.summary(data))

    def log_evidence(self, statistics: Array, /) -> Array:
        """Logsumexp of log p + t."""
        x = self._log_prior + statistics
        peak = np.max(x, axis=-1, keepdims=True)
        return np.asarray(np.log(np.exp(x - peak).sum(axis=-1)) + peak[..., 0])

    def rows(self, statistics: Array, /) -> Array:
        """Tell empty reports; log-likelihoods do not tell how many rows others have."""
        t = np.asarray(statistics, dtype=np.float64)
        if t.any():
            raise MissingCapabilityError(
                "log-likelihoods of day types do not tell numbers of rows: pass rows= beside the statistics"
            )
        return np.zeros(t.shape[:-1])

    def log_pmi_extremes(
        self, rows: int, peers: Sequence[tuple[Model, int]], values: tuple[float, float] | None = None, /
    ) -> Extremes:
        """Extremes over every report of up to so many rows: exact for few reports of labels, otherwise a bound.

        PMI = Σ_k p(k|a)e^{b_k} / Σ_k p(k)e^{b_k} is the ratio of two averages of numbers between min e^b and max e^b,
        so |log PMI| ≤ max b − min b, and by symmetry ≤ max a − min a. Peers' log-likelihoods add, so their spread is
        at most the sum of each one's. And PMI = Σ_k p(k|a)p(k|b)/p(k) ≤ 1/min p. ∎
        """
        everyone = [(self, rows), *self._laws(peers)]
        highest = float(-self._log_prior.min())
        exact = self._enumerated(everyone)
        if exact is not None:
            return Extremes(exact[0], min(exact[1], highest))
        bounds = {law: law._declared(values) for law, _ in everyone} if self.law not in LABELS else {}
        wide: dict[tuple[LatentClass, int], float] = {}
        for law, limit in everyone:
            if (law, limit) not in wide:
                wide[law, limit] = law._widest(limit, bounds.get(law))
        reach = min(wide[self, rows], sum(wide[pair] for pair in everyone[1:]))
        return Extremes(-reach, min(reach, highest))

    def _laws(self, peers: Sequence[tuple[Model, int]]) -> list[tuple[LatentClass, int]]:
        found = []
        for other, rows in peers:
            if not isinstance(other, LatentClass) or other.space != self.space:
                raise UnboundedRangeError(f"no range is known for {self!r} beside {other!r}")
            found.append((other, rows))
        return found

    def _widest(self, rows: int, values: tuple[float, float] | None) -> float:
        """Bound how far apart a report's log-likelihoods can be."""
        means = self._probabilities if self.law in LABELS else self._means
        moved = None if values is None else (values[0] - self.centre, values[1] - self.centre)
        return widest_spread(self.law, rows, means, self.dispersion, self.spread or 0.0, moved)

    def _enumerated(self, everyone: Sequence[tuple[LatentClass, int]]) -> tuple[float, float] | None:
        """Return least and greatest log PMI over all full reports of labels, or None where they are too many.

        Full reports are extreme: one more row x changes log PMI by ln p(x|own, peers)/p(x|own), the ratio of two
        distributions over rows, so some row does not lower it and some row does not raise it.
        """
        combinations = 1
        for law, limit in everyone:
            combinations *= comb(limit + law._codes - 1, limit)
            if law.law not in LABELS or combinations > _ALL_REPORTS:
                return None
        reports = [law.from_summary(datasets_by_type(limit, law._codes)) for law, limit in everyone]
        return finite_extremes_of(self._log_prior, reports[0], reports[1:])

    def forecast_terms(self, statistics: Array, rows: Array, unordered: bool, /) -> Array:
        """Log-likelihoods of what is foretold, ln K of each pair of types and the log number of possible reports.

        K is the chance that reports of so many rows are the same under both types. Peers are independent given the
        type, so all of these add over peers.
        """
        if self.law not in LABELS:
            raise MissingCapabilityError(
                "Brier needs to know p(data|θ) over finitely many datasets, which LatentClass does not offer for the "
                f'law "{self.law}"; MultiDay and SyntheticPeers need neither'
            )
        t = np.asarray(statistics, dtype=np.float64)
        n = np.broadcast_to(np.asarray(rows, dtype=np.float64), t.shape[:-1])
        if not ((n == np.floor(n)) & (n >= 0)).all():
            raise DataError("numbers of rows must be whole numbers of at least 0")
        sizes, which = np.unique(n, return_inverse=True)
        if sizes.max(initial=0) > _MOST_ROWS:
            raise MissingCapabilityError(
                f"Brier foretells reports of up to {_MOST_ROWS:,} rows under LatentClass, not of {sizes[-1]:,.0f}"
            )
        flat, which = t.reshape(-1, t.shape[-1]), which.ravel()
        same = np.array([_log_same(self, int(size), unordered) for size in sizes])[which]
        if unordered:
            orders = np.empty(len(flat))
            for k, size in enumerate(sizes):
                orders[which == k] = log_orders(self._probabilities, self.dispersion, flat[which == k], int(size))
            flat = flat + orders[:, None]
            codes = float(self._codes)
            outcomes = gammaln(sizes + codes) - gammaln(sizes + 1) - gammaln(codes)
        else:
            outcomes = sizes * np.log(self._codes)
        return np.concatenate([flat, same, outcomes[which, None]], axis=-1).reshape(*t.shape[:-1], -1)

    def forecast_apart(self, own: Array, terms: Array, /) -> Forecast:
        """Σ_k q_k Π_j p_j(c_j|k) and qᵀKq, with q = p(k|own)."""
        log_posterior = self._log_prior + own - self.log_evidence(own)[..., None]
        types = len(self.prior)
        one, two = np.triu_indices(types)
        log_pairs = log_posterior[..., one] + log_posterior[..., two] + terms[..., types:-1]
        collision_probability = (np.where(one == two, 1.0, 2.0) * np.exp(log_pairs)).sum(axis=-1)
        probability = np.exp(log_posterior + terms[..., :types]).sum(axis=-1)
        return Forecast(probability, collision_probability, terms[..., -1])

    @property
    def _probabilities(self) -> Array:
        """Mean probabilities of labels, ``[type, code]``."""
        return as_probabilities(self.law, self._means)

    @property
    def space(self) -> Mapping[str, object]:
        """Family and prior: providers may have different laws of the same day types."""
        return {"family": "LatentClass", "prior": self.prior}

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw types from the prior, shape ``(*shape, 1)``."""
        return draw_codes(rng, np.broadcast_to(np.array(self.prior), (*shape, len(self.prior))), 1)

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw a type given statistics."""
        posterior = np.exp(self._log_prior + np.asarray(statistics) - self.log_evidence(statistics)[..., None])
        return draw_codes(rng, posterior, 1)

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows for each type; the rows of a dataset share one effect."""
        means = np.array(self.means)[parameters[..., 0].astype(np.intp)]
        effect = draw_effect(self.law, rng, means, self.dispersion)
        return draw_rows(self.law, rng, effect, rows, self.spread or 0.0)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw log-likelihoods of fresh datasets for each type and number of rows, an effect for each dataset."""
        types, rows = scalar_parameters(parameters, design)
        effect = draw_effect(self.law, rng, np.array(self.means)[types.astype(np.intp)], self.dispersion)
        return self.from_summary(draw_sums(self.law, rng, effect, rows, self.spread or 0.0, self.centre))

    def expected_log_evidence(self, _: Array, /) -> None:
        """No exact sum: two providers' rows are not one provider's, so designs do not add."""
        return

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:
        """Peers whose data have linearly independent distributions under the day types suffice.

        Proof. As for finite models a lie is free only if P₋ᵢΔ = 0, and P₋ᵢ has full rank if and only if the matrix of
        cosines between its columns has: for independent peers the entrywise product of theirs, over any part of what
        they could report. One peer with at least one row of values or counts suffices if its means differ from type to
        type: the densities of normals with one variance and different means are linearly independent, and so are those
        of (negative binomial) sums, whose tails fall as powers of different numbers. ∎
        """
        nobody = refuted_without_data(peers)
        if nobody is not None:
            return nobody
        types = len(self.prior)
        unbounded = (other for other, n in peers if n and other.law not in LABELS)
        if any(len(set(other.means)) == types for other in unbounded):
            return Sensitivity("proved", "a peer's data have a different mean under each day type, and densities tell")
        cosines, log_lengths = np.ones((types, types)), np.zeros(types)
        for (other, n), times in Counter(pair for pair in peers if pair[1]).items():
            part, lengths = day_type_cosines(other, n)
            cosines, log_lengths = cosines * part**times, log_lengths + times * lengths
        np.fill_diagonal(cosines, 1.0)
        least = float(np.linalg.eigvalsh(cosines)[0])
        if least > FULL_RANK:
            return Sensitivity(
                "proved", "peers' data have linearly independent distributions under the day types", least
            )
        if self.law not in LABELS:
            reason = "peers' distributions may be linearly dependent, and reports cannot be listed"
            return Sensitivity("undecided", reason, least)
        return compare_predictions(self, rows, cosines, np.exp(log_lengths - log_lengths.max()), least)

    def base_measure(self, summaries: Array, reduction: Reduction, /) -> Array:
        """Of values, the density under type 0, from which statistics differ; of counts, what the dispersion adds."""
        if self.law == "real":
            s = moments_around(summaries, reduction, float(np.array(self.means)[0]))
            return dispersed_mean_log_density(s, self.dispersion, self.spread or 0.0)
        if self.law == "count" and self.dispersion:
            total, shape = reduction.convert(summaries, self.reduction)[..., 1], 1 / self.dispersion
            return np.asarray(gammaln(shape + total) - gammaln(shape) - total * np.log(shape))
        return np.zeros(summaries.shape[:-1])

    @property
    def score_measure(self) -> str | None:
        """Of counts, the factorial of each, which the summary does not tell; of labels and values nothing."""
        return "ln x!" if self.law == "count" else "nothing"

    provider_effects: ClassVar[str] = "day types"

    @classmethod
    def suits_reduction(cls, reduction: Reduction, /) -> bool:
        """One column of labels or numbers."""
        return isinstance(reduction, Counts) or (isinstance(reduction, Moments) and reduction.columns == 1)

    @classmethod
    def fit_options(cls, reduction: Reduction, /) -> tuple[str, ...]:
        """Name the options of `fit`; the spread is for values that need not be whole."""
        options = ("outcome", "types", "max_types", "starts", "seed", "watch")
        return (*options, "spread") if outcome_of(reduction) == "real" else options

    @property
    def refit_options(self) -> Mapping[str, Any]:
        """As many day types as there are."""
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
        watch: Watch | None = None,
    ) -> FittedDayTypes:
        """Learn day types, what each provider reports on each of them and how much its rows move together.

        Parameters
        ----------
        history
            Past days; they must be public or paid for, and not depend on the reports that the model will price.
        outcome
            ``"binary"``, ``"categorical"``, ``"count"`` or ``"real"``; what suits the history by default.
        types
            How many day types there are; chosen among 1 … ``max_types`` if it is not given.
        starts
            How many starts to climb from.
        seed
            Of the starts: the same seed gives the same fit.
        spread
            Standard deviation of values within a day, for ``"real"``, where the history has no sums of squares.
        watch
            Called with the share of the work that is done, and with words.

        Examples
        --------
        >>> import troth
        >>> counts = {"a": (4, 13), "b": (6, 14)}
        >>> days = [(d, name, [20 - k[d % 2], k[d % 2]]) for d in range(40) for name, k in counts.items()]
        >>> learned = LatentClass.fit(troth.History.from_reports(days, Counts(2)), types=2)
        >>> [round(p, 1) for p in learned.population.prior], [round(p, 2) for p in learned.models["a"].means]
        ([0.5, 0.5], [0.21, 0.65])
        """
        return fit_day_types(
            cls,
            history,
            outcome,
            types=types,
            max_types=max_types,
            starts=starts,
            seed=seed,
            spread=spread,
            watch=watch,
        )


@lru_cache(maxsize=1 << 14)
def _log_same(model: LatentClass, rows: int, unordered: bool) -> Array:
    """Log chance that reports of so many rows are the same, for each pair of types."""
    return log_same_dispersed(model._probabilities, model.dispersion, rows, unordered)
