"""Linear regression, with known and with unknown noise.

Features need no model: they may even be correlated across providers, as long as they are independent of θ
(the paper's Example on p(θ|(z, y))). Statistics use deviations from the prior's prediction, r = y − z·mean, which is y
itself for a prior mean of zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import gammaln

from troth.core.contract import Array, Generator
from troth.core.reductions import Reduction
from troth.core.sensitivity import Peers, Sensitivity
from troth.models.family import Example
from troth.models.fitting.initial_parameters import FreeParameters, Positive, PositiveDefinite, Real, regression_moments
from troth.models.normal import draw_variance, unknown_variance_log_pmi
from troth.models.numerics.predictive import log_gamma_excess
from troth.models.parameters import parameter, positive
from troth.models.shared.reference_noise import ReferenceNoise
from troth.models.shared.regression import ABOVE_ANY_FIT, Posterior, Regression


@dataclass(frozen=True)
class KnownNoiseRegression(Regression):
    """Θ ~ N(mean, precision⁻¹), and Λ(t) = ½ hᵀΛ⁻¹h − ½ ln det Λ with Λ = precision + G/unit², h = g/unit²."""

    @property
    def _unit(self) -> float:
        """The noise that defines the unit of rows."""
        return 1.0

    def log_evidence(self, statistics: Array, /) -> Array:
        """½ hᵀΛ⁻¹h − ½ ln det Λ."""
        t, unit = np.asarray(statistics, dtype=np.float64), self._unit**2
        posterior = self._posterior(t, unit, self._product(t), ABOVE_ANY_FIT)
        log_determinant = posterior.log_determinant - len(self.mean) * np.log(unit)
        return np.asarray(0.5 * (posterior.whitened**2).sum(axis=-1) / unit - 0.5 * log_determinant)

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI from quadratic forms that do not cancel, with at most three factorisations."""

        def kernel(own: Array, peers: Array, both: Array) -> Array:
            W, determinant, *_ = self._information(own, peers, both, self._unit**2, None)
            return np.asarray(0.5 * determinant - W)

        return self._in_chunks(kernel, own, peers, both)

    def line_log_pmi(self, own: Array, line: Array, /) -> Array:
        """Log PMI with many peers that have the same features."""
        return self.answer_scorer(own, line[0])(self._product(line))

    def answer_scorer(self, own: Array, peers: Array, /) -> Callable[[Array], Array]:
        """Return log PMI with peers that have the same features as a function of their h."""
        unit = self._unit**2

        def evidence(_: Array, quadratic: Array, log_determinant: Array) -> Array:
            return np.asarray(0.5 * (quadratic / unit - log_determinant))

        return lambda line: self._in_line(own, peers, line, np.zeros(2), unit, evidence)

    def posterior(self, statistics: Array, /) -> Self:
        """N(mean + Λ⁻¹h, Λ⁻¹)."""
        return self._replace(**self._prior_given(np.asarray(statistics, dtype=np.float64) / self._unit**2))

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw coefficients from the prior, shape ``(*shape, d)``."""
        noise = rng.standard_normal((*shape, len(self.mean)))
        return np.array(self.mean) + noise @ np.linalg.inv(self._prior_root)

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw coefficients given statistics."""
        t = np.asarray(statistics, dtype=np.float64) / self._unit**2
        return self._draw_coefficients(rng, t, np.ones(t.shape[:-1]))


