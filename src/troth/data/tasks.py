"""Reports on tasks: any table with a column of tasks, as arrays with one entry for each provider on each task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import DataError
from troth.core.limits import LARGEST_SUM
from troth.data.gather import requested_rows
from troth.data.kernel import Adder, encode
from troth.data.read import canonical_name, refuse_alike, task_name
from troth.data.request import refuse, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from troth.core.support import Array
    from troth.data.gather import Located
    from troth.data.kernel import Rows
    from troth.data.request import Request

    Places = NDArray[np.intp]


_SHOWN = 8  # rows that are listed


@dataclass(frozen=True, eq=False)
class TaskReports:
    """Who reported what on which task, sorted by task and provider, names in alphabetical order.

    Attributes
    ----------
    tasks, providers
        Their names.
    task, provider
        Places among these, ``(report,)``.
    summaries
        What the rows of a report add up to, ``(report, entry)``.
    dropped
        How many rows were left out because they have no value.
    """

    tasks: tuple[str, ...]
    providers: tuple[str, ...]
    task: Places
    provider: Places
    summaries: Array
    dropped: int = 0

    def __len__(self) -> int:
        return len(self.task)


def read_tasks(data: Any, request: Request, rows: int | None = 1) -> TaskReports:
    """Read reports on tasks from any table; the request's column of days is that of tasks.

    Parameters
    ----------
    data
        As for `troth.data.read_reports`. It is read into memory.
    rows
        The most rows of a report; where it is one, a provider that reports twice on a task is an error.
    """
    if not isinstance(request.day, str):
        raise DataError("say which column holds the tasks: task=")
    owner = request.provider or request.day  # what everybody knows is nobody's
    located = requested_rows(data, replace(request, provider=owner))
    if located.table.num_rows == 0:
        raise DataError("there are no reports: the data have no rows")
    present = _read(located, request)
    tasks, task = _names(present, located, request.day, "task")
    providers, provider = [""], np.zeros(len(task), dtype=np.intp)
    if request.provider is not None:
        providers, provider = _names(present, located, request.provider, "provider")
    pairs, which = np.unique(task.astype(np.int64) * len(providers) + provider, return_inverse=True)
    which = which.ravel()
    task, provider = np.divmod(pairs, len(providers))

    def spell(report: int) -> str:
        who = f"provider {shown(providers[provider[report]])}, " if request.provider is not None else ""
        return f"{who}task {shown(tasks[task[report]])}"

    def place(row: int) -> tuple[str, int]:
        return located.place(int(present.numbers[row]))

    refuse_repeated(which, rows, request.day, spell, place, may_allow=request.provider is not None)
    summaries = add_up(request, present.columns, which, len(pairs), spell, place)
    dropped = located.table.num_rows - len(present.numbers)
    return TaskReports(tuple(tasks), tuple(providers), task, provider, summaries, dropped)


def add_up(
    request: Request,
    columns: Sequence[NDArray[Any]],
    reports: Places,
    size: int,
    spell: Callable[[int], str],
    place: Callable[[int], tuple[str, int]],
) -> Array:
    """Return what the rows of each report add up to, or refuse a value that is not a number or too large to add up."""
    with np.errstate(over="ignore", invalid="ignore"):
        summaries = request.reduction.add(columns, reports, size)
    too_large = ~(np.abs(request.reduction.magnitudes(summaries)) <= LARGEST_SUM)
    if too_large.any():
        first = int(np.argmax(too_large.any(axis=1)))
        rows = np.flatnonzero(reports == first)
        values = np.array([np.asarray(column, dtype=np.float64)[rows] for column in columns])
        column, row = np.unravel_index(np.argmax(np.nan_to_num(np.abs(values), nan=np.inf)), values.shape)
        name, number = place(int(rows[row]))
        where = f"column {request.entries[column]!r}, row {number + 1:,}" + (f" of {name}" if name else "")
        raise DataError(
            f"{spell(first)}: {values[column, row]:g} cannot be added up and squared: numbers are at "
            f"most {LARGEST_SUM:g} ({where}); correct or rescale it"
        )
    return summaries


def refuse_repeated(
    reports: Places,
    most: int | None,
    column: str,
    spell: Callable[[int], str],
    place: Callable[[int], tuple[str, int]],
    *,
    may_allow: bool = False,
) -> None:
    """Refuse a report with more rows than it may have, by which one answer would count as several.

    Parameters
    ----------
    reports
        The number of each row's report.
    most
        The most rows of a report, None for any number.
    column
        That of tasks.
    spell, place
        Say whose report on which task a number is, and in which file and row of it a row stands.
    may_allow
        Whether whoever reads the message may allow more rows.
    """
    counts = np.bincount(reports, minlength=1)
    if most is None or counts.max() <= most:
        return
    many = np.flatnonzero(counts > most)
    first = int(reports[np.isin(reports, many)][0])
    by_file: dict[str, list[str]] = {}
    for row in np.flatnonzero(reports == first)[:_SHOWN].tolist():
        name, number = place(row)
        by_file.setdefault(name, []).append(f"{number + 1:,}")
    listed = "; ".join(f"rows {', '.join(rows)}" + (f" of {name}" if name else "") for name, rows in by_file.items())
    others = "1 other report has" if len(many) == 2 else f"{len(many) - 1:,} other reports have"
    more = f" {others} too many rows as well." if len(many) > 1 else ""
    remedy = ""
    if may_allow:
        needed = counts.max()
        remedy = (
            f", or, if several rows are one report, allow them with [limits] rows = {needed} "
            f'(in Python terms={{"limits": {{"rows": {needed}}}}})'
        )
    if most == 1:
        raise DataError(
            f"{spell(first)} is there {counts[first]:,} times (column {column!r}, {listed}); keep one row for each "
            f"task{remedy}.{more}"
        )
    raise DataError(
        f"{spell(first)} has {counts[first]:,} rows (column {column!r}, {listed}, …), and [limits] rows allows "
        f"{most:,} for each task; remove the others{remedy}.{more}"
    )


def _read(located: Located, request: Request) -> Rows:
    """Return the rows with a value, checked as those of any table."""
    adder = Adder(request, "", text=True)
    rows = adder.read(located.table.combine_chunks().to_batches()[0])
    problems = []
    for problem in adder.problems:
        name, row = located.place((problem.row or 1) - 1)
        problems.append(replace(problem, place=name, row=row + 1))
    refuse(problems)
    if len(rows.numbers) == 0:
        raise DataError("there are no reports: no row has a value")
    return rows


def _names(rows: Rows, located: Located, name: str, what: str) -> tuple[list[str], Places]:
    """Return the names of a column in order, and each row's place among them."""
    try:
        values, codes = encode(rows.batch.column(name))
    except TypeError as error:
        raise DataError(f"column {name!r} has {error}; a {what} is named by text or a whole number") from None
    spelled = [str(value) for value in (values if isinstance(values, range) else values.to_pylist())]
    present = np.unique(codes).tolist()
    blank = [code for code in present if code < 0 or not spelled[code].strip()]
    if blank:
        file, row = located.place(int(rows.numbers[np.argmax(np.isin(codes, blank))]))
        raise DataError(f"column {name!r}: a {what}'s name is missing (row {row + 1:,} of {file}); add it")
    canonical = task_name if what == "task" else canonical_name
    names = {spelled[code]: canonical(spelled[code]) for code in present}
    if what == "provider":
        refuse_alike(names)
    order = sorted(set(names.values()))
    place = {label: number for number, label in enumerate(order)}
    places = np.full(len(spelled), -1, dtype=np.intp)
    for code in present:
        places[code] = place[names[spelled[code]]]
    return order, places[codes]
