"""Features and an answer: linear regression with known noise, and with unknown noise.

Features need no law of their own: they may even be correlated across providers, as long as they are independent of θ
(the paper's Example on p(θ|(z, y))). Statistics are taken around the prior's prediction, r = y − z·mean, which is y
itself for the usual prior mean of zero.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import gammaln, psi

from troth.errors import DataError
from troth.model import Array, Generator, Model, Support
from troth.models.family import Family
from troth.models.normal import unknown_variance_log_pmi
from troth.models.second_difference import in_chunks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from troth.models.family import Matrix, Vector
    from troth.models.predictive import Exact


_ABOVE_ANY_FIT = 1e300  # a corner that keeps the augmented matrix positive definite where its value does not matter
_CHUNK = 1 << 17  # entries of the matrices factored at a time


class _Posterior(NamedTuple):
    """Cholesky factor L of the precision, L⁻¹h, log-determinant, and c − hᵀΛ⁻¹h for the corner c."""

    root: Array
    whitened: Array
    log_determinant: Array
    residual: Array


@dataclass(frozen=True)
class _Regression(Family):
    """What both regressions share: rows (z, y), and statistics (ZᵀZ by rows, Zᵀr, rᵀr, n)."""

    mean: Vector
    precision: Matrix

    def __post_init__(self) -> None:
        self._covariance("precision", len(self._vector("mean")))

    def _moments(self, data: Any) -> Array:
        d = len(self.mean)
        try:
            z, y = data
        except (TypeError, ValueError):
            raise DataError("regression data is a pair (z, y) of features, (rows, d), and answers, (rows,)") from None
        features = Support().check(z, "feature", columns=d)
        answers = Support().check(y, "answer")
        if features.shape[:-1] != answers.shape:
            raise DataError(f"{features.shape[-2]} rows of features but {answers.shape[-1]} answers: they must match")
        r = answers - np.einsum("...ij,j->...i", features, np.array(self.mean))
        transposed = np.swapaxes(features, -1, -2)
        gram = transposed @ features
        return self._pack(gram, (transposed @ r[..., None])[..., 0], (r * r).sum(axis=-1), answers.shape[-1])

    def _pack(self, gram: Array, product: Array, square: Array, rows: Array | float) -> Array:
        d = len(self.mean)
        tail = np.stack([square, np.broadcast_to(rows, square.shape)], axis=-1)
        return np.concatenate([gram.reshape(*square.shape, d * d), product, tail], axis=-1)

    def rows(self, statistics: Array, /) -> Array:
        """Count the rows behind each statistic."""
        return np.asarray(statistics, dtype=np.float64)[..., -1]

    def design(self, statistics: Array, /) -> Array:
        """Gram matrix of the features (by rows) and number of rows: what was fixed before the answers."""
        gram = np.asarray(statistics, dtype=np.float64)[..., : len(self.mean) ** 2]
        return np.concatenate([gram, self.rows(statistics)[..., None]], axis=-1)

    def plan(self, rows: Any, /) -> Array:
        """Return the design of a report with these features, ``(rows, d)``."""
        if np.ndim(rows) < 2:
            raise DataError(
                f"a regression is planned by its features, of shape (rows, {len(self.mean)}), not by {rows!r}"
            )
        z = Support().check(rows, "feature", columns=len(self.mean))
        gram = (np.swapaxes(z, -1, -2) @ z).reshape(*z.shape[:-2], -1)
        return np.concatenate([gram, np.full((*z.shape[:-2], 1), float(z.shape[-2]))], axis=-1)

    def _posterior(self, t: Array, unit: float, corner: Array | float) -> _Posterior:
        """Factor [[P + G/unit, h], [hᵀ, corner]] once: determinant, whitened h and residual in one Cholesky."""
        d = len(self.mean)
        augmented = np.empty((*t.shape[:-1], d + 1, d + 1))
        gram = t[..., : d * d].reshape(*t.shape[:-1], d, d)
        np.divide(gram, unit, out=augmented[..., :d, :d])
        augmented[..., :d, :d] += self._prior_precision
        np.divide(t[..., d * d : d * d + d], unit, out=augmented[..., d, :d])
        augmented[..., :d, d] = augmented[..., d, :d]
        augmented[..., d, d] = corner
        try:
            root = np.linalg.cholesky(augmented)
        except np.linalg.LinAlgError:
            raise DataError(
                "regression statistics that no data can have: ZᵀZ, Zᵀr and rᵀr contradict each other"
            ) from None
        diagonal = np.diagonal(root, axis1=-2, axis2=-1)
        log_determinant = 2 * np.log(diagonal[..., :d]).sum(axis=-1)
        return _Posterior(root[..., :d, :d], root[..., d, :d], log_determinant, diagonal[..., d] ** 2)

    @cached_property
    def _prior_precision(self) -> Array:
        return np.array(self.precision)

    @cached_property
    def _prior_root(self) -> Array:
        return np.asarray(np.linalg.cholesky(self._prior_precision), dtype=np.float64)

    def _second_differences(self, own: _Posterior, peers: _Posterior, both: _Posterior) -> tuple[Array, Array]:
        """W, minus half the second difference of hᵀΛ⁻¹h, and minus that of the log-determinant.

        ‖μ₁ − μ_T‖² in the metric Λ₁ = LLᵀ is ‖L⁻¹h₁ − Lᵀμ_T‖²: small things are subtracted before they are squared.
        """
        mean = np.linalg.solve(np.swapaxes(both.root, -1, -2), both.whitened[..., None])

        def distance(root: Array, whitened: Array | float) -> Array:
            gap = whitened - (np.swapaxes(root, -1, -2) @ mean)[..., 0]
            return np.asarray((gap * gap).sum(axis=-1))

        apart = (distance(own.root, own.whitened) - distance(self._prior_root, 0.0)) + distance(
            peers.root, peers.whitened
        )
        prior_log_determinant = 2 * np.log(np.diagonal(self._prior_root)).sum()
        determinant = (own.log_determinant - prior_log_determinant) - (both.log_determinant - peers.log_determinant)
        return 0.5 * apart, determinant

    def _in_chunks(self, kernel: Any, own: Array, peers: Array, both: Array | None) -> Array:
        return in_chunks(kernel, own, peers, both, max(1, _CHUNK // (len(self.mean) + 1) ** 2))

    def _features(self, rng: Generator, parameters: Array, rows: Any) -> Array:
        """Features as given, or so many rows of standard normal ones."""
        if np.ndim(rows) == 0:
            return rng.standard_normal((*parameters.shape[:-1], int(rows), len(self.mean)))
        return np.asarray(rows, dtype=np.float64)

    def _draw_answers(self, rng: Generator, theta: Array, noise: Array | float, rows: Any) -> tuple[Array, Array]:
        z = self._features(rng, theta, rows)
        signal = np.einsum("...ij,...j->...i", z, theta)
        y = signal + noise * rng.standard_normal(signal.shape)
        return np.broadcast_to(z, (*y.shape, z.shape[-1])), y

    def _draw_from_design(self, rng: Generator, theta: Array, variance: Array | float, design: Array) -> Array:
        """Draw (ZᵀZ, Zᵀr, rᵀr, n) given θ: Zᵀε ~ N(0, σ²ZᵀZ), and what is left of εᵀε is chi-square."""
        d = len(self.mean)
        leading = np.broadcast_shapes(theta.shape[:-1], design.shape[:-1])
        gram = np.broadcast_to(design[..., :-1].reshape(*design.shape[:-1], d, d), (*leading, d, d))
        rows = np.broadcast_to(design[..., -1], leading)
        sigma2 = np.broadcast_to(variance, leading)
        values, vectors = np.linalg.eigh(design[..., :-1].reshape(*design.shape[:-1], d, d))
        positive = values > 1e-12 * np.maximum(values[..., -1:], np.finfo(float).tiny)
        white = np.sqrt(sigma2)[..., None] * rng.standard_normal((*leading, d)) * positive
        noise = np.einsum("...ij,...j->...i", vectors, np.sqrt(np.where(positive, values, 0)) * white)
        shift = theta - np.array(self.mean)
        signal = np.einsum("...ij,...j->...i", gram, np.broadcast_to(shift, (*leading, d)))
        spare = np.maximum(rows - positive.sum(axis=-1), 0)
        square = (shift * (signal + 2 * noise)).sum(axis=-1) + (white**2).sum(axis=-1)
        square = square + 2 * sigma2 * rng.standard_gamma(spare / 2)
        return self._pack(gram, signal + noise, square, rows)


@dataclass(frozen=True)
class LinearRegression(_Regression):
    """Answers y = z·θ + ε with known noise, θ ~ N(mean, precision⁻¹) and ε ~ N(0, noise²).

    Statistic: (ZᵀZ by rows, Zᵀr, rᵀr, n) with r = y − z·mean. Λ(t) = ½ hᵀΛ⁻¹h − ½ ln det Λ with
    Λ = precision + ZᵀZ/noise² and h = Zᵀr/noise².

    Parameters
    ----------
    mean, precision
        Prior mean of the d coefficients and their prior precision matrix.
    noise
        Standard deviation of one answer.
    reference
        The noise in whose units rows are counted, if providers with different noise are combined: a row counts
        (reference/noise)² rows. `troth.combine` sets it.

    Examples
    --------
    >>> model = LinearRegression(mean=[0, 0], precision=[[1, 0], [0, 1]], noise=0.5)
    >>> model.statistics(([[1, 2], [1, 3]], [5, 7]))
    array([ 2.,  5.,  5., 13., 12., 31., 74.,  2.])
    """

    noise: float
    reference: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._positive("noise")
        if self.reference is not None:
            self._positive("reference")

    @property
    def _unit(self) -> float:
        return self.noise if self.reference is None else self.reference

    @property
    def _weight(self) -> float:
        return (self._unit / self.noise) ** 2

    def statistics(self, data: Any, /) -> Array:
        """Gram matrix of the features, their products with r, the square of r, and the number of rows."""
        return self._weight * self._moments(data)

    def log_evidence(self, statistics: Array, /) -> Array:
        """½ hᵀΛ⁻¹h − ½ ln det Λ."""
        posterior = self._posterior(np.asarray(statistics, dtype=np.float64), self._unit**2, _ABOVE_ANY_FIT)
        return np.asarray(0.5 * (posterior.whitened**2).sum(axis=-1) - 0.5 * posterior.log_determinant)

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI with quadratic forms that do not cancel, three factorisations at most."""

        def kernel(own: Array, peers: Array, both: Array) -> Array:
            W, determinant = self._second_differences(
                *(self._posterior(t, self._unit**2, _ABOVE_ANY_FIT) for t in (own, peers, both))
            )
            return 0.5 * determinant - W

        return self._in_chunks(kernel, own, peers, both)

    def rows(self, statistics: Array, /) -> Array:
        """Count the rows, whatever their weight."""
        return super().rows(statistics) / self._weight

    def design(self, statistics: Array, /) -> Array:
        """Gram matrix of the features and number of rows, without their weight."""
        design = super().design(statistics)
        return np.concatenate([design[..., :-1] / self._weight, design[..., -1:]], axis=-1)

    @property
    def space(self) -> Mapping[str, object]:
        """Family, prior and the noise in whose units rows are counted."""
        return {
            "family": "LinearRegression",
            "mean": self.mean,
            "precision": self.precision,
            "reference noise": self._unit,
        }

    def in_space_of(self, reference: Model, /) -> Model:
        """Return this law with its rows counted in units of the reference's noise."""
        prior = (self.mean, self.precision)
        if isinstance(reference, LinearRegression) and prior == (reference.mean, reference.precision):
            return dataclasses.replace(self, reference=reference._unit)
        return super().in_space_of(reference)

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw coefficients from the prior, shape ``(*shape, d)``."""
        noise = rng.standard_normal((*shape, len(self.mean)))
        return np.array(self.mean) + noise @ np.linalg.inv(self._prior_root)

    def draw_data(self, rng: Generator, parameters: Array, rows: Any, /) -> tuple[Array, Array]:
        """Draw (z, y): answers for features ``rows`` of shape (rows, d), or for so many standard normal ones."""
        return self._draw_answers(rng, parameters, self.noise, rows)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw statistics with the same features, from their Gram matrix alone."""
        return self._weight * self._draw_from_design(rng, parameters, self.noise**2, design)

    def expected_log_evidence(self, design: Array, /) -> Exact:
        """E[Λ] = ½ tr(P⁻¹ZᵀZ)/noise² − ½ ln det(P + ZᵀZ/noise²)."""
        d = len(self.mean)
        added = design[..., :-1].reshape(*design.shape[:-1], d, d) / self.noise**2
        trace = np.einsum("ij,...ji->...", np.linalg.inv(self._prior_precision), added)
        return np.asarray(0.5 * trace - 0.5 * np.linalg.slogdet(self._prior_precision + added)[1])