@dataclass(frozen=True)
class LinearRegression(ReferenceNoise, KnownNoiseRegression):
    """Answers y = z·θ + ε with known noise, θ ~ N(mean, precision⁻¹) and ε ~ N(0, noise²).

    Statistic: (ZᵀZ by rows, Zᵀr, rᵀr, n) with r = y − z·mean. Λ(t) = ½ hᵀΛ⁻¹h − ½ ln det Λ with
    Λ = precision + ZᵀZ/noise² and h = Zᵀr/noise². `troth.combine` sets ``reference`` as for `Normal`.

    Examples
    --------
    >>> model = LinearRegression(mean=[0, 0], precision=[[1, 0], [0, 1]], noise=0.5)
    >>> model.statistics(([[1, 2], [1, 3]], [5, 7]))
    array([ 2.,  5.,  5., 13., 12., 31., 74.,  2.])
    """

    noise: float = field(metadata=parameter("standard deviation of one answer", positive, 1.0, known=True))
    reference: float | None = field(
        default=None, metadata=parameter("noise that defines the unit of rows", positive, hidden=True)
    )

    description: ClassVar[str] = "a number explained by others, known noise"
    example: ClassVar[Example] = Example(
        "what a dose and age do to a response", ("dose", "age"), "clinic", target="response"
    )

    def design(self, statistics: Array, /) -> Array:
        """Gram matrix of the features and number of rows, without their weight."""
        design = super().design(statistics)
        if self._weight == 1:
            return design
        return np.concatenate([design[..., :-1] / self._weight, design[..., -1:]], axis=-1)

    def draw_data(self, rng: Generator, parameters: Array, rows: Any, /) -> tuple[Array, Array]:
        """Draw (z, y), with features ``rows`` of shape (rows, d), or with ``rows`` rows of standard normal features."""
        return self._draw_answers(rng, parameters, self.noise, rows)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw statistics for the same features, given only their Gram matrix."""
        statistics = self._draw_from_design(rng, parameters, self.noise**2, design)
        return statistics if self._weight == 1 else self._weight * statistics

    def expected_log_evidence(self, design: Array, /) -> Array | None:
        """−½ ln det(P + ZᵀZ/noise²): the quadratic form's expectation, ½ tr(P⁻¹ZᵀZ)/noise², is linear in the design."""
        added = self._gram(design) / self.noise**2
        return np.asarray(-0.5 * np.linalg.slogdet(self._prior_precision + added)[1])

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:
        """As many peer rows as coefficients suffice, for features in general position.

        Proof. Given peers' features Z the answers are normal with mean Zμ and covariance ZΣZᵀ + σ²: if Z has full
        column rank this determines μ and Σ. With fewer than d rows some direction of the coefficients is never
        observed: reports that differ only in that direction collide. ∎
        """
        return self._sensitivity(rows, peers, len(self.mean))

    def base_measure(self, summaries: Array, reduction: Reduction, /) -> Array:
        """Return −½ ln(2πσ²) − r²/2σ² for each row."""
        s, unit = reduction.convert(summaries, self.reduction), self.noise**2
        return np.asarray(-s[..., 0] / 2 * np.log(2 * np.pi * unit) - s[..., -1] / (2 * unit))

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, _: Mapping[str, Any], /) -> FreeParameters:
        start = regression_moments(summaries, reduction)
        return {
            "mean": Real(start.mean, start.scale),
            "precision": PositiveDefinite(1 / start.scale),
            "noise": Positive(start.noise),
        }


