"""Which sums over rows a family needs, so that data can be reduced where it lives.

Counts, sums and Gram matrices are one thing: a row is augmented to a vector z, and products of its entries are added
up over rows. A family declares z and the products; an engine (a loop over file fragments, Spark, SQL) does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from troth.core.errors import DataError
from troth.core.support import Array, Support

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

_SLACK = 1e-9  # how far, relatively, rounding may push honest sums beyond what data can have


@dataclass(frozen=True)
class Tally:
    """One column of codes 0 … size−1 is counted by code: z is its one-hot vector.

    Examples
    --------
    >>> Tally(3).of_rows(np.array([[0.0], [2.0], [2.0]]))
    array([1., 0., 2.])
    """

    size: int

    columns = 1

    @property
    def support(self) -> Support:
        """The codes."""
        return Support(0, self.size - 1, integer=True)

    @property
    def width(self) -> int:
        """How many sums there are."""
        return self.size

    def rows(self, sums: Array) -> Array:
        """Count the rows behind sums."""
        return np.asarray(np.sum(sums, axis=-1), dtype=np.float64)

    def telling(self, sums: Array) -> Array:
        """Return those sums that show whether any value was not a finite number: counts never are spoiled."""
        return sums[..., :0]

    def of_rows(self, table: Array) -> Array:
        """Add up a table ``(row, column)``."""
        return np.bincount(table[:, 0].astype(np.intp), minlength=self.size).astype(np.float64)

    def check(self, sums: Array, values: tuple[float, float] | None = None, constant: Collection[int] = ()) -> None:  # noqa: ARG002
        """Refuse sums that no data can have."""
        if (sums < 0).any() or (sums != np.floor(sums)).any():
            at = int(np.argmax((sums < 0) | (sums != np.floor(sums))))
            raise DataError(f"the count of code {at} is {sums[at]:.12g}, not a whole number of at least 0")


@dataclass(frozen=True)
class Moments:
    """Columns x are centred, z = x − centre, and n, Σz and Σzzᵀ are added up, as far as they are wanted.

    Attributes
    ----------
    centre
        What is subtracted from each column; its length is the number of columns.
    linear, squares
        Whether Σz and Σzzᵀ (by rows) are wanted; n always comes first.
    prediction
        Weights of all columns but the last in a prediction that is subtracted from the last one, as a regression on
        residuals wants it; all zero if empty.
    support
        The values that an entry may take.

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

    @property
    def columns(self) -> int:
        """How many columns a row has."""
        return len(self.centre)

    @property
    def width(self) -> int:
        """How many sums there are."""
        return 1 + self.columns * self.linear + self.columns**2 * self.squares

    @property
    def residual(self) -> bool:
        """Whether the last column is taken around a prediction from the others."""
        return any(self.prediction)

    def rows(self, sums: Array) -> Array:
        """Count the rows behind sums."""
        return np.asarray(sums, dtype=np.float64)[..., 0]

    def telling(self, sums: Array) -> Array:
        """Return those sums that show whether any value was not a finite number: squares bound all products."""
        first = 1 + self.columns * self.linear
        return sums[..., first :: self.columns + 1] if self.squares else sums[..., 1:]

    def of_rows(self, table: Array) -> Array:
        """Add up a table ``(row, column)``."""
        z = table - np.array(self.centre)
        if self.residual:
            z[:, -1] -= table[:, :-1] @ np.array(self.prediction)
        parts = [np.array([float(len(z))])]
        if self.linear:
            parts.append(z.sum(axis=0))
        if self.squares:
            parts.append((z.T @ z).ravel())
        return np.concatenate(parts)

    def matrix(self, sums: Array) -> Array:
        """Return Σzzᵀ with, if sums are at hand, the row and column of a leading constant 1."""
        d = self.columns
        gram = np.asarray(sums[1 + d * self.linear :]).reshape(d, d)
        if not self.linear:
            return gram
        total = np.empty((d + 1, d + 1))
        total[0, 0], total[0, 1:], total[1:, 0], total[1:, 1:] = sums[0], sums[1 : d + 1], sums[1 : d + 1], gram
        return total

    def check(self, sums: Array, values: tuple[float, float] | None = None, constant: Collection[int] = ()) -> None:
        """Refuse sums that no data can have; declared values bound all columns but constant ones."""
        n = float(sums[0])
        if n < 0 or n != np.floor(n):
            raise DataError(f"the number of rows is {n:.12g}, not a whole number of at least 0")
        if n == 0 and np.any(sums):
            raise DataError("there are sums but no rows")
        if self.linear and not self.residual:
            self._check_sums(n, np.asarray(sums[1 : 1 + self.columns]), values)
        if self.squares and n:
            self._check_squares(n, self.matrix(sums))
            self._check_reach(n, self.telling(sums), values, constant)

    def _check_sums(self, n: float, totals: Array, values: tuple[float, float] | None) -> None:
        low, high = self.support.low, self.support.high
        if values is not None:
            low, high = max(low, values[0]), min(high, values[1])
        for column, (total, centre) in enumerate(zip(totals, self.centre, strict=True)):
            slack = _SLACK * max(abs(total), n * max(1.0, abs(centre)))
            least, most = (n * (low - centre) if n else 0.0), (n * (high - centre) if n else 0.0)
            strict = self.support.open and low == self.support.low
            if total < least - slack or total > most + slack or (strict and n and total <= least):
                raise DataError(
                    f"the sum of column {column} is {total:.9g}, which {n:.0f} rows of values that are each "
                    f"{Support(low, high, self.support.integer, self.support.open)} cannot have"
                )
            if self.support.integer and total != np.floor(total):
                raise DataError(f"the sum of column {column} is {total:.12g}, but whole numbers add up to a whole one")

    def _check_reach(
        self, n: float, squares: Array, values: tuple[float, float] | None, constant: Collection[int]
    ) -> None:
        """Refuse squares that values within declared bounds cannot have."""
        if values is None:
            return
        for column, (square, centre) in enumerate(zip(squares, self.centre, strict=True)):
            most = n * max(abs(values[0] - centre), abs(values[1] - centre)) ** 2
            free = column in constant or (self.residual and column == self.columns - 1)
            if square > most * (1 + _SLACK) and not free:
                raise DataError(
                    f"the squares of column {column} add up to {square:.9g}, which {n:.0f} values from "
                    f"{values[0]:g} to {values[1]:g} cannot have"
                )

    def _check_squares(self, n: float, matrix: Array) -> None:
        if not np.allclose(matrix, matrix.T, rtol=_SLACK, atol=_SLACK * np.abs(matrix).max()):
            raise DataError("the matrix of squares and products is not symmetric")
        scale = np.sqrt(np.maximum(np.diagonal(matrix), 0))
        if (np.diagonal(matrix) < 0).any():
            raise DataError(f"a sum of squares is {np.diagonal(matrix).min():.9g}, below 0")
        scale[scale == 0] = 1.0
        values = np.linalg.eigvalsh(matrix / np.outer(scale, scale))
        if values[0] < -_SLACK * len(values):
            what = (
                "the sum of squares is too small for the sum"
                if self.linear and self.columns == 1
                else "the matrix of squares and products is not positive semi-definite"
            )
            raise DataError(f"{what}: no data have such sums (least eigenvalue {values[0]:.3g})")
        rank = int((values > 1e-6).sum())
        if rank > n:
            raise DataError(f"{n:.0f} rows cannot have sums of squares and products of rank {rank}")


