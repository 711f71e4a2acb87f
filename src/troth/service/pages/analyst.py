"""A campaign and its providers, for the analyst; the campaign's page for its providers is in `provider`.

A form that is refused is shown again with the reason. Whoever may not see the campaign gets 404 from that page too.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from troth.campaigns.toml import to_toml
from troth.core.errors import TrothError
from troth.service import campaigns, incoming, rounds, settlement, views
from troth.service.access import SignedIn
from troth.service.accounts import User
from troth.service.errors import InvalidError
from troth.service.pages.campaign_status import campaign_status
from troth.service.pages.forms import Fields, Sent, SentWithFile
from troth.service.pages.frame import goto, page, store_of
from troth.service.pages.provider import campaign_for_provider
from troth.service.requests import Identifier
from troth.service.store import parse_deadline
from troth.service.uploads import read_public_upload


def campaign_page(request: Request, campaign: Identifier, user: SignedIn) -> Response:
    """Show a campaign to its analyst or to one of its providers."""
    show = campaign_for_provider if user.role == "provider" else _campaign
    return show(request, user, campaign)


def _campaign(request: Request, user: User, campaign: str, error: TrothError | None = None) -> Response:
    with store_of(request).read() as tx:
        view = views.own_campaign(tx, user, campaign)
        status = campaign_status(tx, user, campaign)
        members = campaigns.list_members(tx, campaign)
    days = [each.day for each in status.rounds]
    more = (view.days is None or len(days) < view.days) if view.daily else not days
    stuck = any(each.state == "open" or each.problem for each in status.rounds)
    context = {
        "toml": to_toml(view.terms),
        "next_day": rounds.next_day(days) if view.daily else None,
        "may_open": view.state != "ended" and more and not stuck,
        "may_finish": view.daily and view.state == "running" and bool(days) and not stuck,
        "active": sum(member.revoked is None for member in members),
    }
    return page(request, user, "campaign.html", error=error, view=view, status=status, **context)


def open_round(request: Request, campaign: Identifier, user: SignedIn, form: Sent) -> Response:
    """Open the next round."""
    try:
        campaigns.prepare(store_of(request), user, campaign)
        with store_of(request).write() as tx:
            text = form.text("day")
            day = int(text) if text.lstrip("-").isdigit() and text.isascii() and len(text) < 12 else text or None
            rounds.open_round(tx, user, campaign, day, deadline_of(form))
    except TrothError as error:
        return _campaign(request, user, campaign, error)
    return goto(f"/campaigns/{campaign}", "opened")


def deadline_of(form: Fields) -> str | None:
    """Return the deadline that a form gives, which is in UTC."""
    text = form.text("deadline")
    return parse_deadline(f"{text}Z" if text and text[-1].isdigit() and "+" not in text else text)


def finish(request: Request, campaign: Identifier, user: SignedIn, form: Sent) -> Response:
    """End a daily campaign."""
    del form
    try:
        settlement.finish(store_of(request), user, campaign)
    except TrothError as error:
        return _campaign(request, user, campaign, error)
    return goto(f"/campaigns/{campaign}", "finished")


def terms_page(request: Request, campaign: Identifier, user: SignedIn) -> Response:
    """Show the terms to be changed, until the first round opens."""
    return _terms(request, user, campaign)


def _terms(
    request: Request, user: User, campaign: str, error: TrothError | None = None, typed: str | None = None
) -> Response:
    with store_of(request).read() as tx:
        view = views.own_campaign(tx, user, campaign)
    view.terms.get("mechanism", {}).pop("commitment", None)
    toml = to_toml(view.terms) if typed is None else typed
    return page(request, user, "terms.html", error=error, view=view, toml=toml)


def change_terms(request: Request, campaign: Identifier, user: SignedIn, form: Sent) -> Response:
    """Replace the terms."""
    text = form.text("toml")
    try:
        with store_of(request).write() as tx:
            campaigns.change_terms(tx, user, campaign, parse_toml(text))
    except TrothError as error:
        return _terms(request, user, campaign, error, text)
    return goto(f"/campaigns/{campaign}", "changed")


def _owned(request: Request, campaign: Identifier, user: SignedIn) -> None:
    """Refuse a file before it is read, unless the campaign is the analyst's own."""
    with store_of(request).read() as tx:
        campaigns.owned(tx, user, campaign)


