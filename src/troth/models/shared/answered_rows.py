"""Rows with features and an answer (binary, a label or a count), for any prior on the coefficients."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from troth.core.contract import Array, Generator
from troth.core.errors import DataError
from troth.core.reductions.answer_likelihoods import Answer, Classes, CountAnswers, YesNo
from troth.core.reductions.sums import unit_diagonal
from troth.core.support import Support
from troth.models.first_guess import Column, log_mean, log_odds, log_shares

_ROUNDING = 1e-14  # smaller eigenvalues of a matrix with unit diagonal count as 0


class AnsweredRows:
    """Rows (z, y) whose answers depend on coefficients through z·θ."""

    @property
    def _answer(self) -> Answer:
        raise NotImplementedError

    @property
    def _features_of_row(self) -> int:
        raise NotImplementedError

    @property
    def support(self) -> Support:
        """The values of an answer."""
        return self._answer.support

    def _checked(self, data: Any) -> tuple[Array, Array]:
        return features_and_answers(data, self._features_of_row, self.support)

    def _predictors(self, coefficients: Array, z: Array) -> Array:
        """Return z·θ, ``(predictor, ..., row)``."""
        by_class = coefficients.reshape(*coefficients.shape[:-1], -1, self._features_of_row)
        return np.moveaxis(z @ np.swapaxes(by_class, -1, -2), -1, 0)

    def log_likelihoods(self, coefficients: Array, data: Any, /) -> Array:
        """Return the log-likelihood of each row (z, y), ``(..., row)``, at coefficients ``(..., coefficient)``."""
        z, y = self._checked(data)
        eta = self._predictors(np.asarray(coefficients, dtype=np.float64), z)
        return np.asarray(self._answer.expand(eta.reshape(len(eta), -1), y.ravel()).log_likelihood).reshape(y.shape)

    def predict(self, coefficients: Array, features: Array, /) -> Array:
        """Return the most probable label, or the rounded mean count, for rows ``(..., row, feature)``."""
        means = self._answer.means(self._predictors(np.asarray(coefficients, dtype=np.float64), features))
        return np.asarray(means.argmax(axis=0) if self._answer.predictors > 1 else np.round(means[0]), dtype=np.float64)


def planned_features(rows: Any, features: int) -> Array:
    """Check the features of a planned report, ``(rows, feature)``; a number of rows is not enough."""
    if np.ndim(rows) < 2:
        raise DataError(f"a regression is planned by its features, of shape (rows, {features}), not by {rows!r}")
    return Support().check(rows, "feature", columns=features)


def draw_features(rng: Generator, rows: Any, features: int, leading: tuple[int, ...]) -> Array:
    """Return features for each dataset: ``rows`` themselves, or that many rows of standard normal draws."""
    if np.ndim(rows) == 0:
        return rng.standard_normal((*leading, int(rows), features))
    z = np.asarray(rows, dtype=np.float64)
    return np.broadcast_to(z, (*np.broadcast_shapes(leading, z.shape[:-2]), *z.shape[-2:]))


def root_of_curvature(H: Array) -> tuple[Array, Array]:
    """Return s and F with diag(s)FFᵀdiag(s) = H, which is accurate for features of very different scales."""
    scale, unit = unit_diagonal(H)
    values, vectors = np.linalg.eigh(unit)
    return scale, vectors * np.sqrt(np.where(values > _ROUNDING * H.shape[-1], values, 0.0))[..., None, :]


def features_and_answers(data: Any, features: int, support: Support) -> tuple[Array, Array]:
    """Validate and return features ``(..., row, feature)`` and answers ``(..., row)``."""
    try:
        z, y = data
    except (TypeError, ValueError):
        raise DataError("regression data is a pair (z, y) of features, (rows, d), and answers, (rows,)") from None
    z = Support().check(z, "feature", columns=features)
    y = support.check(y, "answer")
    if z.shape[:-1] != y.shape:
        raise DataError(f"features of shape {z.shape} need answers of shape {z.shape[:-1]}, not {y.shape}")
    return z, y


class YesNoAnswers:
    """Answers 0 and 1."""

    answers: ClassVar[str] = "yes or no"
    good_within: ClassVar[float] = 5.0

    @classmethod
    def _guess_intercepts(cls, target: Column) -> list[float]:
        return [log_odds(target)]

    _answer = YesNo()


class LabelAnswers:
    """Answers 0 … classes−1."""

    classes: int
    answers: ClassVar[str] = "labels"
    given_parameters: ClassVar[tuple[str, ...]] = ("classes",)
    good_within: ClassVar[float] = 5.0

    @classmethod
    def _guess_intercepts(cls, target: Column) -> list[float]:
        return log_shares(target)

    @property
    def _answer(self) -> Answer:
        return Classes(self.classes)


class CountedAnswers:
    """Answers that are counts."""

    answers: ClassVar[str] = "counts"
    good_within: ClassVar[float] = 1.25
    scale_of_intercept: ClassVar[float] = 0.5
    scale_of_slopes: ClassVar[float] = 0.2

    @classmethod
    def _guess_intercepts(cls, target: Column) -> list[float]:
        return [log_mean(target)]

    _answer = CountAnswers()

    score_measure = "ln x!"  # of each count, which summaries do not contain
