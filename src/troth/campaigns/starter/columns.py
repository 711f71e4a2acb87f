"""Read a column of a table whose contents nobody has declared: numbers or labels, with notes on what looks odd."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from math import isinf, isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import DataError
from troth.core.formats import few_digits
from troth.data.read import canonical_name, task_name
from troth.data.request import NO_VALUE, shown
from troth.models import FAMILIES, Family

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_VALUE = 1e45
_MAX_CODES = 50  # 0, 1, … of labels
_MOSTLY = 0.5  # numbers of a column in which a word is taken for a mistake
_NUMBERS_WITH_UNIT = 12  # from which on values with one unit are no labels
_YES = frozenset({"1", "on", "t", "true", "y", "yes"})
_NO = frozenset({"0", "f", "false", "n", "no", "off"})
_TAIL = 20.0  # times the usual deviation
_NOTHING = frozenset({"blank", "empty", "missing", "n.d.", "nd", "nil", "none", "not available", "unknown", "x"})
_EMPTY = "; if there is no value, leave it empty"
_DIGITS = r"[-+−]?\s*[0-9][0-9.,'’\u00a0\u202f ]*"
_TIME = re.compile(r"[0-9]{1,3}:[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?(\s*[ap]\.?m\.?)?", re.IGNORECASE)
_DAY = r"(0?[1-9]|[12][0-9]|3[01])"  # or a month
_DATE = re.compile(rf"([0-9]{{4}}([-./]){_DAY}\2{_DAY}|{_DAY}([-./]){_DAY}\6[0-9]{{2}}([0-9]{{2}})?)([T ].*)?")
_UNIT = re.compile(rf"{_DIGITS}([^\W\d_]+[²³]?|°C?|m/s|km/h)")
_MONEY = r"(?:[$€£¥₹₽₩₺₪₴₫₦₱฿]|kr\.?|zł|Kč|Ft|R\$)"
_MEASURES = (
    ("times", _TIME, "write each as a number, of hours or of minutes"),
    ("numbers with a unit", _UNIT, "remove it"),
)
_WRITTEN = (
    ("percent signs", re.compile(rf"{_DIGITS}%"), "remove the signs, and divide by 100 if you want shares"),
    (
        "currency signs",
        re.compile(
            rf"({_MONEY}|[A-Z]{{3}}\s)\s*{_DIGITS}|[-+−]\s*{_MONEY}\s*{_DIGITS}|{_DIGITS}({_MONEY}|\s[A-Z]{{3}})"
        ),
        "remove the signs, and any thousands separators",
    ),
    ("commas", re.compile(rf"{_DIGITS},{_DIGITS}"), "write them with a decimal point and no thousands separators"),
    ("parentheses", re.compile(rf"\(\s*{_DIGITS}\)"), "write -4 instead of (4)"),
    ("a minus sign that is not a hyphen", re.compile(r"−\s*[0-9.]+"), "write - instead"),
    ("something between their digits", re.compile(_DIGITS), "write them without thousands separators"),
)


def label_count(family: type[Family]) -> int:
    """Return how many labels the rows of a family's example have, 0 if they are numbers."""
    return family.example_model().reduction.labels or 0


NAME_A_LABEL_FAMILY = f"pass --family {next(name for name, family in FAMILIES.items() if label_count(family) > 2)}"
REPLACE_DATES = "write each as a number, such as days since the first, or name other columns with --column"
WRITE_LABELS_AS_WORDS = "write each label as a word, such as 'code 4'"


@dataclass(frozen=True)
class ColumnValues:
    """The values of a column, numbers or labels each in one spelling, their rows in it, and notes for a reader."""

    values: list[Any]
    rows: list[int]
    notes: list[str] = field(default_factory=list)

    def at(self, rows: Sequence[int]) -> list[Any]:
        """Return the values in some rows of the column, which all have one."""
        value_of = dict(zip(self.rows, self.values, strict=True))
        return [value_of[row] for row in rows]


def common_rows(columns: Sequence[ColumnValues]) -> list[int]:
    """Return the rows in which every column has a value."""
    return sorted(set(columns[0].rows).intersection(*(column.rows for column in columns[1:])))


