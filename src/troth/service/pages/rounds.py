"""A round: who has reported, closing, then payments and what was learned, publishing; and what to do if it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from troth.core.errors import TrothError
from troth.service import campaigns, ledgers, rounds, settlement, views
from troth.service.access import identify
from troth.service.accounts import Who
from troth.service.errors import ConflictError, NotFoundError
from troth.service.pages.analyst import deadline_of
from troth.service.pages.forms import Sent
from troth.service.pages.frame import goto, is_part, page, store_of
from troth.service.pages.provider import round_for_provider
from troth.service.preview import learned
from troth.service.requests import Identifier, Number

if TYPE_CHECKING:
    from troth.results.beliefs import Belief
    from troth.results.result import Result

router = APIRouter(dependencies=[Depends(identify)], include_in_schema=False)
Somebody = Annotated[Who, Depends(identify)]


@router.get("/campaigns/{campaign}/rounds/{number}")
def round_page(request: Request, campaign: Identifier, number: Number, who: Somebody) -> Response:
    """Show a round to the analyst, or to a provider."""
    if who.role == "provider":
        return round_for_provider(request, who, campaign, number)
    return _round(request, who, campaign, number)


def _round(request: Request, who: Who, campaign: str, number: int, error: TrothError | None = None) -> Response:
    with store_of(request).read() as tx:
        view = views.campaign_view(tx, who, campaign)
        spec = campaigns.terms_of(campaigns.owned(tx, who, campaign))
        held = rounds.find_round(tx, campaign, number)
        shown = views.analysts_round(tx, held)
        there = rounds.reporters(tx, held.id)
        people = [member for member in campaigns.list_members(tx, campaign) if member.name in spec.providers]
        paid = views.payments_view(tx, who, campaign, number) if held.state == "paid" else None
        result = ledgers.load_result(tx, campaign)
    context: dict[str, Any] = {"view": view, "round": shown, "people": people, "reports": there, "spec": spec}
    context |= {"paid": paid, "day": None, "beliefs": []}
    if paid is not None and paid["payments"] and result is not None:
        context["beliefs"] = _beliefs(campaign, shown["head"] or "", paid["day"], result)
        day = next(each for each in result.rounds if each.day == paid["day"])
        context["day"] = day
        context["total"] = spec.show(sum(payment.payment for payment in day.payments))
        context["left"] = spec.show(spec.round_budget - sum(payment.payment for payment in day.payments))
    template = "part_reports.html" if is_part(request) else "round.html"
    status = 200 if error is None else int(getattr(error, "status", 422))
    response = page(request, who, template, status=status, problem=None if error is None else str(error), **context)
    if is_part(request) and shown["state"] != "open":
        response.headers["HX-Refresh"] = "true"  # the round has closed meanwhile: there is more to see
    return response


_MOST_KEPT = 64
_kept: dict[tuple[str, str, str], list[Belief]] = {}


def _beliefs(campaign: str, head: str, day: Any, result: Result) -> list[Belief]:
    """Return prior and posterior of what was to be learned, where they can be drawn; computed once."""
    key = (campaign, head, repr(day))
    if key not in _kept:
        reports = [report for report in result.reports if report.day == day]
        try:
            _kept[key] = learned(dict(result.campaign.plain), reports)
        except TrothError:
            return []  # too much to draw, or too many ask at once
        while len(_kept) > _MOST_KEPT:
            _kept.pop(next(iter(_kept)), None)
    return _kept[key]


@router.get("/campaigns/{campaign}/rounds/{number}/close")
def close_page(request: Request, campaign: Identifier, number: Number, who: Somebody) -> Response:
    """Ask whether the round is really to be closed."""
    with store_of(request).read() as tx:
        view = views.campaign_view(tx, who, campaign)
        shown = views.round_view(tx, who, campaign, number)
        spec = campaigns.terms_of(campaigns.owned(tx, who, campaign))
    if shown["state"] != "open":
        raise ConflictError("the round is closed")
    return page(request, who, "close.html", view=view, round=shown, expected=len(spec.providers))


@router.post("/campaigns/{campaign}/rounds/{number}/close")
def close(request: Request, campaign: Identifier, number: Number, who: Somebody, form: Sent) -> Response:
    """Close a round and pay."""
    settlement.close_round(store_of(request), who, campaign, number, final=form.has("final"))
    return goto(f"/campaigns/{campaign}/rounds/{number}", "closed")


@router.post("/campaigns/{campaign}/rounds/{number}/publish")
def publish(request: Request, campaign: Identifier, number: Number, who: Somebody, form: Sent) -> Response:
    """Show providers what they were paid, and why."""
    del form
    try:
        with store_of(request).write() as tx:
            rounds.publish(tx, who, campaign, number)
    except NotFoundError:
        raise
    except TrothError as error:
        return _round(request, who, campaign, number, error)
    return goto(f"/campaigns/{campaign}/rounds/{number}", "published")


@router.post("/campaigns/{campaign}/rounds/{number}/reopen")
def reopen(request: Request, campaign: Identifier, number: Number, who: Somebody, form: Sent) -> Response:
    """Open a round again that could not be paid."""
    try:
        settlement.reopen(store_of(request), who, campaign, number, deadline_of(form))
    except NotFoundError:
        raise
    except TrothError as error:
        return _round(request, who, campaign, number, error)
    return goto(f"/campaigns/{campaign}/rounds/{number}", "reopened")
