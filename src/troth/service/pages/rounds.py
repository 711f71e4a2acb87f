"""A round: who has reported, closing, then payments and what was learned, publishing; and what to do if it failed."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from troth.campaigns.findings import beliefs_of
from troth.errors import TrothError
from troth.service import campaigns, ledgers, rounds, settlement, views
from troth.service.access import identify
from troth.service.accounts import Who
from troth.service.pages.analyst import deadline_of
from troth.service.pages.charts import belief_charts, payments_chart
from troth.service.pages.forms import Sent
from troth.service.pages.frame import goto, is_part, page, store_of
from troth.service.pages.provider import round_for_provider
from troth.service.refusals import ConflictError, NotFoundError
from troth.service.schemas import Identifier, Number

if TYPE_CHECKING:
    from troth.campaigns.findings import Belief
    from troth.campaigns.result import Result

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
    context |= {"paid": paid, "chart": None, "beliefs": [], "total": None}
    if paid is not None and paid["payments"] and result is not None:
        context["chart"] = payments_chart(spec, paid["payments"])
        context["beliefs"] = belief_charts(_beliefs(campaign, shown["head"] or "", repr(paid["day"]), result))
        day = next(each for each in result.rounds if each.day == paid["day"])
        context["total"] = spec.show(sum(payment.payment for payment in day.payments))
        context["left"] = spec.show(spec.round_budget - sum(payment.payment for payment in day.payments))
    template = "part_reports.html" if is_part(request) else "round.html"
    status = 200 if error is None else int(getattr(error, "status", 422))
    response = page(request, who, template, status=status, problem=None if error is None else str(error), **context)
    if is_part(request) and shown["state"] != "open":
        response.headers["HX-Refresh"] = "true"  # the round has closed meanwhile: there is more to see
    return response


class _Known:
    """A result under a key, so that what was computed of it once is kept."""

    def __init__(self, key: tuple[str, ...], result: Result) -> None:
        self.key, self.result = key, result

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self.key == other.key


def _beliefs(campaign: str, head: str, day: str, result: Result) -> list[Belief]:
    return _learned(_Known((campaign, head, day), result))


@lru_cache(maxsize=64)
def _learned(known: _Known) -> list[Belief]:
    """Return prior and posterior of what was to be learned, where they can be drawn."""
    reports = [report for report in known.result.reports if repr(report.day) == known.key[2]]
    try:
        return beliefs_of(known.result.campaign, reports)
    except (TrothError, ArithmeticError, ValueError, TypeError, LookupError, MemoryError):
        return []


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
