"""Notes on a guess for the user: omitted rows, similar providers, and other interpretations of columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from troth.campaigns.starter.columns import (
    REPLACE_DATES,
    are_dates,
    notes_on_heavy_tails,
    notes_on_similar_names,
)
from troth.core.formats import counted
from troth.data.request import shown
from troth.models import FAMILIES
from troth.models.first_guess import Column, FirstGuess, is_whole, unlike_counts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.campaigns.starter.named_columns import NamedColumns

    Table = Mapping[str, Sequence[Any]]

FEW_LABELS = 12  # more labels in a column get a note
MAX_SCALE_STEPS = 10  # steps of a rating scale
_MAX_MEAN = 200  # integers with a larger mean are hardly counts


def _provider_names(owners: Sequence[tuple[Any, Any]]) -> set[str]:
    """Return the names of the providers that have rows."""
    return {str(provider) for provider, _ in owners if provider is not None}


def notes_on_providers(
    names: NamedColumns, table: Table, places: Sequence[str], unnamed: set[int], owners: Sequence[tuple[Any, Any]]
) -> list[str]:
    """Return notes on rows without a provider's name and providers without values."""
    if names.provider is None:
        return []
    notes, column = [], table[names.provider]
    if unnamed:
        rows, first = counted(len(unnamed), "row"), min(unnamed)
        notes.append(
            f"column {names.provider!r} has no provider's name in {rows} (first: {places[first]}: "
            f'{shown(column[first])}): the campaign says missing = "drop", and the ledger counts them; fill in names, '
            "or write it differently if it is a name"
        )
    if names.day is None:
        providers = {str(provider) for row, provider in enumerate(column) if row not in unnamed}
        notes += [
            f"provider {provider!r} has no value in any row, and payment is refused: remove its rows"
            for provider in sorted(providers - _provider_names(owners))
        ]
    return notes


def _kind(family: str) -> str:
    """Return what a family interprets a column as."""
    reduction: Any = FAMILIES[family].example_model().reduction
    if reduction.labels is not None:
        return "yes or no" if reduction.labels == 2 else "labels"
    return "counts" if reduction.support.integer else "values"


def notes_on_other_kinds(column: Column, family_name: str, families: Mapping[str, Any]) -> list[str]:
    """Return a note on how integers were interpreted and why, with the families for other interpretations."""
    try:
        column = replace(column, values=[float(value) for value in column.values])
    except ValueError:
        return []
    numbers, counts = column.numbers, _kind(family_name) == "counts"
    if not is_whole(column) or (numbers.mean() > _MAX_MEAN and not counts) or set(numbers) <= {0.0, 1.0}:
        return []
    choices_by_kind: dict[str, str] = {}
    for name in families:
        if (kind := _kind(name)) not in (_kind(family_name), "yes or no"):
            choices_by_kind.setdefault(kind, name)
    if numbers.max() > MAX_SCALE_STEPS:
        choices_by_kind.pop("labels", None)
    reason = unlike_counts(column) if _kind(family_name) == "values" else ""
    if reason:
        choices_by_kind.pop("counts", None)
    choices = "".join(f"; if they are {kind}, pass --family {name}" for kind, name in choices_by_kind.items())
    return [
        f"column {column.name!r} has whole numbers from {numbers.min():.0f} to {numbers.max():.0f}, "
        f"{f'which {reason}: ' if reason else ''}read as {_kind(family_name)}{choices}"
    ]


def notes_on_columns(columns: list[Column], first: FirstGuess, owners: Sequence[tuple[Any, Any]]) -> list[str]:
    """Return notes on odd values, and on providers that may be the same."""
    notes = notes_on_similar_names(sorted(_provider_names(owners)))
    numbers = [column for column in columns if not column.has_text]
    if first.labels is not None and are_dates(first.labels):
        notes.append(
            f"column {columns[-1].name!r} has dates, such as {first.labels[0]!r}, read as {len(first.labels)} "
            f"labels: {REPLACE_DATES}"
        )
    elif first.labels is not None and len(first.labels) > FEW_LABELS:
        notes.append(
            f"column {columns[-1].name!r} is read as {len(first.labels)} labels, such as {first.labels[0]!r}; if "
            "there should be fewer, merge some; if these are numbers, write them as numbers"
        )
    if first.labels is None and columns[-1].numbers.std() > 0:
        notes += [note for column in numbers for note in notes_on_heavy_tails(column.name, column.numbers)]
    return notes
