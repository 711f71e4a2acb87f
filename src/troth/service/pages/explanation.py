"""Why a payment is what it is: the rule's formula with this provider's numbers, step by step."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from latex2mathml.converter import convert
from markupsafe import Markup
from sqlalchemy import Connection
from starlette.responses import Response

from troth.mechanisms import Figures
from troth.results.explanation import data_in_words, odds_in_words
from troth.results.page import ASSUMED
from troth.results.pictures import draw_line, draw_score
from troth.results.task_page import assumed_of
from troth.service import campaigns, ledgers, task_pay, views
from troth.service.pages.frame import Visit
from troth.service.requests import Identifier, Number
from troth.service.responses import Payments


def for_analyst(visit: Visit, campaign: Identifier, number: Number, member: Identifier) -> Response:
    """Explain any provider's payment to the analyst."""
    with visit.store.read() as tx:
        return _explained(visit, tx, views.payment_of(tx, visit.user, campaign, number, member))


def for_provider(visit: Visit, campaign: Identifier, number: Number) -> Response:
    """Explain its own payment to a provider, once the round is published."""
    with visit.store.read() as tx:
        return _explained(visit, tx, views.own_payment(tx, visit.user, campaign, number))


def _explained(visit: Visit, tx: Connection, payments: Payments) -> Response:
    user, campaign, payment = visit.user, payments.campaign, payments.payments[0]
    terms = campaigns.terms_of(campaigns.find_campaign(tx, campaign))
    context: dict[str, Any] = {
        "view": views.campaign_view(tx, user, campaign),
        "round": views.round_view(tx, user, campaign, payments.round),
        "payment": payment,
        "assumed": ASSUMED if terms.task is None else assumed_of(terms),
    }
    context |= {name: getattr(payments, name) for name in ("seed", "commitment", "head", "root")}
    if terms.task is not None:
        pay = task_pay.task_pay(tx, campaign, payments.round, payment.provider)
        return visit.page("task_payment.html", pay=pay, **context)
    figures = Figures(**{field.name: getattr(payment, field.name) for field in fields(Figures)})
    result = ledgers.load_result(tx, campaign)
    context |= {
        "odds": None if figures.log_pmi is None else odds_in_words(figures.log_pmi),
        "steps": terms.rule.steps(figures),
        "rule": terms.rule,
        "mathml": mathml,
        "draw_score": draw_score,
        "draw_line": draw_line,
        "data": data_in_words(result, payments.day, payment.provider, user.role == "analyst") if result else "",
        "empty": terms.show(int(payment.empty_share * payment.cap.minor)),
    }
    return visit.page("explanation.html", **context)


def mathml(formula: str) -> Markup:
    """Return a formula of a rule, which is LaTeX, as a page has it, with breaks where it allows them."""
    return Markup(" ".join(map(convert, formula.split(r"\allowbreak"))))  # noqa: S704 (rules are code, not input)
