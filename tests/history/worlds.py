"""Simulated histories from known models: day types, providers that differ, sizes that vary."""

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
    """Each provider's own rate on each type of day, ``(type, provider)``."""
    return 1 / (1 + np.exp(-(np.log(RATES / (1 - RATES))[:, None] + OFFSETS[:providers])))


def binary_days(seed: int, days: int, providers: int = 5, sizes: tuple[int, int] = (10, 40)) -> History:
    """Binary reports of random sizes: day types, and a rate of its own for each provider and type."""
    rng = generator(seed, 61)
    types = rng.choice(3, p=PRIOR, size=days)
    rows = rng.integers(*sizes, size=(days, providers))
    ones = rng.binomial(rows, rates(providers)[types])
    return from_summaries(Counts(2), np.stack([rows - ones, ones], axis=-1))


def right_models(providers: int = 5) -> list[Any]:
    """The models that `binary_days` are drawn from, one model per provider."""
    return [models.Finite(PRIOR, np.stack([1 - p, p], axis=-1)) for p in rates(providers).T]


def past_of(model: Any, seed: int, days: int, providers: int = 3, rows: int = 12) -> History:
    """A history that is drawn from a model, all of whose rows are i.i.d. given the day's θ."""
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
    """Day types with a model for each provider: its own offset, and rows that move together more or less."""
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
    """A history that is drawn from `true_models`, with sizes that vary from day to day."""
    rng = generator(seed, 63)
    own = true_models(outcome)
    types = own[0].draw_parameters(rng, (days,))
    rows = rng.integers(8, 30, size=(days, PROVIDERS))
    reduction: Any = Moments((0.0,), squares=True) if outcome == "real" else own[0].reduction
    summaries = np.zeros((days, PROVIDERS, reduction.width))
    for day, provider in np.ndindex(days, PROVIDERS):
        data = own[provider].draw_data(rng, types[day], int(rows[day, provider]))
        summaries[day, provider] = reduction.of_rows(data[:, None])
    return from_summaries(reduction, summaries)
