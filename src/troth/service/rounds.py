"""Rounds and their reports: open rounds, take uploads, confirm them as reports, publish payments.

An upload becomes its provider's report when it is confirmed. A unique constraint allows one report per provider and
round, which can be replaced until the round closes.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

import numpy as np
from sqlalchemy import Connection, Row, bindparam, delete, exists, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from troth.campaigns.records.statements import joint_nonce
from troth.campaigns.tasks import TaskReport
from troth.campaigns.terms import Campaign
from troth.data.request import Day, Report, day_order, parse_day
from troth.service import campaigns, receipts
from troth.service.accounts import User
from troth.service.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError, RateLimitError
from troth.service.keys import keys_of
from troth.service.schema import members, new_id, queued, reports, rounds, upload_tasks, uploads
from troth.service.store import after, future_deadline, now, queue
from troth.service.uploads import Upload

_MAX_DAY = 10**9
MAX_UPLOADS, MAX_TASK_BYTES = 50, 32 << 20
GRACE_MINUTES = 10.0
"""How long an upload that arrived in time, but was read after the round closed, can be confirmed."""

# the queries of every provider's page, built once: building a statement takes longer than running it
_ROUNDS = select(rounds).where(rounds.c.campaign == bindparam("of_campaign")).order_by(rounds.c.number)
_ROUND = select(rounds).where(
    rounds.c.campaign == bindparam("of_campaign"), rounds.c.number == bindparam("with_number")
)
_REPORTED_UPLOADS = select(reports.c.round, reports.c.upload).where(reports.c.member == bindparam("of_member"))
_RECEIPT = (reports.c.confirmed, reports.c.nonce.label("own_nonce"), reports.c.receipt, reports.c.terms)
_UPLOADS = (
    select(uploads, members.c.name.label("provider"), rounds.c.campaign, rounds.c.number, rounds.c.day, *_RECEIPT)
    .join(members, members.c.id == uploads.c.member)
    .join(rounds, rounds.c.id == uploads.c.round)
    .join(reports, reports.c.upload == uploads.c.id, isouter=True)
)
_MEMBER_UPLOADS = _UPLOADS.where(uploads.c.round == bindparam("to_round"), uploads.c.member == bindparam("of_member"))
_LATEST_FIRST = _MEMBER_UPLOADS.order_by(uploads.c.created.desc(), uploads.c.id)


def open_round(tx: Connection, user: User, campaign: str, day: Any = None, deadline: str | None = None) -> int:
    """Open the next round and return its number.

    In a daily campaign, ``day`` is a date or an integer and defaults to the one after the last. ``deadline`` is a time
    with a zone; without one, only the analyst closes the round.
    """
    row = campaigns.owned(tx, user, campaign, lock=True)
    if row.state == "ended":
        raise ConflictError("the campaign has ended: its last day was paid")
    earlier = list_rounds(tx, campaign)
    if any(other.state == "open" for other in earlier):
        raise ConflictError("a round is already open; close it first")
    for other in earlier:
        if other.problem is not None and other.state == "closed":
            subject = f"round {other.number}" if other.day is None else f"day {other.day}"
            raise ConflictError(
                f"{subject} was closed and could not be paid ({other.problem}): reopen it or set it aside first"
            )
    if any(other.final for other in earlier):
        raise ConflictError("the last round was closed as the last day; no day follows it")
    deadline = future_deadline(deadline)
    terms = campaigns.freeze(tx, row) if row.state == "draft" else campaigns.terms_of(row)
    round_day = _choose_day(terms, day, [other.day for other in earlier])
    number = len(earlier) + 1
    values = {"number": number, "day": round_day, "state": "open", "final": False, "deadline": deadline}
    tx.execute(insert(rounds).values(id=new_id(), campaign=campaign, opened=now(), **values))
    return number


def _choose_day(terms: Campaign, day: Any, earlier: Sequence[Day]) -> Day:
    if not terms.daily:
        if earlier:
            raise ConflictError("this campaign has one round, which has already been opened")
        if day is not None:
            raise InvalidError("day: this campaign has no days")
        return None
    if terms.days is not None and len(earlier) >= terms.days:
        raise ConflictError(f"this campaign has {terms.days} days, and all have been opened")
    if day is None:
        return next_day(earlier)
    try:
        parsed = parse_day(day)
    except ValueError:
        raise InvalidError(f"day: {day!r} is not a date (YYYY-MM-DD) or a whole number") from None
    if isinstance(parsed, int) and abs(parsed) > _MAX_DAY:
        raise InvalidError("day: the number is too large")
    if earlier and type(earlier[-1]) is not type(parsed):
        raise InvalidError(f"day: use the format of earlier days ({earlier[-1]})")
    if earlier and day_order(parsed) <= day_order(earlier[-1]):
        raise InvalidError(f"day: must come after {earlier[-1]}")
    return parsed


def next_day(earlier: Sequence[Day]) -> Day:
    """Return the day after the last one, or today if there is none."""
    if not earlier:
        return datetime.now(UTC).date().isoformat()
    last = earlier[-1]
    try:
        return last + 1 if isinstance(last, int) else (date.fromisoformat(str(last)) + timedelta(days=1)).isoformat()
    except OverflowError:
        raise ConflictError(f"no day comes after {last}") from None


def list_rounds(tx: Connection, campaign: str) -> Sequence[Row[Any]]:
    """Return a campaign's rounds in order."""
    return tx.execute(_ROUNDS, {"of_campaign": campaign}).all()


