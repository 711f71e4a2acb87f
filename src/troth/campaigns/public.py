"""Public data in the terms: the summary of their rows, the name of their file and its digest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.contract import HasReduction
from troth.core.errors import DataError
from troth.core.limits import MAX_SUM
from troth.core.settings import numbers
from troth.data.public import PUBLIC
from troth.data.read import task_name
from troth.data.request import Report
from troth.data.tasks import TaskReports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.core.contract import Array, Model
    from troth.core.settings import Section
    from troth.core.support import Bounds
    from troth.data.request import Day

_KEYS = ("source", "digest", "rows", "summary", "tasks")


def take_guesses(section: Section) -> TaskReports | None:
    """Read the table [public] of a campaign of tasks: the summary of each task's public rows, by task name."""
    table = section.take("tasks")
    if table is None:
        return None
    try:
        names = sorted(table)
        summaries = np.array([numbers(table[name]) for name in names], dtype=np.float64)
        valid_names = all(name == task_name(name) and name.isprintable() for name in names)
        if not valid_names or summaries.ndim != 2 or not (np.abs(summaries) <= MAX_SUM).all():
            raise ValueError(names)
    except (TypeError, ValueError, OverflowError, AttributeError, KeyError):
        message = "must have a list of numbers under the name of each task (7, not 7.0): the summary of its public rows"
        raise section.error_at("tasks", message) from None
    section.text("source")
    section.digest("digest", "create")
    section.reject_unknown(_KEYS)
    task = np.arange(len(names))
    return TaskReports(tuple(names), (PUBLIC,), task, np.zeros_like(task), summaries)


def describe_guesses(tasks: Sequence[str], summaries: Array, source: str, digest: str | None = None) -> dict[str, Any]:
    """Return the public data about each task as the table [public]."""
    origin = {key: value for key, value in (("source", source), ("digest", digest)) if value}
    rows = [[int(x) if x == int(x) else x for x in row] for row in summaries.tolist()]
    return {**origin, "tasks": dict(zip(tasks, rows, strict=True))}


def check_task_summaries(
    tasks: Sequence[str], summaries: Array, model: Any, columns: Sequence[str | None], values: Bounds | None = None
) -> None:
    """Reject summaries of tasks that no rows can have, or that are impossible under every class."""
    reduction = model.reduction
    distinct, first = np.unique(summaries, axis=0, return_index=True)
    if distinct.shape[1] != reduction.width:
        raise DataError(f"each summary has {distinct.shape[1]} numbers; {type(model).__name__} needs {reduction.width}")
    if (beyond := ~(np.abs(distinct) <= MAX_SUM)).any():
        task = tasks[first[int(np.argmax(beyond.any(axis=1)))]]
        raise DataError(f"task {task!r}: the numbers of its summary must be at most {MAX_SUM:g}; rescale it")
    evidence = np.asarray(model.log_evidence(model.from_summary(distinct)))
    for summary, value, place in zip(distinct, evidence, first, strict=True):
        location = f"task {tasks[place]!r}"
        try:
            reduction.check(summary, values, _constants(columns))
        except DataError as error:
            raise DataError(f"{location}: {error}") from None
        if not value > -np.inf:
            raise DataError(f"{location}: this answer cannot occur under any class of the model; correct it")


def take_public(section: Section) -> dict[Day, Report] | None:
    """Read the table [public]: the summary of public data that are the same on every day."""
    if not section.remaining:
        return None
    for key in ("rows", "summary"):
        if key not in section.remaining:
            raise section.error_at(key, "is missing; name a file of rows instead, as [data] public")
    rows, values = section.integer("rows", minimum=1), section.take("summary")
    try:
        summary = np.array(numbers(values), dtype=np.float64)
        if summary.ndim != 1 or not (np.abs(summary) <= MAX_SUM).all():
            raise ValueError(values)
    except (TypeError, ValueError, OverflowError):
        raise section.error_at("summary", "must be a list of numbers, the summary of the public rows") from None
    report = Report(PUBLIC, None, rows, summary, section.text("source", ""), section.digest("digest", "pay"))
    section.reject_unknown(_KEYS)
    return {None: report}


def describe_public(report: Report) -> dict[str, Any]:
    """Return public data as the table [public]."""
    origin = {"source": report.source or None, "digest": report.data_digest}
    table = {"rows": report.rows, "summary": report.summary.tolist()}
    return {key: value for key, value in (origin | table).items() if value is not None}


def check_public(known: Mapping[Day, Report], model: Model, columns: Sequence[str | None]) -> None:
    """Reject public data whose summary no rows can have."""
    for report in known.values() if isinstance(model, HasReduction) else ():
        check_summary(report, model, columns)


def check_summary(report: Report, model: Any, columns: Sequence[str | None], values: Bounds | None = None) -> None:
    """Reject a report whose summary no rows can have, given their number, the columns and the range of values."""
    summary, reduction = report.summary, model.reduction
    if len(summary) != reduction.width:
        name = type(model).__name__
        raise DataError(f"the summary has {len(summary)} numbers, but {name} needs {reduction.width}")
    beyond = ~(np.abs(summary) <= MAX_SUM)
    if beyond.any():
        raise DataError(f"number {int(np.argmax(beyond))} of the summary is not a number up to {MAX_SUM:g}")
    try:
        reduction.check(summary, values, _constants(columns))
    except DataError as error:
        raise DataError(f"an impossible summary: {error}") from None
    rows = float(reduction.rows(summary))
    if rows != report.rows:
        raise DataError(f"rows is {report.rows}, but the summary counts {rows:g} rows")


def _constants(columns: Sequence[str | None]) -> list[int]:
    return [index for index, column in enumerate(columns) if column is None]
