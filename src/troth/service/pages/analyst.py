"""The analyst's campaigns and their providers. Providers see the same addresses as `provider` shows them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from troth.campaigns.toml import to_toml
from troth.core.errors import TrothError
from troth.results.pictures import draw_budget
from troth.service import campaigns, rounds, settlement, views
from troth.service.access import SignedIn
from troth.service.accounts import User
from troth.service.pages import provider
from troth.service.pages.forms import Fields, Sent
from troth.service.pages.frame import goto, page, store_of
from troth.service.requests import Identifier

_INVITED = ("name", "identity", "group")  # the fields of an invitation


def home(request: Request, user: SignedIn) -> Response:
    """Show a user's campaigns."""
    if user.role == "provider":
        return provider.home(request, user)
    with store_of(request).read() as tx:
        shown = [
            (views.own_campaign(tx, user, row.id), _status(tx, user, row.id))
            for row in campaigns.list_campaigns(tx, user)
        ]
    all_rounds = [(view, each) for view, status in shown for each in status["rounds"]]
    deadlines = [(view, each) for view, each in all_rounds if each.state == "open" and each.deadline is not None]
    waiting = [(view, each) for view, each in all_rounds if each.state == "paid" or each.problem is not None]
    soonest = min(deadlines, key=lambda pair: str(pair[1].deadline), default=None)
    return page(request, user, "analyst_home.html", campaigns=shown, soonest=soonest, waiting=waiting)


def _status(tx: Connection, user: User, campaign: str) -> dict[str, Any]:
    """Return a campaign's rounds, what it has paid, and the most that rounds which are open or closed can still pay."""
    terms = campaigns.terms_of(campaigns.owned(tx, user, campaign))
    shown = views.own_rounds(tx, terms, rounds.list_rounds(tx, campaign))
    paid = sum(each.amount.minor for each in shown if each.amount is not None)
    pending = terms.round_budget * sum(each.state in ("open", "closed") for each in shown)
    days = terms.days if terms.per_day else 1
    budget = paid + pending if days is None else terms.budget * days
    texts = {
        "paid": terms.show(paid),
        "pending": terms.show(pending) if pending else None,
        "budget": f"{terms.show(terms.budget)} a day" if days is None else f"of {terms.show(budget)}",
    }
    title = f"{texts['paid']} paid" + (f", up to {texts['pending']} pending" if pending else "")
    return {"rounds": shown, "bar": draw_budget(title, paid=paid, pending=pending, budget=budget), **texts}


def campaign_page(
    request: Request, campaign: Identifier, user: SignedIn, *, error: TrothError | None = None
) -> Response:
    """Show a campaign to its analyst or to one of its providers."""
    if user.role == "provider":
        return provider.campaign_page(request, campaign, user)
    with store_of(request).read() as tx:
        view = views.own_campaign(tx, user, campaign)
        status = _status(tx, user, campaign)
    days = [each.day for each in status["rounds"]]
    more = (view.days is None or len(days) < view.days) if view.daily else not days
    stuck = any(each.state == "open" or each.problem for each in status["rounds"])
    context = {
        "toml": to_toml(view.terms),
        "next_day": rounds.next_day(days) if view.daily else None,
        "may_open": view.state != "ended" and more and not stuck,
        "may_finish": view.daily and view.state == "running" and bool(days) and not stuck,
    }
    return page(request, user, "campaign.html", error=error, view=view, status=status, **context)


def open_round(request: Request, campaign: Identifier, user: SignedIn, form: Sent) -> Response:
    """Open the next round."""
    campaigns.prepare(store_of(request), user, campaign)
    with store_of(request).write() as tx:
        text = form.text("day")
        day = int(text) if text.lstrip("-").isdigit() and text.isascii() and len(text) < 12 else text or None
        rounds.open_round(tx, user, campaign, day, form.deadline())
    return goto(f"/campaigns/{campaign}", "opened")


def finish(request: Request, campaign: Identifier, user: SignedIn) -> Response:
    """End a daily campaign."""
    settlement.finish(store_of(request), user, campaign)
    return goto(f"/campaigns/{campaign}", "finished")


def providers_page(
    request: Request,
    campaign: Identifier,
    user: SignedIn,
    *,
    error: TrothError | None = None,
    form: Fields | None = None,
    invited: str | None = None,
    secret: str = "",
) -> Response:
    """Show the providers, with the invitation of one of them, or what was typed into a form that was refused."""
    with store_of(request).read() as tx:
        view = views.own_campaign(tx, user, campaign)
        members = campaigns.list_members(tx, campaign)
    typed = form if form is not None and form.has("identity") else None  # another form has only a group
    context = {
        "groups": sorted({member.related for member in members if member.related}),
        "typed": {name: "" if typed is None else typed.text(name) for name in _INVITED},
        "link": f"{request.app.state.settings.url}/join/{secret}" if secret else None,
    }
    return page(request, user, "providers.html", error=error, view=view, members=members, invited=invited, **context)


def invite(request: Request, campaign: Identifier, user: SignedIn, form: Sent) -> Response:
    """Add a provider and show its one-time link, this once."""
    name, identity, group = map(form.text, _INVITED)
    with store_of(request).write() as tx:
        member = campaigns.add_member(tx, user, campaign, name, identity, group)
        secret = campaigns.invite(tx, user, campaign, member)
    return providers_page(request, campaign, user, invited=name, secret=secret)


def invite_again(request: Request, campaign: Identifier, member: Identifier, user: SignedIn) -> Response:
    """Show a new one-time link, this once; any earlier link stops working."""
    with store_of(request).write() as tx:
        secret = campaigns.invite(tx, user, campaign, member)
        name = campaigns.find_member(tx, campaign, member).name
    return providers_page(request, campaign, user, invited=name, secret=secret)


def change_group(request: Request, campaign: Identifier, member: Identifier, user: SignedIn, form: Sent) -> Response:
    """Put a provider into a group of related ones, or take it out."""
    with store_of(request).write() as tx:
        campaigns.change_group(tx, user, campaign, member, form.text("group"))
    return goto(f"/campaigns/{campaign}/providers", "grouped")


def revoke_page(request: Request, campaign: Identifier, member: Identifier, user: SignedIn) -> Response:
    """Ask whether a provider is really to be revoked."""
    with store_of(request).read() as tx:
        view = views.own_campaign(tx, user, campaign)
        row = campaigns.find_member(tx, campaign, member)
    return page(request, user, "revoke.html", view=view, member=row)


def revoke(request: Request, campaign: Identifier, member: Identifier, user: SignedIn) -> Response:
    """Let a provider send no more data."""
    with store_of(request).write() as tx:
        campaigns.revoke(tx, user, campaign, member)
    return goto(f"/campaigns/{campaign}/providers", "revoked")
