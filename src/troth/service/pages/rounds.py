"""A round: its reports, closing and publishing it, its payments and beliefs, and the remedies if it cannot be paid."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from troth.core.effective_candidates import EffectiveCandidates
from troth.core.errors import TrothError
from troth.operations import ROUND
from troth.results.beliefs import Belief
from troth.results.findings import rows_left_out
from troth.results.pictures import draw_round
from troth.results.result import Result
from troth.service import campaigns, ledgers, payment_views, rounds, settlement, views
from troth.service.errors import ConflictError
from troth.service.pages import provider
from troth.service.pages.forms import Fields
from troth.service.pages.frame import Visit, changes, is_part, settles
from troth.service.preview import learned
from troth.service.responses import DryRun


def round_page(visit: Visit, campaign: str, number: int) -> Response:
    """Show a round to the analyst, or to a provider."""
    user, part = visit.user, is_part(visit.request)
    if user.role == "provider":
        return provider.round_page(visit, campaign, number)
    with visit.store.read() as tx:
        terms = campaigns.terms_of(campaigns.owned(tx, user, campaign))
        row = rounds.find_round(tx, campaign, number)
        (view,) = views.own_rounds(tx, terms, [row])
        reporters = rounds.reporters(tx, row.id)
        paid = payment_views.payments_view(tx, user, campaign, number) if row.state == "paid" else None
        result = ledgers.load_result(tx, campaign)
        context: dict[str, Any] = {
            "view": views.own_campaign(tx, user, campaign),
            "round": view,
            "members": [member for member in campaigns.list_members(tx, campaign) if member.name in terms.providers],
            "reports": reporters,
            "left_out": rows_left_out(list(reporters.values())),
            "paid": paid,
            "picture": None,
            "beliefs": [],
            "candidates": None,
        }
    if paid is not None and paid.payments and result is not None:
        payments = next(paid_round for paid_round in result.rounds if paid_round.day == paid.day).payments
        total = sum(payment.payment for payment in payments)
        context["picture"] = draw_round(terms, payments)
        if terms.task is None:
            context["beliefs"] = _beliefs(campaign, view.head or "", paid.day, result)
            context["candidates"] = result.candidates_on(paid.day)
        context["total"], context["left"] = terms.show(total), terms.show(terms.round_budget - total)
    response = visit.page("part_reports.html" if part else "round.html", **context)
    if part and view.state != "open":
        response.headers["HX-Refresh"] = "true"  # the round has closed meanwhile, so the whole page changes
    return response


_MAX_CACHED = 64
_cache: dict[tuple[str, str, str], list[Belief]] = {}


def _beliefs(campaign: str, head: str, day: Any, result: Result) -> list[Belief]:
    """Return prior and posterior of the round's parameters, if they can be drawn; the result is cached."""
    key = (campaign, head, repr(day))
    if key not in _cache:
        reports = [report for report in result.reports if report.day == day]
        try:
            _cache[key] = learned(dict(result.campaign.plain), reports)
        except TrothError:
            return []  # too much to draw, or too many requests
        while len(_cache) > _MAX_CACHED:
            _cache.pop(next(iter(_cache)), None)
    return _cache[key]


def close_page(
    visit: Visit,
    campaign: str,
    number: int,
    *,
    trial: DryRun | None = None,
    candidates: EffectiveCandidates | None = None,
) -> Response:
    """Ask for confirmation before a round is closed, and show the dry run if there was one."""
    with visit.store.read() as tx:
        view = views.own_campaign(tx, visit.user, campaign)
        round_view = views.round_view(tx, visit.user, campaign, number)
        terms = campaigns.terms_of(campaigns.owned(tx, visit.user, campaign))
    if round_view.state != "open":
        raise ConflictError("the round is closed")
    context = {"expected": len(terms.providers), "trial": trial, "candidates": candidates}
    return visit.page("close.html", view=view, round=round_view, **context)


close = settles(
    settlement.close_round,
    ROUND,
    "closed",
    final=lambda form: form.has("final"),
    anyway=lambda form: form.has("anyway"),
)
publish = changes(rounds.publish, ROUND, "published")
reopen = changes(settlement.reopen, ROUND, "reopened", deadline=Fields.deadline)
set_aside = settles(settlement.set_aside, ROUND, "aside")


def dry_run(visit: Visit, campaign: str, number: int) -> Response:
    """Show what closing the round now would pay, and whether the model fits."""
    final = visit.form.has("final")
    result, verdict = settlement.dry_run(visit.store, visit.user, campaign, number, final=final)
    trial = views.dry_run_view(result, verdict)
    return close_page(visit, campaign, number, trial=trial, candidates=result.effective_candidates)
