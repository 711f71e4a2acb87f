"""What a provider sees: its campaigns, its reports, its receipts and its results, and nothing about its peers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from troth.campaigns.toml import to_toml
from troth.core.errors import TrothError
from troth.results.pictures import Bar, Picture, draw_bars
from troth.service import campaigns, incoming, lanes, rounds, upload_queue, views
from troth.service.access import SignedIn
from troth.service.accounts import User
from troth.service.errors import InvalidError
from troth.service.pages.forms import Fields, Sent, SentWithFile
from troth.service.pages.frame import goto, page, store_of
from troth.service.requests import Identifier, Number

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sqlalchemy import Connection

    from troth.service.responses import JoinedRound, Payment

_MOST_ROUNDS, _SMALL = 60, 1 << 16


def campaign_for_provider(request: Request, user: User, campaign: str) -> Response:
    """Show a campaign to one of its providers."""
    with store_of(request).read() as tx:
        view = views.joined_campaign(tx, user, campaign)
        shown = views.list_rounds(tx, user, campaign)
        payments = {each.number: _own_payment(tx, user, campaign, each) for each in shown}
    toml = to_toml(view.terms)
    return page(request, user, "provider_campaign.html", view=view, rounds=shown, payments=payments, toml=toml)


def _own_payment(tx: Connection, user: User, campaign: str, shown: JoinedRound) -> Payment | None:
    """Return what a provider was paid in a round, once it is published."""
    if shown.state != "published":
        return None
    payments = views.payments_view(tx, user, campaign, shown.number).payments
    return payments[0] if payments else None


def round_for_provider(
    request: Request, user: User, campaign: str, number: int, error: TrothError | None = None
) -> Response:
    """Show a round to a provider: what it has sent, and where to send more."""
    with store_of(request).read() as tx:
        _, member = campaigns.joined(tx, user, campaign)
        shown = views.joined_round(tx, member, rounds.find_round(tx, campaign, number))
        context = {
            "view": views.joined_campaign(tx, user, campaign),
            "round": shown,
            "submissions": views.list_submissions(tx, user, campaign, number),
            "payment": _own_payment(tx, user, campaign, shown),
            "limits": request.app.state.settings.limits,
        }
    return page(request, user, "submit.html", error=error, **context)


async def _welcome(request: Request, campaign: Identifier, number: Number, user: SignedIn) -> None:
    """Refuse a form with a file before it is read; a small one is read first, and its page shows what is wrong."""
    length = request.headers.get("content-length", "")
    if not (length.isascii() and length.isdigit() and int(length) <= _SMALL):
        await lanes.run("reads", incoming.check_welcome, store_of(request), user, campaign, number)


async def submit(
    request: Request,
    campaign: Identifier,
    number: Number,
    user: SignedIn,
    welcome: Annotated[None, Depends(_welcome)],
    form: SentWithFile,
) -> Response:
    """Take a file of rows or statistics; it counts once it is confirmed."""
    del welcome  # checked before any of the form is read
    file = form.file("file")
    name = incoming.STATISTICS if file is None else file.filename or ""
    try:
        store, limits = store_of(request), request.app.state.settings.limits
        async with incoming.stored(_blocks(form), limits, store.spool) as path:
            submission, waits = await lanes.run("writes", _add, request, user, campaign, number, path, name)
        if waits:
            await incoming.read_soon(store, limits, submission)
    except TrothError as error:
        return await lanes.run("reads", round_for_provider, request, user, campaign, number, error)
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


def _add(request: Request, user: User, campaign: str, number: int, path: Path, name: str) -> tuple[str, bool]:
    """Store what was sent; return its identifier, and whether it waits to be read."""
    store, limits, received = store_of(request), request.app.state.settings.limits, incoming.arrival(path)
    upload = incoming.read_statistics(store, user, campaign, number, path, name, limits)
    with store.write() as tx:
        if upload is None:
            return upload_queue.enqueue(tx, user, campaign, number, path, name, received, None), True
        return rounds.add_upload(tx, user, campaign, number, upload, received), False


def submission_page(
    request: Request, campaign: Identifier, number: Number, submission: Identifier, user: SignedIn
) -> Response:
    """Show a submission to be confirmed, or its receipt once it is."""
    return _submission(request, user, campaign, number, submission)


def _submission(
    request: Request, user: User, campaign: str, number: int, submission: str, error: TrothError | None = None
) -> Response:
    with store_of(request).read() as tx:
        context = {
            "view": views.joined_campaign(tx, user, campaign),
            "receipt": views.submission_view(tx, user, campaign, number, submission),
            "round": views.round_view(tx, user, campaign, number),
        }
    return page(request, user, "submission.html", error=error, **context)


def confirm(
    request: Request, campaign: Identifier, number: Number, submission: Identifier, user: SignedIn, form: Sent
) -> Response:
    """Make a submission the provider's report."""
    try:
        with store_of(request).write() as tx:
            rounds.confirm(tx, user, campaign, number, submission, form.text("replaces") or None)
    except TrothError as error:
        return _submission(request, user, campaign, number, submission, error)
    return goto(f"/campaigns/{campaign}/rounds/{number}/submissions/{submission}", "confirmed")


def results(request: Request, user: SignedIn) -> Response:
    """Show what a provider was paid, in all campaigns."""
    paid_campaigns = []
    with store_of(request).read() as tx:
        for row in campaigns.list_campaigns(tx, user):
            view = views.joined_campaign(tx, user, row.id)
            payments = [(each, _own_payment(tx, user, row.id, each)) for each in views.list_rounds(tx, user, row.id)]
            lines = [{"round": each, "payment": payment} for each, payment in payments if payment is not None]
            if lines:
                paid_campaigns.append({"view": view, "lines": lines, "picture": _draw_rounds(lines)})
    return page(request, user, "results.html", campaigns=paid_campaigns)


def _draw_rounds(lines: list[dict[str, Any]]) -> Picture:
    """Draw one provider's payments over rounds, the last first."""
    bars = []
    for line in reversed(lines[-_MOST_ROUNDS:]):
        label, payment = line["round"].day or f"round {line['round'].number}", line["payment"]
        bars.append(Bar(str(label), str(payment.payment), payment.share, payment.empty_share, payment.cap.minor))
    return draw_bars("Your payments beside caps, the last round first", bars)
