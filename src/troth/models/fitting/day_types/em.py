"""Expectation–maximisation (EM) for day types: no step lowers the penalised likelihood.

It starts from clusters of days with similar standardised averages, then merges and splits types while that helps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.special import logsumexp

from troth.core.contract import Array, Generator, Indexes
from troth.models.fitting.day_types.outcomes import OutcomeData, Selection

_PRIOR_DAYS = 0.5  # pseudo-count of days per type
_CLUSTERINGS = 12  # the tightest of these is the first start
_TRIAL_STEPS = 12
_MAX_REARRANGEMENTS = 12
_CANDIDATES = 2  # pairs to merge by each criterion, and types to split
_LOG_DISPERSION_SD = 2.0  # prior standard deviation of providers' log dispersions
_STEP_SIZES = ((1.0, 1.0), (1.0, 0.25), (1.0, 0.0), (0.25, 0.0), (0.05, 0.0))
"""Fractions of the steps in means and in log dispersion, tried in turn.

For labels and values a step in the means alone never lowers the objective.
"""


@dataclass(frozen=True)
class State:
    """Parameters of a fit."""

    log_prior: Array  # by type
    means: Array  # by provider and type
    dispersion: Array  # by provider
    population: Array  # the population's means by type
    centre: float  # mean log dispersion
    shrinkage: float  # weight of the population's means in a provider's, in rows

    @property
    def types(self) -> int:
        """The number of day types."""
        return len(self.log_prior)

    def sorted(self, order: Indexes) -> State:
        """Return the state with its types reordered."""
        return replace(
            self, log_prior=self.log_prior[order], means=self.means[:, order], population=self.population[order]
        )


def day_log_likelihoods(data: OutcomeData, state: State, parts: Array | None = None) -> tuple[Array, Array]:
    """Return ln p(day), ``(day,)``, and the posterior of the day's type, ``(day, type)``."""
    parts = data.log_likelihood(state.means, state.dispersion) if parts is None else parts
    joint = state.log_prior + parts.sum(axis=1)
    evidence = logsumexp(joint, axis=1)
    return evidence, np.exp(joint - evidence[:, None])


def objective(data: OutcomeData, state: State, evidence: Array) -> float:
    """Return the penalised log-likelihood."""
    return float(evidence.sum() + _PRIOR_DAYS * state.log_prior.sum() + _penalties(data, state, slice(None)).sum())


def _penalties(data: OutcomeData, state: State, providers: Selection) -> Array:
    squares = ((np.log(state.dispersion[providers]) - state.centre) / _LOG_DISPERSION_SD) ** 2
    return np.asarray(data.penalty(state.means[providers], state.population, state.shrinkage) - 0.5 * squares)


def maximise(data: OutcomeData, state: State, steps: int, tolerance: float = 0.0) -> tuple[State, list[float]]:
    """Take EM steps until the objective rises by less than the tolerance; return the state and the objective's path."""
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
    """Raise Σ_d E[ln p(day, type)] plus penalties, shortening each provider's step until it does not lower its part."""
    means, slope = data.steps(state.means, state.dispersion, weights, state.population, state.shrinkage)
    log_dispersion = np.log(state.dispersion)
    gradient = slope.sum(axis=0) - (log_dispersion - state.centre) / _LOG_DISPERSION_SD**2
    step = np.clip(gradient / ((slope**2).sum(axis=0) + _LOG_DISPERSION_SD**-2), -1.0, 1.0)
    before = np.einsum("dk,dik->i", weights, parts) + _penalties(data, state, slice(None))
    providers = np.arange(len(step))
    new_means, new_dispersion, new_parts = state.means.copy(), state.dispersion.copy(), parts.copy()
    for mean_share, dispersion_share in _STEP_SIZES:
        new_means[providers] = state.means[providers] + mean_share * (means[providers] - state.means[providers])
        moved = np.exp(log_dispersion[providers] + dispersion_share * step[providers])
        new_dispersion[providers] = (
            np.clip(moved, data.low, data.high) if dispersion_share else state.dispersion[providers]
        )
        new_parts[:, providers] = data.log_likelihood(new_means, new_dispersion, providers)
        trial = replace(state, means=new_means, dispersion=new_dispersion)
        after = np.einsum("dk,dik->i", weights, new_parts[:, providers]) + _penalties(data, trial, providers)
        providers = providers[~(after >= before[providers])]
        if not len(providers):
            break
    new_means[providers], new_dispersion[providers] = state.means[providers], state.dispersion[providers]
    new_parts[:, providers] = parts[:, providers]
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
    """Try a few EM steps from every start, converge from the best, then merge and split types while that helps."""
    points = _standardised_averages(data)
    initial = [_start(data, points, types, rng, index) for index in range(1 if types == 1 else starts)]
    trials = [maximise(data, candidate, _TRIAL_STEPS) for candidate in initial]
    state = max(trials, key=lambda trial: trial[1][-1])[0]
    state, trace = maximise(data, state, steps, tolerance)
    for _ in range(_MAX_REARRANGEMENTS if types > 2 else 0):
        trials = [maximise(data, candidate, _TRIAL_STEPS) for candidate in _rearranged(data, points, state)]
        if not trials:
            break
        best = max(trials, key=lambda trial: trial[1][-1])
        if not best[1][-1] > trace[-1]:
            break
        state, trace = maximise(data, best[0], steps, tolerance)
    return state


