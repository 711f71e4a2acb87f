"""Fitted day types, their standard errors and plots."""

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


_DAYS_PER_PARAMETER = 3  # with fewer days, standard errors are computed for each provider separately


@dataclass(frozen=True)
class Errors:
    """Standard errors of a fit."""

    providers: tuple[str, ...]
    prior: Array = field(repr=False)  # by type
    means: Array = field(repr=False)  # by provider and type; for labels also by code
    dispersion: Array = field(repr=False)  # by provider

    def __getitem__(self, provider: str) -> dict[str, Any]:
        if provider not in self.providers:
            raise DataError(f"provider {provider!r} has no distribution in this fit")
        index = self.providers.index(provider)
        return {"means": self.means[index], "dispersion": float(self.dispersion[index])}


@dataclass(frozen=True)
class FittedDayTypes(FittedProviders["LatentClass"]):
    """Day types learnt from a history.

    An unknown provider has the population's means, and a dispersion that includes the differences between providers.
    ``held_out`` maps each number of types tried to its log-likelihood per held-out day, and to the standard error of
    its shortfall from the best.
    """

    outcome: str  # "binary", "categorical", "count" or "real"
    errors: Errors
    shrinkage: float  # weight of the population's means in a provider's, in rows
    held_out: Mapping[int, tuple[float, float]]
    trace: tuple[float, ...]  # the penalised log-likelihood after each EM step of the last run
    posterior: Array = field(repr=False)  # probability of each type on each day, (day, type)
    notes: tuple[str, ...] = ()

    @property
    def types(self) -> int:
        """The number of day types."""
        return len(self.population.prior)

    def caveats(self, labels: Sequence[str]) -> list[str]:
        """Warn if there is only one day type."""
        meaning = "reports say nothing about each other, and all providers will be paid the same"
        return [f"one day type explains these days best: {meaning}"] if self.types == 1 else []

    def title_and_lines(self) -> tuple[str, list[str]]:
        """Return the numbers of types and providers, and each provider's dispersion."""
        likelihood = f"log-likelihood {number(self.log_likelihood)} nats per day{terms_left_out(self.population)}"
        title = f"{self.types} day types of {len(self.models)} providers, {likelihood}"
        dispersions = [f"{name}: {model.dispersion:.4g} dispersion" for name, model in self.models.items()]
        return title, [*dispersions, *(f"note: {note}" for note in self.notes)]

    def predicted_means(self, history: History) -> Array:
        """Σ_k p(type k | peers) · mean of the provider on type k; for labels, the probability of the last one."""
        models: Any = combine([self.model_of(name) for name in history.providers])
        parts = [statistics_of(model, history.summaries[:, i], history.reduction) for i, model in enumerate(models)]
        t = np.where(history.present[..., None], np.stack(parts, axis=1), 0.0)
        posterior = self.population.posterior_probabilities(leave_one_out(t))
        means = np.array([[_last(mean) for mean in self.model_of(name).means] for name in history.providers])
        return np.asarray((posterior * means).sum(axis=-1))

    def draw(self, axes: Sequence[Any], history: History) -> None:
        """Draw the frequencies of types, each provider's means and the dispersions."""
        first, second, third = axes
        positions = np.arange(self.types)
        first.bar(positions, self.population.prior, color=BLUE, width=0.6)
        errors = np.asarray(self.errors.prior)
        first.errorbar(positions, self.population.prior, yerr=errors, fmt="none", ecolor="black", capsize=3)
        first.set_xticks(positions, [f"type {k + 1}" for k in positions])
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
    """Return standard errors from the information Σ_d s_d s_dᵀ, with s_d the score of day d averaged over its type.

    Shrinkage towards the population adds information. With fewer than three days per parameter each provider is
    treated separately, as if the others' parameters were known.
    """
    _, posterior = day_log_likelihoods(data, state)
    by_mean, by_dispersion, row_information = data.scores(state.means, state.dispersion)
    days, count, types, free = by_mean.shape
    mean_scores = (posterior[:, None, :, None] * by_mean).reshape(days, count, types * free)
    dispersion_scores = np.einsum("dk,dik->di", posterior, by_dispersion)
    prior_scores = (posterior - np.exp(state.log_prior))[:, :-1]
    extra = np.concatenate([state.shrinkage * row_information.reshape(count, -1), np.zeros((count, 1))], axis=1)
    blocks = np.concatenate([mean_scores, dispersion_scores[..., None]], axis=-1)
    size = blocks.shape[-1]
    if days >= _DAYS_PER_PARAMETER * (count * size + types - 1):
        scores = np.concatenate([prior_scores, blocks.reshape(days, -1)], axis=1)
        covariance = inverse(scores.T @ scores + np.diag(np.concatenate([np.zeros(types - 1), extra.ravel()])))
        logits = covariance[: types - 1, : types - 1]
        starts = types - 1 + size * np.arange(count)
        own = np.stack([covariance[a : a + size, a : a + size] for a in starts])
    else:
        logits = inverse(prior_scores.T @ prior_scores)
        own = np.stack([inverse(blocks[:, i].T @ blocks[:, i] + np.diag(extra[i])) for i in range(count)])
    inner = own[:, :-1, :-1].reshape(count, types, free, types, free)
    by_type = np.stack([inner[:, k, :, k] for k in range(types)], axis=1)
    errors = np.sqrt(np.maximum(own[:, -1, -1], 0.0))
    return Errors(
        tuple(providers),
        np.sqrt(np.maximum(softmax_variance(np.exp(state.log_prior), logits), 0.0)),
        data.errors(state.means, by_type),
        data.natural_errors(state.dispersion, errors),
    )


def inverse(information: Array) -> Array:
    """Invert an information matrix, scaled to a unit diagonal, on the subspace that the data determine."""
    scale = np.sqrt(np.maximum(np.diagonal(information), 1e-300))
    units = np.outer(scale, scale)
    return np.asarray(np.linalg.pinv(information / units, rcond=1e-10, hermitian=True) / units)
