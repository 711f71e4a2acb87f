"""Features and a number, and θ one of a few known vectors of coefficients with known noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from troth.core.contract import Array, ComparedDesign, Generator
from troth.core.reductions import Reduction
from troth.models.family import Example, Vector
from troth.models.linear_regression import LinearRegression
from troth.models.numerics.designs import compare_products
from troth.models.numerics.possible import are_products, none_above
from troth.models.parameters import Numbers, parameter
from troth.models.regression_candidates import RegressionCandidates, trained_coefficients


@dataclass(frozen=True)
class NoiseOfEach(Numbers):
    """A number above 0 for each candidate, or one for all."""

    axes: tuple[int, ...] = (0, 1)
    above_zero: bool = True

    def array(self, name: str, value: Any, owner: Any) -> Array:
        """Return one number for each candidate."""
        entries, size = super().array(name, value, owner), len(owner.coefficients)
        if entries.ndim and len(entries) not in (1, size):
            raise ValueError(f"{name} has {len(entries)} entries for {size} candidates")
        return np.broadcast_to(entries, (size,))


@dataclass(frozen=True)
class LinearCandidates(RegressionCandidates):
    """Answers y = z·θ + ε, where θ is one of S known vectors, and ε ~ N(0, noise²) with the noise of the candidate.

    Rows are reduced to (z, y)(z, y)ᵀ, of which all log-likelihoods are functions. Fresh ones are drawn from the Gram
    matrix of the features, exactly.

    Parameters
    ----------
    coefficients
        A row of d coefficients for each candidate.
    noise
        Standard deviation of an answer under each candidate, or one number for all.
    prior
        Probabilities of the candidates; all the same if they are not given.

    Examples
    --------
    >>> model = LinearCandidates([[0.0], [1.0]], noise=1.0)
    >>> model.statistics(([[1.0], [2.0]], [1.0, 2.5]))[:3].round(3)
    array([-5.463, -1.963,  2.   ])
    """

    noise: Vector | float = field(
        metadata=parameter(
            "standard deviation of an answer under each candidate, or one for all",
            NoiseOfEach(),
            [1.0, 1.0, 1.0, 1.0],
            known=True,
        )
    )

    description: ClassVar[str] = "a number explained by others, by one of a few known regressions"
    example: ClassVar[Example] = Example(
        "what a dose and age do to a response", ("dose", "age"), "clinic", target="response"
    )
    given_parameters: ClassVar[tuple[str, ...]] = ("coefficients", "noise")
    by_state: ClassVar[tuple[str, ...]] = ("coefficients", "noise")

    @cached_property
    def _noise(self) -> Array:
        return np.array(self.noise)

    @property
    def _likelihoods(self) -> Array:
        return np.column_stack([self._points, self._noise])

    @cached_property
    def _plain(self) -> LinearRegression:
        """The regression that reduces rows, and draws products of features and answers."""
        d = self._points.shape[1]
        return LinearRegression(np.zeros(d), np.eye(d), 1.0)

    @property
    def reduction(self) -> Reduction:
        """The number of rows, and the products of features and answers."""
        return self._plain.reduction

    def summary(self, data: Any, /) -> Array:
        """Count the rows, and multiply (z, y) with itself."""
        return self._plain.summary(data)

    def from_summary(self, summary: Array, /) -> Array:
        """Map products to log-likelihoods."""
        return self._of_products(self._plain.from_summary(summary))

    def _of_products(self, products: Array) -> Array:
        """Return (ℓ, n, ZᵀZ) of (ZᵀZ, Zᵀy, yᵀy, n), with ℓ = −‖y − Zθ‖²/2σ² − n ln σ − ½n ln 2π."""
        points, n = self._points, products[..., -1:]
        gram, product = self._plain._gram(products), self._plain._product(products)
        fitted = np.einsum("ki,...ij,kj->...k", points, gram, points)
        squares = products[..., -2:-1] - 2 * product @ points.T + fitted
        t = -0.5 * np.maximum(squares, 0.0) / self._noise**2 - n * (np.log(self._noise) + 0.5 * np.log(2 * np.pi))
        return np.concatenate([t, n, gram.reshape(*t.shape[:-1], -1)], axis=-1)

    possible_statistics: ClassVar[str] = (
        "no log-likelihood exceeds that of a perfect fit, and the products of features have no negative eigenvalue"
    )

    def possible(self, statistics: Array, /) -> NDArray[np.bool_]:
        """Return where ZᵀZ is a matrix of products of as many rows, and no log-likelihood is above a perfect fit's."""
        t, (S, d) = np.asarray(statistics, dtype=np.float64), self._points.shape
        gram, n = t[..., S + 1 :].reshape(*t.shape[:-1], d, d), t[..., S : S + 1]
        best = -n * (np.log(self._noise) + 0.5 * np.log(2 * np.pi))
        return none_above(t[..., :S] - best) & are_products(gram, n[..., 0])

    def design(self, statistics: Array, /) -> Array:
        """Return the Gram matrix of the features, and the number of rows."""
        t, S = np.asarray(statistics, dtype=np.float64), len(self._points)
        return np.concatenate([t[..., S + 1 :], t[..., S : S + 1]], axis=-1)

    def compared_design(self, statistics: Array, /) -> ComparedDesign:
        """Return the Gram matrix of the features."""
        t, (S, d) = np.asarray(statistics, dtype=np.float64), self._points.shape
        return compare_products(t[..., S + 1 :].reshape(*t.shape[:-1], d, d))

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw log-likelihoods of fresh answers to the same features, exactly, from their Gram matrix alone."""
        leading = np.broadcast_shapes(np.shape(parameters)[:-1], design.shape[:-1])
        chosen = self._chosen(parameters, leading)
        variance = self._noise[chosen] ** 2
        return self._of_products(self._plain._draw_from_design(rng, self._points[chosen], variance, design))

    def _draw_answers(self, rng: Generator, chosen: NDArray[np.intp], z: Array) -> Array:
        signal = np.einsum("...ij,...j->...i", z, self._points[chosen])
        return np.asarray(signal + self._noise[chosen][..., None] * rng.standard_normal(signal.shape))

    @classmethod
    def from_estimators(cls, estimators: Sequence[Any], noise: Any, prior: Any = None) -> Self:
        """Take the coefficients of trained linear regressions (``coef_``, ``intercept_``), and the noise of each.

        If any of them has an intercept, it is the first coefficient, for a feature that is a constant 1.
        """
        return cls(coefficients=trained_coefficients(estimators)[0], noise=noise, prior=prior)
