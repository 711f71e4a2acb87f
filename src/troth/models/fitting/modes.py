"""The prior of an expanded regression from past rows, each day expanded at its own mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.contract import Array
from troth.core.past import History
from troth.core.reductions import Expansion
from troth.models.fitting.fitted import FittedPrior
from troth.models.fitting.marginal_likelihood import check_fixed, fit_prior

if TYPE_CHECKING:
    from troth.models.shared.generalised_regression import ExpandedRegression

_MAX_ITERATIONS = 8
_TOLERANCE = 0.01  # change of the mean, in standard deviations of days


def fit_at_modes(family: type[ExpandedRegression], history: History, fixed: Mapping[str, Any]) -> FittedPrior:
    """Fit the prior by maximum marginal likelihood, each day expanded at its most probable coefficients.

    This is Laplace's approximation of each day's evidence. EM alternates between finding the modes under a prior, by
    Newton's method, and updating the prior from them until its mean converges. The result is expanded at that mean.
    """
    check_fixed(family, fixed)
    expansion: Any = history.reduction
    days = [_rows_of(history, day) for day in range(len(history.days))]
    used = [day for day, (_, y) in enumerate(days) if len(y)]
    all_rows = tuple(np.concatenate([days[day][part] for day in used]) for part in (0, 1))
    pooled = expansion.of_datasets(*all_rows)
    one_row = np.maximum(np.diagonal(expansion.curvature(pooled)) / pooled[0], 1e-6)
    first = family(**{"mean": expansion.point, "precision": one_row, **fixed}).expanded_at_mode(all_rows)
    prior = family(**{"mean": first.point, "precision": one_row, **fixed})
    points = dict.fromkeys(used, np.array(prior.mean))
    for _ in range(_MAX_ITERATIONS):
        models = {day: replace(prior, point=point) for day, point in points.items()}
        points = {day: np.array(model.expanded_at_mode(days[day]).point) for day, model in models.items()}
        modes = np.stack(list(points.values()))
        uncertainty = np.stack(
            [_posterior_variance(prior, _expanded_at(expansion, points[day]), days[day]) for day in used]
        )
        mean = modes.mean(axis=0)
        variance = ((modes - mean) ** 2 + uncertainty).mean(axis=0)
        change = np.abs(mean - np.array(prior.mean)) / np.sqrt(variance)
        prior = family(**{"mean": mean, "precision": 1 / variance, **fixed})
        if change.max() < _TOLERANCE:
            break
    centre = np.array(prior.mean)
    summaries = np.zeros_like(history.summaries)
    for day, provider in np.argwhere(history.present):
        table = history.tables[history.days[day], history.providers[provider]]  # type: ignore[index]
        at_mode = _expanded_at(expansion, points[day])
        summaries[day, provider] = _recentred(at_mode, at_mode.of_rows(table), centre)
    past = replace(history, summaries=summaries, reduction=_expanded_at(expansion, centre), tables=None)
    fitted = fit_prior(family, past, {**fixed, "point": tuple(centre.tolist())})
    model: Any = fitted.model
    return replace(fitted, model=replace(model, point=None))


def _rows_of(history: History, day: int) -> tuple[Array, Array]:
    """Return the features and answers of all providers on a day."""
    tables = history.tables or {}
    names = [name for name, present in zip(history.providers, history.present[day], strict=True) if present]
    rows = [tables[history.days[day], name] for name in names] or [np.zeros((0, history.reduction.columns))]
    table = np.concatenate(rows)
    return table[:, :-1], table[:, -1]


def _expanded_at(expansion: Expansion, point: Array) -> Expansion:
    return replace(expansion, point=tuple(point.tolist()))


def _posterior_variance(prior: ExpandedRegression, expansion: Expansion, rows: tuple[Array, Array]) -> Array:
    """Return the posterior variance of a day's coefficients, expanded at its mode."""
    return np.diagonal(np.linalg.inv(prior._prior_precision + expansion.curvature(expansion.of_datasets(*rows))))


def _recentred(expansion: Expansion, summary: Array, point: Array) -> Array:
    """Rewrite a quadratic around another point, a step a away: ℓ + s·a − ½aᵀHa, s − Ha and H."""
    step, H, slope = point - np.array(expansion.point), expansion.curvature(summary), expansion.slope(summary)
    moved = summary.copy()
    moved[1] += slope @ step - 0.5 * step @ H @ step
    moved[2 : 2 + len(step)] = slope - H @ step
    return np.asarray(moved)