def find_round(
    tx: Connection, campaign: str, number: int, *, lock: Literal["shared", "exclusive"] | None = None
) -> Row[Any]:
    """Return a round, with a lock if requested: shared by those who report, exclusive for closing it."""
    query = _ROUND
    if lock is not None:
        queue(tx, f"round {number} of {campaign}", shared=lock == "shared")
        query = query.with_for_update(read=lock == "shared")
    row = tx.execute(query, {"of_campaign": campaign, "with_number": number}).first()
    if row is None:
        raise NotFoundError("there is no such round")
    return row


def add_upload(
    tx: Connection, user: User, campaign: str, number: int, upload: Upload, received: str | None = None
) -> str:
    """Store an upload, which its provider can then confirm; return its identifier. ``received`` defaults to now."""
    received = received or now()
    row, member = find_open_round(tx, user, campaign, number, received)
    reject_excess_uploads(tx, row.id, member.id)
    key = new_id()
    store_upload(tx, key, row.id, member.id, upload, received, new_nonce())
    return key


def reject_excess_uploads(tx: Connection, round_id: str, member: str) -> None:
    """Reject another upload from a provider who has reached the limits of a round."""
    sent = select(func.count()).select_from(uploads).where(uploads.c.round == round_id, uploads.c.member == member)
    if (tx.scalar(sent) or 0) >= MAX_UPLOADS:
        raise RateLimitError(f"you have sent {MAX_UPLOADS} files to this round; confirm one of them")
    size = select(func.sum(func.length(upload_tasks.c.content))).join(uploads, uploads.c.id == upload_tasks.c.upload)
    if (tx.scalar(size.where(uploads.c.round == round_id, uploads.c.member == member)) or 0) >= MAX_TASK_BYTES:
        raise RateLimitError("you have reached the storage limit for this round; confirm one of your files")


def new_nonce() -> str:
    """Return the service's part of a report's nonce, drawn once the report's bytes have arrived."""
    return secrets.token_hex(32)


def store_upload(
    tx: Connection, key: str, round_id: str, member: str, upload: Upload, received: str, nonce: str
) -> None:
    """Store an upload that was read."""
    report = upload.report
    preview = {"preview": upload.preview, "columns": [dict(column) for column in upload.columns]}
    values = {
        "name": report.source,
        "sha256": upload.sha256,
        "data_digest": report.data_digest,
        "rows": report.rows,
        "summary": [float(value) for value in report.summary],
        "shown": preview,
        "nonce": nonce,
        "tasks": report.tasks,
        "dropped": report.dropped,
        "unnamed": report.unnamed,
    }
    tx.execute(insert(uploads).values(id=key, round=round_id, member=member, created=received, **values))
    if isinstance(report, TaskReport):
        tx.execute(insert(upload_tasks).values(upload=key, content=report.content))


