"""The provider's pages: its campaigns, reports, receipts and results, and nothing about its peers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row
from starlette.responses import Response

from troth.campaigns.toml import to_toml
from troth.operations import SUBMISSION
from troth.results.pictures import Bar, Picture, draw_bars
from troth.service import campaigns, incoming, payment_views, rounds, threads, upload_queue, views
from troth.service.errors import InvalidError
from troth.service.pages.forms import Fields
from troth.service.pages.frame import Visit, changes, goto
from troth.service.responses import JoinedCampaign, JoinedRound, Payment

_MAX_ROUNDS, _SMALL_FORM = 60, 1 << 16


def home(visit: Visit) -> Response:
    """Show the campaigns that a user provides data to."""
    with visit.store.read() as tx:
        campaign_views = [
            (views.campaign_for(tx, row, member), views.joined_rounds(tx, member, rounds.list_rounds(tx, row.id)))
            for row, member in campaigns.all_joined(tx, visit.user)
        ]
    return visit.page("provider_home.html", campaigns=campaign_views)


def campaign_page(visit: Visit, campaign: str) -> Response:
    """Show a campaign to one of its providers."""
    with visit.store.read() as tx:
        row, member = campaigns.joined(tx, visit.user, campaign)
        view, round_views, payments = _rounds(tx, row, member)
    toml = to_toml(view.terms)
    return visit.page("provider_campaign.html", view=view, rounds=round_views, payments=payments, toml=toml)


def _rounds(
    tx: Connection, row: Row[Any], member: Row[Any]
) -> tuple[JoinedCampaign, list[JoinedRound], dict[int, Payment]]:
    """Return a campaign as one of its providers sees it, with its rounds and published payments."""
    round_rows = rounds.list_rounds(tx, row.id)
    round_views = views.joined_rounds(tx, member, round_rows)
    return views.campaign_for(tx, row, member), round_views, payment_views.own_payments(tx, row, member, round_rows)


def round_page(visit: Visit, campaign: str, number: int) -> Response:
    """Show a round to a provider: what it has sent, and where to send more."""
    with visit.store.read() as tx:
        row, member = campaigns.joined(tx, visit.user, campaign)
        terms, round_row = campaigns.terms_of(row), rounds.find_round(tx, campaign, number)
        submissions = views.submissions_of(tx, terms, member, round_row)
        report = next((submission.id for submission in submissions if submission.confirmed is not None), None)
        context = {
            "view": views.campaign_for(tx, row, member),
            "round": views.joined_round(round_row, report),
            "submissions": submissions,
            "columns": {name: terms.request.values_in_words(name) for name in terms.columns if name is not None},
            "payment": payment_views.own_payments(tx, row, member, [round_row]).get(number),
            "limits": visit.settings.limits,
        }
    return visit.page("submit.html", **context)


def check_welcome(visit: Visit, campaign: str, number: int) -> None:
    """Reject a form with a file before it is read; a small form is read first, so that its page can show the error."""
    length = visit.request.headers.get("content-length", "")
    if not (length.isascii() and length.isdigit() and int(length) <= _SMALL_FORM):
        incoming.check_upload_allowed(visit.store, visit.user, campaign, number)


async def submit(visit: Visit, campaign: str, number: int) -> Response:
    """Take a file of rows or statistics; it counts once it is confirmed."""
    file = visit.form.file("file")
    name = incoming.STATISTICS if file is None else file.filename or ""
    store, limits = visit.store, visit.settings.limits
    async with incoming.stored(_blocks(visit.form), limits, store.spool) as path:
        submission, waits = await threads.run("writes", _add, visit, campaign, number, path, name)
    if waits:
        await incoming.read_soon(store, limits, submission)
    return goto(f"/campaigns/{campaign}/rounds/{number}/submissions/{submission}")


async def _blocks(form: Fields) -> AsyncIterator[bytes]:
    """Yield the file that was chosen, or the statistics that were pasted."""
    file = form.file("file")
    if file is None:
        if not form.text("statistics"):
            raise InvalidError("file: choose one, or paste statistics")
        yield form.text("statistics").encode(errors="replace")
        return
    async for block in incoming.blocks_of(file):
        yield block


def _add(visit: Visit, campaign: str, number: int, path: Path, name: str) -> tuple[str, bool]:
    """Store an upload; return its identifier, and whether it waits to be read."""
    round_key, received = (visit.user, campaign, number), incoming.arrival(path)
    upload = incoming.read_statistics(visit.store, *round_key, path, name, visit.settings.limits)
    with visit.store.write() as tx:
        if upload is None:
            return upload_queue.enqueue(tx, *round_key, path, name, received, None), True
        return rounds.add_upload(tx, *round_key, upload, received), False


def submission_page(visit: Visit, campaign: str, number: int, submission: str) -> Response:
    """Show a submission to be confirmed, or its receipt once it is."""
    with visit.store.read() as tx:
        row, member = campaigns.joined(tx, visit.user, campaign)
        round_row = rounds.find_round(tx, campaign, number)
        context = {
            "view": views.campaign_for(tx, row, member),
            "receipt": views.submission_of(tx, campaigns.terms_of(row), member, round_row, submission),
            "round": views.joined_round(round_row, rounds.my_reports(tx, member.id).get(round_row.id)),
        }
    return visit.page("submission.html", **context)


confirm = changes(
    rounds.confirm,
    SUBMISSION,
    "confirmed",
    replaces=lambda form: form.text("replaces") or None,
    nonce=lambda form: form.text("nonce")[:200] or None,
)


def results(visit: Visit) -> Response:
    """Show what a provider was paid, in all campaigns."""
    paid_campaigns = []
    with visit.store.read() as tx:
        for row, member in campaigns.all_joined(tx, visit.user):
            view, round_views, payments = _rounds(tx, row, member)
            lines = [
                {"round": round_row, "payment": payments[round_row.number]}
                for round_row in round_views
                if round_row.number in payments
            ]
            if lines:
                paid_campaigns.append({"view": view, "lines": lines, "picture": _draw_rounds(lines)})
    return visit.page("results.html", campaigns=paid_campaigns)


def _draw_rounds(lines: list[dict[str, Any]]) -> Picture:
    """Draw one provider's payments over rounds, latest first."""
    bars = []
    for line in reversed(lines[-_MAX_ROUNDS:]):
        label, payment = line["round"].day or f"round {line['round'].number}", line["payment"]
        bars.append(Bar(str(label), str(payment.payment), payment.share, payment.empty_share, payment.cap.minor))
    return draw_bars("Your payments and caps, latest round first", bars)
