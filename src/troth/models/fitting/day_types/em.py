"""Expectation and maximisation for day types: every step raises the penalised likelihood.

It starts from days that are clustered by how unusual each provider's mean is; types are merged and split again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.special import logsumexp

from troth.core.contract import Array, Generator, Indexes
from troth.models.fitting.day_types.outcomes import OutcomeData, Who

_PRIOR_DAYS = 0.5  # days that every type has before any is seen
_CLUSTERINGS = 12  # of which the tightest is a start
_BURN = 12
_ROUNDS = 12
_TRIED = 2  # pairs to merge, and types to split
_SPREAD_OF_LOGS = 2.0  # standard deviation of the logarithms of providers' dispersions
_ATTEMPTS = ((1.0, 1.0), (1.0, 0.25), (1.0, 0.0), (0.25, 0.0), (0.05, 0.0))
"""Shares of the steps of means and of dispersion; that of the means alone is sure to rise for labels and values."""


@dataclass(frozen=True)
class State:
    """Parameters of a fit."""

    log_prior: Array  # of the types
    means: Array  # by provider and type
    dispersion: Array  # by provider
    population: Array  # means by type
    centre: float  # of the logarithms of dispersions
    shrinkage: float  # how many rows the population's means are worth to a provider

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


def _penalties(data: OutcomeData, state: State, providers: Who) -> Array:
    penalty = ((np.log(state.dispersion[providers]) - state.centre) / _SPREAD_OF_LOGS) ** 2
    return np.asarray(data.penalty(state.means[providers], state.population, state.shrinkage) - 0.5 * penalty)


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
    means, slope = data.steps(state.means, state.dispersion, weights, state.population, state.shrinkage)
    log_dispersion = np.log(state.dispersion)
    up = slope.sum(axis=0) - (log_dispersion - state.centre) / _SPREAD_OF_LOGS**2
    step = np.clip(up / ((slope**2).sum(axis=0) + _SPREAD_OF_LOGS**-2), -1.0, 1.0)
    before = np.einsum("dk,dik->i", weights, parts) + _penalties(data, state, slice(None))
    providers = np.arange(len(step))
    new_means, new_dispersion, new_parts = state.means.copy(), state.dispersion.copy(), parts.copy()
    for of_means, of_dispersion in _ATTEMPTS:
        new_means[providers] = state.means[providers] + of_means * (means[providers] - state.means[providers])
        moved = np.exp(log_dispersion[providers] + of_dispersion * step[providers])
        new_dispersion[providers] = (
            np.clip(moved, data.low, data.high) if of_dispersion else state.dispersion[providers]
        )
        new_parts[:, providers] = data.log_likelihood(new_means, new_dispersion, providers)
        trial = replace(state, means=new_means, dispersion=new_dispersion)
        after = np.einsum("dk,dik->i", weights, new_parts[:, providers]) + _penalties(data, trial, providers)
        providers = providers[~(after >= before[providers])]
        if not len(providers):
            break
    for provider in providers:
        new_means[provider], new_dispersion[provider] = state.means[provider], state.dispersion[provider]
        new_parts[:, provider] = parts[:, provider]
    next_state = State(
        _log_shares(weights),
        new_means,
        new_dispersion,
        data.population(new_means),
        float(np.log(new_dispersion).mean()),
        state.shrinkage,
    )
    return next_state, new_parts


def climb(data: OutcomeData, types: int, rng: Generator, starts: int, steps: int, tolerance: float) -> State:
    """Take some steps from every start and all the others from the best; then merge and split types while it helps."""
    points = unusualness(data)
    climbs = [maximise(data, _start(data, points, types, rng, k), _BURN) for k in range(1 if types == 1 else starts)]
    state = max(climbs, key=lambda climb: climb[1][-1])[0]
    state, trace = maximise(data, state, steps, tolerance)
    for _ in range(_ROUNDS if types > 2 else 0):
        climbs = [maximise(data, candidate, _BURN) for candidate in _rearranged(data, points, state)]
        if not climbs:
            break
        best = max(climbs, key=lambda climb: climb[1][-1])
        if not best[1][-1] > trace[-1]:
            break
        state, trace = maximise(data, best[0], steps, tolerance)
    return state


def unusualness(data: OutcomeData) -> Array:
    """Each day's averages as deviations from the provider's own mean, in its own standard deviations, 0 if absent."""
    features, present = data.averages, (data.rows > 0)[..., None]
    count = np.maximum(present.sum(axis=0), 1)
    middle = (features * present).sum(axis=0) / count
    size = np.sqrt((((features - middle) * present) ** 2).sum(axis=0) / count)
    z = np.where(present, (features - middle) / np.maximum(size, 1e-12), 0.0)
    return np.asarray(z.reshape(len(z), -1))


def _start(data: OutcomeData, points: Array, types: int, rng: Generator, turn: int) -> State:
    """Return a state for the tightest of several clusterings, later for single ones."""
    clusterings = [_clusters(points, types, rng) for _ in range(_CLUSTERINGS if turn == 0 else 1)]
    labels = min(clusterings, key=lambda pair: pair[1])[0]
    weights = np.full((len(labels), types), 0.1 / types)
    weights[np.arange(len(labels)), labels] += 0.9
    means = data.initial(weights)
    dispersion = np.full(len(means), data.start)
    return State(_log_shares(weights), means, dispersion, data.population(means), float(np.log(data.start)), 1.0)


def _rearranged(data: OutcomeData, points: Array, state: State) -> Iterator[State]:
    """Merge two types that share days or are near each other, and split one whose days fall into two clusters best."""
    _, posterior = day_log_likelihoods(data, state)
    size = posterior.sum(axis=0)
    shared = (posterior.T @ posterior) / np.maximum(np.minimum(size[:, None], size[None]), 1e-9)
    far = ((state.population[:, None] - state.population[None]) ** 2).reshape(state.types, state.types, -1).sum(axis=-1)
    pairs = sorted(combinations(range(state.types), 2), key=lambda ab: float(-shared[ab]))[:_TRIED]
    pairs += sorted(combinations(range(state.types), 2), key=lambda ab: float(far[ab]))[:_TRIED]
    halves = {}
    for k in range(state.types):
        days = np.flatnonzero(posterior[:, k] > 0.5)
        if len(days) >= 4:
            halves[k] = (days, *_halves(points[days]))
    splits = sorted(halves, key=lambda k: -halves[k][2])[:_TRIED]
    for a, b in dict.fromkeys(pairs):
        for k in splits:
            if k in (a, b):
                continue
            weights = posterior.copy()
            weights[:, a] += weights[:, b]
            weights[:, b] = 0.0
            days, second, _ = halves[k]
            moved = days[second]
            weights[moved, b], weights[moved, k] = weights[moved, k], 0.0
            means = data.initial(weights)
            yield replace(state, log_prior=_log_shares(weights), means=means, population=data.population(means))


def _log_shares(weights: Array) -> Array:
    days = weights.sum(axis=0) + _PRIOR_DAYS
    return np.asarray(np.log(days / days.sum()))


def _halves(points: Array) -> tuple[Array, float]:
    """Cut points in two along the direction in which they vary most, and refine; return the gain in squares."""
    centred = points - points.mean(axis=0)
    direction = np.linalg.svd(centred, full_matrices=False)[2][0]
    second = centred @ direction > 0
    if second.all() or not second.any():
        return second, 0.0
    labels, inside = _refined(points, np.stack([points[~second].mean(axis=0), points[second].mean(axis=0)]), 10)
    return labels == 1, float((centred**2).sum()) - inside


def _clusters(points: Array, count: int, rng: Generator) -> tuple[Array, float]:
    """K-means from centres that are drawn far from each other: labels and squares within clusters."""
    centres = points[[int(rng.integers(len(points)))]]
    for _ in range(count - 1):
        gap = np.maximum(_squares(points, centres).min(axis=1), 0.0)
        chance = gap / gap.sum() if gap.sum() > 0 else None
        centres = np.concatenate([centres, points[[int(rng.choice(len(points), p=chance))]]])
    return _refined(points, centres, 15)


def _refined(points: Array, centres: Array, rounds: int) -> tuple[Array, float]:
    """Move centres to the means of the points nearest to them; return labels and squares within clusters."""
    for _ in range(rounds):
        labels = _squares(points, centres).argmin(axis=1)
        for k in np.unique(labels):
            centres[k] = points[labels == k].mean(axis=0)
    distances = _squares(points, centres)
    return distances.argmin(axis=1), float(distances.min(axis=1).sum())


def _squares(points: Array, centres: Array) -> Array:
    return np.asarray((points**2).sum(axis=1)[:, None] - 2 * points @ centres.T + (centres**2).sum(axis=1))
