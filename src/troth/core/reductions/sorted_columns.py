"""The columns of a batch as one buffer, rows sorted by code, so that each code's part is a slice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from troth.core.support import Array


def sorted_columns(columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], sizes: NDArray[np.integer]) -> Array:
    """Return ``(column, row)`` numbers, the rows of code 0 first; ``sizes`` are how many each code has."""
    sorted_already = bool((codes[1:] >= codes[:-1]).all())
    small = codes.astype(np.uint16) if len(sizes) <= 1 << 16 else codes  # sixteen bits are sorted by radix
    order = None if sorted_already else np.argsort(small, kind="stable")
    z = np.empty((len(columns), len(codes)))
    for row, column in zip(z, columns, strict=True):
        if order is None or column.dtype != np.float64:
            row[:] = column if order is None else np.take(column, order)
        else:
            np.take(column, order, out=row, mode="clip")
    return z
