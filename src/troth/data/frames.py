"""Data frames in memory (pandas, Polars, Arrow, DuckDB relations) as slices, which are added up like files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from troth.core.errors import DataError
from troth.data.kernel import Adder
from troth.data.readers import batch_rows

if TYPE_CHECKING:
    from troth.data.request import Part, Request

_SLICE_ROWS = 1 << 20


@dataclass(frozen=True)
class Slice:
    """Consecutive rows of a table in memory."""

    table: Any
    first_row: int = 0
    provider: str | None = None

    def summarise(self, request: Request) -> Part:
        """Add up the slice."""
        batches = self.table.to_batches(max_chunksize=batch_rows(request))
        return Adder(request, "the data", self.provider).add_all(batches, self.first_row)


def plan_frame(frame: Any, request: Request, provider: str | None) -> list[Slice]:
    """Cut a frame into slices."""
    table = as_arrow(frame, request)
    starts = range(0, table.num_rows, _SLICE_ROWS)
    return [Slice(table.slice(start, _SLICE_ROWS), start, provider) for start in starts]


def as_arrow(frame: Any, request: Request | None = None) -> Any:
    """Return the requested columns of a frame, by default all, as an Arrow table, without a copy if possible."""
    if isinstance(frame, dict):
        frame = pa.table(frame)
    if type(frame).__name__ == "LazyFrame" and hasattr(frame, "collect"):
        frame = frame.collect()
    columns = _names(frame)
    for name in columns:
        if not isinstance(name, str):
            raise DataError(f"the data: column names must be text, not {name!r}")
    if request is not None:
        request.reject_missing(columns, "the data")
        columns = list(request.named)
    elif len(set(columns)) < len(columns):
        raise DataError("the data: two columns have the same name; rename one, or say which with columns=")
    if type(frame).__module__.split(".")[0] == "pandas":
        return pa.table({name: _pandas_column(frame[name], name) for name in columns})
    try:
        return (frame if isinstance(frame, pa.Table) else pa.table(frame)).select(columns)
    except (pa.ArrowException, TypeError, OverflowError, UnicodeError) as error:
        raise DataError(f"the data cannot be read: {error}") from None


def is_frame(data: Any) -> bool:
    """Return whether data are a frame in memory."""
    return isinstance(data, dict) or hasattr(data, "__arrow_c_stream__") or hasattr(data, "collect_schema")


def _names(frame: Any) -> list[Any]:
    if isinstance(frame, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return list(frame.schema.names)
    if hasattr(frame, "columns"):
        return list(frame.columns)
    return list(pa.table(frame).schema.names)


def _pandas_column(column: Any, name: str) -> Any:
    try:
        return pa.array(column, from_pandas=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    entries = [None if _missing(entry) else entry for entry in column.tolist()]
    if any(isinstance(entry, int) and abs(entry) >= 2**63 for entry in entries):
        raise DataError(f"column {name!r}: a whole number is too large for 64 bits; store the column as text")
    kinds = {type(entry) for entry in entries if entry is not None}
    if kinds <= {int, str}:
        return pa.array([None if entry is None else str(entry) for entry in entries])
    misfits = [
        (row, e) for row, e in enumerate(entries, 1) if isinstance(e, str) or not isinstance(e, int | float | None)
    ]
    row, entry = misfits[0] if misfits else (1, entries[0])
    raise DataError(
        f"column {name!r}: {len(misfits):,} of {len(entries):,} values differ in type from the rest "
        f"(first: row {row:,}: {entry!r}); give the column one type"
    )


def _missing(entry: Any) -> bool:
    return entry is None or type(entry).__name__ == "NAType" or bool(entry != entry)
