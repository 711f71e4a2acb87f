"""One provider's own file: its rows or its answers to tasks, with or without columns for its name and the day."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from troth.core.errors import DataError
from troth.data.files import format_of
from troth.data.fragments import Fragment
from troth.data.gather import requested_rows
from troth.data.read import canonical_name, read_reports, task_name
from troth.data.request import Day, Report, Request, listed, shown
from troth.data.task_files import MAX_NAME_LENGTH, OwnTasks
from troth.data.tasks import TaskRows, in_order, read_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_own_report(
    file: str | Path,
    request: Request,
    provider: str | None = None,
    day: Day = None,
    *,
    format: str | None = None,  # noqa: A002
) -> list[Report]:
    """Reduce a file of one provider's rows to a report for each day.

    By default the provider is the one in the column of providers, or else the file's name. The column of days may be
    missing if ``day`` is given.
    """
    place, kind, header = _own_file(file, format)
    request = replace(request, own_file=True, provider=request.provider if request.provider in header else None)
    if day is not None and request.day not in header:
        request = replace(request, day=None)
    reports, _ = read_reports(str(file), request, format=kind, provider=provider)
    names = sorted({report.provider for report in reports})
    if not names:
        raise DataError.at(place, "the file has no rows")
    name = canonical_name(provider) if provider is not None else names[0]
    if request.provider is not None and len(names) > 1:
        raise DataError.at(place, f"holds rows of {len(names)} providers ({listed(names, 5)}); send the rows of one")
    if request.provider is not None and name != names[0]:
        raise DataError.at(place, f"the rows belong to provider {shown(names[0])}, not {name!r}")
    other_days = [report.day for report in reports if report.day != day]
    if request.day is not None and day is not None and other_days:
        raise DataError.at(place, f"has rows for day {other_days[0]}, but the report is for day {day}; send that day's")
    return [replace(report, provider=name, day=day if request.day is None else report.day) for report in reports]


def read_own_tasks(
    file: str | Path,
    request: Request,
    provider: str,
    *,
    rows: int = 1,
    format: str | None = None,  # noqa: A002
) -> OwnTasks:
    """Read a file of one provider's answers to many tasks, with or without a column of providers.

    The request's column of days holds the tasks; ``rows`` is the most rows for one task.
    """
    _, kind, header = _own_file(file, format)
    request = replace(request, own_file=True, provider=request.provider if request.provider in header else None)
    table = read_rows(requested_rows(str(file), request, format=kind), request)
    if request.provider is not None:
        _reject_other_providers(table, request.provider, provider)
    raw_names, codes = table.names(str(request.day), "task")
    _reject_invalid_names(table, raw_names, codes)
    names, indices = in_order(raw_names, codes, task_name)
    summaries = table.add_up(indices, rows, lambda task: f"task {shown(names[task])}")
    return OwnTasks(tuple(names), summaries, table.dropped)


def _reject_other_providers(table: TaskRows, column: str, provider: str) -> None:
    raw_names, codes = table.names(column, "provider")
    for code in np.unique(codes).tolist():
        if canonical_name(raw_names[code]) != canonical_name(provider):
            file, row = table.location(int(np.argmax(codes == code)))
            name = shown(raw_names[code])
            raise DataError.at(
                file, f"row {row:,} belongs to provider {name}, not {provider!r}; send only your own rows"
            )


def _reject_invalid_names(table: TaskRows, raw_names: list[str], codes: NDArray[np.intp]) -> None:
    for code in np.unique(codes).tolist():
        task = task_name(raw_names[code])
        if len(task) > MAX_NAME_LENGTH or not task.isprintable():
            file, row = table.location(int(np.argmax(codes == code)))
            problem = (
                "has unprintable characters" if len(task) <= MAX_NAME_LENGTH else f"is {len(task):,} characters long"
            )
            problem += f"; use at most {MAX_NAME_LENGTH} printable characters"
            raise DataError.at(file, f"row {row:,}: the name of task {shown(task)} {problem}")


def _own_file(file: str | Path, format: str | None) -> tuple[str, str, list[str]]:  # noqa: A002
    """Return a file's name for messages, its format and the names of its columns."""
    path = Path(file)
    kind = format or format_of(path)
    if not path.is_file() or kind == "statistics":
        raise DataError.at(path.name, "is not a file of rows")
    return path.name, kind, Fragment(str(path), kind).column_names()
