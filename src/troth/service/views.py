"""What people may see, by role: the analyst everything, a provider only its own data.

While a round is open a provider sees nothing that depends on its peers: not how many there are, not who has reported,
not the caps. Terms are shown to providers without the names, groups, weights and models of others.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, text

from troth import __version__
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
from troth.results.verdict import unchecked_before
from troth.service import campaigns, heads, ledgers, payouts, responses, rounds, upload_queue
from troth.service.accounts import User
from troth.service.errors import ConflictError, NotFoundError, RefusedError
from troth.service.keys import Keys, keys_of
from troth.service.receipts import check_receipts, signed_receipt
from troth.service.responses import Amount
from troth.service.store import Store, now


def health_view(store: Store) -> responses.Health:
    """Report that the database responds, and takes changes."""
    store.check_writes()
    with store.read(probe=True) as tx:
        tx.execute(text("SELECT 1"))
    return responses.Health(status="ok", version=__version__)


def token_view(token: Row[Any]) -> responses.Token:
    """Return a token without its secret."""
    return responses.Token.of(token, scopes=token.scopes.split())


def provider_view(tx: Connection, user: User, campaign: str, member: str) -> responses.Provider:
    """Return a provider of a campaign, for its analyst."""
    campaigns.owned(tx, user, campaign)
    return responses.Provider.of(campaigns.find_member(tx, campaign, member))


def list_providers(tx: Connection, user: User, campaign: str) -> list[responses.Provider]:
    """Return a campaign's providers, for its analyst."""
    campaigns.owned(tx, user, campaign)
    return [responses.Provider.of(member) for member in campaigns.list_members(tx, campaign)]


def list_campaigns(tx: Connection, user: User) -> list[responses.Campaign]:
    """Return the campaigns that a user owns or provides data to."""
    if user.role == "analyst":
        return [own_campaign(tx, user, row.id) for row in campaigns.list_campaigns(tx, user)]
    return [campaign_for(tx, row, member) for row, member in campaigns.all_joined(tx, user)]


def campaign_view(tx: Connection, user: User, campaign: str) -> responses.Campaign:
    """Return a campaign as its owner or one of its providers may see it."""
    if user.role == "analyst":
        return own_campaign(tx, user, campaign)
    return campaign_for(tx, *campaigns.joined(tx, user, campaign))


def own_campaign(tx: Connection, user: User, campaign: str) -> responses.OwnCampaign:
    """Return a campaign as its analyst sees it."""
    row = campaigns.owned(tx, user, campaign)
    terms = campaigns.terms_of(row)
    round_rows = rounds.list_rounds(tx, campaign)
    members = campaigns.list_members(tx, campaign)
    return responses.OwnCampaign.of(
        row,
        **dict(promise(terms)),
        terms=json.loads(row.plain),
        providers=sum(member.revoked is None for member in members),
        joined=sum(member.account is not None and member.revoked is None for member in members),
        paid=Amount(sum(round_row.amount or 0 for round_row in round_rows), terms.decimals),
        head=next((round_row.head for round_row in reversed(round_rows) if round_row.head is not None), None),
    )


def campaign_for(tx: Connection, row: Row[Any], member: Row[Any]) -> responses.JoinedCampaign:
    """Return a campaign as a member sees it: it has not ended before its last round is published."""
    terms, state = campaigns.terms_of(row), row.state
    if state == "ended" and any(round_row.published is None for round_row in rounds.list_rounds(tx, row.id)):
        state = "running"
    return responses.JoinedCampaign.of(
        row,
        **dict(promise(terms)),
        state=state,
        terms=campaigns.terms_for(terms, member.name),
        provider=member.name,
        revoked=member.revoked is not None,
    )


def promise(terms: Campaign) -> responses.Promise:
    """Return what is announced to everybody."""
    return responses.Promise.of(
        terms,
        budget=Amount(terms.budget, terms.decimals),
        budget_per="day" if terms.per_day else "campaign",
        rule=terms.rule.name,
        family=type(terms.model).__name__,
        columns=[column for column in terms.columns if column is not None],
        categories=None if terms.categories is None else list(terms.categories),
        most_rows=terms.rows,
        price=None if terms.price is None else str(terms.plain["campaign"]["price"]),
        values=None if terms.values is None else list(terms.values),
        public=_public(terms),
    )


