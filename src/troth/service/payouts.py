"""Payouts: every payment has an identifier that never changes, and is pending, posted or void.

An export puts all pending payments into a batch and marks them as posted. A batch never changes, and no payment is in
two batches, so paying out every batch once pays everybody once, however often a batch is fetched.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from troth.campaigns.records.canonical_json import canonical
from troth.data.request import Day
from troth.results.result import csv_text, escape_formula
from troth.service import campaigns, ledgers, responses, rounds
from troth.service.accounts import User
from troth.service.errors import ConflictError, NotFoundError
from troth.service.responses import Amount
from troth.service.schema import payouts
from troth.service.store import now


def payout_id(campaign: str, day: Day, provider: str) -> str:
    """Return the identifier of a payment."""
    return sha256(canonical([campaign, day, provider])).hexdigest()[:16]


def states(tx: Connection, campaign: str) -> dict[str, Any]:
    """Return the payouts that are no longer pending, by identifier."""
    return {row.id: row for row in tx.execute(select(payouts).where(payouts.c.campaign == campaign))}


def list_payouts(tx: Connection, user: User, campaign: str, *, lock: bool = False) -> responses.Payouts:
    """Return the nonzero payments of a campaign, in the order in which they were made, for its analyst."""
    terms = campaigns.terms_of(campaigns.owned(tx, user, campaign, lock=lock))
    result, payout_states = ledgers.load_result(tx, campaign), states(tx, campaign)
    rows = {row.day: row for row in rounds.list_rounds(tx, campaign)}
    lines = []
    for paid_round in () if result is None else result.rounds:
        for payment in (payment for payment in paid_round.payments if payment.payment):
            key = payout_id(campaign, paid_round.day, payment.provider)
            row = payout_states.get(key)
            lines.append(
                responses.Payout(
                    id=key,
                    round=rows[paid_round.day].number,
                    day=paid_round.day,
                    provider=payment.provider,
                    amount=Amount(payment.payment, terms.decimals),
                    head=rows[paid_round.day].head,
                    state="pending" if row is None else row.state,
                    batch=None if row is None else row.batch,
                    reason=None if row is None else row.reason,
                )
            )
    return responses.Payouts(campaign=campaign, name=terms.name, currency=terms.currency, payouts=lines)


def export(tx: Connection, user: User, campaign: str) -> responses.Batch:
    """Move all pending payments into a new batch, and return it."""
    listed = list_payouts(tx, user, campaign, lock=True).payouts
    pending = [payout.id for payout in listed if payout.state == "pending"]
    if not pending:
        raise ConflictError("every payment is already in a batch")
    number = (tx.scalar(select(func.max(payouts.c.batch)).where(payouts.c.campaign == campaign)) or 0) + 1
    values = {"campaign": campaign, "batch": number, "state": "posted", "changed": now()}
    tx.execute(insert(payouts), [{"id": key, **values} for key in pending])
    return batch_view(tx, user, campaign, number)


def batch_view(tx: Connection, user: User, campaign: str, number: int) -> responses.Batch:
    """Return a batch as it was exported."""
    listed = list_payouts(tx, user, campaign)
    lines = [
        responses.BatchLine.of(payout, campaign=campaign, currency=listed.currency)
        for payout in listed.payouts
        if payout.batch == number
    ]
    if not lines:
        raise NotFoundError("there is no such batch")
    return responses.Batch(campaign=campaign, name=listed.name, batch=number, payments=lines)


def batch_file(tx: Connection, user: User, campaign: str, number: int) -> bytes:
    """Return a batch as CSV."""
    lines = [line.model_dump() for line in batch_view(tx, user, campaign, number).payments]
    rows = [{**line, "provider": escape_formula(line["provider"]), "batch": number} for line in lines]
    return csv_text([rows[0], *(row.values() for row in rows)]).encode()


def void(tx: Connection, user: User, campaign: str, payout: str, reason: str) -> None:
    """Mark a payment as void, with a reason; no later batch contains it."""
    listed = list_payouts(tx, user, campaign, lock=True).payouts
    current = next((line.state for line in listed if line.id == payout), None)
    if current is None:
        raise NotFoundError("there is no such payment")
    if current == "void":
        raise ConflictError("it is already void")
    values = {"state": "void", "changed": now(), "reason": reason}
    if current == "pending":
        tx.execute(insert(payouts).values(id=payout, campaign=campaign, **values))
    else:
        tx.execute(update(payouts).where(payouts.c.id == payout).values(**values))
