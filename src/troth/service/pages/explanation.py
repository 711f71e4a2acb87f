"""Why a payment is what it is: the rule's formula with this provider's numbers, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from troth.results.page import ASSUMED
from troth.results.pictures import Picture, draw_score
from troth.service import campaigns, rounds, views
from troth.service.access import identify
from troth.service.accounts import Who
from troth.service.errors import NotFoundError
from troth.service.pages.frame import page, store_of
from troth.service.requests import Identifier, Number

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from troth.campaigns.terms import Campaign

router = APIRouter(dependencies=[Depends(identify)], include_in_schema=False)
Somebody = Annotated[Who, Depends(identify)]


@router.get("/campaigns/{campaign}/rounds/{number}/payments/{member}")
def for_analyst(request: Request, campaign: Identifier, number: Number, member: Identifier, who: Somebody) -> Response:
    """Explain any provider's payment to the analyst."""
    with store_of(request).read() as tx:
        found = views.payment_of(tx, who, campaign, number, member)
        spec = campaigns.terms_of(campaigns.owned(tx, who, campaign))
        return _explained(request, tx, who, spec, campaign, number, found)


@router.get("/campaigns/{campaign}/rounds/{number}/payment")
def for_provider(request: Request, campaign: Identifier, number: Number, who: Somebody) -> Response:
    """Explain its own payment to a provider, once the round is published."""
    with store_of(request).read() as tx:
        found = views.payments_view(tx, who, campaign, number)
        if not found["payments"]:
            raise NotFoundError("nothing was paid to you in this round")
        row, _ = campaigns.joined(tx, who, campaign)
        return _explained(request, tx, who, campaigns.terms_of(row), campaign, number, found)


def _explained(
    request: Request, tx: Connection, who: Who, spec: Campaign, campaign: str, number: int, found: dict[str, Any]
) -> Response:
    payment = found["payments"][0]
    view = views.campaign_view(tx, who, campaign)
    held = rounds.find_round(tx, campaign, number)
    steps = {step["what"]: step for step in payment["steps"]}
    context = {
        "view": view,
        "round": {"number": number, "day": found["day"], "published": held.published},
        "payment": payment,
        "steps": steps,
        "rule": kind_of(spec, payment),
        "divergence": (spec.plain.get("mechanism") or {}).get("divergence", "logistic"),
        "draws": (spec.plain.get("mechanism") or {}).get("draws", 64),
        "bonded": spec.mechanism is not None and spec.mechanism.bonded,
        "scale": scale_of(payment),
        "empty": spec.show(int(payment["nothing"] * 10**spec.decimals * float(payment["cap"]))),
        "seed": found["seed"],
        "commitment": found["commitment"],
        "head": found["head"],
        "assumed": ASSUMED,
    }
    return page(request, who, "explanation.html", **context)


def kind_of(spec: Campaign, payment: dict[str, Any]) -> str:
    """Return which formula made a payment: that of the rule, or of the last day's."""
    if payment["score"] is None:
        return "equal" if payment["share"] == 1 else "none"
    terms = " ".join(payment["terms"])
    if "next day's peers" in terms:
        return "MultiDay"
    if "drawn peers" in terms:
        return "SyntheticPeers"
    mechanism = spec.plain.get("mechanism") or {}
    last = mechanism.get("last")
    name = last.get("rule") if isinstance(last, dict) else last
    return str(name or mechanism.get("rule", "SyntheticPeers"))


def scale_of(payment: dict[str, Any]) -> Picture | None:
    """Draw where the score is on its scale; None where nothing is scored."""
    low, high, score = payment["low"], payment["high"], payment["score"]
    if score is None or low is None or high is None or not high > low:
        return None
    return draw_score(score, low, high, payment["terms"].get("share paid for nothing", payment["nothing"]))
