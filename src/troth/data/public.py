"""Public data: the rows of any table, added up like one report, whichever providers they name."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

from troth.core.contract import HasReduction, Model
from troth.core.errors import DataError
from troth.data.files import find_files, sha256_of
from troth.data.gather import column_names, gather_reports
from troth.data.read import is_paths, read_reports
from troth.data.request import Report, Request, file_name

PUBLIC = "public data"
"""The name of public data, in place of a provider's name."""


def read_public(data: Any, request: Request, model: Model, *, engine: str = "threads") -> list[Report]:
    """Reduce public rows to one report, or to one per day if they have the column of days.

    The column of providers is ignored, and limits on reports do not apply. For a model without a reduction, the
    statistics are computed directly.
    """
    by_day = request.day is not None and request.day in column_names(data)
    request = replace(request, provider=None, day=request.day if by_day else None, values=None)
    source, digest = _origin(data)
    if not is_paths(data):
        request.reject_missing(column_names(data), PUBLIC)  # so that the error names the public data, not "the data"
    try:
        if isinstance(model, HasReduction):
            reports, statistics = read_reports(data, request, engine=engine, provider=PUBLIC)
            if statistics:
                raise DataError.at(file_name(statistics[0]), "is not a file of rows")
        else:
            reports = gather_reports(model, data, request, PUBLIC)
    except DataError as error:
        raise DataError(f"{PUBLIC}: {error}") from None
    if not reports:
        raise DataError(f"{PUBLIC}: {source} has no rows")
    return [replace(report, provider=PUBLIC, source=source, data_digest=digest) for report in reports]


def _origin(data: Any) -> tuple[str, str | None]:
    """Return a name of the data for people, and the digest of the file; for several, the digest of their digests."""
    if not is_paths(data):
        return "a table", None
    paths = [path for _, path in find_files(data)]
    digests = [sha256_of(path) for path in paths]
    digest = digests[0] if len(digests) == 1 else sha256("\n".join(digests).encode()).hexdigest()
    and_more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(map(file_name, paths[:3])) + and_more, f"sha256:{digest}"
