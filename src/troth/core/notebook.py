"""How results look in a notebook: a title and a table."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def html_table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> str:
    """Return a title, a table and a note as HTML, all of it escaped.

    Examples
    --------
    >>> html_table("lies", ["lie", "gain"], [["a < b", 1]])
    '<p><b>lies</b></p><table><tr><th>lie</th><th>gain</th></tr><tr><td>a &lt; b</td><td>1</td></tr></table>'
    """
    cells = [("th", head), *(("td", row) for row in rows)]
    lines = ["".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in row) for tag, row in cells]
    table = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<p><b>{escape(title)}</b></p><table>{table}</table>" + (f"<p>{escape(note)}</p>" if note else "")
