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
from scipy.special import gammaln

from troth.errors import DataError
from troth.model import Array, Generator, Model, Support
from troth.models.family import Family, moments
from troth.models.normal import draw_variance, unknown_variance_log_pmi, zero_where_empty
from troth.models.predictive import log_gamma_excess
from troth.models.second_difference import in_chunks, peak_of, residual

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from troth.models.family import Matrix, Vector
    from troth.models.predictive import Exact


_ABOVE_ANY_FIT = 1e300  # a corner that keeps the augmented matrix positive definite where its value does not matter
_CHUNK = 1 << 18  # entries of the matrices factored at a time


class _Posterior(NamedTuple):
    """Cholesky factor L of the precision, L⁻¹r, log-determinant, and c − rᵀΛ⁻¹r for the row r and the corner c."""

    root: Array
    whitened: Array
    log_determinant: Array
    residual: Array


class _Information(NamedTuple):
    """W, minus half the second difference of hᵀΛ⁻¹h; minus that of ln det Λ; the posterior rates of own and peers."""

    W: Array
    determinant: Array
    own_rate: Array
    peers_rate: Array


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
        if features.shape[-2] != answers.shape[-1]:
            raise DataError(f"{features.shape[-2]} rows of features but {answers.shape[-1]} answers: they must match")
        if features.shape[:-1] != answers.shape:
            raise DataError(
                f"features of shape {features.shape} need answers of shape {features.shape[:-1]}, not {answers.shape}"
            )
        return moments(self._products, features, answers)

    def _products(self, features: Array, answers: Array) -> Array:
        r = answers - np.einsum("...ij,j->...i", features, np.array(self.mean))
        transposed = np.swapaxes(features, -1, -2)
        gram = transposed @ features
        return self._pack(gram, (transposed @ r[..., None])[..., 0], (r * r).sum(axis=-1), answers.shape[-1])

    @property
    def _nothing(self) -> Any:
        return (), ()

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

    def _posterior(self, t: Array, unit: float, row: Array, corner: Array | float) -> _Posterior:
        """Factor [[unit·P + G, row], [rowᵀ, corner]] once: determinant, whitened row and residual in one Cholesky."""
        d = len(self.mean)
        augmented = np.empty((*t.shape[:-1], d + 1, d + 1))
        np.add(self._gram(t), unit * self._prior_precision, out=augmented[..., :d, :d])
        augmented[..., d, :d] = augmented[..., :d, d] = row
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

    def _gram(self, t: Array) -> Array:
        d = len(self.mean)
        return t[..., : d * d].reshape(*t.shape[:-1], d, d)

    def _product(self, t: Array) -> Array:
        d = len(self.mean)
        return t[..., d * d : d * d + d]

    @cached_property
    def _prior_precision(self) -> Array:
        return np.array(self.precision)

    @cached_property
    def _prior_root(self) -> Array:
        return np.asarray(np.linalg.cholesky(self._prior_precision), dtype=np.float64)

    def _information(self, own: Array, peers: Array, both: Array, unit: float, scale: float | None) -> _Information:
        """Second differences of hᵀΛ⁻¹h and of the log-determinant, and the squared residuals of each side around μ_T.

        With r = h − Λμ_T, W = ½(r₁ᵀΛ₁⁻¹r₁ + r₂ᵀΛ₂⁻¹r₂ − μ_TᵀPμ_T) is stationary in μ_T, and c − hᵀΛ⁻¹h is
        (c − μᵀh − μᵀ(h − Gμ) + μᵀPμ) − rᵀΛ⁻¹r: what cancels, cancels in residuals that are formed exactly. Where the
        prior mean fits a side better than μ_T, that side is taken around the prior mean.
        """
        joint = self._posterior(both, unit, self._product(both), _ABOVE_ANY_FIT)
        solved = np.linalg.solve(np.swapaxes(joint.root, -1, -2), joint.whitened[..., None])
        mean = np.asarray(solved[..., 0], dtype=np.float64)
        anchor = unit * ((mean @ self._prior_root) ** 2).sum(axis=-1)
        sides, distances = [], []
        for t in (own, peers):
            h = self._product(t)
            near = residual(h, gram := self._gram(t), mean, peak_of(gram))
            row = residual(near, prior := unit * self._prior_precision, mean, peak_of(prior))
            corner, direct = self._corner(scale, t, mean, near, anchor)
            row = np.where(direct[..., None], h, row)
            side = self._posterior(t, unit, row, corner)
            gap = side.whitened
            if direct.any():
                gap = gap - (np.where(direct[..., None], mean, 0.0)[..., None, :] @ side.root)[..., 0, :]
            sides.append(side)
            distances.append((gap * gap).sum(axis=-1))
        one, two = sides
        W = 0.5 * ((distances[0] - anchor) + distances[1]) / unit
        prior_log_determinant = 2 * np.log(np.diagonal(np.sqrt(unit) * self._prior_root)).sum()
        determinant = (one.log_determinant - prior_log_determinant) - (joint.log_determinant - two.log_determinant)
        return _Information(W, determinant, one.residual / 2, two.residual / 2)

    def _corner(
        self, scale: float | None, t: Array, mean: Array, near: Array, anchor: Array
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Corner of the augmented matrix, and whether it is taken around 0; with known noise it does not matter."""
        if scale is None:
            return np.array(_ABOVE_ANY_FIT), np.array(False)
        h = self._product(t)[..., None, :]
        square = residual(t[..., -2:-1], h, mean, np.abs(h).max(axis=-1, keepdims=True))[..., 0]
        square = square - (mean * near).sum(axis=-1) + anchor
        direct = t[..., -2] < square
        return 2 * scale + np.where(direct, t[..., -2], square), direct

    def _in_chunks(
        self, kernel: Callable[[Array, Array, Array], Array], own: Array, peers: Array, both: Array | None
    ) -> Array:
        def zero_for_nothing(own: Array, peers: Array, both: Array) -> Array:
            return zero_where_empty(kernel(own, peers, both), own[:, -1], peers[:, -1])

        return in_chunks(zero_for_nothing, own, peers, both, max(1, _CHUNK // (len(self.mean) + 1) ** 2))

    def _draw_coefficients(self, rng: Generator, t: Array, variance: Array) -> Array:
        """Draw θ ~ N(mean + Λ⁻¹h, variance·Λ⁻¹) with Λ = P + G."""
        root = np.linalg.cholesky(self._prior_precision + self._gram(t))
        noise = np.sqrt(variance)[..., None] * rng.standard_normal((*t.shape[:-1], len(self.mean)))
        whitened = np.linalg.solve(root, self._product(t)[..., None])[..., 0] + noise
        return np.asarray(self.mean + np.linalg.solve(np.swapaxes(root, -1, -2), whitened[..., None])[..., 0])

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
        t, unit = np.asarray(statistics, dtype=np.float64), self._unit**2
        posterior = self._posterior(t, unit, self._product(t), _ABOVE_ANY_FIT)
        log_determinant = posterior.log_determinant - len(self.mean) * np.log(unit)
        return np.asarray(0.5 * (posterior.whitened**2).sum(axis=-1) / unit - 0.5 * log_determinant)

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI with quadratic forms that do not cancel, three factorisations at most."""

        def kernel(own: Array, peers: Array, both: Array) -> Array:
            information = self._information(own, peers, both, self._unit**2, None)
            return np.asarray(0.5 * information.determinant - information.W)

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

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw coefficients given statistics."""
        t = np.asarray(statistics, dtype=np.float64) / self._unit**2
        return self._draw_coefficients(rng, t, np.ones(t.shape[:-1]))

    def draw_data(self, rng: Generator, parameters: Array, rows: Any, /) -> tuple[Array, Array]:
        """Draw (z, y): answers for features ``rows`` of shape (rows, d), or for so many standard normal ones."""
        return self._draw_answers(rng, parameters, self.noise, rows)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw statistics with the same features, from their Gram matrix alone."""
        return self._weight * self._draw_from_design(rng, parameters, self.noise**2, design)

    def expected_log_evidence(self, design: Array, /) -> Exact:
        """−½ ln det(P + ZᵀZ/noise²): the quadratic form's expectation, ½ tr(P⁻¹ZᵀZ)/noise², is linear in the design."""
        added = self._gram(design) / self.noise**2
        return np.asarray(-0.5 * np.linalg.slogdet(self._prior_precision + added)[1])


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
        posterior = self._posterior(t, 1.0, self._product(t), 2 * self.scale + t[..., -2])
        return posterior, self.shape + t[..., -1] / 2, posterior.residual / 2

    def log_evidence(self, statistics: Array, /) -> Array:
        """lnΓ(A) − A ln B − ½ ln det(P + ZᵀZ)."""
        posterior, A, B = self._fit(np.asarray(statistics, dtype=np.float64))
        return np.asarray(gammaln(A) - A * np.log(B) - 0.5 * posterior.log_determinant)

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI in a form that keeps its digits at any number of rows."""

        def kernel(own: Array, peers: Array, both: Array) -> Array:
            W, determinant, *rates = self._information(own, peers, both, 1.0, self.scale)
            prior = np.array([self.shape]), np.array([self.scale])
            A1, A2, AT = (self.shape + t[:, -1] / 2 for t in (own, peers, both))
            return unknown_variance_log_pmi(W, determinant, prior, (A1, rates[0]), (A2, rates[1]), AT)

        return self._in_chunks(kernel, own, peers, both)

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw (coefficients, noise variance) from the prior, shape ``(*shape, d + 1)``."""
        variance = draw_variance(rng, self.shape, self.scale, (*shape, 1))
        noise = rng.standard_normal((*shape, len(self.mean))) @ np.linalg.inv(self._prior_root)
        return np.concatenate([np.array(self.mean) + np.sqrt(variance) * noise, variance], axis=-1)

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw (coefficients, noise variance) given statistics."""
        t = np.asarray(statistics, dtype=np.float64)
        precision = self._prior_precision + self._gram(t)
        h = self._product(t)
        fit = (h * np.linalg.solve(precision, h[..., None])[..., 0]).sum(axis=-1)
        rate = self.scale + np.maximum(t[..., -2] - fit, 0.0) / 2
        variance = rate / np.maximum(rng.standard_gamma(self.shape + t[..., -1] / 2), np.finfo(float).tiny)
        return np.concatenate([self._draw_coefficients(rng, t, variance), variance[..., None]], axis=-1)

    def draw_data(self, rng: Generator, parameters: Array, rows: Any, /) -> tuple[Array, Array]:
        """Draw (z, y): answers for features ``rows`` of shape (rows, d), or for so many standard normal ones."""
        return self._draw_answers(rng, parameters[..., :-1], np.sqrt(parameters[..., -1:]), rows)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw statistics with the same features, from their Gram matrix alone."""
        return self._draw_from_design(rng, parameters[..., :-1], parameters[..., -1], design)

    def expected_log_evidence(self, design: Array, /) -> Exact:
        """S(A) − ½ ln det(P + ZᵀZ): scale/B is Beta(shape, n/2), whatever the features."""
        log_determinant = np.linalg.slogdet(self._prior_precision + self._gram(design))[1]
        return np.asarray(log_gamma_excess(self.shape + design[..., -1] / 2) - 0.5 * log_determinant)
