"""Learn day types from past days: how many there are, how often each occurs, and each provider's law on each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from troth.core.errors import DataError, ParameterError
from troth.core.reductions import Moments
from troth.history.day_type_steps import AnyLaw, LabelSteps, ValueSteps, law_of
from troth.history.em import State, day_log_likelihoods, maximise
from troth.history.standard_errors import Errors, standard_errors
from troth.history.starts import climb
from troth.models.latent_class import LatentClass
from troth.models.numerics.dispersed import OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from troth.core.contract import Array
    from troth.history.record import History

Watch: TypeAlias = Callable[[float, str], None]
"""Called with the share of the work that is done and what is being done."""

FEWEST_DAYS = 10
FEWEST_DAYS_OF_A_PROVIDER = 5

_LONGEST = 400
_TOLERANCE = 1e-3
_FOLDS = 4
_WEAK, _STRONG = 1.0, 1e4  # rows that the population's law is worth to a provider, at least and at most


@dataclass(frozen=True)
class LatentFit:
    """Day types learnt from a history.

    Attributes
    ----------
    models
        Each provider's own law; a provider who reported too little to have one has the population's.
    population
        The law of a provider about whom nothing is known: the population's means, and a dispersion that says how much
        providers differ as well as how much days do.
    errors
        Standard errors of each provider's means and dispersion, and those of the prior.
    shrinkage
        How many rows the population's means were worth to each provider.
    log_likelihood
        Of the history, in nats per day, up to terms that no parameter touches.
    held_out
        For each number of types that was tried, the log-likelihood per day of days that were held out, and the
        standard error of its shortfall from the best.
    trace
        The penalised log-likelihood after each step of the last climb; it never falls.
    posterior
        The probability of each type on each day, ``(day, type)``.
    notes
        What a reader should know.
    """

    law: str
    models: Mapping[str, LatentClass]
    population: LatentClass
    errors: Errors
    shrinkage: float
    log_likelihood: float
    held_out: Mapping[int, tuple[float, float]]
    trace: tuple[float, ...]
    posterior: Array = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def types(self) -> int:
        """How many day types there are."""
        return len(self.population.prior)

    def model_of(self, provider: str) -> LatentClass:
        """Return a provider's own law, or the population's for one without history."""
        return self.models.get(provider, self.population)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the table [model] of a campaign file: the population's law, and how each provider differs."""
        shared = self.population.to_dict()
        own = {}
        for name, model in self.models.items():
            plain = model.to_dict()
            own[name] = {key: value for key, value in plain.items() if shared.get(key) != value}
        return {**shared, "providers": own}

    def __str__(self) -> str:
        lines = [f"{self.types} day types of {len(self.models)} providers, {self.log_likelihood:.4f} nats per day"]
        lines += [f"  {name}: {model.dispersion:.4g} dispersion" for name, model in self.models.items()]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def fit_latent_class(
    history: History,
    law: str,
    *,
    types: int | None = None,
    max_types: int = 8,
    starts: int = 4,
    seed: int = 0,
    spread: float | None = None,
    watch: Watch | None = None,
) -> LatentFit:
    """Fit day types to a history by penalised maximum likelihood.

    Σ_d ln Σ_k p(k) Π_i p(data of provider i on day d | k) is climbed by expectation and maximisation from several
    starts. Each provider's means are shrunk towards the population's of the same type, as strongly as providers are
    alike, and the logarithms of dispersions towards their mean. The number of types, if it is not given, is the
    smallest whose log-likelihood of held-out blocks of days is within one standard error of the best.

    Parameters
    ----------
    history
        Past days; they must be public or paid for, and not depend on the reports that the model will price.
    law
        ``"binary"``, ``"categorical"``, ``"count"`` or ``"real"``.
    types
        How many day types there are; chosen among 1 … ``max_types`` if it is not given.
    starts
        How many starts to climb from.
    seed
        Of the starts: the same seed gives the same fit.
    spread
        Standard deviation of values within a day, for ``"real"``, where the history has no sums of squares.
    watch
        Called with the share of the work that is done, and with words.

    Examples
    --------
    >>> from troth.history.record import History
    >>> from troth.core.reductions import Counts
    >>> days = [(d, name, [20 - k, k]) for d in range(40) for name, k in (("a", 4 + d % 2 * 9), ("b", 6 + d % 2 * 8))]
    >>> found = fit_latent_class(History.from_reports(days, Counts(2)), "binary", types=2)
    >>> [round(p, 1) for p in found.population.prior], [round(p, 2) for p in found.models["a"].means]
    ([0.5, 0.5], [0.21, 0.65])
    """
    if law not in OUTCOMES:
        raise ParameterError(f"there is no outcome {law!r}; there are {', '.join(OUTCOMES)}")
    if starts < 1 or max_types < 1 or (types is not None and types < 1):
        raise ParameterError("types, max_types and starts must be at least 1")
    tell: Watch = watch or (lambda share, words: None)  # noqa: ARG005
    if spread is not None and law != "real":
        raise ParameterError(f"spread is for values, not for the law {law!r}")
    needed = max(FEWEST_DAYS, 3 * (types or 1))
    if len(history.days) < needed:
        raise DataError(f"the history has {len(history.days)} days; a fit needs at least {needed}")
    own, notes = usable_providers(history, law)
    part = history.select(providers=own)
    held_out: dict[int, tuple[float, float]] = {}
    if types is None:
        types, held_out = choose_types(part, law, max_types, seed, spread, tell)
        if types == 1:
            notes.append("one type explains held-out days best: these data say nothing about each other")
    data = law_of(part, law, spread)
    share = 0.0 if not held_out else 0.8
    state = climb(data, types, np.random.default_rng([seed, types]), starts, _LONGEST, _TOLERANCE)
    tell(share + (1 - share) * 0.5, f"{types} day types, first climb")
    state = dataclasses.replace(state, shrinkage=_shrinkage(data, state))
    state, trace = maximise(data, state, _LONGEST, _TOLERANCE)
    if len(trace) > _LONGEST:
        notes.append(f"the climb had not ended after {_LONGEST} steps")
    state = state.sorted(_order(data, state))
    evidence, posterior = day_log_likelihoods(data, state)
    tell(1.0, f"{types} day types")
    models, population = _models(history, part, law, data, state, posterior)
    errors = standard_errors(data, state, part.providers)
    return LatentFit(
        law,
        models,
        population,
        errors,
        state.shrinkage,
        float(evidence.mean()),
        held_out,
        tuple(trace),
        posterior,
        tuple(notes),
    )


