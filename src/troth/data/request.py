"""A request for the data of a table, and its answer: summaries by provider and day, or the errors in the table."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from troth.core.errors import DataError
from troth.core.formats import counted
from troth.core.reductions.reduction import HasTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from troth.core.reductions import Reduction
    from troth.core.support import Array, Support
    from troth.data.features import FeatureSampler

Day: TypeAlias = str | int | None
"""An ISO date, a whole number, or None for a campaign without days."""

Key: TypeAlias = tuple[str, Day]

_SHOWN, _SHOWN_LABELS = 20, 12  # maximum number of problems, and of a column's labels, in a message

NO_VALUE = frozenset({"", "#n/a", "-", "--", ".", "<na>", "?", "n.a.", "n/a", "na", "nan", "null"})
"""Spellings of a missing value, in lower case."""

NO_NAME = frozenset({"", "#N/A", "-", "--", "?", "N/A", "n/a", "NA", "NaN", "nan"})
"""Spellings of a missing name, if rows without a name are dropped; otherwise NA is a name. Nan and Null always are."""


@dataclass(frozen=True)
class Request:
    """A request to summarise columns by provider and day.

    Attributes
    ----------
    columns
        Names of the reduction's columns, in order; None is a constant 1, the intercept of a regression.
    provider, day
        The columns of providers' names, None if each file is named after its provider, and of days, if any.
    categories, values
        Labels of the codes 0, 1, …, if the column holds labels; declared bounds on values.
    scales
        Public centre and scale of each column, so that (x − centre)/scale is added up; None leaves a column unscaled.
    missing
        ``"refuse"``, or ``"drop"``: rows without a value or a provider's name are counted and left out.
    levels
        The public labels of each column of labels that predicts an answer: every label but the first becomes a column
        of its own, 1 in rows with this label and 0 in the others.
    features
        Whether features, the values of all columns but the last, are kept in addition to the summaries.
    answers
        Whether the values of the last column are kept with the features.
    on_batch
        Called with each batch of rows that is read from files; the files are then read in order, by one thread.
    own_file
        Whether the table is one provider's own file, whose sender cannot change the terms.
    """

    reduction: Reduction
    columns: tuple[str | None, ...]
    provider: str | None = None
    day: str | None = None
    categories: tuple[str, ...] | None = None
    values: tuple[float, float] | None = None
    missing: str = "refuse"
    scales: tuple[tuple[float, float] | None, ...] = ()
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    features: bool = False
    answers: bool = False
    on_batch: Callable[[Any], None] | None = None
    own_file: bool = False

    @property
    def kept_columns(self) -> int:
        """How many columns are kept in addition to the summaries."""
        return self.features * (self.reduction.columns - 1 + self.answers)

    @property
    def no_name(self) -> frozenset[str]:
        """Spellings of a missing provider's name."""
        return NO_NAME if self.missing == "drop" else frozenset({""})

    @property
    def named(self) -> tuple[str, ...]:
        """The columns to read."""
        keys = [name for name in (self.provider, self.day) if name is not None]
        return tuple(dict.fromkeys([*keys, *(name for name in self.columns if name is not None)]))

    @property
    def labels(self) -> set[str | None]:
        """The columns whose values are names, days or labels, not numbers."""
        return {self.provider, self.day, *(name for name in self.columns if self.labels_of(name) is not None)}

    @property
    def entries(self) -> tuple[str | None, ...]:
        """The names of the reduction's inputs: the columns, or instead of a column its levels."""
        return level_names(self.columns, self.levels)

    def is_target(self, name: str | None) -> bool:
        """Whether a column is the target of a regression, which has its own support."""
        return isinstance(self.reduction, HasTarget) and name == self.columns[-1]

    def labels_of(self, name: str | None) -> tuple[str, ...] | None:
        """Return the labels that a column may hold, or None if it holds numbers."""
        labelled = self.is_target(name) or not isinstance(self.reduction, HasTarget)
        return self.levels.get(name or "") or (self.categories if labelled else None)

    def support_of(self, name: str) -> Support:
        """Return the support of a column."""
        if isinstance(self.reduction, HasTarget) and self.is_target(name):
            return self.reduction.target_support
        return self.reduction.support

    def values_of(self, name: str) -> tuple[float, float] | None:
        """Return declared bounds on the values of a column."""
        return None if self.is_target(name) else self.values

    def values_in_words(self, name: str) -> str:
        """Describe the values that a column may have, such as "0 or 1".

        Examples
        --------
        >>> from troth.core.reductions import Counts, Moments
        >>> Request(Counts(2), ("y",)).values_in_words("y"), Request(Moments(), ("y",)).values_in_words("y")
        ('0 or 1', 'a number')
        """
        support, limits = self.support_of(name), self.values_of(name)
        if limits is not None:
            support = replace(support, low=max(support.low, limits[0]), high=min(support.high, limits[1]))
        labels: Sequence[str] = self.labels_of(name) or ()
        if not labels and support.finite and support.high - support.low == 1:
            labels = f"{support.low:g}", f"{support.high:g}"
        if not labels:
            return support.description
        if len(labels) > _SHOWN_LABELS:
            return f"{', '.join(labels[:_SHOWN_LABELS])} or another of {len(labels)} labels"
        return " or ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))

    def scaled(self, index: int, x: Any) -> Any:
        """Scale values, or an expression, of the column at an index by its public centre and scale."""
        scale = self.scales[index] if self.scales else None
        return x if scale is None else (x - scale[0]) / scale[1]

    def codes(self, name: str) -> dict[str, int]:
        """Return the codes of a column's labels, or of the categories, by spelling.

        Case matters only if labels differ by nothing else.
        """
        exact = {label: code for code, label in enumerate(self.levels.get(name, self.categories or ()))}
        folded = {label.casefold(): code for label, code in exact.items()}
        return exact if len(folded) < len(exact) else {**folded, **exact}

    def reject_missing(self, available: Iterable[str], place: str) -> None:
        """Raise if a requested column is missing or occurs twice."""
        header = list(available)
        for name in self.named:
            if name not in header:
                raise DataError.at(place, f"there is no column {name!r}; there are {listed(header) or 'none at all'}")
            if header.count(name) > 1:
                raise DataError.at(place, f"there are {header.count(name)} columns named {name!r}; keep one")

    def reject_missing_provider(self, provider: str | None) -> None:
        """Raise if neither a column nor a name says who owns the rows of a table."""
        if self.provider is None and provider is None:
            raise DataError("the data: name the column of providers with provider=")


