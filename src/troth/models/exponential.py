"""Waiting times: exponential, and gamma with a known shape, with a Gamma prior on the rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from troth.core.contract import Array, Generator
from troth.core.reductions import Reduction
from troth.core.support import Support
from troth.models.family import Example, scalar_parameters
from troth.models.fitting.initial_parameters import FreeParameters, Positive, day_moments, gamma_moments
from troth.models.numerics.predictive import log_gamma_excess
from troth.models.numerics.second_difference import gamma_log_pmi
from troth.models.parameters import parameter, positive
from troth.models.shared.conjugate import GammaPrior
from troth.models.shared.count_and_sum import CountAndSum


@dataclass(frozen=True)
class Gamma(GammaPrior, CountAndSum):
    """Positive values that are Gamma(known_shape, θ) with rate θ ~ Gamma(shape, rate).

    Statistic: (n, Σx). Λ(t) = lnΓ(a + k·n) − (a + k·n) ln(b + Σx).

    Examples
    --------
    >>> Gamma(known_shape=2, shape=3, rate=1).statistics([0.5, 1.5])
    array([2., 2.])
    """

    known_shape: float = field(metadata=parameter("shape of one value", positive, 2.0, known=True))
    shape: float = field(metadata=parameter("prior shape of the rate", positive, 3.0))
    rate: float = field(metadata=parameter("prior rate of the rate: a pseudo-sum of values", positive, 8.0))

    description: ClassVar[str] = "positive numbers of a known shape"
    example: ClassVar[Example] = Example("millimetres of rain on a wet day", ("rain",), "station")
    theta: ClassVar[tuple[str, ...]] = ("rate of {column}",)

    support = Support(0, open=True)

    def _posterior_parameters(self, statistics: Array) -> dict[str, Array]:
        """Gamma(a + k·n, b + Σx)."""
        shape = self.shape + self.known_shape * statistics[..., 0]
        return {"shape": shape, "rate": self.rate + statistics[..., 1]}

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        k = self.known_shape
        return gamma_log_pmi(np.array([self.shape / k, self.rate]), own, peers, both, shape_per_row=k)

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of positive values for each rate."""
        values = rng.standard_gamma(self.known_shape, size=(*parameters.shape[:-1], rows)) / parameters
        return np.maximum(values, np.finfo(float).tiny)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw (n, Σx): the sum of n values is Gamma(k·n, θ)."""
        rate, rows = scalar_parameters(parameters, design)
        return np.stack([rows, rng.standard_gamma(self.known_shape * rows) / rate], axis=-1)

    def expected_log_evidence(self, design: Array, /) -> Array | None:
        """S(a + k·n): b / (b + Σx) is Beta(a, k·n), so E ln(b + Σx) = ln b + ψ(a + k·n) − ψ(a)."""
        return log_gamma_excess(self.shape + self.known_shape * design[..., 0])

    one_row_suffices: ClassVar[str] = "the predictive density determines the posterior"
    """Proof. With posterior (A, B) the predictive density is x^{k−1}(B + x)^{−(A+k)} up to a constant; its logarithm,
    less the known (k − 1) ln x, has derivative −(A + k)/(B + x), whose values at two points give A and B. ∎
    """

    @property
    def score_measure(self) -> str | None:
        """The powers of the values, which no summary holds, unless their exponent k − 1 is 0."""
        return "nothing" if self.known_shape == 1 else f"(k − 1) ln x with k = {self.known_shape:g}"

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, fixed: Mapping[str, Any], /) -> FreeParameters:
        k = float(fixed.get("known_shape", 1.0))
        days = day_moments(cls.__name__, summaries, reduction)
        shape, rate = gamma_moments(k / np.maximum(days.means[:, 0], 1e-300))
        return {"shape": Positive(shape), "rate": Positive(rate)}

    given_parameters: ClassVar[tuple[str, ...]] = ("known_shape",)


@dataclass(frozen=True)
class Exponential(Gamma):
    """Waiting times with rate θ ~ Gamma(shape, rate).

    Statistic: (n, Σx). Λ(t) = lnΓ(a + n) − (a + n) ln(b + Σx): the gamma with a known shape of 1.

    Examples
    --------
    >>> Exponential(shape=2, rate=1).statistics([0.5, 1.5])
    array([2., 2.])
    """

    known_shape: float = field(default=1.0, init=False, repr=False)
    shape: float = field(metadata=parameter("pseudo-count of events", positive, 3.0))
    rate: float = field(metadata=parameter("pseudo-sum of waiting times", positive, 6.0))

    description: ClassVar[str] = "waiting times"
    example: ClassVar[Example] = Example("minutes between two calls", ("minutes",), "desk")

    support = Support(0)  # rounding may turn a short wait into 0

    given_parameters: ClassVar[tuple[str, ...]] = ()
