"""A campaign and its providers, for the analyst; the campaign's page for its providers is the provider's."""

from __future__ import annotations

import tomllib
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from troth.campaigns.toml import to_toml
from troth.core.errors import TrothError
from troth.service import campaigns, rounds, settlement, views
from troth.service.access import identify
from troth.service.accounts import Who
from troth.service.api.answering import parse_moment
from troth.service.errors import InvalidError, NotFoundError
from troth.service.pages.campaign_status import standing_of
from troth.service.pages.forms import Fields, Sent
from troth.service.pages.frame import goto, page, store_of
from troth.service.pages.provider import campaign_for_provider
from troth.service.requests import Identifier

router = APIRouter(dependencies=[Depends(identify)], include_in_schema=False)
Somebody = Annotated[Who, Depends(identify)]


@router.get("/campaigns/{campaign}")
def campaign_page(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Show a campaign to its analyst or to one of its providers."""
    if who.role == "provider":
        return campaign_for_provider(request, who, campaign)
    return _campaign(request, who, campaign)


def _campaign(request: Request, who: Who, campaign: str, error: TrothError | None = None) -> Response:
    with store_of(request).read() as tx:
        view = views.campaign_view(tx, who, campaign)
        standing = standing_of(tx, who, campaign)
        before = [held["day"] for held in standing.rounds]
        people = campaigns.list_members(tx, campaign)
    spec = standing.spec
    left = not standing.rounds if not spec.daily else spec.days is None or len(before) < spec.days
    stuck = any(held["state"] == "open" or held["problem"] for held in standing.rounds)
    context = {
        "view": view,
        "standing": standing,
        "toml": to_toml(view["terms"]),
        "next_day": rounds.next_day(before) if spec.daily else None,
        "may_open": view["state"] != "ended" and left and not stuck,
        "may_finish": spec.daily and view["state"] == "running" and bool(standing.rounds) and not stuck,
        "active": sum(member.revoked is None for member in people),
        "problem": None if error is None else str(error),
    }
    return page(request, who, "campaign.html", status=_status(error), **context)


def _status(error: TrothError | None) -> int:
    return 200 if error is None else int(getattr(error, "status", 422))


@router.post("/campaigns/{campaign}/rounds")
def open_round(request: Request, campaign: Identifier, who: Somebody, form: Sent) -> Response:
    """Open the next round."""
    try:
        campaigns.prepare(store_of(request), who, campaign)
        with store_of(request).write() as tx:
            day = form.text("day")
            chosen = int(day) if day.lstrip("-").isdigit() and day.isascii() and len(day) < 12 else day or None
            rounds.open_round(tx, who, campaign, chosen, deadline_of(form))
    except NotFoundError:
        raise
    except TrothError as error:
        return _campaign(request, who, campaign, error)
    return goto(f"/campaigns/{campaign}", "opened")


def deadline_of(form: Fields) -> str | None:
    """Return the deadline that a form gives, which is in UTC."""
    text = form.text("deadline")
    return parse_moment(f"{text}Z" if text and text[-1].isdigit() and "+" not in text else text)


@router.post("/campaigns/{campaign}/finish")
def finish(request: Request, campaign: Identifier, who: Somebody, form: Sent) -> Response:
    """End a daily campaign."""
    del form
    try:
        settlement.finish(store_of(request), who, campaign)
    except NotFoundError:
        raise
    except TrothError as error:
        return _campaign(request, who, campaign, error)
    return goto(f"/campaigns/{campaign}", "finished")


@router.get("/campaigns/{campaign}/terms")
def terms_page(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Show the terms to be changed, until the first round opens."""
    with store_of(request).read() as tx:
        view = views.campaign_view(tx, who, campaign)
    terms = view["terms"]
    terms.get("mechanism", {}).pop("commitment", None)
    return page(request, who, "terms.html", view=view, toml=to_toml(terms))


@router.post("/campaigns/{campaign}/terms")
def change_terms(request: Request, campaign: Identifier, who: Somebody, form: Sent) -> Response:
    """Replace the terms."""
    text = form.text("toml")
    try:
        with store_of(request).write() as tx:
            campaigns.change_terms(tx, who, campaign, parse_toml(text))
    except NotFoundError:
        raise
    except TrothError as error:
        with store_of(request).read() as tx:
            view = views.campaign_view(tx, who, campaign)
        context = {"view": view, "toml": text, "problem": str(error)}
        return page(request, who, "terms.html", status=_status(error), **context)
    return goto(f"/campaigns/{campaign}", "changed")


def parse_toml(text: str) -> dict[str, Any]:
    """Read a campaign file that was pasted."""
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise InvalidError(f"campaign file: not valid TOML: {error}") from None


@router.get("/campaigns/{campaign}/providers")
def providers_page(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Show the providers."""
    return _providers(request, who, campaign)


def _providers(request: Request, who: Who, campaign: str, error: TrothError | None = None, **known: Any) -> Response:
    with store_of(request).read() as tx:
        view = views.campaign_view(tx, who, campaign)
        people = campaigns.list_members(tx, campaign)
    context = {"link": None, "invited": None, "typed": {"name": "", "identity": "", "group": ""}, **known}
    problem = None if error is None else str(error)
    groups = sorted({member.related for member in people if member.related})
    return page(
        request,
        who,
        "providers.html",
        status=_status(error),
        view=view,
        people=people,
        groups=groups,
        problem=problem,
        **context,
    )


@router.post("/campaigns/{campaign}/providers")
def invite(request: Request, campaign: Identifier, who: Somebody, form: Sent) -> Response:
    """Add a provider and show its one-time link, this once."""
    typed = {name: form.text(name) for name in ("name", "identity", "group")}
    try:
        with store_of(request).write() as tx:
            member = campaigns.add_member(tx, who, campaign, typed["name"], typed["identity"], typed["group"])
            secret = campaigns.invite(tx, who, campaign, member)
    except NotFoundError:
        raise
    except TrothError as error:
        return _providers(request, who, campaign, error, typed=typed)
    return _providers(request, who, campaign, link=_link(request, secret), invited=typed["name"])


@router.post("/campaigns/{campaign}/providers/{member}/invitation")
def new_link(request: Request, campaign: Identifier, member: Identifier, who: Somebody, form: Sent) -> Response:
    """Make a new one-time link; the earlier one ends."""
    del form
    try:
        with store_of(request).write() as tx:
            secret = campaigns.invite(tx, who, campaign, member)
            name = campaigns.find_member(tx, campaign, member).name
    except NotFoundError:
        raise
    except TrothError as error:
        return _providers(request, who, campaign, error)
    return _providers(request, who, campaign, link=_link(request, secret), invited=name)


def _link(request: Request, secret: str) -> str:
    return f"{request.app.state.settings.url}/join/{secret}"


@router.post("/campaigns/{campaign}/providers/{member}/group")
def relate(request: Request, campaign: Identifier, member: Identifier, who: Somebody, form: Sent) -> Response:
    """Put a provider into a group of related ones, or take it out."""
    try:
        with store_of(request).write() as tx:
            campaigns.relate(tx, who, campaign, member, form.text("group"))
    except NotFoundError:
        raise
    except TrothError as error:
        return _providers(request, who, campaign, error)
    return goto(f"/campaigns/{campaign}/providers", "grouped")


@router.get("/campaigns/{campaign}/providers/{member}/revoke")
def revoke_page(request: Request, campaign: Identifier, member: Identifier, who: Somebody) -> Response:
    """Ask whether a provider is really to be revoked."""
    with store_of(request).read() as tx:
        view = views.campaign_view(tx, who, campaign)
        found = campaigns.find_member(tx, campaign, member)
    return page(request, who, "revoke.html", view=view, member=found)


@router.post("/campaigns/{campaign}/providers/{member}/revoke")
def revoke(request: Request, campaign: Identifier, member: Identifier, who: Somebody, form: Sent) -> Response:
    """Let a provider send no more data."""
    del form
    with store_of(request).write() as tx:
        campaigns.revoke(tx, who, campaign, member)
    return goto(f"/campaigns/{campaign}/providers", "revoked")
