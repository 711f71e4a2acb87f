"""The queue of uploads: acknowledged once their bytes are stored, and read in a fair order.

The bytes are in the spool, a folder that the store names. A row records their owner and when they arrived, which counts
for the deadline. The account that has recently used the least time goes first. Only one upload of an account is read at
a time, and no campaign takes all places.
"""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, bindparam, exists, func, insert, select, update

from troth.campaigns.private_files import sync_folder
from troth.data.files import sha256_of
from troth.service import campaigns, rounds, threads
from troth.service.accounts import User
from troth.service.errors import ConflictError, RateLimitError
from troth.service.schema import members, new_id, queued, reports, uploads
from troth.service.schema import rounds as round_table
from troth.service.store import Store, after, now, queue
from troth.service.uploads import Limits, Upload, UploadError, printable_name, read_upload

MAX_WAITING, MAX_ATTEMPTS = 8, 3
HOURLY_SECONDS, HOURLY_BYTES, CAMPAIGN_FACTOR = 600, 16 << 30, 10
"""Limits for reading an account's uploads in an hour, and the factor by which a campaign's limits are larger."""
_TO_READ = (queued.c.state == "waiting") | (queued.c.state == "reading")
_QUEUED = (
    select(queued, members.c.name.label("provider"), round_table.c.campaign, round_table.c.number, round_table.c.day)
    .join(members, members.c.id == queued.c.member)
    .join(round_table, round_table.c.id == queued.c.round)
)
_UNREAD = (
    _QUEUED.where(queued.c.member == bindparam("of_member"), queued.c.round == bindparam("to_round"))
    .where(_TO_READ)
    .order_by(queued.c.received.desc())
)
_LEASE_MINUTES, _OLDEST_HOURS, _RECENT_MINUTES, _MARGIN = 5.0, 1.0, 10.0, 0.5


def enqueue(
    tx: Connection, user: User, campaign: str, number: int, path: Path, name: str, received: str, key: str | None
) -> str:
    """Add an upload to the queue, and return its identifier; one that repeats a key is added only once."""
    if key is not None:
        queue(tx, f"{user.account} {key}")
    row, member = rounds.find_open_round(tx, user, campaign, number, received)
    digest, size = sha256_of(path), path.stat().st_size
    identifier = new_id() if key is None else identifier_of(user.account, key)
    values = {"round": row.id, "member": member.id, "account": user.account, "sha256": digest, "bytes": size}
    earlier = tx.execute(select(queued).where(queued.c.id == identifier)).first()
    if earlier is not None:
        if any(getattr(earlier, part) != value for part, value in values.items()):
            raise ConflictError("Idempotency-Key: it was used for another request; use a new key")
        return identifier
    rounds.reject_excess_uploads(tx, row.id, member.id)
    _reject_heavy_use(tx, campaign, user.account)
    final = path.with_name(identifier)
    with path.open("rb") as file:
        os.fsync(file.fileno())
    path.rename(final)
    sync_folder(final.parent)
    fresh = {"state": "waiting", "attempts": 0, "milliseconds": 0, "expanded": 0, "spool": _spool(final.parent)}
    fresh |= {"nonce": rounds.new_nonce()}
    tx.execute(insert(queued).values(id=identifier, name=printable_name(name), received=received, **values, **fresh))
    return identifier


def identifier_of(account: str, key: str) -> str:
    """Return the identifier of an upload with a key; it is the same however often the upload is sent."""
    return sha256(f"{account} {key}".encode()).hexdigest()[:16]


def _spool(folder: Path) -> str:
    return f"{socket.gethostname()} {folder}"


def _reject_heavy_use(tx: Connection, campaign: str, account: str) -> None:
    """Reject an upload if its account has too many waiting, or the account or campaign has used up its hour."""
    of_campaign = queued.c.round.in_(select(round_table.c.id).where(round_table.c.campaign == campaign))
    if (tx.scalar(select(func.count()).where(_TO_READ, queued.c.account == account)) or 0) >= MAX_WAITING:
        raise RateLimitError(f"{MAX_WAITING} of your files are waiting to be read; try again once they have been read")
    totals = select(func.sum(queued.c.milliseconds), func.sum(queued.c.expanded)).where(queued.c.done > after(hours=-1))
    for condition, factor, owner in (
        (queued.c.account == account, 1, "your"),
        (of_campaign, CAMPAIGN_FACTOR, "the campaign's"),
    ):
        milliseconds, expanded = (int(total or 0) for total in tx.execute(totals.where(condition)).one())
        if milliseconds > factor * HOURLY_SECONDS * 1000 or expanded > factor * HOURLY_BYTES:
            raise RateLimitError(f"reading {owner} files has used up this hour's limit; try again later")


