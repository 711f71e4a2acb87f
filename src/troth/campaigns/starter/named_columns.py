"""Resolve the columns that the options of `troth init` name to the columns of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from troth.campaigns.starter.columns import looks_numeric
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
    """The columns of the data by role; ``columns`` are paid for, or predict the target."""

    provider: str | None
    day: str | None
    target: str | None
    columns: list[str]

    @property
    def paid(self) -> list[str]:
        """The columns that are paid for; the target is last."""
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
    """Return the named columns as the data spell them; several can be paid for only if rows are vectors."""
    header = column_names(data)
    provider, day, target = (
        None if name is None else find_column(data, name, header, option)
        for name, option in ((provider, "--provider"), (day, "--day"), (target, "--target"))
    )
    if provider is None and len(find_files(data)) == 1:
        raise DataError(
            f"{data}: name the column of providers with --provider; there are {listed(header)}{_header_hint(header)}"
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
    """Return the columns that are paid for, or that predict the target."""
    unused, several = [name for name in header if name not in used], vectors or used[-1] is not None
    if names is None and not several and len(unused) != 1:
        raise DataError(f"{data}: name the column that you pay for with --column; there are {listed(unused)}")
    columns = [find_column(data, name, header, "--column") for name in names] if names is not None else unused
    for name in columns:
        if name in used:
            raise DataError(
                f"{data}: column {name!r} is already the provider, day or target column; choose another for --column"
            )
    if not several and len(columns) > 1:
        vector_families = " or ".join(name for name, kind in FAMILIES.items() if isinstance(kind, GuessesFromVectors))
        raise DataError(
            f"{data}: {len(columns)} columns are named; name with --target the one that the others predict, or name "
            f"only the column that you pay for; if a row is several numbers, add --family {vector_families}"
        )
    return columns


def find_column(data: Path, name: str, header: list[str], option: str) -> str:
    """Return the column of a name, ignoring capitals and surrounding spaces if the match is unique."""
    if name in header:
        return name
    matches = [column for column in header if column.strip().casefold() == name.strip().casefold()]
    if len(matches) != 1:
        raise DataError(
            f"{data}: there is no column {name!r} ({option}); there are {listed(header)}{_header_hint(header)}"
        )
    return matches[0]


def _header_hint(names: list[str]) -> str:
    """Return a hint that the header may be missing, if some but not all names of columns are numbers."""
    first = next((name for name in names if looks_numeric(name.strip())), None)
    if first is None or all(looks_numeric(name.strip()) for name in names):
        return ""
    return f"; is the first line, with {first!r}, a row? Put a line of column names before it"
