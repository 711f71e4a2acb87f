"""Rounds: opened by the analyst, reported to by providers, closed once.

A provider's upload becomes its report when it is confirmed; there is one report per provider and round, which a unique
constraint guards. A report may be replaced until the round closes.
"""

from __future__ import annotations

import json
import secrets
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import IntegrityError

from troth.data.request import Day, Report, day_order, parse_day
from troth.service import campaigns, receipts
from troth.service.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError, TooManyError
from troth.service.keys import keys_of
from troth.service.schema import members, new_id, reports, rounds, uploads
from troth.service.store import now, queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row, Select

    from troth.campaigns.terms import Campaign
    from troth.service.accounts import User
    from troth.service.uploads import Upload

_LAST_NUMBER = 10**9
MOST_UPLOADS = 50


def open_round(tx: Connection, user: User, campaign: str, day: Any = None, deadline: str | None = None) -> int:
    """Open the next round and return its number.

    Parameters
    ----------
    day
        In a daily campaign the day, a date or a whole number; by default the one after the last.
    deadline
        When it closes by itself, in UTC as `store.timestamp` writes it; by default only the analyst closes it.
    """
    row = campaigns.owned(tx, user, campaign, lock=True)
    if row.state == "ended":
        raise ConflictError("the campaign has ended: its last day was paid")
    before = list_rounds(tx, campaign)
    if any(other.state == "open" for other in before):
        raise ConflictError("a round is open already; close it first")
    if any(other.problem is not None and other.state == "closed" for other in before):
        raise ConflictError("the last round was closed and could not be paid; reopen that one first")
    if any(other.final for other in before):
        raise ConflictError("the last round was closed as the last day; no day follows it")
    if deadline is not None and deadline <= now():
        raise InvalidError("deadline: must lie in the future")
    terms = campaigns.freeze(tx, row) if row.state == "draft" else campaigns.terms_of(row)
    chosen = _day(terms, day, [read_day(other.day) for other in before])
    number = len(before) + 1
    values = {"number": number, "day": write_day(chosen), "state": "open", "final": False, "deadline": deadline}
    tx.execute(insert(rounds).values(id=new_id(), campaign=campaign, opened=now(), **values))
    return number


def _day(terms: Campaign, day: Any, before: Sequence[Day]) -> Day:
    if not terms.daily:
        if before:
            raise ConflictError("this campaign has one round, and it was opened")
        if day is not None:
            raise InvalidError("day: this campaign has no days")
        return None
    if terms.days is not None and len(before) >= terms.days:
        raise ConflictError(f"this campaign has {terms.days} days, and all were opened")
    if day is None:
        return next_day(before)
    try:
        chosen = parse_day(day)
    except ValueError:
        raise InvalidError(f"day: {day!r} is not a date (YYYY-MM-DD) or a whole number") from None
    if isinstance(chosen, int) and abs(chosen) > _LAST_NUMBER:
        raise InvalidError("day: the number is too large")
    if before and type(before[-1]) is not type(chosen):
        raise InvalidError(f"day: earlier days look like {before[-1]}; use the same kind")
    if before and day_order(chosen) <= day_order(before[-1]):
        raise InvalidError(f"day: must come after {before[-1]}")
    return chosen


def next_day(before: Sequence[Day]) -> Day:
    """Return the day after the last, or today."""
    if not before:
        return datetime.now(UTC).date().isoformat()
    last = before[-1]
    try:
        return last + 1 if isinstance(last, int) else (date.fromisoformat(str(last)) + timedelta(days=1)).isoformat()
    except OverflowError:
        raise ConflictError(f"no day comes after {last}") from None


def list_rounds(tx: Connection, campaign: str) -> Sequence[Row[Any]]:
    """Return a campaign's rounds in order."""
    return tx.execute(select(rounds).where(rounds.c.campaign == campaign).order_by(rounds.c.number)).all()


