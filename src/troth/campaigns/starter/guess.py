"""Guess a first campaign for your data: a suitable family and a prior."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from troth.campaigns.starter.columns import (
    NAME_A_LABEL_FAMILY,
    WRITE_LABELS_AS_WORDS,
    common_rows,
    is_missing,
    label_count,
    looks_numeric,
    read_column,
    rows_without_value,
)
from troth.campaigns.starter.guess_notes import (
    FEW_LABELS,
    MAX_SCALE_STEPS,
    notes_on_columns,
    notes_on_other_kinds,
    notes_on_providers,
)
from troth.campaigns.starter.named_columns import NamedColumns, named_columns
from troth.core.errors import DataError, ParameterError
from troth.core.settings import closest
from troth.data.gather import MAX_INSPECTED, first_rows
from troth.data.request import NO_NAME, parse_day, shown
from troth.models import FAMILIES, named_family
from troth.models.first_guess import Column, FirstGuess, GuessesFromColumn, GuessesFromColumns, GuessesFromVectors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from troth.campaigns.starter.columns import ColumnValues

    Table = Mapping[str, Sequence[Any]]


_FREQUENT = 0.05  # fraction of a column's texts from which a word among numbers is a label


@dataclass(frozen=True, kw_only=True)
class Guess(FirstGuess):
    """What data seem to hold: a family with its hyper-parameters, and the columns that it was guessed from.

    ``reports`` is the number of pairs of a provider and a day (0 for tasks), and ``max_rows`` the maximum number of
    rows of a report. ``missing`` is the number of examined rows without a value or a provider's name. ``notes`` are
    messages for the user.
    """

    family: str
    columns: tuple[str, ...]
    provider: str | None = None
    target: str | None = None
    day: str | None = None
    task: str | None = None
    days: int = 0
    reports: int = 0
    max_rows: int = 0
    missing: int = 0
    notes: list[str] = field(default_factory=list)


def guess(
    data: Path,
    family: str | None = None,
    *,
    provider: str | None = None,
    column: str | Sequence[str] | None = None,
    target: str | None = None,
    day: str | None = None,
) -> Guess:
    """Examine the first rows of a file or folder, and guess a campaign for them.

    By default the family is the first of `troth.models.FAMILIES` that suits the column, where families whose providers
    differ come first; with a target, it is a regression on the columns. A family that needs an informative prior
    guesses it from the data. The user must replace this prior by what was known beforehand: a prior that depends on
    the reports of the round makes lies pay.
    """
    kind = GuessesFromColumns if target is not None else _guess_kind(family)
    families = _families(kind)
    family_named = _resolve_family(family, families)
    vectors = kind is GuessesFromVectors
    names = named_columns(data, provider, day, target, [column] if isinstance(column, str) else column, vectors=vectors)
    table, places = first_rows(data, names.paid, names.provider, names.day)
    try:
        column_values = _read_columns(names, table, places, family_named)
        rows, unnamed = _usable_rows(names, column_values, table)
        blank: list[Any] = [None] * len(places)
        providers, days = table.get(names.provider or "", blank), table.get(names.day or "", blank)
        owners = [(providers[row], days[row]) for row in rows]
        _reject_single_provider(names.provider, owners, all_rows=len(places) < MAX_INSPECTED)
        _reject_other_dates(names.day, [(when, places[row]) for (_, when), row in zip(owners, rows, strict=True)])
        readable_columns = [
            Column(name, values.at(rows), owners) for name, values in zip(names.paid, column_values, strict=True)
        ]
        for paid in readable_columns if vectors else readable_columns[-1:]:
            _reject_constant(paid, named=family_named is not None and not vectors)
        readable_columns, notes = _without_constant_features(readable_columns, may_leave_out=column is None)
        family_name, first = _choose(families, family_named, readable_columns, regression=target is not None)
    except DataError as error:
        raise DataError(f"{data}: {error}") from None
    notes += [note for values in column_values for note in values.notes]
    notes += notes_on_providers(names, table, places, unnamed, owners)
    notes += notes_on_columns(readable_columns, first, owners)
    if target is None and family_named is None:
        notes += notes_on_other_kinds(readable_columns[0], family_name, families)
    if no_value := len(places) - len(unnamed.union(rows)):
        notes.append(rows_without_value(no_value))
    return Guess(
        **vars(first),
        family=family_name,
        columns=tuple(column.name for column in readable_columns if column.name != names.target),
        provider=names.provider,
        target=names.target,
        day=names.day,
        days=0 if day is None else len({when for _, when in owners}),
        reports=len(set(owners)),
        max_rows=max(Counter(owners).values()),
        missing=len(places) - len(rows),
        notes=notes,
    )


def _guess_kind(family: str | None) -> type:
    """Return how a family is guessed without a target: from one column, or from several."""
    name = None if family is None else closest(family, tuple(FAMILIES))
    return GuessesFromVectors if name and isinstance(FAMILIES[name], GuessesFromVectors) else GuessesFromColumn


def _resolve_family(family: str | None, families: Mapping[str, Any]) -> str | None:
    """Return the exact name of a family, or None if it is to be guessed."""
    family_name = None if family is None else closest(family, tuple(families))
    if family is not None and family_name is None:
        family = named_family(family).__name__
        regressions = isinstance(next(iter(families.values())), GuessesFromColumns)
        offered = [*families, *(() if regressions else _families(GuessesFromVectors))]
        raise ParameterError(
            f"a campaign for given data can be written for {', '.join(offered)}, not for {family!r}; for others write "
            f"an example with troth init DIR --family {family}, without --data, and put your source and columns into it"
        )
    return family_name


def _read_columns(names: NamedColumns, table: Table, places: Sequence[str], family: str | None) -> list[ColumnValues]:
    """Read the columns that are paid for, as numbers or as labels."""
    last, of_labels = names.paid[-1], family is not None and label_count(FAMILIES[family]) > 0
    column_values = [
        read_column(
            name,
            table[name],
            places,
            labels=of_labels if names.target in (None, name) else _holds_labels(table[name]),
            if_labels=NAME_A_LABEL_FAMILY if names.target is None else WRITE_LABELS_AS_WORDS,
        )
        for name in names.paid
    ]
    column_values[-1] = _as_labels(column_values[-1], table[last], labels=of_labels)
    return column_values


def _usable_rows(names: NamedColumns, columns: Sequence[ColumnValues], table: Table) -> tuple[list[int], set[int]]:
    """Return the rows that have all values and a provider's name, and all rows without a name."""
    rows, unnamed = common_rows(columns), set()
    if not rows:
        raise DataError(f"column {names.paid[-1]!r} has no values")
    if names.provider is not None:
        unnamed = {
            row
            for row, provider in enumerate(table[names.provider])
            if provider is None or str(provider).strip() in NO_NAME
        }
        rows = [row for row in rows if row not in unnamed]
    if not rows:
        raise DataError(f"column {names.provider!r} names no provider in any row that has a value")
    return rows, unnamed