def usable_providers(history: History, law: str) -> tuple[list[str], list[str]]:
    """Return who reported enough to have a law of their own, and notes about everybody else."""
    rows = history.rows
    days = (rows > 0).sum(axis=0)
    if not days.any():
        raise DataError("the history has no rows")
    labels = law in ("binary", "categorical")
    values = history.summaries if labels else history.summaries[..., 1:2]
    average = values / np.maximum(rows, 1.0)[..., None]
    own, notes, steady, varied = [], [], 0, 0
    for place, name in enumerate(history.providers):
        seen = average[rows[:, place] > 0, place]
        varies = len(seen) > 0 and bool((np.ptp(seen, axis=0) > 0).any())
        steady += len(seen) > 0 and not varies
        if days[place] < FEWEST_DAYS_OF_A_PROVIDER:
            notes.append(
                f"provider {name!r} has {days[place]} days of data, fewer than {FEWEST_DAYS_OF_A_PROVIDER}: "
                "it gets the population's law"
            )
        else:
            own.append(name)
            varied += varies
            if not varies:
                notes.append(f"provider {name!r} reports the same mean every day: what it sends says nothing")
    if steady == int((days > 0).sum()):
        raise DataError("the column is constant: every provider reports the same mean every day, so no type shows")
    if varied < 2:
        raise DataError(
            f"a fit needs at least 2 providers with {FEWEST_DAYS_OF_A_PROVIDER} days of data that vary, "
            f"not {varied}; " + "; ".join(notes)
        )
    return own, notes


