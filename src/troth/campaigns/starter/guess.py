"""A first campaign for your data: which family could be meant, with which prior."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from troth.core.errors import DataError, ParameterError
from troth.core.settings import closest
from troth.data.files import find_files
from troth.data.gather import column_names, first_rows
from troth.data.request import parse_day
from troth.models import FAMILIES
from troth.models.first_guess import Column, GuessesFromColumn

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_WRITTEN_NUMBER = re.compile(r"[-+]?[0-9][0-9.,'\u00a0 ]*")


@dataclass(frozen=True)
class Guess:
    """What data seem to hold.

    ``seen`` says whether the prior was read off the data; ``most_rows`` is the most rows of a provider and day.
    """

    family: str
    column: str
    provider: str | None
    day: str | None
    parameters: Mapping[str, Any]
    labels: tuple[str, ...] | None
    seen: bool
    days: int
    most_rows: int


def guess(
    data: Path,
    family: str | None = None,
    *,
    provider: str | None = None,
    column: str | None = None,
    day: str | None = None,
) -> Guess:
    """Look at the first rows of a file or folder and say which campaign they could be.

    The first of `troth.models.FAMILIES` that suits the column is taken, unless one is named. A family that needs a
    prior of some size reads it off the data themselves, roughly. It must be replaced by what was known beforehand: a
    prior that depends on the reports of the round makes lies pay.
    """
    families: dict[str, Any] = {name: each for name, each in FAMILIES.items() if isinstance(each, GuessesFromColumn)}
    chosen = None if family is None else closest(family, tuple(families))
    if family is not None and chosen is None:
        raise ParameterError(
            f"a campaign for given data can be written for {', '.join(families)}, not for {family!r}; for others write "
            f"an example with troth init DIR --family {family}, without --data, and put your source and columns into it"
        )
    have = column_names(data)
    provider = _meant(data, provider, have, "--provider")
    column = _meant(data, column, have, "--column")
    day = _meant(data, day, have, "--day")
    if provider is None and len(find_files(data)) == 1:
        raise DataError(f"{data}: say which column names the provider with --provider; there are {_listed(have)}")
    left = [name for name in have if name not in (provider, day)]
    if column is None and len(left) != 1:
        raise DataError(f"{data}: say which column is paid for with --column; there are {_listed(left)}")
    column = left[0] if column is None else column
    if column in (provider, day):
        raise DataError(f"{data}: column {column!r} cannot be paid for and name providers or days too")
    table = first_rows(data, column, provider, day)
    blank: list[Any] = [None] * len(table[column])
    columns = table[column], table.get(provider or "", blank), table.get(day or "", blank)
    rows = [row for row in zip(*columns, strict=True) if row[0] is not None]
    if not rows:
        raise DataError(f"{data}: column {column!r} has no values")
    if provider is not None and len({str(who).strip() for _, who, _ in rows if who is not None}) == 1:
        raise DataError(
            f"{data}: column {provider!r} names one provider alone; at least two are needed, because each is paid by "
            "what its data and the others' say about each other"
        )
    if day is not None:
        _refuse_other_dates(data, day, [when for _, _, when in rows])
    values = Column(column, [value for value, _, _ in rows], [(who, when) for _, who, when in rows])
    try:
        if chosen is None:
            chosen = _suitable(values, families)
        first = families[chosen].first_guess(values)
    except DataError as error:
        raise DataError(f"{data}: {error}") from None
    return Guess(
        chosen,
        column,
        provider,
        day,
        first.parameters,
        first.labels,
        seen=first.from_data,
        days=0 if day is None else len({when for _, _, when in rows}),
        most_rows=max(Counter((who, when) for _, who, when in rows).values()),
    )


def _meant(data: Path, name: str | None, have: list[str], option: str) -> str | None:
    """Return the column of that name; blanks around it and capitals do not matter if they leave no choice."""
    if name is None or name in have:
        return name
    alike = [each for each in have if each.strip().casefold() == name.strip().casefold()]
    if len(alike) != 1:
        raise DataError(f"{data}: there is no column {name!r} ({option}); there are {_listed(have)}")
    return alike[0]


def _refuse_other_dates(data: Path, day: str, days: list[Any]) -> None:
    for value in dict.fromkeys(days):
        try:
            if value is not None:
                parse_day(value)
        except ValueError:
            raise DataError(
                f"{data}: column {day!r} has {str(value)!r} (--day); days are dates, written YYYY-MM-DD, or "
                "whole numbers"
            ) from None


def _suitable(column: Column, families: Mapping[str, GuessesFromColumn]) -> str:
    """Return the first family that a column could be data of; refuse numbers that are not written as such."""
    chosen = next((name for name, family in families.items() if family.suits(column)), None)
    if chosen is None:
        raise DataError(f"column {column.name!r} looks like data of no family; name one with --family")
    texts = [str(value).strip() for value in column.values] if column.has_text else []
    with_commas = [text for text in texts if "," in text]
    if with_commas and all(_WRITTEN_NUMBER.fullmatch(text) for text in texts):
        raise DataError(
            f"column {column.name!r} has numbers with commas, such as {with_commas[0]!r}; write them with a decimal "
            f"point and nothing between thousands, or say --family {chosen} if they are labels"
        )
    return chosen


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names[:12]) + (", …" if len(names) > 12 else "")