def read_column(
    name: str,
    values: Sequence[Any],
    places: Sequence[str],
    *,
    labels: bool = False,
    if_labels: str = NAME_A_LABEL_FAMILY,
) -> ColumnValues:
    """Read a column as its writer meant it, or say which row cannot be read and what to do.

    ``places`` says where each value stands, ``labels`` whether the column is known to hold labels, and ``if_labels``
    what to do if what looks like numbers is labels.
    """
    rows = [row for row, value in enumerate(values) if not is_missing(value)]
    present = [values[row] for row in rows]
    numbers = [_number(value) for value in present]
    plain = sum(number is not None for number in numbers)
    codes = all(number is not None and number in range(_MAX_CODES) for number in numbers)
    if plain == len(present) and (codes or not labels or not any(isinstance(value, str) for value in present)):
        for row, number in zip(rows, numbers, strict=True):
            if number is not None and (isinf(number) or abs(number) > _MAX_VALUE):
                too_large = "too large to add up; correct it, or rescale the column"
                fault = "infinite; correct it" if isinf(number) else too_large
                raise DataError(f"column {name!r}, {places[row]}: {shown(values[row])} is {fault}")
        return ColumnValues(numbers, rows)
    texts = [str(value).strip() for value in present]
    if are_dates(texts):
        if (days := len(set(texts))) > _MAX_CODES:
            raise DataError(
                f"column {name!r} has {days:,} different dates, such as {texts[0]!r}, too many for labels: "
                + REPLACE_DATES
            )
    elif not labels:
        _reject_signs(name, [str(value).strip(" \t\r\n") for value in present], numbers, if_labels)
        if plain >= _MOSTLY * len(present):
            wrong = [place for place, number in enumerate(numbers) if number is None]
            several = f"{len(wrong):,} of {len(present):,} values are not numbers"
            problem = several if len(wrong) > 1 else "1 value is not a number"
            empty = _EMPTY if texts[wrong[0]].lower() in _NOTHING else ""
            correct = "correct it, or remove the row" if len(wrong) == 1 else "correct them, or remove their rows"
            remedy = f"{correct}{empty}; if the column holds labels, {if_labels}"
            if {text.casefold() for text in texts} <= _YES | _NO:
                remedy = "yes or no and 1 or 0 seem to be mixed: spell them all in the same way"
            raise DataError(
                f"column {name!r}: {problem} (first: {places[rows[wrong[0]]]}: {shown(texts[wrong[0]])}); {remedy}"
            )
    return _as_labels_in_one_spelling(name, texts, rows)


def are_dates(texts: Sequence[str]) -> bool:
    """Whether more than half of the different texts are dates, perhaps with a time.

    Examples
    --------
    >>> are_dates(["2026-07-11", "11.7.2026", "7/11/2026 12:30"]), are_dates(["1.2.3", "12-34-5678", "2026"])
    (True, False)
    """
    different = set(texts)
    return sum(_DATE.fullmatch(text) is not None for text in different) > _MOSTLY * len(different)


def rows_without_value(rows: int) -> str:
    """Return how many rows have no value, and what happens to them."""
    subject = "1 row has" if rows == 1 else f"{rows:,} rows have"
    return f'{subject} no value: the campaign says missing = "drop", and the ledger counts them'


def notes_on_heavy_tails(name: str, x: Any) -> list[str]:
    """Note if a few rows decide the mean."""
    middle = float(np.median(x))
    usual = 1.4826 * float(np.median(np.abs(x - middle))) or float(np.std(x))
    farthest = float(x[np.argmax(np.abs(x - middle))])
    if usual == 0 or abs(farthest - middle) < _TAIL * usual:
        return []
    logs = " Paying for the logarithm of the column makes it more robust." if (x > 0).all() else ""
    return [
        f"column {name!r} has heavy tails: {few_digits(farthest)} is {abs(farthest - middle) / usual:,.0f} times the "
        f"usual deviation away from the median {few_digits(middle)}, so a few rows decide a provider's mean.{logs}"
    ]