def confirm(
    tx: Connection,
    user: User,
    campaign: str,
    number: int,
    submission: str,
    replaces: str | None = None,
    nonce: str | None = None,
) -> None:
    """Make a submission the provider's report, and sign its receipt.

    ``replaces`` must be the submission that is currently the report, if there is one, so that no report is replaced
    unseen. ``nonce`` is any text that the service could not predict, so that it cannot steer the seed by its own part.
    """
    row, member = _locked_round(tx, user, campaign, number)
    if not _read_late(tx, row, submission):
        check_open(row, member)
    terms = campaigns.terms_of(campaigns.joined(tx, user, campaign)[0])
    my_upload(tx, member.id, row.id, submission)
    own_report = (reports.c.round == row.id) & (reports.c.member == member.id)
    current = tx.scalar(select(reports.c.upload).where(own_report).with_for_update())
    conflict = ConflictError(
        "you have already confirmed a report for this round; to replace it, say which one it replaces"
    )
    if current == submission:
        return
    values = {"upload": submission, "confirmed": now(), "nonce": nonce}
    values |= {"terms": campaigns.digest_of_terms(terms, member.name)}
    if current is None:
        if replaces is not None:
            raise ConflictError("replaces: there is no report to replace")
        key = {"id": new_id(), "campaign": campaign, "round": row.id, "member": member.id}
        try:
            tx.execute(insert(reports).values(**key, **values))
        except IntegrityError:
            raise conflict from None
    elif replaces != current:
        raise conflict
    else:
        tx.execute(update(reports).where(own_report).values(**values, receipt=None))
        tx.execute(update(uploads).where(uploads.c.id == current).values(replaced=values["confirmed"]))
        tx.execute(update(uploads).where(uploads.c.id == submission).values(replaced=None))
    (report,) = tx.execute(_UPLOADS.where(own_report))
    signed = keys_of(tx).sign(receipts.statement(terms.commitment, report))
    tx.execute(update(reports).where(own_report).values(receipt=signed["signature"]))


def find_open_round(tx: Connection, user: User, campaign: str, number: int, received: str) -> tuple[Row[Any], Row[Any]]:
    """Return a round that was open when an upload arrived, locked until this transaction ends, and the membership."""
    row, member = _locked_round(tx, user, campaign, number)
    check_open(row, member, received)
    return row, member


def _locked_round(tx: Connection, user: User, campaign: str, number: int) -> tuple[Row[Any], Row[Any]]:
    """Return a round, which cannot close before this transaction ends, and the membership."""
    campaigns.joined(tx, user, campaign)
    row = find_round(tx, campaign, number, lock="shared")
    _, member = campaigns.joined(tx, user, campaign)  # again: it may have been revoked while this waited for the lock
    _reject_revoked(member)
    return row, member


def _reject_revoked(member: Row[Any]) -> None:
    if member.revoked is not None:
        raise ForbiddenError("the analyst has revoked your access to this campaign")


def check_open(row: Row[Any], member: Row[Any], received: str | None = None) -> None:
    """Reject data that arrived, by default now, after the round had closed, or whose provider was revoked."""
    _reject_revoked(member)
    unsettled = row.state == "closed" and row.settled is None and row.problem is None
    late = [end for end in (row.deadline, row.closed) if end is not None and end <= (received or now())]
    if late or not (row.state == "open" or (unsettled and received is not None)):
        raise ConflictError("the round is closed")


def _read_late(tx: Connection, row: Row[Any], upload: str) -> bool:
    """Return whether an upload that was read after its round closed can still be confirmed."""
    until = row.deadline if row.state == "open" else row.closed
    if until is None or row.settled is not None:
        return False
    late = (queued.c.done > until) & (queued.c.done > after(minutes=-GRACE_MINUTES))
    return bool(tx.scalar(select(exists().where(queued.c.id == upload, queued.c.state == "read", late))))


