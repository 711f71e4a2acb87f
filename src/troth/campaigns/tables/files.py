"""Files of rows as a plan of fragments: a file with some row groups, read inside the task that adds it up."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa

from troth.campaigns.tables.kernel import Adder
from troth.campaigns.tables.request import Part, Request, file_name
from troth.errors import DataError
from troth.sums import Moments

_BATCH_ROWS = 1 << 17  # that stay in a processor's cache
_BATCH_VALUES = 1 << 24  # that are multiplied together
_BLOCK_BYTES = 1 << 23  # of text read at a time

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
    ".json": "statistics",
}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
Source: TypeAlias = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Fragment:
    """A file, or some row groups of one.

    Attributes
    ----------
    groups
        Row groups of a Parquet file.
    first_row
        How many rows of the file come before it.
    constants
        Columns that the path tells, such as ``clinic=Ash/part-0.parquet``.
    provider
        The file's own name, for campaigns in which each file is a provider's.
    text
        Columns of names, of which Parquet hands out codes and distinct values.
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
        adder = Adder(request, file_name(self.path), self.provider)
        row = self.first_row
        for batch in self.batches(request):
            adder.add(batch, row)
            row += batch.num_rows
        return adder.part()

    def batches(self, request: Request) -> Iterator[Any]:
        """Read the fragment batch by batch."""
        stored = {name for name, _ in self.constants}
        wanted = [name for name in request.named if name not in stored]
        try:
            for batch in _READERS[self.format](self, request, wanted):
                yield self._with_constants(batch) if self.constants else batch
        except pa.ArrowInvalid as error:
            yield from self._as_text(request, wanted, error)
        except (pa.ArrowException, OSError, UnicodeError, EOFError) as error:
            raise DataError(f"{file_name(self.path)}: cannot be read as {self.format}: {_first_line(error)}") from None

    def column_names(self) -> list[str]:
        """Return the names of all columns."""
        stored = [name for name, _ in self.constants]
        if self.format == "parquet":
            import pyarrow.parquet as pq

            return [*pq.read_schema(self.path).names, *stored]
        if self.format == "csv":
            with _open_csv(self, None, {}) as reader:
                return [*reader.schema.names, *stored]
        if self.format == "jsonl":
            from pyarrow import json

            with json.open_json(self.path) as reader:
                return [*reader.schema.names, *stored]
        return [*pa.ipc.open_file(self.path).schema.names, *stored]

    def _with_constants(self, batch: Any) -> Any:
        for name, value in self.constants:
            column = pa.DictionaryArray.from_arrays(
                pa.array([0] * batch.num_rows, pa.int32()), pa.array([value], pa.string())
            )
            batch = batch.append_column(name, column)
        return batch

    def _as_text(self, request: Request, wanted: list[str], error: Exception) -> Iterator[Any]:
        """Read text once more without converting it, so that the adder finds the values that are no numbers."""
        text = {name: pa.string() for name in wanted}
        if self.format != "csv" or "conversion error" not in str(error):
            raise DataError(f"{file_name(self.path)}: cannot be read as {self.format}: {_first_line(error)}") from None
        try:
            with _open_csv(self, wanted, text) as reader:
                for batch in reader:
                    yield self._with_constants(batch) if self.constants else batch
        except pa.ArrowInvalid:
            raise DataError(f"{file_name(self.path)}: cannot be read as csv: {_first_line(error)}") from None
        del request


def plan(source: Source, request: Request, format: str | None = None) -> tuple[list[Fragment], list[Path]]:  # noqa: A002
    """Return the fragments of all row files, in the order in which they are added up, and files of statistics."""
    fragments: list[Fragment] = []
    statistics: list[Path] = []
    for root, path in find_files(source):
        kind = format or format_of(path)
        if kind == "statistics":
            statistics.append(path)
            continue
        fragment = Fragment(str(path), kind, constants=_partitions(root, path), provider=_stem(path))
        fragments += _row_groups(fragment, request) if kind == "parquet" else [fragment]
    return fragments, statistics


def find_files(source: Source) -> list[tuple[Path, Path]]:
    """Return the files of a source (a file, a folder, a pattern, or several), each with the folder it was sought in."""
    found: list[tuple[Path, Path]] = []
    for entry in [source] if isinstance(source, str | Path) else source:
        path = Path(entry)
        if path.is_dir():
            inside = [p for p in sorted(path.rglob("*")) if p.is_file() and not _hidden(p.relative_to(path))]
            usable = [p for p in inside if _suffix(p) in FORMATS]
            if not usable:
                raise DataError(f"{entry}: the folder has no data files ({', '.join(sorted(FORMATS))})")
            found += [(path, p) for p in usable]
        elif path.is_file():
            found.append((path.parent, path))
        elif any(sign in str(entry) for sign in "*?["):
            matches = [Path(p) for p in sorted(glob.glob(str(entry), recursive=True))]  # noqa: PTH207 (absolute patterns)
            matches = [p for p in matches if p.is_file()]
            if not matches:
                raise DataError(f"{entry}: no file matches this pattern")
            found += [(path.parent, p) for p in matches]
        else:
            raise DataError(f"{entry}: there is no such file or folder")
    paths = [path.resolve() for _, path in found]
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise DataError(f"{file_name(twice)}: named twice by the source; its rows would count twice")
    return found


def format_of(path: Path) -> str:
    """Return the format that a file's name tells."""
    suffix = _suffix(path)
    if suffix not in FORMATS:
        raise DataError(f"{file_name(path)}: unknown kind of file; the name must end in {', '.join(sorted(FORMATS))}")
    return FORMATS[suffix]


