"""Why a payment is what it is: the rule's formula with this provider's numbers, step by step."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from latex2mathml.converter import convert
from markupsafe import Markup
from sqlalchemy import Connection, Row
from starlette.requests import Request
from starlette.responses import Response

from troth.mechanisms import Figures, Scale
from troth.results.explanation import data_in_words, odds_in_words
from troth.results.page import ASSUMED
from troth.results.pictures import Picture, draw_line, draw_score
from troth.results.task_page import assumed_of
from troth.service import campaigns, ledgers, task_pay, views
from troth.service.access import SignedIn
from troth.service.accounts import User
from troth.service.errors import NotFoundError
from troth.service.pages.frame import page, store_of
from troth.service.requests import Identifier, Number
from troth.service.responses import Payments


def for_analyst(request: Request, campaign: Identifier, number: Number, member: Identifier, user: SignedIn) -> Response:
    """Explain any provider's payment to the analyst."""
    with store_of(request).read() as tx:
        payments = views.payment_of(tx, user, campaign, number, member)
        return _explained(request, tx, user, campaigns.owned(tx, user, campaign), payments)


def for_provider(request: Request, campaign: Identifier, number: Number, user: SignedIn) -> Response:
    """Explain its own payment to a provider, once the round is published."""
    with store_of(request).read() as tx:
        payments = views.payments_view(tx, user, campaign, number)
        if not payments.payments:
            raise NotFoundError("nothing was paid to you in this round")
        row, _ = campaigns.joined(tx, user, campaign)
        return _explained(request, tx, user, row, payments)


def _explained(request: Request, tx: Connection, user: User, row: Row[Any], payments: Payments) -> Response:
    payment, terms = payments.payments[0], campaigns.terms_of(row)
    context: dict[str, Any] = {
        "view": views.campaign_view(tx, user, row.id),
        "round": views.round_view(tx, user, row.id, payments.round),
        "payment": payment,
        "assumed": ASSUMED if terms.task is None else assumed_of(terms),
    }
    context |= {name: getattr(payments, name) for name in ("seed", "commitment", "head", "root")}
    if terms.task is not None:
        pay = task_pay.task_pay(tx, row.id, payments.round, payment.provider)
        return page(request, user, "task_payment.html", pay=pay, **context)
    figures = Figures(**{field.name: getattr(payment, field.name) for field in fields(Figures)})
    result = ledgers.load_result(tx, row.id)
    context |= {
        "odds": None if figures.log_pmi is None else odds_in_words(figures.log_pmi),
        "steps": terms.rule.steps(figures),
        "rule": terms.rule,
        "mathml": mathml,
        "drawn": drawn,
        "drawn_line": draw_line,
        "data": data_in_words(result, payments.day, payment.provider, user.role == "analyst") if result else "",
        "empty": terms.show(int(payment.empty_share * payment.cap.minor)),
    }
    return page(request, user, "explanation.html", **context)


def mathml(formula: str) -> Markup:
    """Return a formula of a rule, which is LaTeX, as a page has it, with breaks where it allows them."""
    return Markup(" ".join(map(convert, formula.split(r"\allowbreak"))))  # noqa: S704 (rules are code, not input)


def drawn(scale: Scale) -> Picture:
    """Draw where the score is on its scale, and an empty report's."""
    return draw_score(scale.score, scale.low, scale.high, scale.empty_share)
