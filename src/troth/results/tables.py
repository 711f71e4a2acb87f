"""Payments as a table of text, a line each: printed, on a terminal and in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from troth.results.explanation import printable

if TYPE_CHECKING:
    from troth.results.result import Result

_MOST_LINES = 60


def payment_table(result: Result) -> tuple[list[str], list[list[str]]]:
    """Return the head and the lines of the table; days come first where there are days."""
    campaign = result.campaign
    every = [(paid.day, payment) for paid in result.rounds for payment in paid.payments]
    scored = any(payment.score is not None for _, payment in every)
    head = ["day"] * campaign.daily + ["provider", "rows" if campaign.task is None else "tasks"] + ["score"] * scored
    lines = []
    for day, payment in every:
        score = "–" if payment.score is None else f"{payment.score:.4f}"
        cells = [str(day)] * campaign.daily + [printable(payment.provider), f"{payment.rows:,}"] + [score] * scored
        lines.append([*cells, f"{payment.share:.2%}", campaign.text(payment.payment)])
    return [*head, "share of cap", f"payment {campaign.currency}".strip()], lines


def as_text(result: Result) -> str:
    """Return the headline and the table, names to the left and numbers to the right; of many lines the ends."""
    head, lines = payment_table(result)
    shown = lines if len(lines) <= _MOST_LINES else [*lines[:30], ["…"] * len(head), *lines[-29:]]
    widths = [max(len(row[i]) for row in [head, *shown]) for i in range(len(head))]
    names = head.index("provider")
    text = [result.headline()]
    for row in [head, *shown]:
        cells = [c.ljust(w) if i <= names else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        text.append("  " + "  ".join(cells).rstrip())
    if result.effective_candidates is not None:
        text.append(f"  {result.effective_candidates}")
    text += [f"  note: {note}" for note in result.notes]
    return "\n".join(text)
