"""One reader per file format, which yields Arrow batches of the requested columns."""

from __future__ import annotations

from codecs import getincrementaldecoder
from contextlib import contextmanager, suppress
from csv import reader as read_csv
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv, json

from troth.core.errors import DataError
from troth.core.formats import counted
from troth.data.files import suffix_of
from troth.data.request import Request, file_name
from troth.data.sheets import read_sheet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from troth.data.fragments import Fragment

BATCH_VALUES = 1 << 24  # values of a batch whose columns are multiplied
_BATCH_ROWS = 1 << 17  # small enough for the processor's cache
_BLOCK_BYTES = 1 << 23  # of text that are read in one step
_HEAD_BYTES = 1 << 16
_EXCERPT = 100  # characters of an invalid row that an error quotes
_BINARY = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}


def batch_rows(request: Request) -> int:
    """Return the number of rows per batch: small for counts and sums, large if columns are multiplied."""
    multiplied = request.reduction.batch_columns
    return BATCH_VALUES // max(16, multiplied) if multiplied > 1 else _BATCH_ROWS


def _read_parquet(fragment: Fragment, request: Request, columns: list[str]) -> Iterator[Any]:
    with pq.ParquetFile(fragment.path, read_dictionary=list(fragment.text), memory_map=True) as file:
        groups = list(fragment.groups)
        yield from file.iter_batches(batch_rows(request), row_groups=groups, columns=columns, use_threads=False)


def _read_csv(fragment: Fragment, request: Request, columns: list[str]) -> Iterator[Any]:
    fragment.reject_missing(request, csv_names(fragment))
    types: dict[str, Any] = {name: pa.string() for name in columns if name in request.labels}
    with _open_csv(fragment, columns, types) as reader:  # infers the types of these columns only
        for name in columns:
            if name not in types:
                kind = reader.schema.field(name).type
                keep = pa.types.is_boolean(kind) or pa.types.is_string(kind)
                types[name] = kind if keep else pa.float64()
    with _open_csv(fragment, columns, types) as reader:
        yield from reader


def csv_names(fragment: Fragment) -> list[str]:
    """Return the names of all columns; only they have to be in UTF-8."""
    with pa.input_stream(fragment.path) as file, TextIOWrapper(file, "utf-8-sig", "surrogateescape", "") as text:
        lines = (last := line for line in text)
        names = next(filter(None, read_csv(lines, delimiter=_delimiter(Path(fragment.path)))), None)
    if names is None or not last.endswith(("\n", "\r")):  # without a complete line of names there are no rows
        raise DataError.at(file_name(fragment.path), "the file is empty; it needs a line of column names and rows")
    "".join(names).encode()  # raises UnicodeError
    return names


@contextmanager
def _open_csv(fragment: Fragment, columns: list[str], types: dict[str, Any]) -> Iterator[Any]:
    """Open a text file; a row with too many or too few values raises an error that names it."""
    try:
        with _csv_reader(fragment, columns, types) as reader:
            yield reader
    except pa.ArrowInvalid:
        row = _invalid_row(fragment)
        if row is None:
            raise
        lengths = f"{counted(row.actual_columns, 'value')} for {counted(row.expected_columns, 'column')}"
        excerpt = row.text[:_EXCERPT].splitlines()[0]
        problem = f"{lengths} ({excerpt}); correct the row: a value with a comma in it needs quotes around it"
        raise DataError.at(f"{file_name(fragment.path)}, row {row.number - 1}", problem) from None


def _csv_reader(
    fragment: Fragment, columns: list[str], types: dict[str, Any], on_invalid_row: Callable[[Any], str] | None = None
) -> Any:
    return csv.open_csv(
        fragment.path,
        read_options=csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
        parse_options=csv.ParseOptions(
            delimiter=_delimiter(Path(fragment.path)), newlines_in_values=True, invalid_row_handler=on_invalid_row
        ),
        convert_options=csv.ConvertOptions(column_types=types, include_columns=columns),
    )