def _public(terms: Campaign) -> responses.PublicData | None:
    if terms.guesses is not None:
        table = terms.plain["public"]
        return responses.PublicData(source=table.get("source", ""), rows=len(terms.guesses), digest=table.get("digest"))
    public = terms.public.get(None)
    if public is None:
        return None
    return responses.PublicData(source=public.source, rows=public.rows, digest=public.data_digest)


def round_view(tx: Connection, user: User, campaign: str, number: int) -> responses.Round:
    """Return a round as its owner or one of its providers may see it."""
    (view,) = list_rounds(tx, user, campaign, number)
    return view


def list_rounds(tx: Connection, user: User, campaign: str, number: int | None = None) -> Sequence[responses.Round]:
    """Return all rounds of a campaign, or one, to whoever owns it or provides data to it."""
    row, member = campaigns.visible(tx, user, campaign)  # nobody else is told which rounds there are
    rows = rounds.list_rounds(tx, campaign) if number is None else [rounds.find_round(tx, campaign, number)]
    return own_rounds(tx, campaigns.terms_of(row), rows) if member is None else joined_rounds(tx, member, rows)


def own_rounds(tx: Connection, terms: Campaign, rows: Sequence[Row[Any]]) -> list[responses.OwnRound]:
    """Return rounds of a campaign as the analyst sees them."""
    counts = rounds.count_reports(tx, rows[0].campaign) if rows else {}
    round_views = []
    for row in rows:
        verdict = None if row.verdict is None else responses.Verdict(**row.verdict)
        beforehand = unchecked_before(terms) if row.state != "paid" else None
        fields = responses.OwnRound.of(
            row,
            closed=_closed(row),
            state="published" if row.published is not None else _state(row),
            verdict=verdict,
            unchecked=(beforehand if verdict is None else verdict.unchecked) or None,
            amount=None if row.amount is None else Amount(row.amount, terms.decimals),
            reports=counts.get(row.id, 0),
        )
        round_views.append(fields)
    return round_views


def dry_run_view(result: Result, verdict: dict[str, Any] | None) -> responses.DryRun:
    """Return a dry run as the analyst sees it."""
    decimals = result.campaign.decimals
    return responses.DryRun(
        payments=[
            responses.WouldBePaid.of(payment, day=paid_round.day, payment=Amount(payment.payment, decimals))
            for paid_round in result.rounds
            for payment in paid_round.payments
        ],
        total=Amount(result.paid, decimals),
        verdict=None if verdict is None else responses.Verdict(**verdict),
    )


def joined_rounds(tx: Connection, member: Row[Any], rows: Iterable[Row[Any]]) -> list[responses.JoinedRound]:
    """Return rounds as a member sees them."""
    reported = rounds.my_reports(tx, member.id)
    return [joined_round(row, reported.get(row.id)) for row in rows]


def joined_round(row: Row[Any], submission: str | None) -> responses.JoinedRound:
    """Return a round as a provider sees it, with what it has confirmed: nothing changes before it is published."""
    state: Any = "published" if row.published is not None else "open" if _state(row) == "open" else "closed"
    return responses.JoinedRound.of(row, closed=_closed(row), state=state, submission=submission)


def _closed(row: Row[Any]) -> Any:
    """Return when a round was closed, or is as good as closed."""
    return row.closed or (row.deadline if _state(row) == "closed" else None)


def _state(row: Row[Any]) -> Any:
    """Return a round's state; one whose deadline has passed is closed, even if nothing has closed it yet."""
    late = row.state == "open" and row.deadline is not None and row.deadline <= now()
    return "closed" if late else row.state


def list_reports(tx: Connection, user: User, campaign: str, number: int) -> list[responses.Report]:
    """Return who has reported to a round, for the analyst."""
    campaigns.owned(tx, user, campaign)
    reports = rounds.reporters(tx, rounds.find_round(tx, campaign, number).id)
    return [
        responses.Report(member=member.id, provider=member.name, confirmed=report.confirmed, rows=report.rows)
        for member in campaigns.list_members(tx, campaign)
        if (report := reports.get(member.id)) is not None
    ]