def _without_constant_features(columns: list[Column], *, may_leave_out: bool) -> tuple[list[Column], list[str]]:
    """Leave out features that never vary, with a note; reject them if the user named them or no feature remains."""
    constant = {column.name for column in columns[:-1] if len({str(value).strip() for value in column.values}) == 1}
    if constant and (not may_leave_out or len(constant) == len(columns) - 1):
        message = _describe_constant(columns, constant)
        raise DataError(f"{message}, so its coefficient could not be learnt: leave it out")
    notes = [_describe_constant(columns, constant) + ": left out"] if constant else []
    return [column for column in columns if column.name not in constant], notes


def _families(kind: Any) -> dict[str, Any]:
    """Return the families that can be guessed; those whose providers differ come first."""
    families = {name: family for name, family in FAMILIES.items() if isinstance(family, kind)}
    return dict(sorted(families.items(), key=lambda item: item[1].independent_rows))


def _holds_labels(values: Sequence[Any]) -> bool:
    """Whether a feature holds labels: few distinct values, with words among them.

    Either more than half of the texts are words, or each word is frequent, such as 3+ among 0, 1, 2 and 3+. A rare word
    among numbers is an error.
    """
    texts = [value.strip() for value in values if isinstance(value, str) and not is_missing(value)]
    counts = Counter(texts)
    words = [count for text, count in counts.items() if not looks_numeric(text)]
    enough_words = words and (2 * sum(words) > len(texts) or min(words) >= _FREQUENT * len(texts))
    return bool(enough_words) and len(counts) <= FEW_LABELS


