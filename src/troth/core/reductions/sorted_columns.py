"""The columns of a batch as one buffer, rows sorted by code, so that each code's part is a slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import local
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from troth.core.support import Array

_MAX_BUFFER = 1 << 24  # numbers of a buffer that stays for the next batch
_IN_CACHE = 1 << 18  # numbers of a block that stays in a processor's cache while it is worked on
_own = local()  # a buffer for each thread: a fresh one for every batch costs as much in page faults as the sort


class Block(NamedTuple):
    """A few codes with all of their rows, or one code with some of its rows."""

    codes: NDArray[np.intp]  # those that have rows
    sizes: NDArray[np.intp]  # how many rows they have here
    z: Array  # numbers (column, row), the rows of the first code first, which the caller may overwrite

    @property
    def parts(self) -> Iterator[slice]:
        """The rows of each code."""
        stops = np.cumsum(self.sizes).tolist()
        return map(slice, [0, *stops], stops)


def sorted_blocks(
    columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], size: int, width: int, spare: int = 0
) -> Iterator[Block]:
    """Yield blocks that stay in the cache, each of few enough codes that sums of ``width`` numbers for each do, too.

    A code with many rows comes several times: sums have to be added up. ``spare`` columns for the caller's own numbers
    follow the columns.
    """
    sizes = np.bincount(codes, minlength=size)
    z = sorted_columns(columns, codes, sizes, spare)
    present = np.flatnonzero(sizes)
    sizes = sizes[present]
    ends = np.cumsum(sizes)
    rows = max(_IN_CACHE // len(z), 8 * len(z))  # so many at least that adding up their products costs little
    most = max(1, _IN_CACHE // max(width, len(z) ** 2))
    first = start = 0
    while first < len(present):
        last = min(max(first + 1, int(np.searchsorted(ends, start + rows, side="right"))), first + most)
        stop = int(ends[last - 1])
        for begin in range(start, stop, rows):  # once, unless it is one code with many rows
            end = min(begin + rows, stop)
            counts = sizes[first:last] if end - begin == stop - start else np.array([end - begin])
            yield Block(present[first:last], counts, z[:, begin:end])
        first, start = last, stop


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
    if size > _MAX_BUFFER:
        return np.empty(size)
    if len(getattr(_own, "buffer", ())) < size:
        _own.buffer = np.empty(size)
    return np.asarray(_own.buffer[:size])