def list_submissions(tx: Connection, user: User, campaign: str, number: int) -> list[responses.Submission]:
    """Return a provider's submissions to a round, the latest first."""
    row, member = campaigns.joined(tx, user, campaign)
    return submissions_of(tx, campaigns.terms_of(row), member, rounds.find_round(tx, campaign, number))


def submissions_of(
    tx: Connection, terms: Campaign, member: Row[Any], round_row: Row[Any]
) -> list[responses.Submission]:
    """Return a member's submissions to a round, the latest first."""
    waiting = [_unread(terms, upload) for upload in upload_queue.unread(tx, member.id, round_row.id)]
    uploads = rounds.my_uploads(tx, member.id, round_row.id)
    return [*waiting, *(_submission(keys_of(tx), terms, upload) for upload in uploads)]


def submission_view(tx: Connection, user: User, campaign: str, number: int, submission: str) -> responses.Submission:
    """Return one of a provider's submissions: the receipt, once it is confirmed."""
    row, member = campaigns.joined(tx, user, campaign)
    return submission_of(tx, campaigns.terms_of(row), member, rounds.find_round(tx, campaign, number), submission)


def submission_of(
    tx: Connection, terms: Campaign, member: Row[Any], round_row: Row[Any], submission: str
) -> responses.Submission:
    """Return one of a member's submissions to a round."""
    waiting = upload_queue.find(tx, submission)
    if waiting is not None and waiting.state != "read" and (waiting.member, waiting.round) == (member.id, round_row.id):
        return _unread(terms, waiting)
    return _submission(keys_of(tx), terms, rounds.my_upload(tx, member.id, round_row.id, submission))


def _unread(terms: Campaign, waiting: Row[Any]) -> responses.Submission:
    """Return a submission that was received, and is not read yet or was refused."""
    state = "refused" if waiting.state == "refused" else "waiting"
    unknown: dict[str, Any] = dict.fromkeys(("data_digest", "rows", "summary", "tasks", "confirmed", "receipt"))
    return _sent(terms, waiting, state=state, **unknown, preview=[], columns=[])


def _sent(terms: Campaign, file: Row[Any], **given: Any) -> responses.Submission:
    """Return a file that has arrived, with what is known of it besides."""
    return responses.Submission.of(file, round=file.number, file=file.name, commitment=terms.commitment, **given)


def _submission(keys: Keys, terms: Campaign, upload: Row[Any]) -> responses.Submission:
    receipt = signed_receipt(keys, terms.commitment, upload)
    signed = None if receipt is None else responses.Receipt(**receipt)
    values = {"state": "read", "problem": None, "received": upload.created, "receipt": signed}
    return _sent(terms, upload, **values, **upload.shown)


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
    """Return what a member was paid in rounds that are published, by their numbers."""
    numbers = {round_row.day: round_row.number for round_row in round_rows if round_row.published is not None}
    if not numbers:
        return {}
    payments = _payments(tx, row, member, ledgers.load_result(tx, row.id), numbers)
    return {numbers[day]: own[0] for day, own in payments.items() if own}


def _payments(
    tx: Connection, row: Row[Any], member: Row[Any] | None, result: Result | None, days: Collection[Any]
) -> dict[Any, list[responses.Payment]]:
    """Return the payments of some days: all of them, or a member's own, as it sees them."""
    terms, payout_states = campaigns.terms_of(row), payouts.states(tx, row.id)
    members = [member] if member is not None else campaigns.list_members(tx, row.id)
    identifiers = {member.name: member.id for member in members}
    by_day: dict[Any, list[responses.Payment]] = {day: [] for day in days}
    for paid_round in () if result is None else result.rounds:
        for payment in paid_round.payments if paid_round.day in by_day else ():
            if payment.provider in identifiers:
                key = payouts.payout_id(row.id, paid_round.day, payment.provider)
                state = payout_states[key].state if key in payout_states else "pending"
                figures = payment if member is None else shown_to_provider(terms, payment)
                view = payment_view(terms, identifiers[payment.provider], figures, id=key, state=state)
                by_day[paid_round.day].append(view)
    return by_day


