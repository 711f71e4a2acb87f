"""Read an uploaded file as a report, or reject it, in bounded time and memory."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from troth.campaigns.public import describe_guesses, describe_public
from troth.campaigns.rounds import check_limits, check_possible
from troth.campaigns.statistics_file import parse_statistics
from troth.campaigns.task_data import task_request
from troth.campaigns.tasks import TaskReport, check_own_tasks
from troth.campaigns.terms import Campaign
from troth.core.contract import Array
from troth.core.errors import DataError, TrothError
from troth.core.formats import short
from troth.core.limits import MAX_ROWS
from troth.data.files import format_of, sha256_of
from troth.data.public import PUBLIC
from troth.data.read import canonical_name, task_name
from troth.data.request import Day, Report
from troth.data.task_files import MAX_NAME_LENGTH, OwnTasks
from troth.service.errors import UnavailableError
from troth.service.limited_payments import check_bounded, was_tried
from troth.service.parse import parse
from troth.service.responses import ColumnSummary
from troth.service.sandbox import READING, AbortedError, MemoryLimitError, Sandbox, TimeLimitError
from troth.service.worker_processes import Bounds

_NAME_LENGTH, _MESSAGE_LENGTH = 200, 2000
_MAX_TASK_ANSWER, _MAX_CONTENT = 1 << 26, 1 << 23  # bytes that the child returns for tasks, and that are stored
_MAX_GUESSES = 100_000  # tasks of public data, which are part of the terms
_SIGNATURES = {
    b"PK\x03\x04": "a ZIP archive or a workbook",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"\x1f\x8b": "gzip data",
    b"BZh": "bzip2 data",
    b"\x28\xb5\x2f\xfd": "Zstandard data",
    b"%PDF": "a PDF document",
    b"\xd0\xcf\x11\xe0": "an old office document",
    b"SQLite format 3": "an SQLite database",
}
_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # or archives and documents, which are not read either
_AS_CSV = "save the sheet as CSV UTF-8 and send that"
_FORMAT_SIGNATURES = {"parquet": b"PAR1", "arrow": b"ARROW1"}
_COMPRESSION_SIGNATURES = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".zst": b"\x28\xb5\x2f\xfd"}

_Rows: TypeAlias = tuple[tuple[str, ...], ...]
SANDBOX = Sandbox(READING)
"""Where all uploads of this process are read."""


class UnmeasuredReportError(TrothError):
    """A report for which the time that payments take has not been measured."""


class UploadError(DataError):
    """A rejected upload, with the status of the HTTP response.

    413 if it is too large, 415 if its format is unknown, 422 if its content is invalid, 503 if too many others are
    being read.
    """

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True)
class Limits:
    """Limits on the size of an upload, and on the resources for reading it."""

    bytes: int = 64 << 20  # of the file
    cells: int = 50_000_000  # rows times columns that are read
    expanded: int = 512 << 20  # bytes of text after decompression
    seconds: float = 20.0  # of processor time; elapsed time may be half as much again, plus a second
    memory: int = 2 << 30  # bytes in addition to those of the program itself


@dataclass(frozen=True)
class Upload:
    """A file that was read."""

    report: Report  # its digest is that of the rows, even if the file holds statistics
    sha256: str  # of the file, in hexadecimal
    preview: _Rows  # the names of the columns that are read and the first rows, as short text
    columns: tuple[ColumnSummary, ...]  # summaries of the model's columns; empty for statistics
    expanded: int = 0  # bytes after decompression


def read_upload(
    campaign: Campaign, path: Path, name: str, provider: str, day: Day, limits: Limits = Limits(), *, trial: bool = True
) -> Upload:
    """Read an uploaded file, and reject anything that is not valid data for the campaign.

    The file's name determines its format. If the report is larger than all before it, payments with it are tried out
    to measure how long they take, unless ``trial`` is False.

    Raises
    ------
    UploadError
        With a message for the provider.
    UnmeasuredReportError
        If a trial is needed, but ``trial`` is False.
    """
    shown_name = printable_name(name)
    size = path.stat().st_size
    if size > limits.bytes:
        raise UploadError(413, f"{shown_name}: has {size:,} bytes; a file may have at most {limits.bytes:,}")
    if size == 0:
        raise UploadError(422, f"{shown_name}: the file is empty")
    try:
        kind = campaign.format or format_of(Path(shown_name))
    except DataError as error:
        raise UploadError(415, str(error)) from None
    _reject_mislabelled(path, shown_name, kind)
    digest = sha256_of(path)
    provider, expanded = canonical_name(provider), size
    try:
        if campaign.task is not None and kind == "statistics":
            raise DataError("statistics have no tasks; send a file with a row for each task")
        if kind == "statistics":
            report = _read_statistics(campaign, path, shown_name, provider, day)
            day_row = () if report.day is None else (("day", str(report.day)),)
            preview: _Rows = (
                ("field", "value"),
                ("provider", report.provider[:80]),
                *day_row,
                ("rows", str(report.rows)),
            )
            columns: tuple[ColumnSummary, ...] = ()
        else:
            answer = _read_rows(campaign, path, shown_name, kind, provider, day, limits)
            report, preview, columns = _checked(campaign, answer, shown_name, provider, day)
            decoded = answer.get("bytes")
            expanded = min(decoded, 1 << 62) if type(decoded) is int and decoded > 0 else size
            report = replace(report, data_digest=f"sha256:{digest}")
        if campaign.task is None:
            check_limits(campaign, [report])
            check_possible(campaign, report)
        if not trial and not was_tried(campaign, report):
            raise UnmeasuredReportError("payments with this report were not tried out")
        check_bounded(campaign, report)
    except UploadError:
        raise
    except DataError as error:
        raise UploadError(422, _printable_message(f"{shown_name}: {error}")) from None
    return Upload(report, digest, preview, columns, expanded)


def holds_statistics(campaign: Campaign, name: str) -> bool:
    """Return whether a file of this name holds statistics instead of rows."""
    try:
        return (campaign.format or format_of(Path(printable_name(name)))) == "statistics"
    except DataError:
        return True  # `read_upload` rejects it immediately


def read_public_upload(campaign: Campaign, path: Path, name: str, limits: Limits = Limits()) -> dict[str, Any]:
    """Read a file of public rows as the table [public]; limits on reports do not apply."""
    if campaign.task is not None:
        unlimited = replace(campaign, provider=None, values=None, max_tasks=_MAX_GUESSES, guesses=None)
        report: Any = read_upload(unlimited, path, name, PUBLIC, None, limits).report
        own = OwnTasks.from_bytes(report.content)
        return describe_guesses(own.names, own.summaries, report.source, report.data_digest)
    unlimited = replace(campaign, provider=None, day=None, rows=None, values=None)
    return describe_public(read_upload(unlimited, path, name, PUBLIC, None, limits).report)


def printable_name(name: str) -> str:
    r"""Return the last part of a file's name without unprintable characters, short enough for every file system.

    Examples
    --------
    >>> printable_name("C:\\data\\may\x00.csv"), printable_name("../../etc/passwd")
    ('may_.csv', 'passwd')
    """
    last = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1].strip()
    clean = "".join(sign if sign.isprintable() else "_" for sign in last[-4 * _NAME_LENGTH :])
    while len(clean.encode()) > _NAME_LENGTH:
        clean = clean[1:]
    return clean if clean.strip(". ") else "upload"


def _read_rows(
    campaign: Campaign, path: Path, shown_name: str, kind: str, provider: str, day: Day, limits: Limits
) -> dict[str, Any]:
    """Read rows in a child process, under the provider's file name, which determines the compression."""
    width = campaign.request.reduction.width
    request = campaign.request if campaign.task is None else task_request(campaign)
    answer_bytes = (1 << 20) + 32 * width + 4096 * len(campaign.columns)
    bounds = Bounds(limits.memory, limits.seconds, answer_bytes if campaign.task is None else _MAX_TASK_ANSWER)
    with tempfile.TemporaryDirectory(prefix="troth-upload-") as folder:
        os.symlink(path.resolve(), os.path.join(folder, shown_name))  # noqa: PTH118, PTH211 (the name was sanitized)
        bounds = replace(bounds, files=(folder, str(path.resolve())))
        status = 422
        try:
            maxima = limits.cells, limits.expanded, campaign.rows, campaign.max_tasks
            answer = SANDBOX.run(parse, request, folder, shown_name, kind, provider, day, *maxima, bounds=bounds)
        except MemoryLimitError:
            problem = f"needs more than {limits.memory / (1 << 30):.3g} GB of memory to read; send fewer rows"
        except TimeLimitError:
            problem = f"takes longer than {limits.seconds:g} s to read; send fewer rows"
        except AbortedError as error:
            problem = f"cannot be read as {kind}: {error}; the file is damaged, or too much to read"
        except UnavailableError as error:
            status, problem = 503, f"cannot be read now: {error}"
        else:
            problem = "" if isinstance(answer, dict) else "cannot be read"
    if problem:
        raise UploadError(status, f"{shown_name}: {problem}")
    if "error" in answer:
        raise UploadError(413 if answer.get("status") == 413 else 422, _printable_message(str(answer["error"])))
    return dict(answer)


