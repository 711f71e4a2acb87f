"""Files of rows as a plan of fragments: a file with some row groups, read inside the task that adds it up."""

from __future__ import annotations

import glob
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from csv import Error as CsvError
from csv import reader as read_csv
from dataclasses import dataclass, replace
from hashlib import file_digest
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv, json

from troth.core.errors import DataError, first_line
from troth.core.formats import counted
from troth.data.arrow_columns import is_text
from troth.data.kernel import Adder
from troth.data.request import Part, Request, file_name
from troth.data.sheets import read_sheet

_BATCH_ROWS = 1 << 17  # that stay in a processor's cache
_BATCH_VALUES = 1 << 24  # that are multiplied together
_BLOCK_BYTES = 1 << 23  # of text read at a time
_HEAD_BYTES = 1 << 16
_EXCERPT = 100  # letters of an invalid row that an error quotes
_BINARY = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}

FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".xlsx": "sheet",
    ".xls": "sheet",
    ".ods": "sheet",
    ".json": "statistics",
}
NOT_UNICODE = "holds text that is not in UTF-8; save it in that encoding"
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
Source: TypeAlias = str | Path | Sequence[str | Path]


class TextAmongNumbersError(Exception):
    """A text file that cannot be read with numbers where numbers belong; read as text, it shows why."""


@dataclass(frozen=True)
class Fragment:
    """A file, or some row groups of a Parquet file; ``first_row`` rows of the file come before it.

    ``constants`` are columns that are named in the path, such as ``clinic=Ash/part-0.parquet``. ``provider`` is the
    name of the file, for campaigns in which each file is a provider's. ``text`` are columns of names, which Parquet
    returns as codes and distinct values.
    """

    path: str
    format: str
    groups: tuple[int, ...] = ()
    first_row: int = 0
    constants: tuple[tuple[str, str | None], ...] = ()
    provider: str = ""
    text: tuple[str, ...] = ()

    def summarise(self, request: Request) -> Part:
        """Read the fragment and add it up."""
        place = file_name(self.path)
        try:
            return Adder(request, place, self.provider).add_all(self.batches(request), self.first_row)
        except TextAmongNumbersError as error:
            # read once more without converting anything, so that the values that are not numbers can be named
            adder = Adder(request, place, self.provider, text=True)
            part = adder.add_all(self.batches(request, text=True), self.first_row)
            if not part.problems:
                raise self.unreadable(error) from None
            return part
        except UnicodeError:
            raise DataError.at(place, NOT_UNICODE) from None

    def unreadable(self, error: BaseException) -> DataError:
        """Return what to say when the file is not in its format."""
        return DataError.at(file_name(self.path), f"cannot be read as {self.format}: {first_line(error)}")

    def refuse_missing(self, request: Request, names: Sequence[str]) -> None:
        """Raise if the file and its path do not have the requested columns."""
        request.refuse_missing([*names, *dict(self.constants)], file_name(self.path))

    def batches(self, request: Request, *, text: bool = False) -> Iterator[Any]:
        """Read the fragment batch by batch; with ``text`` nothing is converted."""
        constants = dict(self.constants)
        columns = [name for name in request.named if name not in constants]
        with self.errors_named():
            try:
                for batch in (_read_text if text else _READERS[self.format])(self, request, columns):
                    complete = self._with_constants(batch)
                    if request.look is not None and not text:  # what is read once more was looked at
                        request.look(complete)
                    yield complete
            except pa.ArrowInvalid as error:
                if self.format == "csv" and not text:
                    raise TextAmongNumbersError(str(error)) from None
                raise

    def column_names(self) -> list[str]:
        """Return the names of all columns."""
        with self.errors_named():
            names = _csv_names(self) if self.format == "csv" else self.schema().names
        return [*names, *dict(self.constants)]

    def schema(self) -> Any:
        """Return the names and types of the columns that are stored in the file."""
        with self.errors_named():
            if self.format == "parquet":
                return pq.read_schema(self.path)
            if self.format == "arrow":
                with pa.memory_map(self.path) as source:
                    return _open_arrow(source).schema
            if self.format == "sheet":
                return read_sheet(self.path).schema
            with _open_jsonl(self) as reader:
                return reader.schema

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """Name the file in errors of reading it."""
        try:
            yield
        except (pa.ArrowException, CsvError, OSError, UnicodeError, EOFError) as error:
            from_text = self.format in ("csv", "jsonl") and isinstance(error, pa.ArrowInvalid)
            if isinstance(error, UnicodeError) or (from_text and not _is_unicode(self.path)):
                raise DataError.at(file_name(self.path), NOT_UNICODE) from None
            raise self.unreadable(error) from None

    def _with_constants(self, batch: Any) -> Any:
        for name, value in self.constants:
            codes = pa.array([0] * batch.num_rows, pa.int32())
            batch = batch.append_column(name, pa.DictionaryArray.from_arrays(codes, pa.array([value], pa.string())))
        return batch


