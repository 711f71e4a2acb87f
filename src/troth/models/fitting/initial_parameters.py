"""Initial parameters of a prior's fit: estimates by the method of moments, as functions of free numbers.

All free numbers start at 0 and are scaled so that a plausible step has size 1. The moments are the variances of days'
means and of rows within days.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from troth.core.contract import Array
from troth.core.errors import DataError
from troth.core.reductions import Counts, Moments, Reduction

_REACH = 16.0  # the largest absolute value of a free number


@dataclass(frozen=True)
class _AroundOrigin:
    origin: Any

    @property
    def free(self) -> int:
        """The count of free numbers."""
        return int(np.size(self.origin))


@dataclass(frozen=True)
class Real(_AroundOrigin):
    """A real number or a vector of them: origin + unit·free."""

    unit: Any
    reach: ClassVar[float] = _REACH

    def read(self, free: Array) -> Any:
        """Return the parameter for these free numbers."""
        value = np.atleast_1d(self.origin) + np.atleast_1d(self.unit) * free
        return value if np.ndim(self.origin) else float(value[0])


@dataclass(frozen=True)
class Positive(_AroundOrigin):
    """A number above a bound, or a vector of them: above + origin·exp(free) with |free| ≤ ``reach``."""

    above: float = 0.0
    reach: float = _REACH

    def read(self, free: Array) -> Any:
        """Return the parameter for these free numbers."""
        value = np.atleast_1d(self.origin) * np.exp(free) + self.above
        return value if np.ndim(self.origin) else float(value[0])


@dataclass(frozen=True)
class PositiveDefinite:
    """A covariance matrix DLLᵀD with D = diag(scale); the free numbers are L's entries, logarithms on the diagonal.

    Examples
    --------
    >>> PositiveDefinite(np.array([2.0, 1.0])).read(np.zeros(3))
    array([[4., 0.],
           [0., 1.]])
    """

    scale: Array
    reach: ClassVar[float] = _REACH

    @property
    def free(self) -> int:
        """The count of free numbers."""
        return len(self.scale) * (len(self.scale) + 1) // 2

    def read(self, free: Array) -> Array:
        """Return the parameter for these free numbers."""
        size = len(self.scale)
        root = np.zeros((size, size))
        root[np.tril_indices(size)] = free
        root[np.diag_indices(size)] = np.exp(np.diagonal(root))
        root = np.diag(self.scale) @ root
        return np.asarray(root @ root.T)


FreeParameters: TypeAlias = dict[str, Real | Positive | PositiveDefinite]


class DayMoments(NamedTuple):
    """Moments of each column over days."""

    means: Array  # of days, (day, column)
    centre: Array  # mean of the days' means
    between: Array  # variance of the days' means
    within: Array  # variance of one row around its day's mean
    rows: Array  # of days, (day,)

    @property
    def scale(self) -> Array:
        """Standard deviation of days' means in excess of sampling noise."""
        return np.asarray(np.sqrt(self.excess(self.within) + 1e-12 * self.within))

    def excess(self, within: Array) -> Array:
        """Variance of days' means in excess of sampling noise, given the variance ``within`` of a row in a day."""
        return np.maximum(self.between - within * np.mean(1 / self.rows), 0.05 * self.between)

    @property
    def noise(self) -> Array:
        """Standard deviation of one row."""
        return np.asarray(np.sqrt(np.maximum(self.within, 1e-3 * self.between)))

    @property
    def strength(self) -> Array:
        """Strength of the prior in rows: within-day variance over between-day variance."""
        return np.asarray(self.within / np.maximum(self.scale**2, 1e-300))


def normal_parameters(family: str, summaries: Array, reduction: Reduction) -> FreeParameters:
    """Return mean, scale and noise for values that are normal around a day's normal mean."""
    days = day_moments(family, summaries, reduction)
    return {
        "mean": Real(days.centre[0], np.sqrt(days.between[0])),
        "scale": Positive(days.scale[0]),
        "noise": Positive(days.noise[0]),
    }


