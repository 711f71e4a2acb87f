"""Idempotency keys: a repeated request is executed once and gets the same response."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from troth.service.errors import ConflictError, RateLimitError
from troth.service.schema import replies
from troth.service.store import Store, after, now, queue

KEPT_DAYS = 7
MAX_REPLIES, MAX_BYTES = 10_000, 64 << 20  # stored per account


class Reply(NamedTuple):
    """A response: its status and its JSON body."""

    status: int
    body: bytes


class KeyedRequest(NamedTuple):
    """The identity of a request: its sender, its idempotency key, and a digest of its content."""

    account: str
    key: str
    fingerprint: str


def earlier_reply(store: Store, request: KeyedRequest | None) -> Reply | None:
    """Return the stored reply to a request, if there is one; reject a different request with the same key."""
    if request is None:
        return None
    with store.read() as tx:
        return _stored(tx, request)


def _stored(tx: Connection, request: KeyedRequest) -> Reply | None:
    same_key = (replies.c.account == request.account) & (replies.c.key == request.key)
    reply = tx.execute(select(replies).where(same_key, replies.c.created > after(days=-KEPT_DAYS))).first()
    if reply is None:
        return None
    if reply.fingerprint != request.fingerprint:
        raise ConflictError("Idempotency-Key: it was used for another request; use a new key")
    return Reply(reply.status, bytes(reply.body))


def was_answered(tx: Connection, account: str, key: str) -> bool:
    """Return whether any request with this key was answered."""
    return tx.scalar(select(replies.c.status).where(replies.c.account == account, replies.c.key == key)) is not None


def answer_once(store: Store, request: KeyedRequest | None, work: Callable[[Connection], Reply]) -> Reply:
    """Do the work and store the reply in one transaction, or return the reply that was stored before."""
    with store.write() as tx:
        if request is not None:
            queue(tx, f"{request.account} {request.key}")
            reply = _stored(tx, request)
            if reply is not None:
                return reply
        try:
            reply = work(tx)
        except IntegrityError:
            raise ConflictError("somebody else changed this; reload and try again") from None
        if request is not None:
            tx.execute(delete(replies).where(replies.c.created <= after(days=-KEPT_DAYS)))
            sizes = func.count(), func.coalesce(func.sum(func.length(replies.c.body)), 0)
            count, size = tx.execute(select(*sizes).where(replies.c.account == request.account)).one()
            if count >= MAX_REPLIES or size + len(reply.body) > MAX_BYTES:
                quota = f"{MAX_REPLIES:,} times, or for {MAX_BYTES >> 20} MiB of answers,"
                raise RateLimitError(f"Idempotency-Key: you have used it {quota} in {KEPT_DAYS} days; use fewer keys")
            tx.execute(insert(replies).values(**request._asdict(), created=now(), **reply._asdict()))
        return reply
