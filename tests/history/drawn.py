"""Histories drawn from known models, with missing reports."""

from __future__ import annotations

from typing import Any

import numpy as np

from registry import generator
from troth import models
from troth.core.reductions import Moments
from troth.history import History

DISPERSION = {"binary": 0.04, "categorical": 0.04, "count": 0.1, "real": 0.5}


def day_types(
    outcome: str, seed: int, days: int = 120, providers: int = 4, types: int = 3, dispersion: float | None = None
) -> tuple[History, list[models.LatentClass]]:
    """Draw days with providers that differ; types are sorted as in a fit, and a tenth of the reports is missing."""
    rng = generator(seed, 31)
    prior = rng.dirichlet(np.full(types, 8.0))
    shape = (providers, types)
    size = DISPERSION[outcome] if dispersion is None else dispersion
    if outcome == "binary":
        means = 1 / (1 + np.exp(-(np.linspace(-2, 2, types) + rng.normal(0, 0.3, shape))))
    elif outcome == "categorical":
        weights = np.exp(rng.normal(0, 1.5, (types, 3)) + rng.normal(0, 0.3, (*shape, 3)))
        means = weights / weights.sum(axis=-1, keepdims=True)
        middle = np.exp(np.log(means).mean(axis=0))
        means = means[:, np.argsort((middle / middle.sum(axis=-1, keepdims=True)) @ np.arange(3))]
    elif outcome == "count":
        means = np.exp(np.linspace(0, 2.5, types) + rng.normal(0, 0.3, shape))
    else:
        means = np.linspace(0, 6, types) + rng.normal(0, 0.3, shape)
    spread = 1.5 if outcome == "real" else None
    truths = [models.LatentClass(prior, outcome, means[i], size, spread) for i in range(providers)]
    reduction = Moments(squares=True) if outcome == "real" else truths[0].reduction
    return _reported(truths, reduction, rng, days), truths


def normals(seed: int, days: int = 150, providers: int = 5) -> tuple[History, list[models.ProviderNormal]]:
    rng = generator(seed, 32)
    truths = [
        models.ProviderNormal(50, 4, 2.0, float(rng.normal(0, 1.5)), float(rng.uniform(0.5, 1.5)))
        for _ in range(providers)
    ]
    return _reported(truths, Moments((48.0,), squares=True), rng, days), truths


def _reported(truths: list[Any], reduction: Any, rng: Any, days: int) -> History:
    theta = truths[0].draw_parameters(rng, (days,))
    reports = []
    for day in range(days):
        for i, truth in enumerate(truths):
            if rng.random() < 0.9:
                rows = truth.draw_data(rng, theta[day], int(rng.integers(20, 90)))
                reports.append((day, f"p{i}", reduction.of_rows(np.asarray(rows)[:, None])))
    return History.from_reports(reports, reduction)
