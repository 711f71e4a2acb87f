"""Expectation and maximisation for day types: every step raises the penalised likelihood."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from troth.core.contract import Array, Indexes
from troth.models.fitting.day_types.outcomes import OutcomeData, Who

_PRIOR_DAYS = 0.5  # days that every type has before any is seen
_ALIKE = 2.0  # standard deviation of the logarithms of providers' dispersions
_ATTEMPTS = ((1.0, 1.0), (1.0, 0.25), (1.0, 0.0), (0.25, 0.0), (0.05, 0.0))
"""Shares of the steps of means and of dispersion; that of the means alone is sure to rise for labels and values."""


@dataclass(frozen=True)
class State:
    """Parameters of a fit: prior of the types, providers' means and dispersions, and the population's.

    Attributes
    ----------
    shrinkage
        How many rows the population's means are worth to a provider.
    """

    log_prior: Array
    means: Array
    dispersion: Array
    population: Array
    centre: float
    shrinkage: float

    @property
    def types(self) -> int:
        """How many day types there are."""
        return len(self.log_prior)

    def sorted(self, order: Indexes) -> State:
        """Return the same state with types in another order."""
        return replace(
            self, log_prior=self.log_prior[order], means=self.means[:, order], population=self.population[order]
        )


def day_log_likelihoods(data: OutcomeData, state: State, parts: Array | None = None) -> tuple[Array, Array]:
    """Return ln p(day) and the posterior of the day's type, ``(day,)`` and ``(day, type)``."""
    parts = data.log_likelihood(state.means, state.dispersion) if parts is None else parts
    joint = state.log_prior + parts.sum(axis=1)
    evidence = logsumexp(joint, axis=1)
    return evidence, np.exp(joint - evidence[:, None])


def objective(data: OutcomeData, state: State, evidence: Array) -> float:
    """Return the penalised log-likelihood."""
    return float(evidence.sum() + _PRIOR_DAYS * state.log_prior.sum() + _penalties(data, state, slice(None)).sum())


def _penalties(data: OutcomeData, state: State, who: Who) -> Array:
    alike = ((np.log(state.dispersion[who]) - state.centre) / _ALIKE) ** 2
    return np.asarray(data.penalty(state.means[who], state.population, state.shrinkage) - 0.5 * alike)


def maximise(data: OutcomeData, state: State, steps: int, tolerance: float = 0.0) -> tuple[State, list[float]]:
    """Take steps until the penalised log-likelihood rises by less than a tolerance; return it after each."""
    parts = data.log_likelihood(state.means, state.dispersion)
    evidence, weights = day_log_likelihoods(data, state, parts)
    trace = [objective(data, state, evidence)]
    for _ in range(steps):
        state, parts = _step(data, state, weights, parts)
        evidence, weights = day_log_likelihoods(data, state, parts)
        trace.append(objective(data, state, evidence))
        if trace[-1] - trace[-2] < tolerance:
            break
    return state, trace


def _step(data: OutcomeData, state: State, weights: Array, parts: Array) -> tuple[State, Array]:
    """Raise Σ_d E[ln p(day, type)] plus penalties, provider by provider: a step is cut until it does not lower it."""
    days = weights.sum(axis=0) + _PRIOR_DAYS
    means, slope = data.steps(state.means, state.dispersion, weights, state.population, state.shrinkage)
    log_dispersion = np.log(state.dispersion)
    up = slope.sum(axis=0) - (log_dispersion - state.centre) / _ALIKE**2
    step = np.clip(up / ((slope**2).sum(axis=0) + _ALIKE**-2), -1.0, 1.0)
    before = np.einsum("dk,dik->i", weights, parts) + _penalties(data, state, slice(None))
    who = np.arange(len(step))
    new_means, new_dispersion, new_parts = state.means.copy(), state.dispersion.copy(), parts.copy()
    for of_means, of_dispersion in _ATTEMPTS:
        new_means[who] = state.means[who] + of_means * (means[who] - state.means[who])
        moved = np.exp(log_dispersion[who] + of_dispersion * step[who])
        new_dispersion[who] = np.clip(moved, data.low, data.high) if of_dispersion else state.dispersion[who]
        new_parts[:, who] = data.log_likelihood(new_means, new_dispersion, who)
        trial = replace(state, means=new_means, dispersion=new_dispersion)
        after = np.einsum("dk,dik->i", weights, new_parts[:, who]) + _penalties(data, trial, who)
        who = who[~(after >= before[who])]
        if not len(who):
            break
    for provider in who:
        new_means[provider], new_dispersion[provider] = state.means[provider], state.dispersion[provider]
        new_parts[:, provider] = parts[:, provider]
    next_state = State(
        np.log(days / days.sum()),
        new_means,
        new_dispersion,
        data.population(new_means),
        float(np.log(new_dispersion).mean()),
        state.shrinkage,
    )
    return next_state, new_parts
