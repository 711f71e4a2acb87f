"""Fitted day types, their standard errors, and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.contract import Array
from troth.core.errors import DataError
from troth.core.formats import number
from troth.core.information import leave_one_out
from troth.core.past import History, statistics_of
from troth.core.provider_models import combine
from troth.models.fitting.day_types.em import State, day_log_likelihoods
from troth.models.fitting.day_types.outcomes import OutcomeData, softmax_variance
from troth.models.fitting.fitted import BLUE, MAX_PROVIDERS, FittedProviders, name_rows, terms_left_out

if TYPE_CHECKING:
    from troth.models.latent_class import LatentClass  # noqa: F401 (the parameter of the base class)


_DAYS_PER_PARAMETER = 3  # below which standard errors are taken provider by provider


@dataclass(frozen=True)
class Errors:
    """Standard errors of a fit."""

    providers: tuple[str, ...]
    of_prior: Array = field(repr=False)  # one per type
    of_means: Array = field(repr=False)  # (provider, type), of labels also code
    of_dispersion: Array = field(repr=False)  # one per provider

    def __getitem__(self, provider: str) -> dict[str, Any]:
        if provider not in self.providers:
            raise DataError(f"provider {provider!r} has no distribution in this fit")
        place = self.providers.index(provider)
        return {"means": self.of_means[place], "dispersion": float(self.of_dispersion[place])}


@dataclass(frozen=True)
class FittedDayTypes(FittedProviders["LatentClass"]):
    """Day types learnt from a history.

    An unknown provider has the population's means, and a dispersion that includes how much providers differ.
    ``held_out`` has for each number of types that was tried the log-likelihood per day of days that were held out, and
    the standard error of its shortfall from the best.
    """

    outcome: str  # "binary", "categorical", "count" or "real"
    errors: Errors
    shrinkage: float  # how many rows the population's means are worth to each provider
    held_out: Mapping[int, tuple[float, float]]
    trace: tuple[float, ...]  # penalised log-likelihood of the last climb, which never falls
    posterior: Array = field(repr=False)  # the probability of each type on each day, (day, type)
    notes: tuple[str, ...] = ()

    @property
    def types(self) -> int:
        """How many day types there are."""
        return len(self.population.prior)

    def caveats(self, labels: Sequence[str]) -> list[str]:
        """Warn of one day type only."""
        meaning = "reports say nothing about each other, and everybody will be paid the same"
        return [f"one day type explains these days best: {meaning}"] if self.types == 1 else []

    def title_and_lines(self) -> tuple[str, list[str]]:
        """Return how many types and providers there are, and the dispersion of each provider."""
        likelihood = f"log-likelihood {number(self.log_likelihood)} nats per day{terms_left_out(self.population)}"
        title = f"{self.types} day types of {len(self.models)} providers, {likelihood}"
        dispersions = [f"{name}: {model.dispersion:.4g} dispersion" for name, model in self.models.items()]
        return title, [*dispersions, *(f"note: {note}" for note in self.notes)]

    def predicted_means(self, history: History) -> Array:
        """Σ_k p(type k | peers) · mean of the provider on type k; of labels, the chance of the last one."""
        models: Any = combine([self.model_of(name) for name in history.providers])
        parts = [statistics_of(model, history.summaries[:, i], history.reduction) for i, model in enumerate(models)]
        t = np.where(history.present[..., None], np.stack(parts, axis=1), 0.0)
        posterior = self.population.posterior_probabilities(leave_one_out(t))
        means = np.array([[_last(mean) for mean in self.model_of(name).means] for name in history.providers])
        return np.asarray((posterior * means).sum(axis=-1))

    def draw(self, axes: Sequence[Any], history: History) -> None:
        """Draw how often each type occurs, each provider's means and the dispersions."""
        first, second, third = axes
        places = np.arange(self.types)
        first.bar(places, self.population.prior, color=BLUE, width=0.6)
        errors = np.asarray(self.errors.of_prior)
        first.errorbar(places, self.population.prior, yerr=errors, fmt="none", ecolor="black", capsize=3)
        first.set_xticks(places, [f"type {k + 1}" for k in places])
        first.set_ylabel("share of days")
        first.set_title(f"{self.types} day types", loc="left")
        names = list(self.models)[:MAX_PROVIDERS]
        for k in range(self.types):
            values = [_last(self.models[name].means[k]) for name in names]
            second.plot(values, range(len(names)), "o", markersize=5, label=f"type {k + 1}", alpha=0.85)
        name_rows(second, names)
        second.set_xlabel("chance of the last label" if self.outcome == "categorical" else "mean")
        second.set_title("each provider's means", loc="left")
        second.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
        self._draw_dispersions(third)


def _last(mean: Any) -> float:
    return float(mean[-1]) if isinstance(mean, tuple) else float(mean)


def standard_errors(data: OutcomeData, state: State, providers: Sequence[str]) -> Errors:
    """Return standard errors from the information Σ_d s_d s_dᵀ, s_d the score of day d averaged over its type.

    The information of the shrinkage towards the population is added. With fewer than three days per parameter providers
    are taken one by one, as if the others' parameters were known.
    """
    _, posterior = day_log_likelihoods(data, state)
    by_mean, by_dispersion, worth = data.scores(state.means, state.dispersion)
    days, people, types, free = by_mean.shape
    of_means = (posterior[:, None, :, None] * by_mean).reshape(days, people, types * free)
    of_dispersion = np.einsum("dk,dik->di", posterior, by_dispersion)
    of_prior = (posterior - np.exp(state.log_prior))[:, :-1]
    extra = np.concatenate([state.shrinkage * worth.reshape(people, -1), np.zeros((people, 1))], axis=1)
    blocks = np.concatenate([of_means, of_dispersion[..., None]], axis=-1)
    size = blocks.shape[-1]
    if days >= _DAYS_PER_PARAMETER * (people * size + types - 1):
        scores = np.concatenate([of_prior, blocks.reshape(days, -1)], axis=1)
        covariance = inverse(scores.T @ scores + np.diag(np.concatenate([np.zeros(types - 1), extra.ravel()])))
        logits = covariance[: types - 1, : types - 1]
        starts = types - 1 + size * np.arange(people)
        own = np.stack([covariance[a : a + size, a : a + size] for a in starts])
    else:
        logits = inverse(of_prior.T @ of_prior)
        own = np.stack([inverse(blocks[:, i].T @ blocks[:, i] + np.diag(extra[i])) for i in range(people)])
    inner = own[:, :-1, :-1].reshape(people, types, free, types, free)
    of_type = np.stack([inner[:, k, :, k] for k in range(types)], axis=1)
    errors = np.sqrt(np.maximum(own[:, -1, -1], 0.0))
    return Errors(
        tuple(providers),
        np.sqrt(np.maximum(softmax_variance(np.exp(state.log_prior), logits), 0.0)),
        data.errors(state.means, of_type),
        data.natural_errors(state.dispersion, errors),
    )


def inverse(information: Array) -> Array:
    """Invert in units in which the diagonal is 1, and leave out what the data do not determine."""
    scale = np.sqrt(np.maximum(np.diagonal(information), 1e-300))
    units = np.outer(scale, scale)
    return np.asarray(np.linalg.pinv(information / units, rcond=1e-10, hermitian=True) / units)
