"""What a provider sees: its campaigns, its reports, its receipts and its results, and nothing about its peers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from troth.campaigns.toml import to_toml
from troth.core.errors import TrothError
from troth.results.pictures import Bar, Picture, draw_bars
from troth.service import campaigns, incoming, rounds, views
from troth.service.access import identify
from troth.service.accounts import Who
from troth.service.errors import InvalidError, NotFoundError
from troth.service.pages.forms import Fields, Sent, SentWithFile
from troth.service.pages.frame import goto, page, store_of
from troth.service.requests import Identifier, Number

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sqlalchemy import Connection
    from starlette.datastructures import UploadFile

router = APIRouter(dependencies=[Depends(identify)], include_in_schema=False)
Somebody = Annotated[Who, Depends(identify)]
_MOST_ROUNDS = 60


def campaign_for_provider(request: Request, who: Who, campaign: str) -> Response:
    """Show a campaign to one of its providers."""
    with store_of(request).read() as tx:
        view = views.campaign_view(tx, who, campaign)
        held = views.list_rounds(tx, who, campaign)
        paid = {each["number"]: _own_payment(tx, who, campaign, each) for each in held}
    return page(request, who, "provider_campaign.html", view=view, rounds=held, paid=paid, toml=to_toml(view["terms"]))


def _own_payment(tx: Connection, who: Who, campaign: str, held: dict[str, Any]) -> dict[str, Any] | None:
    """Return what one was paid in a round, once it is published."""
    if held["state"] != "published":
        return None
    found: list[dict[str, Any]] = views.payments_view(tx, who, campaign, held["number"])["payments"]
    return found[0] if found else None


def round_for_provider(
    request: Request, who: Who, campaign: str, number: int, error: TrothError | None = None
) -> Response:
    """Show a round to a provider: what it has sent, and where to send more."""
    with store_of(request).read() as tx:
        view = views.campaign_view(tx, who, campaign)
        row, member = campaigns.joined(tx, who, campaign)
        held = rounds.find_round(tx, campaign, number)
        shown = views.providers_round(tx, member, held)
        spec = campaigns.terms_of(row)
        mine = [views.submission_view(spec, member, held, each) for each in rounds.my_uploads(tx, member.id, held.id)]
        payment = _own_payment(tx, who, campaign, shown)
    limits = request.app.state.settings.limits
    context = {"view": view, "round": shown, "mine": mine, "limits": limits, "payment": payment}
    status = 200 if error is None else int(getattr(error, "status", 422))
    problem = None if error is None else str(error)
    return page(request, who, "submit.html", status=status, problem=problem, **context)


@router.post("/campaigns/{campaign}/rounds/{number}/submissions")
async def submit(request: Request, campaign: Identifier, number: Number, who: Somebody, form: SentWithFile) -> Response:
    """Take a file of rows or statistics; it counts once it is confirmed."""
    file = form.file("file")
    try:
        if file is None:
            made = await run_in_threadpool(_add_statistics, request, who, campaign, number, form)
        else:
            limits = request.app.state.settings.limits
            async with incoming.kept(_blocks(file), limits) as path:
                made = await run_in_threadpool(_add_file, request, who, campaign, number, path, file.filename or "")
    except NotFoundError:
        raise
    except TrothError as error:
        return await run_in_threadpool(round_for_provider, request, who, campaign, number, error)
    return goto(f"/campaigns/{campaign}/rounds/{number}/submissions/{made}")


async def _blocks(file: UploadFile) -> AsyncIterator[bytes]:
    while block := await file.read(1 << 20):
        yield block


def _add_file(request: Request, who: Who, campaign: str, number: int, path: Any, name: str) -> str:
    store, limits = store_of(request), request.app.state.settings.limits
    upload = incoming.read_submission(store, who, campaign, number, path, name, limits)
    with store.write() as tx:
        return rounds.add_upload(tx, who, campaign, number, upload)


def _add_statistics(request: Request, who: Who, campaign: str, number: int, form: Fields) -> str:
    store, text = store_of(request), form.text("statistics")
    if not text:
        raise InvalidError("file: choose one, or paste statistics")
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidError(f"statistics: not valid JSON: {error}") from None
    upload = incoming.read_statistics(store, who, campaign, number, plain, request.app.state.settings.limits)
    with store.write() as tx:
        return rounds.add_upload(tx, who, campaign, number, upload)


@router.get("/campaigns/{campaign}/rounds/{number}/submissions/{submission}")
def submission_page(
    request: Request, campaign: Identifier, number: Number, submission: Identifier, who: Somebody
) -> Response:
    """Show a submission to be confirmed, or its receipt once it is."""
    return _submission(request, who, campaign, number, submission)


def _submission(
    request: Request, who: Who, campaign: str, number: int, submission: str, error: TrothError | None = None
) -> Response:
    with store_of(request).read() as tx:
        view = views.campaign_view(tx, who, campaign)
        row, member = campaigns.joined(tx, who, campaign)
        held = rounds.find_round(tx, campaign, number)
        mine = rounds.my_upload(tx, member.id, held.id, submission)
        receipt = views.submission_view(campaigns.terms_of(row), member, held, mine)
        shown = views.providers_round(tx, member, held)
    status = 200 if error is None else int(getattr(error, "status", 422))
    context = {"view": view, "receipt": receipt, "round": shown, "problem": None if error is None else str(error)}
    return page(request, who, "submission.html", status=status, **context)


@router.post("/campaigns/{campaign}/rounds/{number}/submissions/{submission}/confirm")
def confirm(
    request: Request, campaign: Identifier, number: Number, submission: Identifier, who: Somebody, form: Sent
) -> Response:
    """Make a submission one's report."""
    try:
        with store_of(request).write() as tx:
            rounds.confirm(tx, who, campaign, number, submission, form.text("replaces") or None)
    except NotFoundError:
        raise
    except TrothError as error:
        return _submission(request, who, campaign, number, submission, error)
    return goto(f"/campaigns/{campaign}/rounds/{number}/submissions/{submission}", "confirmed")


@router.get("/results")
def results(request: Request, who: Somebody) -> Response:
    """Show what one was paid, in all campaigns."""
    found = []
    with store_of(request).read() as tx:
        for row in campaigns.list_campaigns(tx, who):
            view = views.campaign_view(tx, who, row.id)
            lines = []
            for held in views.list_rounds(tx, who, row.id):
                payment = _own_payment(tx, who, row.id, held)
                if payment is not None:
                    lines.append({"round": held, "payment": payment})
            if lines:
                found.append({"view": view, "lines": lines, "picture": _draw_rounds(lines)})
    return page(request, who, "results.html", campaigns=found)


def _draw_rounds(lines: list[dict[str, Any]]) -> Picture:
    """Draw one provider's payments over rounds, the last first."""
    bars = []
    for line in reversed(lines[-_MOST_ROUNDS:]):
        label, payment = line["round"]["day"] or f"round {line['round']['number']}", line["payment"]
        amounts = payment["share"], payment["nothing"], float(payment["cap"])
        bars.append(Bar(str(label), payment["payment"], *amounts))
    return draw_bars("Your payments beside caps, the last round first", bars)
