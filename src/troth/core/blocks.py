"""Process large arrays in cache-sized chunks on all cores: NumPy releases the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

# glibc reuses freed blocks up to the largest size freed so far instead of returning them to the system. Without this
# line, every temporary array of a chunk causes page faults, about half of the run time at ten thousand providers.
np.empty(1 << 21)


def for_each_chunk(count: int, size: int, work: Callable[[slice], None]) -> None:
    """Call ``work`` with slices of at most ``size`` that cover ``range(count)``, perhaps in parallel.

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
