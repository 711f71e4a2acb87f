"""Regressions of numbers, labels and counts, from providers whose coefficients differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from troth.core.contract import Array, ComparedDesign, Generator, Mask
from troth.core.reductions import Reduction
from troth.core.sensitivity import Peers, Sensitivity
from troth.models.family import Example, Matrix, Vector
from troth.models.first_guess import Column, FirstGuess
from troth.models.linear_regression import LinearRegression
from troth.models.numerics.possible_statistics import SLACK
from troth.models.parameters import Integer, Numbers, Precision, parameter, positive, vector
from troth.models.shared.answered_rows import CountedAnswers, LabelAnswers, YesNoAnswers, draw_features
from troth.models.shared.generalised_regression import ExpandedRegression
from troth.models.shared.regression import Regression
from troth.models.shared.varying_providers import BORROWED_ROWS, RandomEffects, differ_parameter


@dataclass(frozen=True)
class VaryingCoefficients(RandomEffects, Regression):
    """Coefficients β ~ N(mean, precision⁻¹), and a provider's own βᵢ ~ N(β, τ²·precision⁻¹), with β and τ unknown."""

    rows_entry: ClassVar[int] = 0
    min_spread: ClassVar[float] = 0.01
    max_spread: ClassVar[float] = 3.0

    def parameter_names(self, columns: Sequence[str | None], labels: Sequence[str] | None = None, /) -> list[str]:
        """Name the coefficients and their spread."""
        return [*super().parameter_names(columns, labels), "spread of providers' coefficients"]

    @property
    def _coefficients(self) -> int:
        return len(self.mean)

    def compared_design(self, statistics: Array, /) -> ComparedDesign:
        """Return the precision that the features give the provider's coefficients."""
        return ComparedDesign.from_products(self._without_spread(statistics)[0])

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw (coefficients, τ) from the prior, shape ``(*shape, d + 1)``."""
        gamma = rng.standard_normal((*shape, len(self.mean)))
        return self._parameters(gamma, self._draw_spread(rng, shape))

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw (coefficients, τ) given statistics."""
        return self._parameters(*self._draw_posterior(rng, statistics))

    def _parameters(self, gamma: Array, spread: Array) -> Array:
        return np.concatenate([np.array(self.mean) + gamma @ self._prior_scale.T, spread[..., None]], axis=-1)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw statistics for each (coefficients, τ) and precision."""
        return self._draw_statistics(rng, *self._in_units(parameters), design)

    def draw_answer_part(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw c and h for each (coefficients, τ) and precision."""
        return self._answers(*self._draw_product(rng, *self._in_units(parameters), design))

    def _in_units(self, parameters: Array) -> tuple[Array, Array]:
        """Return coefficients and spread in units of the prior."""
        return (parameters[..., :-1] - np.array(self.mean)) @ self._prior_root, parameters[..., -1]


