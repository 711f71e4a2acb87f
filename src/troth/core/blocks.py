"""Work on large arrays in chunks that fit the cache, on all cores: NumPy releases the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

# glibc hands freed blocks of up to the largest size seen so far to the next array instead of to the system; without
# this, every intermediate array of a chunk costs fresh page faults, about half of the time at ten thousand providers.
np.empty(1 << 21)


def for_each_chunk(count: int, size: int, work: Callable[[slice], None]) -> None:
    """Call ``work`` with slices of at most ``size`` that cover ``range(count)``; each must write its own part.

    Examples
    --------
    >>> for_each_chunk(5, 2, print)
    slice(0, 2, None)
    slice(2, 4, None)
    slice(4, 5, None)
    """
    chunks = [slice(start, min(start + size, count)) for start in range(0, count, size)]
    workers = min(len(chunks) // 2, os.cpu_count() or 1)
    if workers < 2:
        for chunk in chunks:
            work(chunk)
        return
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, chunks))
