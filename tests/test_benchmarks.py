"""Benchmarks that nothing else runs still run, with a handful of providers."""

from importlib import import_module
from itertools import count
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_benchmark_of_the_service_submits_closes_and_pays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    service = import_module("benchmarks.service")
    numbers = count()
    service.closing(lambda: str(tmp_path / f"{next(numbers)}.db"), "SQLite", 4)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines] == [["SQLite", "SyntheticPeers", "4"], ["SQLite", "MultiDay", "4"]]