@dataclass(frozen=True)
class VaryingLinearRegression(VaryingCoefficients):
    """Answers y = z·βᵢ + ε of providers whose coefficients differ: βᵢ ~ N(β, τ²·precision⁻¹), β and τ unknown.

    β ~ N(mean, precision⁻¹); τ is 0 or up to three times the prior's standard deviation. Given its own residual
    variance s² = (3·noise² + squared residuals)/(3 + n − d), a provider's least-squares coefficients are
    N(β, τ²·precision⁻¹ + s²(ZᵀZ)⁻¹): see `VaryingNormal`, which has only an intercept. At τ = 0 it is
    `LinearRegression` with a noise for each provider.

    The summary (n, products of (z, r)), r = y − z·mean, adds over rows. The statistic is a normal log-likelihood of β
    for each τ, and s², which is needed to recover ZᵀZ.

    Providers' coefficients differ by up to a tenth of the prior's standard deviation if ``differ`` is ``"little"``, and
    up to three tenths if it is ``"some"``.

    Examples
    --------
    >>> import troth
    >>> model = VaryingLinearRegression(mean=[0, 0], precision=[[1, 0], [0, 1]], noise=0.5)
    >>> own, peers = model.statistics(([[1, 2], [1, 3]], [5, 7])), model.statistics(([[1, 1], [1, 2]], [3, 5]))
    >>> round(float(troth.log_pmi(model, own, peers)), 3)
    2.858
    """

    noise: float = field(metadata=parameter("roughly how far answers scatter", positive, 1.0))
    differ: str = field(default="any", metadata=differ_parameter("up to three times the prior's standard deviation"))

    description: ClassVar[str] = "a number explained by others, from providers that differ"
    example: ClassVar[Example] = Example(
        "what a dose and age do to a response, clinic by clinic", ("dose", "age"), "clinic", target="response"
    )

    def from_summary(self, summary: Array, /) -> Array:
        """Map a summary to a normal log-likelihood of the coefficients for each spread."""
        s, d = np.asarray(summary, dtype=np.float64), len(self.mean)
        matrix = s[..., 1:].reshape(*s.shape[:-1], d + 1, d + 1)
        rank, fit = self._least_squares(matrix)
        variance = self._variance(s[..., 0], rank, matrix[..., d, d] - fit)
        precision, product = self._in_units_of_prior(matrix[..., :d, :d], matrix[..., :d, d], variance)
        return self._limited(self._with_variance(self._integrated(s[..., 0], precision, product), variance), s)

    def _least_squares(self, matrix: Array) -> tuple[Array, Array]:
        """Return the rank of ZᵀZ and the sum of squares that least squares explains, given products of (z, r)."""
        d = len(self.mean)
        values, vectors = np.linalg.eigh(matrix[..., :d, :d])
        resolved = values > 1e-12 * np.maximum(values[..., -1:], np.finfo(float).tiny)
        rotated = np.einsum("...ik,...i->...k", vectors, matrix[..., :d, d])
        fit = np.where(resolved, rotated**2 / np.where(resolved, values, 1.0), 0.0).sum(axis=-1)
        return resolved.sum(axis=-1), fit

    @staticmethod
    def _with_variance(statistics: Array, variance: Array) -> Array:
        return np.concatenate([statistics, np.where(statistics[..., :1] > 0, variance[..., None], 0.0)], axis=-1)

    def _recomputed(self, statistics: Array) -> tuple[Array, Mask]:
        recomputed, valid = super()._recomputed(statistics)
        rows, variance, zero = statistics[..., 0], statistics[..., -1], np.zeros(())
        min_variance = np.where(rows > 0, self._variance(rows, zero, zero), 0.0)
        return self._with_variance(recomputed, variance), valid & (variance >= min_variance * (1 - SLACK))

    def design(self, statistics: Array, /) -> Array:
        """Return the number of rows, the precision that they give the provider's coefficients, and s²."""
        t = np.asarray(statistics, dtype=np.float64)
        return np.concatenate([super().design(t), t[..., -1:]], axis=-1)

    def compared_design(self, statistics: Array, /) -> ComparedDesign:
        """Return ZᵀZ in units of the prior; s² is a part of the data, which differ from day to day."""
        t = np.asarray(statistics, dtype=np.float64)
        return ComparedDesign.from_products(self._without_spread(t)[0] * t[..., -1:, None])

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        answers = super().draw_statistics(rng, parameters, design)
        return self._with_variance(answers, np.broadcast_to(design[..., -1], answers.shape[:-1]))

    def _variance(self, rows: Array, rank: Array, squares: Array) -> Array:
        """Return s², the variance of a provider's answers, given their squared residuals."""
        freedom = BORROWED_ROWS + np.maximum(rows - rank, 0)
        squares = np.where(rows > rank, np.maximum(squares, 0.0), 0.0)
        return np.asarray((BORROWED_ROWS * self.noise**2 + squares) / freedom)

    def plan(self, rows: Any, /) -> Array:
        """Return the design of a report with these features, ``(rows, d)``, and the declared noise."""
        design = Regression.plan(self, rows)
        gram, count = self._gram(design), design[..., -1]
        variance = np.full(count.shape, self.noise**2)
        precision = self._in_units_of_prior(gram, np.zeros(gram.shape[:-1]), variance)[0]
        return np.concatenate([self._design(count, precision), np.where(count > 0, variance, 0.0)[..., None]], axis=-1)

    def draw_data(self, rng: Generator, parameters: Array, rows: Any, /) -> tuple[Array, Array]:
        """Draw (z, y), with features ``rows`` of shape (rows, d), or with ``rows`` rows of standard normal features."""
        z = draw_features(rng, rows, len(self.mean), parameters.shape[:-1])
        leading = z.shape[:-2]
        effect = parameters[..., -1:] * rng.standard_normal((*leading, len(self.mean))) @ self._prior_scale.T
        explained_noise, residual_noise = rng.standard_normal((2, *leading, z.shape[-2]))
        projection = z @ np.linalg.pinv(z)
        residuals = self.noise * (residual_noise - np.einsum("...ij,...j->...i", projection, residual_noise))
        variance = self._variance(np.asarray(z.shape[-2]), np.linalg.matrix_rank(z), (residuals**2).sum(axis=-1))
        signal = np.einsum("...ij,...j->...i", z, parameters[..., :-1] + effect)
        explained = np.sqrt(variance)[..., None] * np.einsum("...ij,...j->...i", projection, explained_noise)
        return z, np.asarray(signal + explained + residuals)

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:
        """As many peer rows as coefficients suffice, for features in general position.

        Proof. Given the report and peers' features Z, of full column rank, their answers are a mixture over τ of
        normals with means Zμ_τ and covariances ZV_τZᵀ, plus those of the effects, plus noise. V_τ and the effects'
        covariance increase in τ, so no two components are equal; finite mixtures of different normals are
        identifiable, and each component gives μ_τ and V_τ. With fewer rows some direction is never observed. ∎
        """
        return self._sensitivity(rows, peers, len(self.mean))

    def base_measure(self, summaries: Array, reduction: Reduction, /) -> Array:
        """Return the log-density of a report at β = mean and τ = 0."""
        s, d = reduction.convert(summaries, self.reduction), len(self.mean)
        n, matrix = s[..., 0], s[..., 1:].reshape(*s.shape[:-1], d + 1, d + 1)
        rank, fit = self._least_squares(matrix)
        squares = np.maximum(matrix[..., d, d] - fit, 0.0)
        variance, unit = self._variance(n, rank, squares), self.noise**2
        fit_part = -rank / 2 * np.log(2 * np.pi * variance) - fit / (2 * variance)
        return np.asarray(fit_part - np.maximum(n - rank, 0) / 2 * np.log(2 * np.pi * unit) - squares / (2 * unit))

    initial_parameters = LinearRegression.initial_parameters


