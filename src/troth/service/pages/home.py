"""The first page, which differs by role, and what everybody may read: health, the API's documentation, assumptions."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from troth.results.page import ASSUMED
from troth.service import campaigns, rounds, views
from troth.service.access import identify
from troth.service.accounts import Who
from troth.service.api.accounts import check_health
from troth.service.pages.campaign_status import standing_of
from troth.service.pages.frame import page, store_of

router = APIRouter(dependencies=[Depends(identify)], include_in_schema=False)
Anybody = Annotated[Who | None, Depends(identify)]
Somebody = Annotated[Who, Depends(identify)]
_DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


@router.get("/")
def home(request: Request, who: Somebody) -> Response:
    """Show one's campaigns."""
    return _analysts_home(request, who) if who.role == "analyst" else _providers_home(request, who)


def _analysts_home(request: Request, who: Who) -> Response:
    with store_of(request).read() as tx:
        found: list[dict[str, Any]] = [
            {"view": views.campaign_view(tx, who, row.id), "standing": standing_of(tx, who, row.id)}
            for row in campaigns.list_campaigns(tx, who)
        ]
    deadlines = [
        (held["deadline"], each["view"], held)
        for each in found
        for held in each["standing"].rounds
        if held["state"] == "open" and held["deadline"] is not None
    ]
    waiting = [
        (each["view"], held, "publish" if held["state"] == "paid" else "settle")
        for each in found
        for held in each["standing"].rounds
        if held["state"] == "paid" or (held["state"] == "closed" and held["problem"] is not None)
    ]
    soonest = min(deadlines, key=lambda found: str(found[0])) if deadlines else None
    return page(request, who, "analyst_home.html", campaigns=found, soonest=soonest, waiting=waiting)


def _providers_home(request: Request, who: Who) -> Response:
    found: list[dict[str, Any]] = []
    with store_of(request).read() as tx:
        for row in campaigns.list_campaigns(tx, who):
            view = views.campaign_view(tx, who, row.id)
            _, member = campaigns.joined(tx, who, row.id)
            held = [views.providers_round(tx, member, each) for each in rounds.list_rounds(tx, row.id)]
            found.append({"view": view, "rounds": held, "open": [each for each in held if each["state"] == "open"]})
    return page(request, who, "provider_home.html", campaigns=found)


@router.get("/assumed")
def assumed(request: Request, who: Anybody) -> Response:
    """Say what truth-telling rests on."""
    return page(request, who, "assumed.html", assumed=ASSUMED)


@router.get("/docs")
def docs(request: Request, who: Anybody) -> Response:
    """Show the API's documentation, which sets styles by script: this page alone allows that."""
    response = page(request, who, "docs.html")
    response.headers["content-security-policy"] = _DOCS_POLICY
    return response


@router.get("/health")
def health(request: Request, who: Anybody) -> Response:
    """Tell that the service and its database answer."""
    found = check_health(store_of(request))
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse(found)
    return page(request, who, "health.html", health=found)
