"""Files that only their owner can read, written atomically and never through a link or over another user's file."""

from __future__ import annotations

import os
import secrets
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def create_private(path: Path, content: bytes) -> None:
    """Create a file and flush it to disk; an existing file or link of that name is an error."""
    temporary = write_beside(path, content)
    try:
        os.link(temporary, path)  # unlike a rename, never replaces a file
    finally:
        temporary.unlink()
    sync_folder(path.parent)


def replace_private(path: Path, content: bytes) -> None:
    """Atomically write a file that only its owner can read."""
    write_beside(path, content).replace(path)
    sync_folder(path.parent)


def write_beside(path: Path, content: bytes, mode: int = 0o600, like: Path | None = None) -> Path:
    """Write a temporary file beside a path, to replace it, with the mode of the file ``like`` if given."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(handle, "wb") as file:
        try:
            if like is not None:
                os.fchmod(file.fileno(), like.stat().st_mode & 0o777)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    return temporary


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def readable_by_others(path: Path) -> bool:
    """Return whether users other than its owner may read a file."""
    try:
        return bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))
    except OSError:
        return False
