"""Payouts: every payment has an identifier that never changes, and is pending, posted or void.

An export is a batch of all payments that are pending; they are posted then. A batch never changes, and no payment is in
two: whoever pays out every batch once pays everybody once, however often a batch is fetched.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, insert, select, update

from troth.campaigns.canonical_json import canonical
from troth.data.request import Day
from troth.results.result import harmless
from troth.service import campaigns, ledgers, responses, rounds
from troth.service.accounts import User
from troth.service.errors import ConflictError, NotFoundError
from troth.service.responses import Amount
from troth.service.schema import payouts
from troth.service.store import now


class _Due(NamedTuple):
    """A payment of the ledger: whose, of which round, how much in minor units, and the ledger's head by then."""

    id: str
    round: int
    day: Day
    provider: str
    minor: int
    head: str | None


def payout_id(campaign: str, day: Day, provider: str) -> str:
    """Return the identifier of a payment."""
    return sha256(canonical([campaign, day, provider])).hexdigest()[:16]


def states(tx: Connection, campaign: str) -> dict[str, Any]:
    """Return what is known of payouts that are no longer pending, by identifier."""
    return {row.id: row for row in tx.execute(select(payouts).where(payouts.c.campaign == campaign))}


def list_payouts(tx: Connection, user: User, campaign: str) -> responses.Payouts:
    """Return all payouts of a campaign, for its analyst."""
    terms, known = campaigns.terms_of(campaigns.owned(tx, user, campaign)), states(tx, campaign)
    shown = []
    for due in _due(tx, campaign):
        row = known.get(due.id)
        state = {"state": "pending" if row is None else row.state, "batch": None if row is None else row.batch}
        fields = {name: getattr(due, name) for name in ("id", "round", "day", "provider", "head")}
        amount = Amount(due.minor, terms.decimals)
        shown.append(
            responses.Payout(**fields, **state, amount=amount, reason=None if row is None else row.reason)  # type: ignore[arg-type]
        )
    return responses.Payouts(campaign=campaign, name=terms.name, currency=terms.currency, payouts=shown)


def export(tx: Connection, user: User, campaign: str) -> responses.Batch:
    """Put all pending payments into a new batch, and return it."""
    campaigns.owned(tx, user, campaign, lock=True)
    known = states(tx, campaign)
    pending = [due.id for due in _due(tx, campaign) if due.id not in known]
    if not pending:
        raise ConflictError("every payment is in a batch already")
    number = (tx.scalar(select(func.max(payouts.c.batch)).where(payouts.c.campaign == campaign)) or 0) + 1
    values = {"campaign": campaign, "batch": number, "state": "posted", "changed": now()}
    tx.execute(insert(payouts), [{"id": key, **values} for key in pending])
    return batch_view(tx, user, campaign, number)


def batch_view(tx: Connection, user: User, campaign: str, number: int) -> responses.Batch:
    """Return a batch as it was exported."""
    terms, known = campaigns.terms_of(campaigns.owned(tx, user, campaign)), states(tx, campaign)
    lines = [
        responses.BatchLine(
            **{name: getattr(due, name) for name in ("id", "round", "day", "provider", "head")},
            campaign=campaign,
            amount=Amount(due.minor, terms.decimals),
            currency=terms.currency,
        )
        for due in _due(tx, campaign)
        if due.id in known and known[due.id].batch == number
    ]
    if not lines:
        raise NotFoundError("there is no such batch")
    return responses.Batch(campaign=campaign, name=terms.name, batch=number, payments=lines)


def batch_file(tx: Connection, user: User, campaign: str, number: int) -> bytes:
    """Return a batch as CSV."""
    batch = batch_view(tx, user, campaign, number)
    text = io.StringIO()
    writer = csv.writer(text)
    names: Sequence[str] = list(responses.BatchLine.model_fields)
    writer.writerow([*names, "batch"])
    for line in batch.payments:
        cells = {name: getattr(line, name) for name in names} | {"provider": harmless(line.provider)}
        writer.writerow(["" if cells[name] is None else str(cells[name]) for name in names] + [str(number)])
    return text.getvalue().encode()


def void(tx: Connection, user: User, campaign: str, payout: str, reason: str) -> None:
    """Note that a payment is not paid out, and why; it is in no later batch."""
    campaigns.owned(tx, user, campaign, lock=True)
    if payout not in {due.id for due in _due(tx, campaign)}:
        raise NotFoundError("there is no such payment")
    values = {"state": "void", "changed": now(), "reason": reason}
    row = states(tx, campaign).get(payout)
    if row is None:
        tx.execute(insert(payouts).values(id=payout, campaign=campaign, **values))
    elif row.state == "void":
        raise ConflictError("it is void already")
    else:
        tx.execute(update(payouts).where(payouts.c.id == payout).values(**values))


def _due(tx: Connection, campaign: str) -> list[_Due]:
    """Return the payments of a campaign's ledger that are not zero, in the order in which they were made."""
    result = ledgers.load_result(tx, campaign)
    rows = {rounds.read_day(row.day): row for row in rounds.list_rounds(tx, campaign)}
    return [
        _Due(
            payout_id(campaign, paid.day, payment.provider),
            row.number,
            paid.day,
            payment.provider,
            payment.payment,
            row.head,
        )
        for paid in (() if result is None else result.rounds)
        for row in [rows[paid.day]]
        for payment in paid.payments
        if payment.payment
    ]
