"""Verify a ledger by paying once more: recompute every round, or all tasks, and compare the results."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.public import check_public
from troth.campaigns.records.arithmetic import close, tolerance, versions
from troth.campaigns.records.ledger import Ledger, LedgerError
from troth.campaigns.records.ledger_entries import (
    format_of,
    read_count,
    recorded_public,
    recorded_reports,
    revealed_link,
)
from troth.campaigns.rounds import (
    check_limits,
    check_possible,
    following_reports,
    later_days,
    progress_of_round,
    reject_mixed_days,
    reject_same_nonce,
    write_round,
    written_days,
)
from troth.campaigns.seed import follows
from troth.campaigns.task_data import read_file, same_content
from troth.campaigns.tasks import has_tasks, write_tasks
from troth.campaigns.terms import Campaign
from troth.core.errors import DataError, TrothError
from troth.core.reductions.reduction import counted_labels
from troth.data.read import reports_by_day

if TYPE_CHECKING:
    from collections.abc import Callable

    from troth.core.contract import Model
    from troth.data.request import Day, Report
    from troth.data.tasks import TaskReports
    from troth.mechanisms import Rule


def campaign_of(
    ledger: Ledger, place: str = "ledger", *, model: Model | None = None, rule: Rule | None = None
) -> Campaign:
    """Read the terms back from the ledger."""
    format_of(ledger, place)
    first = ledger.entries[0]
    try:
        campaign = Campaign.from_dict(first["terms"], model=model, rule=rule)
        if campaign.public_source is not None:
            campaign = replace(campaign, known=recorded_public(ledger))
    except (TrothError, LookupError, TypeError, ValueError, OverflowError) as error:
        raise LedgerError(f"{place}: the terms or the public data cannot be read: {error}") from None
    if campaign.digest != first.get("digest") or campaign.commitment != first.get("commitment"):
        raise LedgerError(f"{place}, line 1: the digest does not match the terms")
    return campaign


def check_ledger(
    ledger: Ledger,
    place: str = "ledger",
    *,
    model: Model | None = None,
    rule: Rule | None = None,
    file: bytes | None = None,
    progress: Callable[[float, int], None] | None = None,
) -> Campaign:
    """Recompute every payment of a ledger whose hash chain is valid, and return its campaign.

    It raises at the first entry that does not follow from the reports, the terms and the seed. The reports of a ledger
    of tasks are in ``file``, its file of shares.
    """
    campaign = campaign_of(ledger, place, model=model, rule=rule)
    try:
        _check_stamp(ledger.entries[0], place)
        if not has_tasks(ledger):
            _check_rounds(campaign, ledger, place, progress)
        elif file is not None:
            check_tasks(campaign, ledger, file, place)
        else:
            raise LedgerError("a ledger of tasks needs its file of shares: give the ledger's path, or file=")
        return campaign
    except LedgerError:
        raise
    except (TrothError, LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise LedgerError(f"{place}: malformed entry: {error}") from None


def _check_rounds(
    campaign: Campaign, ledger: Ledger, place: str, progress: Callable[[float, int], None] | None
) -> None:
    fresh = Ledger([ledger.entries[0]])
    reports = recorded_reports(ledger)
    campaign.check_providers(sorted({report.provider for report in reports}))
    check_limits(campaign, reports)
    check_public(campaign.public, campaign.model, campaign.columns)
    for report in reports:
        check_possible(campaign, report)
    reject_same_nonce(reports)
    by_day = reports_by_day(reports)
    reject_mixed_days(list(by_day))
    known: dict[Any, Report] = {}
    previous_link = campaign.commitment
    rounds = ledger.of("round")
    for number, head in enumerate(rounds, 1):
        link, beacon = revealed_link(ledger, head), head.get("beacon")
        _check_link(campaign, link, previous_link, number, place)
        previous_link = link if previous_link is not None else None
        _check_order(campaign, rounds, number, list(by_day), place)
        stamp = _stamp(head)
        following = following_reports(campaign, by_day, head["day"])
        round_progress = progress_of_round(progress, number, len(rounds))
        try:
            write_round(campaign, fresh, by_day[head["day"]], following, known, link, beacon, stamp, round_progress)
        except TrothError as error:
            raise LedgerError(f"{place}: round {number} cannot be recomputed: {error}") from None
    _compare(fresh, ledger, place)


def _check_order(campaign: Campaign, rounds: list[dict[str, Any]], number: int, days: list[Day], place: str) -> None:
    """Check that a round is the next to be paid, is compared with the right days, and is not after the last one."""
    head = rounds[number - 1]
    day, following, last = head["day"], head["next"], head["last"]
    location = f"{place}: round {number}"
    _check_stamp(head, location)
    if campaign.days is not None and number > campaign.days:
        raise LedgerError(f"{location}: the campaign has {campaign.days} days")
    if number > len(days) or day != days[number - 1] or isinstance(day, bool):
        raise LedgerError(f"{location}: day {day} is paid out of order, twice, or without reports")
    if not isinstance(last, bool) or (last and number < max(len(rounds), len(days))):
        raise LedgerError(f"{location}: it claims to be the last")
    later = later_days(campaign, days, day)
    expected = written_days(campaign, later)
    too_early = len(later) < campaign.rule.days - 1 and not rounds[-1]["last"]
    if following != expected or too_early:
        raise LedgerError(f"{location}: day {day} is compared with day {following} instead of day {expected}")


def _check_stamp(entry: dict[str, Any], place: str) -> None:
    """Check that an entry records the time and the versions that it was computed with."""
    packages = entry.get("versions")
    if (
        not isinstance(packages, dict)
        or set(map(type, packages.values())) != {str}
        or set(versions()) - set(packages) - {"processor"}
    ):
        raise LedgerError(f"{place}: the versions are missing")
    try:
        datetime.fromisoformat(entry["time"])
    except (KeyError, TypeError, ValueError):
        raise LedgerError(f"{place}: the time is missing") from None


def _check_link(campaign: Campaign, link: str | None, previous: str | None, number: int, place: str) -> None:
    """Check that a round has a link if and only if its rule draws, and that the link continues the chain."""
    if (link is not None) != campaign.draws:
        raise LedgerError(f"{place}: round {number} {'has a seed but draws nothing' if link else 'has no seed'}")
    if link is not None and previous is not None and not follows(link, previous):
        raise LedgerError(f"{place}: the seed of round {number} does not derive from the committed secret")


def _stamp(head: dict[str, Any]) -> dict[str, Any]:
    return {key: head.get(key) for key in ("last", "versions", "time")}


def _compare(fresh: Ledger, ledger: Ledger, place: str) -> None:
    """Compare the recomputed ledger with the recorded one, bit for bit or up to the tolerance for other machines."""
    within = tolerance(ledger)
    differing = [
        (number, recomputed, recorded)
        for number, (recomputed, recorded) in enumerate(zip(fresh.entries, ledger.entries, strict=False), 1)
        if not close(recomputed, recorded, within)
    ]
    if differing:
        number, recomputed, recorded = differing[0]
        if recorded.get("entry") == "round":  # a payment that differs tells more than the root over all payments
            payments = (difference for difference in differing if difference[2].get("entry") == "payment")
            number, recomputed, recorded = next(payments, differing[0])
        raise LedgerError(f"{place}, line {number}: {_difference(recomputed, recorded, within)}")
    if len(fresh.entries) != len(ledger.entries):
        raise LedgerError(f"{place}: there are {len(ledger.entries)} lines, but recomputing gives {len(fresh.entries)}")


def _difference(recomputed: dict[str, Any], recorded: dict[str, Any], within: float) -> str:
    line = f"{recorded.get('entry')}"
    if "provider" in recorded:
        line += f" of {recorded['provider']!r}"
    for key in {**recomputed, **recorded}:
        if not close(recomputed.get(key), recorded.get(key), within):
            return f"{line}: {key} is {recorded.get(key)!r}, but recomputing gives {recomputed.get(key)!r}"
    return line


def check_file(ledger: Ledger, file: bytes, place: str = "ledger") -> None:
    """Raise unless a file of shares has the digest in the ledger."""
    if f"sha256:{sha256(file).hexdigest()}" != ledger.of("tasks")[0].get("digest"):
        raise LedgerError(f"{place}: the file of shares is not the one that was recorded; its digest differs")


def check_tasks(campaign: Campaign, ledger: Ledger, file: bytes, place: str = "ledger") -> None:
    """Recompute every share and payment of a ledger of tasks from its file of shares, and raise if any differs."""
    entry, head = _single_entry(ledger, "tasks", place), _single_entry(ledger, "round", place)
    _check_stamp(head, place)
    check_file(ledger, file, place)
    try:
        reports, public, recorded_shares, _ = read_file(file, campaign)
    except (LookupError, TypeError, ValueError) as error:
        raise LedgerError(f"{place}: the file of shares lacks required columns: {error}") from None
    if campaign.guesses is not None and not _same_tasks(campaign.guesses, public):
        raise LedgerError(f"{place}: the file of shares has other public data than the terms")
    _check_summaries(campaign, reports, place)
    _check_payees(ledger, reports, place)
    link, beacon = revealed_link(ledger, head), head.get("beacon")
    _check_link(campaign, link, campaign.commitment, 1, place)
    reports = replace(reports, dropped=read_count(entry, "dropped"))
    fresh, stamp = Ledger([ledger.entries[0]]), _stamp(head) | {"last": True}
    try:
        receipts = recorded_reports(ledger)
        recomputed = write_tasks(campaign, fresh, reports, public, link, beacon, stamp, entry["file"], receipts)
    except (DataError, LookupError, TypeError, ValueError) as error:
        raise LedgerError(f"{place}: the tasks cannot be recomputed: {error}") from None
    shares, within = read_file(recomputed, campaign).share, tolerance(ledger)
    differs = np.abs(shares - recorded_shares) > within
    if differs.any():
        first = int(np.argmax(differs))
        raise LedgerError(
            f"{place}: the share of {_report_name(reports, first)} is {float(recorded_shares[first])!r}, but "
            f"recomputing gives {float(shares[first])!r}"
        )
    if same_content(recomputed, file, within):  # the bytes may differ between versions of the Parquet library
        fresh.of("tasks")[0]["digest"] = entry["digest"]
    _compare(fresh, ledger, place)


def _check_summaries(campaign: Campaign, reports: TaskReports, place: str) -> None:
    """Raise unless summaries are finite, and those of labels are counts."""
    summaries, reduction = reports.summaries, campaign.request.reduction
    invalid = ~np.isfinite(summaries)
    if counted_labels(reduction) is not None:
        invalid |= (summaries < 0) | (summaries != np.floor(summaries))
    if invalid.any():
        first = int(np.argmax(invalid.any(axis=1)))
        raise LedgerError(
            f"{place}: the file of shares has {float(summaries[first][invalid[first]][0])!r} in the report of "
            f"{_report_name(reports, first)}, which is impossible"
        )


def _report_name(reports: TaskReports, report: int) -> str:
    return f"{reports.providers[reports.provider[report]]!r} on task {reports.tasks[reports.task[report]]!r}"


def _check_payees(ledger: Ledger, reports: TaskReports, place: str) -> None:
    """Raise unless each provider who reported has exactly one payment line, and nobody else has one."""
    paid, reported = Counter(entry.get("provider") for entry in ledger.of("payment")), set(reports.providers)
    for name in sorted(reported | set(map(str, paid))):
        if paid[name] != (name in reported):
            problem = f"reported and has {paid[name]} payment lines" if name in reported else "is paid without a report"
            raise LedgerError(f"{place}: {name!r} {problem}; there must be one line for each provider who reported")


def _same_tasks(one: TaskReports, other: TaskReports | None) -> bool:
    return other is not None and one.tasks == other.tasks and np.array_equal(one.summaries, other.summaries)


def _single_entry(ledger: Ledger, kind: str, place: str) -> dict[str, Any]:
    entries = ledger.of(kind)
    if len(entries) != 1:
        raise LedgerError(f"{place}: there must be one entry {kind!r}, not {len(entries)}")
    return entries[0]
