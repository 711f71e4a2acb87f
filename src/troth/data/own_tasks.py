"""One provider's reports on tasks, as it sends them: each task once, named as everybody names it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from troth.core.errors import DataError
from troth.data.files import Fragment, TextAmongNumbersError, format_of, plan
from troth.data.kernel import Adder, encode
from troth.data.read import canonical_name, task_name
from troth.data.request import file_name, refuse, shown
from troth.data.tasks import TaskReports, add_up, refuse_repeated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from troth.core.support import Array
    from troth.data.engines import Look
    from troth.data.request import Request

LONGEST_NAME = 200
"""The most characters of a task's name."""


@dataclass(frozen=True, eq=False)
class OwnTasks:
    """What one provider reported: the names of its tasks in order, and what its rows on each add up to.

    Examples
    --------
    >>> own = OwnTasks(("a", "b"), np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> OwnTasks.from_bytes(own.to_bytes()).digest == own.digest
    True
    """

    names: tuple[str, ...]
    summaries: Array

    @property
    def digest(self) -> str:
        """Digest of what was reported on which task."""
        names = json.dumps(list(self.names), separators=(",", ":")).encode()
        sums = np.ascontiguousarray(self.summaries.astype("<f8"))
        return f"sha256:{sha256(names + sums.tobytes()).hexdigest()}"

    def to_bytes(self) -> bytes:
        """Return them as a small Parquet file."""
        import pyarrow.parquet as pq

        sums = {f"sum_{entry}": column for entry, column in enumerate(self.summaries.T)}
        buffer = BytesIO()
        pq.write_table(pa.table({"task": pa.array(self.names, pa.string()), **sums}), buffer, compression="zstd")
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> OwnTasks:
        """Read what `to_bytes` has written."""
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(pa.BufferReader(content), use_threads=False, pre_buffer=False)
            sums = [table.column(f"sum_{entry}").to_numpy() for entry in range(table.num_columns - 1)]
            return cls(tuple(table.column("task").to_pylist()), np.stack(sums, axis=1))
        except (pa.ArrowException, KeyError, ValueError) as error:
            raise DataError(f"reports on tasks cannot be read: {error}") from None


def join_tasks(own: Mapping[str, OwnTasks]) -> TaskReports:
    """Put what providers sent, by name, into one table."""
    providers = sorted(own)
    tasks = sorted({task for name in providers for task in own[name].names})
    place = {name: number for number, name in enumerate(tasks)}
    task = np.array([place[each] for name in providers for each in own[name].names], dtype=np.intp)
    provider = np.repeat(np.arange(len(providers)), [len(own[name].names) for name in providers])
    order = np.lexsort((provider, task))
    summaries = np.concatenate([own[name].summaries for name in providers])[order]
    return TaskReports(tuple(tasks), tuple(providers), task[order], provider[order], summaries)


def split_tasks(reports: TaskReports) -> Iterator[tuple[str, OwnTasks]]:
    """Yield everybody's own reports, as they were sent."""
    order = np.argsort(reports.provider, kind="stable")  # tasks stay in order
    ends = np.searchsorted(reports.provider[order], np.arange(len(reports.providers) + 1))
    for number, name in enumerate(reports.providers):
        mine = order[ends[number] : ends[number + 1]]
        yield name, OwnTasks(tuple(reports.tasks[task] for task in reports.task[mine]), reports.summaries[mine])