def level_names(columns: Sequence[str | None], levels: Mapping[str, Sequence[str]]) -> tuple[str | None, ...]:
    """Return columns, with every column of labels replaced by its levels except the first.

    Examples
    --------
    >>> level_names((None, "age", "ward"), {"ward": ("surgery", "medicine", "other")})
    (None, 'age', 'ward = medicine', 'ward = other')
    """
    names: list[str | None] = []
    for column in columns:
        labels = levels.get(column or "")
        names += [column] if labels is None else [f"{column} = {level}" for level in labels[1:]]
    return tuple(names)


@dataclass(frozen=True)
class Problem:
    """A group of unusable values: the fault, the provider, the column, their number, and an example."""

    fault: str
    provider: str | None
    column: str
    count: int
    place: str
    row: int | None
    value: Any = None

    def __str__(self) -> str:
        provider = f"provider {self.provider!r}, " if self.provider is not None else ""
        values = counted(self.count, "value")
        row = f"row {self.row:,}" if self.row is not None else "a row"
        location = f"{row} of {self.place}" if self.place else row
        example = "" if self.value is None else f": {shown(self.value)}"
        return f"{provider}column {self.column!r}: {values} {self.fault} (first: {location}{example})"


def shown(value: Any) -> str:
    """Format a value for messages, truncated if it is long; whole numbers have no decimals.

    Examples
    --------
    >>> shown(3.0), shown(0.5), shown("3.0")
    ('3', '0.5', "'3.0'")
    """
    text = repr(value).removesuffix(".0")
    return text if len(text) <= 40 else text[:37] + "…"


