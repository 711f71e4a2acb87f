"""A progress bar for long work, on the terminal's error stream and nowhere else."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")


def progress(steps: Sequence[T], title: str, shown: bool | None = None) -> Iterator[T]:
    """Yield the steps, drawing a bar if asked to or if somebody watches."""
    watched = sys.stderr.isatty() if shown is None else shown
    for done, step in enumerate(steps):
        if watched:
            filled = 30 * done // len(steps)
            sys.stderr.write(f"\r{title} [{'█' * filled}{'·' * (30 - filled)}] {100 * done // len(steps):3d}%")
            sys.stderr.flush()
        yield step
    if watched:
        sys.stderr.write(f"\r{title} [{'█' * 30}] 100%\n")
