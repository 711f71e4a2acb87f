"""Rows gathered by provider and day, for custom models without a reduction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from troth.core.errors import DataError
from troth.core.reductions import Moments
from troth.data.files import find_files, format_of
from troth.data.fragments import TextAmongNumbersError, plan
from troth.data.frames import as_arrow
from troth.data.kernel import Adder, Totals
from troth.data.read import as_reports, canonical_name, is_paths, is_pushed_down
from troth.data.request import Problem, Report, Request, file_name, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.contract import Model

MAX_INSPECTED = 100_000
"""How many rows `troth init` inspects before it writes a campaign."""


def column_names(data: Any) -> list[str]:
    """Return the names of the columns of any table, from its first file if it has several."""
    if is_paths(data):
        paths = [path for _, path in find_files(data) if format_of(path) != "statistics"]
        if not paths:
            raise DataError(
                f"{data}: there are no files of rows; JSON holds rows if each line is one object and the name ends in "
                ".jsonl; otherwise save them as CSV"
            )
        fragments, _ = plan(str(paths[0]), Request(Moments(), ()))
        return fragments[0].column_names() if fragments else []
    if is_pushed_down(data):
        return list(data.columns)
    return list(as_arrow(data).schema.names)


def first_rows(
    data: Any, columns: Sequence[str], provider: str | None, day: str | None
) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the first rows of a file or folder as lists by column, and the location of each row.

    The values of text files are not converted.
    """
    request = Request(Moments(), tuple(columns), provider, day)
    values: dict[str, list[Any]] = {name: [] for name in request.named}
    places: list[str] = []
    fragments, _ = plan(str(data), request)
    for fragment in fragments:
        row = fragment.first_row
        for batch in fragment.batches(request, text=fragment.format == "csv"):
            for name in request.named:
                values[name] += batch.column(name).to_pylist()
            places += [f"row {row + k + 1:,} of {file_name(fragment.path)}" for k in range(batch.num_rows)]
            row += batch.num_rows
            if len(places) >= MAX_INSPECTED:
                return values, places
    return values, places


def gather_reports(model: Model, data: Any, request: Request, provider: str | None = None) -> list[Report]:
    """Apply the model's ``statistics`` to each provider's rows of each day; a named provider owns all rows."""
    if not is_paths(data):
        request.reject_missing_provider(provider)
    located, adder = requested_rows(data, request), Adder(request, "the data", provider)
    if located.table.num_rows == 0:
        return []
    (batch,) = located.table.combine_chunks().to_batches()
    batch, numbers = adder.drop(batch)
    if batch.num_rows == 0:
        raise DataError("the data: every row lacks a value or a provider's name")
    names, days, codes, columns = adder.code(batch, numbers)
    located.refuse(adder.problems)
    values = np.column_stack(columns).astype(np.float64)
    order = np.argsort(codes, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    keys, summaries = [], []
    for rows in groups:
        name, day = divmod(int(codes[rows[0]]), len(days))
        try:
            statistics = model.statistics(values[rows, 0] if len(columns) == 1 else values[rows])
        except DataError as error:
            raise DataError(f"provider {canonical_name(names[name])!r}: {error}") from None
        keys.append((names[name], days[day]))
        summaries.append(np.asarray(statistics, dtype=np.float64))
    totals = Totals(len(summaries[0]))
    totals.add(np.array([totals.index(key, len(groups)) for key in keys]), np.stack(summaries))
    sources, features = [""] * len(groups), [None] * len(groups)
    return as_reports(totals, [len(rows) for rows in groups], request, adder.dropped, sources, features)


class Located(NamedTuple):
    """An Arrow table, and the parts of files that it was read from: file name, first row, number of rows."""

    table: Any
    parts: Sequence[tuple[str, int, int]] = ()

    def location(self, row: int) -> tuple[str, int]:
        """Return the file of a row, counted from 0 in the table, and the row's number there, counted from 1."""
        for name, first, rows in self.parts:
            if row < rows:
                return name, first + row + 1
            row -= rows
        return "the data", row + 1

    def refuse(self, problems: Sequence[Problem]) -> None:
        """Raise one error for all problems of the table, if any, each with its file and row."""
        placed = []
        for problem in problems:
            file, row = self.location((problem.row or 1) - 1)
            placed.append(replace(problem, place=file, row=row))
        refuse(placed)


def requested_rows(data: Any, request: Request, *, format: str | None = None) -> Located:  # noqa: A002
    """Return the requested columns of any table, and the locations of its rows."""
    if is_paths(data):
        fragments, _ = plan(data, request, format)
        try:
            by_fragment = [list(fragment.batches(request)) for fragment in fragments]
        except TextAmongNumbersError:  # so that errors can quote the values that are not numbers
            by_fragment = [list(fragment.batches(request, text=True)) for fragment in fragments]
        if not any(batch.num_rows for batches in by_fragment for batch in batches):
            raise DataError.at(file_name(find_files(data)[0][1]), "the file has no rows")
        table = _joined([pa.Table.from_batches(batches) for batches in by_fragment if batches], request)
        return Located(
            table.select(list(request.named)),
            [
                (file_name(fragment.path), fragment.first_row, sum(batch.num_rows for batch in batches))
                for fragment, batches in zip(fragments, by_fragment, strict=True)
            ],
        )
    if is_pushed_down(data):
        from troth.data.pushdown import as_ibis

        return Located(as_ibis(data).select(*request.named).to_pyarrow())
    return Located(as_arrow(data, request))


def _joined(tables: list[Any], request: Request) -> Any:
    """Concatenate the rows of all files; cast names and labels to text if the files store them in different types."""
    if any(table.schema != tables[0].schema for table in tables[1:]):
        tables = [_with_text(table, request) for table in tables]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"the files store a column with different types; use one type: {error}") from None


def _with_text(table: Any, request: Request) -> Any:
    for place, name in enumerate(table.column_names):
        if name in request.labels:
            column = table.column(name)
            if pa.types.is_floating(column.type):
                column = pc.if_else(pc.is_nan(column), None, column)
            table = table.set_column(place, name, column.cast(pa.large_string()))
    return table
