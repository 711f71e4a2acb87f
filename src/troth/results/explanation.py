"""Why a payment is what it is, in words and with its own numbers."""

from __future__ import annotations

import unicodedata
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
    p = payment
    found: list[tuple[str, str, str]] = []
    if p.log_pmi is not None:
        odds = _odds(p.log_pmi)
        found.append(("log PMI with peers", f"{p.log_pmi:+.4f} nats", odds))
    for term, value in p.terms.items():
        found.append((term, f"{value:.4f}", ""))
    if p.score is not None and p.low is not None and p.high is not None:
        scale = f"on the scale from {p.low:.4f} to {p.high:.4f}, fixed before anybody reported"
        found.append(("score", f"{p.score:.4f}", scale))
        if p.share not in (0.0, 1.0) and not p.deposit:
            sum_ = f"({p.score:.4f} − {p.low:.4f}) / ({p.high:.4f} − {p.low:.4f})"
            found.append(("share of the cap", f"{p.share:.4%}", f"= {sum_}"))
        else:
            found.append(("share of the cap", f"{p.share:.4%}", ""))
    else:
        found.append(
            ("share of the cap", f"{p.share:.4%}", "nothing is scored: everybody gets the cap" if p.share == 1 else "")
        )
    found.append(("cap", campaign.show(p.cap), "the most that this provider could earn"))
    if p.deposit:
        found.append(("deposit", campaign.show(p.deposit), "put down beforehand; a negative payment is taken from it"))
    found.append(("payment", campaign.show(p.payment), "share × cap, rounded down to the smallest coin"))
    found.append(
        ("for an empty report", f"{p.nothing:.2%}", "of the cap, whatever peers report" if p.nothing else "of the cap")
    )
    if p.note:
        found.append(("note", p.note, ""))
    return found


def explain(campaign: Campaign, payment: Payment) -> str:
    """Explain a payment in lines of text."""
    lines = [f"{printable(payment.provider)}: {payment.rows:,} rows, paid {campaign.show(payment.payment)}"]
    rows = steps(campaign, payment)
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    for what, value, meaning in rows:
        lines.append(f"  {what:<{widths[0]}}  {value:<{widths[1]}}  {meaning}".rstrip())
    return "\n".join(lines)


def _odds(log_pmi: float) -> str:
    """Say in words what log PMI says."""
    from math import exp, isinf

    if isinf(log_pmi):
        return "these data and the peers' cannot occur together"
    if abs(log_pmi) < 0.005:
        return "these data and the peers' say nothing about each other"
    factor = exp(min(abs(log_pmi), 700.0))
    shown = f"{factor:,.2f}" if factor < 100 else f"{factor:,.0f}" if factor < 1e6 else f"{factor:.2g}"
    more = "more" if log_pmi > 0 else "less"
    return f"these data and the peers' are {shown} times {more} likely together than if they were unrelated"
