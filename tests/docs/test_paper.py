"""The bridge to the paper: nothing is missing in it, and nothing that it names is gone."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from pages import paper

ROOT = Path(__file__).parents[2]
STATEMENTS = paper.statements()
NUMBERED = {  # how many of each kind the paper has, by section: they are numbered within sections
    "Assumption": {"3": 3},
    "Example": {"3": 2},
    "Definition": {"3": 4, "4": 6, "5": 1, "A": 5},
    "Lemma": {"3": 1, "4": 2, "A": 3, "B": 1, "C": 1},
    "Proposition": {"4": 1},
    "Theorem": {"5": 3, "6": 1, "C": 3, "D": 2},
    "Corollary": {"5": 1},
    "Claim": {"C": 2},
}
UNNUMBERED = {"Section 7", "Appendix C.3", "Appendix C.4", "Appendix C.5.2", "Appendix D.2"}
ERRATA = [f"E{number}" for number in range(1, 17)]


def test_every_statement_of_the_paper_is_listed_once() -> None:
    expected = [f"Mechanism {number}" for number in (1, 2, 3)] + [
        f"{kind} {section}.{number}"
        for kind, sections in NUMBERED.items()
        for section, most in sections.items()
        for number in range(1, most + 1)
    ]
    assert Counter(statement.number for statement in STATEMENTS) == Counter([*expected, *UNNUMBERED])


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.number)
def test_what_it_names_is_there(statement: paper.Statement) -> None:
    assert statement.objects
    assert statement.tests
    assert statement.section in paper.SECTIONS
    for path in statement.objects:
        assert paper.look_up(path).__doc__, path
    for node_id in statement.tests:
        assert paper.has_test(node_id), node_id
    assert set(statement.errata) <= set(ERRATA)


def test_what_is_gone_is_noticed() -> None:
    assert not paper.has_test("tests/mechanisms/test_truthful.py::test_nothing")
    assert not paper.has_test("tests/nowhere.py::test_multi_day")
    for path in ("troth.MultiDays", "troth.nowhere.MultiDay", "nowhere"):
        with pytest.raises((AttributeError, ModuleNotFoundError)):
            paper.look_up(path)


def test_every_erratum_is_met_and_demonstrated() -> None:
    assert {number for statement in STATEMENTS for number in statement.errata} == set(ERRATA)
    page = (ROOT / "docs" / "errata.md").read_text("utf-8")
    sections = re.split(r"^## (E\d+)$", page, flags=re.MULTILINE)
    shown = dict(zip(sections[1::2], sections[2::2], strict=True))
    assert list(shown) == ERRATA
    for number, text in shown.items():
        assert ">>> " in text, number
        assert f"[{number}](#{number.lower()})" in sections[0], number


def test_files_that_the_errata_name_are_there() -> None:
    page = (ROOT / "docs" / "errata.md").read_text("utf-8")
    files = set(re.findall(r"`(tests/[\w/]+\.py)`", page))
    assert files
    assert all((ROOT / path).is_file() for path in files)