def _checked(
    campaign: Campaign, answer: dict[str, Any], shown_name: str, provider: str, day: Day
) -> tuple[Report, _Rows, tuple[ColumnSummary, ...]]:
    """Validate a child's whole answer: the file that it read may have taken it over."""
    reduction = campaign.request.reduction
    own: OwnTasks | None = None
    try:
        if campaign.task is not None:
            own = _own_tasks(campaign, answer)
        summary = _numbers(answer["summary"]) if own is None else own.summaries.sum(axis=0)
        if len(summary) != reduction.width or not np.isfinite(summary).all():
            raise ValueError(len(summary))
        preview = tuple(tuple(str(entry)[:80] for entry in row) for row in answer["preview"][:9])
        columns = tuple(_summary(campaign, entry) for entry in answer["columns"])
        own_day, rows = day if campaign.daily else None, int(reduction.rows(summary))
        dropped, unnamed = (_count(answer.get(key, 0)) for key in ("dropped", "unnamed"))
        report = Report(provider, own_day, rows, summary, shown_name, dropped=dropped, unnamed=unnamed)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        raise UploadError(422, f"{shown_name}: cannot be read") from None
    return report if own is None else _task_report(campaign, report, own), preview, columns


def _own_tasks(campaign: Campaign, answer: dict[str, Any]) -> OwnTasks:
    """Validate the names and summaries of a child's reports on tasks."""
    names, reduction = answer["tasks"], campaign.request.reduction
    summaries = np.array([_numbers(row) for row in answer["summaries"]])
    if not all(type(name) is str and name == task_name(name) and name.isprintable() for name in names):
        raise ValueError(names)
    if names != sorted(set(names)) or max(map(len, names)) > MAX_NAME_LENGTH:
        raise ValueError(names)
    shape = len(names), reduction.width
    if summaries.shape != shape or not (reduction.rows(summaries) <= (campaign.rows or 1)).all():
        raise ValueError(summaries.shape)
    return OwnTasks(tuple(names), summaries)


