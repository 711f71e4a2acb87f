"""What a service keeps outside its database is on the disk before anybody relies on it, and written by one at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from troth.campaigns.seed import draw_secret
from troth.service.heads import last_head
from troth.service.keys import Keys


def test_a_head_is_on_the_disk_before_it_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a database that was restored from an older copy would continue the last head after a power failure."""
    keys, fsync = Keys(tmp_path / "keys"), os.fsync
    keys.add_head("a", {"epoch": 1, "lines": 3})
    synced: list[int] = []

    def sync(handle: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")).read_bytes().count(b"\n"))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", sync)
    keys.add_head("a", {"epoch": 1, "lines": 5})
    assert synced == [2]
    assert [head["lines"] for head in keys.heads("a")] == [3, 5]


def test_no_head_of_lines_that_are_not_shown_yet_is_shown(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys")
    for lines in (3, 4, 9):
        keys.add_head("a", {"epoch": 1, "lines": lines})
    shown = {lines: last_head(keys, "a", lines) for lines in (2, 3, 4, 8, 9, 20)}
    assert {lines: head and head["lines"] for lines, head in shown.items()} == {2: None, 3: 3, 4: 4, 8: 4, 9: 9, 20: 9}


def test_one_at_a_time_notes_which_seeds_are_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that note at once would each write the file without what the other has noted."""
    keys, secret = Keys(tmp_path / "keys"), draw_secret()
    noted: list[Any] = []
    keys.keep(secret)
    folder = os.open(tmp_path / "keys", os.O_RDONLY)

    def note(path: Path, seeds: Any) -> None:
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        noted.append(seeds)

    monkeypatch.setattr("troth.service.keys.record_use", note)
    keys.record_use(secret.commitment, {1: "sha256:0f"})
    os.close(folder)
    assert noted == [{1: "sha256:0f"}]
