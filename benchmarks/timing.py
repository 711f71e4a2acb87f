"""Wall time of a call."""

from __future__ import annotations

import time
from collections.abc import Callable


def best_time(call: Callable[[], object], repeats: int = 5) -> float:
    """Return the least of a few wall times, in seconds, after one call to warm up."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
