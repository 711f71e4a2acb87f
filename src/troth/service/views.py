"""What people may see, by role: the analyst everything, a provider only what is its own.

While a round is open a provider sees nothing that depends on its peers: not how many there are, not who has reported,
not the caps. Terms are shown to providers without the names, groups, weights and laws of others.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from troth.core.settings import plain_copy
from troth.results.explanation import steps
from troth.service import campaigns as terms
from troth.service import ledgers, rounds
from troth.service.errors import ConflictError, NotFoundError
from troth.service.store import now

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from troth.campaigns.settle import Payment
    from troth.campaigns.terms import Campaign
    from troth.results.result import Result
    from troth.service.accounts import Who


def campaign_view(tx: Connection, who: Who, campaign: str) -> dict[str, Any]:
    """Return a campaign as its owner or one of its providers may see it."""
    if who.role == "analyst":
        row = terms.owned(tx, who, campaign)
        spec = terms.terms_of(row)
        held = rounds.list_rounds(tx, campaign)
        people = terms.list_members(tx, campaign)
        own = {
            "terms": json.loads(row.plain),
            "publish_at_once": row.publish_at_once,
            "share_ledger": row.share_ledger,
            "providers": len(people),
            "joined": sum(member.account is not None for member in people),
            "paid": spec.text(sum(int(row.amount.replace(".", "")) for row in held if row.amount is not None)),
            "head": next((row.head for row in reversed(held) if row.head is not None), None),
        }
    else:
        row, member = terms.joined(tx, who, campaign)
        spec = terms.terms_of(row)
        own = {
            "terms": terms_for(spec, member.name),
            "provider": member.name,
            "revoked": member.revoked is not None,
            "share_ledger": row.share_ledger,
        }
        if row.state == "ended" and any(held.published is None for held in rounds.list_rounds(tx, campaign)):
            own["state"] = "running"  # that a round could be paid is not told before it is published
    return {"id": row.id, "state": row.state, "created": row.created, **about(spec), **own}


def about(spec: Campaign) -> dict[str, Any]:
    """Return what is announced to everybody."""
    return {
        "name": spec.name,
        "budget": spec.text(spec.budget),
        "currency": spec.currency,
        "budget_per": "day" if spec.per_day else "campaign",
        "daily": spec.daily,
        "days": spec.days,
        "rule": spec.rule.name,
        "family": type(spec.model).__name__,
        "columns": [column for column in spec.columns if column is not None],
        "categories": None if spec.categories is None else list(spec.categories),
        "most_rows": spec.rows,
        "values": None if spec.values is None else list(spec.values),
        "commitment": spec.commitment,
    }


def terms_for(spec: Campaign, provider: str) -> dict[str, Any]:
    """Return the tables of a campaign file without what tells a provider about others."""
    plain: dict[str, Any] = plain_copy(spec.plain)
    for part in ("groups", "weights"):
        plain.pop(part, None)
    plain.get("data", {}).pop("providers", None)
    laws = plain.get("model", {}).pop("providers", None)
    if laws is not None and provider in laws:
        plain["model"]["providers"] = {provider: laws[provider]}
    plain.get("history", {}).pop("providers", None)
    return plain


def round_view(tx: Connection, who: Who, campaign: str, number: int) -> dict[str, Any]:
    """Return a round as its owner or one of its providers may see it."""
    if who.role == "analyst":
        terms.owned(tx, who, campaign)
        return analysts_round(tx, rounds.find_round(tx, campaign, number))
    _, member = terms.joined(tx, who, campaign)
    return providers_round(tx, member, rounds.find_round(tx, campaign, number))


def list_rounds(tx: Connection, who: Who, campaign: str) -> list[dict[str, Any]]:
    """Return all rounds of a campaign."""
    if who.role == "analyst":
        terms.owned(tx, who, campaign)
        return [analysts_round(tx, row) for row in rounds.list_rounds(tx, campaign)]
    _, member = terms.joined(tx, who, campaign)
    return [providers_round(tx, member, row) for row in rounds.list_rounds(tx, campaign)]


def analysts_round(tx: Connection, row: Row[Any]) -> dict[str, Any]:
    """Return a round as the analyst sees it."""
    return {
        **_times(row),
        "state": "published" if row.published is not None else _state(row),
        "final": row.final,
        "paid": row.paid,
        "amount": row.amount,
        "reports": rounds.count_reports(tx, row.id),
        "problem": row.problem,
        "head": row.head,
    }


def providers_round(tx: Connection, member: Row[Any], row: Row[Any]) -> dict[str, Any]:
    """Return a round as a provider sees it: between closing and publishing nothing stirs."""
    mine = next((upload for upload in rounds.my_uploads(tx, member.id, row.id) if upload.confirmed is not None), None)
    state = "published" if row.published is not None else "open" if _state(row) == "open" else "closed"
    return {**_times(row), "state": state, "submission": None if mine is None else mine.id}


def _times(row: Row[Any]) -> dict[str, Any]:
    closed = row.closed or (row.deadline if _state(row) == "closed" else None)
    return {
        "number": row.number,
        "day": rounds.read_day(row.day),
        "opened": row.opened,
        "deadline": row.deadline,
        "closed": closed,
        "published": row.published,
    }


def _state(row: Row[Any]) -> str:
    """Return a round's state; one whose deadline has passed is closed, whether or not the clock has come by."""
    late = row.state == "open" and row.deadline is not None and row.deadline <= now()
    return "closed" if late else str(row.state)


