"""What people may see, by role: the analyst everything, a provider only its own data.

While a round is open a provider sees nothing that depends on its peers: not how many there are, not who has reported,
not the caps. Terms are shown to providers without the names, groups, weights and models of others. Payments and the
ledger are in `troth.service.payment_views`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from troth import __version__
from troth.campaigns.terms import Campaign
from troth.results.result import Result
from troth.results.verdict import unchecked_before
from troth.service import campaigns, responses, rounds, upload_queue
from troth.service.accounts import User
from troth.service.keys import Keys, keys_of
from troth.service.receipts import signed_receipt
from troth.service.responses import Amount
from troth.service.store import Store, now


def health_view(store: Store) -> responses.Health:
    """Check that the database responds and can be written."""
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
    """Return a campaign as a member sees it: running until its last round is published."""
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
    """Return what a campaign announces to everybody."""
    return responses.Promise.of(
        terms,
        budget=Amount(terms.budget, terms.decimals),
        budget_per="day" if terms.per_day else "campaign",
        rule=terms.rule.name,
        family=type(terms.model).__name__,
        columns=[column for column in terms.columns if column is not None],
        categories=None if terms.categories is None else list(terms.categories),
        max_rows=terms.rows,
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
    """Return all rounds of a campaign, or only one, as its owner or one of its providers may see them."""
    row, member = campaigns.visible(tx, user, campaign)  # others must not learn which rounds exist
    rows = rounds.list_rounds(tx, campaign) if number is None else [rounds.find_round(tx, campaign, number)]
    return own_rounds(tx, campaigns.terms_of(row), rows) if member is None else joined_rounds(tx, member, rows)


def own_rounds(tx: Connection, terms: Campaign, rows: Sequence[Row[Any]]) -> list[responses.OwnRound]:
    """Return rounds of a campaign as the analyst sees them."""
    counts = rounds.count_reports(tx, rows[0].campaign) if rows else {}
    round_views = []
    for row in rows:
        verdict = None if row.verdict is None else responses.Verdict(**row.verdict)
        beforehand = unchecked_before(terms) if row.state != "paid" else None
        view = responses.OwnRound.of(
            row,
            closed=_closed(row),
            state="published" if row.published is not None else _state(row),
            verdict=verdict,
            unchecked=(beforehand if verdict is None else verdict.unchecked) or None,
            amount=None if row.amount is None else Amount(row.amount, terms.decimals),
            reports=counts.get(row.id, 0),
        )
        round_views.append(view)
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
        draws=result.campaign.draws,
        verdict=None if verdict is None else responses.Verdict(**verdict),
    )


def joined_rounds(tx: Connection, member: Row[Any], rows: Iterable[Row[Any]]) -> list[responses.JoinedRound]:
    """Return rounds as a member sees them."""
    reported = rounds.my_reports(tx, member.id)
    return [joined_round(row, reported.get(row.id)) for row in rows]


def joined_round(row: Row[Any], submission: str | None) -> responses.JoinedRound:
    """Return a round as a provider sees it: once closed, it looks the same until it is published."""
    state: Any = "published" if row.published is not None else "open" if _state(row) == "open" else "closed"
    return responses.JoinedRound.of(row, closed=_closed(row), state=state, submission=submission)


def _closed(row: Row[Any]) -> Any:
    """Return when a round was closed, or its deadline if that has passed and nothing has closed the round yet."""
    return row.closed or (row.deadline if _state(row) == "closed" else None)


def _state(row: Row[Any]) -> Any:
    """Return a round's state: closed once its deadline has passed, even if nothing has closed the round yet."""
    late = row.state == "open" and row.deadline is not None and row.deadline <= now()
    return "closed" if late else row.state


def list_reports(tx: Connection, user: User, campaign: str, number: int) -> list[responses.Report]:
    """Return who has reported to a round, for the analyst."""
    campaigns.owned(tx, user, campaign)
    reports = rounds.reporters(tx, rounds.find_round(tx, campaign, number).id)
    return [
        responses.Report.of(report)
        for member in campaigns.list_members(tx, campaign)
        if (report := reports.get(member.id)) is not None
    ]


def list_submissions(tx: Connection, user: User, campaign: str, number: int) -> list[responses.Submission]:
    """Return a provider's submissions to a round, latest first."""
    row, member = campaigns.joined(tx, user, campaign)
    return submissions_of(tx, campaigns.terms_of(row), member, rounds.find_round(tx, campaign, number))


def submissions_of(
    tx: Connection, terms: Campaign, member: Row[Any], round_row: Row[Any]
) -> list[responses.Submission]:
    """Return a member's submissions to a round, latest first."""
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
    """Return a submission that has not been read yet, or was refused."""
    state = "refused" if waiting.state == "refused" else "waiting"
    names = "data_digest", "rows", "dropped", "unnamed", "summary", "tasks", "confirmed", "replaced", "receipt"
    unknown: dict[str, Any] = dict.fromkeys(names)
    return _sent(terms, waiting, state=state, **unknown, preview=[], columns=[])


def _sent(terms: Campaign, file: Row[Any], **given: Any) -> responses.Submission:
    """Return a submission with the fields of its file and the given ones."""
    return responses.Submission.of(file, round=file.number, file=file.name, commitment=terms.commitment, **given)


def _submission(keys: Keys, terms: Campaign, upload: Row[Any]) -> responses.Submission:
    receipt = signed_receipt(keys, terms.commitment, upload)
    signed = None if receipt is None else responses.Receipt(**receipt)
    values = {"state": "read", "problem": None, "received": upload.created, "receipt": signed}
    return _sent(terms, upload, **values, **upload.shown)
