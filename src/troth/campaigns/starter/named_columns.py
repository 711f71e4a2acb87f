"""Which columns of the data the options of `troth init` name, as the data spell them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from troth.campaigns.starter.columns import is_written_number
from troth.core.errors import DataError
from troth.data.files import find_files
from troth.data.gather import column_names
from troth.data.request import listed
from troth.models import FAMILIES
from troth.models.first_guess import GuessesFromVectors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class NamedColumns(NamedTuple):
    """The columns of the data by what they hold; ``columns`` are paid for, or explain the target."""

    provider: str | None
    day: str | None
    target: str | None
    columns: list[str]

    @property
    def paid(self) -> list[str]:
        """The columns that are paid for, the target last."""
        return [*self.columns, *([] if self.target is None else [self.target])]


def named_columns(
    data: Path,
    provider: str | None,
    day: str | None,
    target: str | None,
    columns: Sequence[str] | None,
    *,
    vectors: bool = False,
) -> NamedColumns:
    """Return the columns that are meant, as the data spell them; several are paid for only if rows are vectors."""
    header = column_names(data)
    provider, day, target = (
        None if name is None else column_meant(data, name, header, option)
        for name, option in ((provider, "--provider"), (day, "--day"), (target, "--target"))
    )
    if provider is None and len(find_files(data)) == 1:
        raise DataError(
            f"{data}: name the column of providers with --provider; there are {listed(header)}{_headless(header)}"
        )
    names = NamedColumns(provider, day, target, _columns(data, columns, header, (provider, day, target), vectors))
    for name in (provider, day, *names.paid):
        if name is not None and header.count(name) > 1:
            raise DataError(f"{data}: {header.count(name)} columns are called {name!r}; give each its own name")
    return names


def _columns(
    data: Path,
    names: Sequence[str] | None,
    header: list[str],
    used: tuple[str | None, str | None, str | None],
    vectors: bool,
) -> list[str]:
    """Return the columns that are paid for, or that explain the target."""
    unused, several = [name for name in header if name not in used], vectors or used[-1] is not None
    if names is None and not several and len(unused) != 1:
        raise DataError(f"{data}: name the column that you pay for with --column; there are {listed(unused)}")
    columns = [column_meant(data, name, header, "--column") for name in names] if names is not None else unused
    for name in columns:
        if name in used:
            raise DataError(
                f"{data}: column {name!r} is already the provider, day or target column; choose another for --column"
            )
    if not several and len(columns) > 1:
        of_vectors = " or ".join(name for name, kind in FAMILIES.items() if isinstance(kind, GuessesFromVectors))
        raise DataError(
            f"{data}: {len(columns)} columns are named; name with --target the one that the others predict, or name "
            f"only the column that you pay for; if a row is several numbers, add --family {of_vectors}"
        )
    return columns


def column_meant(data: Path, name: str, header: list[str], option: str) -> str:
    """Return the column of that name; blanks around it and capitals do not matter if they leave no choice."""
    if name in header:
        return name
    near = [column for column in header if column.strip().casefold() == name.strip().casefold()]
    if len(near) != 1:
        raise DataError(
            f"{data}: there is no column {name!r} ({option}); there are {listed(header)}{_headless(header)}"
        )
    return near[0]


def _headless(names: list[str]) -> str:
    """Return a hint that the first line may be a row, if a column is called by a number."""
    first = next((name for name in names if is_written_number(name.strip())), None)
    if first is None or all(is_written_number(name.strip()) for name in names):
        return ""
    return f"; is the first line, with {first!r}, a row? Put a line of column names before it"
