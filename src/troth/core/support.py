"""The possible values of rows, and checks of data against them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from troth.core.errors import DataError

Array: TypeAlias = NDArray[np.float64]
Indexes: TypeAlias = NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]
Bounds: TypeAlias = tuple[float, float]
"""The minimum and the maximum value of a row."""


@dataclass(frozen=True)
class Support:
    """The possible values of one entry of a row.

    Examples
    --------
    >>> Support(0, 1, integer=True)
    Support(low=0, high=1, integer=True, open=False)
    >>> print(Support(0, float("inf"), open=True))
    a number above 0
    """

    low: float = -np.inf
    high: float = np.inf
    integer: bool = False
    open: bool = False

    def __str__(self) -> str:
        return self.description if np.isfinite(self.low) or np.isfinite(self.high) else f"{self.description} (finite)"

    @property
    def description(self) -> str:
        """The possible values, for lay readers, without mention of infinity."""
        kind = "a whole number" if self.integer else "a number"
        if np.isinf(self.low) and np.isinf(self.high):
            return kind
        if np.isinf(self.high):
            return f"{kind} above {self.low:g}" if self.open else f"{kind} of at least {self.low:g}"
        return f"{kind} from {self.low:g} to {self.high:g}"

    @property
    def finite(self) -> bool:
        """Whether there are finitely many possible values."""
        return bool(self.integer and np.isfinite(self.low) and np.isfinite(self.high))

    def contains(self, values: Array) -> Mask:
        """Return for each value whether it is possible; NaN and infinities never are."""
        inside = np.isfinite(values) & (values <= self.high)
        inside &= (values > self.low) if self.open else (values >= self.low)
        if self.integer:
            inside &= values == np.floor(values)
        return inside

    def _contains_all(self, values: Array) -> bool:
        """Return, in two or three fast passes, whether all values are possible; NaN fails every comparison."""
        if values.size == 0:
            return True
        low, high = values.min(), values.max()
        inside = (low > self.low if self.open else low >= self.low) and high <= self.high
        finite = np.isfinite(low) and np.isfinite(high)
        return bool(inside and finite and (not self.integer or np.array_equal(values, np.floor(values))))

    def check(self, values: Any, what: str = "value", columns: int | None = None) -> Array:
        """Return ``values`` as floats, or raise a `DataError` that names the first invalid row and value.

        The last axis is the row or, with ``columns``, the column, after the row.

        Examples
        --------
        >>> Support(0, 1, integer=True).check([1, 0, 2])
        Traceback (most recent call last):
        ...
        troth.core.errors.DataError: row 2: value 2.0 is not a whole number from 0 to 1
        """
        array = as_floats(values, what)
        if columns is not None and array.shape == (0,):
            array = array.reshape(0, columns)
        if array.ndim < 1 or (columns is not None and (array.ndim < 2 or array.shape[-1] != columns)):
            expected = "(rows,)" if columns is None else f"(rows, {columns})"
            raise DataError(f"a dataset must have shape {expected}, not {array.shape}")
        if self._contains_all(array):
            return array
        first = tuple(int(i) for i in np.argwhere(~self.contains(array))[0])
        *dataset, row = first if columns is None else first[:-1]
        location = f"row {row}" if columns is None else f"row {row}, column {first[-1]}"
        location += f" of dataset {tuple(dataset)}" if dataset else ""
        raise DataError(f"{location}: {what} {array[first]} is not {self}")


def as_floats(values: Any, what: str = "value") -> Array:
    """Return an array of floats, or raise a `DataError` that names the first entry that is not a number."""
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(values.astype(np.float64), np.nan))
    if not (hasattr(values, "__array__") or hasattr(values, "__getitem__") or np.isscalar(values)):
        raise DataError(f"expected a sequence of numbers, not {type(values).__name__}")
    try:
        plain = np.asarray(values)
        if plain.dtype.kind not in "USc":
            return plain.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        pass
    for row, value in enumerate(values):
        try:
            if isinstance(value, str | bytes | complex | np.complexfloating):
                raise TypeError
            np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            text = repr(value) if len(repr(value)) < 40 else repr(value)[:36] + "…"
            raise DataError(f"row {row}: {what} {text} is not a number") from None
    raise DataError("the rows have different lengths, so they do not form a table of numbers")
