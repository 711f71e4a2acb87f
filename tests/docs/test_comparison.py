"""What the comparison with pyDVL says in words agrees with its tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "comparison.md").read_text("utf-8")
WORDS, TABLES = PAGE.split("<!-- table -->")
LABELS, FIT = "yes-or-no labels", "regression with 5 features"
LINE_UP = "Troth: LineUp"
ONE_OUT, SPLIT_OFF = "pyDVL: leave-one-out, a test set", "pyDVL: leave-one-out, rows split off"
ALIKE = "pyDVL: leave-one-out of Troth's evidence, a test set"
SHAPLEY, OOB = "pyDVL: Shapley, a test set", "pyDVL: Data-OOB, mean of rows"
SUMMED = "pyDVL: Data-OOB, sum of rows"


def cell(heading: str, row: str, column: str) -> str:
    section = re.split(r"^### ", TABLES, flags=re.MULTILINE)
    lines = next(part for part in section if part.startswith(heading + "\n")).splitlines()
    table = [[text.strip() for text in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return next(line for line in table if line[0] == row)[table[0].index(column)]


def number(text: str) -> float:
    match = re.search(r"-?[\d,]+(\.\d+)?", text)
    assert match is not None
    return float(match[0].replace(",", ""))


def lost(data: str, row: str, lie: str) -> float:
    return number(cell(f"Pay lost by a lie: {data}, 10 providers", row, lie))


def above(data: str, row: str, lie: str) -> float:
    return number(cell(f"Honest providers who rank above the liar, in percent: {data}, 10 providers", row, lie))


def times(data: str, row: str) -> float:
    text = cell(f"Time for a round: {data}", row, "1,000 providers")
    return number(text.split("(")[1])


def milliseconds(data: str, row: str) -> float:
    return number(cell(f"Time for a round: {data}", row, "1,000 providers"))


OWN = "Troth: leave-one-out of the evidence, a test set"
BAGGED, PERMUTATIONS = "pyDVL: Data-OOB, 50 models", "pyDVL: Shapley, 100 permutations, extrapolated"
CLAIMS: list[tuple[str, list[float]]] = [  # each # in a sentence is a number
    (
        "#% against #% of an equal share for labels, #% against #% for the regression",
        [lost(data, rule, "fabricate") for data in (LABELS, FIT) for rule in (SHAPLEY, LINE_UP)],
    ),
    (
        "#% of honest providers .* against #% under Troth, and #% against #% in the regression",
        [above(data, rule, "corrupt 20%") for data in (LABELS, FIT) for rule in (OOB, LINE_UP)],
    ),
    (
        "#% of the cap for labels under `LineUp` and #% for the regression",
        [-lost(data, LINE_UP, "copy a peer") for data in (LABELS, FIT)],
    ),
    (
        "#% more for reporting the majority label and #% more for reporting fitted",
        [-lost(data, OOB, "report typical") for data in (LABELS, FIT)],
    ),
    ("every row twice gains #%", [-lost(data, SUMMED, "replicate") for data in (LABELS,)]),
    (
        "reporting the majority label loses #% of the cap, and withholding half of the labels #%",
        [lost(LABELS, LINE_UP, lie) for lie in ("report typical", "withhold half")],
    ),
    ("honest providers get #% of the cap", [lost(LABELS, LINE_UP, "honest pay")]),
    (
        r"fabricating \*gains\* #% with an honest test set and #% with rows split off. In the regression it loses #% "
        "with a test set and gains #% without",
        [
            -lost(LABELS, ONE_OUT, "fabricate"),
            -lost(LABELS, SPLIT_OFF, "fabricate"),
            lost(FIT, ONE_OUT, "fabricate"),
            -lost(FIT, SPLIT_OFF, "fabricate"),
        ],
    ),
    ("the same liar gains #% for labels", [-lost(LABELS, ALIKE, "fabricate")]),
    (
        "# times as long as `LineUp` for labels and # times for the regression, Data-OOB # and # times",
        [times(data, row) for row in (ONE_OUT, BAGGED) for data in (LABELS, FIT)],
    ),
    (
        r"Troth # ms and pyDVL # ms for labels \(# ms and # ms for",
        [milliseconds(data, row) for data in (LABELS, FIT) for row in (OWN, ALIKE)],
    ),
    ("take # to # times as long as `LineUp`", [times(data, PERMUTATIONS) for data in (FIT, LABELS)]),
    (r"refitting took pyDVL # s \(# s\)", [milliseconds(data, ONE_OUT) / 1000 for data in (LABELS, FIT)]),
]


@pytest.mark.parametrize(("phrase", "measured"), CLAIMS, ids=[phrase[:30] for phrase, _ in CLAIMS])
def test_words_agree_with_the_tables(phrase: str, measured: list[float]) -> None:
    pattern = phrase.replace(" ", r"\s+").replace("#", r"(\d+(?:\.\d+)?)")
    match = re.search(pattern, WORDS)
    assert match is not None, "the sentence was changed: change its claim here too"
    for text, value in zip(match.groups(), measured, strict=True):
        half = 0.5 * 10.0 ** -len(text.partition(".")[2])
        assert abs(float(text) - value) <= half + 1e-9, (text, value)