async def change_public(
    request: Request,
    campaign: Identifier,
    user: SignedIn,
    welcome: Annotated[None, Depends(_owned)],
    form: SentWithFile,
) -> Response:
    """Take a file of rows that everybody knows."""
    del welcome  # checked before any of the form is read
    try:
        file = form.file("file")
        if file is None:
            raise InvalidError("file: choose one")
        limits, spool = request.app.state.settings.limits, store_of(request).spool
        async with incoming.stored(incoming.blocks_of(file), limits, spool) as path:
            await run_in_threadpool(_change_public, request, user, campaign, path, file.filename or "")
    except TrothError as error:
        return await run_in_threadpool(_terms, request, user, campaign, error)
    return goto(f"/campaigns/{campaign}", "changed")


def _change_public(request: Request, user: User, campaign: str, path: Path, name: str) -> None:
    store, limits = store_of(request), request.app.state.settings.limits
    with store.read() as tx:
        terms = campaigns.terms_of(campaigns.owned(tx, user, campaign))
    known = read_public_upload(terms, path, name, limits)
    with store.write() as tx:
        campaigns.change_public(tx, user, campaign, known)


def parse_toml(text: str) -> dict[str, Any]:
    """Read a campaign file that was pasted."""
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise InvalidError(f"campaign file: not valid TOML: {error}") from None


def providers_page(request: Request, campaign: Identifier, user: SignedIn) -> Response:
    """Show the providers."""
    return _providers(request, user, campaign)


def _providers(
    request: Request,
    user: User,
    campaign: str,
    error: TrothError | None = None,
    *,
    typed: dict[str, str] | None = None,
    invited: str | None = None,
    secret: str = "",
) -> Response:
    with store_of(request).read() as tx:
        view = views.own_campaign(tx, user, campaign)
        members = campaigns.list_members(tx, campaign)
    context = {
        "groups": sorted({member.related for member in members if member.related}),
        "typed": typed or {"name": "", "identity": "", "group": ""},
        "link": f"{request.app.state.settings.url}/join/{secret}" if secret else None,
    }
    return page(request, user, "providers.html", error=error, view=view, members=members, invited=invited, **context)


def invite(request: Request, campaign: Identifier, user: SignedIn, form: Sent) -> Response:
    """Add a provider and show its one-time link, this once."""
    typed = {name: form.text(name) for name in ("name", "identity", "group")}
    try:
        with store_of(request).write() as tx:
            member = campaigns.add_member(tx, user, campaign, typed["name"], typed["identity"], typed["group"])
            secret = campaigns.invite(tx, user, campaign, member)
    except TrothError as error:
        return _providers(request, user, campaign, error, typed=typed)
    return _providers(request, user, campaign, invited=typed["name"], secret=secret)


def invite_again(request: Request, campaign: Identifier, member: Identifier, user: SignedIn, form: Sent) -> Response:
    """Show a new one-time link, this once; the earlier one ends."""
    del form
    try:
        with store_of(request).write() as tx:
            secret = campaigns.invite(tx, user, campaign, member)
            name = campaigns.find_member(tx, campaign, member).name
    except TrothError as error:
        return _providers(request, user, campaign, error)
    return _providers(request, user, campaign, invited=name, secret=secret)


def change_group(request: Request, campaign: Identifier, member: Identifier, user: SignedIn, form: Sent) -> Response:
    """Put a provider into a group of related ones, or take it out."""
    try:
        with store_of(request).write() as tx:
            campaigns.change_group(tx, user, campaign, member, form.text("group"))
    except TrothError as error:
        return _providers(request, user, campaign, error)
    return goto(f"/campaigns/{campaign}/providers", "grouped")


def revoke_page(request: Request, campaign: Identifier, member: Identifier, user: SignedIn) -> Response:
    """Ask whether a provider is really to be revoked."""
    with store_of(request).read() as tx:
        view = views.own_campaign(tx, user, campaign)
        row = campaigns.find_member(tx, campaign, member)
    return page(request, user, "revoke.html", view=view, member=row)


def revoke(request: Request, campaign: Identifier, member: Identifier, user: SignedIn, form: Sent) -> Response:
    """Let a provider send no more data."""
    del form
    with store_of(request).write() as tx:
        campaigns.revoke(tx, user, campaign, member)
    return goto(f"/campaigns/{campaign}/providers", "revoked")
