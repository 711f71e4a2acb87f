"""The columns of a batch as one buffer, rows sorted by code, so that each code's part is a slice."""

from __future__ import annotations

from threading import local
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from troth.core.support import Array

_LARGEST = 1 << 24  # numbers of a buffer that stays for the next batch
_own = local()  # a buffer for each thread: a fresh one for every batch costs as much in page faults as the sort


def sorted_columns(
    columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], sizes: NDArray[np.integer], spare: int = 0
) -> Array:
    """Return ``(column, row)`` numbers, the rows of code 0 first; ``sizes`` are how many each code has.

    The next call of the same thread overwrites them. ``spare`` columns for the caller's own numbers follow.
    """
    width = len(columns) + spare
    z = _buffer(width * len(codes)).reshape(width, len(codes))
    if bool((codes[1:] >= codes[:-1]).all()):
        for row, column in zip(z, columns, strict=False):
            row[:] = column
        return z
    small = codes.astype(np.uint16) if len(sizes) <= 1 << 16 else codes  # sixteen bits are sorted by radix
    places = np.empty(len(codes), dtype=np.intp)
    places[np.argsort(small, kind="stable")] = np.arange(len(codes))
    for row, column in zip(z, columns, strict=False):
        row[places] = column  # scattering takes half the time of gathering
    return z


def _buffer(size: int) -> Array:
    if size > _LARGEST:
        return np.empty(size)
    if len(getattr(_own, "buffer", ())) < size:
        _own.buffer = np.empty(size)
    return np.asarray(_own.buffer[:size])