def _standardised_averages(data: OutcomeData) -> Array:
    """Standardise each day's averages by the provider's own mean and standard deviation; 0 where it is absent."""
    features, present = data.averages, (data.rows > 0)[..., None]
    count = np.maximum(present.sum(axis=0), 1)
    mean = (features * present).sum(axis=0) / count
    deviation = np.sqrt((((features - mean) * present) ** 2).sum(axis=0) / count)
    z = np.where(present, (features - mean) / np.maximum(deviation, 1e-12), 0.0)
    return np.asarray(z.reshape(len(z), -1))


def _start(data: OutcomeData, points: Array, types: int, rng: Generator, index: int) -> State:
    """Return a starting state: the first comes from the tightest of several clusterings, the others from one each."""
    clusterings = [_clusters(points, types, rng) for _ in range(_CLUSTERINGS if index == 0 else 1)]
    labels = min(clusterings, key=lambda pair: pair[1])[0]
    weights = np.full((len(labels), types), 0.1 / types)
    weights[np.arange(len(labels)), labels] += 0.9
    means = data.initial(weights)
    dispersion = np.full(len(means), data.start)
    return State(_log_shares(weights), means, dispersion, data.population(means), float(np.log(data.start)), 1.0)


def _rearranged(data: OutcomeData, points: Array, state: State) -> Iterator[State]:
    """Merge two types that share days or have similar means, and split a third whose days fall into two clusters."""
    _, posterior = day_log_likelihoods(data, state)
    weight = posterior.sum(axis=0)
    overlap = (posterior.T @ posterior) / np.maximum(np.minimum(weight[:, None], weight[None]), 1e-9)
    gaps = state.population[:, None] - state.population[None]
    distance = (gaps**2).reshape(state.types, state.types, -1).sum(axis=-1)
    pairs = sorted(combinations(range(state.types), 2), key=lambda ab: float(-overlap[ab]))[:_CANDIDATES]
    pairs += sorted(combinations(range(state.types), 2), key=lambda ab: float(distance[ab]))[:_CANDIDATES]
    halves = {}
    for k in range(state.types):
        days = np.flatnonzero(posterior[:, k] > 0.5)
        if len(days) >= 4:
            halves[k] = (days, *_halves(points[days]))
    splits = sorted(halves, key=lambda k: -halves[k][2])[:_CANDIDATES]
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
    """Split points in two along their principal axis; return the second half and the drop in the sum of squares."""
    centred = points - points.mean(axis=0)
    direction = np.linalg.svd(centred, full_matrices=False)[2][0]
    second = centred @ direction > 0
    if second.all() or not second.any():
        return second, 0.0
    labels, within = _refined(points, np.stack([points[~second].mean(axis=0), points[second].mean(axis=0)]), 10)
    return labels == 1, float((centred**2).sum()) - within


def _clusters(points: Array, count: int, rng: Generator) -> tuple[Array, float]:
    """Cluster points by k-means++; return labels and the sum of squares within clusters."""
    centres = points[[int(rng.integers(len(points)))]]
    for _ in range(count - 1):
        squares = np.maximum(_squared_distances(points, centres).min(axis=1), 0.0)
        chance = squares / squares.sum() if squares.sum() > 0 else None
        centres = np.concatenate([centres, points[[int(rng.choice(len(points), p=chance))]]])
    return _refined(points, centres, 15)


def _refined(points: Array, centres: Array, rounds: int) -> tuple[Array, float]:
    """Move centres by Lloyd's algorithm; return labels and the sum of squares within clusters."""
    for _ in range(rounds):
        labels = _squared_distances(points, centres).argmin(axis=1)
        for k in np.unique(labels):
            centres[k] = points[labels == k].mean(axis=0)
    distances = _squared_distances(points, centres)
    return distances.argmin(axis=1), float(distances.min(axis=1).sum())


def _squared_distances(points: Array, centres: Array) -> Array:
    return np.asarray((points**2).sum(axis=1)[:, None] - 2 * points @ centres.T + (centres**2).sum(axis=1))