def _suffix(path: Path) -> str:
    return Path(path.stem).suffix.lower() if path.suffix.lower() in _COMPRESSED else path.suffix.lower()


def _stem(path: Path) -> str:
    name = path.name[: -len(path.suffix)] if path.suffix.lower() in _COMPRESSED else path.name
    return name[: -len(Path(name).suffix)] if Path(name).suffix else name


def _hidden(relative: Path) -> bool:
    return any(part.startswith((".", "_")) for part in relative.parts)


def _partitions(root: Path, path: Path) -> tuple[tuple[str, str | None], ...]:
    """Read columns off folders such as ``clinic=Ash``."""
    try:
        folders = path.relative_to(root).parts[:-1]
    except ValueError:
        return ()
    pairs = [folder.split("=", 1) for folder in folders if "=" in folder]
    return tuple((name, None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)) for name, value in pairs)


def _row_groups(fragment: Fragment, request: Request) -> list[Fragment]:
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(fragment.path) as file:
            constants = [name for name, _ in fragment.constants]
            request.refuse_missing([*file.schema_arrow.names, *constants], file_name(fragment.path))
            sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            names = {request.provider, request.day} | (
                set(request.columns) if request.categories is not None else set()
            )
            text = [f.name for f in file.schema_arrow if f.name in names and not pa.types.is_primitive(f.type)]
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file_name(fragment.path)}: cannot be read as parquet: {_first_line(error)}") from None
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
    squares = isinstance(request.sums, Moments) and request.sums.squares
    return _BATCH_VALUES // max(16, len(request.columns)) if squares else _BATCH_ROWS


def _read_parquet(fragment: Fragment, request: Request, wanted: list[str]) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(fragment.path, read_dictionary=list(fragment.text), memory_map=True) as file:
        groups = list(fragment.groups)
        yield from file.iter_batches(batch_rows(request), row_groups=groups, columns=wanted, use_threads=False)


def _read_csv(fragment: Fragment, request: Request, wanted: list[str]) -> Iterator[Any]:
    labels = {request.provider, request.day} | (set(wanted) if request.categories is not None else set())
    types: dict[str, Any] = {name: pa.string() for name in wanted if name in labels}
    with _open_csv(fragment, None, types) as reader:
        constants = [name for name, _ in fragment.constants]
        request.refuse_missing([*reader.schema.names, *constants], file_name(fragment.path))
        for name in wanted:
            if name not in types:
                kind = reader.schema.field(name).type
                keep = pa.types.is_boolean(kind) or pa.types.is_string(kind)
                types[name] = kind if keep else pa.float64()
    with _open_csv(fragment, wanted, types) as reader:
        yield from reader


def _open_csv(fragment: Fragment, columns: list[str] | None, types: dict[str, Any]) -> Any:
    from pyarrow import csv

    path = Path(fragment.path)
    try:
        return csv.open_csv(
            fragment.path,
            read_options=csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
            parse_options=csv.ParseOptions(delimiter=_delimiter(path), newlines_in_values=True),
            convert_options=csv.ConvertOptions(column_types=types, include_columns=columns),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):
            raise DataError(f"{file_name(path)}: the file is empty; it needs a line of column names and rows") from None
        raise


def _delimiter(path: Path) -> str:
    if _suffix(path) == ".tsv":
        return "\t"
    if path.suffix.lower() in _COMPRESSED:
        return ","
    with path.open("rb") as file:
        head = file.readline(65536)
    return max([b",", b";", b"\t"], key=head.count).decode()


def _read_jsonl(fragment: Fragment, request: Request, wanted: list[str]) -> Iterator[Any]:
    from pyarrow import json

    read = json.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False)
    if Path(fragment.path).stat().st_size == 0:
        raise DataError(f"{file_name(fragment.path)}: the file is empty")
    with json.open_json(fragment.path, read_options=read) as reader:
        constants = [name for name, _ in fragment.constants]
        request.refuse_missing([*reader.schema.names, *constants], file_name(fragment.path))
        fields = [reader.schema.field(name) for name in wanted]
    values = {name for name in request.columns if name is not None}
    schema = pa.schema([f.with_type(pa.float64()) if f.name in values and _whole(f.type) else f for f in fields])
    options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    with json.open_json(fragment.path, read_options=read, parse_options=options) as reader:
        for batch in reader:
            yield batch.select(wanted)


def _whole(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_null(kind))


def _read_arrow(fragment: Fragment, request: Request, wanted: list[str]) -> Iterator[Any]:
    with pa.memory_map(fragment.path) as source:
        if source.read(6) == b"ARROW1":
            file = pa.ipc.open_file(source)
            request.refuse_missing([*file.schema.names, *dict(fragment.constants)], file_name(fragment.path))
            batches: Iterator[Any] = (file.get_batch(i) for i in range(file.num_record_batches))
        else:
            source.seek(0)
            stream = pa.ipc.open_stream(source)
            request.refuse_missing([*stream.schema.names, *dict(fragment.constants)], file_name(fragment.path))
            batches = iter(stream)
        for batch in batches:
            chosen, step = batch.select(wanted), batch_rows(request)
            for start in range(0, chosen.num_rows, step):
                yield chosen.slice(start, step)


_READERS = {"parquet": _read_parquet, "csv": _read_csv, "jsonl": _read_jsonl, "arrow": _read_arrow}


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
