"""The reduction of features and an answer: a generalised linear log-likelihood, expanded at a public point."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from troth.core.errors import DataError
from troth.core.reductions.answer_likelihoods import Answer
from troth.core.reductions.reduction import Reduction, SummaryDescription
from troth.core.reductions.sorted_columns import Block, sorted_blocks
from troth.core.reductions.sums import SLACK, check_products, checked_rows, solve_normal_equations, within_limits
from troth.core.support import Array, Bounds, Support

_MIN_WEIGHT = 1e-280  # a negligible curvature whose root can still be inverted
_upper_indexes = lru_cache(maxsize=4)(np.triu_indices)  # (rows, columns) of the upper half of a matrix


class AddsAnswers(ABC):
    """The common base of expansions at one point and at several: rows are features and an answer."""

    answer: Answer
    points: tuple[tuple[float, ...], ...]
    support = Support()

    @abstractmethod
    def summaries(self, block: Block) -> Array:
        """Return the summary of each code; overwrites the numbers of the block."""

    @property
    def features(self) -> int:
        """The number of features of a row."""
        return len(self.points[0]) // self.answer.predictors

    @property
    def columns(self) -> int:
        """The number of columns: the features and the answer."""
        return self.features + 1

    @property
    def batch_columns(self) -> int:
        """The number of features, slopes and padding columns, for all points."""
        return (self.columns + self.padding) * len(self.points)

    @property
    def padding(self) -> int:
        """The number of columns to add for the slopes, and for a speed-up: their total is even for each point."""
        rows = self.features + self._slopes
        return rows + rows % 2 - self.columns

    @property
    def _slopes(self) -> int:
        """The number of slopes that are added up; the last of several predictors' follows from the others."""
        return max(1, self.answer.predictors - 1)

    @property
    def width(self) -> int:
        """The length of a summary: n and, for each point, ℓ, the slopes and the halves of curvature matrices."""
        return 1 + len(self.points) * (1 + len(self.points[0]) + self._blocks * len(self._upper[0]))

    @cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(self.answer.predictors), 2))

    @property
    def _blocks(self) -> int:
        """The number of curvature matrices: one for each pair of predictors."""
        return len(self._pairs) or 1

    @property
    def _upper(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        return _upper_indexes(self.features)

    @property
    def labels(self) -> int | None:
        """The number of labels, or None if answers are numbers."""
        return self.answer.labels

    @property
    def target_support(self) -> Support:
        """The possible answers."""
        return self.answer.support

    def rows(self, summary: Array, /) -> Array:
        """Return n."""
        return np.asarray(summary, dtype=np.float64)[..., 0]

    def of_rows(self, table: Array, /) -> Array:
        """Reduce a table ``(row, column)``."""
        return np.asarray(self.add(list(table.T), np.zeros(len(table), dtype=np.intp), 1)[0])

    def add(self, columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], size: int, /) -> Array:
        """Reduce a batch by code."""
        total = np.zeros((size, self.width))
        for present, summaries in self.add_in_parts(columns, codes, size):
            total[present] += summaries
        return total

    def add_in_parts(
        self, columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], size: int, /
    ) -> Iterator[tuple[NDArray[np.intp], Array]]:
        """Yield the codes that have rows, and their summaries."""
        for block in sorted_blocks(columns, codes, size, self.width, self.padding):
            yield block.codes, self.summaries(block)


