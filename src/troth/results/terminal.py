"""How results look on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from troth.results.tables import shown_table

if TYPE_CHECKING:
    from troth.results.result import Result

_MOST_ROWS = 60


def print_result(result: Result) -> None:
    """Print a table with a bar for each share."""
    head, lines, shares, left_out = shown_table(result)
    table = Table(title=Text(result.headline()), title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in [*head[:-1], "", head[-1]]:
        table.add_column(Text(name), justify="left" if name in ("day", "provider", "") else "right")
    bars = ["█" * round(20 * max(share, 0.0)) for share in shares]
    rows = [[*line[:-1], bar, line[-1]] for line, bar in zip(lines, bars, strict=True)]
    for row in rows if len(rows) <= _MOST_ROWS else [*rows[:30], *rows[-29:]]:
        table.add_row(*map(Text, row))
    console = Console()
    console.print(table)
    if len(rows) > _MOST_ROWS:
        console.print(f"… {len(rows) - 59:,} more in the ledger and on the page")
    if left_out:
        console.print(left_out)
    if result.effective_candidates is not None:
        console.print(Text(f"\n{result.effective_candidates}"))
    for note in result.notes:
        console.print(Text(f"note: {note}"))