@dataclass(frozen=True)
class VaryingExpandedRegression(ExpandedRegression, VaryingCoefficients):
    """A provider's coefficients are βᵢ ~ N(β, τ²·D·precision⁻¹·D), β ~ N(mean, precision⁻¹), and τ is unknown.

    D is diagonal, with entries ``relative_spread``, by default 1: providers may differ more in intercepts than in
    slopes. A provider's log-likelihood, expanded at the public point, is integrated over βᵢ for each τ.
    """

    differ: str = field(
        default="any", kw_only=True, metadata=differ_parameter("up to three times the prior's standard deviation")
    )

    relative_spread: Vector | None = field(
        default=None,
        kw_only=True,
        metadata=parameter(
            "how much providers differ in each coefficient compared with the others: 0.1 is a tenth as much as 1, in "
            "standard deviations of the prior; if empty, equally in all",
            Numbers(above_zero=True, length_of="mean"),
        ),
    )

    min_spread: ClassVar[float] = 0.1
    spread_of_slopes: ClassVar[float] = 0.1
    """The spread of slopes relative to that of intercepts, in a first guess."""

    @classmethod
    def first_guess_of(cls, columns: Sequence[Column], target: Column, /) -> FirstGuess:
        """Guess as if providers did not differ; for labels, intercepts may differ more than slopes."""
        guess = super().first_guess_of(columns, target)
        size, classes = len(guess.parameters["mean"]), int(guess.parameters.get("classes", 1))
        if size == classes or cls.spread_of_slopes == 1:
            return guess
        spreads = [1.0, *[cls.spread_of_slopes] * (size // classes - 1)]
        return replace(guess, parameters={**guess.parameters, "relative_spread": spreads * classes})

    @cached_property
    def _scale_of_effects(self) -> Array | None:
        """L⁻¹DL, where LLᵀ is the prior's covariance and D the diagonal matrix of relative spreads."""
        if self.relative_spread is None:
            return None
        return np.asarray(self._prior_root.T @ (np.array(self.relative_spread)[:, None] * self._prior_scale))

    def from_summary(self, summary: Array, /) -> Array:
        """Map a summary to a normal log-likelihood of the coefficients for each spread."""
        s = np.asarray(summary, dtype=np.float64)
        return self._integrated(s[..., 0], *self._in_units_of_prior(*self._expanded(s)))

    _pooled = VaryingCoefficients._without_spread

    def draw_own_coefficients(self, rng: Generator, parameters: Array, /) -> Array:
        """Draw a provider's coefficients around the common ones."""
        effect = self._draw_effects(rng, (*parameters.shape[:-1], len(self.mean))) @ self._prior_scale.T
        return np.asarray(parameters[..., :-1] + parameters[..., -1:] * effect)

    def from_slope(self, slope: Array, design: Array, /) -> Array:
        """Return the statistics of answers with this slope at the public point, given a design."""
        precision, product = self._precision_and_product(slope, design)
        return self._integrated(np.broadcast_to(design[..., 0], product.shape[:-1]), precision, product)

    def answers_of_slope(self, slope: Array, design: Array, /) -> Array:
        """Return c and h for each spread, of answers with this slope at the public point."""
        return self._answers(*self._precision_and_product(slope, design))

    def _precision_and_product(self, slope: Array, design: Array) -> tuple[Array, Array]:
        """Return H and g in units of the prior."""
        size = len(self.mean)
        precision = design[..., 1:].reshape(*design.shape[:-1], size, size)
        return precision, slope @ self._prior_scale + precision @ (self._point_from_mean @ self._prior_root)


@dataclass(frozen=True)
class VaryingLogisticRegression(YesNoAnswers, VaryingExpandedRegression):
    """Labels 0 and 1, P(y = 1) = 1/(1 + e^(−z·βᵢ)), of providers whose coefficients βᵢ differ.

    See `LogisticRegression` for the public point, and `VaryingLinearRegression` for how coefficients differ.

    Examples
    --------
    >>> import troth
    >>> model = VaryingLogisticRegression(mean=[0, 0], precision=1)
    >>> own, peers = model.statistics(([[1, 2], [1, -2]], [1, 0])), model.statistics(([[1, 1], [1, -1]], [1, 0]))
    >>> round(float(troth.log_pmi(model, own, peers)), 3)
    0.431
    """

    description: ClassVar[str] = "yes or no, explained by numbers, from providers that differ"
    example: ClassVar[Example] = Example(
        "who is readmitted, hospital by hospital", ("age", "stay"), "hospital", target="readmitted"
    )


@dataclass(frozen=True)
class VaryingSoftmaxRegression(LabelAnswers, VaryingExpandedRegression):
    """Labels 0 … classes−1, P(y = c) ∝ e^(z·βᵢ_c), of providers whose coefficients βᵢ differ.

    See `SoftmaxRegression`, and `VaryingLinearRegression` for how coefficients differ.
    """

    mean: Vector = field(
        metadata=parameter("prior mean of the coefficients, class by class", vector, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    )
    classes: int = field(metadata=parameter("number of labels", Integer(2), 3))

    description: ClassVar[str] = "one of several labels, explained by numbers, from providers that differ"
    example: ClassVar[Example] = Example("which crop grows, farm by farm", ("rain", "height"), "farm", target="crop")


@dataclass(frozen=True)
class VaryingPoissonRegression(CountedAnswers, VaryingExpandedRegression):
    """Counts with mean e^(z·βᵢ), of providers whose coefficients βᵢ differ.

    See `PoissonRegression`, and `VaryingLinearRegression` for how coefficients differ. Priors of counts are narrow, so
    the smallest spread of providers is a smaller part of the prior than with labels.
    """

    min_spread: ClassVar[float] = 0.01
    spread_of_slopes: ClassVar[float] = 1.0

    precision: Matrix | Vector | float = field(
        metadata=parameter("prior precision of the coefficients: a number, a diagonal or a matrix", Precision(), 25.0)
    )

    description: ClassVar[str] = "a count explained by numbers, from providers that differ"
    example: ClassVar[Example] = Example(
        "how many calls come, station by station", ("hour", "rain"), "station", target="calls"
    )
