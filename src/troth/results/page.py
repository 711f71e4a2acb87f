"""The page: one HTML file without network access, readable on phones, in dark mode and on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from troth.history.findings import HONEST_PAST, INDEPENDENT_PAST
from troth.history.splits import SPLITS
from troth.results.explanation import describe_data, steps
from troth.results.findings import check_result, rows_left_out
from troth.results.pictures import draw_line, draw_payments
from troth.results.templating import make_environment

if TYPE_CHECKING:
    from troth.results.result import Result

ASSUMED = (
    "providers' datasets have nothing in common but what they are about (θ): copies and shared errors break this",
    "the prior and likelihood are right: a poor fit weakens the guarantee by as much as it misleads honest providers",
    "each provider sends one dataset and knows only its own; related accounts are declared as groups",
    "the order of rows says nothing, and nobody chooses their number by looking at the data",
)
ASSUMED_OF_PUBLIC = (
    "the public data are known to everybody, and have nothing in common with the reports but what both are about (θ)"
)
_MAX_BYTES, _MAX_BYTES_WITH_REASONS = 1_400_000, 1_000_000
_MAX_EXPLAINED_DAYS = 5
_MIN_LOG_PMI = -10.0  # nats; reports with less hardly agree with their peers

_environment = make_environment()


def render(result: Result, **options: Any) -> str:
    """Return the page of a result as HTML; options are those of `troth.results.findings.check_result`."""
    last = result.rounds[-1].payments if result.rounds else ()
    empty_shares = [payment.empty_share for paid_round in result.rounds for payment in paid_round.payments]
    rows, explained = _payment_rows(result)
    return _environment.get_template("results/page.html").render(
        result=result,
        campaign=result.campaign,
        findings=check_result(result, **options),
        left_out=rows_left_out(result.reports),
        payments=draw_payments(result),
        rows=rows,
        explained=explained,
        empty_shares=(min(empty_shares, default=0.0), max(empty_shares, default=0.0)),
        negative=any(payment.deposit for payment in last),
        disagreeing=[p.provider for p in last if p.log_pmi is not None and p.log_pmi < _MIN_LOG_PMI],
        cap=sum(payment.cap for payment in last) / max(1, len(last)),
        head=result.ledger.of("round")[-1] if result.rounds else None,
        seed=next((paid_round.seed for paid_round in reversed(result.rounds) if paid_round.seed is not None), None),
        assumed=(*ASSUMED, *((ASSUMED_OF_PUBLIC,) if result.campaign.public else ())),
        split_meaning=SPLITS["rolling"],
        assumed_of_past=(HONEST_PAST, INDEPENDENT_PAST),
    )


def _payment_rows(result: Result) -> tuple[list[Markup], int]:
    """Return the table rows of as many providers as fit into the page, and the number of rows with explanations."""
    template = _environment.get_template("results/payment_row.html")
    rows: list[Markup] = []
    size = explained = 0
    for name, payments in result.by_provider.items():
        reasons = []
        if size < _MAX_BYTES_WITH_REASONS:
            for day, payment in payments[-_MAX_EXPLAINED_DAYS:]:
                explanation = steps(result.campaign, payment, describe_data(result, day, name))
                lines = [step.line for step in result.campaign.rule.steps(payment) if step.line is not None]
                reasons.append((day, explanation, [draw_line(line) for line in lines]))
        log_pmi = [payment.log_pmi for _, payment in payments if payment.log_pmi is not None]
        row = template.render(
            name=name,
            rows=sum(payment.rows for _, payment in payments),
            log_pmi=float(np.mean(log_pmi)) if log_pmi else None,
            share=float(np.mean([payment.share for _, payment in payments])),
            total=result.totals[name],
            amount=result.campaign.amount(result.totals[name]),
            reasons=reasons,
            days=len(payments),
        )
        size += len(row.encode())
        if size > _MAX_BYTES:
            break
        explained += bool(reasons)
        rows.append(Markup(row))  # noqa: S704 (rendered with everything escaped)
    return rows, explained
