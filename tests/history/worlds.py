"""Histories drawn from known models: day types, providers that differ, sizes that vary."""

from __future__ import annotations

from typing import Any

import numpy as np

from registry import generator
from troth import models
from troth.core.past import History
from troth.core.reductions import Counts, Moments
from troth.history import from_summaries

PRIOR = np.array([0.5, 0.3, 0.2])
RATES = np.array([0.15, 0.35, 0.65])
OFFSETS = np.array([0.15, -1.0, 0.9, 0.3, -0.5])


def rates(providers: int) -> Any:
    """Return the rate of each provider on each type of day, ``(type, provider)``."""
    return 1 / (1 + np.exp(-(np.log(RATES / (1 - RATES))[:, None] + OFFSETS[:providers])))


def binary_days(seed: int, days: int, providers: int = 5, sizes: tuple[int, int] = (10, 40)) -> History:
    """Draw binary reports of random sizes; rates depend on the type of day and the provider."""
    rng = generator(seed, 61)
    types = rng.choice(3, p=PRIOR, size=days)
    rows = rng.integers(*sizes, size=(days, providers))
    ones = rng.binomial(rows, rates(providers)[types])
    return from_summaries(Counts(2), np.stack([rows - ones, ones], axis=-1))


def binary_models(providers: int = 5) -> list[Any]:
    """Return the models that `binary_days` draws from, one per provider."""
    return [models.Finite(PRIOR, np.stack([1 - p, p], axis=-1)) for p in rates(providers).T]


def draw_history(model: Any, seed: int, days: int, providers: int = 3, rows: int = 12) -> History:
    """Draw a history from a model whose rows are i.i.d. given the day's θ."""
    rng = generator(seed, 62)
    theta = model.draw_parameters(rng, (days,))
    regression = hasattr(model, "precision")
    if regression:
        reduction: Any = Moments((0.0,) * (len(model.mean) + 1), linear=False, squares=True)
    elif isinstance(model.reduction, Counts):
        reduction = model.reduction
    else:
        integer = model.support.integer
        centre = (0.0 if integer else 1.0,) * model.reduction.columns
        reduction = Moments(centre, squares=not integer, support=model.support)
    summaries = np.zeros((days, providers, reduction.width))
    for day in range(days):
        for provider in range(providers):
            data = model.draw_data(rng, theta[day], rows)
            table = np.column_stack([data[0], data[1]]) if regression else np.asarray(data).reshape(rows, -1)
            summaries[day, provider] = reduction.of_rows(table)
    return from_summaries(reduction, summaries)


PROVIDERS = 4
TEXTBOOK = {"binary": "Bernoulli", "categorical": "Categorical", "count": "Poisson", "real": "Normal"}
DISPERSION = {"binary": 0.03, "categorical": 0.03, "count": 0.05, "real": 0.3}


def true_models(outcome: str) -> list[Any]:
    """Return day-type models, one per provider, with their own offsets and dispersions."""
    offset = np.array([0.15, -1.0, 0.9, 0.3])[:, None]
    if outcome == "binary":
        means: Any = 1 / (1 + np.exp(-(np.array([-1.7, -0.6, 0.6]) + offset)))
    elif outcome == "categorical":
        base = np.array([[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]])
        tilted = base * np.exp(offset[:, None] * np.array([-1.0, 0.0, 1.0]))
        means = tilted / tilted.sum(axis=-1, keepdims=True)
    elif outcome == "count":
        means = np.exp(np.array([0.0, 0.7, 1.4]) + 0.7 * offset)
    else:
        means = np.array([-1.0, 0.0, 1.2]) + offset
    spread = 1.0 if outcome == "real" else None
    sizes = DISPERSION[outcome] * np.array([1.0, 1.5, 1.0, 1.5])
    return [
        models.LatentClass([0.35, 0.4, 0.25], outcome, m, float(s), spread) for m, s in zip(means, sizes, strict=True)
    ]


def dispersed_days(outcome: str, seed: int, days: int) -> History:
    """Draw a history from `true_models`, with sizes that vary from day to day."""
    rng = generator(seed, 63)
    by_provider = true_models(outcome)
    types = by_provider[0].draw_parameters(rng, (days,))
    rows = rng.integers(8, 30, size=(days, PROVIDERS))
    reduction: Any = Moments((0.0,), squares=True) if outcome == "real" else by_provider[0].reduction
    summaries = np.zeros((days, PROVIDERS, reduction.width))
    for day, provider in np.ndindex(days, PROVIDERS):
        data = by_provider[provider].draw_data(rng, types[day], int(rows[day, provider]))
        summaries[day, provider] = reduction.of_rows(data[:, None])
    return from_summaries(reduction, summaries)
