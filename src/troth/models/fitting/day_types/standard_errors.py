"""How sure a fit is of its parameters: the outer product of what each day says about all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from troth.core.contract import Array
from troth.core.errors import DataError
from troth.models.fitting.day_types.em import State, day_log_likelihoods
from troth.models.fitting.day_types.outcomes import OutcomeData, softmax_variance

_DAYS_PER_PARAMETER = 3


@dataclass(frozen=True)
class Errors:
    """Standard errors of a fit.

    Attributes
    ----------
    of_prior
        One per type.
    of_means
        ``(provider, type)``, of labels also ``code``.
    of_dispersion
        One per provider.
    """

    providers: tuple[str, ...]
    of_prior: Array = field(repr=False)
    of_means: Array = field(repr=False)
    of_dispersion: Array = field(repr=False)

    def __getitem__(self, provider: str) -> dict[str, Any]:
        if provider not in self.providers:
            raise DataError(f"provider {provider!r} has no distribution of its own in this fit")
        place = self.providers.index(provider)
        return {"means": self.of_means[place], "dispersion": float(self.of_dispersion[place])}


def standard_errors(data: OutcomeData, state: State, providers: Sequence[str]) -> Errors:
    """Return standard errors from the information Σ_d s_d s_dᵀ, s_d the score of day d averaged over its type.

    To it comes what the shrinkage towards the population is worth. With fewer than three days per parameter providers
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
