"""Why a payment is what it is, in words and with its own numbers."""

from __future__ import annotations

import unicodedata
from math import exp, isinf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from troth.campaigns.settle import Payment
    from troth.campaigns.terms import Campaign


def printable(text: str) -> str:
    r"""Return text without what would move a terminal's cursor, change its colours or turn its lines around.

    Examples
    --------
    >>> printable("a\x1b[2Jb")
    'a�[2Jb'
    """
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)


def steps(campaign: Campaign, payment: Payment) -> list[tuple[str, str, str]]:
    """Return the steps from data to money: what it is, its value, and what it means."""
    p, rule = payment, campaign.rule
    rows: list[tuple[str, str, str]] = []
    if p.log_pmi is not None:
        rows.append(("log PMI with peers", f"{p.log_pmi:+.4f} nats", odds_in_words(p.log_pmi)))
    share_of = rule.steps(p)
    for step in share_of:
        rows += [(label, f"{value:.4f}", "") for label, value in step.terms]
        if step.scale is not None:
            scale = f"on the scale from {step.scale.low:.4f} to {step.scale.high:.4f}, fixed before anybody reported"
            rows.append(("score", f"{step.scale.score:.4f}", scale))
    last = share_of[-1]
    reason = f"= {last.calculation}" if last.calculation else "" if last.scale else last.meaning
    rows.append(("share of the cap", f"{p.share:.4%}", reason))
    rows.append(("cap", campaign.show(p.cap), "the most that this provider could earn"))
    if p.deposit:
        rows.append(("deposit", campaign.show(p.deposit), "put down beforehand; a negative payment is taken from it"))
    rows.append(("payment", campaign.show(p.payment), "share × cap, rounded down to the smallest coin"))
    always = ", whatever peers report" if rule.constant_empty_share else ""
    rows.append(("for an empty report", f"{p.empty_share:.2%}", f"of the cap{always}"))
    if campaign.public:
        known = campaign.public.get(None)
        size = "of the day" if known is None else f"{known.rows:,} rows"
        rows.append(("public data", size, "everybody knows these: a report is worth what it says beyond them"))
    if p.note:
        rows.append(("note", p.note, ""))
    return rows


def explain(campaign: Campaign, payment: Payment) -> str:
    """Explain a payment in lines of text."""
    lines = [f"{printable(payment.provider)}: {payment.rows:,} rows, paid {campaign.show(payment.payment)}"]
    rows = steps(campaign, payment)
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    for what, value, meaning in rows:
        lines.append(f"  {what:<{widths[0]}}  {value:<{widths[1]}}  {meaning}".rstrip())
    return "\n".join(lines)


def odds_in_words(log_pmi: float) -> str:
    """Say in words what log PMI says."""
    if isinf(log_pmi):
        return "these data and the peers' cannot occur together"
    if abs(log_pmi) < 0.005:
        return "these data and the peers' say nothing about each other"
    factor = exp(min(abs(log_pmi), 700.0))
    shown = f"{factor:,.2f}" if factor < 100 else f"{factor:,.0f}" if factor < 1e6 else f"{factor:.2g}"
    more = "more" if log_pmi > 0 else "less"
    return f"these data and the peers' are {shown} times {more} likely together than if they were unrelated"