def choose_types(
    history: History, law: str, most: int, seed: int, spread: float | None, tell: Watch
) -> tuple[int, dict[int, tuple[float, float]]]:
    """Return the number of types that foretells held-out days best, and what each number reached.

    Days are held out in blocks, because neighbours are alike. The smallest number is taken whose mean log-likelihood is
    within one standard error of the best one's, paired by day.
    """
    days = len(history.days)
    blocks = np.array_split(np.arange(days), _FOLDS)
    scores: dict[int, Array] = {}
    for types in range(1, most + 1):
        if days - max(len(block) for block in blocks) < 2 * types:
            break
        found = np.empty(days)
        for fold, block in enumerate(blocks):
            tell(0.8 * (types - 1 + fold / _FOLDS) / most, f"{types} day types, block {fold + 1} of {_FOLDS}")
            inside = np.setdiff1d(np.arange(days), block)
            train, test = (history.select(days=[history.days[i] for i in part]) for part in (inside, block))
            data = law_of(train, law, spread)
            state = climb(data, types, np.random.default_rng([seed, types, fold]), 1, _LONGEST // 4, 10 * _TOLERANCE)
            unseen = law_of(test, law, 1.0)
            if isinstance(data, ValueSteps) and isinstance(unseen, ValueSteps):
                unseen.spread = data.spread  # learnt without these days
            found[block] = day_log_likelihoods(unseen, state)[0]
        scores[types] = found
        best = max(scores, key=lambda k: float(scores[k].mean()))
        if types >= best + 2:
            break
    best = max(scores, key=lambda k: float(scores[k].mean()))
    held_out = {}
    for types, found in scores.items():
        short = scores[best] - found
        held_out[types] = (float(found.mean()), float(short.std(ddof=1) / np.sqrt(days)))
    fewest = min(k for k, (mean, error) in held_out.items() if held_out[best][0] - mean <= error)
    return fewest, held_out


def _shrinkage(law: AnyLaw, state: State) -> float:
    """Return how many rows the population's means are worth: the inverse of how much providers differ beyond chance.

    In units of the variance of one row, (mean − population)² is on average 1/shrinkage plus the variance of an estimate
    of the provider's mean; days that are probably of the type count.
    """
    _, posterior = day_log_likelihoods(law, state)
    chance = law.sampling_variance(state.means, state.dispersion, posterior)
    apart = ((state.means - state.population) ** 2 - chance) / law.unit_variance(state.population)
    count = max(len(state.means) - 1, 1) / len(state.means)
    weights = posterior.sum(axis=0)
    unordered = apart.reshape(*apart.shape[:2], -1).mean(axis=(0, 2)) / count
    between = float(unordered @ weights / weights.sum())
    return float(np.clip(1 / max(between, 1 / _STRONG), _WEAK, _STRONG))


def _order(law: AnyLaw, state: State) -> NDArray[np.intp]:
    """Sort types by the population's mean."""
    p = state.population
    value = p @ np.arange(p.shape[-1]) if isinstance(law, LabelSteps) else p
    return np.argsort(value, kind="stable")


def _models(
    history: History, part: History, law: str, data: AnyLaw, state: State, posterior: Array
) -> tuple[dict[str, LatentClass], LatentClass]:
    """Make models of a state; dispersions without which the data are as likely are zero."""
    without = data.log_likelihood(state.means, np.full(len(state.means), data.low))
    fitted = data.log_likelihood(state.means, state.dispersion)
    gain = np.einsum("dk,dik->i", posterior, fitted - without)
    dispersion = np.where(gain > 0, data.natural(state.dispersion), 0.0)
    prior = np.exp(state.log_prior)
    prior /= prior.sum()
    centre = history.reduction.centre[0] if isinstance(history.reduction, Moments) else 0.0

    def made(means: Array, size: float, spread: float | None) -> LatentClass:
        shown = means[..., 1] if law == "binary" else means + centre
        return LatentClass(prior, law, shown, float(size), spread, centre)

    spreads: Any = getattr(data, "spread", [None] * len(part.providers))
    own = {
        name: made(state.means[i], dispersion[i], None if spreads[i] is None else float(spreads[i]))
        for i, name in enumerate(part.providers)
    }
    typical = float(np.exp(state.centre))
    wide = data.widened(typical, state.population, 1 / state.shrinkage)
    spread = None if law != "real" else float(np.sqrt(np.mean(np.square(spreads))))
    population = made(state.population, wide, spread)
    return {name: own.get(name, population) for name in history.providers}, population
