"""Fit day types to past days: their number, their frequencies, and each provider's distribution on each type."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from troth.core.contract import Array, Indexes
from troth.core.errors import DataError, ParameterError
from troth.core.past import History
from troth.core.reductions import Moments
from troth.models.fitting.day_types.em import State, climb, day_log_likelihoods, maximise
from troth.models.fitting.day_types.fitted import FittedDayTypes, standard_errors
from troth.models.fitting.day_types.outcomes import LabelData, OutcomeData, ValueData, outcome_data, outcome_of
from troth.models.numerics.dispersed import LABELS, OUTCOMES

if TYPE_CHECKING:
    from troth.models.latent_class import LatentClass

ProgressCallback: TypeAlias = Callable[[float, str], None]
"""Called with the fraction of the work that is done and the name of the current step."""

MIN_DAYS = 10
MIN_DAYS_PER_PROVIDER = 5

_MAX_ITERATIONS = 400
_TOLERANCE = 1e-3
_FOLDS = 4
_MIN_SHRINKAGE, _MAX_SHRINKAGE = 1.0, 1e4  # weight of the population's means in a provider's, in rows


def fit_day_types(
    family: type[LatentClass],
    history: History,
    outcome: str | None,
    types: int | None,
    max_types: int,
    starts: int,
    seed: int,
    spread: float | None,
    progress: ProgressCallback | None,
) -> FittedDayTypes:
    """Fit day types to a history by penalised maximum likelihood.

    Σ_d ln Σ_k p(k) Π_i p(data of provider i on day d | k) is maximised by EM from several starts. Each provider's means
    are shrunk towards the population's means of the same type, more strongly the more similar providers are, and log
    dispersions towards their mean. By default, the number of types is the smallest whose log-likelihood of held-out
    blocks of days is within one standard error of the best. The parameters are those of `LatentClass.fit`.
    """
    outcome = outcome or outcome_of(history.reduction)
    if outcome not in OUTCOMES:
        raise ParameterError(f"there is no outcome {outcome!r}; there are {', '.join(OUTCOMES)}")
    if starts < 1 or max_types < 1 or (types is not None and types < 1):
        raise ParameterError("types, max_types and starts must be at least 1")
    progress = progress or (lambda share, step: None)  # noqa: ARG005
    if spread is not None and outcome != "real":
        raise ParameterError(f"spread is for values, not for {outcome} outcomes")
    needed = max(MIN_DAYS, 3 * (types or 1))
    if len(history.days) < needed:
        raise DataError(f"the history has {len(history.days)} days; a fit needs at least {needed}")
    own, notes = usable_providers(history, outcome)
    part = history.select(providers=own)
    held_out: dict[int, tuple[float, float]] = {}
    if types is None:
        types, held_out = choose_types(part, outcome, max_types, seed, spread, progress)
        if types == 1:
            notes.append("one type explains held-out days best: under this model reports say nothing about each other")
    data = outcome_data(part, outcome, spread)
    share = 0.8 if held_out else 0.0
    state = climb(data, types, np.random.default_rng([seed, types]), starts, _MAX_ITERATIONS, _TOLERANCE)
    progress(share + (1 - share) * 0.5, f"{types} day types, first start")
    state = dataclasses.replace(state, shrinkage=_shrinkage(data, state))
    state, trace = maximise(data, state, _MAX_ITERATIONS, _TOLERANCE)
    if len(trace) > _MAX_ITERATIONS:
        notes.append(f"the fit had not converged after {_MAX_ITERATIONS} steps")
    state = state.sorted(_order(data, state))
    evidence, posterior = day_log_likelihoods(data, state)
    progress(1.0, f"{types} day types")
    models, population = _models(family, history, part, outcome, data, state, posterior)
    errors = standard_errors(data, state, part.providers)
    diagnostics = (outcome, errors, state.shrinkage, held_out, tuple(trace), posterior, tuple(notes))
    return FittedDayTypes(models, population, float(evidence.mean()), *diagnostics)


def usable_providers(history: History, outcome: str) -> tuple[list[str], list[str]]:
    """Return the providers with enough data for a distribution of their own, and notes about the others."""
    rows = history.rows
    days = (rows > 0).sum(axis=0)
    if not days.any():
        raise DataError("the history has no rows")
    values = history.summaries if outcome in LABELS else history.summaries[..., 1:2]
    average = values / np.maximum(rows, 1.0)[..., None]
    own, notes, constant, varied = [], [], 0, 0
    for index, name in enumerate(history.providers):
        averages = average[rows[:, index] > 0, index]
        varies = len(averages) > 0 and bool((np.ptp(averages, axis=0) > 0).any())
        constant += len(averages) > 0 and not varies
        if days[index] < MIN_DAYS_PER_PROVIDER:
            notes.append(
                f"provider {name!r} has {days[index]} days of data, fewer than {MIN_DAYS_PER_PROVIDER}: "
                "it gets the population's distribution"
            )
        else:
            own.append(name)
            varied += varies
            if not varies:
                notes.append(f"provider {name!r} reports the same mean every day, which says nothing about the day")
    if constant == int((days > 0).sum()):
        raise DataError(
            "the column is constant: every provider reports the same mean every day, so day types cannot be estimated"
        )
    if varied < 2:
        raise DataError(
            f"a fit needs at least 2 providers with {MIN_DAYS_PER_PROVIDER} days of data that vary, "
            f"not {varied}; " + "; ".join(notes)
        )
    return own, notes


def choose_types(
    history: History, outcome: str, max_types: int, seed: int, spread: float | None, progress: ProgressCallback
) -> tuple[int, dict[int, tuple[float, float]]]:
    """Choose the number of types by cross-validation; return it with the held-out score of each number.

    Days are held out in blocks, because neighbouring days are alike. The choice is the smallest number whose mean
    log-likelihood is within one standard error of the best, with differences taken day by day.
    """
    days = len(history.days)
    blocks = np.array_split(np.arange(days), _FOLDS)
    scores: dict[int, Array] = {}
    for types in range(1, max_types + 1):
        if days - max(len(block) for block in blocks) < 2 * types:
            break
        score = np.empty(days)
        for fold, block in enumerate(blocks):
            progress(0.8 * (types - 1 + fold / _FOLDS) / max_types, f"{types} day types, block {fold + 1} of {_FOLDS}")
            others = np.setdiff1d(np.arange(days), block)
            train, test = (history.select(days=[history.days[i] for i in part]) for part in (others, block))
            data = outcome_data(train, outcome, spread)
            state = climb(
                data, types, np.random.default_rng([seed, types, fold]), 1, _MAX_ITERATIONS // 4, 10 * _TOLERANCE
            )
            held_out_data = outcome_data(test, outcome, 1.0)
            if isinstance(data, ValueData) and isinstance(held_out_data, ValueData):
                held_out_data.spread = data.spread  # learnt without these days
            score[block] = day_log_likelihoods(held_out_data, state)[0]
        scores[types] = score
        best = max(scores, key=lambda k: float(scores[k].mean()))
        if types >= best + 2:
            break
    held_out = {}
    for types, score in scores.items():
        shortfall = scores[best] - score
        held_out[types] = (float(score.mean()), float(shortfall.std(ddof=1) / np.sqrt(days)))
    fewest = min(k for k, (mean, error) in held_out.items() if held_out[best][0] - mean <= error)
    return fewest, held_out


def _shrinkage(data: OutcomeData, state: State) -> float:
    """Return the weight of the population's means, in rows: the inverse of how much providers differ beyond chance.

    In units of the variance of one row, (mean − population)² averages 1/shrinkage plus the sampling variance of the
    provider's mean. Days count by their posterior probability of the type.
    """
    _, posterior = day_log_likelihoods(data, state)
    chance = data.sampling_variance(state.means, state.dispersion, posterior)
    excess = ((state.means - state.population) ** 2 - chance) / data.unit_variance(state.population)
    bias = max(len(state.means) - 1, 1) / len(state.means)
    weights = posterior.sum(axis=0)
    by_type = excess.reshape(*excess.shape[:2], -1).mean(axis=(0, 2)) / bias
    between = float(by_type @ weights / weights.sum())
    return float(np.clip(1 / max(between, 1 / _MAX_SHRINKAGE), _MIN_SHRINKAGE, _MAX_SHRINKAGE))


def _order(data: OutcomeData, state: State) -> Indexes:
    """Return the order of types by the population's mean."""
    p = state.population
    value = p @ np.arange(p.shape[-1]) if isinstance(data, LabelData) else p
    return np.argsort(value, kind="stable")


