"""The wall time of a call."""

from __future__ import annotations

import time
from collections.abc import Callable


def best_time(call: Callable[[], object], repeats: int = 5) -> float:
    """Return the minimum of several wall times in seconds, after a warm-up call."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
