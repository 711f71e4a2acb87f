"""Views of payments and the ledger: the analyst sees all, a provider its own payments once they are published."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row

from troth.campaigns.records.ledger import Ledger, LedgerError
from troth.campaigns.records.ledger_entries import payment_leaves, report_leaf, report_leaves, report_root
from troth.campaigns.records.merkle import inclusion_proof
from troth.campaigns.rounds import read_days
from troth.campaigns.settle import Payment
from troth.campaigns.terms import Campaign
from troth.core.errors import TrothError
from troth.data.read import reports_by_day
from troth.mechanisms import disclosed
from troth.results.explanation import steps
from troth.results.pay import verify
from troth.results.result import Result
from troth.service import campaigns, heads, ledgers, payouts, responses, rounds
from troth.service.accounts import User
from troth.service.errors import ConflictError, NotFoundError, RefusedError
from troth.service.keys import keys_of
from troth.service.receipts import check_receipts
from troth.service.responses import Amount
from troth.service.store import Store


def payments_view(tx: Connection, user: User, campaign: str, number: int) -> responses.Payments:
    """Return the payments of a round: all of them, or a provider's own once it is published."""
    row, member = campaigns.visible(tx, user, campaign)
    round_row = rounds.find_round(tx, campaign, number)
    if round_row.state != "paid" or (member is not None and round_row.published is None):
        raise ConflictError("the round is not paid yet" if member is None else "the round is not published yet")
    result, day = ledgers.load_result(tx, campaign), round_row.day
    return responses.Payments(
        campaign=campaign,
        round=number,
        day=day,
        commitment=campaigns.terms_of(row).commitment,
        head=round_row.head,
        **_seed_inputs(result, day, None if member is None else member.name),
        line=None if member is None or result is None else _line_of(tx, campaign, result.ledger, day),
        payments=_payments(tx, row, member, result, [day])[day],
    )


def own_payments(
    tx: Connection, row: Row[Any], member: Row[Any], round_rows: Iterable[Row[Any]]
) -> dict[int, responses.Payment]:
    """Return a member's payments in published rounds, by the number of the round."""
    numbers = {round_row.day: round_row.number for round_row in round_rows if round_row.published is not None}
    if not numbers:
        return {}
    payments = _payments(tx, row, member, ledgers.load_result(tx, row.id), numbers)
    return {numbers[day]: own[0] for day, own in payments.items() if own}


def _payments(
    tx: Connection, row: Row[Any], member: Row[Any] | None, result: Result | None, days: Collection[Any]
) -> dict[Any, list[responses.Payment]]:
    """Return the payments of some days: all of them, or a member's own, with what the member may see."""
    terms, payout_states = campaigns.terms_of(row), payouts.states(tx, row.id)
    members = [member] if member is not None else campaigns.list_members(tx, row.id)
    identifiers = {member.name: member.id for member in members}
    by_day: dict[Any, list[responses.Payment]] = {day: [] for day in days}
    paid_rounds = [] if result is None else [paid_round for paid_round in result.rounds if paid_round.day in by_day]
    for paid_round in paid_rounds:
        for payment in paid_round.payments:
            if payment.provider in identifiers:
                key = payouts.payout_id(row.id, paid_round.day, payment.provider)
                state = payout_states[key].state if key in payout_states else "pending"
                figures = payment if member is None else shown_to_provider(terms, payment)
                view = payment_view(terms, identifiers[payment.provider], figures, id=key, state=state)
                by_day[paid_round.day].append(view)
    return by_day


def _seed_inputs(result: Result | None, day: Any, own_name: str | None) -> dict[str, Any]:
    """Return the inputs of a round's seed, and the proof that a provider's report is one of them."""
    head = None if result is None else next((head for head in result.ledger.of("round") if head["day"] == day), None)
    if result is None or head is None:
        names = ("paid_as", "root", "link", "beacon", "seed", "proof", "payment_hashes")
        return dict.fromkeys(names) | {"next_roots": []}
    by_day = reports_by_day(result.reports)
    leaves = report_leaves(by_day[day])
    place = next((leaves.index(report_leaf(own)) for own in by_day[day] if own.provider == own_name), None)
    proof = payment_hashes = None
    if place is not None:
        proof = responses.Inclusion(place=place, size=len(leaves), hashes=inclusion_proof(leaves, place))
        if "payments" in head:
            payments = next(paid_round.payments for paid_round in result.rounds if paid_round.day == day)
            payment_hashes = inclusion_proof(payment_leaves(result.campaign, by_day[day], payments), place)
    return {
        **{name: head.get(name) for name in ("root", "link", "beacon", "seed")},
        "paid_as": head["number"],
        "next_roots": [report_root(by_day[later]) for later in read_days(head["next"])],
        "proof": proof,
        "payment_hashes": payment_hashes,
    }