@dataclass(frozen=True)
class LinearRegressionUnknownNoise(Regression):
    """Answers y = z·θ + ε with unknown noise: σ² ~ InvGamma(shape, scale), θ | σ² ~ N(mean, σ²·precision⁻¹).

    Statistic: (ZᵀZ by rows, Zᵀr, rᵀr, n) with r = y − z·mean. Λ(t) = lnΓ(A) − A ln B − ½ ln det(P + ZᵀZ) with
    A = shape + n/2 and B = scale + ½(rᵀr − (Zᵀr)ᵀ(P + ZᵀZ)⁻¹Zᵀr).

    Examples
    --------
    >>> model = LinearRegressionUnknownNoise(mean=[0], precision=[[1]], shape=2, scale=1)
    >>> model.statistics(([[1], [2]], [2, 3]))
    array([ 5.,  8., 13.,  2.])
    """

    shape: float = field(metadata=parameter("prior shape of the noise variance", positive, 3.0))
    scale: float = field(metadata=parameter("prior scale of the noise variance", positive, 2.0))

    description: ClassVar[str] = "a number explained by others, unknown noise"
    example: ClassVar[Example] = Example(
        "the effect of dose and age on a response with unknown noise",
        ("dose", "age"),
        "clinic",
        target="response",
    )

    @classmethod
    def _guess_noise(cls, noise: float) -> dict[str, Any]:
        return {"shape": 3.0, "scale": float(f"{2 * noise**2:.3g}")}

    def parameter_names(self, columns: Sequence[str | None], labels: Sequence[str] | None = None, /) -> list[str]:
        """Name the coefficients and the noise."""
        return [*super().parameter_names(columns, labels), "variance of the noise"]

    def _fit(self, t: Array) -> tuple[Posterior, Array, Array]:
        """Return the factored posterior, and the posterior shape A and rate B of the noise variance."""
        posterior = self._posterior(t, 1.0, self._product(t), 2 * self.scale + t[..., -2])
        return posterior, self.shape + t[..., -1] / 2, posterior.residual / 2

    def log_evidence(self, statistics: Array, /) -> Array:
        """lnΓ(A) − A ln B − ½ ln det(P + ZᵀZ)."""
        posterior, A, B = self._fit(np.asarray(statistics, dtype=np.float64))
        return np.asarray(gammaln(A) - A * np.log(B) - 0.5 * posterior.log_determinant)

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI in a form that stays accurate for any number of rows."""

        def kernel(own: Array, peers: Array, both: Array) -> Array:
            W, determinant, own_rate, peers_rate = self._information(own, peers, both, 1.0, self.scale)
            prior = np.array([self.shape]), np.array([self.scale])
            A1, A2, AT = (self.shape + t[:, -1] / 2 for t in (own, peers, both))
            return unknown_variance_log_pmi(W, determinant, prior, (A1, own_rate), (A2, peers_rate), AT)

        return self._in_chunks(kernel, own, peers, both)

    def posterior(self, statistics: Array, /) -> LinearRegressionUnknownNoise:
        """Normal-inverse-gamma with P + ZᵀZ, A and B."""
        t = np.asarray(statistics, dtype=np.float64)
        _, shape, scale = self._fit(t)
        return self._replace(**self._prior_given(t), shape=shape, scale=scale)

    def line_log_pmi(self, own: Array, line: Array, /) -> Array:
        """Log PMI with many peers that have the same features."""

        def evidence(t: Array, quadratic: Array, log_determinant: Array) -> Array:
            A, B = self.shape + t[..., 1] / 2, self.scale + np.maximum(t[..., 0] - quadratic, 0.0) / 2
            return np.asarray(gammaln(A) - A * np.log(B) - 0.5 * log_determinant)

        return self._in_line(own, line[0], self._product(line), line[..., -2:], 1.0, evidence)

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw (coefficients, noise variance) from the prior, shape ``(*shape, d + 1)``."""
        variance = draw_variance(rng, np.full((*shape, 1), self.shape), np.asarray(self.scale))
        noise = rng.standard_normal((*shape, len(self.mean))) @ np.linalg.inv(self._prior_root)
        return np.concatenate([np.array(self.mean) + np.sqrt(variance) * noise, variance], axis=-1)

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw (coefficients, noise variance) given statistics."""
        t = np.asarray(statistics, dtype=np.float64)
        variance = draw_variance(rng, *self._fit(t)[1:])
        return np.concatenate([self._draw_coefficients(rng, t, variance), variance[..., None]], axis=-1)

    def draw_data(self, rng: Generator, parameters: Array, rows: Any, /) -> tuple[Array, Array]:
        """Draw (z, y), with features ``rows`` of shape (rows, d), or with ``rows`` rows of standard normal features."""
        return self._draw_answers(rng, parameters[..., :-1], np.sqrt(parameters[..., -1:]), rows)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw statistics for the same features, given only their Gram matrix."""
        return self._draw_from_design(rng, parameters[..., :-1], parameters[..., -1], design)

    def expected_log_evidence(self, design: Array, /) -> Array | None:
        """S(A) − ½ ln det(P + ZᵀZ): scale/B is Beta(shape, n/2), whatever the features."""
        log_determinant = np.linalg.slogdet(self._prior_precision + self._gram(design))[1]
        return np.asarray(log_gamma_excess(self.shape + design[..., -1] / 2) - 0.5 * log_determinant)

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:
        """One more peer row than coefficients suffices, for features in general position.

        Proof. Given peers' features Z the answers are multivariate t: degrees of freedom give n, and the scale s(1 +
        ZΛ⁻¹Zᵀ) gives s on the orthogonal complement of Z, which exists from d + 1 rows on, then Λ and, as with known
        noise, the mean. With fewer than d rows some direction of the coefficients is never observed: reports that
        differ only in that direction collide. ∎
        """
        return self._sensitivity(rows, peers, len(self.mean) + 1)

    def base_measure(self, summaries: Array, _: Reduction, /) -> Array:
        """Return −½ ln 2π for each row."""
        return np.asarray(-summaries[..., 0] / 2 * np.log(2 * np.pi))

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, _: Mapping[str, Any], /) -> FreeParameters:
        start = regression_moments(summaries, reduction)
        return {
            "mean": Real(start.mean, start.scale),
            "precision": PositiveDefinite(start.noise / start.scale),
            "shape": Positive(3.0),
            "scale": Positive(2 * start.noise**2),
        }
