"""Why a payment is what it is: the rule's formula with this provider's numbers, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from troth.results.page import ASSUMED
from troth.service import campaigns, rounds, views
from troth.service.access import SignedIn
from troth.service.accounts import User
from troth.service.errors import NotFoundError
from troth.service.pages.frame import page, store_of
from troth.service.requests import Identifier, Number

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from troth.campaigns.terms import Campaign
    from troth.service.responses import Payment, Payments


@dataclass(frozen=True)
class Scale:
    """Places on the bar of a score, in percent of its length.

    Attributes
    ----------
    score, empty
        Where this report's score is, and an empty report's.
    """

    score: float
    empty: float


def for_analyst(request: Request, campaign: Identifier, number: Number, member: Identifier, user: SignedIn) -> Response:
    """Explain any provider's payment to the analyst."""
    with store_of(request).read() as tx:
        found = views.payment_of(tx, user, campaign, number, member)
        spec = campaigns.terms_of(campaigns.owned(tx, user, campaign))
        return _explained(request, tx, user, spec, campaign, number, found)


def for_provider(request: Request, campaign: Identifier, number: Number, user: SignedIn) -> Response:
    """Explain its own payment to a provider, once the round is published."""
    with store_of(request).read() as tx:
        found = views.payments_view(tx, user, campaign, number)
        if not found.payments:
            raise NotFoundError("nothing was paid to you in this round")
        row, _ = campaigns.joined(tx, user, campaign)
        return _explained(request, tx, user, campaigns.terms_of(row), campaign, number, found)


def _explained(
    request: Request, tx: Connection, user: User, spec: Campaign, campaign: str, number: int, found: Payments
) -> Response:
    payment = found.payments[0]
    view = views.campaign_view(tx, user, campaign)
    held = rounds.find_round(tx, campaign, number)
    steps = {step.what: step for step in payment.steps}
    context = {
        "view": view,
        "round": {"number": number, "day": found.day, "published": held.published},
        "payment": payment,
        "steps": steps,
        "rule": kind_of(spec, payment),
        "divergence": (spec.plain.get("mechanism") or {}).get("divergence", "logistic"),
        "draws": (spec.plain.get("mechanism") or {}).get("draws", 64),
        "bonded": spec.mechanism is not None and spec.mechanism.bonded,
        "scale": scale_of(payment),
        "empty": spec.show(int(payment.nothing * payment.cap.minor)),
        "seed": found.seed,
        "commitment": found.commitment,
        "head": found.head,
        "assumed": ASSUMED,
    }
    return page(request, user, "explanation.html", **context)


def kind_of(spec: Campaign, payment: Payment) -> str:
    """Return which formula made a payment: that of the rule, or of the last day's."""
    if payment.score is None:
        return "equal" if payment.share == 1 else "none"
    terms = " ".join(payment.terms)
    if "next day's peers" in terms:
        return "MultiDay"
    if "drawn peers" in terms:
        return "SyntheticPeers"
    mechanism = spec.plain.get("mechanism") or {}
    last = mechanism.get("last")
    name = last.get("rule") if isinstance(last, dict) else last
    return str(name or mechanism.get("rule", "SyntheticPeers"))


def scale_of(payment: Payment) -> Scale | None:
    """Return where the score is on its scale, or None where nothing is scored."""
    low, high, score = payment.low, payment.high, payment.score
    if score is None or low is None or high is None or not high > low:
        return None
    place = min(100.0, max(0.0, 100 * (score - low) / (high - low)))
    empty = min(100.0, max(0.0, 100 * payment.terms.get("share paid for nothing", payment.nothing)))
    return Scale(round(place, 2), round(empty, 2))
