"""Files of statistics: small files that providers compute from their rows and send instead of them.

A file has the summary, on which the payment depends, and a digest of the data for later disputes. Its nonce, which
nobody can predict, enters the round's seed and lets the provider find its report in the ledger. Summaries that no data
can produce are rejected.
"""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.rounds import check_possible
from troth.core.contract import HasReduction
from troth.core.errors import DataError, MissingCapabilityError
from troth.core.limits import MAX_ROWS
from troth.data.files import sha256_of
from troth.data.read import canonical_name
from troth.data.request import Report, parse_day
from troth.data.single_provider import read_own_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.campaigns.terms import Campaign

KIND = "troth summary"
FORMAT = 2
_MAX_FILE_BYTES = 1 << 28
_KEYS = {"kind", "format", "provider", "family", "digest", "nonce"}
_OMITTED_ROWS = ("dropped", "unnamed")  # counts of rows that were left out; payments do not depend on them


def make_statistics(campaign: Campaign, file: str | Path, provider: str | None = None) -> dict[str, Any]:
    """Return the statistics that a provider submits instead of rows, as plain data for JSON.

    Parameters
    ----------
    file
        The provider's rows. If it has a column of providers, the column must name only one provider.
    provider
        The provider's name if the file has no such column; by default the name of the file.
    """
    path = Path(file)
    if not path.is_file():
        raise DataError(f"{path.name}: statistics are computed from one file of rows")
    reports = read_own_report(path, campaign.request, provider, format=campaign.format)
    name = reports[0].provider
    head = {"kind": KIND, "format": FORMAT, "provider": name, "family": type(campaign.model_of(name)).__name__}
    parts = [
        {
            "rows": report.rows,
            "summary": report.summary.tolist(),
            "nonce": secrets.token_hex(32),
            **{key: count for key in _OMITTED_ROWS if (count := getattr(report, key))},
        }
        for report in reports
    ]
    days = [{"day": report.day, **part} for report, part in zip(reports, parts, strict=True)]
    body: dict[str, Any] = {"days": days} if campaign.daily else parts[0]
    return {**head, **body, "digest": f"sha256:{sha256_of(path)}"}


def read_statistics(campaign: Campaign, paths: Sequence[Path]) -> list[Report]:
    """Read files of statistics, and reject those that no data of the campaign's model can produce."""
    reports = []
    for path in paths:
        try:
            if path.stat().st_size > _MAX_FILE_BYTES:
                raise DataError("too large for a file of statistics")
            reports += parse_statistics(campaign, json.loads(path.read_text(encoding="utf-8")), path.name)
        except DataError as error:
            raise DataError(f"{path.name}: {error}") from None
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path.name}: not valid JSON: {error}") from None
    return reports


def join_reports(rows: Sequence[Report], statistics: Sequence[Report]) -> list[Report]:
    """Join reports read from rows and from files of statistics; a provider sends one or the other."""
    sources = {report.key: report.source for report in rows}
    for report in statistics:
        if report.key in sources:
            day = "" if report.day is None else f" on day {report.day}"
            raise DataError(
                f"provider {report.provider!r} appears twice{day}: in {sources[report.key] or 'the rows'}, "
                f"{report.source}"
            )
        sources[report.key] = report.source
    return [*rows, *statistics]


def parse_statistics(campaign: Campaign, plain: Any, source: str = "") -> list[Report]:
    """Validate the plain data of a file of statistics, and return its reports."""
    if not isinstance(plain, dict) or plain.get("kind") != KIND:
        raise DataError('this is not a file that `troth statistics` wrote ("kind" is missing)')
    if plain.get("format") != FORMAT:
        raise DataError(
            f"this file has format {plain.get('format')!r}, not {FORMAT}: create it again with `troth statistics`"
        )
    body = {"days"} if campaign.daily else {"rows", "summary", *_OMITTED_ROWS}
    unknown = sorted(set(plain) - _KEYS - body)
    if unknown:
        raise DataError(f"unknown field {unknown[0]!r}: remove it")
    name = plain.get("provider")
    if not isinstance(name, str) or not name.strip():
        raise DataError(f"provider must be a name, not {name!r}")
    name = canonical_name(name)
    model = campaign.model_of(name)
    if not isinstance(model, HasReduction):
        raise MissingCapabilityError(f"{type(model).__name__} has no reduction, so summaries cannot be checked")
    if plain.get("family") != type(model).__name__:
        raise DataError(f"family is {plain.get('family')!r}, but the campaign's is {type(model).__name__}")
    digest = plain.get("digest")
    if not isinstance(digest, str) or not re.fullmatch("sha256:[0-9a-f]{64}", digest):
        raise DataError("digest must be sha256: and 64 hexadecimal digits, the digest of the provider's data")
    entries = plain.get("days") if campaign.daily else [plain]
    if not isinstance(entries, list) or not entries:
        raise DataError("days must be a list with an entry for each day")
    return [_report(campaign, name, entry, source, digest) for entry in entries]


def _report(campaign: Campaign, name: str, entry: Any, source: str, digest: str) -> Report:
    if not isinstance(entry, dict):
        raise DataError(f"an entry of days must be an object, not {entry!r}")
    day = None
    if campaign.daily:
        try:
            day = parse_day(entry.get("day"))
        except ValueError:
            raise DataError(f"day {entry.get('day')!r} is not a date (YYYY-MM-DD) or whole number") from None
    prefix = "" if day is None else f"day {day}: "
    rows: Any = entry.get("rows")
    values = entry.get("summary")
    if not isinstance(values, list) or any(isinstance(x, bool) or not isinstance(x, int | float) for x in values):
        raise DataError(f"{prefix}summary must be a list of numbers, not {str(values)[:60]}")
    try:
        summary = np.array(values, dtype=np.float64)
    except OverflowError:
        raise DataError(f"{prefix}a number of the summary is too large") from None
    nonce = entry.get("nonce")
    if nonce is not None and (not isinstance(nonce, str) or not re.fullmatch("[0-9a-f]{64}", nonce)):
        raise DataError(f"{prefix}nonce must be 64 hexadecimal digits, or be left out")
    omitted_rows = {key: entry.get(key, 0) for key in _OMITTED_ROWS}
    for key, count in omitted_rows.items():
        if type(count) is not int or not 0 <= count <= MAX_ROWS:
            raise DataError(f"{prefix}{key} must be a whole number of rows, not {str(count)[:60]}")
    report = Report(name, day, rows, summary, source, digest, nonce, **omitted_rows)
    try:
        check_possible(campaign, report)
    except DataError as error:
        raise DataError(f"{prefix}{error}") from None
    return report
