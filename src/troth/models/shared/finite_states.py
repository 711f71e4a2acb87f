"""Base classes of families with finitely many states of the world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from troth.core.contract import Array, Generator, Mask
from troth.core.errors import DataError, MissingCapabilityError
from troth.core.information import second_difference
from troth.core.past import History, statistics_of
from troth.core.reductions import Reduction
from troth.models.family import CompleteEvidence, Family, ReducesRows, Vector
from troth.models.fitting.fitted import FittedPrior
from troth.models.fitting.marginal_likelihood import MIN_DAYS, check_fixed
from troth.models.numerics.dispersed import draw_codes
from troth.models.numerics.log_sum_exp import log_sum_exp
from troth.models.parameters import Kind


@dataclass(frozen=True)
class FiniteStates(Family):
    """A family whose θ is one of m states with prior p(θ).

    Statistic: the log-likelihood of the data under each state, −∞ allowed. Λ(t) = logsumexp(log p(θ) + t). Further
    entries, such as the design of fresh data, follow the first m.
    """

    prior: Vector

    @classmethod
    def fit_options(cls, _: Reduction, /) -> Mapping[str, Kind | None]:
        """Return the parameters that a fit requires; it fits the probabilities of the states."""
        return {
            parameter.name: parameter.kind for parameter in cls.parameters() if parameter.name in cls.given_parameters
        }

    @cached_property
    def _log_prior(self) -> Array:
        return np.asarray(np.log(self.prior), dtype=np.float64)

    def log_evidence(self, statistics: Array, /) -> Array:
        """Logsumexp of log p(θ) + t, exact for −∞."""
        return log_sum_exp(self._log_prior + self._of(statistics))

    def _of(self, statistics: Array) -> Array:
        """Return the log-likelihoods within statistics."""
        return np.asarray(statistics, dtype=np.float64)[..., : len(self.prior)]

    def log_pmi(self, own: Array, peers: Array, _: Array | None = None, /) -> Array:
        """Log PMI of log-likelihoods relative to the largest on each side, which removes what all states share.

        It is −∞ if either dataset, or both together, cannot occur.
        """
        return second_difference(self, *(_relative_to_largest(self._of(t)) for t in (own, peers)))

    def log_posterior(self, statistics: Array, /) -> Array:
        """Ln p(θ | statistics), shape ``(..., state)``."""
        return np.asarray(self._log_prior + self._of(statistics) - self.log_evidence(statistics)[..., None])

    def posterior_probabilities(self, statistics: Array, /) -> Array:
        """Return p(θ | statistics), shape ``(..., state)``.

        Examples
        --------
        >>> from troth.models import Finite
        >>> model = Finite(prior=[0.5, 0.5], likelihood=[[0.9, 0.1], [0.2, 0.8]])
        >>> model.posterior_probabilities(model.statistics([0, 0, 1])).round(3)
        array([0.717, 0.283])
        """
        return np.exp(self.log_posterior(statistics))

    def posterior(self, statistics: Array, /) -> Self:
        """Reweight the states, without those that the statistics exclude.

        Probabilities that underflow become the smallest normal number.
        """
        t = np.asarray(statistics, dtype=np.float64)
        possible = np.isfinite(self._of(t))
        if not possible.any():
            raise DataError("these data cannot occur in any state, so nothing can be learnt from them")
        prior = np.maximum(self.posterior_probabilities(t)[possible], np.finfo(float).tiny)
        return self._replace(prior=prior, **self._of_states(possible))

    by_state: ClassVar[tuple[str, ...]] = ()
    """The parameters besides the prior that have an entry for each state."""

    def _of_states(self, possible: Mask) -> dict[str, Any]:
        """Return the parameters besides the prior for the states that are still possible."""
        return {name: np.array(getattr(self, name))[possible] for name in self.by_state}

    def rows(self, statistics: Array, /) -> Array:
        """Return 0 for empty reports; log-likelihoods of others do not determine the number of rows."""
        t = np.asarray(statistics, dtype=np.float64)
        if t.any():
            raise MissingCapabilityError(
                "log-likelihoods do not determine numbers of rows: pass rows= with the statistics"
            )
        return np.zeros(t.shape[:-1])

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw indices of states from the prior, shape ``(*shape, 1)``."""
        prior = np.array(self.prior) / sum(self.prior)
        return rng.choice(len(prior), p=prior, size=(*shape, 1)).astype(np.float64)

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw a state given statistics."""
        return draw_codes(rng, self.posterior_probabilities(np.asarray(statistics, dtype=np.float64)), 1)


class FittedStates(CompleteEvidence, ReducesRows, FiniteStates):
    """A family of known states, which a fit requires: the first of ``given_parameters`` has a row for each."""

    @classmethod
    def fit(cls, history: History, **given: Any) -> FittedPrior:
        """Fit the probabilities of the states to past days."""
        check_fixed(cls, given)
        states = len(given[cls.given_parameters[0]])
        present = np.asarray(history.present, dtype=bool).any(axis=1)
        days = int(present.sum())
        if days < MIN_DAYS:
            raise DataError(f"{days} days with reports: a fit of the weights needs at least {MIN_DAYS}")
        summaries = np.asarray(history.summaries)[present]
        uniform = cls(prior=np.full(states, 1 / states), **given)
        t = statistics_of(uniform, summaries, history.reduction).sum(axis=-2)[:, :states]
        peak = t.max(axis=-1, keepdims=True)
        if np.isneginf(peak).any():
            day = int(np.flatnonzero(present)[int(np.argmax(np.isneginf(peak[:, 0])))])
            raise DataError(f"day {history.days[day]}: no state could have produced these reports")
        likelihoods = np.exp(t - peak)
        weights, total = _fit_weights(likelihoods)
        information = (likelihoods / total[:, None]).T @ (likelihoods / total[:, None])
        across = np.linalg.svd(np.ones((1, states)))[2][1:]  # directions in which weights still sum to 1
        covariance = across.T @ np.linalg.pinv(across @ information @ across.T) @ across
        return FittedPrior(
            cls(prior=weights, **given),
            float((np.log(total) + peak[:, 0]).sum()),
            {"prior": np.sqrt(np.maximum(np.diagonal(covariance), 0.0))},
            days,
            tuple(f"prior[{k}]" for k in np.flatnonzero(weights < 1e-9)),
        )


def _fit_weights(likelihoods: Array) -> tuple[Array, Array]:
    """Maximise the likelihood of days ``(day, state)`` over the weights of states; return weights and likelihoods.

    EM converges to the maximum, because the log-likelihood is concave in the weights.
    """
    weights = np.full(likelihoods.shape[1], 1 / likelihoods.shape[1])
    previous = -np.inf
    for _ in range(100_000):
        joint = likelihoods * weights
        total = joint.sum(axis=1)
        current = float(np.log(total).sum())
        weights = np.maximum((joint / total[:, None]).mean(axis=0), 1e-12)
        weights /= weights.sum()
        if current - previous < 1e-10 * len(likelihoods):
            break
        previous = current
    return weights, total


def _relative_to_largest(t: Array) -> Array:
    largest = t.max(axis=-1, keepdims=True)
    return np.asarray(t - np.where(np.isneginf(largest), 0.0, largest))
