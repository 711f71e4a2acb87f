"""Features and a label or a count, from providers whose coefficients differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from troth.core.contract import Array, Generator
from troth.models.answered_rows import OfCounts, OfLabels, OfYesNo
from troth.models.family import Example, Matrix, Vector
from troth.models.first_guess import Column, FirstGuess
from troth.models.generalised_regression import ExpandedRegression
from troth.models.parameters import Numbers, Precision, Whole, parameter, vector
from troth.models.spread import how_far
from troth.models.varying_regression import VaryingCoefficients


@dataclass(frozen=True)
class VaryingExpandedRegression(ExpandedRegression, VaryingCoefficients):
    """A provider's coefficients are βᵢ ~ N(β, τ²·D·precision⁻¹·D), β ~ N(mean, precision⁻¹), and τ is unknown.

    D is diagonal, with ``relative_spread``, or 1: intercepts of providers may differ more than slopes do. A provider's
    log-likelihood, expanded at the public point, is integrated over βᵢ for each τ.
    """

    differ: str = field(
        default="any", kw_only=True, metadata=how_far("up to three times the prior's standard deviation")
    )

    relative_spread: Vector | None = field(
        default=None,
        kw_only=True,
        metadata=parameter(
            "how far providers differ in each coefficient compared with the others: 0.1 is a tenth as far as 1, in "
            "standard deviations of the prior; if empty, equally far in all",
            Numbers(above_zero=True, beside="mean"),
        ),
    )

    smallest_spread: ClassVar[float] = 0.1
    spread_of_slopes: ClassVar[float] = 0.1
    """How far slopes differ beside intercepts, in a first guess."""

    @classmethod
    def first_guess_of(cls, columns: Sequence[Column], target: Column, /) -> FirstGuess:
        """Guess as for providers that are alike, and for labels that they differ in the intercept above all."""
        guess = super().first_guess_of(columns, target)
        size, classes = len(guess.parameters["mean"]), int(guess.parameters.get("classes", 1))
        if size == classes or cls.spread_of_slopes == 1:
            return guess
        one = [1.0, *[cls.spread_of_slopes] * (size // classes - 1)]
        return replace(guess, parameters={**guess.parameters, "relative_spread": one * classes})

    @cached_property
    def _scale_of_effects(self) -> Array | None:
        """L⁻¹DL, where LLᵀ is the prior's covariance and D has the relative spreads."""
        if self.relative_spread is None:
            return None
        return np.asarray(self._prior_root.T @ (np.array(self.relative_spread)[:, None] * self._prior_scale))

    def from_summary(self, summary: Array, /) -> Array:
        """Map sums over a provider's rows to a normal log-likelihood of the coefficients for each spread."""
        s = np.asarray(summary, dtype=np.float64)
        return self._integrated(s[..., 0], *self._in_units_of_prior(*self._expanded(s)))

    def _pooled(self, statistics: Array) -> tuple[Array, Array]:
        return self._without_spread(statistics)

    def draw_own_coefficients(self, rng: Generator, parameters: Array, /) -> Array:
        """Draw a provider's coefficients around the common ones."""
        effect = self._draw_effects(rng, (*parameters.shape[:-1], len(self.mean))) @ self._prior_scale.T
        return np.asarray(parameters[..., :-1] + parameters[..., -1:] * effect)

    def from_slope(self, slope: Array, design: Array, /) -> Array:
        """Return the statistics of answers with this slope at the public point, and the precision of a design."""
        precision, product = self._moved(slope, design)
        return self._integrated(np.broadcast_to(design[..., 0], product.shape[:-1]), precision, product)

    def answers_of_slope(self, slope: Array, design: Array, /) -> Array:
        """Return c and h of answers with this slope at the public point, for each spread."""
        return self._answers(*self._moved(slope, design))

    def _moved(self, slope: Array, design: Array) -> tuple[Array, Array]:
        """Return H and g in units of the prior."""
        size = len(self.mean)
        precision = design[..., 1:].reshape(*design.shape[:-1], size, size)
        return precision, slope @ self._prior_scale + precision @ (self._away @ self._prior_root)


@dataclass(frozen=True)
class VaryingLogisticRegression(OfYesNo, VaryingExpandedRegression):
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

    description: ClassVar[str] = "a yes or no explained by numbers, from providers that differ"
    example: ClassVar[Example] = Example(
        "who is readmitted, hospital by hospital", ("age", "stay"), "hospital", target="readmitted"
    )


@dataclass(frozen=True)
class VaryingSoftmaxRegression(OfLabels, VaryingExpandedRegression):
    """Labels 0 … classes−1, P(y = c) ∝ e^(z·βᵢ_c), of providers whose coefficients βᵢ differ.

    See `SoftmaxRegression`, and `VaryingLinearRegression` for how coefficients differ.
    """

    mean: Vector = field(
        metadata=parameter("prior mean of the coefficients, class by class", vector, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    )
    classes: int = field(metadata=parameter("how many labels there are", Whole(2), 3))

    description: ClassVar[str] = "a label of several explained by numbers, from providers that differ"
    example: ClassVar[Example] = Example("which crop grows, farm by farm", ("rain", "height"), "farm", target="crop")


@dataclass(frozen=True)
class VaryingPoissonRegression(OfCounts, VaryingExpandedRegression):
    """Counts with mean e^(z·βᵢ), of providers whose coefficients βᵢ differ.

    See `PoissonRegression`, and `VaryingLinearRegression` for how coefficients differ. As priors of counts are narrow,
    providers may differ by less of them than with labels.
    """

    smallest_spread: ClassVar[float] = 0.01
    spread_of_slopes: ClassVar[float] = 1.0

    precision: Matrix | Vector | float = field(
        metadata=parameter("prior precision of the coefficients: a number, a diagonal or a matrix", Precision(), 25.0)
    )

    description: ClassVar[str] = "a count explained by numbers, from providers that differ"
    example: ClassVar[Example] = Example(
        "how many calls come, station by station", ("hour", "rain"), "station", target="calls"
    )
