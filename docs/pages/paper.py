"""The table of the paper's statements, from docs/paper.toml, linked to the code and the tests."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from pages.public_names import home

ROOT = Path(__file__).parents[2]
SECTIONS = {
    "3": "3 Model",
    "4": "4 Preliminaries",
    "5": "5 One-time data acquisition",
    "6": "6 Multiple-time data acquisition",
    "7": "7 Discussion",
    "A": "A Mathematical background",
    "B": "B Proof of a lemma",
    "C": "C One-time acquisition, in full",
    "D": "D Multiple-time acquisition, in full",
}
MECHANISMS = {"Mechanism 1": "5", "Mechanism 2": "6", "Mechanism 3": "C"}


@dataclass(frozen=True)
class Statement:
    """A numbered statement of the paper, the objects that implement it and the tests that check it."""

    number: str
    says: str
    objects: tuple[str, ...]
    tests: tuple[str, ...]
    errata: tuple[str, ...] = ()
    why: str = ""

    @property
    def section(self) -> str:
        """The section or appendix that contains it."""
        return MECHANISMS.get(self.number) or self.number.split()[1].split(".")[0]


def statements() -> list[Statement]:
    """Read docs/paper.toml."""
    with (ROOT / "docs" / "paper.toml").open("rb") as file:
        entries = tomllib.load(file)["statement"]
    return [
        Statement(
            entry["number"],
            entry["says"],
            tuple(entry["objects"]),
            tuple(entry["tests"]),
            tuple(entry.get("errata", ())),
            entry.get("why", ""),
        )
        for entry in entries
    ]


def look_up(path: str) -> Any:
    """Return the object with a full name such as ``troth.models.Finite.paper_bounds``."""
    first, *rest = path.split(".")
    value: Any = import_module(first)
    for depth, name in enumerate(rest, start=1):
        if isinstance(value, ModuleType) and not hasattr(value, name):
            value = import_module(".".join([first, *rest[:depth]]))
        else:
            value = getattr(value, name)
    return value


@cache
def tests_in(path: str) -> frozenset[str]:
    """Return the names of a file's test functions."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def has_test(node_id: str) -> bool:
    """Whether a test with this id exists."""
    path, _, name = node_id.partition("::")
    return (ROOT / path).is_file() and name in tests_in(path)


def table() -> str:
    """Return a Markdown table for each section of the paper."""
    lines: list[str] = []
    all_statements = statements()
    for key, title in SECTIONS.items():
        lines += [f"## {title}", "", "{.paper}", "| the paper | implemented by | checked by |", "|---|---|---|"]
        for statement in all_statements:
            if statement.section == key:
                lines.append(f"| {_statement(statement)} | {_objects(statement)} | {_tests(statement)} |")
        lines.append("")
    return "\n".join(lines)


def _statement(statement: Statement) -> str:
    errata = ", ".join(f"[{number}](../errata.md#{number.lower()})" for number in statement.errata)
    text = f"**{statement.number}** {statement.says}" + (f" ({errata})" if errata else "")
    return (f"{text}. *{statement.why[0].upper()}{statement.why[1:]}.*" if statement.why else text).replace("|", r"\|")


def _objects(statement: Statement) -> str:
    links = []
    for path in statement.objects:
        owner, _, name = path.rpartition(".")
        value = look_up(path)
        target = home(value)
        if target is None and (owner_target := home(look_up(owner))) is not None:
            target = f"{owner_target}.{name}"
        text = path.removeprefix("troth.")
        links.append(f"`{text}`" if target is None else f"{{py:obj}}`{text} <{target}>`")
    return "<br>".join(links)


def _tests(statement: Statement) -> str:
    for node_id in statement.tests:
        if not has_test(node_id):
            raise LookupError(f"docs/paper.toml: {statement.number}: there is no test {node_id}")
    return "<br>".join(f"`{node_id.removeprefix('tests/')}`" for node_id in statement.tests)
