"""Lies about labelled rows: features with a label or a count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from troth.audits.strategies.amounts import check_share
from troth.audits.strategies.row_shapes import count_rows
from troth.audits.strategies.strategy import RowLie
from troth.core.contract import Array, Generator, Model, explains_target


@runtime_checkable
class PredictsAnswers(Model, Protocol):
    """A model that a liar can fit to its own rows and use to label rows."""

    @property
    def public_coefficients(self) -> Array:
        """Public coefficients."""

    def posterior_mean(self, statistics: Array, /) -> Array:
        """Return the posterior mean of the coefficients."""

    def predict(self, coefficients: Array, features: Array, /) -> Array:
        """Return the most probable answers."""

    def log_likelihoods(self, coefficients: Array, data: Any, /) -> Array:
        """Return the log-likelihood of each row."""


def predicts_answers(model: Any) -> bool:
    """Whether a liar can label rows with the model."""
    return explains_target(model) and isinstance(model, PredictsAnswers)


@dataclass(frozen=True)
class LabelWithOwnModel(RowLie):
    """Replace every label by the prediction of a model that is fitted to the provider's own rows."""

    label = "label with its own model"
    suits_model = staticmethod(predicts_answers)

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        return data[0], model.predict(model.posterior_mean(model.statistics(data)), data[0])


@dataclass(frozen=True)
class CopyPublicLabels(RowLie):
    """Replace every label by the prediction of public coefficients, ignoring the true labels."""

    label = "copy public labels"
    suits_model = staticmethod(predicts_answers)

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        return data[0], model.predict(model.public_coefficients, data[0])


@dataclass(frozen=True)
class SendEasyRows(RowLie):
    """Keep the share of the rows that a model fitted to all of them finds most probable."""

    share: float = 0.5

    label = "send the easiest {share:.0%}"
    suits_model = staticmethod(predicts_answers)

    def __post_init__(self) -> None:
        check_share(self)

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        z, y = data
        likelihood = model.log_likelihoods(model.posterior_mean(model.statistics(data)), data)
        rows = round(self.share * count_rows(model, data))
        easy = np.argsort(-likelihood, axis=-1, kind="stable")[..., :rows]
        return np.take_along_axis(z, easy[..., None], axis=-2), np.take_along_axis(y, easy, axis=-1)


@dataclass(frozen=True)
class SwapFeatures(RowLie):
    """Swap the last two features, as if the names of two columns were swapped."""

    label = "swap two features"
    suits_model = staticmethod(explains_target)

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        z, y = data
        order = [*range(z.shape[-1] - 2), *range(z.shape[-1])[-2:][::-1]]
        return z[..., order], y