def plan(
    source: Source,
    request: Request,
    format: str | None = None,  # noqa: A002
    skip: Collection[Path] = (),
) -> tuple[list[Fragment], list[Path]]:
    """Return the fragments of all row files, in the order in which they are added up, and files of statistics."""
    fragments: list[Fragment] = []
    statistics: list[Path] = []
    for root, path in find_files(source):
        if path.resolve() in skip:
            continue
        kind = format or format_of(path)
        if kind == "statistics":
            statistics.append(path)
            continue
        fragment = Fragment(str(path), kind, constants=_partitions(root, path), provider=stem(path))
        fragments += _row_groups(fragment, request) if kind == "parquet" else [fragment]
    return fragments, statistics


def find_files(source: Source) -> list[tuple[Path, Path]]:
    """Return the files of a source (a file, a folder, a pattern, or several), each with the folder it was sought in."""
    files: list[tuple[Path, Path]] = []
    for entry in [source] if isinstance(source, str | Path) else source:
        path = Path(entry)
        if path.is_dir():
            inside = [p for p in sorted(path.rglob("*")) if p.is_file() and _suffix(p) in FORMATS]
            usable = [p for p in inside if not any(part[0] in "._" for part in p.relative_to(path).parts)]
            if not usable:
                raise DataError.at(str(entry), f"the folder has no data files ({', '.join(sorted(FORMATS))})")
            files += [(path, p) for p in usable]
        elif path.is_file():
            files.append((path.parent, path))
        elif any(sign in str(entry) for sign in "*?["):
            matches = [Path(p) for p in sorted(glob.glob(str(entry), recursive=True))]  # noqa: PTH207 (absolute patterns)
            matches = [p for p in matches if p.is_file()]
            if not matches:
                raise DataError.at(str(entry), "no file matches this pattern")
            files += [(path.parent, p) for p in matches]
        else:
            raise DataError.at(str(entry), "there is no such file or folder")
    for path, times in Counter(path.resolve() for _, path in files).items():
        if times > 1:
            raise DataError.at(file_name(path), "named twice by the source; its rows would count twice")
    return files


def format_of(path: Path) -> str:
    """Return the format that a file's name ends in."""
    suffix = _suffix(path)
    if suffix not in FORMATS:
        raise DataError.at(file_name(path), f"unknown kind of file; the name must end in {', '.join(sorted(FORMATS))}")
    return FORMATS[suffix]


def _suffix(path: Path) -> str:
    return Path(path.stem).suffix.lower() if path.suffix.lower() in _COMPRESSED else path.suffix.lower()


def stem(path: Path) -> str:
    """Return a file's name without its ending."""
    name = path.name[: -len(path.suffix)] if path.suffix.lower() in _COMPRESSED else path.name
    return name[: -len(Path(name).suffix)] if Path(name).suffix else name


def sha256_of(path: Path) -> str:
    """Return the SHA-256 digest of a file, in hexadecimal."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _partitions(root: Path, path: Path) -> tuple[tuple[str, str | None], ...]:
    """Read columns off folders such as ``clinic=Ash``."""
    try:
        folders = path.relative_to(root).parts[:-1]
    except ValueError:
        return ()
    pairs = [folder.split("=", 1) for folder in folders if "=" in folder]
    return tuple((name, None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)) for name, value in pairs)


def _row_groups(fragment: Fragment, request: Request) -> list[Fragment]:
    with fragment.errors_named(), pq.ParquetFile(fragment.path) as file:
        fragment.refuse_missing(request, file.schema_arrow.names)
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        text = [f.name for f in file.schema_arrow if f.name in request.labels and is_text(f.type)]
    fragment = replace(fragment, text=tuple(text))
    most = max(_BATCH_VALUES // max(16, len(request.columns)), sum(sizes) // 32)
    parts: list[Fragment] = []
    groups: list[int] = []
    first = rows = 0
    for group, size in enumerate(sizes):
        if groups and rows + size > most:
            parts.append(replace(fragment, groups=tuple(groups), first_row=first))
            first, rows, groups = first + rows, 0, []
        groups.append(group)
        rows += size
    return [*parts, replace(fragment, groups=tuple(groups), first_row=first)] if groups else parts


def batch_rows(request: Request) -> int:
    """How many rows are looked at together: few for counts and sums, many where each provider's part is multiplied."""
    multiplied = request.reduction.batch_columns
    return _BATCH_VALUES // max(16, multiplied) if multiplied > 1 else _BATCH_ROWS


def _read_parquet(fragment: Fragment, request: Request, columns: list[str]) -> Iterator[Any]:
    with pq.ParquetFile(fragment.path, read_dictionary=list(fragment.text), memory_map=True) as file:
        groups = list(fragment.groups)
        yield from file.iter_batches(batch_rows(request), row_groups=groups, columns=columns, use_threads=False)


