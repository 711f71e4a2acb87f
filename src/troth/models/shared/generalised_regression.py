"""Regressions of labels or counts whose log-likelihood is expanded at a public point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from troth.core.contract import Array, Generator, Mask
from troth.core.errors import DataError, ParameterError
from troth.core.reductions import Expansion, Reduction
from troth.core.sensitivity import Peers, Sensitivity, refuted_without_data
from troth.models.family import Matrix, Vector, summed
from troth.models.first_guess import Column, FirstGuess, answers_of, standardised
from troth.models.fitting.initial_parameters import FreeParameters, Positive, Real
from troth.models.fitting.modes import fit_at_modes
from troth.models.linear_regression import KnownNoiseRegression
from troth.models.numerics.possible_statistics import are_products
from troth.models.parameters import Numbers, Precision, parameter
from troth.models.shared.answered_rows import AnsweredRows, draw_features, planned_features, root_of_curvature
from troth.models.shared.features_at_hand import KeptFeatures
from troth.models.shared.regression import Regression

_TOLERANCE = 1e-10  # of Newton's method for the mode, relative to the coefficients
_MAX_STEPS = 100


@dataclass(frozen=True)
class ExpandedRegression(AnsweredRows, Regression):
    """Answers y whose likelihood depends on z·θ, expanded at a public point θ₀.

    H = ZᵀW(θ₀)Z and g = Zᵀ(y − μ(θ₀)) + H(θ₀ − mean) add over rows and providers. In the limit of many rows g is
    N(H(θ − mean), H). The summary is (n, log-likelihood at θ₀, Zᵀ(y − μ), what `Expansion` keeps of H).
    """

    precision: Matrix | Vector | float = field(  # type: ignore[assignment]
        metadata=parameter("prior precision of the coefficients: a number, a diagonal or a matrix", Precision(), 1.0)
    )
    point: Vector | None = field(
        default=None,
        kw_only=True,
        metadata=parameter(
            "public coefficients at which the likelihood is expanded; the prior mean if empty",
            Numbers(length_of="mean"),
        ),
    )

    evidence_limit: ClassVar[str] = "many rows with coefficients near the public point"
    draws_limit: ClassVar[str] = evidence_limit
    limit_measured: ClassVar[str] = "the page “Labelled rows: how good the expansion is”"
    approximation: ClassVar[str] = (
        "the likelihood is expanded at a public point, which is exact in the limit of many rows; decoys are drawn from "
        "that normal limit for providers of whom only statistics are known, without features"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.mean) % self._classes:
            raise ParameterError(
                f"{type(self).__name__}: mean must have the same number of entries for each of "
                f"{self._classes} classes, not {len(self.mean)} in total",
                parameter="mean",
            )

    answers: ClassVar[str] = ""
    scale_of_intercept: ClassVar[float] = 1.0
    scale_of_slopes: ClassVar[float] = 0.5

    @classmethod
    def standard_prior(cls, coefficients: int, given: Mapping[str, Any], /) -> dict[str, Any]:
        """Return a prior for columns on public scales: coefficients of 0, independent, for each class."""
        size = coefficients * int(given.get("classes", 1))
        return {"mean": [0.0] * size, "precision": cls.scale_of_slopes**-2}

    @classmethod
    def suits_target(cls, target: Column, /) -> bool:
        """Return whether the family models this kind of answers."""
        return answers_of(target) == cls.answers

    @classmethod
    def first_guess_of(cls, columns: Sequence[Column], target: Column, /) -> FirstGuess:
        """Estimate scales and the intercept from the data; slopes are 0 ± 0.5 for labels and 0 ± 0.2 for counts."""
        z, scales, levels = standardised([*columns]) if columns else (np.ones((len(target.values), 1)), {}, {})
        slopes = z.shape[1] - 1
        intercepts = cls._guess_intercepts(target)
        precisions = [cls.scale_of_intercept**-2, *[cls.scale_of_slopes**-2] * slopes]
        parameters: dict[str, Any] = {
            "mean": [number for intercept in intercepts for number in (intercept, *[0.0] * slopes)],
            "precision": [float(f"{number:.6g}") for number in precisions * len(intercepts)],
        }
        if len(intercepts) > 1:
            parameters["classes"] = len(intercepts)
        return FirstGuess(parameters, target.labels, from_data=True, scales=scales, levels=levels)

    @classmethod
    def _guess_intercepts(cls, target: Column) -> list[float]:
        """Return the coefficient of the constant for each predictor, rounded to one digit."""
        raise NotImplementedError

    @property
    def _classes(self) -> int:
        return self._answer.predictors

    @property
    def _features_of_row(self) -> int:
        return len(self.mean) // self._classes

    @property
    def reduction(self) -> Expansion:
        """The log-likelihood at the public point, its slope and its curvature."""
        return Expansion(self._answer, tuple(self.mean if self.point is None else self.point))

    @property
    def public_coefficients(self) -> Array:
        """The public point."""
        return np.array(self.reduction.point)

    @cached_property
    def _prior_precision(self) -> Array:
        precision = np.array(self.precision)
        return np.asarray(np.diag(precision) if precision.ndim == 1 else precision)

    @cached_property
    def _point_from_mean(self) -> Array:
        """θ₀ − mean."""
        return np.asarray(np.array(self.reduction.point) - np.array(self.mean), dtype=np.float64)

    def summary(self, data: Any, /) -> Array:
        """Sum over rows: their number, and the log-likelihood at the public point, its slope and its curvature."""
        z, y = self._checked(data)
        return summed(self._sums, z, y)

    def _sums(self, z: Array, y: Array, point: Array | None = None) -> Array:
        """Return summaries of ``(..., row, feature)`` and ``(..., row)``."""
        reduction = self.reduction if point is None else Expansion(self._answer, tuple(point.tolist()))
        return reduction.of_datasets(z, y)

    def _expanded(self, summary: Array) -> tuple[Array, Array]:
        """Return H and g, the slope moved from the public point to the prior mean."""
        H = self.reduction.curvature(summary)
        return H, self.reduction.slope(summary) + H @ self._point_from_mean

    def plan(self, rows: Any, /) -> Array:
        """Return the design of a report with these features, ``(rows, d)``."""
        z = planned_features(rows, self._features_of_row)
        return np.asarray(self.design(self.from_summary(self._sums(z, np.zeros(z.shape[:-1])))))

    def expanded_at_mode(self, data: Any, /) -> Self:
        """Return the model with the same prior, expanded at the most probable coefficients given public rows (z, y).

        The mode is found by Newton's method, with steps halved while they overshoot.

        Examples
        --------
        >>> from troth.models import LogisticRegression
        >>> model = LogisticRegression(mean=[0.0], precision=1.0).expanded_at_mode(([[1.0]] * 4, [1, 1, 1, 0]))
        >>> round(model.point[0], 4)
        0.5052
        """
        z, y = self._checked(data)
        theta, mean = np.array(self.reduction.point), np.array(self.mean)

        def objective(theta: Array, summary: Array) -> float:
            return float(summary[1] - 0.5 * (((theta - mean) @ self._prior_root) ** 2).sum())

        summary = self._sums(z, y, theta)
        for _ in range(_MAX_STEPS):
            slope = self.reduction.slope(summary) - self._prior_precision @ (theta - mean)
            step = np.linalg.solve(self._prior_precision + self.reduction.curvature(summary), slope)
            moved = self._sums(z, y, theta + step)
            while not objective(theta + step, moved) >= objective(theta, summary) and np.abs(step).max() > _TOLERANCE:
                step = step / 2
                moved = self._sums(z, y, theta + step)
            theta, summary = theta + step, moved
            if np.abs(step).max() <= _TOLERANCE * (1 + np.abs(theta).max()):
                break
        return self._replace(point=theta)

    def draw_own_coefficients(self, _: Generator, parameters: Array, /) -> Array:
        """Draw a provider's coefficients: by default the common ones."""
        return parameters

    def draw_data(self, rng: Generator, parameters: Array, rows: Any, /) -> tuple[Array, Array]:
        """Draw (z, y) from the likelihood, with features ``rows`` or that many rows of standard normal features."""
        theta = self.draw_own_coefficients(rng, np.asarray(parameters))
        z = draw_features(rng, rows, self._features_of_row, theta.shape[:-1])
        return z, self._answer.draw(rng, self._predictors(theta, z))

    def base_measure(self, summaries: Array, reduction: Reduction, /) -> Array:
        """Return the expanded log-likelihood at the prior mean."""
        s = reduction.convert(summaries, self.reduction)
        shift, H = self._point_from_mean, self.reduction.curvature(s)
        slope = self.reduction.slope(s)
        return np.asarray(s[..., 1] - slope @ shift - 0.5 * (H @ shift) @ shift)

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, _: Mapping[str, Any], /) -> FreeParameters:
        """Start from the pooled coefficients, with the standard deviation that one row leaves."""
        if not isinstance(reduction, Expansion):
            raise DataError(f"{cls.__name__} needs rows that were expanded at a public point")
        total = summaries.sum(axis=(0, 1))
        H, slope = reduction.curvature(total), reduction.slope(total)
        if np.linalg.matrix_rank(H) < len(H):
            H = H + 1e-6 * np.trace(H) / len(H) * np.eye(len(H))
        mean = np.array(reduction.point) + np.linalg.solve(H, slope)
        scale = np.sqrt(total[0] / np.maximum(np.diagonal(H), 1e-12))
        return {"mean": Real(mean, scale), "precision": Positive(1 / scale**2)}

    @classmethod
    def fit(cls, history: Any, **options: Any) -> Any:
        """Fit the prior to past days by maximum marginal likelihood.

        With rows (`History.from_tables`), each day is expanded at its own mode and the model at the prior mean. Without
        rows, or with ``point``, everything is expanded at one point: ``point``, or that of the history.
        """
        if isinstance(history.reduction, Expansion):
            if history.tables is not None and "point" not in options:
                return fit_at_modes(cls, history, options)
            point = tuple(options.get("point") or history.reduction.point)
            history = history.reduced_by(replace(history.reduction, point=point))
            options = {**options, "point": point}
        return super().fit(history, **options)

    good_within: ClassVar[float] = 1.0
    """The distance of linear predictors from those at the public point up to which the expansion is accurate."""

    def _pooled(self, statistics: Array) -> tuple[Array, Array]:
        """Return H and g in units of the prior, assuming that providers do not differ."""
        raise NotImplementedError

    def posterior_mean(self, statistics: Array, /) -> Array:
        """Return the posterior mean of the coefficients, assuming equal providers, ``(..., coefficient)``."""
        H, g = self._pooled(np.asarray(statistics, dtype=np.float64))
        gamma = np.linalg.solve(np.eye(len(self.mean)) + H, g[..., None])[..., 0]
        return np.array(self.mean) + gamma @ self._prior_scale.T

    def warning_about(self, statistics: Array, /) -> str:
        """Warn if z·θ is too far from z·θ₀, in root mean square over rows, for the expansion to be accurate.

        E(z·(θ − θ₀))² is tr(HΣ) over the sum of weights. It is taken over the prior, from which decoys come, and at the
        posterior mean of all reports, where twice the distance is tolerated because the expansion overshoots. Weights
        are those at the first coefficient of the point, the constant.

        Examples
        --------
        >>> from troth.models import PoissonRegression
        >>> narrow, wide = (PoissonRegression(mean=[0, 0], precision=precision) for precision in (25, 1))
        >>> rows = [[1, 60], [1, 70]], [0, 1]
        >>> wide.warning_about(wide.statistics(rows)).partition(":")[0]
        'the expansion is poor here'
        >>> rows = [[1, 0.5], [1, -0.5]], [0, 1]
        >>> narrow.warning_about(narrow.statistics(rows))
        ''
        """
        t = np.asarray(statistics, dtype=np.float64)
        t = t.reshape(-1, t.shape[-1]).sum(axis=0)
        mean = self._answer.means(self.public_coefficients.reshape(self._classes, -1)[:, :1])
        weight = float(self.rows(t) * (mean * (1 - mean) if self._answer.labels is not None else mean).sum())
        if not weight > 0:
            return ""
        H, shift = self._pooled(t)[0], self._point_from_mean @ self._prior_root
        step = (self.posterior_mean(t) - self.public_coefficients) @ self._prior_root
        squares = float(np.trace(H) + shift @ H @ shift), float(step @ H @ step) / 4
        over_prior, half_distance = (float(np.sqrt(max(square, 0.0) / weight)) for square in squares)
        if max(over_prior, half_distance) <= self.good_within:
            return ""
        if over_prior > self.good_within:
            problem = f"linear predictors are {over_prior:.2g} from those at the public point on average over the prior"
            remedy = "put columns on public scales ([model.scales]), or take a narrower prior"
        else:
            problem = f"these reports put linear predictors {2 * half_distance:.2g} from those at the public point"
            remedy = "take the point from past or public rows (expanded_at_mode)"
        return f"the expansion is poor here: {problem}, and it is good up to about {self.good_within:g}; {remedy}"

    def with_features(self, features: Any, rows: int | None = None, /) -> KeptFeatures:
        """Return the model of a provider with these features, ``(rows, d)``, whose decoys come from the likelihood.

        Pass one such model per provider to a rule; statistics stay the same. If the features are a sample from ``rows``
        rows, each of them stands for several rows.

        Examples
        --------
        >>> import troth
        >>> from troth.models import LogisticRegression
        >>> model, rng = LogisticRegression(mean=[0, 0], precision=1), np.random.default_rng(1)
        >>> data = [model.draw_data(rng, np.array([1.0, -1.0]), 50) for _ in range(4)]
        >>> t = np.stack([model.statistics(each) for each in data])
        >>> troth.LineUp(decoys=99).pay([model.with_features(z) for z, _ in data], t, budget=4.0, rng=rng).shape
        (4,)
        """
        return KeptFeatures(self, features, rows)

    def draw_slope(self, rng: Generator, coefficients: Array, features: Array, counts: Array | None = None, /) -> Array:
        """Draw answers to features ``(row, d)``, and return Zᵀ(y − μ) at the public point, ``(..., coefficient)``.

        ``counts`` contains the number of rows with each of the features, by default one.
        """
        sums = self._answer.draw_sums(rng, self._predictors(coefficients, features), counts)
        means = self._answer.means(self._predictors(np.array(self.reduction.point), features))
        expected = means if counts is None else means * counts
        slopes = (sums - expected.reshape(len(sums), *(1,) * (sums.ndim - 2), -1)) @ features
        return np.moveaxis(slopes, 0, -2).reshape(coefficients.shape)


