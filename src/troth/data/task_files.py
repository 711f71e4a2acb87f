"""Parquet files of reports on tasks: each number of a summary has its own column, and the file names its format."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from troth.core.errors import DataError

if TYPE_CHECKING:
    from troth.core.support import Array

FORMAT = 2
"""The format that new files have."""

_KEY = b"troth.format"
_PREFIXES = {1: "sum_", FORMAT: "summary_"}  # of the summary's columns; files of format 1 do not name it


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
    """Return the table of a file of any known format, its columns named as in the current one."""
    # by this thread alone: one that still holds Python's bytes at the end of the process would abort it
    table = pq.read_table(pa.BufferReader(content), use_threads=False, pre_buffer=False)
    number = (table.schema.metadata or {}).get(_KEY, b"1").decode()
    known = {str(each): prefix for each, prefix in _PREFIXES.items()}
    if number not in known:
        raise DataError(f"it has format {number!r}, and this version reads {' and '.join(known)}")
    old = known[number]
    names = [
        f"{_PREFIXES[FORMAT]}{name.removeprefix(old)}" if name.startswith(old) else name for name in table.column_names
    ]
    return table.rename_columns(names)
