"""How results look on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from troth.results.explanation import printable

if TYPE_CHECKING:
    from troth.results.result import Result

_MOST_ROWS = 60


def print_result(result: Result) -> None:
    """Print a table with a bar for each share."""
    campaign = result.campaign
    table = Table(title=Text(result.headline()), title_justify="left", title_style="bold", box=None, pad_edge=False)
    if campaign.daily:
        table.add_column("day")
    for name in ("provider", "rows", "score", "share of cap", "", f"payment {campaign.currency}".strip()):
        table.add_column(Text(name), justify="left" if name in ("provider", "") else "right")
    lines = [(paid.day, payment) for paid in result.rounds for payment in paid.payments]
    for day, payment in lines if len(lines) <= _MOST_ROWS else [*lines[:30], *lines[-29:]]:
        bar = "█" * round(20 * max(payment.share, 0.0))
        score = "–" if payment.score is None else f"{payment.score:.4f}"
        cells = [
            printable(payment.provider),
            f"{payment.rows:,}",
            score,
            f"{payment.share:.2%}",
            bar,
            campaign.text(payment.payment),
        ]
        table.add_row(*(Text(str(cell)) for cell in ([str(day), *cells] if campaign.daily else cells)))
    console = Console()
    console.print(table)
    if len(lines) > _MOST_ROWS:
        console.print(f"… {len(lines) - 59:,} more in the ledger and the report")
