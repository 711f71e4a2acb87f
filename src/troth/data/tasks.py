"""Reports on tasks: any table with a column of tasks, as arrays with one entry for each provider on each task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import DataError
from troth.data.gather import requested_table
from troth.data.kernel import Adder, encode
from troth.data.read import canonical_name, refuse_alike
from troth.data.request import refuse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from troth.core.support import Array
    from troth.data.request import Request

    Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class TaskReports:
    """Who reported what on which task, sorted by task and provider, names in alphabetical order.

    Attributes
    ----------
    tasks, providers
        Their names.
    task, provider
        Places among these, ``(report,)``.
    summaries
        What the rows of a report add up to, ``(report, entry)``.
    """

    tasks: tuple[str, ...]
    providers: tuple[str, ...]
    task: Places
    provider: Places
    summaries: Array

    def __len__(self) -> int:
        return len(self.task)


def read_tasks(data: Any, request: Request) -> TaskReports:
    """Read reports on tasks from any table; the request's column of days is that of tasks.

    Parameters
    ----------
    data
        As for `troth.data.read_reports`. It is read into memory.
    """
    owner = request.provider or request.day  # what everybody knows is nobody's
    table = requested_table(data, replace(request, provider=owner))
    if table.num_rows == 0:
        raise DataError("there are no reports: the data have no rows")
    if not isinstance(request.day, str):
        raise DataError("say which column holds the tasks: task=")
    tasks, task = _names(table.column(str(request.day)), str(request.day), "task")
    providers, provider = [""], np.zeros(len(task), dtype=np.intp)
    if request.provider is not None:
        providers, provider = _names(table.column(request.provider), request.provider, "provider")
    pairs, which = np.unique(task.astype(np.int64) * len(providers) + provider, return_inverse=True)
    task, provider = np.divmod(pairs, len(providers))
    summaries = request.reduction.add(_values(table, request), which.ravel(), len(pairs))
    return TaskReports(tuple(tasks), tuple(providers), task, provider, summaries)


def _names(column: Any, name: str, what: str) -> tuple[list[str], Places]:
    """Return the names of a column in order, and each row's place among them."""
    try:
        values, codes = encode(column)
    except TypeError as error:
        raise DataError(f"column {name!r} has {error}; a {what} is named by text or a whole number") from None
    spelled = [str(value) for value in (values if isinstance(values, range) else values.to_pylist())]
    present = np.unique(codes)
    if present[0] < 0 or any(not spelled[code].strip() for code in present):
        raise DataError(f"column {name!r}: a {what}'s name is missing")
    names = {spelled[code]: canonical_name(spelled[code]) for code in present}
    refuse_alike(names)
    order = sorted(names.values())
    place = {label: number for number, label in enumerate(order)}
    places = np.full(len(spelled), -1, dtype=np.intp)
    for code in present:
        places[code] = place[names[spelled[code]]]
    return order, places[codes]


def _values(table: Any, request: Request) -> list[Any]:
    """Return the columns that the model reads, checked as those of any table."""
    adder = Adder(request, "the data", text=True)
    columns = adder.read(table.combine_chunks().to_batches()[0])
    refuse(adder.problems)
    return columns
