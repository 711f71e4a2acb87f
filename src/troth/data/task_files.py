"""Reports on tasks as Parquet: the file of one provider, and the format that all such files share.

Each number of a summary has its own column, and the file names its format.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from troth.core.errors import DataError
from troth.data.tasks import TaskReports

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from troth.core.support import Array

MAX_NAME_LENGTH = 200
"""The maximum length of a task's name, in characters."""

FORMAT = 2
"""The format of new files."""

_KEY = b"troth.format"
_PREFIXES = {1: "sum_", FORMAT: "summary_"}  # of the summary's columns; files of format 1 do not name their format


def summary_columns(summaries: Array) -> dict[str, Any]:
    """Return summaries ``(report, entry)`` as columns: summary_0, summary_1 and so on."""
    return {f"{_PREFIXES[FORMAT]}{entry}": pa.array(column) for entry, column in enumerate(summaries.T)}


def summaries_of(table: Any) -> Array:
    """Return the summaries ``(report, entry)`` of a table from `read_table`."""
    prefix = _PREFIXES[FORMAT]
    width = sum(name.startswith(prefix) for name in table.column_names)
    return np.stack([table.column(f"{prefix}{entry}").to_numpy() for entry in range(width)], axis=1)


def write_table(table: Any) -> bytes:
    """Return a table as a Parquet file of the current format.

    Examples
    --------
    >>> table = pa.table({"task": ["a", "b"], **summary_columns(np.array([[1.0, 0.0], [0.0, 1.0]]))})
    >>> summaries_of(read_table(write_table(table))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    buffer = BytesIO()
    pq.write_table(table.replace_schema_metadata({_KEY: str(FORMAT)}), buffer, compression="zstd")
    return buffer.getvalue()


def read_table(content: bytes) -> Any:
    """Return the table of a file of any known format, with the column names of the current one."""
    # in this thread only: another one that still holds Python's bytes when the process exits would abort it
    table = pq.read_table(pa.BufferReader(content), use_threads=False, pre_buffer=False)
    number = (table.schema.metadata or {}).get(_KEY, b"1").decode()
    prefixes = {str(version): prefix for version, prefix in _PREFIXES.items()}
    if number not in prefixes:
        raise DataError(f"it has format {number!r}, but this version reads {' and '.join(prefixes)}")
    old = prefixes[number]
    names = [
        f"{_PREFIXES[FORMAT]}{name.removeprefix(old)}" if name.startswith(old) else name for name in table.column_names
    ]
    return table.rename_columns(names)


@dataclass(frozen=True, eq=False)
class OwnTasks:
    """One provider's reports: the names of its tasks in order, and the summary of its rows on each.

    ``dropped`` counts the rows that were left out because they have no value; it is not in the digest or the file.

    Examples
    --------
    >>> own = OwnTasks(("a", "b"), np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> OwnTasks.from_bytes(own.to_bytes()).digest == own.digest
    True
    """

    names: tuple[str, ...]
    summaries: Array
    dropped: int = 0

    @property
    def digest(self) -> str:
        """Digest of the tasks and their summaries."""
        names = json.dumps(list(self.names), separators=(",", ":")).encode()
        summaries = np.ascontiguousarray(self.summaries.astype("<f8"))
        return f"sha256:{sha256(names + summaries.tobytes()).hexdigest()}"

    def to_bytes(self) -> bytes:
        """Return the reports as a small Parquet file."""
        return write_table(pa.table({"task": pa.array(self.names, pa.string()), **summary_columns(self.summaries)}))

    @classmethod
    def from_bytes(cls, content: bytes) -> OwnTasks:
        """Read the file that `to_bytes` returns."""
        try:
            table = read_table(content)
            return cls(tuple(table.column("task").to_pylist()), summaries_of(table))
        except (DataError, pa.ArrowException, KeyError, ValueError) as error:
            raise DataError(f"reports on tasks cannot be read: {error}") from None


def join_tasks(own: Mapping[str, OwnTasks]) -> TaskReports:
    """Join the reports of several providers, by name."""
    providers = sorted(own)
    tasks = sorted({task for name in providers for task in own[name].names})
    index = {name: number for number, name in enumerate(tasks)}
    task = np.array([index[task_name] for name in providers for task_name in own[name].names], dtype=np.intp)
    provider = np.repeat(np.arange(len(providers)), [len(own[name].names) for name in providers])
    order = np.lexsort((provider, task))
    summaries = np.concatenate([own[name].summaries for name in providers])[order]
    dropped = sum(own[name].dropped for name in providers)
    return TaskReports(tuple(tasks), tuple(providers), task[order], provider[order], summaries, dropped)


def split_tasks(reports: TaskReports) -> Iterator[tuple[str, OwnTasks]]:
    """Yield each provider's name and its own reports, as it sent them."""
    for name, own in reports.by_provider():
        yield name, OwnTasks(tuple(reports.tasks[task] for task in reports.task[own]), reports.summaries[own])
