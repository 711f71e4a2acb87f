"""Tables that benchmarks write to pages of the documentation."""

from __future__ import annotations

from pathlib import Path


def replace_table(page: Path, marker: str, lines: list[str]) -> None:
    """Replace what is between ``<!-- marker -->`` and ``<!-- end of marker -->`` on a page."""
    before, rest = page.read_text().split(f"<!-- {marker} -->\n", 1)
    after = rest.split(f"<!-- end of {marker} -->", 1)[1]
    table = "\n".join(lines).rstrip("\n")
    page.write_text(f"{before}<!-- {marker} -->\n{table}\n<!-- end of {marker} -->{after}")