Sums: TypeAlias = Tally | Moments


def add_by_code(declared: Sums, columns: Sequence[NDArray[np.generic]], codes: NDArray[np.integer], size: int) -> Array:
    """Add up rows by code: ``(size, width)`` sums of columns whose rows belong to codes 0 … size−1.

    Counts take one pass; sums of one column two. Squares gather the columns into one buffer sorted by code, and
    multiply each code's part with itself.
    """
    if isinstance(declared, Tally):
        cell = codes * declared.size
        cell += columns[0].astype(cell.dtype, copy=False)
        return np.bincount(cell, minlength=size * declared.size).reshape(size, declared.size).astype(np.float64)
    total = np.empty((size, declared.width))
    total[:, 0] = np.bincount(codes, minlength=size)
    if not declared.squares:
        for place, (column, centre) in enumerate(zip(columns, declared.centre, strict=True), 1):
            values = column.astype(np.float64, copy=False)
            total[:, place] = np.bincount(codes, weights=values - centre if centre else values, minlength=size)
        return total
    _add_squares(declared, columns, codes, total)
    return total


def _add_squares(
    declared: Moments, columns: Sequence[NDArray[np.generic]], codes: NDArray[np.integer], t: Array
) -> None:
    d, n = declared.columns, len(codes)
    sizes = t[:, 0].astype(np.intp)
    sorted_already = bool((codes[1:] >= codes[:-1]).all())
    small = codes.astype(np.uint16) if len(t) <= 1 << 16 else codes  # sixteen bits are sorted by radix
    order = None if sorted_already else np.argsort(small, kind="stable")
    z = np.empty((d, n))
    for row, column, centre in zip(z, columns, declared.centre, strict=True):
        if order is None or column.dtype != np.float64:
            row[:] = column if order is None else np.take(column, order)
        else:
            np.take(column, order, out=row, mode="clip")
        if centre:
            row -= centre
    if declared.residual:
        z[-1] -= (np.array(declared.prediction) + 0.0) @ (z[:-1] + np.array(declared.centre)[:-1, None])
    ends = np.cumsum(sizes)
    start = 1 + d * declared.linear
    t[sizes == 0, 1:] = 0.0
    squares = t[:, start:].reshape(len(t), d, d)  # a view
    for code in np.flatnonzero(sizes):
        part = z[:, ends[code] - sizes[code] : ends[code]]
        np.matmul(part, part.T, out=squares[code])
        if declared.linear:
            t[code, 1:start] = part.sum(axis=1)
