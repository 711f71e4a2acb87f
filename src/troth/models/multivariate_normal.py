"""Vectors of measurements: a multivariate normal, with known or unknown covariance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import multigammaln, psi

from troth.core.contract import Array, Generator, Mask, Model
from troth.core.errors import DataError, ParameterError
from troth.core.reductions import Moments, Reduction
from troth.models.family import Example, Family, Matrix, ReducesRows, Vector
from troth.models.first_guess import Column, FirstGuess
from troth.models.fitting.initial_parameters import FreeParameters, Positive, PositiveDefinite, Real, day_moments
from troth.models.normal import Normal, normal_log_pmi
from troth.models.numerics.possible_statistics import are_products
from troth.models.numerics.predictive import log_gamma_excess
from troth.models.numerics.second_difference import minus_product
from troth.models.parameters import number, parameter, positive, positive_definite, vector
from troth.models.shared.conjugate import Conjugate
from troth.models.shared.reference_noise import ReferenceNoise

_MIN_ROOT = 1e-5  # of a drawn precision: with a larger covariance, doubles cannot hold sums of products


@dataclass(frozen=True)
class NormalVectors(ReducesRows):
    """Rows that are normal vectors. Statistic: (n, Σ(x − mean), Σ(x − mean)(x − mean)ᵀ by rows)."""

    mean: Vector = field(metadata=parameter("prior mean", vector, [50.0, 8.0]))

    row_axes: ClassVar[int] = 1

    def parameter_names(self, columns: Sequence[str | None], _: Sequence[str] | None = None, /) -> list[str]:
        """Name the mean of each column."""
        return [f"mean of {column}" for column in columns]

    @property
    def reduction(self) -> Moments:
        """The number of rows, the sums of deviations from the prior mean and their products."""
        return Moments(tuple(self.mean), squares=True)

    possible_statistics: ClassVar[str] = (
        "the matrix of n, sums and products has no negative eigenvalue, and no higher rank than there are rows"
    )

    def possible(self, statistics: Array, /) -> Mask:
        """Return where n, sums and products are those of rows (1, x − mean)."""
        t = np.asarray(statistics, dtype=np.float64)
        return are_products(self.reduction.matrix(t), self.rows(t))

    def _split(self, parameters: Array) -> tuple[Array, Array]:
        """Return the mean of the rows, and a square root of their covariance."""
        raise NotImplementedError

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of vectors for each θ."""
        mean, root = self._split(parameters)
        noise = rng.standard_normal((*mean.shape[:-1], rows, mean.shape[-1]))
        return mean[..., None, :] + noise @ np.swapaxes(root, -1, -2)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw counts, sums and outer products for each θ and number of rows."""
        mean, root = self._split(parameters)
        return _draw_moments(rng, mean - np.array(self.mean), root, design[..., 0])


@dataclass(frozen=True)
class MultivariateNormal(ReferenceNoise, NormalVectors):
    """Vectors with unknown mean θ ~ N(mean, covariance) and known noise covariance: x ~ N(θ, noise).

    Statistic: (n, Σ(x − mean), Σ(x − mean)(x − mean)ᵀ by rows); the evidence does not depend on the last part. In
    coordinates that make both covariances diagonal the model is d independent `Normal` models, and its log evidence and
    log PMI are the sums of theirs. `troth.combine` sets ``reference``, a multiple of ``noise``, as for `Normal`.

    Examples
    --------
    >>> model = MultivariateNormal(mean=[0, 0], covariance=[[1, 0], [0, 1]], noise=[[2, 1], [1, 2]])
    >>> model.statistics([[1, 2], [3, 4]])
    array([ 2.,  4.,  6., 10., 14., 14., 20.])
    """

    covariance: Matrix = field(
        metadata=parameter("prior covariance of the mean", positive_definite, [[25.0, 3.0], [3.0, 4.0]])
    )
    noise: Matrix = field(
        metadata=parameter("covariance of a row", positive_definite, [[9.0, 1.0], [1.0, 1.0]], known=True)
    )
    reference: Matrix | None = field(
        default=None, metadata=parameter("noise that defines the unit of rows", positive_definite, hidden=True)
    )

    description: ClassVar[str] = "several numbers, known noise"
    example: ClassVar[Example] = Example("height and weight of a species", ("height", "weight"), "station")

    @classmethod
    def first_guess_of_vectors(cls, columns: Sequence[Column], /) -> FirstGuess:
        """Guess each column as `Normal` does, as if columns varied independently."""
        guesses = [Normal.first_guess(column).parameters for column in columns]
        covariance, noise = (
            np.diag([float(f"{guess[name] ** 2:.6g}") for guess in guesses]).tolist() for name in ("scale", "noise")
        )
        mean = [guess["mean"] for guess in guesses]
        return FirstGuess({"mean": mean, "covariance": covariance, "noise": noise}, from_data=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _is_multiple(self.noise, self._unit):
            raise ParameterError("MultivariateNormal: reference must be a multiple of noise", parameter="reference")

    @cached_property
    def _weight(self) -> float:
        """The weight of one row, in rows of the reference noise."""
        return float(1 / (self.noise[0][0] / self._unit[0][0]))

    @cached_property
    def _coordinates(self) -> tuple[Array, Array]:
        """T and p with T·noise·Tᵀ = 1 and T·covariance·Tᵀ = diag(1/p)."""
        root = np.linalg.inv(np.linalg.cholesky(np.array(self._unit)))
        variances, vectors = np.linalg.eigh(root @ np.array(self.covariance) @ root.T)
        return vectors.T @ root, 1 / variances

    def _by_coordinate(self, statistics: Array) -> tuple[Array, Array]:
        """Return precision and precision-weighted deviation of the data, in each independent coordinate."""
        d = len(self.mean)
        transform, _ = self._coordinates
        shift = np.einsum("ij,...j->...i", transform, np.asarray(statistics)[..., 1 : d + 1])
        return np.broadcast_to(statistics[..., :1], shift.shape), shift

    def log_evidence(self, statistics: Array, /) -> Array:
        """Σ h²/2λ − ½ ln λ over independent coordinates."""
        added, shift = self._by_coordinate(np.asarray(statistics))
        precision = self._coordinates[1] + added
        return np.asarray((shift**2 / (2 * precision) - 0.5 * np.log(precision)).sum(axis=-1))

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Sum of the log PMI of independent normal means, with residuals taken before any change of coordinates."""
        d, (transform, prior) = len(self.mean), self._coordinates
        total = own + peers if both is None else both
        added, shift = self._by_coordinate(total)
        mean = np.einsum("ij,...j->...i", np.linalg.inv(transform), shift / (prior + added))
        anchor = np.einsum("ij,...j->...i", transform, mean)
        r1, r2 = (minus_product(t[..., 1 : d + 1], mean, t[..., :1]) for t in (own, peers))
        r1, r2 = (np.einsum("ij,...j->...i", transform, r) - prior * anchor for r in (r1, r2))
        rows = own[..., :1], peers[..., :1], total[..., :1]
        return np.asarray(normal_log_pmi(prior, rows, anchor, (r1, r2), 1.0).sum(axis=-1))

    def in_space_of(self, reference: Model, /) -> Model:
        """Return this model with rows counted in units of the reference's noise, if that is a multiple of its own."""
        if isinstance(reference, MultivariateNormal) and not _is_multiple(self.noise, reference._unit):
            return Family.in_space_of(self, reference)
        return super().in_space_of(reference)

    def posterior(self, statistics: Array, /) -> MultivariateNormal:
        """N(mean + h/λ, 1/λ) in each independent coordinate."""
        transform, prior = self._coordinates
        added, shift = self._by_coordinate(np.asarray(statistics, dtype=np.float64))
        back, precision = np.linalg.inv(transform), prior + added
        covariance = (back / precision) @ back.T
        return self._replace(mean=np.array(self.mean) + back @ (shift / precision), covariance=covariance)

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw means from the prior, shape ``(*shape, d)``."""
        root = np.linalg.cholesky(np.array(self.covariance))
        return np.array(self.mean) + rng.standard_normal((*shape, len(self.mean))) @ root.T

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw a mean given statistics."""
        transform, prior = self._coordinates
        added, shift = self._by_coordinate(np.asarray(statistics, dtype=np.float64))
        precision = prior + added
        draws = shift / precision + rng.standard_normal(shift.shape) / np.sqrt(precision)
        return np.asarray(np.array(self.mean) + np.einsum("ij,...j->...i", np.linalg.inv(transform), draws))

    def _split(self, parameters: Array) -> tuple[Array, Array]:
        return parameters, np.linalg.cholesky(np.array(self.noise))

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        return self._weight * super().draw_statistics(rng, parameters, design)

    def expected_log_evidence(self, design: Array, /) -> Array | None:
        """−½ ln(λ/λ₀), summed over independent coordinates."""
        return np.asarray(-0.5 * np.log1p(self._weight * design[..., :1] / self._coordinates[1]).sum(axis=-1))

    one_row_suffices: ClassVar[str] = "the predictive's mean and covariance determine the posterior"
    """Proof. The predictive's mean, and its covariance less the known noise, are the posterior's. ∎"""

    def base_measure(self, summaries: Array, reduction: Reduction, /) -> Array:
        """Return −½ ln det(2π·noise) − ½ (x − mean)ᵀ noise⁻¹ (x − mean) for each row."""
        s, d = reduction.convert(summaries, self.reduction), len(self.mean)
        noise = np.array(self.noise)
        scatter = s[..., d + 1 :].reshape(*s.shape[:-1], d, d)
        spread = np.einsum("ij,...ji->...", np.linalg.inv(noise), scatter)
        return np.asarray(-s[..., 0] / 2 * np.linalg.slogdet(2 * np.pi * noise)[1] - spread / 2)

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, _: Mapping[str, Any], /) -> FreeParameters:
        days = day_moments(cls.__name__, summaries, reduction)
        return {
            "mean": Real(days.centre, np.sqrt(days.between)),
            "covariance": PositiveDefinite(days.scale),
            "noise": PositiveDefinite(days.noise),
        }


