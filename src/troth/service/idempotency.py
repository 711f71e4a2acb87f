"""Idempotency keys: a request that is sent again is answered with the same bytes, and done once."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from troth.service.errors import ConflictError, InvalidError
from troth.service.schema import replies
from troth.service.store import after, now, queue

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from troth.service.store import Store

KEPT_DAYS = 7


class Reply(NamedTuple):
    """An answer: its status and its bytes, JSON."""

    status: int
    body: bytes


class Request(NamedTuple):
    """What tells a request from another: who sends it, under which key, and a digest of all that it says."""

    account: str
    key: str
    fingerprint: str


def request_of(account: str, key: str | None, *parts: str | bytes) -> Request | None:
    """Return what identifies a request that came with a key."""
    if key is None:
        return None
    if not 1 <= len(key) <= 200 or not key.isascii() or not key.isprintable():
        raise InvalidError("Idempotency-Key: must have 1 to 200 printable ASCII characters")
    total = sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        total.update(len(raw).to_bytes(8) + raw)
    return Request(account, key, total.hexdigest())


def replayed(tx: Connection, request: Request | None) -> Reply | None:
    """Return the answer that a request was given before, if it was; refuse another request under its key."""
    if request is None:
        return None
    mine = (replies.c.account == request.account) & (replies.c.key == request.key)
    found = tx.execute(select(replies).where(mine, replies.c.created > after(days=-KEPT_DAYS))).first()
    if found is None:
        return None
    if found.fingerprint != request.fingerprint:
        raise ConflictError("Idempotency-Key: it was used for another request; use a new key")
    return Reply(found.status, bytes(found.body))


def answer_once(store: Store, request: Request | None, work: Callable[[Connection], Reply]) -> Reply:
    """Do something and remember the answer, in one transaction; done before, it is only answered."""
    with store.write() as tx:
        if request is not None:
            queue(tx, f"{request.account} {request.key}")
        found = replayed(tx, request)
        if found is not None:
            return found
        try:
            reply = work(tx)
        except IntegrityError:
            raise ConflictError("the same was done at the same moment; look, and try again") from None
        if request is not None:
            tx.execute(delete(replies).where(replies.c.created <= after(days=-KEPT_DAYS)))
            tx.execute(insert(replies).values(**request._asdict(), created=now(), **reply._asdict()))
        return reply
