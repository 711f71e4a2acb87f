"""Read a column of a table without declared types: numbers or labels, with notes on what looks odd."""

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
_MAX_CODES = 50  # labels coded as 0, 1, …
_MAJORITY = 0.5  # fraction of numbers in a column from which a word is an error
_MAX_LABELS_WITH_UNIT = 12  # more different values with one unit are numbers
_YES = frozenset({"1", "on", "t", "true", "y", "yes"})
_NO = frozenset({"0", "f", "false", "n", "no", "off"})
_HEAVY_TAIL = 20.0  # robust standard deviations from the median
_WORDS_FOR_MISSING = frozenset(
    {"blank", "empty", "missing", "n.d.", "nd", "nil", "none", "not available", "unknown", "x"}
)
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
_NUMBERS_WITH_SIGNS = (
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
    """Return the number of labels in a family's example, 0 if its rows are numbers."""
    return family.example_model().reduction.labels or 0


NAME_A_LABEL_FAMILY = f"pass --family {next(name for name, family in FAMILIES.items() if label_count(family) > 2)}"
REPLACE_DATES = "write each as a number, such as days since the first, or name other columns with --column"
WRITE_LABELS_AS_WORDS = "write each label as a word, such as 'code 4'"


@dataclass(frozen=True)
class ColumnValues:
    """The values of a column that are not missing, the indices of their rows, and notes for the user."""

    values: list[Any]
    rows: list[int]
    notes: list[str] = field(default_factory=list)

    def at(self, rows: Sequence[int]) -> list[Any]:
        """Return the values of some rows, none of which may be missing."""
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
    """Read a column as numbers or labels; errors name the first row at fault and the remedy.

    ``places`` has the location of each value, ``labels`` says whether the column is known to hold labels, and
    ``if_labels`` is the remedy for a column of labels that looks like numbers.
    """
    rows = [row for row, value in enumerate(values) if not is_missing(value)]
    present = [values[row] for row in rows]
    numbers = [_parse_number(value) for value in present]
    number_count = sum(number is not None for number in numbers)
    are_codes = all(number is not None and number in range(_MAX_CODES) for number in numbers)
    has_text = any(isinstance(value, str) for value in present)
    if number_count == len(present) and (are_codes or not labels or not has_text):
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
        if number_count >= _MAJORITY * len(present):
            words = [index for index, number in enumerate(numbers) if number is None]
            first = words[0]
            several = f"{len(words):,} of {len(present):,} values are not numbers"
            problem = several if len(words) > 1 else "1 value is not a number"
            remedy = "correct it, or remove the row" if len(words) == 1 else "correct them, or remove their rows"
            if texts[first].lower() in _WORDS_FOR_MISSING:
                remedy += "; if there is no value, leave it empty"
            remedy += f"; if the column holds labels, {if_labels}"
            if {text.casefold() for text in texts} <= _YES | _NO:
                remedy = "yes or no and 1 or 0 seem to be mixed: spell them all in the same way"
            example = f"first: {places[rows[first]]}: {shown(texts[first])}"
            raise DataError(f"column {name!r}: {problem} ({example}); {remedy}")
    return _merge_label_spellings(name, texts, rows)


def are_dates(texts: Sequence[str]) -> bool:
    """Whether more than half of the distinct texts are dates, perhaps with a time.

    Examples
    --------
    >>> are_dates(["2026-07-11", "11.7.2026", "7/11/2026 12:30"]), are_dates(["1.2.3", "12-34-5678", "2026"])
    (True, False)
    """
    distinct = set(texts)
    return sum(_DATE.fullmatch(text) is not None for text in distinct) > _MAJORITY * len(distinct)


def rows_without_value(rows: int) -> str:
    """Return a note on the number of rows without a value, and their treatment."""
    subject = "1 row has" if rows == 1 else f"{rows:,} rows have"
    return f'{subject} no value: the campaign says missing = "drop", and the ledger counts them'


def notes_on_heavy_tails(name: str, x: Any) -> list[str]:
    """Return a note if a few rows determine the mean."""
    median = float(np.median(x))
    deviation = 1.4826 * float(np.median(np.abs(x - median))) or float(np.std(x))
    farthest = float(x[np.argmax(np.abs(x - median))])
    if deviation == 0 or abs(farthest - median) < _HEAVY_TAIL * deviation:
        return []
    logs = " Paying for the logarithm of the column makes it more robust." if (x > 0).all() else ""
    return [
        f"column {name!r} has heavy tails: {few_digits(farthest)} is {abs(farthest - median) / deviation:,.0f} times "
        f"the usual deviation away from the median {few_digits(median)}, so a few rows decide a provider's mean.{logs}"
    ]


def notes_on_similar_names(names: Sequence[str]) -> list[str]:
    """Return notes on names that differ only in capitals, spaces or the spelling of a number."""
    spellings: dict[str, dict[str, None]] = {}
    for name in names:
        plain = unicodedata.normalize("NFKC", task_name(name))
        spellings.setdefault("".join(plain.split()).casefold(), {})[name] = None
    notes = []
    for group in spellings.values():
        if len(group) > 1:
            difference = "how a number is written" if all(map(looks_numeric, group)) else "capitals or spaces"
            notes.append(
                f"providers {', '.join(map(repr, group))} differ only in {difference}: if they are one, give it one "
                f"name; with these names {_payment_of_similar_names(list(group))}"
            )
    return notes


def _payment_of_similar_names(names: list[str]) -> str:
    """Describe how similar names are paid: spaces around a name do not belong to it, and capitals distinguish names."""
    canonical = [canonical_name(name) for name in names]
    same = [name for name, spelled in zip(names, canonical, strict=True) if canonical.count(spelled) > 1]
    if not same:
        return "each is paid separately"
    return f"payment is refused: {', '.join(map(repr, same))} differ only in spaces or in how accents are stored"


def is_missing(value: Any) -> bool:
    """Whether an entry is empty, or a text that stands for a missing value."""
    if isinstance(value, str):
        return value.strip().lower() in NO_VALUE
    return value is None or (isinstance(value, float) and isnan(value))


def _parse_number(value: Any) -> float | None:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return float(value.strip().lower() == "true")
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return None if isnan(number) else number


def looks_numeric(text: str) -> bool:
    """Whether a text is a number, perhaps with signs such as % or thousands separators.

    Examples
    --------
    >>> [text for text in ("4", "$4", "1 200", "7%", "4 beds", "icu") if looks_numeric(text)]
    ['4', '$4', '1 200', '7%']
    """
    return _parse_number(text) is not None or any(pattern.fullmatch(text) for _, pattern, _ in _NUMBERS_WITH_SIGNS)


def _reject_signs(name: str, texts: list[str], numbers: list[float | None], if_labels: str) -> None:
    """Reject numbers that are written with signs or units, or as times."""
    not_numbers = [text for text, number in zip(texts, numbers, strict=True) if number is None]
    with_signs = bool(not_numbers) and sum(map(looks_numeric, not_numbers)) >= _MAJORITY * len(not_numbers)
    for pattern_name, pattern, remedy in _NUMBERS_WITH_SIGNS if with_signs else _MEASURES:
        examples = [text for text in not_numbers if pattern.fullmatch(text)]
        frequent = len(examples) > _MAJORITY * len(not_numbers) and len(set(examples)) > _MAX_LABELS_WITH_UNIT
        if frequent or (with_signs and examples):
            content = f"numbers with {pattern_name}" if with_signs else pattern_name
            raise DataError(
                f"column {name!r} has {content}, such as {examples[0]!r}; {remedy}; if they are labels, {if_labels}"
            )


def merged_spellings(name: str, counts: Counter[str]) -> tuple[list[str], list[str]]:
    """Return a column's labels, each in its most frequent spelling, and notes on those that differ in capitals."""
    spellings: dict[str, list[str]] = {}
    for text, _ in counts.most_common():
        spellings.setdefault(text.casefold(), []).append(text)
    notes = [
        f"column {name!r}: {', '.join(map(repr, group))} are read as one label, {group[0]!r}"
        for group in spellings.values()
        if len(group) > 1
    ]
    return [group[0] for group in spellings.values()], notes


def _merge_label_spellings(name: str, texts: list[str], rows: list[int]) -> ColumnValues:
    labels, notes = merged_spellings(name, Counter(texts))
    label_by_key = {label.casefold(): label for label in labels}
    booleans = label_by_key.keys() & (_YES | _NO)
    synonyms = [keys for keys in (_YES & booleans, _NO & booleans) if len(keys) > 1]
    has_word = any(len(key) > 1 for keys in synonyms for key in keys)  # t and y among other letters are no booleans
    if synonyms and (has_word or booleans == label_by_key.keys()):
        listed = ", ".join(sorted(repr(label_by_key[key]) for key in booleans))
        notes.append(
            f"column {name!r} has the labels {listed}, read as {len(booleans)} different labels: if they mean yes "
            "and no, spell each in one way"
        )
    return ColumnValues([label_by_key[text.casefold()] for text in texts], rows, notes)
