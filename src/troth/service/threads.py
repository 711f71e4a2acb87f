"""Thread pools, one for each kind of work, so that no kind waits for another."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from troth.operations import Pool

T = TypeVar("T")
SIZES: dict[Pool, int] = {
    "health": 2,
    "reads": 24,
    "writes": 16,
    "passwords": 2,
    "work": 4,
    "parsing": max(2, os.cpu_count() or 1),
}
"""The maximum number of threads for each kind of work."""
_limiters: RunVar[dict[str, CapacityLimiter]] = RunVar("troth_thread_pools")


async def run(pool: Pool, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Call a function in a thread of a pool, once one is free."""
    limiters = _limiters.get(None)
    if limiters is None:
        limiters = {name: CapacityLimiter(size) for name, size in SIZES.items()}
        _limiters.set(limiters)
    return await to_thread.run_sync(partial(function, *arguments, **options), limiter=limiters[pool])
