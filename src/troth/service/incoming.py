"""Uploads on their way in: streamed to a temporary file, no larger than allowed, and read in a sandbox."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from troth.service import campaigns as terms
from troth.service import rounds
from troth.service.uploads import UploadError, read_upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator

    from troth.service.accounts import Who
    from troth.service.store import Store
    from troth.service.uploads import Limits, Upload


_PREFIX = "troth-upload-"
_LONGEST_READ = 3600.0  # seconds; no upload is read for so long


def sweep() -> None:
    """Remove what a service that was killed has left of uploads; those that are being read are younger."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            about = left.lstat()
            if about.st_uid != os.getuid() or time.time() - about.st_mtime < _LONGEST_READ:
                continue
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left)
            else:
                left.unlink()


@asynccontextmanager
async def kept(stream: AsyncIterable[bytes], limits: Limits) -> AsyncIterator[Path]:
    """Keep a stream of bytes in a file for as long as it is needed."""
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
    store: Store, who: Who, campaign: str, number: int, path: Path, name: str, limits: Limits
) -> Upload:
    """Read a provider's file for a round, outside any transaction."""
    with store.read() as tx:
        row, member = terms.joined(tx, who, campaign)
        held = rounds.find_round(tx, campaign, number)
        rounds.check_open(held, member)
        spec = terms.terms_of(row)
    return read_upload(spec, path, name, member.name, rounds.read_day(held.day), limits)


def read_statistics(store: Store, who: Who, campaign: str, number: int, plain: Any, limits: Limits) -> Upload:
    """Read statistics that came as JSON just as a file of them."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        path = Path(folder) / "statistics.json"
        try:
            path.write_bytes(json.dumps(plain, allow_nan=False).encode())
        except ValueError:
            raise UploadError(422, "statistics: must be finite numbers") from None
        return read_submission(store, who, campaign, number, path, path.name, limits)