def _line_of(tx: Connection, campaign: str, ledger: Ledger, day: Any) -> responses.LedgerLine | None:
    """Return the ledger line of a round with its proof under the head that providers see, or None without one."""
    head = heads.last_head(keys_of(tx), campaign, _published_lines(tx, campaign, ledger))
    place = ledger.entries.index(next(entry for entry in ledger.of("round") if entry["day"] == day))
    if head is None or place >= head["lines"]:
        return None
    return responses.LedgerLine(
        text=ledger.lines[place].decode().removesuffix("\n"),
        place=place,
        hashes=inclusion_proof(ledger.leaves(head["lines"]), place),
        head=responses.SignedHead(**head),
    )


def _published_lines(tx: Connection, campaign: str, ledger: Ledger) -> int:
    """Return how many lines of a ledger providers may see: those before the first unpublished round."""
    published = {row.day for row in rounds.list_rounds(tx, campaign) if row.published is not None}
    lines = 0
    for number, entry in enumerate(ledger.entries, 1):
        if entry["entry"] == "close":
            if entry["day"] not in published:
                break
            lines = number
    return lines


def shown_to_provider(terms: Campaign, payment: Payment) -> Payment:
    """Return a payment as its provider sees it: the share is computed from the rounded payment."""
    share = payment.payment / payment.cap if payment.cap else 0.0
    return replace(disclosed(terms.rule, payment), share=round(share, 4))


def head_view(tx: Connection, user: User, campaign: str, since: int) -> responses.Head:
    """Return the signed head of a ledger; for providers, of its published lines."""
    _, member = campaigns.visible(tx, user, campaign)
    result, head = ledgers.load_result(tx, campaign), None
    if result is not None:
        lines = len(result.ledger.entries) if member is None else _published_lines(tx, campaign, result.ledger)
        head = heads.head_with_proof(keys_of(tx), campaign, result.ledger, lines, since)
    if head is None:
        raise ConflictError("nothing has been paid yet" if member is None else "nothing is published yet")
    return responses.Head(**head)


def payment_of(tx: Connection, user: User, campaign: str, number: int, member: str | None = None) -> responses.Payments:
    """Return one payment: a member's, for the analyst, or by default the provider's own once it is published."""
    paid = payments_view(tx, user, campaign, number)
    payments = [payment for payment in paid.payments if member in (None, payment.member)]
    if not payments:
        raise NotFoundError(f"nothing was paid to {'you' if member is None else 'this provider'} in this round")
    return paid.model_copy(update={"payments": payments})


def payment_view(terms: Campaign, member: str, payment: Payment, **payout: Any) -> responses.Payment:
    """Return a payment with its reasons."""
    money = {name: Amount(getattr(payment, name), terms.decimals) for name in ("cap", "payment", "deposit")}
    reasons = [
        responses.Step(what=what, value=value, meaning=meaning) for what, value, meaning in steps(terms, payment)
    ]
    cap = None if terms.task is not None else str(terms.caps_for([payment.provider])[0])
    return responses.Payment(**vars(payment) | money, exact_cap=cap, member=member, steps=reasons, **payout)


def shared_result(tx: Connection, user: User, campaign: str) -> Result:
    """Return everything that a campaign has paid, for a user who may read the whole ledger."""
    row, member = campaigns.visible(tx, user, campaign)
    if member is not None:
        if not row.share_ledger:
            raise ConflictError("the analyst does not share this campaign's ledger with providers")
        if any(
            round_row.published is None and round_row.state != "open" for round_row in rounds.list_rounds(tx, campaign)
        ):
            raise ConflictError("the ledger is shared once every closed round is published")
    result = ledgers.load_result(tx, campaign)
    if result is None:
        raise ConflictError("nothing has been paid yet")
    return result


def verified(store: Store, user: User, campaign: str) -> responses.Verified:
    """Verify the stored ledger, and its head against the one recorded when the last round was paid."""
    try:
        with store.read() as tx:
            shared_result(tx, user, campaign)
            ledger, file = ledgers.load_ledger(tx, campaign), ledgers.load_file(tx, campaign)
            paid_rounds = [round_row for round_row in rounds.list_rounds(tx, campaign) if round_row.head is not None]
            row = campaigns.owned(tx, user, campaign)
            confirmed = rounds.confirmed_rows(tx, campaign, [round_row.id for round_row in paid_rounds])
        heads.check_continues(store.keys, campaign, ledger)
        check_receipts(store.keys, campaigns.terms_of(row), confirmed)
        result = verify(ledger, head=paid_rounds[-1].head if paid_rounds else None, file=file)
        _check_recorded(result, confirmed)
    except RefusedError:
        raise
    except TrothError as error:
        return responses.Verified(valid=False, problem=str(error), head=None, lines=None, rounds=None, paid=None)
    return responses.Verified(
        valid=True,
        problem=None,
        head=result.ledger.head,
        lines=len(result.ledger.lines),
        rounds=len(result.rounds),
        paid=Amount(result.paid, result.campaign.decimals),
    )


def _check_recorded(result: Result, confirmed: list[Row[Any]]) -> None:
    """Raise if the reports of a ledger are not those that were confirmed."""
    recorded = {report.key: report_leaf(report) for report in result.reports}
    for row in confirmed:
        report = rounds.report_of(row)
        if recorded.get(report.key) != report_leaf(report):
            raise LedgerError(f"{report}: the ledger has a different report from the one that was confirmed")