def read_own_tasks(
    file: str | Path,
    request: Request,
    provider: str,
    *,
    rows: int = 1,
    format: str | None = None,  # noqa: A002
    look: Look | None = None,
) -> OwnTasks:
    """Read a file in which one provider reports on many tasks; a column of its name may be missing.

    Parameters
    ----------
    request
        Its column of days is that of tasks.
    rows
        The most rows for one task: where it is one, a task that comes twice is an error.
    look
        Called with each batch of rows before it is read.
    """
    path, task = Path(file), str(request.day)
    place = file_name(path)
    kind = format or format_of(path)
    if not path.is_file() or kind == "statistics":
        raise DataError(f"{place}: is not a file of rows; send a line for each task")
    if request.provider is not None and request.provider not in Fragment(str(path), kind).column_names():
        request = replace(request, provider=None)
    fragments, _ = plan(str(path), request, kind)
    try:
        table, numbers, columns = _read(fragments, request, place, look)
    except TextAmongNumbersError as error:
        _read(fragments, request, place, look, text=True)
        raise fragments[0].unreadable(error) from None
    if table.num_rows == 0:
        raise DataError(f"{place}: the file has no rows")
    if request.provider is not None:
        _refuse_others(table.column(request.provider), request.provider, provider, place, numbers)
    names, codes = _task_names(table.column(task), task, place, numbers)

    def spell(code: int) -> str:
        return f"{place}: task {shown(names[code])}"

    def at(row: int) -> tuple[str, int]:
        return "", int(numbers[row])

    refuse_repeated(codes, rows, task, spell, at)
    return OwnTasks(tuple(names), add_up(request, columns, codes, len(names), spell, at))


def _read(
    fragments: list[Fragment], request: Request, place: str, look: Look | None, *, text: bool = False
) -> tuple[Any, NDArray[np.intp], list[Any]]:
    """Return names as an Arrow table, numbers of rows from 0, and the columns that the model reads."""
    adder = Adder(request, place, text=text)
    keys = [name for name in (request.provider, request.day) if name is not None]
    names, values, numbers, row = [], [], [], 0
    for fragment in fragments:
        for batch in fragment.batches(request, text=text):
            if look is not None:
                look(batch)
            rows = adder.read(batch, row)
            values.append(rows.columns)
            numbers.append(rows.numbers)
            names.append(pa.table({key: _plain(rows.batch.column(key)) for key in keys}))
            row += batch.num_rows
    refuse(adder.problems)
    if not names:
        raise DataError(f"{place}: the file has no rows")
    columns = [np.concatenate(column) for column in zip(*values, strict=True)]
    return pa.concat_tables(names, promote_options="permissive"), np.concatenate(numbers), columns


def _plain(column: Any) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _refuse_others(column: Any, name: str, provider: str, place: str, numbers: NDArray[np.intp]) -> None:
    values, codes = _encoded(column, name, "provider", place, numbers)
    for code in np.unique(codes).tolist():
        if canonical_name(values[code]) != canonical_name(provider):
            row = numbers[np.argmax(codes == code)] + 1
            raise DataError(
                f"{place}: row {row:,} is of provider {shown(values[code])}, not {provider!r}; send only your own rows"
            )


def _task_names(column: Any, name: str, place: str, numbers: NDArray[np.intp]) -> tuple[list[str], NDArray[np.intp]]:
    """Return the names of tasks in order, and each row's place among them."""
    values, codes = _encoded(column, name, "task", place, numbers)
    spelled = {code: task_name(values[code]) for code in np.unique(codes).tolist()}
    for code, task in spelled.items():
        if len(task) > LONGEST_NAME or not task.isprintable():
            row = numbers[np.argmax(codes == code)] + 1
            why = "has signs that cannot be printed" if len(task) <= LONGEST_NAME else f"is {len(task):,} signs long"
            raise DataError(
                f"{place}: row {row:,}: the name of task {shown(task)} {why}; use at most {LONGEST_NAME} signs "
                "that can be printed"
            )
    order = sorted(set(spelled.values()))
    number = {task: place for place, task in enumerate(order)}
    places = np.zeros(max(spelled) + 1, dtype=np.intp)
    for code, task in spelled.items():
        places[code] = number[task]
    return order, places[codes]


def _encoded(
    column: Any, name: str, what: str, place: str, numbers: NDArray[np.intp]
) -> tuple[list[str], NDArray[np.intp]]:
    try:
        values, codes = encode(column)
    except TypeError as error:
        raise DataError(f"{place}: column {name!r} has {error}; a {what} is named by text or a whole number") from None
    spelled = [str(value) for value in (values if isinstance(values, range) else values.to_pylist())]
    blank = [code for code in np.unique(codes).tolist() if code < 0 or not spelled[code].strip()]
    if blank:
        row = numbers[np.argmax(np.isin(codes, blank))] + 1
        raise DataError(f"{place}: row {row:,}: column {name!r}: the name of the {what} is missing; add it")
    return spelled, codes