@dataclass(frozen=True)
class LinearRegressionUnknownNoise(_Regression):
    """Answers y = z·θ + ε with unknown noise: σ² ~ InvGamma(shape, scale), θ | σ² ~ N(mean, σ²·precision⁻¹).

    Statistic: (ZᵀZ by rows, Zᵀr, rᵀr, n) with r = y − z·mean. Λ(t) = lnΓ(A) − A ln B − ½ ln det(P + ZᵀZ) with
    A = shape + n/2 and B = scale + ½(rᵀr − (Zᵀr)ᵀ(P + ZᵀZ)⁻¹Zᵀr).

    Parameters
    ----------
    mean, precision
        Prior mean of the d coefficients and their prior precision matrix in units of the noise.
    shape, scale
        Of the inverse gamma prior on the noise variance, above 0.

    Examples
    --------
    >>> model = LinearRegressionUnknownNoise(mean=[0], precision=[[1]], shape=2, scale=1)
    >>> model.statistics(([[1], [2]], [2, 3]))
    array([ 5.,  8., 13.,  2.])
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._positive("shape")
        self._positive("scale")

    def statistics(self, data: Any, /) -> Array:
        """Gram matrix of the features, their products with r, the square of r, and the number of rows."""
        return self._moments(data)

    def _fit(self, t: Array) -> tuple[_Posterior, Array, Array]:
        """Factor the posterior; also shape A and rate B of the posterior noise variance."""
        posterior = self._posterior(t, 1.0, 2 * self.scale + t[..., -2])
        return posterior, self.shape + t[..., -1] / 2, posterior.residual / 2

    def log_evidence(self, statistics: Array, /) -> Array:
        """lnΓ(A) − A ln B − ½ ln det(P + ZᵀZ)."""
        posterior, A, B = self._fit(np.asarray(statistics, dtype=np.float64))
        return np.asarray(gammaln(A) - A * np.log(B) - 0.5 * posterior.log_determinant)

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI in a form that keeps its digits at any number of rows."""

        def kernel(own: Array, peers: Array, both: Array) -> Array:
            fits = [self._fit(t) for t in (own, peers, both)]
            W, determinant = self._second_differences(*(posterior for posterior, _, _ in fits))
            prior = np.array(self.shape), np.array(self.scale)
            return unknown_variance_log_pmi(W, determinant, prior, *((A, B) for _, A, B in fits))

        return self._in_chunks(kernel, own, peers, both)

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw (coefficients, noise variance) from the prior, shape ``(*shape, d + 1)``."""
        variance = self.scale / rng.standard_gamma(self.shape, size=(*shape, 1))
        noise = rng.standard_normal((*shape, len(self.mean))) @ np.linalg.inv(self._prior_root)
        return np.concatenate([np.array(self.mean) + np.sqrt(variance) * noise, variance], axis=-1)

    def draw_data(self, rng: Generator, parameters: Array, rows: Any, /) -> tuple[Array, Array]:
        """Draw (z, y): answers for features ``rows`` of shape (rows, d), or for so many standard normal ones."""
        return self._draw_answers(rng, parameters[..., :-1], np.sqrt(parameters[..., -1:]), rows)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw statistics with the same features, from their Gram matrix alone."""
        return self._draw_from_design(rng, parameters[..., :-1], parameters[..., -1], design)

    def expected_log_evidence(self, design: Array, /) -> Exact:
        """E[Λ]: scale/B is Beta(shape, n/2), whatever the features."""
        d = len(self.mean)
        gram = design[..., :-1].reshape(*design.shape[:-1], d, d)
        A = self.shape + design[..., -1] / 2
        expected_log_rate = np.log(self.scale) + psi(A) - psi(self.shape)
        log_determinant = np.linalg.slogdet(self._prior_precision + gram)[1]
        return np.asarray(gammaln(A) - A * expected_log_rate - 0.5 * log_determinant)
