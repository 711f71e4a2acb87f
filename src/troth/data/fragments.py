"""Files of rows as a plan of fragments, each a file or some of its row groups, read by the task that adds it up."""

from __future__ import annotations

from contextlib import contextmanager
from csv import Error as CsvError
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from troth.core.errors import DataError, first_line
from troth.data.arrow_columns import is_text
from troth.data.files import Source, find_files, format_of, stem
from troth.data.kernel import Adder
from troth.data.readers import BATCH_VALUES, READERS, csv_names, is_unicode, open_arrow, open_jsonl, read_text
from troth.data.request import Part, Request, file_name
from troth.data.sheets import read_sheet

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

NOT_UNICODE = "holds text that is not in UTF-8; save it in that encoding"


class TextAmongNumbersError(Exception):
    """A text file has other values where numbers belong; reading it again as text shows which."""


@dataclass(frozen=True)
class Fragment:
    """A file, or some row groups of a Parquet file, which begin at its row ``first_row``, counted from 0.

    ``constants`` are columns from the path, such as ``clinic=Ash/part-0.parquet``. ``provider`` is the name of the
    file, for campaigns with one file per provider. ``text`` are columns of names, which Parquet returns as codes and
    distinct values.
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
            # read again without conversions, so that errors can quote the values that are not numbers
            adder = Adder(request, place, self.provider, text=True)
            part = adder.add_all(self.batches(request, text=True), self.first_row)
            if not part.problems:
                raise self.unreadable(error) from None
            return part
        except UnicodeError:
            raise DataError.at(place, NOT_UNICODE) from None

    def unreadable(self, error: BaseException) -> DataError:
        """Return the error that the file is not in its format."""
        return DataError.at(file_name(self.path), f"cannot be read as {self.format}: {first_line(error)}")

    def reject_missing(self, request: Request, names: Sequence[str]) -> None:
        """Raise if a requested column is neither in the file nor in its path."""
        request.reject_missing([*names, *dict(self.constants)], file_name(self.path))

    def batches(self, request: Request, *, text: bool = False) -> Iterator[Any]:
        """Read the fragment in batches, with ``text`` without converting anything."""
        constants = dict(self.constants)
        columns = [name for name in request.named if name not in constants]
        with self.errors_named():
            try:
                for batch in (read_text if text else READERS[self.format])(self, request, columns):
                    complete = self._with_constants(batch)
                    if request.on_batch is not None and not text:  # as text, a file is read for the second time
                        request.on_batch(complete)
                    yield complete
            except pa.ArrowInvalid as error:
                if self.format == "csv" and not text:
                    raise TextAmongNumbersError(str(error)) from None
                raise

    def column_names(self) -> list[str]:
        """Return the names of all columns."""
        with self.errors_named():
            names = csv_names(self) if self.format == "csv" else self.schema().names
        return [*names, *dict(self.constants)]

    def schema(self) -> Any:
        """Return the names and types of the columns that are stored in the file."""
        with self.errors_named():
            if self.format == "parquet":
                return pq.read_schema(self.path)
            if self.format == "arrow":
                with pa.memory_map(self.path) as source:
                    return open_arrow(source).schema
            if self.format == "sheet":
                return read_sheet(self.path).schema
            with open_jsonl(self) as reader:
                return reader.schema

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """Turn errors of reading the file into ones that name it."""
        try:
            yield
        except (pa.ArrowException, CsvError, OSError, UnicodeError, EOFError) as error:
            from_text = self.format in ("csv", "jsonl") and isinstance(error, pa.ArrowInvalid)
            if isinstance(error, UnicodeError) or (from_text and not is_unicode(self.path)):
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
    """Return the fragments of all files of rows, in the order in which they are added, and the files of statistics."""
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


def _row_groups(fragment: Fragment, request: Request) -> list[Fragment]:
    with fragment.errors_named(), pq.ParquetFile(fragment.path) as file:
        fragment.reject_missing(request, file.schema_arrow.names)
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        text = [f.name for f in file.schema_arrow if f.name in request.labels and is_text(f.type)]
    fragment = replace(fragment, text=tuple(text))
    max_rows = max(BATCH_VALUES // max(16, len(request.columns)), sum(sizes) // 32)
    parts: list[Fragment] = []
    groups: list[int] = []
    first = rows = 0
    for group, size in enumerate(sizes):
        if groups and rows + size > max_rows:
            parts.append(replace(fragment, groups=tuple(groups), first_row=first))
            first, rows, groups = first + rows, 0, []
        groups.append(group)
        rows += size
    return [*parts, replace(fragment, groups=tuple(groups), first_row=first)] if groups else parts


def _partitions(root: Path, path: Path) -> tuple[tuple[str, str | None], ...]:
    """Return the columns in the names of folders, such as ``clinic=Ash``."""
    try:
        folders = path.relative_to(root).parts[:-1]
    except ValueError:
        return ()
    pairs = [folder.split("=", 1) for folder in folders if "=" in folder]
    return tuple((name, None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)) for name, value in pairs)