def _read_csv(fragment: Fragment, request: Request, columns: list[str]) -> Iterator[Any]:
    fragment.refuse_missing(request, _csv_names(fragment))
    types: dict[str, Any] = {name: pa.string() for name in columns if name in request.labels}
    with _open_csv(fragment, columns, types) as reader:  # the types of other columns are never inferred
        for name in columns:
            if name not in types:
                kind = reader.schema.field(name).type
                keep = pa.types.is_boolean(kind) or pa.types.is_string(kind)
                types[name] = kind if keep else pa.float64()
    with _open_csv(fragment, columns, types) as reader:
        yield from reader


def _csv_names(fragment: Fragment) -> list[str]:
    """Return the names of all columns; text that is not Unicode is refused in these alone."""
    with pa.input_stream(fragment.path) as file, TextIOWrapper(file, "utf-8-sig", "surrogateescape", "") as text:
        lines = (last := line for line in text)
        names = next(filter(None, read_csv(lines, delimiter=_delimiter(Path(fragment.path)))), None)
    if names is None or not last.endswith(("\n", "\r")):  # no line of names that ends, so no rows either
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

    Arrow decodes a row before it hands it out, and prints a traceback if it cannot: other encodings are left out.
    """
    invalid_rows: list[Any] = []

    def refuse(row: Any) -> str:
        invalid_rows.append(row)
        return "error"

    if _is_unicode(fragment.path):
        first = _csv_names(fragment)[0]
        with suppress(pa.ArrowInvalid), _csv_reader(fragment, [first], {first: pa.string()}, refuse) as reader:
            for _ in reader:
                pass
    return next(iter(invalid_rows), None)


def _is_unicode(path: str) -> bool:
    """Return whether a file of text is in UTF-8, as far as it can be read."""
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
    if _suffix(path) == ".tsv":
        return "\t"
    with pa.input_stream(str(path)) as file:
        head = file.read(_HEAD_BYTES).split(b"\n", 1)[0]
    return max([b",", b";", b"\t"], key=head.count).decode()


def _read_jsonl(fragment: Fragment, request: Request, columns: list[str]) -> Iterator[Any]:
    with _open_jsonl(fragment) as reader:
        fragment.refuse_missing(request, reader.schema.names)
        fields = [reader.schema.field(name) for name in columns]
    schema = pa.schema([field.with_type(_jsonl_type(field, request)) for field in fields])
    options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    with _open_jsonl(fragment, options) as reader:
        for batch in reader:
            yield batch.select(columns)


def _jsonl_type(field: Any, request: Request) -> Any:
    """Return the type to read a column as: dates as they are written, and numbers that may have fractions later."""
    if field.name in request.labels:
        return pa.string() if pa.types.is_temporal(field.type) else field.type
    return pa.float64() if pa.types.is_integer(field.type) or pa.types.is_null(field.type) else field.type


def _open_jsonl(fragment: Fragment, options: Any = None) -> Any:
    if Path(fragment.path).stat().st_size == 0:
        raise DataError.at(file_name(fragment.path), "the file is empty")
    read_options = json.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False)
    return json.open_json(fragment.path, read_options=read_options, parse_options=options)


def _read_arrow(fragment: Fragment, request: Request, names: list[str]) -> Iterator[Any]:
    with pa.memory_map(fragment.path) as source:
        opened = _open_arrow(source)
        fragment.refuse_missing(request, opened.schema.names)
        is_file = hasattr(opened, "get_batch")
        batches = (opened.get_batch(i) for i in range(opened.num_record_batches)) if is_file else iter(opened)
        for batch in batches:
            columns, step = batch.select(names), batch_rows(request)
            _check_values(columns)
            for start in range(0, columns.num_rows, step):
                yield columns.slice(start, step)


def _check_values(batch: Any) -> None:
    """Refuse values whose lengths are not as the file states them, and text that is not Unicode."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        for column in batch.columns:
            binary = _BINARY.get(column.type)
            (column if binary is None else column.cast(binary)).validate(full=True)
        raise UnicodeError from None  # nothing but text is invalid


def _open_arrow(source: Any) -> Any:
    """Open an Arrow file, which has its batches listed, or a stream, which has one after the other."""
    is_file = source.read(6) == b"ARROW1"
    source.seek(0)
    return pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)


def _read_text(fragment: Fragment, request: Request, columns: list[str]) -> Iterator[Any]:
    fragment.refuse_missing(request, _csv_names(fragment))
    with _open_csv(fragment, columns, {name: pa.string() for name in columns}) as reader:
        yield from reader


def _read_sheet(fragment: Fragment, request: Request, columns: list[str]) -> Iterator[Any]:
    table = read_sheet(fragment.path)
    fragment.refuse_missing(request, table.schema.names)
    yield from table.select(columns).to_batches(batch_rows(request))


_READERS = {
    "sheet": _read_sheet,
    "parquet": _read_parquet,
    "csv": _read_csv,
    "jsonl": _read_jsonl,
    "arrow": _read_arrow,
}
