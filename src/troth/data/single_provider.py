"""One provider's file of rows, in which columns for its name and the day may be missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from troth.core.errors import DataError
from troth.data.files import Fragment, format_of
from troth.data.read import canonical_name, read_reports
from troth.data.request import Day, Report, Request, file_name, listed, shown

if TYPE_CHECKING:
    from troth.data.engines import Look


def read_own(
    file: str | Path,
    request: Request,
    provider: str | None = None,
    day: Day = None,
    *,
    format: str | None = None,  # noqa: A002
    look: Look | None = None,
) -> list[Report]:
    """Reduce a file that holds rows of one provider to its report of each day.

    Parameters
    ----------
    provider
        Whose rows they are; by default the one whom the column of providers names, or else the file's own name.
    day
        The one day that all rows are of, where it is known; then the column of days may be missing.
    look
        Called with each batch of rows, in order, before it is added up.
    """
    path = Path(file)
    place = file_name(path)
    kind = format or format_of(path)
    if not path.is_file() or kind == "statistics":
        raise DataError(f"{place}: is not a file of rows")
    have = Fragment(str(path), kind).column_names()
    if request.provider is not None and request.provider not in have:
        request = replace(request, provider=None)
    if request.day is not None and day is not None and request.day not in have:
        request = replace(request, day=None)
    reports, _ = read_reports(str(path), request, format=kind, look=look, provider=provider)
    names = sorted({report.provider for report in reports})
    if not names:
        raise DataError(f"{place}: the file has no rows")
    name = canonical_name(provider) if provider is not None else names[0]
    if request.provider is not None and len(names) > 1:
        raise DataError(f"{place}: holds rows of {len(names)} providers ({listed(names, 5)}); send the rows of one")
    if request.provider is not None and name != names[0]:
        raise DataError(f"{place}: the rows are of provider {shown(names[0])}, not {name!r}")
    other_days = [report.day for report in reports if report.day != day]
    if request.day is not None and day is not None and other_days:
        raise DataError(f"{place}: has rows of day {other_days[0]}, but the report is of day {day}; send that day's")
    return [replace(report, provider=name, day=day if request.day is None else report.day) for report in reports]