def find_round(tx: Connection, campaign: str, number: int, *, lock: str | None = None) -> Row[Any]:
    """Return a round, locked if asked for: those who report share the lock, one who closes has it alone."""
    query = select(rounds).where(rounds.c.campaign == campaign, rounds.c.number == number)
    if lock is not None:
        queue(tx, f"round {number} of {campaign}", shared=lock == "shared")
        query = query.with_for_update(read=lock == "shared")
    row = tx.execute(query).first()
    if row is None:
        raise NotFoundError("there is no such round")
    return row


def add_upload(tx: Connection, user: User, campaign: str, number: int, upload: Upload) -> str:
    """Store what a provider sent, to be confirmed, and return its identifier."""
    row, member = _open_to(tx, user, campaign, number)
    sent = select(func.count()).select_from(uploads).where(uploads.c.round == row.id, uploads.c.member == member.id)
    if (tx.scalar(sent) or 0) >= MOST_UPLOADS:
        raise TooManyError(f"you have sent {MOST_UPLOADS} files to this round; confirm one of them")
    report = upload.report
    shown = {"preview": upload.preview, "columns": [dict(column) for column in upload.columns]}
    key = new_id()
    values = {
        "name": report.source,
        "sha256": upload.sha256,
        "data_digest": report.data_digest,
        "rows": report.rows,
        "summary": json.dumps([float(value) for value in report.summary]),
        "shown": json.dumps(shown),
        "nonce": secrets.token_hex(32),
    }
    tx.execute(insert(uploads).values(id=key, round=row.id, member=member.id, created=now(), **values))
    return key


def confirm(
    tx: Connection,
    user: User,
    campaign: str,
    number: int,
    upload: str,
    replaces: str | None = None,
    nonce: str | None = None,
) -> None:
    """Make an upload the provider's report, and sign its receipt.

    Parameters
    ----------
    replaces
        The upload that is the report now, where there is one: nobody replaces what they have not seen.
    nonce
        Any text that the service could not foresee: then it cannot have chosen its own part of the nonce to steer the
        seed.
    """
    row, member = _open_to(tx, user, campaign, number)
    campaign_row, _ = campaigns.joined(tx, user, campaign)
    my_upload(tx, member.id, row.id, upload)
    own_report = (reports.c.round == row.id) & (reports.c.member == member.id)
    current = tx.scalar(select(reports.c.upload).where(own_report).with_for_update())
    twice = ConflictError("you have already confirmed a report to this round; to replace it, say which one it replaces")
    if current == upload:
        return
    if current is None:
        if replaces is not None:
            raise ConflictError("replaces: there is no report to replace")
        values = {"campaign": campaign, "round": row.id, "member": member.id, "upload": upload}
        try:
            tx.execute(insert(reports).values(id=new_id(), confirmed=now(), nonce=nonce, **values))
        except IntegrityError:
            raise twice from None
    elif replaces != current:
        raise twice
    else:
        tx.execute(update(reports).where(own_report).values(upload=upload, confirmed=now(), nonce=nonce, receipt=None))
    (report,) = tx.execute(_confirmed(campaign).where(own_report))
    commitment = campaigns.terms_of(campaign_row).commitment
    signed = keys_of(tx).sign(receipts.statement(campaign, commitment, report))
    tx.execute(update(reports).where(own_report).values(receipt=signed["signature"]))


def _open_to(tx: Connection, user: User, campaign: str, number: int) -> tuple[Row[Any], Row[Any]]:
    """Return a round that is open, locked so that it cannot close before this transaction ends, and the membership."""
    campaigns.joined(tx, user, campaign)
    row = find_round(tx, campaign, number, lock="shared")
    _, member = campaigns.joined(tx, user, campaign)  # as it is now: it may have been revoked while this waited
    check_open(row, member)
    return row, member


def check_open(row: Row[Any], member: Row[Any]) -> None:
    """Refuse data to a round that is closed, or from a provider who was revoked."""
    if member.revoked is not None:
        raise ForbiddenError("the analyst has revoked your access to this campaign")
    if row.state != "open" or (row.deadline is not None and row.deadline <= now()):
        raise ConflictError("the round is closed")