def _models(
    family: type[LatentClass],
    history: History,
    part: History,
    outcome: str,
    data: OutcomeData,
    state: State,
    posterior: Array,
) -> tuple[dict[str, LatentClass], LatentClass]:
    """Return each provider's model and the population's; a dispersion that does not raise the likelihood becomes 0."""
    undispersed = data.log_likelihood(state.means, np.full(len(state.means), data.low))
    fitted = data.log_likelihood(state.means, state.dispersion)
    gain = np.einsum("dk,dik->i", posterior, fitted - undispersed)
    dispersion = np.where(gain > 0, data.natural(state.dispersion), 0.0)
    prior = np.exp(state.log_prior)
    prior /= prior.sum()
    centre = history.reduction.centre[0] if isinstance(history.reduction, Moments) else 0.0

    def model(means: Array, dispersion: float, spread: float | None) -> LatentClass:
        day_means = means[..., 1] if outcome == "binary" else means + centre
        return family(prior, outcome, day_means, float(dispersion), spread, centre)

    spreads: Any = getattr(data, "spread", [None] * len(part.providers))
    own = {
        name: model(state.means[i], dispersion[i], None if spreads[i] is None else float(spreads[i]))
        for i, name in enumerate(part.providers)
    }
    typical_dispersion = float(np.exp(state.centre))
    widened_dispersion = data.widened(typical_dispersion, state.population, 1 / state.shrinkage)
    spread = None if outcome != "real" else float(np.sqrt(np.mean(np.square(spreads))))
    population = model(state.population, widened_dispersion, spread)
    return {name: own.get(name, population) for name in history.providers}, population
