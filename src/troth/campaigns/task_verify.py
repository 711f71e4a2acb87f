"""Recomputes a ledger of tasks from its file of shares, and names what differs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.arithmetic import close, tolerance
from troth.campaigns.ledger import Ledger, LedgerError
from troth.campaigns.ledger_entries import reader_of, recorded_reports
from troth.campaigns.rounds import check_beacon
from troth.campaigns.seed import follows
from troth.campaigns.task_data import public_tasks
from troth.campaigns.task_file import read_file, same_content
from troth.campaigns.tasks import Settled, write_tasks
from troth.core.errors import DataError
from troth.core.reductions.reduction import counted_labels

if TYPE_CHECKING:
    from troth.campaigns.terms import Campaign
    from troth.data.tasks import TaskReports


def check_tasks(campaign: Campaign, ledger: Ledger, file: bytes, place: str = "ledger") -> Settled:
    """Recompute every share and every payment of a ledger of tasks from its file, or raise at what differs."""
    entry, head = _only(ledger, "tasks", place), _only(ledger, "round", place)
    if f"sha256:{sha256(file).hexdigest()}" != entry["digest"]:
        raise LedgerError(f"{place}: the file of shares is not the one that was recorded; its digest differs")
    try:
        reports, public, written = read_file(file, campaign)
    except (LookupError, TypeError, ValueError) as error:
        raise LedgerError(f"{place}: the file of shares lacks required columns: {error}") from None
    if (declared := public_tasks(campaign)) is not None and not _same_tasks(declared, public):
        raise LedgerError(f"{place}: the file of shares has other public data than the terms")
    _check_sums(campaign, reports, place)
    _check_payees(ledger, reports, place)
    campaign.check_tasks_providers(reports.providers)
    campaign.check_task_counts(reports.providers, np.bincount(reports.provider).tolist())
    link, beacon = reader_of(ledger, place).link(head), head.get("beacon")
    check_beacon(campaign, beacon)
    if (link is not None) != campaign.draws:
        raise LedgerError(f"{place}: the round {'has a seed but draws nothing' if link else 'has no seed'}")
    if link is not None and campaign.commitment is not None and not follows(link, campaign.commitment):
        raise LedgerError(f"{place}: the seed is not made of what was committed to")
    reports = replace(reports, dropped=entry.get("dropped", 0))
    fresh = Ledger([ledger.entries[0]])
    stamp = {key: head.get(key) for key in ("last", "versions", "time")}
    try:
        receipts = recorded_reports(ledger)
        settled = write_tasks(campaign, fresh, reports, public, link, beacon, stamp, entry["file"], receipts)
    except (DataError, LookupError, TypeError, ValueError) as error:
        raise LedgerError(f"{place}: the tasks cannot be recomputed: {error}") from None
    within = tolerance(ledger)
    differ = np.abs(settled.shares.share - written) > within
    if differ.any():
        first = int(np.argmax(differ))
        who, what = reports.providers[reports.provider[first]], reports.tasks[reports.task[first]]
        raise LedgerError(
            f"{place}: the share of {who!r} on task {what!r} is {float(written[first])!r}, but recomputing gives "
            f"{float(settled.shares.share[first])!r}"
        )
    for number, (mine, theirs) in enumerate(zip(fresh.entries, ledger.entries, strict=False), 1):
        if mine.get("entry") == "tasks" and same_content(settled.file, file, within):
            mine = {**mine, "digest": theirs.get("digest")}
        if not close(mine, theirs, within):
            what = next(key for key in {**mine, **theirs} if not close(mine.get(key), theirs.get(key), within))
            who = f" of {theirs['provider']!r}" if "provider" in theirs else ""
            raise LedgerError(
                f"{place}, line {number}: {theirs.get('entry')}{who}: {what} is {theirs.get(what)!r}, and recomputed "
                f"it is {mine.get(what)!r}"
            )
    if len(fresh.entries) != len(ledger.entries):
        raise LedgerError(f"{place}: there are {len(ledger.entries)} lines, and {len(fresh.entries)} are accounted for")
    return settled


def _check_sums(campaign: Campaign, reports: TaskReports, place: str) -> None:
    """Raise unless sums are finite, and those of labels how often each was given."""
    sums, reduction = reports.summaries, campaign.request.reduction
    wrong = ~np.isfinite(sums)
    if counted_labels(reduction) is not None:
        wrong |= (sums < 0) | (sums != np.floor(sums))
    if wrong.any():
        first = int(np.argmax(wrong.any(axis=1)))
        who, what = reports.providers[reports.provider[first]], reports.tasks[reports.task[first]]
        raise LedgerError(
            f"{place}: the file of shares has {float(sums[first][wrong[first]][0])!r} in the report of {who!r} on task "
            f"{what!r}, which no rows add up to"
        )


def _check_payees(ledger: Ledger, reports: TaskReports, place: str) -> None:
    """Raise unless everybody who reported has one payment line, and nobody else has."""
    paid, reported = Counter(entry.get("provider") for entry in ledger.of("payment")), set(reports.providers)
    for name in sorted(reported | set(map(str, paid))):
        if paid[name] != (name in reported):
            what = f"reported and has {paid[name]} payment lines" if name in reported else "is paid without a report"
            raise LedgerError(f"{place}: {name!r} {what}; there must be one line for everybody who reported")


def _same_tasks(one: TaskReports, other: TaskReports | None) -> bool:
    return other is not None and one.tasks == other.tasks and np.array_equal(one.summaries, other.summaries)


def _only(ledger: Ledger, kind: str, place: str) -> dict[str, Any]:
    entries = ledger.of(kind)
    if len(entries) != 1:
        raise LedgerError(f"{place}: there must be one entry {kind!r}, not {len(entries)}")
    return entries[0]
