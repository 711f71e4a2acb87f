"""Uploads on their way in: streamed to a temporary file, no larger than allowed, and read in a sandbox."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from troth.service import campaigns, rounds
from troth.service.idempotency import replied
from troth.service.uploads import UploadError, read_upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator

    from troth.service.accounts import User
    from troth.service.store import Store
    from troth.service.uploads import Limits, Upload

STATISTICS = "statistics.json"
"""The file name of statistics that were sent without one."""
_PREFIX = "troth-upload-"
_LONGEST_READ = 3600.0  # seconds; reading an upload never takes this long


def sweep() -> None:
    """Remove uploads that a killed service has left behind; those that are being read are younger."""
    for leftover in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            about = leftover.lstat()
            if about.st_uid != os.getuid() or time.time() - about.st_mtime < _LONGEST_READ:
                continue
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover)
            else:
                leftover.unlink()


def check_welcome(store: Store, user: User, campaign: str, number: int, key: str | None = None) -> None:
    """Refuse an upload before any of it is read, unless it is sent again under a key that was answered before."""
    with store.read() as tx:
        if key is None or not replied(tx, user.account, key):
            _, member = campaigns.joined(tx, user, campaign)
            rounds.check_open(rounds.find_round(tx, campaign, number), member)


@asynccontextmanager
async def stored(stream: AsyncIterable[bytes], limits: Limits) -> AsyncIterator[Path]:
    """Store a stream of bytes in a file for as long as it is needed."""
    handle, name = tempfile.mkstemp(prefix=_PREFIX)
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


def read_submission(
    store: Store, user: User, campaign: str, number: int, path: Path, name: str, limits: Limits
) -> Upload:
    """Read a provider's file for a round, outside any transaction."""
    with store.read() as tx:
        row, member = campaigns.joined(tx, user, campaign)
        round_row = rounds.find_round(tx, campaign, number)
        rounds.check_open(round_row, member)
    return read_upload(campaigns.terms_of(row), path, name, member.name, rounds.read_day(round_row.day), limits)
