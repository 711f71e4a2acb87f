"""Labels and counts explained by features, where θ is one of a few known vectors of coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from troth.core.contract import Array, ComparedDesign, Generator, Indexes, Mask
from troth.core.errors import ParameterError
from troth.core.reductions.expansions import Expansions
from troth.models.family import Example, Matrix
from troth.models.numerics.possible_statistics import are_products, none_above
from troth.models.parameters import Integer, matrix, parameter
from troth.models.regression_candidates import MAX_TABLE_SIZE, RegressionCandidates, trained_coefficients
from troth.models.shared.answered_rows import (
    AnsweredRows,
    CountedAnswers,
    LabelAnswers,
    YesNoAnswers,
    root_of_curvature,
)


@dataclass(frozen=True)
class LabelledCandidates(AnsweredRows, RegressionCandidates):
    """Answers y whose likelihood depends on z·θ, where θ is one of S candidates θ_k.

    A summary is the number of rows and, for every candidate, the log-likelihood ℓ_k, its slope s_k = Zᵀ(y − μ_k) and
    its curvature H_k = ZᵀW_kZ. Log-likelihoods are linear in Zᵀy, so ℓ_j = c_j + θ_j·s_0 and s_j = s_0 + d_j, where c
    and d depend on the features alone. Given candidate k, s_k has mean 0 and covariance H_k, and is normal in the limit
    of many rows: from this limit fresh log-likelihoods are drawn, without the features.
    """

    draws_limit: ClassVar[str] = "many rows"
    limit_measured: ClassVar[str] = "the page “Labelled rows: how good the expansion is”"
    approximation: ClassVar[str] = (
        "decoys are drawn from the normal limit of many rows, with the exact mean and covariance under each candidate, "
        "because statistics do not hold the features; the log-likelihoods themselves are exact"
    )

    def _check_size(self) -> None:
        predictors, size = self._answer.predictors, self._points.shape[1]
        if size % predictors:
            raise ParameterError(
                f"{type(self).__name__}: a row of coefficients must have the same number of entries for each of "
                f"{predictors} classes, not {size} in total",
                parameter="coefficients",
            )
        if self.reduction.width > MAX_TABLE_SIZE:
            raise ParameterError(
                f"{type(self).__name__}: {len(self._points)} candidates with {size} coefficients make reports of "
                f"{self.reduction.width:,} numbers, more than {MAX_TABLE_SIZE:,}: take fewer candidates or features",
                parameter="coefficients",
            )

    @property
    def evidence_cost(self) -> int:  # type: ignore[override]
        """Above 1, because draws of fresh log-likelihoods copy the curvature under every candidate."""
        return 1 + self.reduction.width // 40

    @property
    def _features_of_row(self) -> int:
        return int(self._points.shape[1]) // self._answer.predictors

    @property
    def reduction(self) -> Expansions:
        """The log-likelihood under each candidate, its slope and its curvature."""
        return Expansions(self._answer, self.coefficients)  # type: ignore[arg-type]

    def summary(self, data: Any, /) -> Array:
        """Count the rows, and add up log-likelihoods, slopes and curvatures."""
        return self.reduction.of_datasets(*self._checked(data))

    def from_summary(self, summary: Array, /) -> Array:
        """Put the log-likelihoods first: ℓ, n, the slopes and the curvatures."""
        s = np.asarray(summary, dtype=np.float64)
        by_point, size = self.reduction.by_point(s), self._points.shape[1]
        return self._pack(by_point[..., 0], s[..., :1], by_point[..., 1 : 1 + size], by_point[..., 1 + size :])

    def _pack(self, t: Array, rows: Array, slopes: Array, curvatures: Array) -> Array:
        flat = (part.reshape(*t.shape[:-1], -1) for part in (slopes, curvatures))
        return np.concatenate([t, rows, *flat], axis=-1)

    def _unpack(self, statistics: Array) -> tuple[Array, Array, Array, Array]:
        """Return ℓ, n, and the slopes and upper halves of the curvatures as ``(..., candidate, number)``."""
        t, (candidates, size) = np.asarray(statistics, dtype=np.float64), self._points.shape
        likelihoods, n, slopes, halves = np.split(t, np.cumsum([candidates, 1, candidates * size]), axis=-1)
        slopes, halves = (part.reshape(*t.shape[:-1], candidates, -1) for part in (slopes, halves))
        return likelihoods, n, slopes, halves

    possible_statistics: ClassVar[str] = (
        "no log-likelihood of a label exceeds 0, slopes are finite, and curvatures have no negative eigenvalue"
    )

    def possible(self, statistics: Array, /) -> Mask:
        """Return where no log-likelihood exceeds the maximum for an answer, and curvatures are sums of products."""
        likelihoods, _, _, halves = self._unpack(statistics)
        finite = np.asarray(np.isfinite(np.asarray(statistics)[..., len(self._points) :]).all(axis=-1))
        H = self.reduction.expansions[0].matrix(np.where(finite[..., None, None], halves, 0.0))
        products = are_products(H, np.full(H.shape[:-2], np.inf)).all(axis=-1)
        return none_above(likelihoods, self._answer.max_log_likelihood) & finite & products

    def design(self, statistics: Array, /) -> Array:
        """Return c, d, the curvatures and the number of rows, which do not depend on the answers."""
        likelihoods, n, slopes, halves = self._unpack(statistics)
        first = slopes[..., 0, :]
        constant = likelihoods - first @ self._points.T
        differences, halves = (part.reshape(*n.shape[:-1], -1) for part in (slopes - first[..., None, :], halves))
        return np.concatenate([constant, differences, halves, n], axis=-1)

    def compared_design(self, statistics: Array, /) -> ComparedDesign:
        """Return the design, whose c and d round as the slopes and log-likelihoods that they are differences of."""
        likelihoods, n, slopes, halves = self._unpack(statistics)
        leading, candidates, expansion = n.shape[:-1], len(self._points), self.reduction.expansions[0]
        length = np.sqrt(np.maximum(np.diagonal(expansion.matrix(halves), axis1=-2, axis2=-1), 0.0))
        squares = np.diagonal(expansion.blocks(halves), axis1=-2, axis2=-1)
        rows, columns = np.triu_indices(squares.shape[-1])
        bounds = np.sqrt(np.maximum(squares[..., rows] * squares[..., columns], 0.0))
        summed = np.abs(slopes).sum(axis=-2) + np.sqrt(n) * length.sum(axis=-2)
        sizes = [
            np.abs(likelihoods) + summed @ np.abs(self._points).T + n,
            np.repeat(summed[..., None, :], candidates, axis=-2).reshape(*leading, -1),
            bounds.reshape(*leading, -1),
            np.zeros_like(n),
        ]
        return ComparedDesign(self.design(statistics), np.concatenate(sizes, axis=-1))

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw log-likelihoods of fresh answers, in the limit of many rows: s_k ~ N(0, H_k) under candidate k."""
        candidates, size = self._points.shape
        leading = np.broadcast_shapes(np.shape(parameters)[:-1], design.shape[:-1])
        candidate = self._candidate_of(parameters, leading)
        constant, differences, curvatures, rows = np.split(
            design, [candidates, candidates * (1 + size), design.shape[-1] - 1], axis=-1
        )
        differences = differences.reshape(*design.shape[:-1], candidates, size)
        halves = curvatures.reshape(*design.shape[:-1], candidates, -1)
        scale, roots = root_of_curvature(self.reduction.expansions[0].matrix(halves))
        roots = scale[..., None] * roots
        root = _select(np.broadcast_to(roots, (*leading, *roots.shape[-3:])), candidate)
        shift = _select(np.broadcast_to(differences, (*leading, candidates, size)), candidate)
        first = np.einsum("...ij,...j->...i", root, rng.standard_normal((*leading, size))) - shift
        t = constant + first @ self._points.T
        slopes = first[..., None, :] + differences
        shape = (*leading, curvatures.shape[-1])
        return self._pack(t, np.broadcast_to(rows, (*leading, 1)), slopes, np.broadcast_to(curvatures, shape))

    def _draw_answers(self, rng: Generator, candidate: Indexes, z: Array) -> Array:
        return self._answer.draw(rng, self._predictors(self._points[candidate], z))

    @classmethod
    def from_estimators(cls, estimators: Sequence[Any], prior: Any = None, **given: Any) -> Self:
        """Create candidates from the ``coef_`` and ``intercept_`` of trained linear estimators, as in scikit-learn.

        If any of them has an intercept, it is the first coefficient, for a feature that is a constant 1: set
        ``intercept = true`` in the campaign file. An estimator that does not predict what its coefficients predict is
        rejected.
        """
        table, classes = trained_coefficients(estimators)
        if "classes" in {parameter.name for parameter in cls.parameters()}:
            if classes == 2:  # estimators have coefficients of the second class only; those of the first are 0
                table = np.concatenate([np.zeros_like(table), table], axis=1)
            given = {"classes": classes, **given}
        model = cls(coefficients=table, prior=prior, **given)
        model._check_trained(estimators)
        return model

    def _check_trained(self, estimators: Sequence[Any]) -> None:
        """Reject an estimator whose predictions are not those of its coefficients."""
        d = self._features_of_row
        probe = np.random.default_rng(1).standard_normal((16, d))
        for k, estimator in enumerate(estimators):
            intercept = d - int(estimator.n_features_in_)
            z = np.concatenate([np.ones((16, intercept)), probe[:, intercept:]], axis=1)
            means = self._answer.means(self._predictors(self._points[k], z))
            predict = getattr(estimator, "predict_proba", None)
            predicted = estimator.predict(z[:, intercept:]) if predict is None else predict(z[:, intercept:])
            computed = means.T if len(means) > 1 else means[0]
            if np.ndim(predicted) > np.ndim(computed):
                predicted = predicted[:, 1]
            if not (np.shape(predicted) == computed.shape and np.allclose(predicted, computed, rtol=1e-6, atol=1e-9)):
                raise ParameterError(
                    f"estimator {k} ({type(estimator).__name__}) does not predict what {type(self).__name__} predicts "
                    "from its coefficients: use troth.models.Candidates.from_estimators, which needs no coefficients"
                )