@dataclass(frozen=True)
class GeneralisedRegression(ExpandedRegression, KnownNoiseRegression):
    """θ ~ N(mean, precision⁻¹), with the Λ of a linear regression with unit noise.

    The statistic is (H by rows, g, 0, n).
    """

    def from_summary(self, summary: Array, /) -> Array:
        """Unpack H and g."""
        s = np.asarray(summary, dtype=np.float64)
        return self._pack(*self._expanded(s), np.zeros(s.shape[:-1]), s[..., 0])

    possible_statistics: ClassVar[str] = (
        "the matrix of curvatures has no negative eigenvalue, and no higher rank than rows allow"
    )

    def possible(self, statistics: Array, /) -> Mask:
        """Test whether H can be the curvature of that many rows."""
        t = np.asarray(statistics, dtype=np.float64)
        return are_products(self._gram(t), self.rows(t) * self._classes)

    def _pooled(self, statistics: Array) -> tuple[Array, Array]:
        return self._in_units_of_prior(self._gram(statistics), self._product(statistics))

    def posterior(self, statistics: Array, /) -> Self:
        """N(mean + Λ⁻¹h, Λ⁻¹), expanded at the same point."""
        return self._replace(**self._prior_given(np.asarray(statistics)), point=self.reduction.point)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw statistics with the same curvature, in the limit of many rows: g ~ N(H(θ − mean), H)."""
        return self._with_answers(self.draw_answer_part(rng, parameters, design), design)

    def answer_part(self, statistics: Array, /) -> Array:
        """Return g."""
        return self._product(np.asarray(statistics, dtype=np.float64))

    def draw_answer_part(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw g ~ N(H(θ − mean), H)."""
        H, size = self._gram(design), len(self.mean)
        leading = np.broadcast_shapes(parameters.shape[:-1], design.shape[:-1])
        scale, root = root_of_curvature(H)
        white = rng.standard_normal((*leading, size))
        shift = np.broadcast_to(parameters - np.array(self.mean), (*leading, size))
        return np.asarray(scale * _times(root, white) + _times(H, shift))

    def _with_answers(self, product: Array, design: Array) -> Array:
        """Return statistics with this g and the curvature and rows of a design."""
        leading, size = product.shape[:-1], len(self.mean)
        H = np.broadcast_to(self._gram(design), (*leading, size, size))
        return self._pack(H, product, np.zeros(leading), np.broadcast_to(design[..., -1], leading))

    def from_slope(self, slope: Array, design: Array, /) -> Array:
        """Return statistics from the slope of answers at the public point and the curvature of a design."""
        return self._with_answers(self.answers_of_slope(slope, design), design)

    def answers_of_slope(self, slope: Array, design: Array, /) -> Array:
        """Return g from the slope of answers at the public point."""
        return np.asarray(slope + self._gram(design) @ self._point_from_mean)

    def expected_log_evidence(self, design: Array, /) -> Array:
        """−½ ln det(P + H), up to a constant and in the limit of many rows."""
        return np.asarray(-0.5 * np.linalg.slogdet(self._prior_precision + self._gram(design))[1])

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:
        """As many peer rows as features suffice in the limit of many rows, for features in general position.

        Proof. Given peers' features g is normal with mean H(μ − mean) and covariance H + HΣH: if H has full rank this
        determines μ and Σ. With fewer rows than features some direction of the coefficients is not observed. ∎
        """
        if refutation := refuted_without_data(peers):
            return refutation
        d, count = self._features_of_row, sum(n for _, n in peers)
        if count >= d:
            reason = f"{count} peer rows determine all {d} features, in general position, in the limit of many rows"
            return Sensitivity("undecided" if self._classes > 1 else "proved", reason)
        if rows > 0:
            pair = ("a row whose features peers never see", "the same row with another answer")
            return Sensitivity("refuted", f"{count} peer rows cannot determine all {d} features", 0.0, pair)
        return Sensitivity("undecided", "there are no rows")


def _times(matrix: Array, vectors: Array) -> Array:
    """Multiply ``(..., d, d)`` by ``(more, ..., d)``; for a single matrix as one matrix product."""
    if matrix.ndim == 2:
        return np.asarray(vectors @ matrix.T)
    return np.asarray(np.einsum("...ij,...j->...i", matrix, vectors))