def claim(store: Store, *, places: int = threads.SIZES["parsing"]) -> Row[Any] | None:
    """Choose the next upload fairly, and count the attempt to read it before it is made."""
    with store.read() as tx:
        if not tx.scalar(select(exists().where(_TO_READ))):
            return None
    with store.write() as tx:
        queue(tx, "uploads to be read")
        stale = (queued.c.state == "reading") & (queued.c.claimed < after(minutes=-_LEASE_MINUTES))
        exhausted = stale & (queued.c.attempts >= MAX_ATTEMPTS)
        problem = f"{MAX_ATTEMPTS} attempts to read the file were cut off; send another one"
        lost = (queued.c.state == "waiting") & (queued.c.received < after(hours=-_OLDEST_HOURS))
        refused = {"state": "refused", "done": now(), "status": 422}
        given_up = tx.scalars(select(queued.c.id).where(exhausted | lost)).all()
        tx.execute(update(queued).where(exhausted).values(problem=problem, **refused))
        tx.execute(update(queued).where(lost).values(problem="it could not be read in time; send it again", **refused))
        tx.execute(update(queued).where(stale).values(state="waiting"))
        rows = tx.execute(_QUEUED.where(_TO_READ).order_by(queued.c.received)).all()
        reading = [row for row in rows if row.state == "reading"]
        accounts, busy = {row.account for row in reading}, Counter(row.campaign for row in reading)
        waiting = [
            row
            for row in rows
            if row.state == "waiting"
            and row.account not in accounts
            and busy[row.campaign] < max(1, places - 1)
            and (row.spool == _spool(store.spool) or (store.spool / row.id).exists())  # if this machine was renamed
        ]
        for identifier in given_up:
            (store.spool / identifier).unlink(missing_ok=True)
        if not waiting:
            return None
        recent = select(queued.c.account, func.sum(queued.c.milliseconds)).where(
            queued.c.done > after(minutes=-_RECENT_MINUTES)
        )
        used = {account: int(total) for account, total in tx.execute(recent.group_by(queued.c.account))}
        next_upload = min(waiting, key=lambda row: (used.get(row.account, 0), busy[row.campaign], row.received))
        claimed = queued.c.id == next_upload.id
        tx.execute(update(queued).where(claimed).values(state="reading", claimed=now(), attempts=queued.c.attempts + 1))
        return next_upload


def read_all(store: Store, limits: Limits) -> None:
    """Read uploads until none is left that may be read now."""
    while (row := claim(store)) is not None:
        _read(store, limits, row)


def _read(store: Store, limits: Limits, row: Row[Any]) -> None:
    path, began = store.spool / row.id, time.monotonic()
    outcome: Upload | UploadError
    with store.read() as tx:
        terms = campaigns.terms_of(campaigns.find_campaign(tx, row.campaign))
    try:
        outcome = read_upload(terms, path, row.name, row.provider, row.day, limits)
    except FileNotFoundError:
        outcome = UploadError(422, f"{row.name}: its bytes are lost; send it again")
    except UploadError as error:
        outcome = error
    values: dict[str, Any] = {"done": now(), "milliseconds": int(1000 * (time.monotonic() - began))}
    with store.write() as tx:
        if isinstance(outcome, UploadError):
            state = "waiting" if outcome.status == 503 else "refused"
            values |= {"state": state, "status": outcome.status, "problem": str(outcome)}
        else:
            values |= {"state": "read", "expanded": outcome.expanded}
            if tx.scalar(select(uploads.c.id).where(uploads.c.id == row.id)) is None:
                rounds.store_upload(tx, row.id, row.round, row.member, outcome, row.received, row.nonce)
        tx.execute(update(queued).where(queued.c.id == row.id).values(**values))
    if values["state"] == "waiting":
        time.sleep(1.0)  # all places were taken
    else:
        path.unlink(missing_ok=True)


def find(tx: Connection, identifier: str) -> Row[Any] | None:
    """Return an upload that is or was in the queue."""
    return tx.execute(_QUEUED.where(queued.c.id == identifier)).first()


def unread(tx: Connection, member: str, round_id: str) -> Sequence[Row[Any]]:
    """Return a provider's uploads to a round that wait to be read, latest first."""
    return tx.execute(_UNREAD, {"of_member": member, "to_round": round_id}).all()


def pending(tx: Connection, round_ids: Sequence[str]) -> bool:
    """Return whether an upload that arrived in time is still to be read, or can still be confirmed."""
    in_rounds = queued.c.round.in_(round_ids)
    unread = _TO_READ & (queued.c.received > after(hours=-_OLDEST_HOURS))
    later = (
        exists()
        .where(reports.c.round == queued.c.round, reports.c.member == queued.c.member)
        .where(reports.c.confirmed > queued.c.done)
    )
    closed = select(round_table.c.closed).where(round_table.c.id == queued.c.round).scalar_subquery()
    late = (queued.c.state == "read") & (queued.c.done > closed) & ~later
    late &= queued.c.done > after(minutes=-rounds.GRACE_MINUTES - _MARGIN)
    return bool(tx.scalar(select(exists().where(in_rounds, unread | late))))