def listed(values: Sequence[Any], limit: int = 12) -> str:
    """Format values as a list for messages, truncated after ``limit``.

    Examples
    --------
    >>> listed(["a", "b", "c"], limit=2)
    "'a', 'b', …"
    """
    return ", ".join(map(shown, values[:limit])) + (", …" if len(values) > limit else "")


def refuse(problems: Sequence[Problem]) -> None:
    """Raise one error for all problems, if there are any; nothing is paid on incomplete data."""
    if not problems:
        return
    merged: dict[tuple[Any, ...], Problem] = {}
    for problem in problems:
        kind = problem.fault, problem.provider, problem.column
        earlier = merged.get(kind)
        merged[kind] = problem if earlier is None else replace(earlier, count=earlier.count + problem.count)
    lines = [str(problem) for problem in list(merged.values())[:_SHOWN]]
    if len(merged) > _SHOWN:
        lines.append(f"… and {len(merged) - _SHOWN} more lines like these")
    head = "the data have values that cannot be used; correct or remove these rows, then run again:"
    refusal = DataError("\n  ".join([head, *lines]))
    refusal.place = problems[0].place
    raise refusal


@dataclass
class Part:
    """Summaries of one fragment by key, its problems, and the features of its reports, numbered like the keys."""

    keys: list[Key] = field(default_factory=list)
    summaries: Array = field(default_factory=lambda: np.zeros((0, 0)))
    problems: list[Problem] = field(default_factory=list)
    place: str = ""
    dropped: dict[Key, int] = field(default_factory=dict)
    features: FeatureSampler | None = None


@dataclass(frozen=True, eq=False)
class Report:
    """One provider's report of one day: everything that its payment depends on.

    ``source`` describes its origin for people. ``data_digest`` is the digest of the provider's file, if it sent
    statistics instead of rows. ``nonce`` is the random text on the provider's receipt, if any. ``dropped`` counts the
    rows that were left out because they have no value. If tasks are settled together, ``rows`` counts tasks,
    ``summary`` is over all of them, and ``tasks`` is the digest of the answers to each. ``features`` are the features
    ``(row, feature)`` of its rows, or of a sample, if decoys are drawn with them, followed by the answers if those are
    requested. ``unnamed`` counts the rows of the day that were left out because they have no provider's name; it is set
    on the first report of the day or, for providers' own files, of each file.
    """

    provider: str
    day: Day
    rows: int
    summary: Array
    source: str = ""
    data_digest: str | None = None
    nonce: str | None = None
    dropped: int = 0
    tasks: str | None = None
    features: Array | None = None
    unnamed: int = 0

    @property
    def key(self) -> Key:
        """The provider and the day."""
        return self.provider, self.day

    def __str__(self) -> str:
        return f"provider {self.provider!r}" + ("" if self.day is None else f", day {self.day}")


def parse_day(value: Any) -> Day:
    """Parse a day as an ISO date or a whole number; times with a zone are dated in UTC, as engines do.

    Examples
    --------
    >>> parse_day("2026-05-04"), parse_day("2026-05-04T22:30-04:00"), parse_day(" 7 "), parse_day(7)
    ('2026-05-04', '2026-05-05', 7, 7)
    """
    if isinstance(value, bool):
        raise ValueError(value)
    if isinstance(value, int):
        return value
    if isinstance(value, date):
        return value.isoformat()[:10]
    text = str(value).strip()
    if re.fullmatch(r"-?[0-9]{1,15}", text):
        return int(text)
    if not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}($|[T ])", text):
        raise ValueError(text)
    moment = datetime.fromisoformat(text)
    try:
        return (moment if moment.tzinfo is None else moment.astimezone(UTC)).date().isoformat()
    except OverflowError:  # in UTC it is outside the years that Python supports
        raise ValueError(text) from None


def day_order(day: Day) -> tuple[int, Any]:
    """Return a key that sorts days: numbers as numbers, dates as dates."""
    return (0, 0) if day is None else (1, day) if isinstance(day, int) else (2, day)


def file_name(path: str | Path) -> str:
    """Return a path's name for messages, which is short and the same on every machine."""
    return Path(path).name
