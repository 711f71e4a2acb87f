"""The first page, which differs by role, and what everybody may read: health, the API's documentation, assumptions."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from troth.results.page import ASSUMED
from troth.service import campaigns, rounds, views
from troth.service.access import SignedIn, Visitor
from troth.service.accounts import User
from troth.service.pages.campaign_status import campaign_status
from troth.service.pages.frame import page, store_of

_DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


def home(request: Request, user: SignedIn) -> Response:
    """Show a user's campaigns."""
    return _analysts_home(request, user) if user.role == "analyst" else _providers_home(request, user)


def _analysts_home(request: Request, user: User) -> Response:
    with store_of(request).read() as tx:
        shown = [
            (views.own_campaign(tx, user, row.id), campaign_status(tx, user, row.id))
            for row in campaigns.list_campaigns(tx, user)
        ]
    rounds = [(view, each) for view, status in shown for each in status.rounds]
    deadlines = [(view, each) for view, each in rounds if each.state == "open" and each.deadline is not None]
    waiting = [(view, each) for view, each in rounds if each.state == "paid" or each.problem is not None]
    soonest = min(deadlines, key=lambda pair: str(pair[1].deadline), default=None)
    return page(request, user, "analyst_home.html", campaigns=shown, soonest=soonest, waiting=waiting)


def _providers_home(request: Request, user: User) -> Response:
    with store_of(request).read() as tx:
        shown = [
            (views.campaign_for(tx, row, member), views.joined_rounds(tx, member, rounds.list_rounds(tx, row.id)))
            for row, member in campaigns.all_joined(tx, user)
        ]
    return page(request, user, "provider_home.html", campaigns=shown)


def assumed(request: Request, user: Visitor) -> Response:
    """Say what truth-telling rests on."""
    return page(request, user, "assumed.html", assumed=ASSUMED)


def docs(request: Request, user: Visitor) -> Response:
    """Show the API's documentation, which sets styles by script: this page alone allows that."""
    response = page(request, user, "docs.html")
    response.headers["content-security-policy"] = _DOCS_POLICY
    return response


def health(request: Request, user: Visitor) -> Response:
    """Report that the service and its database respond, and that the database takes changes."""
    store_of(request).check_writes()
    with store_of(request).read(probe=True) as tx:
        view = views.health_view(tx)
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse(view.model_dump())
    return page(request, user, "health.html", health=view)
