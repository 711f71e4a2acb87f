"""The reduction of numbers to their count, sums and products."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from troth.core.errors import DataError
from troth.core.formats import few_digits
from troth.core.reductions.reduction import Reduction, SummaryDescription
from troth.core.reductions.sorted_columns import Block, sorted_blocks
from troth.core.reductions.sums import SLACK, check_products, checked_rows, solve_normal_equations, within_limits
from troth.core.support import Array, Bounds, Support

_MAX_SHOWN = 6  # columns whose means are described


@dataclass(frozen=True)
class Moments:
    """Reduction of rows to n and, optionally, Σz and Σzzᵀ of centred columns z = x − centre.

    Attributes
    ----------
    centre
        What is subtracted from each column; its length is the number of columns.
    linear, squares
        Whether the summary contains Σz and Σzzᵀ (by rows); n always comes first.
    prediction
        Weights of all columns but the last in a prediction that is subtracted from the last one, so that a regression
        reduces residuals; all zero if empty.
    support
        The possible values of an entry.

    Examples
    --------
    >>> Moments(centre=(1.0,), squares=True).of_rows(np.array([[1.0], [3.0]]))
    array([2., 2., 4.])
    """

    centre: tuple[float, ...] = (0.0,)
    linear: bool = True
    squares: bool = False
    prediction: tuple[float, ...] = ()
    support: Support = field(default_factory=Support)

    labels = None

    @property
    def columns(self) -> int:
        """The number of columns of a row."""
        return len(self.centre)

    @property
    def width(self) -> int:
        """The length of a summary: one for n, one for each sum, one for each product."""
        return self._before_squares + self.columns**2 * self.squares

    @property
    def batch_columns(self) -> int:
        """All columns if there are products, otherwise 1."""
        return self.columns if self.squares else 1

    @property
    def residual(self) -> bool:
        """Whether a prediction from the other columns is subtracted from the last one."""
        return any(self.prediction)

    @property
    def _before_squares(self) -> int:
        return 1 + self.columns * self.linear

    def rows(self, summary: Array, /) -> Array:
        """Return n."""
        return np.asarray(summary, dtype=np.float64)[..., 0]

    def describe(self, summary: Array, _: Sequence[str] | None = None, /) -> SummaryDescription | None:
        """Describe the mean of each column, or of the first few."""
        if not self.linear or summary[0] == 0:
            return None
        means = [centre + total / summary[0] for centre, total in zip(self.centre, summary[1:], strict=False)]
        shown = [few_digits(mean) for mean in means[:_MAX_SHOWN]] + ["…"] * (self.columns > _MAX_SHOWN)
        several = self.columns > 1
        return SummaryDescription("means" if several else "mean", ", ".join(shown), several)

    @property
    def predicts(self) -> str:
        """The answer itself if rows are features and an answer; otherwise empty."""
        return "{}" if self.squares and not self.linear else ""

    def coefficients(self, summary: Array, /) -> Array:
        """Return the solution of the normal equations plus the prediction."""
        d = self.columns - 1
        products = np.asarray(summary[1:], dtype=np.float64).reshape(d + 1, d + 1)
        correction = solve_normal_equations(products[:d, :d], products[:d, d])
        return np.asarray(correction + np.array(self.prediction or (0.0,) * d))

    def magnitudes(self, summary: Array, /) -> Array:
        """Return the sums, or the squares, which bound all products."""
        return summary[..., self._before_squares :: self.columns + 1] if self.squares else summary[..., 1:]

    def of_rows(self, table: Array, /) -> Array:
        """Reduce tables ``(..., row, column)``."""
        z = table - np.array(self.centre) if any(self.centre) else table
        if self.residual:
            z = z.copy()
            z[..., -1] -= table[..., :-1] @ np.array(self.prediction)
        *leading, rows, columns = z.shape
        parts = [np.full((*leading, 1), float(rows))]
        if self.linear:
            parts.append(z.sum(axis=-2))
        if self.squares:
            parts.append((np.swapaxes(z, -1, -2) @ z).reshape(*leading, columns * columns))
        return np.concatenate(parts, axis=-1)

    def add(self, columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], size: int, /) -> Array:
        """Reduce a batch by code."""
        total = np.zeros((size, self.width))
        for present, summaries in self.add_in_parts(columns, codes, size):
            total[present] += summaries
        return total

    def add_in_parts(
        self, columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], size: int, /
    ) -> Iterator[tuple[NDArray[np.intp], Array]]:
        """Yield the codes that have rows, and their summaries: a few at a time if there are products, else all."""
        if self.squares:
            for block in sorted_blocks(columns, codes, size, self.width):
                yield block.codes, self._products(block)
            return
        total = np.empty((size, self.width))
        total[:, 0] = np.bincount(codes, minlength=size)
        for index, (column, centre) in enumerate(zip(columns, self.centre, strict=True), 1):
            values = column.astype(np.float64, copy=False)
            total[:, index] = np.bincount(codes, weights=values - centre if centre else values, minlength=size)
        present = np.flatnonzero(total[:, 0])
        yield present, total if len(present) == size else total[present]

    def _products(self, block: Block) -> Array:
        """Return the summary of each code; centres the numbers of the block in place."""
        z, d, start, centres = block.z, self.columns, self._before_squares, np.array(self.centre)[:, None]
        if self.residual:
            z[-1] -= (np.array(self.prediction) + 0.0) @ z[:-1]
        if centres.any():
            z -= centres
        summaries = np.empty((len(block.codes), self.width))
        summaries[:, 0] = block.sizes
        if self.linear:
            summaries[:, 1:start] = np.add.reduceat(z, np.cumsum(block.sizes) - block.sizes, axis=1).T
        for out, rows in zip(summaries[:, start:].reshape(-1, d, d), block.parts, strict=True):
            np.matmul(z[:, rows], z[:, rows].T, out=out)
        return summaries

    def with_fewer_rows(self, summary: Array, rows: int, rng: np.random.Generator, /) -> Array:
        """Return the sums of fewer rows with the same means; sums of integers are rounded up or down at random.

        Examples
        --------
        >>> counts = Moments(support=Support(0, integer=True))
        >>> counts.with_fewer_rows(np.array([7.0, 14.0]), 2, np.random.default_rng(1))
        array([2., 4.])
        """
        thinned = np.asarray(summary * rows / summary[0], dtype=np.float64)
        return np.floor(thinned + rng.random(thinned.shape)) if self.support.integer else thinned

    @property
    def has_means(self) -> bool:
        """Whether the summary contains sums, which determine the means."""
        return self.linear

    def means(self, summaries: Array, /) -> Array:
        """Return the means of the columns; the centre if there are no rows."""
        n, part = summaries[..., :1], summaries[..., 1 : self.columns + 1]
        return np.asarray(np.divide(part, n, out=np.zeros_like(part), where=n > 0) + np.array(self.centre))

    def with_means(self, summaries: Array, target: Array, /) -> Array:
        """Add a constant to the values of each column to reach these means, as far as the support allows."""
        n, d = summaries[:, :1], self.columns
        total = n * np.clip(target, self.support.low, self.support.high)
        if self.support.integer:
            total = np.round(total)
        move = np.where(n > 0, total - n * self.means(summaries), 0.0)
        changed = summaries.copy()
        changed[:, 1 : d + 1] = np.where(n > 0, total - n * np.array(self.centre), 0.0)
        if self.squares:
            delta = np.divide(move, n, out=np.zeros_like(move), where=n > 0)
            cross = summaries[:, 1 : d + 1, None] * delta[:, None, :]
            added = cross + np.swapaxes(cross, -1, -2) + n[..., None] * delta[:, :, None] * delta[:, None, :]
            changed[:, d + 1 :] += added.reshape(len(summaries), d * d)
        return changed

    def shifted(self, summaries: Array, by: Array, _: np.random.Generator, /) -> Array:
        """Add a constant to the values of each column."""
        return self.with_means(summaries, self.means(summaries) + by)

    def thinned(self, summaries: Array, rows: Array, rng: np.random.Generator, /) -> Array:
        """Thin a sum of counts binomially, and other sums in proportion, which preserves their means."""
        n = summaries[:, 0]
        if self.squares:  # products of fewer rows than columns have a lower rank
            rows = np.maximum(rows, np.minimum(n, self.columns + 1))
        ratio = np.divide(rows, n, out=np.zeros_like(n), where=n > 0)
        thinned = summaries * ratio[:, None]
        if self.support.integer and not any(self.centre) and self.columns == 1:
            thinned[:, 1] = rng.binomial(summaries[:, 1].astype(np.int64), ratio)
        return thinned

    @property
    def has_answers(self) -> bool:
        """Whether there are products of several uncentred columns, of which the last may be the answer."""
        return self.columns > 1 and self.squares and not any(self.centre)

    def with_scaled_answers(self, summaries: Array, factor: float, /) -> Array:
        """Return summaries with the last column multiplied by a factor."""
        factors = np.ones(self.columns)
        factors[-1] = factor
        sums = factors if self.linear else factors[:0]
        return np.asarray(summaries * np.concatenate([np.ones(1), sums, np.outer(factors, factors).ravel()]))

    def for_history(self) -> Moments:
        """Return the reduction with sums and, for single values, squares, from which fits learn the variance."""
        if self.columns == 1 and not self.support.integer:
            return replace(self, linear=True, squares=True)
        return self if self.linear else replace(self, linear=True, prediction=())

    def matrix(self, summary: Array) -> Array:
        """Return Σzzᵀ, ``(..., d, d)``; with sums, including the row and column of a leading constant 1."""
        d, leading = self.columns, summary.shape[:-1]
        gram = np.asarray(summary[..., self._before_squares :]).reshape(*leading, d, d)
        if not self.linear:
            return gram
        total = np.empty((*leading, d + 1, d + 1))
        total[..., 0, :] = total[..., :, 0] = summary[..., : d + 1]
        total[..., 1:, 1:] = gram
        return total

    def check(self, summary: Array, values: Bounds | None = None, constant: Collection[int] = (), /) -> None:
        """Raise an error for a summary that no data can have; ``values`` bound all columns but constant ones."""
        n = checked_rows(summary)
        if self.linear and not self.residual:
            self._check_sums(n, np.asarray(summary[1 : 1 + self.columns]), values)
        if self.squares and n:
            matrix = self.matrix(summary)
            if not np.allclose(matrix, matrix.T, rtol=SLACK, atol=SLACK * np.abs(matrix).max()):
                raise DataError("the matrix of squares and products is not symmetric")
            problem = "the sum of squares is too small for the sum" if self.linear and self.columns == 1 else ""
            check_products(matrix, n, "squares and products", problem)
            self._check_squares(n, self.magnitudes(summary), values, constant)

    def _check_sums(self, n: float, totals: Array, values: Bounds | None) -> None:
        low, high = self.support.low, self.support.high
        if values is not None:
            low, high = max(low, values[0]), min(high, values[1])
        for column, (total, centre) in enumerate(zip(totals, self.centre, strict=True)):
            slack = SLACK * max(abs(total), n * max(1.0, abs(centre)))
            min_total, max_total = (n * (low - centre) if n else 0.0), (n * (high - centre) if n else 0.0)
            strict = self.support.open and low == self.support.low
            if total < min_total - slack or total > max_total + slack or (strict and n and total <= min_total):
                raise DataError(
                    f"the sum of column {column} is {total:.9g}, which {n:.0f} rows of values that are each "
                    f"{Support(low, high, self.support.integer, self.support.open)} cannot have"
                )
            if self.support.integer and total != np.floor(total):
                raise DataError(f"the sum of column {column} is {total:.12g}, but the values are whole numbers")

    def _check_squares(self, n: float, squares: Array, values: Bounds | None, constant: Collection[int]) -> None:
        """Raise an error for sums of squares that constants, or values within declared bounds, cannot have."""
        for column, (square, centre) in enumerate(zip(squares, self.centre, strict=True)):
            if column in constant and square != n:
                raise DataError(f"the intercept, a constant 1, has a sum of squares of {square:g} over {n:.0f} rows")
            if values is None or column in constant or (self.residual and column == self.columns - 1):
                continue
            limit = n * max(abs(values[0] - centre), abs(values[1] - centre)) ** 2
            if square > limit * (1 + SLACK):
                raise DataError(
                    f"the squares of column {column} add up to {square:.9g}, which {n:.0f} values from "
                    f"{values[0]:g} to {values[1]:g} cannot have"
                )

    def expressions(self, columns: Sequence[Any], labels: Sequence[Any] | None = None, /) -> dict[str, Any]:
        """Return the sum of each column and each product."""
        raw = [column.cast("float64") for column in columns]
        z = [x - centre if centre else x for x, centre in zip(raw, self.centre, strict=True)]
        for weight, x in zip(self.prediction, raw, strict=False):
            if weight:
                z[-1] = z[-1] - weight * x
        aggregates = {f"sum_{i}": x.sum() for i, x in enumerate(z)} if self.linear else {}
        if self.squares:
            pairs = combinations_with_replacement(range(len(z)), 2)
            aggregates |= {f"product_{i}_{j}": (z[i] * z[j]).sum() for i, j in pairs}
        return aggregates

    def collect(self, rows: float, aggregates: Mapping[str, Any], /) -> Array:
        """Return n, the sums and the products."""
        names = [f"sum_{i}" for i in range(self.columns)] if self.linear else []
        if self.squares:
            pairs = ((i, j) for i in range(self.columns) for j in range(self.columns))
            names += [f"product_{min(pair)}_{max(pair)}" for pair in pairs]
        return within_limits(np.array([rows, *(float(aggregates[name]) for name in names)]))

    def convert(self, summary: Array, target: Reduction, /) -> Array:
        """Return moments around another centre or prediction, without the rows.

        Examples
        --------
        >>> Moments(squares=True).convert(np.array([2.0, 30.0, 500.0]), Moments(centre=(10.0,), squares=True))
        array([  2.,  10., 100.])
        """
        if not isinstance(target, Moments):
            raise DataError(f"the history has {self.columns} columns of numbers, but the model needs {target!r}")
        if self.columns != target.columns:
            raise DataError(f"the history has {self.columns} columns, but the model needs {target.columns}")
        if (target.linear or any(target.centre) or any(self.centre)) and not self.linear:
            raise DataError("the history has no sums of the values, only their products: add them up with linear=True")
        if target.squares and not self.squares:
            raise DataError("the model needs squares, which the history does not have: add them up with squares=True")
        return self._shifted(np.asarray(summary, dtype=np.float64), target)

    def _shifted(self, s: Array, target: Moments) -> Array:
        d = self.columns
        shift = np.array(self.centre) - np.array(target.centre)
        n = s[..., :1]
        parts = [n]
        total = s[..., 1 : d + 1] if self.linear else np.zeros((*s.shape[:-1], d))
        if target.linear:
            parts.append(total + n * shift)
        if target.squares:
            matrix = s[..., self._before_squares :].reshape(*s.shape[:-1], d, d)
            cross = total[..., :, None] * shift
            matrix = matrix + cross + np.swapaxes(cross, -1, -2) + n[..., None] * np.outer(shift, shift)
            residual = np.eye(d)
            for sign, moments in ((1.0, self), (-1.0, target)):
                if moments.residual:
                    residual[-1, :-1] += sign * np.array(moments.prediction)
            matrix = residual @ matrix @ residual.T
            parts.append(matrix.reshape(*s.shape[:-1], d * d))
        return np.concatenate(parts, axis=-1)
