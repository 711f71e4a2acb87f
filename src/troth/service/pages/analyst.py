"""The analyst's pages of campaigns and their providers. At the same addresses, providers see those of `provider`."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection
from starlette.responses import Response

from troth.campaigns.toml import to_toml
from troth.operations import CAMPAIGN
from troth.results.pictures import draw_budget
from troth.service import campaigns, rounds, settlement, views
from troth.service.accounts import User
from troth.service.pages import provider
from troth.service.pages.frame import Visit, changes, goto, settles

_PROVIDERS = f"{CAMPAIGN}/providers"
_INVITATION_FIELDS = ("name", "identity", "group")


def home(visit: Visit) -> Response:
    """Show a user's campaigns."""
    user = visit.user
    if user.role == "provider":
        return provider.home(visit)
    with visit.store.read() as tx:
        campaign_views = [
            (views.own_campaign(tx, user, row.id), _status(tx, user, row.id))
            for row in campaigns.list_campaigns(tx, user)
        ]
    all_rounds = [(view, round_row) for view, status in campaign_views for round_row in status["rounds"]]
    deadlines = [
        (view, round_row)
        for view, round_row in all_rounds
        if round_row.state == "open" and round_row.deadline is not None
    ]
    waiting = [
        (view, round_row)
        for view, round_row in all_rounds
        if round_row.state == "paid" or round_row.problem is not None
    ]
    soonest = min(deadlines, key=lambda pair: str(pair[1].deadline), default=None)
    return visit.page("analyst_home.html", campaigns=campaign_views, soonest=soonest, waiting=waiting)


def _status(tx: Connection, user: User, campaign: str) -> dict[str, Any]:
    """Return a campaign's rounds, the amount paid, and the maximum that open and closed rounds can still pay."""
    terms = campaigns.terms_of(campaigns.owned(tx, user, campaign))
    round_views = views.own_rounds(tx, terms, rounds.list_rounds(tx, campaign))
    paid = sum(round_row.amount.minor for round_row in round_views if round_row.amount is not None)
    pending = terms.round_budget * sum(round_row.state in ("open", "closed") for round_row in round_views)
    days = terms.days if terms.per_day else 1
    budget = paid + pending if days is None else terms.budget * days
    texts = {
        "paid": terms.show(paid),
        "pending": terms.show(pending) if pending else None,
        "budget": f"{terms.show(terms.budget)} a day" if days is None else f"of {terms.show(budget)}",
    }
    title = f"{texts['paid']} paid" + (f", up to {texts['pending']} pending" if pending else "")
    return {"rounds": round_views, "bar": draw_budget(title, paid=paid, pending=pending, budget=budget), **texts}


def campaign_page(visit: Visit, campaign: str) -> Response:
    """Show a campaign to its analyst or to one of its providers."""
    if visit.user.role == "provider":
        return provider.campaign_page(visit, campaign)
    with visit.store.read() as tx:
        view = views.own_campaign(tx, visit.user, campaign)
        status = _status(tx, visit.user, campaign)
    days = [round_row.day for round_row in status["rounds"]]
    more_rounds = (view.days is None or len(days) < view.days) if view.daily else not days
    stuck = any(round_row.state == "open" or round_row.problem for round_row in status["rounds"])
    context = {
        "toml": to_toml(view.terms),
        "next_day": rounds.next_day(days) if view.daily else None,
        "may_open": view.state != "ended" and more_rounds and not stuck,
        "may_finish": view.daily and view.state == "running" and bool(days) and not stuck,
    }
    return visit.page("campaign.html", view=view, status=status, **context)


def open_round(visit: Visit, campaign: str) -> Response:
    """Open the next round."""
    text = visit.form.text("day")
    day = int(text) if text.lstrip("-").isdigit() and text.isascii() and len(text) < 12 else text or None
    campaigns.prepare(visit.store, visit.user, campaign)
    with visit.store.write() as tx:
        rounds.open_round(tx, visit.user, campaign, day, visit.form.deadline())
    return goto(f"/campaigns/{campaign}", "opened")


finish = settles(settlement.finish, CAMPAIGN, "finished")


def providers_page(visit: Visit, campaign: str, *, invited: str | None = None, secret: str = "") -> Response:
    """Show the providers, with a new invitation, or with the input of a rejected form."""
    with visit.store.read() as tx:
        view = views.own_campaign(tx, visit.user, campaign)
        members = campaigns.list_members(tx, campaign)
    refused = visit.error is not None and visit.form.has("identity")  # another form has only a group
    context = {
        "groups": sorted({member.group for member in members if member.group}),
        "typed": {name: visit.form.text(name) if refused else "" for name in _INVITATION_FIELDS},
        "link": f"{visit.settings.url}/join/{secret}" if secret else None,
    }
    return visit.page("providers.html", view=view, members=members, invited=invited, **context)


def invite(visit: Visit, campaign: str) -> Response:
    """Add a provider, and show its one-time link, which is not shown again."""
    name, identity, group = map(visit.form.text, _INVITATION_FIELDS)
    with visit.store.write() as tx:
        member = campaigns.add_member(tx, visit.user, campaign, name, identity, group)
        secret = campaigns.invite(tx, visit.user, campaign, member)
    return providers_page(visit, campaign, invited=name, secret=secret)


def invite_again(visit: Visit, campaign: str, member: str) -> Response:
    """Show a new one-time link, which is not shown again; any earlier link stops working."""
    with visit.store.write() as tx:
        secret = campaigns.invite(tx, visit.user, campaign, member)
        name = campaigns.find_member(tx, campaign, member).name
    return providers_page(visit, campaign, invited=name, secret=secret)


change_group = changes(campaigns.change_group, _PROVIDERS, "grouped", group=lambda form: form.text("group"))


def revoke_page(visit: Visit, campaign: str, member: str) -> Response:
    """Ask for confirmation before a provider is revoked."""
    with visit.store.read() as tx:
        view = views.own_campaign(tx, visit.user, campaign)
        row = campaigns.find_member(tx, campaign, member)
    return visit.page("revoke.html", view=view, member=row)


revoke = changes(campaigns.revoke, _PROVIDERS, "revoked")