def _as_labels(column: ColumnValues, raw: Sequence[Any], *, labels: bool) -> ColumnValues:
    """Read integers as labels if the family has labels, or if there are exactly two small ones other than 0 and 1."""
    numbers = set(column.values)
    texts = [str(raw[row]).strip() for row in column.rows]
    if not texts or not all(text.isdigit() for text in texts):
        return column
    two_codes = len(numbers) == 2 and max(numbers) in range(2, MAX_SCALE_STEPS + 1)
    return replace(column, values=texts) if two_codes or (labels and min(numbers) > 0) else column


def _reject_constant(column: Column, *, named: bool) -> None:
    """Reject a column that never varies, unless the family is named and the column holds numbers."""
    if len(set(column.values)) == 1 and (column.has_text or not named):
        raise DataError(
            f"column {column.name!r} has {shown(column.values[0])} in all {len(column.values):,} rows examined: "
            "nothing can be learnt from a column that never varies, so it cannot be paid for; name another with "
            "--column, or use data in which it varies"
        )


def _describe_constant(columns: Sequence[Column], names: set[str]) -> str:
    """Return a message that names the columns which never vary."""
    listed = [f"{column.name!r} ({shown(column.values[0])})" for column in columns if column.name in names]
    noun = "column" if len(listed) == 1 else "columns"
    verb = "is" if len(listed) == 1 else "are"
    return f"{noun} {', '.join(listed)} {verb} the same in all {len(columns[0].values):,} rows examined"


def _choose(
    families: Mapping[str, Any], family_name: str | None, columns: list[Column], *, regression: bool
) -> tuple[str, FirstGuess]:
    """Return the named family, or else the first that suits, and its first guess."""
    if family_name is None and regression:
        family_name = next((name for name, family in families.items() if family.suits_target(columns[-1])), None)
    family_name = family_name or next((name for name, family in families.items() if family.suits(columns[0])), None)
    if family_name is None:
        raise DataError(f"column {columns[-1].name!r} fits no family; name one with --family")
    if regression:
        return family_name, families[family_name].first_guess_of(columns[:-1], columns[-1])
    if isinstance(families[family_name], GuessesFromVectors):
        return family_name, families[family_name].first_guess_of_vectors(columns)
    return family_name, families[family_name].first_guess(columns[0])


def _reject_single_provider(provider: str | None, owners: Sequence[tuple[Any, Any]], *, all_rows: bool) -> None:
    if all_rows and provider is not None and len({str(name).strip() for name, _ in owners if name is not None}) == 1:
        raise DataError(
            f"column {provider!r} names only one provider; at least two are needed, because each is paid for what its "
            "data say about the others'"
        )


def _reject_other_dates(day: str | None, days: list[tuple[Any, str]]) -> None:
    first: dict[Any, str] = {}
    for value, place in days if day is not None else ():
        first.setdefault(value, place)
    for value, place in first.items():
        try:
            if value is not None:
                parse_day(value)
        except ValueError:
            raise DataError(
                f"column {day!r}, {place}: {str(value)!r} is not a day (--day); days are dates, written YYYY-MM-DD, or "
                "whole numbers"
            ) from None