@dataclass(frozen=True)
class Expansion(AddsAnswers):
    """Reduction of rows (z, y) to n, ℓ = Σ log-likelihood, s = Σ z(y − μ) and H = Σ zzᵀW, all at one point.

    With several predictors (classes), their coefficients are concatenated, and W is a matrix. For one predictor, H is
    stored as the upper half of Σ zzᵀW, by rows; for several, as that of Σ −zzᵀW for each pair of predictors, from which
    the rest follows.

    Attributes
    ----------
    answer
        The likelihood of an answer given its linear predictors.
    point
        The coefficients at which the log-likelihood is expanded: one for each feature, for each predictor in turn.

    Examples
    --------
    >>> from troth.core.reductions.answer_likelihoods import YesNo
    >>> Expansion(YesNo(), (0.0,)).of_rows(np.array([[2.0, 1.0], [1.0, 0.0]])).round(4)
    array([ 2.    , -1.3863,  0.5   ,  1.25  ])
    """

    answer: Answer
    point: tuple[float, ...]

    @property
    def points(self) -> tuple[tuple[float, ...], ...]:  # type: ignore[override]
        """The point, as the only one of several."""
        return (self.point,)

    def describe(self, summary: Array, _: Sequence[str] | None = None, /) -> SummaryDescription | None:
        """Describe how well the public point predicts the answers."""
        if summary[0] == 0 or self.answer.labels is None:
            return None
        probability = f"{np.exp(summary[1] / summary[0]):.0%}"
        return SummaryDescription("labels' average probability at the public point", probability)

    @property
    def predicts(self) -> str:
        """What a linear predictor predicts."""
        return self.answer.predicts

    def coefficients(self, summary: Array, /) -> Array:
        """Return the coefficients after one step of Newton's method from the public point."""
        s = np.asarray(summary, dtype=np.float64)
        return np.array(self.point) + solve_normal_equations(self.curvature(s), self.slope(s))

    def curvature(self, summary: Array, /) -> Array:
        """Return H, ``(..., coefficient, coefficient)``."""
        return self.matrix(summary[..., 2 + len(self.point) :])

    def matrix(self, halves: Array, /) -> Array:
        """Return H from the halves that a summary stores."""
        blocks, d = self.blocks(halves), self.features
        if not self._pairs:
            return blocks[..., 0, :, :]
        H = np.zeros((*halves.shape[:-1], len(self.point), len(self.point)))
        for index, pair in enumerate(self._pairs):
            a, b = (slice(k * d, (k + 1) * d) for k in pair)
            block = blocks[..., index, :, :]
            H[..., a, b] = H[..., b, a] = -block
            H[..., a, a] += block
            H[..., b, b] += block
        return H

    def blocks(self, halves: Array, /) -> Array:
        """Return Σ zzᵀW, or Σ −zzᵀW for each pair of predictors, ``(..., block, feature, feature)``."""
        rows, columns = self._upper
        blocks = halves.reshape(*halves.shape[:-1], self._blocks, len(rows))
        matrix = np.empty((*blocks.shape[:-1], self.features, self.features))
        matrix[..., rows, columns] = matrix[..., columns, rows] = blocks
        return matrix

    def slope(self, summary: Array, /) -> Array:
        """Return s, ``(..., coefficient)``."""
        return np.asarray(summary[..., 2 : 2 + len(self.point)])

    def magnitudes(self, summary: Array, /) -> Array:
        """Return ℓ, the slopes and the diagonals of curvature matrices, which bound their entries."""
        return np.take(summary, self._magnitude_indexes, axis=-1)

    @cached_property
    def _magnitude_indexes(self) -> NDArray[np.intp]:
        rows, columns = self._upper
        size = len(self.point)
        diagonal = np.flatnonzero(rows == columns)
        diagonals = [2 + size + block * len(rows) + diagonal for block in range(self._blocks)]
        return np.concatenate([np.arange(1, 2 + size), *diagonals])

    def of_datasets(self, z: Array, y: Array, /) -> Array:
        """Reduce datasets ``(..., row, feature)`` with answers ``(..., row)``."""
        d = z.shape[-1]
        eta = np.moveaxis(z @ np.reshape(self.point, (-1, d)).T, -1, 0)
        expanded = self.answer.expand(eta.reshape(len(eta), -1), y.ravel())
        log_likelihood, *slopes = (np.reshape(x, y.shape) for x in (expanded.log_likelihood, *expanded.slopes))
        transposed, (rows, columns) = np.swapaxes(z, -1, -2), self._upper
        out = np.empty((*y.shape[:-1], self.width))
        out[..., 0], out[..., 1] = y.shape[-1], log_likelihood.sum(axis=-1)
        for k, slope in enumerate(slopes):
            out[..., 2 + k * d : 2 + (k + 1) * d] = (transposed @ slope[..., None])[..., 0]
        for half, weight in zip(self._halves(out), expanded.weights, strict=True):
            half[...] = ((transposed * np.reshape(weight, y.shape)[..., None, :]) @ z)[..., rows, columns]
        return out

    def _halves(self, summaries: Array) -> list[Array]:
        """Return views of summaries that hold the half of each curvature matrix."""
        return np.split(summaries[..., 2 + len(self.point) :], self._blocks, axis=-1)

    @cached_property
    def _contrasts(self) -> Array:
        """The coefficients of one predictor; of several, those of all but the first, minus those of the first."""
        coefficients = np.reshape(self.point, (self.answer.predictors, -1))
        return coefficients[1:] - coefficients[0] if self._pairs else coefficients

    def _predictors(self, z: Array) -> Array:
        """Return η, ``(predictor, row)``, with a single row if all rows have the same η, and so the same weights."""
        contrasts, first = self._contrasts, int(bool(self._pairs))
        used = np.flatnonzero(contrasts.any(axis=0))
        feature = z[used[:1], : None if len(used) else 1]
        if len(used) < 2 and bool((feature == feature[:, :1]).all()):  # as at a prior mean of intercepts alone
            z = z[:, :1]
        eta = np.zeros((first + len(contrasts), z.shape[1]))
        if len(used):
            np.matmul(contrasts, z, out=eta[first:])
        return eta

    def summaries(self, block: Block) -> Array:
        """Return the summary of each code; overwrites the numbers of the block."""
        z, d = block.z, self.features
        summaries = np.empty((len(block.codes), self.width))
        log_likelihood, slopes, weights = self.answer.expand(self._predictors(z[:d]), z[d])
        summaries[:, 0] = block.sizes
        summaries[:, 1] = np.add.reduceat(log_likelihood, np.cumsum(block.sizes) - block.sizes)
        halves, (rows, columns) = self._halves(summaries), self._upper
        one_weight = len(weights[0]) == 1  # one matrix product suffices
        z[d : d + self._slopes] = slopes[: self._slopes]
        z[d + self._slopes :] = 0.0
        for index in range(1 if one_weight else self._blocks)[::-1]:
            # a matrix times its own transpose is half the work; the last rows of the first product are the slopes
            scaled = np.empty((d, z.shape[1])) if index else z
            if not one_weight:
                root = np.sqrt(np.maximum(weights[index], _MIN_WEIGHT))
                np.multiply(z[:d], root, out=scaled[:d])
                scaled[d:] /= root
            product = np.empty((len(summaries), len(scaled), len(scaled)))
            for out, rows_of_code in zip(product, block.parts, strict=True):
                part = scaled[:, rows_of_code]
                np.matmul(part, part.T, out=out)
            halves[index][...] = product.reshape(len(summaries), -1).take(rows * len(scaled) + columns, axis=1)
        if one_weight:
            for half, weight in zip(halves[::-1], weights[::-1], strict=True):
                np.multiply(halves[0], weight, out=half)
        block_products = product[:, d : d + self._slopes, :d]
        summaries[:, 2 : 2 + self._slopes * d] = block_products.reshape(len(summaries), -1)
        if self._pairs:
            summaries[:, 2 + self._slopes * d : 2 + len(self.point)] = -block_products.sum(axis=1)
        return summaries

    def check(self, summary: Array, values: Bounds | None = None, constant: Collection[int] = (), /) -> None:
        """Raise an error for a summary that no data can have."""
        n = checked_rows(summary)
        if n == 0:
            return
        if summary[1] > self.answer.max_log_likelihood:
            raise DataError(f"the log-likelihood of labels is {summary[1]:.9g}, above 0")
        blocks = self.blocks(summary[2 + len(self.point) :])
        curvatures = np.diagonal(self.curvature(summary))
        for column in constant:
            limit = self.answer.max_weight * n * (1 + SLACK)
            if column < self.features and (curvatures[column :: self.features] > limit).any():
                raise DataError(f"the intercept, a constant 1, has a curvature above {limit:g} over {n:.0f} rows")
        check_products(blocks, n, "curvatures")
        if (np.abs(self.slope(summary)) > 0)[curvatures == 0].any():
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
        for block, weight in enumerate(weights):
            for i in range(d):
                for j in range(i, d):
                    aggregates[f"curvature_{block}_{i}_{j}"] = (weight * z[i] * z[j]).sum()
        return aggregates

    def collect(self, rows: float, aggregates: Mapping[str, Any], /) -> Array:
        """Return n, ℓ, the slopes and the curvatures."""
        slopes = [float(aggregates[f"slope_{k}"]) for k in range(len(self.point))]
        upper = list(zip(*self._upper, strict=True))
        halves = [float(aggregates[f"curvature_{block}_{i}_{j}"]) for block in range(self._blocks) for i, j in upper]
        return within_limits(np.array([rows, float(aggregates["log_likelihood"]), *slopes, *halves]))

    def convert(self, summary: Array, target: Reduction, /) -> Array:
        """Return the summary itself, if ``target`` is the same expansion."""
        if target != self:
            raise DataError("the history was expanded at another point, or for other answers: read its rows again")
        return np.asarray(summary, dtype=np.float64)


def _linear(weights: Sequence[float], columns: Sequence[Any]) -> Any:
    terms = [weight * x for weight, x in zip(weights, columns, strict=True) if weight]
    return sum(terms[1:], terms[0]) if terms else columns[0] * 0.0
