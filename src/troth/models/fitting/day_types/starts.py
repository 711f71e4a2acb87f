"""Where to climb from: days clustered by how unusual each provider's mean is, and types merged and split again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from troth.core.contract import Array, Generator
from troth.models.fitting.day_types.em import State, day_log_likelihoods, maximise
from troth.models.fitting.day_types.outcomes import OutcomeData

_CLUSTERINGS = 12  # of which the tightest is a start
_BURN = 12
_ROUNDS = 12
_TRIED = 2  # pairs to merge, and types to split


def climb(data: OutcomeData, types: int, rng: Generator, starts: int, steps: int, tolerance: float) -> State:
    """Take some steps from every start and all the others from the best; then merge and split types while it helps."""
    points = unusualness(data)
    climbs = [maximise(data, _start(data, points, types, rng, k), _BURN) for k in range(1 if types == 1 else starts)]
    state = max(climbs, key=lambda climb: climb[1][-1])[0]
    state, trace = maximise(data, state, steps, tolerance)
    reached = trace[-1]
    for _ in range(_ROUNDS if types > 2 else 0):
        climbs = [maximise(data, candidate, _BURN) for candidate in _rearranged(data, points, state)]
        if not climbs:
            break
        best = max(climbs, key=lambda climb: climb[1][-1])
        if not best[1][-1] > reached:
            break
        state, trace = maximise(data, best[0], steps, tolerance)
        reached = trace[-1]
    return state


def unusualness(data: OutcomeData) -> Array:
    """Each day's averages as deviations from the provider's own mean, in its own standard deviations, 0 if absent."""
    features, seen = data.averages, (data.rows > 0)[..., None]
    count = np.maximum(seen.sum(axis=0), 1)
    middle = (features * seen).sum(axis=0) / count
    size = np.sqrt((((features - middle) * seen) ** 2).sum(axis=0) / count)
    z = np.where(seen, (features - middle) / np.maximum(size, 1e-12), 0.0)
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
    days = weights.sum(axis=0) + 0.5
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
