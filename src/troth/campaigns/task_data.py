"""Reports on tasks as data: read from tables, and written to the file of shares, a Parquet file next to the ledger.

This file has the reports, the public data and the share of each report.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from troth.campaigns.public import describe_guesses
from troth.campaigns.records.ledger import LedgerError
from troth.campaigns.terms import beside
from troth.core.contract import HasReduction
from troth.core.errors import DataError
from troth.data.public import PUBLIC
from troth.data.read import task_name
from troth.data.task_files import read_table, summaries_of, summary_columns, write_table
from troth.data.tasks import TaskReports, in_order, read_tasks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from troth.campaigns.terms import Campaign
    from troth.core.contract import Array
    from troth.data.request import Request
    from troth.mechanisms.tasks import TaskShares


def task_request(campaign: Campaign) -> Request:
    """Return how to read a table of tasks: the column of tasks takes the place of days."""
    if not isinstance(campaign.model, HasReduction):
        raise DataError(f"{type(campaign.model).__name__} has no reduction of rows, so it cannot settle tasks")
    return replace(campaign.request, day=campaign.task, features=False)


def read_task_reports(campaign: Campaign, data: Any) -> TaskReports:
    """Read reports on tasks; two rows of a worker on one task are an error unless [limits] rows allows them."""
    return read_tasks(data, task_request(campaign), campaign.rows or 1)


def read_public_tasks(campaign: Campaign, data: Any, what: str = PUBLIC, rows: int | None = None) -> TaskReports:
    """Read the public data about each task, such as a language model's guess.

    Messages begin with ``what`` the data are. ``rows`` is the maximum number of rows per task: by default 1, or any
    number if ``[limits] rows`` allows several.
    """
    max_rows = rows or (None if (campaign.rows or 1) > 1 else 1)
    try:
        public = read_tasks(data, replace(task_request(campaign), provider=None, values=None), max_rows)
    except DataError as error:
        raise DataError(f"{what}: {error}") from None
    return replace(public, providers=(PUBLIC,))


def describe_public_tasks(campaign: Campaign) -> dict[str, Any]:
    """Read the public data of tasks that the campaign file names, and return them as the table [public]."""
    source: Any = campaign.public_source
    public = read_public_tasks(campaign, beside(campaign, source))
    return describe_guesses(public.tasks, public.summaries, source if isinstance(source, str) else "")


def reject_past_tasks(campaign: Campaign, reports: TaskReports) -> None:
    """Reject past tasks that confusion matrices were learnt from: an answer must not change the matrix that pays it."""
    if campaign.history_source is None:
        return
    past = read_tasks(beside(campaign, campaign.history_source), task_request(campaign), None)
    if repeated := same_tasks(reports.tasks, past.tasks):
        raise DataError(
            f"task {repeated[0]!r} is among the past tasks that the confusion matrices were learnt from "
            f"({len(repeated):,} such tasks), so its answers would influence their own pay: remove these tasks"
        )


def same_tasks(names: Iterable[str], recorded_names: Iterable[str]) -> list[str]:
    """Return the names of tasks that were recorded before, under any spelling."""
    recorded = set(map(task_name, recorded_names))
    return [name for name in names if task_name(name) in recorded]


def write_file(reports: TaskReports, public: TaskReports | None, shares: TaskShares) -> bytes:
    """Return reports, public data and shares as Parquet: a report's summary, its share, log PMI and peers."""
    table = _columns(reports, shares)
    if public is not None:
        table = pa.concat_tables([table, _columns(public, None)])
    return write_table(table)


class Recorded(NamedTuple):
    """The contents of a file of shares: reports, public data, and each report's share and number of peers."""

    reports: TaskReports
    public: TaskReports | None
    share: Array
    peers: Array


def read_file(file: bytes, campaign: Campaign) -> Recorded:
    """Read reports, public data and shares back from the file."""
    table = read_shares(file)
    is_public = pc.equal(table.column("provider"), PUBLIC)
    paid, public = table.filter(pc.invert(is_public)), table.filter(is_public)
    return Recorded(
        _reports_of(paid, campaign),
        _reports_of(public, campaign) if public.num_rows else None,
        paid.column("share").to_numpy(),
        paid.column("peers").to_numpy(),
    )


def read_shares(file: bytes) -> Any:
    """Return the table of a file of shares."""
    try:
        return read_table(file)
    except (DataError, pa.ArrowException) as error:
        raise LedgerError(f"the file of shares cannot be read: {error}") from None


def same_content(recomputed_content: bytes, recorded_content: bytes, tolerance: float) -> bool:
    """Whether two files hold the same table up to a tolerance; versions of the library write different bytes."""
    recomputed, recorded = read_shares(recomputed_content), read_shares(recorded_content)
    if recomputed.schema.names != recorded.schema.names or recomputed.num_rows != recorded.num_rows:
        return False
    for a, b in zip(recomputed.columns, recorded.columns, strict=True):
        if pa.types.is_floating(a.type) and pa.types.is_floating(b.type):
            if not np.allclose(a.to_numpy(), b.to_numpy(), rtol=tolerance, atol=tolerance, equal_nan=True):
                return False
        elif not a.equals(b):
            return False
    return True


def reports_digest(reports: TaskReports, public: TaskReports | None) -> str:
    """Return a digest of all reports, with their tasks and providers, and of the public data."""
    total = sha256()
    for part in (reports, public):
        if part is not None:
            for names in (part.tasks, part.providers):
                total.update("\n".join(names).encode() + b"\n\n")
            for array in (part.task.astype("<i8"), part.provider.astype("<i8"), part.summaries.astype("<f8")):
                total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def _columns(reports: TaskReports, shares: TaskShares | None) -> Any:
    missing = pa.nulls(len(reports), pa.float64())
    columns = {
        "task": pa.array(reports.tasks, pa.string()).take(pa.array(reports.task)),
        "provider": pa.array(reports.providers, pa.string()).take(pa.array(reports.provider)),
        **summary_columns(reports.summaries),
        "share": missing if shares is None else pa.array(shares.share),
        "log_pmi": missing if shares is None else pa.array(shares.log_pmi),
        "peers": pa.nulls(len(reports), pa.int64()) if shares is None else pa.array(shares.peers),
    }
    return pa.table(columns)


def _reports_of(table: Any, campaign: Campaign) -> TaskReports:
    encoded = [table.column(column).combine_chunks().dictionary_encode() for column in ("task", "provider")]
    names = [in_order(column.dictionary.to_pylist(), column.indices.to_numpy(), str) for column in encoded]
    (tasks, task), (providers, provider) = names
    summaries, needed = summaries_of(table), campaign.request.reduction.width
    if summaries.shape[1] != needed:
        raise LedgerError(f"the file of shares has {summaries.shape[1]} numbers per summary; the model needs {needed}")
    keys = task.astype(np.int64) * len(providers) + provider
    if not (np.diff(keys) > 0).all():
        raise LedgerError("the file of shares is not in the order of tasks and providers")
    return TaskReports(tuple(tasks), tuple(providers), task, provider, summaries)
