"""Guess what the columns of a table of tasks hold: labels of classes, or values such as ratings."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from troth.campaigns.starter.columns import (
    common_rows,
    is_missing,
    label_count,
    merged_spellings,
    notes_on_heavy_tails,
    read_column,
    rows_without_value,
)
from troth.campaigns.starter.guess import Guess
from troth.core.errors import DataError, ParameterError
from troth.core.reductions import Moments
from troth.data.gather import first_rows, requested_rows
from troth.data.read import task_name
from troth.data.request import Request
from troth.models import FAMILIES
from troth.models.first_guess import Column, FirstGuess, GuessesFromColumn, GuessesFromLabels, GuessesFromVectors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_MAX_LABELS, _FEW_NUMBERS = 50, 10
_SKEWED = 0.1  # excess of a label's frequency over 1/labels from which a note is given
_MOST_REPORTS = 0.9  # fraction of reports with several rows from which these are not an error


class TaskTable(NamedTuple):
    """The source of the data, their columns of workers and tasks, and all rows as they are written."""

    source: Path
    provider: str
    task: str
    rows: Any


def read_task_table(source: Path, provider: str, task: str, columns: Sequence[str]) -> TaskTable:
    """Read workers, tasks and the columns that are paid for, without converting labels or numbers."""
    request = Request(Moments(), tuple(columns), provider, task, categories=("",))
    return TaskTable(source, provider, task, requested_rows(str(source), request).table)


def holds_values(data: TaskTable, column: str, family: str | None) -> bool:
    """Whether a column is paid for as values, and not as labels of classes; a named family decides."""
    if family is not None:
        return not isinstance(FAMILIES[family], GuessesFromLabels)
    texts = [text for text in _count_texts(data, column) if text]
    few_texts = len(texts) <= _FEW_NUMBERS
    return bool(texts) and all(map(_is_number, texts)) and not (few_texts and _are_integers(texts))


def guess_values(data: TaskTable, columns: list[str], family: str | None) -> Guess:
    """Examine the first rows, and guess a family of values, with noise from the spread within tasks.

    A worker has one row per task, so families whose providers differ are left out: one row does not identify both a
    worker's offset and its noise.
    """
    several = len(columns) > 1
    families = _families(several=several)
    if family is not None and family not in families:
        raise ParameterError(_unsupported_family(family, tuple(families), several=several))
    labels = family is not None and label_count(FAMILIES[family]) > 0
    table, places = first_rows(data.source, columns, data.provider, data.task)
    try:
        column_values = [read_column(name, table[name], places, labels=labels) for name in columns]
        rows = common_rows(column_values)
        if not rows:
            raise DataError(f"column {columns[0]!r} has no values")
        tasks = [table[data.task][row] for row in rows]
        readable_columns = [
            Column(name, values.at(rows), tasks) for name, values in zip(columns, column_values, strict=True)
        ]
        family_name, first = _choose(families, family, readable_columns)
    except DataError as error:
        raise DataError(f"{data.source}: {error}") from None
    notes = [note for values in column_values for note in values.notes]
    if first.labels is None:
        notes += [note for column in readable_columns for note in notes_on_heavy_tails(column.name, column.numbers)]
    missing = len(places) - len(rows)
    if missing:
        notes.append(rows_without_value(missing))
    for column in columns if family is None else ():
        texts = [text for text in _count_texts(data, column) if text]
        if len(texts) <= _MAX_LABELS and _are_integers(texts):
            notes.append(
                f"column {column!r} has {len(texts)} different whole numbers, read as amounts; if they are labels, "
                f"pass --family {class_family().__name__}"
            )
    if first.from_data:
        listed = ", ".join(map(repr, columns))
        notes.append(
            f"{listed}: the prior was guessed from the data: replace it with what you knew before anybody answered"
        )
    sizes = _rows_per_report(data, columns[0])
    if max(sizes) > 1:
        notes.append(_repeated_rows_allowed(sizes))
    return Guess(
        **vars(first),
        family=family_name,
        columns=tuple(columns),
        provider=data.provider,
        task=data.task,
        max_rows=max(sizes),
        missing=missing,
        notes=notes,
    )


def guess_labels(data: TaskTable, columns: list[str], family: str | None) -> Guess:
    """Read only the labels of a column from the data, not their frequencies, which are paid for."""
    (column,) = columns
    counts = _count_texts(data, column)
    missing = counts.pop("", 0)
    labels, notes = merged_spellings(column, counts)
    if len(labels) == 1:
        raise DataError(
            f"{data.source}: column {column!r} has only the label {labels[0]!r}; name a file that has every label "
            "that workers may give"
        )
    if not 2 <= len(labels) <= _MAX_LABELS:
        raise DataError(
            f"{data.source}: column {column!r} has {len(labels):,} different labels, but there must be 2 to "
            f"{_MAX_LABELS}; if it holds free text it cannot be paid as labels"
        )
    numbers = all(map(_is_number, labels))
    if numbers and len(labels) > 2 and family is None:
        rating_family = guess_values(data, columns, None).family
        notes.append(
            f"column {column!r} has {len(labels)} different whole numbers, which are read as labels: any two are "
            f"equally different. If they are ratings, pass --family {rating_family}"
        )
    rare = [label for label in labels if counts[label] == 1] if sum(counts.values()) >= 10 * len(labels) else []
    if rare:
        listed = ", ".join(map(repr, rare[:6]))
        notes.append(
            f"column {column!r}: {listed} {'occurs' if len(rare) == 1 else 'occur'} only once: check the spelling"
        )
    mode = max(labels, key=counts.__getitem__)
    share = sum(count for text, count in counts.items() if text.lower() == mode.lower()) / sum(counts.values())
    if share - 1 / len(labels) > _SKEWED:
        notes.append(
            f"column {column!r}: {share:.0%} of the labels are {mode!r}, but the written prior expects all equally "
            "often: set [model] prior to what you expected before anybody answered, or learn it from past tasks"
        )
    if missing:
        notes.append(rows_without_value(missing))
    sizes, max_rows = _rows_per_report(data, column), 1
    if _count_repeated(sizes) > _MOST_REPORTS * len(sizes):
        max_rows = max(sizes)
        rates = next(name for name in _families() if label_count(FAMILIES[name]) >= min(3, len(labels)))
        notes.append(
            f"{_repeated_rows_allowed(sizes)}. If each task has its own rate, as a day has, pass --family {rates}"
        )
    elif max(sizes) > 1:
        notes.append(
            f"{_repeated_rows(sizes)}: a repeated label looks like an error, and nothing is paid until one "
            f"of them is removed; if several rows are one report, add [limits] rows = {max(sizes)}"
        )
    codes = tuple(sorted(labels, key=float if numbers else str))
    first = replace(class_family().first_guess_of_labels(len(labels)), labels=codes)
    return Guess(
        **vars(first),
        family=class_family().__name__,
        columns=(column,),
        provider=data.provider,
        task=data.task,
        max_rows=max_rows,
        missing=missing,
        notes=notes,
    )


def class_family() -> Any:
    """Return the family of labels in which each task has a class."""
    return next(family for family in FAMILIES.values() if isinstance(family, GuessesFromLabels))


def _families(*, several: bool = False) -> dict[str, Any]:
    """Return the families that can be guessed from one row per worker and task, with one column or several."""
    kind: Any = GuessesFromVectors if several else GuessesFromColumn
    return {name: family for name, family in FAMILIES.items() if isinstance(family, kind) and family.independent_rows}


def _choose(families: Mapping[str, Any], family: str | None, columns: list[Column]) -> tuple[str, FirstGuess]:
    if len(columns) > 1:
        family_name = family or next(iter(families))
        return family_name, families[family_name].first_guess_of_vectors(columns)
    suitable = (name for name, family in families.items() if not label_count(family) and family.suits(columns[0]))
    family_name = family or next(suitable, "")
    if not family_name:
        raise DataError(f"column {columns[0].name!r} fits no family; name one with --family")
    return family_name, families[family_name].first_guess(columns[0])


def _unsupported_family(family: str, families: tuple[str, ...], *, several: bool) -> str:
    """Return why a family cannot pay tasks, and what to do instead."""
    listed, noun = ", ".join(families), "several columns of tasks" if several else "tasks"
    if not several and isinstance(FAMILIES[family], GuessesFromColumn):
        return (
            f"{family} needs many rows of each provider: with one row on a task, a provider's offset cannot be told "
            f"from the noise of its row; for {noun} use {listed}, for labels omit --family"
        )
    return (
        f"a campaign of {noun} can be written for {listed}, and for labels without --family; for {family} write an "
        f"example with troth init DIR --family {family}, and add [data] task and [campaign] price to it"
    )


def _count_repeated(sizes: Sequence[int]) -> int:
    return sum(size > 1 for size in sizes)


def _repeated_rows(sizes: Sequence[int]) -> str:
    """Return a message on the number of reports with several rows."""
    reports = f"{_count_repeated(sizes):,} of {len(sizes):,} reports of a worker on a task"
    return f"{reports} have several rows, up to {max(sizes):,}"


def _repeated_rows_allowed(sizes: Sequence[int]) -> str:
    return f"{_repeated_rows(sizes)}: the campaign allows them with [limits] rows = {max(sizes)}"


def _rows_per_report(data: TaskTable, column: str) -> list[int]:
    """Count the rows with a value in each report, which is a pair of worker and task."""
    workers, tasks, values = (data.rows.column(name).to_pylist() for name in (data.provider, data.task, column))
    counts: Counter[tuple[str, str]] = Counter()
    for worker, task, value in zip(workers, tasks, values, strict=True):
        if not is_missing(value):
            counts[str(worker).strip(), task_name(str(task))] += 1
    return list(counts.values())


def _count_texts(data: TaskTable, column: str) -> Counter[str]:
    """Count the values of a column as text; missing values are an empty text."""
    counts: Counter[str] = Counter()
    for entry in data.rows.column(column).value_counts().to_pylist():
        value = entry["values"]
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        counts["" if is_missing(value) else str(value).strip()] += entry["counts"]
    return counts


def _is_number(text: str) -> bool:
    try:
        return "_" not in text and abs(float(text)) < float("inf")
    except ValueError:
        return False


def _are_integers(texts: Sequence[str]) -> bool:
    return all(float(text).is_integer() for text in texts)