@dataclass(frozen=True)
class MultivariateNormalUnknownCovariance(Conjugate, NormalVectors):
    """Vectors with unknown mean and covariance: Σ ~ InvWishart(scale, dof), μ | Σ ~ N(mean, Σ/strength).

    Statistic: (n, Σ(x − mean), Σ(x − mean)(x − mean)ᵀ by rows).
    Λ(t) = lnΓ_d(ν/2) − (ν/2) ln det Ψ − (d/2) ln κ with ν = dof + n, κ = strength + n and
    Ψ = scale + Σ(x − mean)(x − mean)ᵀ − s sᵀ/κ, s = Σ(x − mean). dof is above d − 1.

    Examples
    --------
    >>> model = MultivariateNormalUnknownCovariance(mean=[0, 0], strength=1, dof=3, scale=[[1, 0], [0, 1]])
    >>> model.statistics([[1, 2], [3, 4]])
    array([ 2.,  4.,  6., 10., 14., 14., 20.])
    """

    strength: float = field(metadata=parameter("weight of the prior mean, in rows", positive, 0.5))
    dof: float = field(metadata=parameter("prior degrees of freedom of the covariance", number, 6.0))
    scale: Matrix = field(
        metadata=parameter("prior scale of the covariance", positive_definite, [[27.0, 3.0], [3.0, 3.0]])
    )

    description: ClassVar[str] = "several numbers, unknown noise"
    example: ClassVar[Example] = Example(
        "height and weight, whose spread is unknown too", ("height", "weight"), "station"
    )
    max_rows: ClassVar[int] = 10**7  # log PMI is a difference of four log-determinants

    def __post_init__(self) -> None:
        super().__post_init__()
        bound = len(self.mean) - 1
        if not self.dof > bound:
            raise ParameterError(
                f"{type(self).__name__}: dof must be above {bound}, one less than the dimension", parameter="dof"
            )

    def _posterior_parameters(self, statistics: Array) -> dict[str, Array]:
        """Normal-inverse-Wishart with κ, ν and Ψ."""
        n, shift, scatter = np.split(statistics, [1, len(self.mean) + 1], axis=-1)
        move = shift / (strength := self.strength + n)
        scatter = scatter.reshape(*shift.shape, len(self.mean))
        scale = np.array(self.scale) + scatter - shift[..., :, None] * move[..., None, :]
        strength, dof = strength[..., 0], self.dof + n[..., 0]
        return {"mean": np.array(self.mean) + move, "strength": strength, "dof": dof, "scale": scale}

    @staticmethod
    def _log_integral(*, mean: Array, strength: Array, dof: Array, scale: Array) -> Array:
        """lnΓ_d(ν/2) − (ν/2) ln det Ψ − (d/2) ln κ."""
        d = mean.shape[-1]
        try:
            root = np.linalg.cholesky(scale)
        except np.linalg.LinAlgError:
            raise DataError("statistics that no data can have: n, Σx and Σxxᵀ contradict each other") from None
        log_determinant = 2 * np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1)
        return np.asarray(multigammaln(dof / 2, d) - dof / 2 * log_determinant - d / 2 * np.log(strength))

    @staticmethod
    def _draw(rng: Generator, *, mean: Array, strength: Array, dof: Array, scale: Array) -> Array:
        """Draw (mean, covariance by rows): the covariance ~ InvWishart, and the mean ~ N(mean, covariance/strength)."""
        d = mean.shape[-1]
        inverse_root = np.linalg.inv(_wishart_root(rng, dof, d, _MIN_ROOT))
        root = _root(scale) @ np.swapaxes(inverse_root, -1, -2)
        noise = np.einsum("...ij,...j->...i", root, rng.standard_normal(mean.shape))
        covariance = (root @ np.swapaxes(root, -1, -2)).reshape(*dof.shape, d * d)
        return np.concatenate([mean + noise / np.sqrt(strength)[..., None], covariance], axis=-1)

    def _split(self, parameters: Array) -> tuple[Array, Array]:
        d = len(self.mean)
        covariance = parameters[..., d:].reshape(*parameters.shape[:-1], d, d)
        return parameters[..., :d], _root(covariance)

    def expected_log_evidence(self, design: Array, /) -> Array | None:
        """Σ_j S(A_j) − (j/2)ψ(A_j) − ½ ln(κ/κ₀), A_j = (ν − j)/2: det scale/det Ψ is a product of d Beta variables."""
        steps = np.arange(len(self.mean))
        A = (self.dof + design - steps) / 2
        grown = log_gamma_excess(A) - steps / 2 * psi(A) - 0.5 * np.log1p(design / self.strength)
        return np.asarray(grown.sum(axis=-1))

    one_row_suffices: ClassVar[str] = "degrees of freedom, location and scale of one row determine it"
    """Proof. The predictive is a multivariate t whose degrees of freedom give n, so the strength; its location is the
    posterior mean and its scale matrix a known multiple of Ψ. ∎
    """

    def base_measure(self, summaries: Array, _: Reduction, /) -> Array:
        """Return −(d/2) ln π for each row."""
        return np.asarray(-summaries[..., 0] * len(self.mean) / 2 * np.log(np.pi))

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, _: Mapping[str, Any], /) -> FreeParameters:
        days = day_moments(cls.__name__, summaries, reduction)
        return {
            "mean": Real(days.centre, np.sqrt(days.between)),
            "strength": Positive(float(days.strength.mean())),
            "dof": Positive(4.0, above=len(days.centre) - 1),
            "scale": PositiveDefinite(2 * days.noise),
        }


