"""Features and an answer: the log-likelihood of a generalised linear model is expanded at a public point."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import DataError
from troth.core.limits import LARGEST_SUM
from troth.core.reductions.normal_equations import solved
from troth.core.reductions.sorted_columns import sorted_columns
from troth.core.support import Array, Bounds, Support

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from troth.core.reductions.answer_likelihoods import Answer
    from troth.core.reductions.reduction import Reduction

_AT_ONCE = 1 << 18  # entries of matrices that are held together
_ROWS_AT_ONCE = 1 << 13  # rows, more if one code has more
_LEAST_WEIGHT = 1e-280  # below which curvature is nothing, and its root still has an inverse
_SLACK = 1e-9  # how far, relatively, rounding may push honest sums beyond what data can have


@dataclass(frozen=True)
class Expansion:
    """Rows (z, y) become n, ℓ = Σ log-likelihood, s = Σ z(y − μ) and H = Σ zzᵀW, all at one point of coefficients.

    With several predictors (classes) coefficients follow each other, those of the first first, and W is a matrix. H is
    stored as its upper half, by rows.

    Attributes
    ----------
    answer
        How an answer depends on its linear predictors.
    point
        The coefficients at which the log-likelihood is expanded, as many for each predictor as there are features.

    Examples
    --------
    >>> from troth.core.reductions.answer_likelihoods import YesNo
    >>> Expansion(YesNo(), (0.0,)).of_rows(np.array([[2.0, 1.0], [1.0, 0.0]])).round(4)
    array([ 2.    , -1.3863,  0.5   ,  1.25  ])
    """

    answer: Answer
    point: tuple[float, ...]
    support: Support = field(default_factory=Support)

    @property
    def features(self) -> int:
        """How many features a row has."""
        return len(self.point) // self.answer.predictors

    @property
    def columns(self) -> int:
        """The features, and the answer."""
        return self.features + 1

    @property
    def batch_columns(self) -> int:
        """All of them."""
        return self.columns

    @property
    def labels(self) -> int | None:
        """How many labels an answer has."""
        return self.answer.labels

    @property
    def target_support(self) -> Support:
        """The values of an answer."""
        return self.answer.support

    @property
    def width(self) -> int:
        """N, ℓ, a slope for each coefficient, and a curvature for each pair of them."""
        size = len(self.point)
        return 2 + size + size * (size + 1) // 2

    @property
    def _upper(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        return _upper_half(len(self.point))

    def rows(self, summary: Array, /) -> Array:
        """Return n."""
        return np.asarray(summary, dtype=np.float64)[..., 0]

    def in_words(self, summary: Array, labels: Sequence[str] | None = None, /) -> tuple[str, str]:
        """Return how well the public point predicts the answers."""
        del labels
        if summary[0] == 0 or self.answer.labels is None:
            return "", ""
        return "labels' average probability at the public point", f"{np.exp(summary[1] / summary[0]):.0%}"

    @property
    def predicts(self) -> str:
        """What one linear predictor predicts."""
        return self.answer.predicts

    def coefficients(self, summary: Array, /) -> Array:
        """Take one step of Newton's method from the public point."""
        slope = np.asarray(summary[2 : 2 + len(self.point)], dtype=np.float64)
        return np.array(self.point) + solved(self.curvature(np.asarray(summary, dtype=np.float64)), slope)

    def curvature(self, summary: Array, /) -> Array:
        """Return H, ``(..., coefficient, coefficient)``."""
        size = len(self.point)
        matrix = np.empty((*summary.shape[:-1], size, size))
        rows, columns = self._upper
        matrix[..., rows, columns] = summary[..., 2 + size :]
        matrix[..., columns, rows] = summary[..., 2 + size :]
        return matrix

    def slope(self, summary: Array, /) -> Array:
        """Return s, ``(..., coefficient)``."""
        return np.asarray(summary[..., 2 : 2 + len(self.point)])

    def magnitudes(self, summary: Array, /) -> Array:
        """Return ℓ, the slopes and the diagonal of H, which bounds its entries."""
        rows, columns = self._upper
        size = len(self.point)
        diagonal = 2 + size + np.flatnonzero(rows == columns)
        return np.asarray(summary[..., [*range(1, 2 + size), *diagonal]])

    def of_rows(self, table: Array, /) -> Array:
        """Add up a table ``(row, column)``."""
        return np.asarray(self.add(list(table.T), np.zeros(len(table), dtype=np.intp), 1)[0])

    def of_datasets(self, z: Array, y: Array, /) -> Array:
        """Add up datasets ``(..., row, feature)`` with answers ``(..., row)``."""
        d, size = z.shape[-1], len(self.point)
        eta = np.moveaxis(z @ np.reshape(self.point, (-1, d)).T, -1, 0)
        expanded = self.answer.expand(eta.reshape(len(eta), -1), y.ravel())
        log_likelihood, *slopes = (np.reshape(x, y.shape) for x in (expanded.log_likelihood, *expanded.slopes))
        turned = np.swapaxes(z, -1, -2)
        out, H = np.empty((*y.shape[:-1], self.width)), np.zeros((*y.shape[:-1], size, size))
        out[..., 0], out[..., 1] = y.shape[-1], log_likelihood.sum(axis=-1)
        for k, slope in enumerate(slopes):
            out[..., 2 + k * d : 2 + (k + 1) * d] = (turned @ slope[..., None])[..., 0]
        for place, weight in enumerate(expanded.weights):
            self._put(place, (turned * np.reshape(weight, y.shape)[..., None, :]) @ z, H)
        rows, columns = self._upper
        out[..., 2 + size :] = H[..., rows, columns]
        return out

    @cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(self.answer.predictors), 2))

    def _put(self, place: int, block: Array, H: Array) -> None:
        """Add the sum of zzᵀ by one of the weights to what it is part of, of the upper half of H."""
        d = self.features
        if not self._pairs:
            H[..., :d, :d] = block
            return
        a, b = (slice(k * d, (k + 1) * d) for k in self._pairs[place])
        H[..., a, b] = -block
        H[..., a, a] += block
        H[..., b, b] += block

    def add(self, columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], size: int, /) -> Array:
        """Add up a batch by code: columns are sorted by code, expanded, and each code's part is multiplied."""
        total = np.zeros((size, self.width))
        total[:, 0] = np.bincount(codes, minlength=size)
        sizes = total[:, 0].astype(np.intp)
        z = sorted_columns(columns, codes, sizes, self.answer.predictors - 1)
        present = np.flatnonzero(sizes)
        stops = np.cumsum(sizes)[present]
        first = 0
        while first < len(present):  # as many codes at a time as have few enough rows and matrices for the cache
            start = stops[first] - sizes[present[first]]
            last = max(first + 1, int(np.searchsorted(stops, start + _ROWS_AT_ONCE)))
            some = slice(first, min(last, first + max(1, _AT_ONCE // (len(self.point) + 1) ** 2)))
            self._add_sorted(z[:, start : stops[some][-1]], stops[some] - start, present[some], total)
            first = some.stop
        return total

    def _add_sorted(self, z: Array, stops: NDArray[np.intp], present: NDArray[np.intp], total: Array) -> None:
        """Write the sums of codes that are present; the rows of each end where it says, and are overwritten."""
        size, d, predictors = len(self.point), self.features, self.answer.predictors
        starts = np.concatenate([[0], stops[:-1]])
        log_likelihood, slopes, weights = self.answer.expand(np.reshape(self.point, (predictors, -1)) @ z[:d], z[d])
        total[present, 1] = np.add.reduceat(log_likelihood, starts)
        H = np.zeros((len(present), size, size)) if self._pairs else np.empty(0)
        for place, weight in reversed(list(enumerate(weights))):
            # a matrix times its own transpose is half the work, and the last rows of the first are the slopes
            root = np.sqrt(np.maximum(weight, _LEAST_WEIGHT))
            scaled = np.empty((d, z.shape[1])) if place else z
            np.multiply(z[:d], root, out=scaled[:d])
            if not place:
                np.divide(slopes, root, out=scaled[d:])
            product = np.empty((len(present), len(scaled), len(scaled)))
            for out, start, stop in zip(product, starts, stops, strict=True):
                part = scaled[:, start:stop]
                np.matmul(part, part.T, out=out)
            if self._pairs:
                self._put(place, product[:, :d, :d], H)
        rows, columns = self._upper
        total[present, 2 : 2 + size] = product[:, d:, :d].reshape(len(present), size)
        whole = H if self._pairs else product
        total[present, 2 + size :] = whole.reshape(len(present), -1).take(rows * whole.shape[-1] + columns, axis=1)

    def check(self, summary: Array, values: Bounds | None = None, constant: Collection[int] = (), /) -> None:  # noqa: ARG002
        """Refuse a summary that no data can have."""
        n = float(summary[0])
        if n < 0 or n != np.floor(n):
            raise DataError(f"the number of rows is {n:.12g}, not a whole number of at least 0")
        if n == 0:
            if np.any(summary):
                raise DataError("there are sums but no rows")
            return
        if summary[1] > self.answer.best:
            raise DataError(f"the log-likelihood of labels is {summary[1]:.9g}, above 0")
        H, slope = self.curvature(summary), self.slope(summary)
        diagonal = np.diagonal(H)
        if (diagonal < 0).any():
            raise DataError(f"a sum of squares is {diagonal.min():.9g}, below 0")
        for column in constant:
            most = self.answer.most_weight * n * (1 + _SLACK)
            if column < self.features and (diagonal[column :: self.features] > most).any():
                raise DataError(f"the intercept, a constant 1, has a curvature above {most:g} over {n:.0f} rows")
        scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        eigenvalues = np.linalg.eigvalsh(H / np.outer(scale, scale))
        if eigenvalues[0] < -_SLACK * len(eigenvalues):
            raise DataError(
                "the matrix of curvatures is not positive semi-definite: no data have such sums "
                f"(least eigenvalue {eigenvalues[0]:.3g})"
            )
        rank, most_rank = int((eigenvalues > 1e-6).sum()), n * self.answer.predictors
        if rank > most_rank:
            raise DataError(f"{n:.0f} rows cannot have curvatures of rank {rank}")
        if (np.abs(slope) > 0)[diagonal == 0].any():
            raise DataError("a feature without curvature has a slope: no data have such sums")

    def expressions(self, columns: Sequence[Any], labels: Sequence[Any] | None = None, /) -> dict[str, Any]:
        """Sum the log-likelihood, each slope and each curvature."""
        *raw, y = columns
        z = [x.cast("float64") for x in raw]
        d = len(z)
        eta = [_linear(self.point[k * d : (k + 1) * d], z) for k in range(self.answer.predictors)]
        log_likelihood, slopes, weights = self.answer.expand_columns(eta, y, labels)
        aggregates = {"log_likelihood": log_likelihood.sum()}
        aggregates |= {f"slope_{k * d + i}": (z[i] * slope).sum() for k, slope in enumerate(slopes) for i in range(d)}
        for place, weight in enumerate(weights):
            for i in range(d):
                for j in range(i, d):
                    aggregates[f"curvature_{place}_{i}_{j}"] = (weight * z[i] * z[j]).sum()
        return aggregates

    def collect(self, rows: float, aggregates: Mapping[str, Any], /) -> Array:
        """Gather n, ℓ, the slopes and the curvatures."""
        d, size = self.features, len(self.point)
        slopes = [float(aggregates[f"slope_{k}"]) for k in range(size)]
        H = np.zeros((size, size))
        for place in range(len(self._pairs) or 1):
            block = np.empty((d, d))
            for i in range(d):
                for j in range(i, d):
                    block[i, j] = block[j, i] = float(aggregates[f"curvature_{place}_{i}_{j}"])
            self._put(place, block, H)
        summary = np.array([rows, float(aggregates["log_likelihood"]), *slopes, *H[self._upper]])
        if not (np.abs(summary) <= LARGEST_SUM).all():
            raise DataError(f"the values are too large to add up: a sum exceeds {LARGEST_SUM:g}; rescale them")
        return summary

    def convert(self, summary: Array, wanted: Reduction, /) -> Array:
        """Return the summary, if it was taken at the point that is wanted."""
        if wanted != self:
            raise DataError("the history was expanded at another point, or for other answers: read its rows again")
        return np.asarray(summary, dtype=np.float64)


@lru_cache(maxsize=4)
def _upper_half(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of the upper half of a matrix."""
    return np.triu_indices(size)


def _linear(weights: Sequence[float], columns: Sequence[Any]) -> Any:
    terms = [weight * x for weight, x in zip(weights, columns, strict=True) if weight]
    return sum(terms[1:], terms[0]) if terms else columns[0] * 0.0