def submission_view(spec: Campaign, member: Row[Any], row: Row[Any], upload: Row[Any]) -> dict[str, Any]:
    """Return one of a provider's submissions: the receipt, once it is confirmed."""
    report = rounds.report_of(member.name, row.day, upload)
    return {
        "id": upload.id,
        "campaign": row.campaign,
        "round": row.number,
        "day": rounds.read_day(row.day),
        "provider": member.name,
        "file": upload.name,
        "sha256": upload.sha256,
        "data_digest": upload.data_digest,
        "rows": upload.rows,
        "summary": report.summary.tolist(),
        "received": upload.created,
        "confirmed": upload.confirmed,
        "commitment": spec.commitment,
        **json.loads(upload.shown),
    }


def payments_view(tx: Connection, who: Who, campaign: str, number: int) -> dict[str, Any]:
    """Return the payments of a round: all of them, or one's own once it is published."""
    if who.role == "analyst":
        row = terms.owned(tx, who, campaign)
        names = None
    else:
        row, member = terms.joined(tx, who, campaign)
        names = {member.name}
    held = rounds.find_round(tx, campaign, number)
    if held.state != "paid" or (names is not None and held.published is None):
        raise ConflictError("the round is not paid yet" if names is None else "the round is not published yet")
    spec, result = terms.terms_of(row), ledgers.load_result(tx, campaign)
    day = rounds.read_day(held.day)
    paid = None if result is None else next((paid for paid in result.rounds if paid.day == day), None)
    found = [] if paid is None else [p for p in paid.payments if names is None or p.provider in names]
    ids = {member.name: member.id for member in terms.list_members(tx, campaign)}
    return {
        "round": number,
        "day": day,
        "seed": None if paid is None else paid.seed,
        "commitment": spec.commitment,
        "head": held.head,
        "payments": [payment_view(spec, ids[payment.provider], payment) for payment in found],
    }


def payment_of(tx: Connection, who: Who, campaign: str, number: int, member: str) -> dict[str, Any]:
    """Return one provider's payment, for the analyst."""
    found = payments_view(tx, who, campaign, number)
    for payment in found["payments"]:
        if payment["member"] == member:
            return {**found, "payments": [payment]}
    raise NotFoundError("nothing was paid to this provider in this round")


def payment_view(spec: Campaign, member: str, payment: Payment) -> dict[str, Any]:
    """Return a payment with its reasons; money as decimal strings, what is not finite as text."""
    plain = dict(vars(payment))
    for key in ("cap", "payment", "deposit"):
        plain[key] = spec.text(plain[key])
    reasons = [{"what": what, "value": value, "meaning": meaning} for what, value, meaning in steps(spec, payment)]
    return {"member": member, **plain, "steps": reasons}


def shared_result(tx: Connection, who: Who, campaign: str) -> Result:
    """Return what a campaign has paid to somebody who may read all of it."""
    if who.role == "analyst":
        terms.owned(tx, who, campaign)
    else:
        row, _ = terms.joined(tx, who, campaign)
        if not row.share_ledger:
            raise ConflictError("the analyst does not share this campaign's ledger with providers")
        held = rounds.list_rounds(tx, campaign)
        if any(found.published is None and found.state != "open" for found in held):
            raise ConflictError("the ledger is shared once every closed round is published")
    result = ledgers.load_result(tx, campaign)
    if result is None:
        raise ConflictError("nothing was paid yet")
    return result
