"""The explanation of a payment: the rule's formula with this provider's numbers, step by step."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from latex2mathml.converter import convert
from markupsafe import Markup
from starlette.responses import Response

from troth.mechanisms import Figures
from troth.results.explanation import describe_data, describe_log_pmi
from troth.results.page import ASSUMED
from troth.results.pictures import draw_line, draw_score
from troth.results.task_page import assumed_of
from troth.service import campaigns, ledgers, payment_views, task_pay, views
from troth.service.pages.frame import Visit


def explain(visit: Visit, campaign: str, number: int, *, member: str | None = None) -> Response:
    """Explain a payment: any provider's to the analyst, and its own to a provider, once the round is published."""
    with visit.store.read() as tx:
        payments = payment_views.payment_of(tx, visit.user, campaign, number, member)
        (payment,), terms = payments.payments, campaigns.terms_of(campaigns.find_campaign(tx, campaign))
        context: dict[str, Any] = {
            "view": views.campaign_view(tx, visit.user, campaign),
            "round": views.round_view(tx, visit.user, campaign, number),
            "payment": payment,
            "assumed": ASSUMED if terms.task is None else assumed_of(terms),
        }
        context |= {name: getattr(payments, name) for name in ("seed", "commitment", "head", "root")}
        if terms.task is not None:
            pay = task_pay.task_pay(tx, campaign, number, payment.provider)
            return visit.page("task_payment.html", pay=pay, **context)
        result = ledgers.load_result(tx, campaign)
    figures = Figures(**{field.name: getattr(payment, field.name) for field in fields(Figures)})
    is_analyst = visit.user.role == "analyst"
    context |= {
        "odds": None if figures.log_pmi is None else describe_log_pmi(figures.log_pmi),
        "steps": terms.rule.steps(figures),
        "rule": terms.rule,
        "mathml": mathml,
        "draw_score": draw_score,
        "draw_line": draw_line,
        "data": describe_data(result, payments.day, payment.provider, is_analyst) if result else "",
        "empty": terms.show(int(payment.empty_share * payment.cap.minor)),
    }
    return visit.page("explanation.html", **context)


def mathml(formula: str) -> Markup:
    """Convert a rule's formula from LaTeX to MathML, with line breaks where it allows them."""
    return Markup(" ".join(map(convert, formula.split(r"\allowbreak"))))  # noqa: S704 (rules are code, not input)
