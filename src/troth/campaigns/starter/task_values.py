"""A first campaign for values of many tasks, such as ratings: a family for numbers, guessed from the data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from troth.campaigns.currencies import minor_unit
from troth.campaigns.starter.examples import Terms, campaign_text
from troth.campaigns.starter.guess import Guess
from troth.campaigns.starter.look import heavy_tails, label_count, read_written
from troth.core.errors import DataError, ParameterError
from troth.data.gather import first_rows
from troth.mechanisms import DEFAULT_RULE, RULES
from troth.models import FAMILIES, Example, from_dict
from troth.models.first_guess import Column, FirstGuess, GuessesFromColumn, GuessesFromVectors

if TYPE_CHECKING:
    from collections.abc import Mapping


def guess_values(data: Path, provider: str, task: str, columns: list[str], family: str | None) -> Guess:
    """Look at the first rows and say which family of values they could be, with noise from the spread within tasks.

    A worker has one row on a task. So families in which providers differ are left out: how far a worker is off and
    the noise of its row cannot be told apart.
    """
    several = len(columns) > 1
    families = families_of_tasks(several=several)
    if family is not None and family not in families:
        raise ParameterError(_why_not(family, tuple(families), several=several))
    labels = family is not None and label_count(FAMILIES[family]) > 0
    table, places = first_rows(data, columns, provider, task)
    try:
        written = [read_written(name, table[name], places, labels=labels) for name in columns]
        rows = sorted(set(written[0].rows).intersection(*(each.rows for each in written[1:])))
        if not rows:
            raise DataError(f"column {columns[0]!r} has no values")
        tasks = [table[task][row] for row in rows]
        read = []
        for name, each in zip(columns, written, strict=True):
            value = dict(zip(each.rows, each.values, strict=True))
            read.append(Column(name, [value[row] for row in rows], tasks))
        chosen, first = _choose(families, family, read)
    except DataError as error:
        raise DataError(f"{data}: {error}") from None
    notes = [note for each in written for note in each.notes]
    if first.labels is None:
        notes += [note for column in read for note in heavy_tails(column.name, column.numbers)]
    return Guess(
        chosen,
        tuple(columns),
        None,
        provider,
        task,
        first.parameters,
        first.labels,
        {},
        {},
        seen=first.from_data,
        days=0,
        reports=len(rows),
        most_rows=1,
        missing=len(places) - len(rows),
        notes=notes,
    )


def value_text(guessed: Guess, data: Path, folder: Path, money: Mapping[str, str | None], rows: int) -> str:
    """Return the commented campaign file, with the most rows of a report."""
    parameters: dict[str, Any] = {"family": guessed.family, **guessed.parameters}
    currency = str(money["currency"])
    terms = Terms(
        name=data.stem,
        budget=money["budget"],
        price=money["price"],
        currency=currency,
        decimals=minor_unit(currency),
        source=Path(os.path.relpath(data.resolve(), folder.resolve())).as_posix(),
        provider=guessed.provider,
        task=guessed.day,
        limited=rows > 1,
        rows=rows,
        seen=guessed.seen,
        missing="drop" if guessed.missing else "refuse",
        options=RULES[DEFAULT_RULE].task_defaults(from_dict(parameters)),
    )
    example = Example(f"what {data.name} holds", guessed.columns, guessed.provider or "provider", labels=guessed.labels)
    return campaign_text(guessed.family, example, guessed.parameters, DEFAULT_RULE, terms)


def families_of_tasks(*, several: bool = False) -> dict[str, Any]:
    """Return the families that can be guessed for one column of tasks, or for several."""
    return {name: each for name, each in FAMILIES.items() if _serves(each, several=several)}


def _serves(family: Any, *, several: bool) -> bool:
    """Whether a family can be guessed for one row of a worker on a task."""
    guesses = isinstance(family, GuessesFromVectors if several else GuessesFromColumn)
    return guesses and bool(FAMILIES[family.__name__].independent_rows)


def _choose(families: Mapping[str, Any], family: str | None, columns: list[Column]) -> tuple[str, FirstGuess]:
    if len(columns) > 1:
        chosen = family or next(iter(families))
        return chosen, families[chosen].first_guess_of_vectors(columns)
    suit = (name for name, each in families.items() if not label_count(each) and each.suits(columns[0]))
    chosen = family or next(suit, None) or ""
    if not chosen:
        raise DataError(f"column {columns[0].name!r} fits no family; name one with --family")
    return chosen, families[chosen].first_guess(columns[0])


def _why_not(family: str, families: tuple[str, ...], *, several: bool) -> str:
    listed, what = ", ".join(families), "several columns of tasks" if several else "tasks"
    if not several and isinstance(FAMILIES[family], GuessesFromColumn):
        return (
            f"{family} is for providers with many rows each: with one row on a task, how far a provider is off and the "
            f"noise of its row cannot be told apart; for {what} there are {listed}, and labels without --family"
        )
    return (
        f"a campaign of {what} can be written for {listed}, and for labels without --family; for {family} write an "
        f"example with troth init DIR --family {family}, and add [data] task and [campaign] price to it"
    )