def _select(by_candidate: Array, candidate: Indexes) -> Array:
    """Return the entries of one candidate, ``(..., number…)`` of ``(..., candidate, number…)``."""
    after = by_candidate.ndim - candidate.ndim - 1
    index = candidate.reshape(*candidate.shape, *[1] * (after + 1))
    return np.take_along_axis(by_candidate, index, axis=candidate.ndim).squeeze(candidate.ndim)


@dataclass(frozen=True)
class LogisticCandidates(YesNoAnswers, LabelledCandidates):
    """Labels 0 and 1 with P(y = 1) = 1/(1 + e^(−z·θ)), where θ is one of S known vectors.

    Candidates are draws from last year's posterior, or trained classifiers.

    Examples
    --------
    >>> model = LogisticCandidates([[0.0], [2.0]])
    >>> model.statistics(([[1], [1]], [1, 0]))[:3].round(3)
    array([-1.386, -2.254,  2.   ])
    """

    description: ClassVar[str] = "yes or no, explained by one of a few known regressions"
    example: ClassVar[Example] = Example("who is readmitted", ("age", "stay"), "hospital", target="readmitted")


@dataclass(frozen=True)
class SoftmaxCandidates(LabelAnswers, LabelledCandidates):
    """Labels 0 … classes−1 with P(y = c) ∝ e^(z·θ_c), where θ = (θ_0, θ_1, …) is one of S known vectors.

    Examples
    --------
    >>> model = SoftmaxCandidates([[0.0, 0.0, 0.0], [1.0, 0.0, -1.0]], classes=3)
    >>> model.statistics(([[1], [1]], [0, 2]))[:2].round(3)
    array([-2.197, -2.815])
    """

    coefficients: Matrix = field(
        metadata=parameter(
            "coefficients, a row for each candidate, class by class",
            matrix,
            [[0.0, 0.0, 1.0, 0.5, -1.0, 0.5], [0.0, 0.0, -1.0, 0.5, 1.0, 0.5], [0.0, 0.0, 0.5, -1.0, 0.5, 1.0]],
        )
    )
    classes: int = field(metadata=parameter("number of labels", Integer(2), 3, known=True))

    description: ClassVar[str] = "one of several labels, explained by one of a few known regressions"
    example: ClassVar[Example] = Example("which crop grows", ("rain", "height"), "farm", target="crop")
    given_parameters: ClassVar[tuple[str, ...]] = ("coefficients", "classes")

    @property
    def _likelihoods(self) -> Array:
        by_class = self._points.reshape(len(self._points), self.classes, -1)
        return np.asarray((by_class - by_class[:, :1]).reshape(len(self._points), -1))


@dataclass(frozen=True)
class PoissonCandidates(CountedAnswers, LabelledCandidates):
    """Counts with mean e^(z·θ), where θ is one of S known vectors.

    Examples
    --------
    >>> model = PoissonCandidates([[0.0], [1.0]])
    >>> model.statistics(([[1], [1]], [3, 2]))[:2].round(3)
    array([-2.   , -0.437])
    """

    description: ClassVar[str] = "a count explained by one of a few known regressions"
    example: ClassVar[Example] = Example("how many calls come", ("hour", "rain"), "station", target="calls")
