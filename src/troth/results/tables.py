"""Payments as tables of text, for terminals and notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from troth.core.formats import money, number, printable, share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.results.result import Result

_MAX_LINES = 60


class TextTable(NamedTuple):
    """A table, the share of each line, and a note on what the table leaves out."""

    head: list[str]
    lines: list[list[str]]
    shares: list[float]
    left_out: str = ""

    def with_bars(self) -> TextTable:
        """Return the table with a bar for each share before its last column."""
        bars = [f"{'█' * round(20 * max(share, 0.0)):<20}" for share in self.shares]
        lines = [[*line[:-1], bar, line[-1]] for line, bar in zip(self.lines, bars, strict=True)]
        return self._replace(head=[*self.head[:-1], "", self.head[-1]], lines=lines)


def payment_table(result: Result) -> TextTable:
    """Return a table of all payments, with days in the first column if the campaign is daily."""
    campaign = result.campaign
    payments = [(paid_round.day, payment) for paid_round in result.rounds for payment in paid_round.payments]
    scored = any(payment.score is not None for _, payment in payments)
    head = ["day"] * campaign.daily + ["provider", "rows" if campaign.task is None else "tasks"] + ["score"] * scored
    lines = []
    for day, payment in payments:
        score = "–" if payment.score is None else number(payment.score)
        cells = [str(day)] * campaign.daily + [printable(payment.provider), f"{payment.rows:,}"] + [score] * scored
        lines.append([*cells, share(payment.share), money(campaign.amount(payment.payment))])
    head += ["share of cap", f"payment {campaign.currency}".strip()]
    return TextTable(head, lines, [payment.share for _, payment in payments])


def totals_table(result: Result) -> TextTable:
    """Return a table with one line per provider: days, rows, mean share and total payment."""
    campaign = result.campaign
    lines, shares = [], []
    for name, payments in result.by_provider.items():
        rows = sum(payment.rows for _, payment in payments)
        shares.append(sum(payment.share for _, payment in payments) / len(payments))
        total = money(campaign.amount(result.totals[name]))
        lines.append([printable(name), f"{len(payments):,}", f"{rows:,}", f"{shares[-1]:.2%}", total])
    count = sum(map(len, result.by_provider.values()))
    return TextTable(
        ["provider", "days", "rows", "mean share of cap", f"payments {campaign.currency}".strip()],
        lines,
        shares,
        f"sums of {count:,} payments on {len(result.rounds):,} days, which the ledger and the page have",
    )


def shown_table(result: Result) -> TextTable:
    """Return a table of all payments or, if there are many on several days, of providers' totals."""
    table = payment_table(result)
    return totals_table(result) if len(table.lines) > _MAX_LINES and len(result.rounds) > 1 else table


def aligned(table: TextTable) -> list[str]:
    """Return the lines of a table, names aligned left and numbers right; long tables are cut in the middle."""
    head, lines, _, left_out = table
    lines_shown = lines if len(lines) <= _MAX_LINES else [*lines[:30], ["…"] * len(head), *lines[-29:]]
    text = table_lines(head, lines_shown, right=head.index("provider") + 1)
    return [f"  {line}" for line in [*text, left_out] if line]


def table_lines(head: Sequence[str] | None, rows: Sequence[Sequence[str]], right: int | None = None) -> list[str]:
    """Return lines of aligned columns; columns from index ``right`` on are aligned right.

    Examples
    --------
    >>> table_lines(["name", "rows"], [["Ash", "4"]], right=1)
    ['name  rows', 'Ash      4']
    """
    columns = []
    for index, column in enumerate(zip(*([] if head is None else [head]), *rows, strict=True)):
        cells = [printable(cell) for cell in column]
        width = max(map(len, cells))
        align_right = right is not None and index >= right
        columns.append([cell.rjust(width) if align_right else cell.ljust(width) for cell in cells])
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]


def text_lines(result: Result, width: int = 0) -> list[str]:
    """Return the headline, the lines of the table, with bars if they fit into ``width``, and notes."""
    table = shown_table(result)
    lines = aligned(table.with_bars())
    text = [result.headline(), *(lines if max(map(len, lines)) <= width else aligned(table))]
    if result.effective_candidates is not None:
        text.append(f"  {result.effective_candidates}")
    text += [f"  note: {note}" for note in result.notes]
    return text
