"""Uploads do not outlive what reads them, even if that is killed."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from troth.service.incoming import remove_leftovers


def test_what_a_dead_service_left_is_removed_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    outside = tmp_path / "kept"
    outside.mkdir()
    (outside / "rows.csv").write_text("1")
    old, folder, link, fresh = (tmp_path / f"troth-upload-{name}" for name in ("old", "folder", "link", "fresh"))
    old.write_text("1")
    folder.mkdir()
    (folder / "statistics.json").write_text("{}")
    link.symlink_to(outside)
    fresh.write_text("1")
    long_ago = time.time() - 7200
    for path in (old, folder, link, outside):
        os.utime(path, (long_ago, long_ago), follow_symlinks=False)
    remove_leftovers()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "troth-upload-fresh"]
    assert (outside / "rows.csv").exists()
