"""One provider's reports on tasks, as it sends them: each task once, named as everybody names it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from troth.core.errors import DataError
from troth.data.task_files import read_table, summaries_of, summary_columns, write_table
from troth.data.tasks import TaskReports

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from troth.core.support import Array

LONGEST_NAME = 200
"""The most characters of a task's name."""


@dataclass(frozen=True, eq=False)
class OwnTasks:
    """What one provider reported: the names of its tasks in order, and what its rows on each add up to.

    Examples
    --------
    >>> own = OwnTasks(("a", "b"), np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> OwnTasks.from_bytes(own.to_bytes()).digest == own.digest
    True
    """

    names: tuple[str, ...]
    summaries: Array

    @property
    def digest(self) -> str:
        """Digest of what was reported on which task."""
        names = json.dumps(list(self.names), separators=(",", ":")).encode()
        summaries = np.ascontiguousarray(self.summaries.astype("<f8"))
        return f"sha256:{sha256(names + summaries.tobytes()).hexdigest()}"

    def to_bytes(self) -> bytes:
        """Return them as a small Parquet file."""
        return write_table(pa.table({"task": pa.array(self.names, pa.string()), **summary_columns(self.summaries)}))

    @classmethod
    def from_bytes(cls, content: bytes) -> OwnTasks:
        """Read what `to_bytes` has written."""
        try:
            table = read_table(content)
            return cls(tuple(table.column("task").to_pylist()), summaries_of(table))
        except (DataError, pa.ArrowException, KeyError, ValueError) as error:
            raise DataError(f"reports on tasks cannot be read: {error}") from None


def join_tasks(own: Mapping[str, OwnTasks]) -> TaskReports:
    """Put what providers sent, by name, into one table."""
    providers = sorted(own)
    tasks = sorted({task for name in providers for task in own[name].names})
    place = {name: number for number, name in enumerate(tasks)}
    task = np.array([place[each] for name in providers for each in own[name].names], dtype=np.intp)
    provider = np.repeat(np.arange(len(providers)), [len(own[name].names) for name in providers])
    order = np.lexsort((provider, task))
    summaries = np.concatenate([own[name].summaries for name in providers])[order]
    return TaskReports(tuple(tasks), tuple(providers), task[order], provider[order], summaries)


def split_tasks(reports: TaskReports) -> Iterator[tuple[str, OwnTasks]]:
    """Yield everybody's own reports, as they were sent."""
    order = np.argsort(reports.provider, kind="stable")  # tasks stay in order
    ends = np.searchsorted(reports.provider[order], np.arange(len(reports.providers) + 1))
    for number, name in enumerate(reports.providers):
        mine = order[ends[number] : ends[number + 1]]
        yield name, OwnTasks(tuple(reports.tasks[task] for task in reports.task[mine]), reports.summaries[mine])
