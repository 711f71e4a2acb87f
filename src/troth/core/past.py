"""Past days as summaries by day and provider, to which models are fitted."""

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
        Labels of the days, in chronological order.
    providers
        Names of the providers.
    summaries
        Summaries, ``(day, provider, entry)``; zeros if a provider did not report.
    present
        Whether a provider reported on a day, ``(day, provider)``.
    reduction
        The reduction that made the summaries.
    tables
        The rows themselves, ``(row, column)`` by day and provider, if available.

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
        """Build a history from reports (day, provider, summary), sorted by day and provider.

        Summaries of the same day and provider are added up, as parts of the same report. Days are numbers, dates, or
        text that sorts chronologically, such as ``2026-05-01``.
        """
        entries = [(day, name, np.asarray(summary, dtype=np.float64)) for day, name, summary in reports]
        days = _sorted_days({day for day, _, _ in entries})
        providers = sorted({name for _, name, _ in entries})
        day_index, provider_index = ({label: i for i, label in enumerate(labels)} for labels in (days, providers))
        summaries = np.zeros((len(days), len(providers), reduction.width))
        present = np.zeros(summaries.shape[:2], dtype=bool)
        for day, name, summary in entries:
            if summary.shape != (reduction.width,):
                location = f"day {day!r}, provider {name!r}"
                raise DataError(f"{location}: a summary must have {reduction.width} numbers, not shape {summary.shape}")
            reject_impossible(reduction, summary, day, name)
            summaries[day_index[day], provider_index[name]] += summary
            present[day_index[day], provider_index[name]] = True
        return cls(tuple(days), tuple(providers), summaries, present, reduction)

    @classmethod
    def from_tables(cls, tables: Mapping[tuple[Any, str], Array], reduction: Reduction) -> History:
        """Add up rows ``(row, column)`` by day and provider, and keep the rows.

        Examples
        --------
        >>> from troth.core.reductions import Counts
        >>> past = History.from_tables({("mon", "a"): np.array([[0.0], [1.0], [1.0]])}, Counts(2))
        >>> past.summaries.tolist()
        [[[1.0, 2.0]]]
        """
        reports = [(day, name, reduction.of_rows(table)) for (day, name), table in tables.items()]
        return replace(cls.from_reports(reports, reduction), tables=dict(tables))

    def reduced_by(self, reduction: Reduction) -> History:
        """Return the history with its rows reduced by another reduction; unchanged if the rows are not kept."""
        if self.tables is None or reduction == self.reduction:
            return self
        summaries = np.zeros((*self.present.shape, reduction.width))
        for day, provider in np.argwhere(self.present):
            summaries[day, provider] = reduction.of_rows(self.tables[self.days[day], self.providers[provider]])
        return replace(self, summaries=summaries, reduction=reduction)

    @property
    def rows(self) -> Array:
        """The number of rows of each provider on each day, ``(day, provider)``."""
        return self.reduction.rows(self.summaries)

    def select(self, days: Sequence[Any] | None = None, providers: Sequence[str] | None = None) -> History:
        """Return the history of the given days and providers; the order does not change."""
        rows = _indexes("day", self.days, days)
        columns = _indexes("provider", self.providers, providers)
        chosen, names = tuple(self.days[i] for i in rows), tuple(self.providers[i] for i in columns)
        part = np.ix_(rows, columns)
        return replace(self, days=chosen, providers=names, summaries=self.summaries[part], present=self.present[part])


@dataclass(frozen=True, eq=False)
class PastTasks:
    """Reports on past tasks, in sparse form, as most workers report on few tasks."""

    task: Indexes  # the index of each report's task
    worker: Indexes  # the index of each report's worker
    summaries: Array  # (report, entry)
    workers: tuple[str, ...]  # names
    reduction: Reduction  # the reduction that made the summaries
    classes: Indexes | None = None  # the true code of each task, −1 if unknown; None if all are unknown

    def as_days(self) -> History:
        """Return a history with one day per task, on which a single provider reports the sum of all workers' answers.

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

    ``reduction`` made the summaries, for example `troth.core.reductions.Counts` or `troth.core.reductions.Moments`.
    Providers and days are numbered by default.

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
    """Return the history of rows, given the provider, the day and the value or values of each row.

    By default, values are counted as codes if all are integers from 0 to 31; otherwise moments around the mean,
    including squares, are added up.

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


def _sorted_days(days: set[Any]) -> list[Any]:
    """Sort days, or raise an error if they do not sort chronologically."""
    try:
        ordered = sorted(days)
    except TypeError:
        kinds = sorted({type(day).__name__ for day in days})
        raise DataError(
            f"days of different kinds ({', '.join(kinds)}) cannot be sorted; use one kind for all"
        ) from None
    text = [day for day in ordered if isinstance(day, str)]
    for first, second in pairwise(text):
        if _numbers(first) > _numbers(second) and _pattern(first) == _pattern(second):
            raise DataError(
                f"days are sorted as text, so {first!r} comes before {second!r}; write dates with two digits for month "
                "and day (2026-05-01), or whole numbers"
            )
    return ordered


def _numbers(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)]


def _pattern(text: str) -> str:
    """Return the text with a placeholder for each number."""
    return re.sub(r"\d+", "#", text)


def reject_impossible(reduction: Reduction, summary: Array, day: Any, name: str) -> None:
    """Raise an error for a summary that no data can have, or that is too large to compute with."""
    location = f"day {day!r}, provider {name!r}"
    if not np.isfinite(summary).all():
        raise DataError(f"{location}: a sum is not finite")
    if (np.abs(summary) > MAX_SUM).any() or reduction.rows(summary) > MAX_ROWS:
        raise DataError(f"{location}: {summary.max():g} is too large; rescale the values")
    try:
        reduction.check(summary)
    except DataError as error:
        raise DataError(f"{location}: {error}") from None


def statistics_of(model: HasReduction, summaries: Array, reduction: Reduction) -> Array:
    """Return a model's statistics of past summaries that ``reduction`` made.

    A model that is fitted to the history may centre its moments elsewhere, so summaries are first converted to its own
    reduction.
    """
    return np.asarray(model.from_summary(reduction.convert(summaries, model.reduction)), dtype=np.float64)


def _indexes(noun: str, labels: tuple[Any, ...], chosen: Sequence[Any] | None) -> list[int]:
    if chosen is None:
        return list(range(len(labels)))
    selected = set(chosen)
    unknown = sorted(selected - set(labels), key=repr)
    if unknown:
        raise DataError(f"{noun} {unknown[0]!r} is not in the history")
    return [i for i, label in enumerate(labels) if label in selected]
