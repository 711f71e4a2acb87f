"""Past days as summaries by day and provider: the data that models are fitted to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from troth.core.contract import Array, HasReduction, Indexes, Mask
from troth.core.errors import DataError
from troth.core.limits import MAX_ROWS, MAX_SUM
from troth.core.reductions import Counts, Moments, Reduction


@dataclass(frozen=True, eq=False)
class History:
    """What providers reported on past days, reduced to summaries.

    Attributes
    ----------
    days
        Labels of the days, in order.
    providers
        Names.
    summaries
        What rows add up to, ``(day, provider, entry)``; zeros where a provider did not report.
    present
        Who reported on which day, ``(day, provider)``.
    reduction
        How rows became summaries.
    tables
        The rows themselves, ``(row, column)`` by day and provider, where they were kept.

    Examples
    --------
    >>> from troth.core.reductions import Counts
    >>> past = History.from_reports([("mon", "a", [3, 1]), ("mon", "b", [2, 2]), ("tue", "a", [4, 0])], Counts(2))
    >>> past.days, past.providers, past.rows.tolist()
    (('mon', 'tue'), ('a', 'b'), [[4.0, 4.0], [4.0, 0.0]])
    """

    days: tuple[Any, ...]
    providers: tuple[str, ...]
    summaries: Array
    present: Mask
    reduction: Reduction
    tables: Mapping[tuple[Any, str], Array] | None = None

    def __post_init__(self) -> None:
        summaries, present = np.asarray(self.summaries, dtype=np.float64), np.asarray(self.present, dtype=bool)
        shape = (len(self.days), len(self.providers))
        if summaries.shape != (*shape, self.reduction.width) or present.shape != shape:
            raise DataError(
                f"summaries of {shape[0]} days and {shape[1]} providers must have shape "
                f"{(*shape, self.reduction.width)}, not {summaries.shape}, and present {shape}, not {present.shape}"
            )
        for name, labels in (("day", self.days), ("provider", self.providers)):
            if len(set(labels)) < len(labels):
                repeated = next(label for i, label in enumerate(labels) if label in labels[:i])
                raise DataError(f"{name} {repeated!r} occurs twice in the history")
        if not np.isfinite(summaries).all():
            day, provider, _ = np.argwhere(~np.isfinite(summaries))[0]
            raise DataError(f"day {self.days[day]!r}, provider {self.providers[provider]!r}: a sum is not finite")
        object.__setattr__(self, "summaries", np.where(present[..., None], summaries, 0.0))
        object.__setattr__(self, "present", present)
        object.__setattr__(self, "days", tuple(self.days))
        object.__setattr__(self, "providers", tuple(self.providers))

    @classmethod
    def from_reports(cls, reports: Iterable[tuple[Any, str, Any]], reduction: Reduction) -> History:
        """Arrange reports (day, provider, summary), sorted by day and provider; those of one day and provider add.

        Summaries are sums over rows, so two of one day and provider count as two parts of its rows. Days are numbers,
        dates, or text whose order is that of time, such as ``2026-05-01``.
        """
        entries = [(day, name, np.asarray(summary, dtype=np.float64)) for day, name, summary in reports]
        days = _in_order({day for day, _, _ in entries})
        providers = sorted({name for _, name, _ in entries})
        day_of, place_of = ({label: i for i, label in enumerate(labels)} for labels in (days, providers))
        summaries = np.zeros((len(days), len(providers), reduction.width))
        present = np.zeros(summaries.shape[:2], dtype=bool)
        for day, name, summary in entries:
            if summary.shape != (reduction.width,):
                location = f"day {day!r}, provider {name!r}"
                raise DataError(f"{location}: a summary must have {reduction.width} numbers, not shape {summary.shape}")
            reject_impossible(reduction, summary, day, name)
            summaries[day_of[day], place_of[name]] += summary
            present[day_of[day], place_of[name]] = True
        return cls(tuple(days), tuple(providers), summaries, present, reduction)

    @classmethod
    def from_tables(cls, tables: Mapping[tuple[Any, str], Array], reduction: Reduction) -> History:
        """Add up rows ``(row, column)`` by day and provider, and keep them.

        Examples
        --------
        >>> from troth.core.reductions import Counts
        >>> past = History.from_tables({("mon", "a"): np.array([[0.0], [1.0], [1.0]])}, Counts(2))
        >>> past.summaries.tolist()
        [[[1.0, 2.0]]]
        """
        reports = [(day, name, reduction.of_rows(table)) for (day, name), table in tables.items()]
        return replace(cls.from_reports(reports, reduction), tables=dict(tables))

    def added_by(self, reduction: Reduction) -> History:
        """Return the history with its rows added up by another reduction; the history itself where none are kept."""
        if self.tables is None or reduction == self.reduction:
            return self
        summaries = np.zeros((*self.present.shape, reduction.width))
        for day, provider in np.argwhere(self.present):
            summaries[day, provider] = reduction.of_rows(self.tables[self.days[day], self.providers[provider]])
        return replace(self, summaries=summaries, reduction=reduction)

    @property
    def rows(self) -> Array:
        """How many rows each provider reported on each day, ``(day, provider)``."""
        return self.reduction.rows(self.summaries)

    def select(self, days: Sequence[Any] | None = None, providers: Sequence[str] | None = None) -> History:
        """Return the history of some days and some providers, by their labels and in their order here."""
        rows = _places("day", self.days, days)
        columns = _places("provider", self.providers, providers)
        chosen, names = tuple(self.days[i] for i in rows), tuple(self.providers[i] for i in columns)
        part = np.ix_(rows, columns)
        return replace(self, days=chosen, providers=names, summaries=self.summaries[part], present=self.present[part])


@dataclass(frozen=True, eq=False)
class PastTasks:
    """Who reported what on which past task; most workers are missing from most of them."""

    task: Indexes  # of each report, as a number from 0
    worker: Indexes  # whose report it is, as a number from 0
    summaries: Array  # what its rows add up to, (report, entry)
    workers: tuple[str, ...]  # their names
    reduction: Reduction  # how rows became summaries
    classes: Indexes | None = None  # the true code of each task that is known, −1 for the others; None if no task's is

    def as_days(self) -> History:
        """Take each task for a day on which one provider reports all that workers did.

        Examples
        --------
        >>> from troth.core.reductions import Counts
        >>> rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
        >>> PastTasks(np.array([0, 0, 1]), np.array([0, 1, 1]), rows, ("a", "b"), Counts(2)).as_days().summaries[:, 0]
        array([[1., 1.],
               [1., 0.]])
        """
        count = int(self.task.max(initial=-1)) + 1
        totals = np.zeros((count, 1, self.reduction.width))
        np.add.at(totals[:, 0], self.task, self.summaries)
        return History(tuple(range(count)), ("everybody",), totals, np.ones((count, 1), dtype=bool), self.reduction)


def from_summaries(
    reduction: Reduction, summaries: Any, providers: Sequence[Any] = (), days: Sequence[Any] = ()
) -> History:
    """Return the history of summaries ``(day, provider, entry)``; a report without rows counts as missing.

    The reduction is how rows became summaries, such as `troth.core.reductions.Counts` or
    `troth.core.reductions.Moments`. Providers and days are called by numbers if no names are given.

    Examples
    --------
    >>> past = from_summaries(Counts(2), [[[3, 1], [2, 2]], [[0, 0], [1, 4]]], providers=["A", "B"])
    >>> past.present.tolist()
    [[True, True], [False, True]]
    """
    array = np.array(summaries, dtype=np.float64)
    if array.ndim != 3 or array.shape[-1] != reduction.width:
        raise DataError(
            f"summaries must have shape (day, provider, {reduction.width}) for {reduction!r}, not {array.shape}"
        )
    names = tuple(str(name) for name in providers) or tuple(str(i) for i in range(array.shape[1]))
    labels = tuple(days) or tuple(range(array.shape[0]))
    present = reduction.rows(np.nan_to_num(array, nan=1.0)) > 0
    for day, provider in np.argwhere(present | (array != 0).any(axis=-1)):
        reject_impossible(reduction, array[day, provider], labels[day], names[provider])
    return History(labels, names, array, np.asarray(present), reduction)


def from_rows(provider: Any, day: Any, values: Any, reduction: Reduction | None = None) -> History:
    """Add up rows: one provider, one day and one value, or several columns, per row.

    Without a reduction codes are counted if all values are whole numbers below 32, and otherwise moments are taken
    around the mean, squares included.

    Examples
    --------
    >>> past = from_rows(["A", "B", "A"], [1, 1, 2], [0, 1, 1])
    >>> past.summaries.tolist()
    [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 0.0]]]
    """
    table = np.asarray(values, dtype=np.float64)
    table = table[:, None] if table.ndim == 1 else table
    providers, provider_of_row = np.unique(np.asarray(provider).astype(str), return_inverse=True)
    days, day_of_row = np.unique(np.asarray(day), return_inverse=True)
    if not len(table) == len(provider_of_row) == len(day_of_row):
        raise DataError(
            f"{len(provider_of_row)} providers, {len(day_of_row)} days and {len(table)} values: "
            "give one of each per row"
        )
    if reduction is None:
        codes = table.shape[1] == 1 and bool(((table >= 0) & (table < 32) & (table == np.floor(table))).all())
        centre = tuple(float(x) for x in table.mean(axis=0))
        reduction = Counts(max(2, int(table.max()) + 1)) if codes else Moments(centre, squares=True)
    summaries = np.zeros((len(days), len(providers), reduction.width))
    cell = day_of_row * len(providers) + provider_of_row
    order = np.argsort(cell, kind="stable")
    edges = np.flatnonzero(np.diff(cell[order], prepend=-1))
    for part in np.split(order, edges[1:]):
        summaries[day_of_row[part[0]], provider_of_row[part[0]]] = reduction.of_rows(table[part])
    return from_summaries(reduction, summaries, providers.tolist(), days.tolist())


def _in_order(days: set[Any]) -> list[Any]:
    """Sort days, or say why their order is not that of time."""
    try:
        ordered = sorted(days)
    except TypeError:
        kinds = sorted({type(day).__name__ for day in days})
        raise DataError(
            f"days of different kinds ({', '.join(kinds)}) cannot be sorted; use one kind for all"
        ) from None
    text = [day for day in ordered if isinstance(day, str)]
    for first, second in pairwise(text):
        if _numbers(first) > _numbers(second) and _between(first) == _between(second):
            raise DataError(
                f"days are sorted as text, so {first!r} comes before {second!r}; write dates with two digits for month "
                "and day (2026-05-01), or whole numbers"
            )
    return ordered


def _numbers(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)]


def _between(text: str) -> str:
    """Return what is between the numbers."""
    return re.sub(r"\d+", "#", text)


def reject_impossible(reduction: Reduction, summary: Array, day: Any, name: str) -> None:
    """Refuse sums that no rows have, or that are too large to compute with."""
    location = f"day {day!r}, provider {name!r}"
    if not np.isfinite(summary).all():
        raise DataError(f"{location}: a sum is not finite")
    if (np.abs(summary) > MAX_SUM).any() or reduction.rows(summary) > MAX_ROWS:
        raise DataError(f"{location}: {summary.max():g} is too large; rescale the values")
    try:
        reduction.check(summary)
    except DataError as error:
        raise DataError(f"{location}: {error}") from None


def statistics_of(model: HasReduction, summaries: Array, given: Reduction) -> Array:
    """Return a model's statistics of past summaries, which ``given`` made.

    A history is added up once. A model that is fitted later has another prior mean, and wants its moments around that:
    a reduction converts summaries without the rows.
    """
    return np.asarray(model.from_summary(given.convert(summaries, model.reduction)), dtype=np.float64)


def _places(noun: str, labels: tuple[Any, ...], chosen: Sequence[Any] | None) -> list[int]:
    if chosen is None:
        return list(range(len(labels)))
    selected = set(chosen)
    unknown = sorted(selected - set(labels), key=repr)
    if unknown:
        raise DataError(f"{noun} {unknown[0]!r} is not in the history")
    return [i for i, label in enumerate(labels) if label in selected]
