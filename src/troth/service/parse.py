"""Parse an upload, in a child process: reduce one provider's rows to a summary, and preview its columns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.ipc
import pyarrow.json
import pyarrow.parquet as pq

from troth.core.errors import DataError, TrothError
from troth.core.formats import short
from troth.data.arrow_columns import as_numbers, encode, holds_numbers, is_text, parse_numbers
from troth.data.fragments import NOT_UNICODE, Fragment
from troth.data.request import Day, Request, listed
from troth.data.single_provider import read_own_report, read_own_tasks

SHOWN_ROWS, SHOWN_LENGTH, SHOWN_LABELS, MAX_COLUMNS = 8, 40, 12, 10_000
_MESSAGE_LENGTH, _HEAD_BYTES = 4000, 1 << 20


class TooLargeError(Exception):
    """The file has more values or bytes than allowed."""


def parse(
    request: Request,
    folder: str,
    name: str,
    kind: str,
    provider: str,
    day: Day,
    max_cells: int,
    max_bytes: int,
    max_rows: int | None,
    max_tasks: int | None = None,
) -> Any:
    """Read a file and return plain data for the server: summaries and previews, or an error.

    ``max_cells`` limits rows times columns, and ``max_bytes`` the size of the decompressed file. ``max_rows`` and
    ``max_tasks`` are the limits of the campaign; if the days of the request are tasks, ``max_rows`` is per task.
    """
    os.chdir(folder)
    if max_tasks is None:
        inspector = BatchInspector(request, max_cells, max_rows, "rows")
    else:
        inspector = BatchInspector(request, max_cells, max_tasks * (max_rows or 1), "tasks")
    declared, size = None, 0
    watched_request = replace(request, on_batch=inspector)
    try:
        if kind in ("parquet", "arrow"):
            _reject_text_columns(Fragment(name, kind).schema(), request)
        if kind == "parquet":
            declared = pq.read_metadata(name).num_rows
            inspector.expect(declared)
        if kind == "csv":
            _reject_wide_tables(name)
        if kind in ("csv", "jsonl"):
            size = _expanded_size(name, max_bytes)
        content: dict[str, Any]
        if max_tasks is None:
            (report,) = read_own_report(name, watched_request, provider, day, format=kind)
            summary = [float(value) for value in report.summary]
            content = {"summary": summary, "dropped": report.dropped, "unnamed": report.unnamed}
        else:
            own = read_own_tasks(name, watched_request, provider, rows=max_rows or 1, format=kind)
            content = {"tasks": own.names, "summaries": own.summaries.tolist(), "dropped": own.dropped}
        if declared is not None and declared != inspector.rows:
            raise DataError(f"declares {declared:,} rows, but has {inspector.rows:,}; the file is damaged")
    except TooLargeError as error:
        return {"status": 413, "error": f"{name}: {error}"}
    except Exception as error:  # any error is caused by the file
        if _is_memory_error(error):
            raise MemoryError from None
        return {"status": 422, "error": _message(error, name, kind)[:_MESSAGE_LENGTH]}
    return {
        **content,
        "preview": inspector.preview,
        "columns": inspector.summary(),
        "bytes": max(size, inspector.bytes),
    }


class BatchInspector:
    """Inspects the batches of a file: limits their size, keeps the first rows, and summarises each column.

    ``limit`` is the key under [limits] that ``max_rows`` follows from.
    """

    def __init__(self, request: Request, max_cells: int, max_rows: int | None, limit: str) -> None:
        self.request, self.max_cells, self.max_rows, self.limit = request, max_cells, max_rows, limit
        self.rows = self.bytes = 0
        self.preview: list[list[str]] = []
        self._columns = {
            name: _Numbers() if (labels := request.labels_of(name)) is None else _Labels(labels, request.codes(name))
            for name in dict.fromkeys(request.columns)
            if name is not None
        }

    def expect(self, rows: int) -> None:
        """Reject more rows than allowed."""
        if self.max_rows is not None and rows > self.max_rows:
            raise TooLargeError(f"more than the {self.max_rows:,} rows that [limits] {self.limit} allows")
        columns = max(1, len(self.request.named))
        if rows * columns > self.max_cells:
            raise TooLargeError(f"more than {self.max_cells:,} values: rows × {columns} columns")

    def __call__(self, batch: Any) -> None:
        """Inspect a batch before it is summarised."""
        self.expect(self.rows + batch.num_rows)
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        if len(self.preview) <= SHOWN_ROWS:
            self._show(batch)
        if self.request.provider in batch.schema.names:
            self._reject_other_providers(batch.column(self.request.provider))
        for name, column in self._columns.items():
            column.add(batch.column(name).drop_null())

    def summary(self) -> list[dict[str, Any]]:
        """Return the minimum, maximum and mean of each numeric column, and the counts of labels of the others."""
        return [{"name": name, **column.shown()} for name, column in self._columns.items()]

    def _show(self, batch: Any) -> None:
        names = [name for name in self.request.named if name in batch.schema.names]
        if not self.preview:
            self.preview.append([_shortened(name) for name in names])
        remaining = batch.slice(0, SHOWN_ROWS + 1 - len(self.preview))
        columns = [[_shortened(entry.as_py()) for entry in remaining.column(name)] for name in names]
        self.preview += [list(row) for row in zip(*columns, strict=True)]

    def _reject_other_providers(self, column: Any) -> None:
        """Reject rows of several providers before they are summed up."""
        try:
            names = [name for name in column.unique().drop_null().to_pylist() if str(name).strip()]
        except pa.ArrowNotImplementedError:
            return
        if len(names) > 1:
            raise DataError(f"has rows of {len(names)} providers ({listed(names, 5)}); send only your own")


class _Numbers:
    """Minimum, maximum and mean of the numbers in a column; the reader handles all other values."""

    def __init__(self) -> None:
        self.minimum, self.maximum, self.total, self.count = np.inf, -np.inf, 0.0, 0

    def add(self, array: Any) -> None:
        x = parse_numbers(array) if is_text(array.type) else as_numbers(array)
        if x is None:
            return
        x = x[np.isfinite(x)]
        if x.size:
            self.minimum, self.maximum = min(self.minimum, float(x.min())), max(self.maximum, float(x.max()))
            self.count += x.size
            with np.errstate(over="ignore"):
                self.total += float(x.sum(dtype=np.float64))

    def shown(self) -> dict[str, float]:
        if not self.count or not np.isfinite(self.total):
            return {}
        return {"minimum": self.minimum, "maximum": self.maximum, "mean": self.total / self.count}


class _Labels:
    """Counts of the labels in a column."""

    def __init__(self, labels: Sequence[str], codes: Mapping[str, int]) -> None:
        self.labels, self.codes, self.counts = labels, codes, [0] * len(labels)

    def add(self, array: Any) -> None:
        try:
            values, codes = encode(array.cast(pa.string()) if pa.types.is_boolean(array.type) else array)
        except TypeError:
            return
        counts = np.bincount(codes[codes >= 0], minlength=len(values)).tolist()
        for value, count in zip(values if isinstance(values, range) else values.to_pylist(), counts, strict=True):
            label = str(value).strip()
            code = self.codes.get(label, self.codes.get(label.casefold()))
            if code is not None:
                self.counts[code] += count

    def shown(self) -> dict[str, Any]:
        by_count = sorted(zip(self.labels, self.counts, strict=True), key=lambda pair: -pair[1])
        return {"labels": by_count[:SHOWN_LABELS]}


def _message(error: Exception, name: str, kind: str) -> str:
    """Return an error message that begins with the name of the file."""
    if isinstance(error, DataError) and error.place:
        return str(error)
    if isinstance(error, UnicodeError):
        problem = NOT_UNICODE
    elif isinstance(error, TrothError):
        problem = str(error)
    else:
        expected = isinstance(error, pa.ArrowException | OSError)
        problem = f"cannot be read as {kind}: {error if expected else repr(error)}"
    return f"{name}: {problem}"


def _reject_text_columns(schema: Any, request: Request) -> None:
    """Reject text in numeric columns before it is read: a few bytes can expand into a lot of text."""
    for name in request.columns:
        if name is not None and request.labels_of(name) is None:
            index = schema.get_field_index(name)  # -1 if the name is missing or duplicated
            if index >= 0 and not holds_numbers(schema.field(index).type):
                raise DataError(f"column {name!r} has type {schema.field(index).type}; store it as numbers")


def _reject_wide_tables(path: str) -> None:
    """Reject a table with too many columns to infer their types quickly."""
    with pa.input_stream(path) as file:
        head = file.read(_HEAD_BYTES)
    line = head.split(b"\n", 1)[0]
    if max(map(line.count, (b",", b";", b"\t"))) >= MAX_COLUMNS:
        raise DataError(f"has more than {MAX_COLUMNS:,} columns; send only those that are read")
    if len(line) == _HEAD_BYTES:
        raise DataError(f"the line of column names is longer than {_HEAD_BYTES:,} bytes")


def _expanded_size(path: str, max_bytes: int) -> int:
    """Return the size of a file once it is decompressed; reject a large one before it is decoded."""
    size = 0
    with pa.input_stream(path) as file:
        while block := file.read(_HEAD_BYTES):
            size += len(block)
            if size > max_bytes:
                raise TooLargeError(f"more than {max_bytes:,} bytes once it is decompressed")
    return size


def _shortened(value: Any) -> str:
    text = "" if value is None else str(value)
    text = "".join(char if char.isprintable() else "·" for char in text[: SHOWN_LENGTH + 1])
    return short(text, SHOWN_LENGTH)


def _is_memory_error(error: BaseException | None) -> bool:
    """Return whether an error, or one that caused it, is a lack of memory."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__context__
    return False
