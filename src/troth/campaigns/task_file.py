"""The file of shares beside a ledger of tasks: reports, public data and everybody's share of each task, as Parquet."""

from __future__ import annotations

from hashlib import sha256
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from troth.campaigns.ledger import LedgerError
from troth.data.public import PUBLIC
from troth.data.tasks import TaskReports

if TYPE_CHECKING:
    from troth.campaigns.terms import Campaign
    from troth.core.contract import Array
    from troth.mechanisms.tasks import TaskShares


def write_file(reports: TaskReports, public: TaskReports | None, shares: TaskShares) -> bytes:
    """Return reports, public data and shares as Parquet: sums of a report's rows, its share, log PMI and peers."""
    import pyarrow.parquet as pq

    table = _columns(reports, shares)
    if public is not None:
        table = pa.concat_tables([table, _columns(public, None)])
    buffer = BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def read_file(file: bytes, campaign: Campaign) -> tuple[TaskReports, TaskReports | None, Array]:
    """Read reports, public data and shares back from the file."""
    table = read_shares(file)
    is_public = pc.equal(table.column("provider"), PUBLIC)
    reports = _reports_of(table.filter(pc.invert(is_public)), campaign)
    rest = table.filter(is_public)
    written = table.filter(pc.invert(is_public)).column("share").to_numpy()
    return reports, _reports_of(rest, campaign) if rest.num_rows else None, written


def read_shares(file: bytes) -> Any:
    """Return the table of a file of shares."""
    import pyarrow.parquet as pq

    try:
        # by this thread alone: one that still holds Python's bytes at the end of the process would abort it
        return pq.read_table(pa.BufferReader(file), use_threads=False, pre_buffer=False)
    except pa.ArrowException as error:
        raise LedgerError(f"the file of shares cannot be read: {error}") from None


def same_content(one: bytes, other: bytes, within: float) -> bool:
    """Whether two files hold the same table up to rounding: other versions of the library write other bytes."""
    mine, theirs = read_shares(one), read_shares(other)
    if mine.schema.names != theirs.schema.names or mine.num_rows != theirs.num_rows:
        return False
    for a, b in zip(mine.columns, theirs.columns, strict=True):
        if pa.types.is_floating(a.type) and pa.types.is_floating(b.type):
            if not np.allclose(a.to_numpy(), b.to_numpy(), rtol=within, atol=within, equal_nan=True):
                return False
        elif not a.equals(b):
            return False
    return True


def reports_digest(reports: TaskReports, public: TaskReports | None) -> str:
    """Return a digest of what was reported, by whom and on which task, and of what everybody knows."""
    total = sha256()
    for part in (reports, public):
        if part is not None:
            for names in (part.tasks, part.providers):
                total.update("\n".join(names).encode() + b"\n\n")
            for array in (part.task.astype("<i8"), part.provider.astype("<i8"), part.summaries.astype("<f8")):
                total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def _columns(reports: TaskReports, shares: TaskShares | None) -> Any:
    nothing = pa.nulls(len(reports), pa.float64())
    columns = {
        "task": pa.array(reports.tasks, pa.string()).take(pa.array(reports.task)),
        "provider": pa.array(reports.providers, pa.string()).take(pa.array(reports.provider)),
    }
    for entry in range(reports.summaries.shape[1]):
        columns[f"sum_{entry}"] = pa.array(reports.summaries[:, entry])
    columns["share"] = nothing if shares is None else pa.array(shares.share)
    columns["log_pmi"] = nothing if shares is None else pa.array(shares.log_pmi)
    columns["peers"] = pa.nulls(len(reports), pa.int64()) if shares is None else pa.array(shares.peers)
    return pa.table(columns)


def _reports_of(table: Any, campaign: Campaign) -> TaskReports:
    names = []
    for column in ("task", "provider"):
        encoded = table.column(column).combine_chunks().dictionary_encode()
        spelled = encoded.dictionary.to_pylist()
        order = sorted(spelled)
        place = {name: number for number, name in enumerate(order)}
        places = np.array([place[name] for name in spelled], dtype=np.intp)
        names.append((tuple(order), places[encoded.indices.to_numpy()]))
    (tasks, task), (providers, provider) = names
    reduction: Any = campaign.model.reduction  # type: ignore[attr-defined]
    summaries = np.stack([table.column(f"sum_{entry}").to_numpy() for entry in range(reduction.width)], axis=1)
    keys = task.astype(np.int64) * len(providers) + provider
    if not (np.diff(keys) > 0).all():
        raise LedgerError("the file of shares is not in the order of tasks and providers")
    return TaskReports(tasks, providers, task, provider, summaries)