def _draw_moments(rng: Generator, shift: Array, root: Array, rows: Array) -> Array:
    """Draw (n, Σx, Σxxᵀ) for x ~ N(shift, root·rootᵀ): a normal sum and an independent Wishart scatter."""
    d = shift.shape[-1]
    leading = np.broadcast_shapes(shift.shape[:-1], rows.shape)
    n = np.broadcast_to(rows, leading)
    noise = np.einsum("...ij,...j->...i", root, rng.standard_normal((*leading, d)))
    total = n[..., None] * shift + np.sqrt(n)[..., None] * noise
    factor = np.swapaxes(_wishart_root(rng, np.maximum(n - 1, 0), d), -1, -2) @ np.swapaxes(root, -1, -2)
    scatter = np.swapaxes(factor, -1, -2) @ factor
    scatter = scatter + total[..., :, None] * (total / np.maximum(n, 1)[..., None])[..., None, :]
    return np.concatenate([n[..., None], total, scatter.reshape(*leading, d * d)], axis=-1)


def _root(covariance: Array) -> Array:
    """Return a square root of each matrix, even if rounding made one singular."""
    try:
        return np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :])


def _wishart_root(rng: Generator, dof: Array, d: int, min_diagonal: float = 0.0) -> Array:
    """Draw lower triangular A with A·Aᵀ ~ Wishart(dof, 1) (Bartlett); columns from dof on are zero."""
    freedom = dof[..., None] - np.arange(d)
    diagonal = np.maximum(np.sqrt(2 * rng.standard_gamma(np.maximum(freedom, 0) / 2)), min_diagonal)
    lower = np.tril(rng.standard_normal((*dof.shape, d, d)), -1)
    root = lower + diagonal[..., None] * np.eye(d)
    return root * (freedom > 0)[..., None, :]


def _is_multiple(matrix: Matrix, unit: Matrix) -> bool:
    """Return whether ``matrix`` is a multiple of ``unit``."""
    factor = float(matrix[0][0] / unit[0][0])
    return bool(np.allclose(matrix, factor * np.array(unit), rtol=1e-12, atol=0))
