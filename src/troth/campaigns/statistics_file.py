"""Statistics instead of rows: a small file that a provider makes of its data and sends in their place.

It has all that a payment depends on, and a digest of the data for later disputes. What no data can have is refused.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.rounds import check_possible
from troth.core.contract import Summable
from troth.core.errors import DataError, MissingCapabilityError
from troth.data.read import canonical_name
from troth.data.request import Report, parse_day
from troth.data.single_provider import read_own

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.campaigns.terms import Campaign

KIND = "troth statistics"
_LARGEST_FILE = 1 << 28
_KEYS = {"kind", "format", "provider", "family", "digest"}


def make_statistics(campaign: Campaign, file: str | Path, provider: str | None = None) -> dict[str, Any]:
    """Return what a provider submits instead of a file of rows, as plain data for JSON.

    Parameters
    ----------
    file
        The provider's own rows; a column of providers, if it has one, must name one provider only.
    provider
        The provider's name, where the file has no column for it; by default the file's own name.
    """
    path = Path(file)
    if not path.is_file():
        raise DataError(f"{path.name}: statistics are made of one file of rows")
    reports = read_own(path, campaign.request, provider, format=campaign.format)
    name = reports[0].provider
    model: Any = campaign.model_of(name)
    days = [
        {"day": report.day, "rows": report.rows, "statistics": [float(x) for x in model.from_sums(report.sums)]}
        for report in reports
    ]
    head = {"kind": KIND, "format": 1, "provider": name, "family": type(model).__name__}
    body: dict[str, Any] = (
        {"days": days} if campaign.daily else {"rows": days[0]["rows"], "statistics": days[0]["statistics"]}
    )
    return {**head, **body, "digest": "sha256:" + _digest(path)}


def read_statistics(campaign: Campaign, paths: Sequence[Path]) -> list[Report]:
    """Read files of statistics and refuse what no data of the campaign's model can have."""
    found = []
    for path in paths:
        try:
            found += _read(campaign, path)
        except DataError as error:
            raise DataError(f"{path.name}: {error}") from None
    return found


def join_reports(rows: Sequence[Report], statistics: Sequence[Report]) -> list[Report]:
    """Put reports of rows and of statistics together; a provider sends one or the other."""
    sources = {report.key: report.source for report in rows}
    for report in statistics:
        if report.key in sources:
            day = "" if report.day is None else f" on day {report.day}"
            raise DataError(
                f"provider {report.provider!r} twice{day}: in {sources[report.key] or 'the rows'}, {report.source}"
            )
        sources[report.key] = report.source
    return [*rows, *statistics]


def parse_statistics(campaign: Campaign, plain: Any, source: str = "") -> list[Report]:
    """Check the plain data of a file of statistics."""
    if (
        not isinstance(plain, dict)
        or plain.get("kind") != KIND
        or plain.get("format") != 1
        or plain.get("format") is True
    ):
        raise DataError('this is no file of statistics as `troth statistics` writes it ("kind" is missing)')
    body = {"days"} if campaign.daily else {"rows", "statistics"}
    unknown = sorted(set(plain) - _KEYS - body)
    if unknown:
        raise DataError(f"there is no field {unknown[0]!r}")
    name = plain.get("provider")
    if not isinstance(name, str) or not name.strip():
        raise DataError(f"provider must be a name, not {name!r}")
    name = canonical_name(name)
    model = campaign.model_of(name)
    if not isinstance(model, Summable):
        raise MissingCapabilityError(
            f"{type(model).__name__} does not declare its sums, so statistics cannot be checked"
        )
    if plain.get("family") != type(model).__name__:
        raise DataError(f"family is {plain.get('family')!r}, but the campaign's is {type(model).__name__}")
    digest = plain.get("digest")
    if not isinstance(digest, str) or not re.fullmatch("sha256:[0-9a-f]{64}", digest):
        raise DataError("digest, that of the provider's data, must be sha256: and 64 hexadecimal digits")
    entries = plain.get("days") if campaign.daily else [plain]
    if not isinstance(entries, list) or not entries:
        raise DataError("days must be a list with an entry for each day")
    return [_report(campaign, model, name, entry, source, digest) for entry in entries]


def _read(campaign: Campaign, path: Path) -> list[Report]:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise DataError("too large for a file of statistics")
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"not valid JSON: {error}") from None
    return parse_statistics(campaign, plain, path.name)


def _report(campaign: Campaign, model: Any, name: str, entry: Any, source: str, digest: str) -> Report:
    if not isinstance(entry, dict):
        raise DataError(f"an entry of days must be an object, not {entry!r}")
    day = None
    if campaign.daily:
        try:
            day = parse_day(entry.get("day"))
        except ValueError:
            raise DataError(f"day {entry.get('day')!r} is no date (YYYY-MM-DD) or whole number") from None
    at = "" if day is None else f"day {day}: "
    rows, values = entry.get("rows"), entry.get("statistics")
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
        raise DataError(f"{at}rows must be a whole number of at least 0, not {rows!r}")
    if not isinstance(values, list) or any(isinstance(x, bool) or not isinstance(x, int | float) for x in values):
        raise DataError(f"{at}statistics must be a list of numbers, not {str(values)[:60]}")
    width = len(model.from_sums(np.zeros(model.sums.width)))
    if len(values) != width:
        raise DataError(f"{at}there are {len(values)} statistics, but {type(model).__name__} has {width}")
    try:
        summary = np.array(values, dtype=np.float64)
    except OverflowError:
        raise DataError(f"{at}a statistic is too large") from None
    if not (np.abs(summary) <= 1e290).all():
        raise DataError(f"{at}statistic {int(np.argmax(~(np.abs(summary) <= 1e290)))} is not a finite number")
    report = Report(name, day, rows, model.to_sums(summary), source, digest)
    try:
        check_possible(campaign, report)
    except DataError as error:
        raise DataError(f"{at}impossible statistics: {error}") from None
    return report


def _digest(path: Path) -> str:
    total = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()
