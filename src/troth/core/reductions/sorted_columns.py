"""The columns of a batch in one buffer, with rows sorted by code, so that the rows of each code are a slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import local
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from troth.core.support import Array

_MAX_BUFFER = 1 << 24  # numbers of a buffer that is kept for the next batch
_CACHE_SIZE = 1 << 18  # numbers that fit a processor's cache
_thread = local()  # keeps a buffer for each thread: page faults of new ones would cost as much as sorting


class Block(NamedTuple):
    """A few codes with all of their rows, or one code with some of its rows."""

    codes: NDArray[np.intp]
    sizes: NDArray[np.intp]  # number of rows of each code in this block, at least 1
    z: Array  # numbers (column, row), sorted by code, which the caller may overwrite

    @property
    def parts(self) -> Iterator[slice]:
        """The slice of rows of each code."""
        stops = np.cumsum(self.sizes).tolist()
        return map(slice, [0, *stops], stops)


def sorted_blocks(
    columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], size: int, width: int, spare: int = 0
) -> Iterator[Block]:
    """Yield blocks so small that they fit the cache, as do sums of ``width`` numbers for each of their codes.

    A code with many rows occurs in several blocks, so the caller must add up its sums. ``spare`` columns for the
    caller's own numbers follow the columns.
    """
    sizes = np.bincount(codes, minlength=size)
    z = sorted_columns(columns, codes, sizes, spare)
    present = np.flatnonzero(sizes)
    sizes = sizes[present]
    ends = np.cumsum(sizes)
    max_rows = max(_CACHE_SIZE // len(z), 8 * len(z))  # at least so many that adding up their products costs little
    max_codes = max(1, _CACHE_SIZE // max(width, len(z) ** 2))
    first = start = 0
    while first < len(present):
        last = min(max(first + 1, int(np.searchsorted(ends, start + max_rows, side="right"))), first + max_codes)
        stop = int(ends[last - 1])
        for begin in range(start, stop, max_rows):  # once, unless it is one code with many rows
            end = min(begin + max_rows, stop)
            counts = sizes[first:last] if end - begin == stop - start else np.array([end - begin])
            yield Block(present[first:last], counts, z[:, begin:end])
        first, start = last, stop


def sorted_columns(
    columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], sizes: NDArray[np.integer], spare: int = 0
) -> Array:
    """Return numbers ``(column, row)`` sorted by code; ``sizes`` are the numbers of rows of the codes.

    The next call in the same thread overwrites the result. ``spare`` columns for the caller's own numbers follow.
    """
    width = len(columns) + spare
    z = _buffer(width * len(codes)).reshape(width, len(codes))
    if bool((codes[1:] >= codes[:-1]).all()):
        for row, column in zip(z, columns, strict=False):
            row[:] = column
        return z
    keys = codes.astype(np.uint16) if len(sizes) <= 1 << 16 else codes  # NumPy sorts 16-bit integers by radix
    ranks = np.empty(len(codes), dtype=np.intp)
    ranks[np.argsort(keys, kind="stable")] = np.arange(len(codes))
    for row, column in zip(z, columns, strict=False):
        row[ranks] = column  # scattering takes half the time of gathering
    return z


def _buffer(size: int) -> Array:
    if size > _MAX_BUFFER:
        return np.empty(size)
    if len(getattr(_thread, "buffer", ())) < size:
        _thread.buffer = np.empty(size)
    return np.asarray(_thread.buffer[:size])