def _seed_inputs(result: Result | None, day: Any, own_name: str | None) -> dict[str, Any]:
    """Return what a round's seed was made of, and the proof that a provider's report is in it."""
    head = None if result is None else next((head for head in result.ledger.of("round") if head["day"] == day), None)
    if result is None or head is None:
        names = ("paid_as", "root", "link", "beacon", "seed", "proof", "payment_hashes")
        return dict.fromkeys(names) | {"next_roots": []}
    by_day = reports_by_day(result.reports)
    leaves = report_leaves(by_day[day])
    place = next((leaves.index(report_leaf(own)) for own in by_day[day] if own.provider == own_name), None)
    hashes = None
    if place is not None and "payments" in head:
        payments = next(paid_round.payments for paid_round in result.rounds if paid_round.day == day)
        hashes = inclusion_proof(payment_leaves(result.campaign, by_day[day], payments), place)
    return {
        **{name: head.get(name) for name in ("root", "link", "beacon", "seed")},
        "paid_as": head["number"],
        "next_roots": [report_root(by_day[later]) for later in read_days(head["next"])],
        "proof": None
        if place is None
        else responses.Inclusion(place=place, size=len(leaves), hashes=inclusion_proof(leaves, place)),
        "payment_hashes": hashes,
    }


def _line_of(tx: Connection, campaign: str, ledger: Ledger, day: Any) -> responses.LedgerLine | None:
    """Return the line of a round, with the proof that it is under the head that providers see, if it is."""
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
    """Return how many lines of a ledger its providers may know: up to the first round that is not published."""
    published = {row.day for row in rounds.list_rounds(tx, campaign) if row.published is not None}
    lines = 0
    for number, entry in enumerate(ledger.entries, 1):
        if entry["entry"] == "close":
            if entry["day"] not in published:
                break
            lines = number
    return lines


def shown_to_provider(terms: Campaign, payment: Payment) -> Payment:
    """Return a payment as its provider sees it: the share is that of the whole minor units that were paid."""
    share = payment.payment / payment.cap if payment.cap else 0.0
    return replace(disclosed(terms.rule, payment), share=round(share, 4))


def head_view(tx: Connection, user: User, campaign: str, since: int) -> responses.Head:
    """Return the signed head of a ledger: for providers, of what is published."""
    _, member = campaigns.visible(tx, user, campaign)
    result, head = ledgers.load_result(tx, campaign), None
    if result is not None:
        lines = len(result.ledger.entries) if member is None else _published_lines(tx, campaign, result.ledger)
        head = heads.shown_head(keys_of(tx), campaign, result.ledger, lines, since)
    if head is None:
        raise ConflictError("nothing has been paid yet" if member is None else "nothing is published yet")
    return responses.Head(**head)


def payment_of(tx: Connection, user: User, campaign: str, number: int, member: str | None = None) -> responses.Payments:
    """Return one payment: a member's for the analyst, or without a name the provider's own, once it is published."""
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
    """Return all that a campaign has paid, for somebody who may read all of it."""
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
    """Check a ledger as the database has it, its head against the one that was stored when its last round was paid."""
    try:
        with store.read() as tx:
            shared_result(tx, user, campaign)
            ledger, file = ledgers.load_ledger(tx, campaign), ledgers.load_file(tx, campaign)
            rows = rounds.list_rounds(tx, campaign)
            row = campaigns.owned(tx, user, campaign)
            confirmed = rounds.confirmed_rows(
                tx, campaign, [paid_row.id for paid_row in rows if paid_row.head is not None]
            )
        heads.check_continues(store.keys, campaign, ledger)
        check_receipts(store.keys, campaigns.terms_of(row), confirmed)
        noted = [paid_row.head for paid_row in rows if paid_row.head is not None]
        result = verify(ledger, head=noted[-1] if noted else None, file=file)
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
    """Refuse a ledger whose reports are not those that were confirmed."""
    recorded = {report.key: report_leaf(report) for report in result.reports}
    for row in confirmed:
        report = rounds.report_of(row)
        if recorded.get(report.key) != report_leaf(report):
            raise LedgerError(f"{report}: the ledger has a different report from the one that was confirmed")