def day_moments(family: str, summaries: Array, reduction: Reduction) -> DayMoments:
    """Return the moments of days; reject counts of codes and columns without variation."""
    if not isinstance(reduction, Moments):
        raise DataError(f"{family} needs numbers, but the history has counts of {reduction.labels} codes")
    if not reduction.linear:
        raise DataError(f"{family} needs sums of the values")
    total, d = summaries.sum(axis=1), reduction.columns
    rows = total[:, 0]
    means = total[:, 1 : d + 1] / rows[:, None] + np.array(reduction.centre)
    centre, between = means.mean(axis=0), means.var(axis=0, ddof=1)
    within = _within(summaries, reduction)
    if (between <= 0).any() and (within <= 0).any():
        raise DataError(f"column {int(np.argmin(between))}: every value is the same, so no prior can be fitted to it")
    return DayMoments(means, centre, between, within, rows)


def _within(summaries: Array, reduction: Moments) -> Array:
    """Return the variance of one row around its day's mean, from squares or else from providers' means."""
    d = reduction.columns
    n, s = summaries[..., 0], summaries[..., 1 : d + 1]
    total, count = s.sum(axis=1), n.sum(axis=1)
    if reduction.squares:
        matrices = summaries[..., 1 + d :].reshape(*summaries.shape[:-1], d, d)
        squares = np.diagonal(matrices, axis1=-2, axis2=-1).sum(axis=1)
        freedom = float((count - 1).sum())
    else:
        squares = (s**2 / np.maximum(n, 1.0)[..., None]).sum(axis=1)
        freedom = float(((n > 0).sum(axis=1) - 1).sum())
    scatter = np.maximum(squares - total**2 / count[:, None], 0.0).sum(axis=0)
    return np.asarray(scatter / max(freedom, 1.0))


def dirichlet_moments(family: str, summaries: Array, reduction: Reduction) -> Array:
    """Return the pseudo-counts of a Dirichlet with roughly the mean and the variance of the days' shares."""
    if not isinstance(reduction, Counts):
        raise DataError(f"{family} needs codes that were counted, but the history has sums of numbers")
    total = summaries.sum(axis=1)
    totals = total.sum(axis=0)
    if (totals == 0).any():
        code = int(np.argmin(totals))
        raise DataError(f"code {code} never occurs in the history, so its weight in the prior cannot be fitted")
    rates = total / total.sum(axis=1, keepdims=True)
    mean = rates.mean(axis=0)
    excess = rates.var(axis=0).sum() - (mean * (1 - mean)).sum() * float(np.mean(1 / total.sum(axis=1)))
    strength = max((mean * (1 - mean)).sum() / max(excess, 1e-4) - 1, 0.5)
    return np.asarray(mean * strength)


def beta_moments(rates: Array) -> tuple[float, float]:
    """Return the pseudo-counts of a Beta with roughly the mean and the variance of these rates."""
    mean, variance = float(rates.mean()), max(float(rates.var()) * 0.7, 1e-6)
    strength = max(mean * (1 - mean) / variance - 1, 0.5)
    return mean * strength, (1 - mean) * strength


def gamma_moments(rates: Array) -> tuple[float, float]:
    """Return shape and rate of a Gamma with roughly the mean and the variance of these rates."""
    variance = max(float(rates.var()) * 0.7, 1e-6 * float(rates.mean()) ** 2)
    shape = float(rates.mean()) ** 2 / variance
    return shape, shape / float(rates.mean())


class RegressionMoments(NamedTuple):
    """Coefficients of the pooled regression, the coefficient that moves answers by one noise, and the noise."""

    mean: Array
    scale: Array
    noise: float


def regression_moments(summaries: Array, reduction: Reduction) -> RegressionMoments:
    """Regress the pooled answers on their features; reject linearly dependent features."""
    if not isinstance(reduction, Moments) or not reduction.squares or any(reduction.centre) or reduction.residual:
        raise DataError("a regression needs products of features and answers, taken around zero")
    d = reduction.columns - 1
    total = summaries.sum(axis=(0, 1))
    matrix = total[1 + reduction.columns * reduction.linear :].reshape(d + 1, d + 1)
    if np.linalg.matrix_rank(matrix[:d, :d]) < d:
        raise DataError("the features of the history are linearly dependent, so their coefficients cannot be fitted")
    mean = np.linalg.solve(matrix[:d, :d], matrix[:d, d])
    rows = float(total[0])
    noise = float(np.sqrt(max(matrix[d, d] - mean @ matrix[:d, d], 1e-12 * matrix[d, d]) / max(rows - d, 1.0)))
    if noise <= 0:
        raise DataError("every answer of the history is 0, so no prior can be fitted to it")
    return RegressionMoments(mean, noise / np.sqrt(np.diagonal(matrix)[:d] / rows), noise)
