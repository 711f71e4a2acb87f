"""Candidates that are regressions with known coefficients: the base class, and linear regressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from troth.core.contract import Array, ComparedDesign, Generator, Indexes, Mask
from troth.core.errors import ParameterError
from troth.core.reductions import Reduction
from troth.core.sensitivity import Peers, Sensitivity, refuted_without_data
from troth.core.support import Support
from troth.models.family import Example, Matrix, Vector
from troth.models.linear_regression import LinearRegression
from troth.models.numerics.possible_statistics import are_products, none_above
from troth.models.parameters import Numbers, matrix, parameter
from troth.models.shared.answered_rows import draw_features, planned_features
from troth.models.shared.candidate_states import FittedCandidates, draws_by_name, reject_identical_candidates
from troth.models.shared.features_at_hand import FeaturesAtHand

MAX_TABLE_SIZE = 1_000_000
"""The maximum length of a statistic."""


@dataclass(frozen=True)
class RegressionCandidates(FittedCandidates):
    """Rows (z, y), where θ is one of S known vectors of coefficients.

    The statistic is the S log-likelihoods, the number of rows, and what it takes to draw fresh answers to the same
    features.
    """

    coefficients: Matrix = field(
        metadata=parameter(
            "coefficients, a row for each candidate", matrix, [[-1.0, 0.5], [0.0, 1.0], [1.0, -0.5], [0.5, 1.5]]
        )
    )

    explains_target: ClassVar[bool] = True
    by_state: ClassVar[tuple[str, ...]] = ("coefficients",)
    given_parameters: ClassVar[tuple[str, ...]] = ("coefficients",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_size()
        reject_identical_candidates(type(self).__name__, self._likelihoods, "coefficients")

    def _check_size(self) -> None:
        """Reject coefficients of invalid shape; by default, every shape is valid."""

    @cached_property
    def _points(self) -> Array:
        """Coefficients, ``(candidate, coefficient)``."""
        return np.array(self.coefficients)

    @property
    def _features_of_row(self) -> int:
        return int(self._points.shape[1])

    @property
    def _likelihoods(self) -> Array:
        """The numbers that determine the likelihood of each candidate, one row per candidate."""
        return self._points

    @classmethod
    def standard_prior(cls, coefficients: int, given: Mapping[str, Any], /) -> dict[str, Any]:
        """Return no parameters: the coefficients must be given, whatever the scales."""
        return {}

    def rows(self, statistics: Array, /) -> Array:
        return np.asarray(statistics, dtype=np.float64)[..., len(self.coefficients)]

    def plan(self, rows: Any, /) -> Array:
        """Return the design of a report with these features, ``(rows, d)``."""
        z = planned_features(rows, self._features_of_row)
        return np.asarray(self.design(self.statistics((z, np.zeros(z.shape[:-1])))))

    def _candidate_of(self, parameters: Array, leading: tuple[int, ...]) -> Indexes:
        return np.broadcast_to(np.asarray(parameters)[..., 0].astype(np.intp), leading)

    def draw_data(self, rng: Generator, parameters: Array, rows: Any, /) -> tuple[Array, Array]:
        """Draw (z, y), with features ``rows`` of shape (rows, d), or with ``rows`` rows of standard normal features."""
        candidate = np.asarray(parameters)[..., 0].astype(np.intp)
        z = draw_features(rng, rows, self._features_of_row, candidate.shape)
        return z, self._draw_answers(rng, candidate, z)

    def _draw_answers(self, rng: Generator, candidate: Indexes, z: Array) -> Array:
        raise NotImplementedError

    def draw_with_features(self, rng: Generator, parameters: Array, features: Any, /) -> Array:
        """Draw statistics of fresh answers to these features, from the likelihood itself."""
        return self.statistics(self.draw_data(rng, parameters, features))

    def with_features(self, features: Any, /) -> FeaturesAtHand:
        """Return the model of a provider with these features, ``(rows, d)``, whose decoys come from the likelihood."""
        return FeaturesAtHand(self, Support().check(features, "feature", columns=self._features_of_row))

    def posterior_mean(self, statistics: Array, /) -> Array:
        """Return the posterior mean of the coefficients, ``(..., coefficient)``."""
        return np.asarray(self.posterior_probabilities(statistics) @ self._points)

    @property
    def public_coefficients(self) -> Array:
        """The prior mean of the coefficients, which is public."""
        return np.asarray(np.array(self.prior) @ self._points)

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:
        """One peer row fewer than there are candidates suffices, for features in general position.

        Proof. Two candidates with different coefficients give the answer of a row in general position different
        distributions, so the k-rank of its matrix of likelihoods is at least 2. By the paper's Corollary n rows tell
        n + 1 states apart. ∎
        """
        if refutation := refuted_without_data(peers):
            return refutation
        count, distinct = sum(n for _, n in peers), len(np.unique(self._likelihoods, axis=0))
        if count >= distinct - 1:
            reason = f"{count} peer rows tell {distinct} candidates apart, for features in general position"
            return Sensitivity("proved", f"{reason} (the paper's Corollary on k-ranks)")
        return Sensitivity("undecided", f"{count} peer rows may not tell {distinct} candidates apart")

    @classmethod
    def from_draws(
        cls, draws: Any, names: Sequence[str], *, group: str = "posterior", max_draws: int = 200, **given: Any
    ) -> Self:
        """Create candidates from draws of a prior or posterior: ArviZ's ``InferenceData``, or arrays by name.

        Parameters
        ----------
        draws
            An ``InferenceData`` (from PyMC, CmdStanPy or NumPyro), or a mapping of names to arrays whose first axis is
            the draw.
        names
            The variables that make up a vector of coefficients, in order, such as ``["intercept", "slopes"]``.
        group
            The group of the ``InferenceData`` to use.
        max_draws
            The maximum number of draws to keep, evenly spaced.
        given
            The family's other parameters, such as ``classes``.

        Examples
        --------
        >>> from troth.models import LogisticCandidates
        >>> draws = {"intercept": np.zeros(3), "slopes": np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 4.0]])}
        >>> LogisticCandidates.from_draws(draws, ["intercept", "slopes"]).coefficients[0]
        (0.0, 1.0, 2.0)
        """
        return cls(coefficients=_joined_draws(draws_by_name(draws, group, max_draws), names), **given)


def trained_coefficients(estimators: Sequence[Any]) -> tuple[Array, int]:
    """Return a row of coefficients for each estimator, and the number of classes (0 for counts and numbers).

    Coefficients are ordered class by class. If any estimator has an intercept, it is the first coefficient of each
    class.
    """
    if not estimators:
        raise ParameterError("give at least one trained estimator")
    for k, estimator in enumerate(estimators):
        if not hasattr(estimator, "coef_"):
            raise ParameterError(
                f"estimator {k} ({type(estimator).__name__}) has no coef_: train a linear one. If a pipeline "
                "standardises columns, give the campaign [model.scales] and train on these"
            )
    classes = [[str(label) for label in getattr(estimator, "classes_", ())] for estimator in estimators]
    if any(labels != classes[0] for labels in classes):
        raise ParameterError("give estimators that were trained on the same classes")
    slopes = [np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64)) for estimator in estimators]
    if len({slope.shape for slope in slopes}) > 1:
        raise ParameterError("give estimators that were trained on the same columns")
    intercepts = [
        np.broadcast_to(np.ravel(getattr(estimator, "intercept_", 0.0)), len(slopes[0])) for estimator in estimators
    ]
    if np.any(intercepts):
        slopes = [np.column_stack(pair) for pair in zip(intercepts, slopes, strict=True)]
    return np.stack([slope.ravel() for slope in slopes]), len(classes[0])


def _joined_draws(draws: Mapping[str, Any], names: Sequence[str]) -> Array:
    """Join the draws of several variables into vectors, ``(draw, coefficient)``."""
    for name in names:
        if name not in draws:
            raise ParameterError(f"there are no draws of {name!r}; there are {', '.join(sorted(draws))}")
    return np.concatenate([np.reshape(draws[name], (len(draws[name]), -1)) for name in names], axis=1)


@dataclass(frozen=True)
class CandidateNoise(Numbers):
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

    Rows are reduced to Σ(z, y)(z, y)ᵀ, which determines all log-likelihoods. Fresh log-likelihoods are drawn exactly,
    given the Gram matrix of the features.

    Examples
    --------
    >>> model = LinearCandidates([[0.0], [1.0]], noise=1.0)
    >>> model.statistics(([[1.0], [2.0]], [1.0, 2.5]))[:3].round(3)
    array([-5.463, -1.963,  2.   ])
    """

    noise: Vector | float = field(
        metadata=parameter(
            "standard deviation of an answer under each candidate, or one for all",
            CandidateNoise(),
            [1.0, 1.0, 1.0, 1.0],
            known=True,
        )
    )

    description: ClassVar[str] = "a number explained by one of a few known regressions"
    example: ClassVar[Example] = LinearRegression.example
    given_parameters: ClassVar[tuple[str, ...]] = ("coefficients", "noise")
    by_state: ClassVar[tuple[str, ...]] = ("coefficients", "noise")

    @cached_property
    def _noise(self) -> Array:
        return np.array(self.noise)

    @property
    def _likelihoods(self) -> Array:
        return np.column_stack([self._points, self._noise])

    @cached_property
    def _regression(self) -> LinearRegression:
        """The regression that reduces rows, and draws products of features and answers."""
        d = self._points.shape[1]
        return LinearRegression(np.zeros(d), np.eye(d), 1.0)

    @property
    def reduction(self) -> Reduction:
        """The number of rows, and the sums of products of features and answers."""
        return self._regression.reduction

    def summary(self, data: Any, /) -> Array:
        """Return the number of rows, and the sum of (z, y)(z, y)ᵀ."""
        return self._regression.summary(data)

    def from_summary(self, summary: Array, /) -> Array:
        """Map products to log-likelihoods."""
        return self._from_products(self._regression.from_summary(summary))

    def _from_products(self, products: Array) -> Array:
        """Return (ℓ, n, ZᵀZ) of (ZᵀZ, Zᵀy, yᵀy, n), with ℓ = −‖y − Zθ‖²/2σ² − n ln σ − ½n ln 2π."""
        points, n = self._points, products[..., -1:]
        gram, product = self._regression._gram(products), self._regression._product(products)
        fitted = np.einsum("ki,...ij,kj->...k", points, gram, points)
        squares = products[..., -2:-1] - 2 * product @ points.T + fitted
        t = -0.5 * np.maximum(squares, 0.0) / self._noise**2 - n * (np.log(self._noise) + 0.5 * np.log(2 * np.pi))
        return np.concatenate([t, n, gram.reshape(*t.shape[:-1], -1)], axis=-1)

    possible_statistics: ClassVar[str] = (
        "no log-likelihood exceeds the value for a perfect fit, and the products of features have no negative "
        "eigenvalue"
    )

    def possible(self, statistics: Array, /) -> Mask:
        """Return where ZᵀZ is possible with this many rows, and no log-likelihood exceeds that of a perfect fit."""
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
        return ComparedDesign.from_products(t[..., S + 1 :].reshape(*t.shape[:-1], d, d))

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw log-likelihoods of fresh answers to the same features, exactly, given only their Gram matrix."""
        leading = np.broadcast_shapes(np.shape(parameters)[:-1], design.shape[:-1])
        candidate = self._candidate_of(parameters, leading)
        variance = self._noise[candidate] ** 2
        return self._from_products(self._regression._draw_from_design(rng, self._points[candidate], variance, design))

    def _draw_answers(self, rng: Generator, candidate: Indexes, z: Array) -> Array:
        signal = np.einsum("...ij,...j->...i", z, self._points[candidate])
        return np.asarray(signal + self._noise[candidate][..., None] * rng.standard_normal(signal.shape))

    @classmethod
    def from_estimators(cls, estimators: Sequence[Any], noise: Any, prior: Any = None) -> Self:
        """Create candidates from the ``coef_`` and ``intercept_`` of trained linear regressions, and their noise.

        If any of them has an intercept, it is the first coefficient, for a feature that is a constant 1.
        """
        return cls(coefficients=trained_coefficients(estimators)[0], noise=noise, prior=prior)
