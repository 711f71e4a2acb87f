"""Files that only their owner reads: never written through a link, never over one that somebody else put there."""

from __future__ import annotations

import os
import secrets
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def create_private(path: Path, content: bytes) -> None:
    """Create a file and write it to the disk; an existing file, or a link of that name, is an error."""
    temporary = _written(path, content)
    try:
        os.link(temporary, path)  # unlike a rename, refuses to replace
    finally:
        temporary.unlink()
    _sync_folder(path.parent)


def replace_private(path: Path, content: bytes) -> None:
    """Write a file so that it is always either the old one or the new one, and only its owner can read it."""
    _written(path, content).replace(path)
    _sync_folder(path.parent)


def open_exclusively(path: Path, mode: int = 0o600) -> int:
    """Return a handle on a file that did not exist before and is not a link."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)


def _written(path: Path, content: bytes) -> Path:
    """Write a file beside a path, to take its place."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    with os.fdopen(open_exclusively(temporary), "wb") as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    return temporary


def readable_by_others(path: Path) -> bool:
    """Say whether others than its owner may read a file."""
    try:
        return bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))
    except OSError:
        return False


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
