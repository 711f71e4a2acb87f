"""Explanations of payments, step by step with their numbers."""

from __future__ import annotations

from math import exp, isinf
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from troth.core.contract import HasReduction, explains_target
from troth.core.formats import counted, few_digits, number, printable, share, share_in_full
from troth.core.reductions.reduction import DescribesSummary, FitsCoefficients
from troth.data.request import level_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.campaigns.settle import Payment
    from troth.campaigns.terms import Campaign
    from troth.core.contract import Array
    from troth.data import Day
    from troth.mechanisms import Line
    from troth.results.result import Result

_LAST_DAYS = 5
_FEATURES = 6  # that are named with their coefficients
_DOTS = 60  # the most dots of a line in a terminal


def steps(campaign: Campaign, payment: Payment, data: str = "") -> list[tuple[str, str, str]]:
    """Return the steps from data to money, each with its name, value and meaning.

    ``data`` describes what the provider and its peers reported, see `describe_data`.
    """
    if campaign.task is not None:
        return _task_steps(campaign, payment)
    p, rule = payment, campaign.rule
    rows: list[tuple[str, str, str]] = []
    log_pmi = []
    if p.log_pmi is not None:
        log_pmi = [("log PMI with peers", f"{number(p.log_pmi, sign=True)} nats", describe_log_pmi(p.log_pmi))]
    if data:
        rows.append(("data", data, ""))
    share_of = rule.steps(p)
    first = rule.log_pmi_first and all(step.line is None for step in share_of)
    if first:
        rows += log_pmi
    for step in share_of:
        if step.line is not None:
            rows.append((step.line.label, step.line.value, step.meaning))
        elif step.symbol == "share" and step.scale is None and step is not share_of[-1]:
            rows.append((step.title.lower(), step.value, step.meaning))
        rows += [(label, number(float(value)), "") for label, value in step.terms]
        if step.scale is not None:
            low, high, score = (number(float(value)) for value in (step.scale.low, step.scale.high, step.scale.score))
            rows.append(("score", score, f"on the scale from {low} to {high}, fixed before anybody reported"))
    last = share_of[-1]
    reason = f"= {last.calculation}" if last.calculation else "" if last.scale else last.meaning
    rows.append(("share of the cap", share_in_full(p.share), reason))
    rows.append(("cap", campaign.show(p.cap), "the most that this provider could earn"))
    if p.deposit:
        rows.append(("deposit", campaign.show(p.deposit), "paid in advance; a negative payment is taken from it"))
    rows.append(("payment", campaign.show(p.payment), "share × cap, rounded down to the smallest coin"))
    holds = f", {rule.empty_share_holds}" if rule.empty_share_holds else ""
    rows.append(("for an empty report", f"{p.empty_share:.2%}", f"of the cap{holds}"))
    if not first:
        rows += log_pmi
    if campaign.public:
        public_report = campaign.public.get(None)
        size = "of the day" if public_report is None else counted(public_report.rows, "row")
        rows.append(("public data", size, "known to everybody: a report is paid for what it adds"))
    if p.note and all(p.note not in row for row in rows):
        rows.append(("note", p.note, ""))
    return rows


def _task_steps(campaign: Campaign, payment: Payment) -> list[tuple[str, str, str]]:
    """Return the steps from shares of many tasks to money."""
    alone = int(payment.terms["without_peers"])
    always = ", whatever peers answer" if campaign.rule.constant_empty_share else ""
    rows = [("tasks", f"{payment.rows:,}", "each is a round among its workers")]
    if alone:
        rows.append(("without a peer", counted(alone, "task"), "nobody else worked on them: the empty share"))
    return [
        *rows,
        ("sum of shares", f"{payment.terms['shares']:,.2f}", "one for each task, from 0 to 1"),
        ("at most", campaign.show(payment.cap), "for a share of 1 on every task"),
        ("payment", campaign.show(payment.payment), "sum of shares × price, rounded down once"),
        ("empty share", f"{payment.empty_share:.2%}", f"of the price, for an uninformative answer{always}"),
    ]


def describe_data(result: Result, day: Day, provider: str, peers: bool = True) -> str:
    """Compare the averages of a provider's data and its peers', as in "Your rate is 57%; your peers' is 41%".

    Without ``peers`` only its own data are described. The data of a single peer are never revealed.
    """
    campaign, reports = result.campaign, result.reports_by_day.get(day, {})
    if provider not in reports:
        return ""
    average = _averages(campaign, "your", reports[provider].summary)
    if not peers:
        return f"{average[0].upper()}{average[1:]}." if average else ""
    group = campaign.group_of(provider)
    related = {name for name in campaign.groups if campaign.group_of(name) == group} & reports.keys() | {provider}
    if len(reports) - len(related) < 2:
        return ""
    own = np.sum([reports[name].summary for name in related], axis=0)
    peer_average = _averages(campaign, "your peers'", result.summaries_by_day[day] - own)
    return f"{average[0].upper()}{average[1:]}; {peer_average}." if average and peer_average else ""