def my_upload(tx: Connection, member: str, round_id: str, upload: str) -> Row[Any]:
    """Return one of a provider's own uploads."""
    query = _MEMBER_UPLOADS.where(uploads.c.id == upload)
    row = tx.execute(query, {"of_member": member, "to_round": round_id}).first()
    if row is None:
        own_upload = (queued.c.id == upload) & (queued.c.member == member) & queued.c.state.in_(("waiting", "reading"))
        if tx.scalar(select(exists().where(own_upload))):
            raise ConflictError("the file has not been read yet: try again in a moment")
        raise NotFoundError("there is no such submission")
    return row


def my_uploads(tx: Connection, member: str, round_id: str) -> Sequence[Row[Any]]:
    """Return a provider's uploads to a round, latest first; the one whose ``confirmed`` is set is the report."""
    return tx.execute(_LATEST_FIRST, {"of_member": member, "to_round": round_id}).all()


def my_reports(tx: Connection, member: str) -> dict[str, str]:
    """Return the submissions that a provider has confirmed, by round."""
    return {row.round: row.upload for row in tx.execute(_REPORTED_UPLOADS, {"of_member": member})}


def confirmed_rows(tx: Connection, campaign: str, round_ids: Sequence[str]) -> list[Row[Any]]:
    """Return the confirmed reports of rounds with the fields of their receipts."""
    query = _UPLOADS.where(reports.c.campaign == campaign, reports.c.round.in_(round_ids))
    return list(tx.execute(query.order_by(rounds.c.number, members.c.name)))


def withdraw_revoked(tx: Connection, round_id: str) -> None:
    """Withdraw the reports of revoked providers, who could not replace them."""
    revoked_members = select(members.c.id).where(members.c.revoked.is_not(None))
    tx.execute(delete(reports).where(reports.c.round == round_id, reports.c.member.in_(revoked_members)))


def report_of(upload: Row[Any]) -> Report:
    """Return an upload as a report."""
    summary, nonce = np.array(upload.summary), joint_nonce(upload.nonce, upload.own_nonce or "")
    fields = upload.rows, summary, upload.name, upload.data_digest, nonce
    left_out = {"dropped": upload.dropped, "unnamed": upload.unnamed}
    return Report(upload.provider, upload.day, *fields, tasks=upload.tasks, **left_out)


def received_reports(tx: Connection, confirmed: Sequence[Row[Any]]) -> list[Report]:
    """Return confirmed reports; in a campaign of tasks, with their answers to each task."""
    keys = [row.id for row in confirmed if row.tasks is not None]
    query = select(upload_tasks.c.upload, upload_tasks.c.content).where(upload_tasks.c.upload.in_(keys))
    contents = {key: bytes(content) for key, content in tx.execute(query)} if keys else {}
    received = []
    for row in confirmed:
        report = report_of(row)
        if row.tasks is not None:
            report = TaskReport(**vars(report), content=contents.get(row.id, b""))
        received.append(report)
    return received


def reporters(tx: Connection, round_id: str) -> dict[str, Any]:
    """Return the confirmed reports of a round by membership, for the analyst only."""
    query = (
        select(
            *(reports.c.member, reports.c.confirmed, uploads.c.rows, uploads.c.name),
            *(uploads.c.dropped, uploads.c.unnamed, members.c.name.label("provider")),
        )
        .join(uploads, uploads.c.id == reports.c.upload)
        .join(members, members.c.id == reports.c.member)
        .where(reports.c.round == round_id)
    )
    return {row.member: row for row in tx.execute(query)}


def count_reports(tx: Connection, campaign: str) -> dict[str, int]:
    """Return the number of reports to each round of a campaign, for the analyst only."""
    query = select(reports.c.round, func.count().label("reported")).join(rounds, rounds.c.id == reports.c.round)
    counts = tx.execute(query.where(rounds.c.campaign == campaign).group_by(reports.c.round))
    return {row.round: row.reported for row in counts}


def publish(tx: Connection, user: User, campaign: str, number: int) -> None:
    """Show providers what they were paid in a round, and why."""
    campaigns.owned(tx, user, campaign)
    row = find_round(tx, campaign, number, lock="exclusive")
    if row.state != "paid":
        raise ConflictError("the round is not paid yet")
    if row.published is None:
        tx.execute(update(rounds).where(rounds.c.id == row.id).values(published=now()))
