"""Engines that execute a plan: threads of this process or Spark tasks, with the same function on the same fragments."""

from __future__ import annotations

import os
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

from troth.core.errors import DataError, MissingCapabilityError, TrothError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from troth.data.fragments import Fragment
    from troth.data.frames import Slice
    from troth.data.request import Part, Request

    Fragments = Sequence[Fragment] | Sequence[Slice]


def in_threads(fragments: Fragments, request: Request) -> Iterator[Part]:
    """Yield parts in plan order, keeping only a few in memory; each worker has one BLAS thread."""
    workers = os.cpu_count() or 1
    with threadpool_limits(1), ThreadPoolExecutor(workers) as pool:
        waiting: deque[Any] = deque()
        for fragment in fragments:
            waiting.append(pool.submit(fragment.summarise, request))
            if len(waiting) >= 3 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def in_order(fragments: Fragments, request: Request) -> Iterator[Part]:
    """Yield parts in plan order, made one by one in this thread, so that `Request.on_batch` sees batches in order."""
    with threadpool_limits(1):
        for fragment in fragments:
            yield fragment.summarise(request)


def in_spark(fragments: Fragments, request: Request) -> Iterator[Part]:
    """Yield parts in plan order, made by Spark tasks that read the fragments themselves; no row passes the JVM."""
    context = spark_session().sparkContext
    tasks = context.parallelize(list(fragments), max(1, len(fragments)))
    try:
        parts = tasks.map(partial(_summarise, request)).collect()
    except Exception as error:
        raise DataError(f"Spark failed: {str(error).strip().splitlines()[-1]}") from error
    for part in parts:
        if isinstance(part, TrothError):
            raise part
        yield part


def _summarise(request: Request, fragment: Fragment) -> Part | TrothError:
    try:
        with threadpool_limits(1):
            return fragment.summarise(request)
    except TrothError as error:
        return error  # returned, not raised, so that it reaches the analyst without a Java traceback


def spark_session() -> Any:
    """Return the active Spark session, or start one."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingCapabilityError("Spark needs more packages: pip install -e '.[spark]' in your clone") from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # so that workers find the packages of this process
    return SparkSession.getActiveSession() or SparkSession.builder.appName("troth").getOrCreate()


ENGINES = {"threads": in_threads, "spark": in_spark}