def notes_on_similar_names(names: Sequence[str]) -> list[str]:
    """Note which names differ only by capitals, blanks or how a number is written."""
    spellings: dict[str, dict[str, None]] = {}
    for name in names:
        plain = unicodedata.normalize("NFKC", task_name(name))
        spellings.setdefault("".join(plain.split()).casefold(), {})[name] = None
    return [
        f"providers {', '.join(map(repr, group))} differ only in {difference}: if they are one, give it one name; "
        "with these names " + _payment_of_similar_names(list(group))
        for group in spellings.values()
        if len(group) > 1
        for difference in ["how a number is written" if all(map(is_written_number, group)) else "capitals or spaces"]
    ]


def _payment_of_similar_names(names: list[str]) -> str:
    """Say how similar names are paid: blanks around a name are no part of it, capitals are."""
    canonical = [canonical_name(name) for name in names]
    same = [name for name, spelled in zip(names, canonical, strict=True) if canonical.count(spelled) > 1]
    if not same:
        return "each is paid separately"
    return f"payment is refused: {', '.join(map(repr, same))} differ only in spaces or in how accents are stored"


def is_missing(value: Any) -> bool:
    """Whether an entry is empty, or says that there is no value."""
    if isinstance(value, str):
        return value.strip().lower() in NO_VALUE
    return value is None or (isinstance(value, float) and isnan(value))


def _number(value: Any) -> float | None:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return float(value.strip().lower() == "true")
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return None if isnan(number) else number


def is_written_number(text: str) -> bool:
    """Whether a text is a number, perhaps with signs that do not belong to it.

    Examples
    --------
    >>> [text for text in ("4", "$4", "1 200", "7%", "4 beds", "icu") if is_written_number(text)]
    ['4', '$4', '1 200', '7%']
    """
    return _number(text) is not None or any(pattern.fullmatch(text) for _, pattern, _ in _WRITTEN)


def _reject_signs(name: str, texts: list[str], numbers: list[float | None], if_labels: str) -> None:
    """Refuse numbers that are written with signs that do not belong to a number."""
    not_numbers = [text for text, number in zip(texts, numbers, strict=True) if number is None]
    with_signs = bool(not_numbers) and sum(map(is_written_number, not_numbers)) >= _MOSTLY * len(not_numbers)
    for pattern_name, pattern, remedy in _WRITTEN if with_signs else _MEASURES:
        examples = [text for text in not_numbers if pattern.fullmatch(text)]
        usual = len(examples) > _MOSTLY * len(not_numbers) and len(set(examples)) > _NUMBERS_WITH_UNIT
        if usual or (with_signs and examples):
            content = f"numbers with {pattern_name}" if with_signs else pattern_name
            raise DataError(
                f"column {name!r} has {content}, such as {examples[0]!r}; {remedy}; if they are labels, {if_labels}"
            )


def merged_spellings(name: str, counts: Counter[str]) -> tuple[list[str], list[str]]:
    """Return the labels of a column, each in its most frequent spelling, and notes on those that differ by capitals."""
    spellings: dict[str, list[str]] = {}
    for text, _ in counts.most_common():
        spellings.setdefault(text.casefold(), []).append(text)
    notes = [
        f"column {name!r}: {', '.join(map(repr, group))} are taken for one label, {group[0]!r}"
        for group in spellings.values()
        if len(group) > 1
    ]
    return [group[0] for group in spellings.values()], notes


def _as_labels_in_one_spelling(name: str, texts: list[str], rows: list[int]) -> ColumnValues:
    labels, notes = merged_spellings(name, Counter(texts))
    of_text = {label.casefold(): label for label in labels}
    spelled = of_text.keys() & (_YES | _NO)
    several = [meant for meant in (_YES & spelled, _NO & spelled) if len(meant) > 1]
    words = any(len(word) > 1 for meant in several for word in meant)  # t and y among other letters mean something else
    if several and (words or spelled == of_text.keys()):
        listed = ", ".join(sorted(repr(of_text[word]) for word in spelled))
        notes.append(
            f"column {name!r} has the labels {listed}, taken for {len(spelled)} different labels: if they mean yes "
            "and no, spell each in one way"
        )
    return ColumnValues([of_text[text.casefold()] for text in texts], rows, notes)