def _invalid_row(fragment: Fragment) -> Any:
    """Read a text file again for its first row with too many or too few values; None if there is none.

    Files in other encodings are skipped, because Arrow prints a traceback if it cannot decode a row for its handler.
    """
    invalid_rows: list[Any] = []

    def refuse(row: Any) -> str:
        invalid_rows.append(row)
        return "error"

    if is_unicode(fragment.path):
        first = csv_names(fragment)[0]
        with suppress(pa.ArrowInvalid), _csv_reader(fragment, [first], {first: pa.string()}, refuse) as reader:
            for _ in reader:
                pass
    return next(iter(invalid_rows), None)


def is_unicode(path: str) -> bool:
    """Return whether a text file is in UTF-8, as far as it can be read."""
    decoder = getincrementaldecoder("utf-8")()
    with suppress(OSError), pa.input_stream(path) as file:
        try:
            while block := file.read(_HEAD_BYTES):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeError:
            return False
    return True


def _delimiter(path: Path) -> str:
    if suffix_of(path) == ".tsv":
        return "\t"
    with pa.input_stream(str(path)) as file:
        head = file.read(_HEAD_BYTES).split(b"\n", 1)[0]
    return max([b",", b";", b"\t"], key=head.count).decode()


def _read_jsonl(fragment: Fragment, request: Request, columns: list[str]) -> Iterator[Any]:
    with open_jsonl(fragment) as reader:
        fragment.reject_missing(request, reader.schema.names)
        fields = [reader.schema.field(name) for name in columns]
    schema = pa.schema([field.with_type(_jsonl_type(field, request)) for field in fields])
    options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    with open_jsonl(fragment, options) as reader:
        for batch in reader:
            yield batch.select(columns)


def _jsonl_type(field: Any, request: Request) -> Any:
    """Return the type to read a column as: dates as text, and integers as floats, since fractions may follow."""
    if field.name in request.labels:
        return pa.string() if pa.types.is_temporal(field.type) else field.type
    return pa.float64() if pa.types.is_integer(field.type) or pa.types.is_null(field.type) else field.type


def open_jsonl(fragment: Fragment, options: Any = None) -> Any:
    """Open a file of JSON lines; all types are inferred unless options give them."""
    if Path(fragment.path).stat().st_size == 0:
        raise DataError.at(file_name(fragment.path), "the file is empty")
    read_options = json.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False)
    return json.open_json(fragment.path, read_options=read_options, parse_options=options)


def _read_arrow(fragment: Fragment, request: Request, names: list[str]) -> Iterator[Any]:
    with pa.memory_map(fragment.path) as source:
        opened = open_arrow(source)
        fragment.reject_missing(request, opened.schema.names)
        is_file = hasattr(opened, "get_batch")
        batches = (opened.get_batch(i) for i in range(opened.num_record_batches)) if is_file else iter(opened)
        for batch in batches:
            columns, step = batch.select(names), batch_rows(request)
            _check_values(columns)
            for start in range(0, columns.num_rows, step):
                yield columns.slice(start, step)


def _check_values(batch: Any) -> None:
    """Reject values whose lengths differ from what the file states, and text that is not in UTF-8."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        for column in batch.columns:
            binary = _BINARY.get(column.type)
            (column if binary is None else column.cast(binary)).validate(full=True)
        raise UnicodeError from None  # only text is invalid


def open_arrow(source: Any) -> Any:
    """Open an Arrow file, whose batches are indexed, or an Arrow stream."""
    is_file = source.read(6) == b"ARROW1"
    source.seek(0)
    return pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)


def read_text(fragment: Fragment, request: Request, columns: list[str]) -> Iterator[Any]:
    """Read a text file without converting anything."""
    fragment.reject_missing(request, csv_names(fragment))
    with _open_csv(fragment, columns, {name: pa.string() for name in columns}) as reader:
        yield from reader


def _read_sheet(fragment: Fragment, request: Request, columns: list[str]) -> Iterator[Any]:
    table = read_sheet(fragment.path)
    fragment.reject_missing(request, table.schema.names)
    yield from table.select(columns).to_batches(batch_rows(request))


READERS = {
    "sheet": _read_sheet,
    "parquet": _read_parquet,
    "csv": _read_csv,
    "jsonl": _read_jsonl,
    "arrow": _read_arrow,
}
