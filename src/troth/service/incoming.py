"""Incoming uploads: streamed to a file up to a size limit, and queued for reading."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Row
from starlette.datastructures import UploadFile

from troth.service import campaigns, rounds, threads, upload_queue
from troth.service.accounts import User
from troth.service.idempotency import was_answered
from troth.service.store import Store, timestamp
from troth.service.uploads import Limits, UnmeasuredReportError, Upload, UploadError, holds_statistics, read_upload

STATISTICS = "statistics.json"
"""The file name of statistics that are sent without one."""
_PREFIX = "troth-upload-"
READ_TIMEOUT = 20.0
"""Seconds that a request waits for its upload to be read; then the response only confirms that it was received."""
_MAX_READ_SECONDS = 3600.0  # reading an upload never takes this long
_tasks: set[asyncio.Task[None]] = set()  # keeps a reference to each until it ends


def remove_leftovers(*folders: Path) -> None:
    """Remove uploads that a killed service left behind; those in progress are younger."""
    searched = (Path(tempfile.gettempdir()), *folders)
    for leftover in [path for folder in searched for path in folder.glob(f"{_PREFIX}*")]:
        with suppress(OSError):
            status = leftover.lstat()
            if status.st_uid != os.getuid() or time.time() - status.st_mtime < _MAX_READ_SECONDS:
                continue
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover)
            else:
                leftover.unlink()


def check_upload_allowed(store: Store, user: User, campaign: str, number: int, key: str | None = None) -> None:
    """Reject an upload that cannot be accepted before reading it, unless it repeats a request that was answered."""
    with store.read() as tx:
        if key is None or not was_answered(tx, user.account, key):
            _, member = campaigns.joined(tx, user, campaign)
            rounds.check_open(rounds.find_round(tx, campaign, number), member)


@asynccontextmanager
async def stored(stream: AsyncIterable[bytes], limits: Limits, folder: Path) -> AsyncIterator[Path]:
    """Store a stream of bytes in a temporary file."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=_PREFIX, dir=folder)
    path, size = Path(name), 0
    try:
        with os.fdopen(handle, "wb") as file:
            async for block in stream:
                size += len(block)
                if size > limits.bytes:
                    raise UploadError(413, f"the file has more than {limits.bytes:,} bytes; send statistics instead")
                file.write(block)
        yield path
    finally:
        path.unlink(missing_ok=True)


async def blocks_of(file: UploadFile) -> AsyncIterator[bytes]:
    """Yield the blocks of a file in a form."""
    while block := await file.read(1 << 20):
        yield block


def arrival(path: Path) -> str:
    """Return when the last bytes of an upload arrived."""
    return timestamp(datetime.fromtimestamp(path.stat().st_mtime, UTC))


def read_statistics(
    store: Store, user: User, campaign: str, number: int, path: Path, name: str, limits: Limits
) -> Upload | None:
    """Read an upload immediately if it has statistics no larger than earlier ones; otherwise return None."""
    with store.read() as tx:
        row, member = campaigns.joined(tx, user, campaign)
        round_row = rounds.find_round(tx, campaign, number)
        rounds.check_open(round_row, member, arrival(path))
    terms = campaigns.terms_of(row)
    if not holds_statistics(terms, name):
        return None
    try:
        return read_upload(terms, path, name, member.name, round_row.day, limits, trial=False)
    except UnmeasuredReportError:
        return None


async def read_soon(store: Store, limits: Limits, identifier: str) -> Row[Any]:
    """Have queued uploads read; return the row of this one once it is read or refused, or after `READ_TIMEOUT`."""
    task = asyncio.create_task(threads.run("parsing", upload_queue.read_all, store, limits))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    end, pause = time.monotonic() + READ_TIMEOUT, 0.01
    while True:
        row = await threads.run("reads", _queued, store, identifier)
        if row.state in ("read", "refused") or time.monotonic() > end:
            break
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.5)
    if row.state == "refused":
        raise UploadError(row.status, row.problem)
    return row


def _queued(store: Store, identifier: str) -> Row[Any]:
    with store.read() as tx:
        row = upload_queue.find(tx, identifier)
    assert row is not None  # noqa: S101 (it was stored before)
    return row
