"""Learn day types from past days: how many there are, how often each occurs, and what each provider reports on each."""

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
_WEAK, _STRONG = 1.0, 1e4  # rows that the population's means are worth to a provider, at least and at most


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

    Σ_d ln Σ_k p(k) Π_i p(data of provider i on day d | k) is maximised by expectation and maximisation from several
    starts. Each provider's means are shrunk towards the population's of the same type, as strongly as providers are
    alike, and the logarithms of dispersions towards their mean. The number of types, if it is not given, is the
    smallest whose log-likelihood of held-out blocks of days is within one standard error of the best. The parameters
    are those of `LatentClass.fit`.
    """
    outcome = outcome or outcome_of(history.reduction)
    if outcome not in OUTCOMES:
        raise ParameterError(f"there is no outcome {outcome!r}; there are {', '.join(OUTCOMES)}")
    if starts < 1 or max_types < 1 or (types is not None and types < 1):
        raise ParameterError("types, max_types and starts must be at least 1")
    progress = progress or (lambda share, words: None)  # noqa: ARG005
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
    """Return the providers who reported enough for their own distribution, and notes about everybody else."""
    rows = history.rows
    days = (rows > 0).sum(axis=0)
    if not days.any():
        raise DataError("the history has no rows")
    values = history.summaries if outcome in LABELS else history.summaries[..., 1:2]
    average = values / np.maximum(rows, 1.0)[..., None]
    own, notes, steady, varied = [], [], 0, 0
    for place, name in enumerate(history.providers):
        averages = average[rows[:, place] > 0, place]
        varies = len(averages) > 0 and bool((np.ptp(averages, axis=0) > 0).any())
        steady += len(averages) > 0 and not varies
        if days[place] < MIN_DAYS_PER_PROVIDER:
            notes.append(
                f"provider {name!r} has {days[place]} days of data, fewer than {MIN_DAYS_PER_PROVIDER}: "
                "it gets the population's distribution"
            )
        else:
            own.append(name)
            varied += varies
            if not varies:
                notes.append(f"provider {name!r} reports the same mean every day, which says nothing about the day")
    if steady == int((days > 0).sum()):
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
    history: History, outcome: str, most: int, seed: int, spread: float | None, progress: ProgressCallback
) -> tuple[int, dict[int, tuple[float, float]]]:
    """Return the number of types that predicts held-out days best, and the score of each number.

    Days are held out in blocks, because neighbours are alike. The smallest number is taken whose mean log-likelihood is
    within one standard error of the best one's, paired by day.
    """
    days = len(history.days)
    blocks = np.array_split(np.arange(days), _FOLDS)
    scores: dict[int, Array] = {}
    for types in range(1, most + 1):
        if days - max(len(block) for block in blocks) < 2 * types:
            break
        score = np.empty(days)
        for fold, block in enumerate(blocks):
            progress(0.8 * (types - 1 + fold / _FOLDS) / most, f"{types} day types, block {fold + 1} of {_FOLDS}")
            inside = np.setdiff1d(np.arange(days), block)
            train, test = (history.select(days=[history.days[i] for i in part]) for part in (inside, block))
            data = outcome_data(train, outcome, spread)
            state = climb(
                data, types, np.random.default_rng([seed, types, fold]), 1, _MAX_ITERATIONS // 4, 10 * _TOLERANCE
            )
            unseen = outcome_data(test, outcome, 1.0)
            if isinstance(data, ValueData) and isinstance(unseen, ValueData):
                unseen.spread = data.spread  # learnt without these days
            score[block] = day_log_likelihoods(unseen, state)[0]
        scores[types] = score
        best = max(scores, key=lambda k: float(scores[k].mean()))
        if types >= best + 2:
            break
    held_out = {}
    for types, score in scores.items():
        short = scores[best] - score
        held_out[types] = (float(score.mean()), float(short.std(ddof=1) / np.sqrt(days)))
    fewest = min(k for k, (mean, error) in held_out.items() if held_out[best][0] - mean <= error)
    return fewest, held_out


def _shrinkage(data: OutcomeData, state: State) -> float:
    """Return how many rows the population's means are worth: the inverse of how much providers differ beyond chance.

    In units of the variance of one row, (mean − population)² is on average 1/shrinkage plus the variance of an estimate
    of the provider's mean; days that are probably of the type count.
    """
    _, posterior = day_log_likelihoods(data, state)
    chance = data.sampling_variance(state.means, state.dispersion, posterior)
    excess = ((state.means - state.population) ** 2 - chance) / data.unit_variance(state.population)
    count = max(len(state.means) - 1, 1) / len(state.means)
    weights = posterior.sum(axis=0)
    of_type = excess.reshape(*excess.shape[:2], -1).mean(axis=(0, 2)) / count
    between = float(of_type @ weights / weights.sum())
    return float(np.clip(1 / max(between, 1 / _STRONG), _WEAK, _STRONG))


def _order(data: OutcomeData, state: State) -> Indexes:
    """Sort types by the population's mean."""
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
    """Make models of a state; dispersions without which the data are as likely are zero."""
    without = data.log_likelihood(state.means, np.full(len(state.means), data.low))
    fitted = data.log_likelihood(state.means, state.dispersion)
    gain = np.einsum("dk,dik->i", posterior, fitted - without)
    dispersion = np.where(gain > 0, data.natural(state.dispersion), 0.0)
    prior = np.exp(state.log_prior)
    prior /= prior.sum()
    centre = history.reduction.centre[0] if isinstance(history.reduction, Moments) else 0.0

    def model(means: Array, size: float, spread: float | None) -> LatentClass:
        day_mean = means[..., 1] if outcome == "binary" else means + centre
        return family(prior, outcome, day_mean, float(size), spread, centre)

    spreads: Any = getattr(data, "spread", [None] * len(part.providers))
    own = {
        name: model(state.means[i], dispersion[i], None if spreads[i] is None else float(spreads[i]))
        for i, name in enumerate(part.providers)
    }
    typical = float(np.exp(state.centre))
    wide = data.widened(typical, state.population, 1 / state.shrinkage)
    spread = None if outcome != "real" else float(np.sqrt(np.mean(np.square(spreads))))
    population = model(state.population, wide, spread)
    return {name: own.get(name, population) for name in history.providers}, population
