"""The modules of the package by folder, each with the first line of its docstring."""

from __future__ import annotations

import ast
from pathlib import Path

import troth

PACKAGE = Path(troth.__file__).parent


def summaries(package: Path = PACKAGE) -> dict[str, dict[str, str]]:
    """Return the first line of each module's docstring by folder and module name."""
    folders: dict[str, dict[str, str]] = {}
    for path in sorted(package.rglob("*.py")):
        if not path.name.startswith("__"):
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            folder = path.parent.relative_to(package.parent).as_posix()
            folders.setdefault(folder, {})[path.stem] = docstring.partition("\n")[0]
    return folders


def table() -> str:
    """Return a Markdown table of modules for each folder."""
    lines = []
    for folder, modules in summaries().items():
        lines += [f"## {folder}", "", "| module | what is inside |", "|---|---|"]
        lines += [f"| `{name}` | {summary.replace('|', '&#124;')} |" for name, summary in modules.items()] + [""]
    return "\n".join(lines)
