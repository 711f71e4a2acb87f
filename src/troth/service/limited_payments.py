"""Compute payments in a child process with limited memory and time, so that no report can take the service down."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from troth.campaigns import rounds
from troth.campaigns.records.ledger import Ledger
from troth.campaigns.settle import rehearse
from troth.campaigns.tasks import MAX_REHEARSED, TaskReport, pay_task_reports, rehearse_tasks
from troth.campaigns.terms import Campaign
from troth.core.errors import DataError, TrothError
from troth.core.formats import counted
from troth.data.request import Day, Report
from troth.results.tasks import result_of
from troth.results.verdict import Verdict
from troth.service.errors import UnavailableError
from troth.service.sandbox import COMPUTING, AbortedError, MemoryLimitError, Sandbox, TimeLimitError
from troth.service.worker_processes import Bounds

BOUNDS = Bounds(memory=4 << 30, seconds=300.0, answer=1 << 28)
TRIAL = Bounds(memory=1 << 30, seconds=5.0)
_MAX_CAMPAIGNS = 256
_MIN_SECONDS = 2.0  # that a child needs for large terms
SANDBOX = Sandbox(COMPUTING, patience=600.0)
"""The sandbox that computes all payments of this process."""


class ExcessiveWorkError(TrothError):
    """Payments that take too much memory or time, and the report that causes it, if it is a single one."""

    def __init__(self, reason: str, suspect: Report | None = None) -> None:
        self.reason, self.suspect = reason, suspect
        cause = "no single report is the cause" if suspect is None else f"the report of {suspect} is the cause"
        rows = "" if suspect is None else f", with {counted(suspect.rows, 'row')}"
        super().__init__(f"the payments cannot be computed: {reason}; {cause}{rows}")


class Paid(NamedTuple):
    """The days that were paid and, for tasks, the file of shares."""

    days: list[Day]
    file: bytes | None


def pay_rounds(campaign: Campaign, reports: Sequence[Report], ledger: Ledger, **options: Any) -> Paid:
    """Run `troth.campaigns.rounds.pay_rounds` in a child with limits; tasks are settled together."""
    lines = list(ledger.lines)
    try:
        answer = SANDBOX.run(_pay, campaign.plain, list(reports), lines, options, bounds=BOUNDS)
    except (MemoryLimitError, TimeLimitError, AbortedError) as error:
        raise ExcessiveWorkError(str(error)) from None
    if "problem" in answer:
        raise DataError(answer["problem"])
    for entry in answer["entries"]:
        ledger.append(entry)
    file = answer.get("file")
    return Paid(list(answer["days"]), None if file is None else b64decode(file))


def judge(campaign: Campaign, ledger: Ledger, file: bytes | None = None) -> dict[str, Any]:
    """Return the verdict on a ledger as plain data; if it cannot be computed, "not checked" with the reason."""
    try:
        verdict: dict[str, Any] = SANDBOX.run(_judge, campaign.plain, list(ledger.lines), file, bounds=BOUNDS)
    except (MemoryLimitError, TimeLimitError):
        return _unchecked("the check needs more time or memory than it is allowed")
    except TrothError as error:
        return _unchecked(f"the check could not be run: {error}")
    return verdict


def _judge(plain: dict[str, Any], lines: list[bytes], file: bytes | None) -> dict[str, Any]:
    try:
        result = result_of(Campaign.from_dict(plain), Ledger.from_lines(lines), file)
        return {**_plain(result.verdict), "notes": list(result.notes)}
    except (TrothError, ArithmeticError, ValueError, TypeError, LookupError):
        return _unchecked("the check cannot be computed for these reports")


def _unchecked(reason: str) -> dict[str, Any]:
    """Return "not checked" as plain data, with the reason; who would have been better off is unknown, too."""
    return {**_plain(Verdict(None, reason)), "below_empty_report": None, "better_with_less": None}


def _plain(verdict: Verdict) -> dict[str, Any]:
    return {**verdict.to_dict(), "meaning": verdict.meaning, "remedy": verdict.remedy}


def _pay(plain: dict[str, Any], reports: list[Report], lines: list[bytes], options: dict[str, Any]) -> dict[str, Any]:
    try:
        ledger, campaign = Ledger.from_lines(lines), Campaign.from_dict(plain)
        if campaign.task is not None:
            seed_options = {name: options[name] for name in ("secret", "beacon") if name in options}
            file = pay_task_reports(campaign, cast("list[TaskReport]", reports), ledger, **seed_options)
            return {"entries": ledger.entries[len(lines) :], "days": [None], "file": b64encode(file).decode()}
        days = rounds.pay_rounds(campaign, reports, ledger, **options)
    except TrothError as error:
        return {"problem": str(error)}
    return {"entries": ledger.entries[len(lines) :], "days": days}


def find_suspect(
    campaign: Campaign, reports: Sequence[Report], ledger: Ledger, options: dict[str, Any]
) -> Report | None:
    """Return the report without which payments can be computed, if there is one; each trial has a few seconds."""

    def fails(tried: list[Report]) -> bool:
        try:
            SANDBOX.run(_pay, campaign.plain, tried, list(ledger.lines), options, bounds=TRIAL)
        except (MemoryLimitError, TimeLimitError, AbortedError):
            return True
        return False

    return suspect_of(reports, fails)


def suspect_of(reports: Sequence[Report], fails: Callable[[list[Report]], bool]) -> Report | None:
    """Find by bisection the report that makes a computation fail, with copies of the smallest in place of others."""
    smallest = min(reports, key=lambda report: (report.rows, _size(report)))

    def failing(unchanged: Sequence[Report]) -> bool:
        keys = {report.key for report in unchanged}
        return fails(
            [
                report if report.key in keys else replace(smallest, provider=report.provider, day=report.day)
                for report in reports
            ]
        )

    if failing(()):
        return None
    remaining = list(reports)
    while len(remaining) > 1:
        half = remaining[: len(remaining) // 2]
        remaining = half if failing(half) else remaining[len(half) :]
    return remaining[0] if failing(remaining) else None


def _size(report: Report) -> float:
    return float(np.abs(report.summary).max(initial=0.0))


_tried: dict[str, tuple[int, float]] = {}  # the largest rows and sums, by campaign


def was_tried(campaign: Campaign, report: Report) -> bool:
    """Return whether neither rows nor sums of a report exceed those that were tried before."""
    rows, size = _tried.get(campaign.digest, (0, 0.0))
    return report.rows <= rows and _size(report) <= size


def check_bounded(campaign: Campaign, report: Report) -> None:
    """Reject a report whose round could exceed the limits of memory or time.

    The work grows with rows and sums, so a report is tried, with peers that report the same, only if it is larger than
    all that were tried before.
    """
    if was_tried(campaign, report):
        return
    bounds = TRIAL
    seconds = 1.5 * BOUNDS.seconds / max(1, len(campaign.providers))  # a trial has three providers
    if seconds < TRIAL.seconds:
        bounds = replace(TRIAL, seconds=max(_MIN_SECONDS, seconds))
    if campaign.task is not None and report.rows > MAX_REHEARSED:
        bounds = replace(TRIAL, seconds=max(_MIN_SECONDS, TRIAL.seconds * MAX_REHEARSED / report.rows))
    try:
        payable = SANDBOX.run(_rehearse, campaign.plain, report, bounds=bounds)
    except (MemoryLimitError, TimeLimitError, AbortedError) as error:
        noun = "row" if campaign.task is None else "task"
        raise DataError(
            f"a round with this report of {counted(report.rows, noun)} could not be paid: {error}; send fewer {noun}s"
        ) from None
    except UnavailableError:
        return  # the round itself has limits, too
    if not payable:
        raise DataError(
            "payments cannot be computed with this report: its numbers are too large for the model, or too far apart "
            "in size; correct them, or rescale the columns"
        )
    rows, size = _tried.get(campaign.digest, (0, 0.0))
    _tried[campaign.digest] = max(rows, report.rows), max(size, _size(report))
    while len(_tried) > _MAX_CAMPAIGNS:
        _tried.pop(next(iter(_tried)), None)


def _rehearse(plain: dict[str, Any], report: Report) -> bool:
    """Return whether payments can be computed; other errors are reported when the report is validated or paid."""
    try:
        campaign = Campaign.from_dict(plain)
        peers = [name for name in campaign.providers if name != report.provider]
        names = [report.provider, *(peers or ["somebody else"])[:2]]
        if isinstance(report, TaskReport):
            rehearse_tasks(campaign, names, report.content)
        else:
            rehearse(campaign, names, report)
    except (TrothError, ArithmeticError):
        return True
    except ValueError:  # such as a matrix that is singular in double precision
        return False
    return True
