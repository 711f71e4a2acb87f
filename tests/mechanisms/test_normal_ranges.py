"""Ranges of normal means against a search over all numbers of rows and all means of reports."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import troth
from registry import SOAK, generator
from troth import models

TRIALS = 400 if SOAK else 20


def random_round(seed: int) -> tuple[list[Any], list[int], tuple[float, float]]:
    """Two or three providers with offsets, noises and dispersions of all sizes, and values anywhere."""
    rng = generator(seed, 21)
    scale = 10 ** rng.uniform(-1, 1)
    provider_models: list[Any] = [
        models.ProviderNormal(
            0.3,
            scale,
            noise=scale * 10 ** rng.uniform(-1.5, 1),
            offset=scale * rng.choice([0.0, rng.normal(0, 1), rng.normal(0, 4)]),
            dispersion=scale * rng.choice([0.0, 10 ** rng.uniform(-2, 0.5)]),
        )
        for _ in range(int(rng.integers(2, 4)))
    ]
    rows = [int(n) for n in rng.integers(1, 4, len(provider_models))]
    rows[-1] *= int(rng.integers(0, 2)) if len(rows) > 2 else 1
    low = scale * rng.normal(0, 2)
    return provider_models, rows, (low, low + scale * float(10 ** rng.uniform(-1, 1)))


def searched(provider_models: list[Any], rows: list[int], values: tuple[float, float]) -> tuple[float, float]:
    """Minimum and maximum log PMI on grids of the sums, each finer than the one before, for all numbers of rows."""
    low, high = 0.0, 0.0
    for i in range(len(provider_models)):
        for counts in product(*(range(limit + 1) for limit in rows)):
            w = np.array(
                [float(model._weight(np.array(float(n)))) for model, n in zip(provider_models, counts, strict=True)]
            )
            ends = np.array(
                [
                    [weight * (v - m.mean - m.offset) for v in values]
                    for weight, m in zip(w, provider_models, strict=True)
                ]
            )
            box = ends[i], np.delete(ends, i, axis=0).sum(axis=0)
            for sign in (-1, 1):
                lows, highs = [b[0] for b in box], [b[1] for b in box]
                for _ in range(4):
                    first, second = (np.linspace(a, b, 41) for a, b in zip(lows, highs, strict=True))
                    own = np.stack(np.broadcast_arrays(w[i], first[:, None]), axis=-1)
                    peers = np.stack(np.broadcast_arrays(w.sum() - w[i], second[None]), axis=-1)
                    scores = troth.log_pmi(provider_models[0], own, peers)
                    a, b = divmod(int((sign * scores).argmax()), 41)
                    low, high = min(low, float(scores[a, b])), max(high, float(scores[a, b]))
                    lows, highs = (
                        [grid[max(0, min(k + d, 40))] for grid, k in ((first, a), (second, b))] for d in (-1, 1)
                    )
    return low, high


@pytest.mark.parametrize("seed", range(TRIALS))
def test_the_range_agrees_with_a_search(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    provider_models, rows, values = random_round(seed)
    low, high = searched(provider_models, rows, values)
    scale = troth.exact_range(provider_models, rows, values)
    assert scale.low == pytest.approx(low, rel=1e-9)
    assert scale.high == pytest.approx(high, abs=1e-5 * (1 + high))
    assert scale.high >= high - 1e-11 * (1 + high)
    assert troth.clipped_range(provider_models, rows, values).high == scale.high
    monkeypatch.setattr(
        "troth.models.numerics.normal_extremes._MAX_EXHAUSTIVE", 0
    )  # the search that serves many rows and providers
    wider = troth.exact_range(provider_models, rows, values)
    assert wider.low <= scale.low + 1e-11 * (1 - scale.low)
    assert wider.high >= scale.high - 1e-11 * (1 + scale.high)


def test_providers_with_opposite_offsets_can_agree() -> None:
    """The maximum log PMI is in the interior, not where both reports are at an end of the values."""
    provider_models: Any = [models.ProviderNormal(0, 1, 0.1, offset=b) for b in (0.5, -0.5)]
    t = np.stack([model.statistics([1.0 + model.offset] * 10) for model in provider_models])
    agreement = troth.peer_log_pmi(provider_models, t).max()
    assert agreement > 3.1
    for make in (troth.exact_range, troth.clipped_range):
        scale = make(provider_models, [10, 10], values=(-2, 2))
        assert scale.high > agreement
        troth.OneTime(scale).pay(provider_models, t, budget=1.0)


def test_many_providers_with_different_offsets_stay_within_the_range() -> None:
    rng = generator(22)
    offsets = rng.normal(0, 1, 12)
    provider_models: Any = [
        models.ProviderNormal(0, 1, 0.5, offset=b, dispersion=0.1 * (k % 3)) for k, b in enumerate(offsets)
    ]
    scale = troth.exact_range(provider_models, [50] * 12, values=(-3, 3))
    scores = []
    for own, value, peers in product(range(12), (-3.0, 3.0), range(2, 13)):
        means = np.broadcast_to(np.linspace(-3, 3, 301)[:, None], (301, 12)).copy()
        means[:, own] = value
        rows = np.zeros(12)  # only providers with the most extreme offsets report
        rows[np.argsort(np.sign(value) * offsets)[:peers]] = 50
        summaries = rows[:, None] * np.stack([np.ones_like(means), means], axis=-1)
        t = np.stack([model.from_summary(summaries[:, k]) for k, model in enumerate(provider_models)], axis=-2)
        scores.append(troth.peer_log_pmi(provider_models, t)[:, own])
    assert scale.low <= np.min(scores)
    assert scale.high - 0.1 < np.max(scores) <= scale.high


def test_a_precise_peer_beside_a_vague_one() -> None:
    """The precise peer may be absent: precisions of all sizes are searched."""
    labs: Any = troth.combine([models.Normal(0, 1, s) for s in (1.0, 1.0, 1e-4)])
    scale = troth.exact_range(labs, [5, 5, 5], values=(3, 3.5))
    for data in (
        [[3.0] * 5, [3.0] * 5, []],
        [[3.5] * 5, [3.5] * 5, [3.5]],
        [[3.0], [3.5], []],
        [[3.0] * 5, [3.5], [3.5]],
    ):
        t = np.stack([lab.statistics(x) for lab, x in zip(labs, data, strict=True)])
        troth.OneTime(scale).pay(labs, t, budget=1.0)
