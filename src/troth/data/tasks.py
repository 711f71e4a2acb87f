"""Reports on tasks: any table with a column of tasks, as arrays with one entry for each provider on each task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import DataError
from troth.core.limits import MAX_SUM
from troth.data.arrow_columns import encode
from troth.data.gather import Located, requested_rows
from troth.data.kernel import Adder
from troth.data.read import canonical_name, reject_similar_names, task_name
from troth.data.request import Request, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from troth.core.support import Array, Indexes


_SHOWN = 8  # rows that messages list


@dataclass(frozen=True, eq=False)
class TaskReports:
    """Reports on tasks, sorted by task and provider, with names in alphabetical order.

    ``task`` and ``provider`` are indices of names, ``(report,)``; ``summaries`` are the summaries of reports,
    ``(report, entry)``; ``dropped`` counts the rows that were left out because they have no value.
    """

    tasks: tuple[str, ...]
    providers: tuple[str, ...]
    task: Indexes
    provider: Indexes
    summaries: Array
    dropped: int = 0

    def __len__(self) -> int:
        return len(self.task)

    def by_provider(self) -> Iterable[tuple[str, Indexes]]:
        """Return each provider with the indices of its reports, in the order of tasks."""
        order = np.argsort(self.provider, kind="stable")
        starts = np.searchsorted(self.provider[order], np.arange(1, len(self.providers)))
        return zip(self.providers, np.split(order, starts), strict=True)


def read_tasks(data: Any, request: Request, rows: int | None = 1) -> TaskReports:
    """Read reports on tasks from any table into memory; the request's column of days holds the tasks.

    A report may have at most ``rows`` rows, or any number if it is None.
    """
    if not isinstance(request.day, str):
        raise DataError("name the column of tasks with task=")
    table = read_rows(requested_rows(data, request), request)
    tasks, task = in_order(*table.names(request.day, "task"), task_name)
    providers, provider = [""], np.zeros(len(task), dtype=np.intp)
    if request.provider is not None:
        raw_names, codes = table.names(request.provider, "provider")
        reject_similar_names({raw_names[code]: canonical_name(raw_names[code]) for code in np.unique(codes).tolist()})
        providers, provider = in_order(raw_names, codes, canonical_name)
    pairs, reports = np.unique(task.astype(np.int64) * len(providers) + provider, return_inverse=True)
    task, provider = np.divmod(pairs, len(providers))

    def name_of(report: int) -> str:
        worker = f"provider {shown(providers[provider[report]])}, " if request.provider is not None else ""
        return f"{worker}task {shown(tasks[task[report]])}"

    summaries = table.add_up(reports.ravel(), rows, name_of)
    return TaskReports(tuple(tasks), tuple(providers), task, provider, summaries, table.dropped)


@dataclass(frozen=True)
class TaskRows:
    """The validated rows of a table of tasks, without those that lack a value: their numbers and columns."""

    request: Request
    located: Located
    batch: Any
    numbers: Indexes
    columns: list[NDArray[Any]]

    @property
    def dropped(self) -> int:
        """How many rows have no value."""
        return int(self.located.table.num_rows) - len(self.numbers)

    def location(self, row: int) -> tuple[str, int]:
        """Return the file of a row, and its number there, counted from 1."""
        return self.located.location(int(self.numbers[row]))

    def names(self, column: str, noun: str) -> tuple[list[str], Indexes]:
        """Return the names of tasks or providers in a column, and the index of each row's name."""
        try:
            values, codes = encode(self.batch.column(column))
        except TypeError as error:
            raise DataError(f"column {column!r} has {error}; a {noun} is named by text or a whole number") from None
        raw_names = [str(value) for value in (values if isinstance(values, range) else values.to_pylist())]
        blank = [code for code in np.unique(codes).tolist() if code < 0 or not raw_names[code].strip()]
        if blank:
            file, row = self.location(int(np.argmax(np.isin(codes, blank))))
            raise DataError.at(file, f"row {row:,}: column {column!r}: the name of the {noun} is missing; add it")
        return raw_names, codes

    def add_up(self, reports: Indexes, max_rows: int | None, name_of: Callable[[int], str]) -> Array:
        """Return the summary of each report.

        ``reports`` has the number of each row's report, and ``name_of`` returns the name of a report for errors. More
        than ``max_rows`` rows would let one answer count as several.
        """
        self._reject_repeated(reports, max_rows, name_of)
        reduction, columns = self.request.reduction, self.columns
        with np.errstate(over="ignore", invalid="ignore"):
            summaries = reduction.add(columns, reports, int(reports.max()) + 1)
        too_large = ~(np.abs(reduction.magnitudes(summaries)) <= MAX_SUM)
        if too_large.any():
            first = int(np.argmax(too_large.any(axis=1)))
            rows = np.flatnonzero(reports == first)
            values = np.array([np.asarray(column, dtype=np.float64)[rows] for column in columns])
            column, row = np.unravel_index(np.argmax(np.nan_to_num(np.abs(values), nan=np.inf)), values.shape)
            file, number = self.location(int(rows[row]))
            raise DataError(
                f"{name_of(first)}: {values[column, row]:g} cannot be added up and squared: numbers are at most "
                f"{MAX_SUM:g} (column {self.request.entries[column]!r}, row {number:,} of {file}); correct or "
                "rescale it"
            )
        return summaries

    def _reject_repeated(self, reports: Indexes, max_rows: int | None, name_of: Callable[[int], str]) -> None:
        counts = np.bincount(reports)
        if max_rows is None or counts.max() <= max_rows:
            return
        repeated = np.flatnonzero(counts > max_rows)
        first = int(reports[np.isin(reports, repeated)][0])
        by_file: dict[str, list[str]] = {}
        for row in np.flatnonzero(reports == first)[:_SHOWN].tolist():
            file, number = self.location(row)
            by_file.setdefault(file, []).append(f"{number:,}")
        own = self.request.own_file
        rows = [f"rows {', '.join(numbers)}" + f" of {file}" * (not own) for file, numbers in by_file.items()]
        listed = f"column {self.request.day!r}, {'; '.join(rows)}"
        other_reports = "1 other report has" if len(repeated) == 2 else f"{len(repeated) - 1:,} other reports have"
        and_more = f" {other_reports} too many rows as well." if len(repeated) > 1 else ""
        needed = counts.max()
        terms = f'[limits] rows = {needed} (in Python terms={{"limits": {{"rows": {needed}}}}})'
        remedy = f", or, if several rows are one report, allow them with {terms}"
        if own or self.request.provider is None:  # the sender cannot change the terms, or the table has no providers
            remedy = ""
        problem = f"occurs {counts[first]:,} times ({listed}); keep one row for each task"
        if max_rows > 1:
            allowed = f"[limits] rows allows {max_rows:,} for each task"
            problem = f"has {counts[first]:,} rows ({listed}, …), and {allowed}; remove the others"
        raise DataError(f"{name_of(first)} {problem}{remedy}.{and_more}")


def read_rows(located: Located, request: Request) -> TaskRows:
    """Read the rows of a table of tasks that have a value; raise if some values cannot be used."""
    if located.table.num_rows == 0:
        raise DataError("there are no reports: the data have no rows")
    adder = Adder(request, "", text=True)
    rows = TaskRows(request, located, *adder.read(located.table.combine_chunks().to_batches()[0]))
    located.refuse(adder.problems)
    if len(rows.numbers) == 0:
        raise DataError("there are no reports: no row has a value")
    return rows


def in_order(raw_names: list[str], codes: Indexes, canonical: Callable[[str], str]) -> tuple[list[str], Indexes]:
    """Return the canonical names that occur, in alphabetical order, and the index of each row's name."""
    occurring, inverse = np.unique(codes, return_inverse=True)
    canonical_names = np.array([canonical(raw_names[code]) for code in occurring.tolist()], dtype=object)
    names, indices = np.unique(canonical_names, return_inverse=True)
    return names.tolist(), indices[inverse]
