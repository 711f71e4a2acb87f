"""A first campaign for data that are there: which family could be meant, with which prior."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import DataError, ParameterError
from troth.core.settings import closest
from troth.data.files import find_files
from troth.data.gather import column_names, first_rows
from troth.data.request import parse_day

if TYPE_CHECKING:
    from pathlib import Path

GUESSED = ("Bernoulli", "Categorical", "Poisson", "Normal")
_MOST_LABELS = 50
_WRITTEN_NUMBER = re.compile(r"[-+]?[0-9][0-9.,'\u00a0 ]*")


@dataclass(frozen=True)
class Guess:
    """What data seem to hold.

    Attributes
    ----------
    prior, others, labels
        The family's parameters as a campaign file has them, and labels of its codes.
    seen
        Whether the prior was read off the data, where it should come from elsewhere.
    most_rows
        The most rows of a provider, or of a provider and day, among those that were looked at.
    """

    family: str
    column: str
    provider: str | None
    day: str | None
    prior: dict[str, Any]
    others: dict[str, Any]
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

    Zeros and ones are taken for `Bernoulli` with a uniform prior, labels for `Categorical` with a uniform prior, whole
    numbers for `Poisson`, other numbers for `Normal`. The last two need a prior of some size. It is read off the data
    themselves, roughly, and must be replaced by what was known beforehand: a prior that depends on the reports of the
    round makes lies pay.
    """
    chosen = family if family is None else closest(family, GUESSED)
    if family is not None and chosen is None:
        raise ParameterError(
            f"a campaign for given data can be written for {', '.join(GUESSED)}, not for {family!r}; for others write "
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
    values = [value for value, _, _ in rows]
    chosen = chosen or _family(data, column, values)
    prior, others, labels = _parameters(chosen, column, values, [(who, when) for _, who, when in rows])
    return Guess(
        chosen,
        column,
        provider,
        day,
        prior,
        others,
        labels,
        seen=chosen in ("Poisson", "Normal"),
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


def _family(data: Path, column: str, values: list[Any]) -> str:
    if any(isinstance(value, str) for value in values):
        written = [str(value).strip() for value in values]
        with_commas = [text for text in written if "," in text and _WRITTEN_NUMBER.fullmatch(text)]
        if with_commas and all(_WRITTEN_NUMBER.fullmatch(text) for text in written):
            raise DataError(
                f"{data}: column {column!r} has numbers with commas, such as {with_commas[0]!r}; write them with a "
                "decimal point and nothing between thousands, or say --family Categorical if they are labels"
            )
        return "Categorical"
    numbers = np.asarray(values, dtype=np.float64)
    if np.isin(numbers, (0.0, 1.0)).all():
        return "Bernoulli"
    return "Poisson" if (numbers >= 0).all() and (numbers == np.floor(numbers)).all() else "Normal"


def _parameters(
    family: str, column: str, values: list[Any], whose: list[Any]
) -> tuple[dict[str, Any], dict[str, Any], tuple[str, ...] | None]:
    if family in ("Bernoulli", "Categorical"):
        labels = None
        if any(isinstance(value, str) for value in values):
            labels = tuple(sorted({str(value).strip() for value in values}))
        size = len(labels) if labels is not None else 2 if family == "Bernoulli" else int(max(values)) + 1
        if size > _MOST_LABELS:
            raise DataError(f"column {column!r} has {size} different labels; is it the column that is paid for?")
        if family == "Bernoulli":
            return {"alpha": 1.0, "beta": 1.0}, {}, labels
        return {"alpha": [1.0] * max(size, 2)}, {}, labels
    if any(isinstance(value, str) for value in values):
        raise DataError(f"column {column!r}: {family} reads numbers, and there is text")
    x = np.asarray(values, dtype=np.float64)
    if family == "Poisson":
        return {"shape": 1.0, "rate": float(f"{1 / max(rough(x.mean()), 1e-9):.3g}")}, {}, None
    parts = [x[[i for i, name in enumerate(whose) if name == one]] for one in dict.fromkeys(whose)]
    within = [part.std() for part in parts if len(part) > 1]
    spread = rough(float(x.std())) or 1.0
    noise = (rough(float(np.mean(within))) if within else 0.0) or spread
    unit = 10.0 ** floor(log10(spread))
    return {"mean": round(float(np.median(x)) / unit) * unit, "scale": spread}, {"noise": noise}, None


def rough(x: float) -> float:
    """Return a number of one digit, not below ``x``.

    Examples
    --------
    >>> rough(0.0432), rough(17.0), rough(0.0)
    (0.05, 20.0, 0.0)
    """
    if x <= 0:
        return 0.0
    power = floor(log10(x))
    return float(f"{ceil(x / 10.0**power) * 10.0**power:.1g}")


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names[:12]) + (", …" if len(names) > 12 else "")