def _averages(campaign: Campaign, possessive: str, summary: Array) -> str:
    """Describe the average of rows: a rate, shares, means, or fitted coefficients."""
    reduction = campaign.model.reduction if isinstance(campaign.model, HasReduction) else None
    if isinstance(reduction, FitsCoefficients) and explains_target(campaign.model):
        fitted = _equation(campaign, reduction, summary)
        if fitted:
            return f"from {possessive} rows, {fitted}"
        if reduction.predicts and reduction.rows(summary) > 0:
            return f"{possessive} rows alone do not determine all coefficients"
    if not isinstance(reduction, DescribesSummary):
        return ""
    text = reduction.describe(summary, campaign.categories)
    if text is None:
        return ""
    noun, verb = text.noun, "are" if text.plural else "is"
    if len(campaign.columns) > 1 and not explains_target(campaign.model):
        noun += f" of {', '.join(str(name) for name in campaign.columns[:_FEATURES])}"
    return f"your {noun} {verb} {text.value}" if possessive == "your" else f"{possessive} {verb} {text.value}"


def _equation(campaign: Campaign, reduction: FitsCoefficients, summary: Array) -> str:
    """Return a fitted equation in the columns' units, such as "price ≈ 1.2 + 3 × area"; empty if there is none."""
    *names, target = level_names(campaign.columns, campaign.levels)
    if not reduction.predicts or not np.isfinite(slopes := reduction.coefficients(summary)).all():
        return ""
    label = f"{target} = {campaign.categories[1]}" if campaign.categories else str(target)
    units = {name: unit for name, unit in zip(campaign.columns, campaign.scales, strict=False) if unit is not None}
    constant, size = units.get(target, (0.0, 1.0))
    parts = []
    for name, slope in zip(names, slopes, strict=True):
        centre, scale = units.get(name, (0.0, 1.0))
        constant += size * slope * (1.0 if name is None else -centre / scale)
        if name is not None:
            parts.append(f" {'−' if slope < 0 else '+'} {few_digits(abs(size * slope / scale), 3)} × {name}")
    terms = "".join(parts[:_FEATURES]) + " + …" * (len(parts) > _FEATURES)
    return f"{reduction.predicts.format(label)} ≈ {few_digits(constant, 3)}{terms}"


def strip(line: Line) -> str:
    """Draw a line with characters, the best fit first: a ring for the real peers, and dots for the others.

    Examples
    --------
    >>> from troth.mechanisms import Line
    >>> strip(Line(9, 2.0, 0.0))
    'best ··◉······· worst'
    """
    dots = _DOTS if line.count is None else min(line.count, _DOTS)
    place = round(dots * (line.above + line.tied / 2) / (line.count or 1))
    return f"best {'·' * place}◉{'·' * (dots - place)} worst"


def explain(campaign: Campaign, payment: Payment, data: str = "") -> str:
    """Explain a payment in lines of text."""
    size = counted(payment.rows, "row" if campaign.task is None else "task")
    lines = [f"{printable(payment.provider)}: {size}, paid {campaign.show(payment.payment)}"]
    rows = steps(campaign, payment, data)
    if campaign.task is None:
        pictures = [
            ("the line", strip(step.line), "") for step in campaign.rule.steps(payment) if step.line is not None
        ]
        rows[bool(data) : bool(data)] = pictures
    widths = [max(len(label) for label, _, _ in rows), max(len(value) for _, value, meaning in rows if meaning)]
    for label, value, meaning in rows:
        lines.append(f"  {label:<{widths[0]}}  {value:<{widths[1]}}  {meaning}".rstrip())
    return "\n".join(lines)


def explain_days(campaign: Campaign, payments: Sequence[tuple[Day, Payment]]) -> str:
    """Explain a provider's payments in total, on the best and the worst day, and on the last days."""
    total = sum(payment.payment for _, payment in payments)
    mean = fmean(payment.share for _, payment in payments)
    empty = fmean(payment.empty_share for _, payment in payments)
    name, cap = printable(payments[0][1].provider), sum(payment.cap for _, payment in payments)
    lines = [
        f"{name}: {campaign.show(total)} for {counted(len(payments), 'day')}, out of at most {campaign.show(cap)}; "
        f"mean share {share(mean)}, mean empty share {share(empty)}"
    ]
    ordered = sorted(payments, key=lambda entry: entry[1].share)
    periods = {"best": ordered[-1:], "worst": ordered[:1], "last": payments[-_LAST_DAYS:]}
    for heading, selected in periods.items():
        for day, payment in selected:
            amount = campaign.show(payment.payment)
            lines.append(
                f"  {heading:<6} day {day}  {counted(payment.rows, 'row'):>10}  {share(payment.share):>8}  {amount}"
            )
    return "\n".join([*lines, "--day DAY explains the payment of one day"])


def describe_log_pmi(log_pmi: float) -> str:
    """Describe the meaning of log PMI."""
    if isinf(log_pmi):
        return "these data and the peers' cannot occur together"
    if abs(log_pmi) < 0.005:
        return "these data and the peers' say nothing about each other"
    factor = exp(min(abs(log_pmi), 700.0))
    times = f"{factor:,.2f}" if factor < 100 else f"{factor:,.0f}" if factor < 1e6 else f"{factor:.2g}"
    comparative = "more" if log_pmi > 0 else "less"
    return f"these data and the peers' are {times} times {comparative} likely together than if they were unrelated"