def _task_report(campaign: Campaign, report: Report, own: OwnTasks) -> TaskReport:
    check_own_tasks(campaign, report.provider, own)
    content = own.to_bytes()
    if len(content) > _MAX_CONTENT:
        raise DataError(
            f"the names of tasks take {len(content):,} bytes, but at most {_MAX_CONTENT:,} are allowed; shorten them"
        )
    return TaskReport(**vars(report) | {"rows": len(own.names), "tasks": own.digest}, content=content)


def _summary(campaign: Campaign, entry: dict[str, Any]) -> ColumnSummary:
    """Return the child's summary of a column, with labels of the terms only."""
    name, names = entry["name"], campaign.request.labels_of(entry["name"]) or ()
    labels = [(names[names.index(label)], int(_number(count))) for label, count in entry.get("labels", ())]
    numbers = {key: _number(entry[key]) for key in ("minimum", "maximum", "mean") if key in entry}
    return ColumnSummary(name=str(name)[:_NAME_LENGTH], labels=labels, **numbers)


def _numbers(values: Any) -> Array:
    return np.array([_number(value) for value in values], dtype=np.float64)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(value)
    return float(value)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MAX_ROWS:
        raise ValueError(value)
    return value


def _read_statistics(campaign: Campaign, path: Path, shown_name: str, provider: str, day: Day) -> Report:
    """Read a file of statistics in this process: it is small, and the standard library parses it safely."""
    max_bytes = (1 << 16) + 64 * campaign.request.reduction.width
    if path.stat().st_size > max_bytes:
        problem = f"too large for a file of statistics, which has at most {max_bytes:,} bytes"
        raise UploadError(413, f"{shown_name}: {problem}")
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"not valid JSON: {error}") from None
    reports = parse_statistics(campaign, plain, shown_name)
    if reports[0].provider != provider:
        raise DataError(f"the statistics belong to provider {reports[0].provider!r}, not {provider!r}")
    if campaign.daily and (len(reports) != 1 or reports[0].day != day):
        days = ", ".join(str(report.day) for report in reports[:5])
        raise DataError(f"has statistics for day {days}; send only those for day {day}")
    return reports[0]


def _reject_mislabelled(path: Path, shown_name: str, kind: str) -> None:
    """Reject spreadsheets, and files whose first bytes do not match the format of their name."""
    if kind == "sheet":
        raise UploadError(415, f"{shown_name}: the service does not read spreadsheets; {_AS_CSV}")
    with path.open("rb") as file:
        head = file.read(16)
    expected = _COMPRESSION_SIGNATURES.get(Path(shown_name).suffix.lower()) or _FORMAT_SIGNATURES.get(kind)
    for signature, content in _SIGNATURES.items():
        if head.startswith(signature) and signature != expected:
            problem = "but its name says otherwise; give it the right extension"
            if signature in _WORKBOOKS:
                problem = f"which the service does not read; {_AS_CSV}"
            raise UploadError(415, f"{shown_name}: is {content}, {problem}")


def _printable_message(message: str) -> str:
    """Return a message without unprintable characters, cut to a maximum length."""
    clean = "".join(sign if sign.isprintable() or sign == "\n" else "�" for sign in message[: _MESSAGE_LENGTH + 1])
    return short(clean, _MESSAGE_LENGTH)