def my_upload(tx: Connection, member: str, round_id: str, upload: str) -> Row[Any]:
    """Return one of a provider's own uploads."""
    row = tx.execute(_uploads_of(member, round_id).where(uploads.c.id == upload)).first()
    if row is None:
        raise NotFoundError("there is no such submission")
    return row


def my_uploads(tx: Connection, member: str, round_id: str) -> Sequence[Row[Any]]:
    """Return a provider's uploads to a round, the latest first; the one with a time ``confirmed`` is the report."""
    return tx.execute(_uploads_of(member, round_id).order_by(uploads.c.created.desc(), uploads.c.id)).all()


def _uploads_of(member: str, round_id: str) -> Select[Any]:
    return (
        select(uploads, reports.c.confirmed, reports.c.nonce.label("own_nonce"), reports.c.receipt)
        .join(reports, reports.c.upload == uploads.c.id, isouter=True)
        .where(uploads.c.round == round_id, uploads.c.member == member)
    )


def confirmed_reports(tx: Connection, campaign: str, round_ids: Sequence[str]) -> list[Report]:
    """Return the confirmed reports of rounds, which payments are computed from."""
    return [report_of(row.provider, row.day, row) for row in confirmed_rows(tx, campaign, round_ids)]


def confirmed_rows(tx: Connection, campaign: str, round_ids: Sequence[str]) -> list[Row[Any]]:
    """Return the confirmed reports of rounds with the fields of their receipts."""
    query = _confirmed(campaign).where(reports.c.round.in_(round_ids)).order_by(rounds.c.number, members.c.name)
    return list(tx.execute(query))


def _confirmed(campaign: str) -> Select[Any]:
    return (
        select(
            uploads,
            members.c.name.label("provider"),
            rounds.c.day,
            rounds.c.number,
            reports.c.confirmed,
            reports.c.nonce.label("own_nonce"),
            reports.c.receipt,
        )
        .select_from(reports)
        .join(uploads, uploads.c.id == reports.c.upload)
        .join(members, members.c.id == reports.c.member)
        .join(rounds, rounds.c.id == reports.c.round)
        .where(reports.c.campaign == campaign)
    )


def report_of(provider: str, day: str | None, upload: Row[Any]) -> Report:
    """Return an upload as a report."""
    summary = np.array(json.loads(upload.summary))
    nonce = receipts.nonce_of(upload)
    return Report(provider, read_day(day), upload.rows, summary, upload.name, upload.data_digest, nonce)


def reporters(tx: Connection, round_id: str) -> dict[str, Any]:
    """Return who has confirmed a report to a round, by membership: for the analyst alone."""
    query = (
        select(reports.c.member, reports.c.confirmed, uploads.c.rows, uploads.c.name)
        .join(uploads, uploads.c.id == reports.c.upload)
        .where(reports.c.round == round_id)
    )
    return {row.member: row for row in tx.execute(query)}


def count_reports(tx: Connection, round_id: str) -> int:
    """Return how many have reported: for the analyst alone."""
    return tx.scalar(select(func.count()).select_from(reports).where(reports.c.round == round_id)) or 0


def publish(tx: Connection, user: User, campaign: str, number: int) -> None:
    """Show providers what they were paid in a round, and why."""
    campaigns.owned(tx, user, campaign)
    row = find_round(tx, campaign, number, lock="alone")
    if row.state != "paid":
        raise ConflictError("the round is not paid yet")
    if row.published is None:
        tx.execute(update(rounds).where(rounds.c.id == row.id).values(published=now()))


def write_day(day: Day) -> str | None:
    """Return a day as the tables have it."""
    return None if day is None else json.dumps(day)


def read_day(text: str | None) -> Day:
    """Read a day back."""
    day: Day = None if text is None else json.loads(text)
    return day
