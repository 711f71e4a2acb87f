"""Spreadsheets: what their cells become."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import pandas as pd
import pytest

from troth.data.sheets import read_sheet

MIDNIGHT, NOON = datetime(2026, 5, 4), datetime(2026, 5, 5, 12)


def test_cells_keep_their_kind(tmp_path: Path) -> None:
    """A day among moments is one too: their hours must not get lost, whichever comes first."""
    pytest.importorskip("python_calamine")
    columns = {
        "day": [MIDNIGHT, MIDNIGHT, None],
        "moment": [MIDNIGHT, NOON, None],
        "moments": [NOON, MIDNIGHT, None],
        "number": [1.5, None, 2.0],
        "label": ["icu", 7.0, 7.5],
    }
    pd.DataFrame(columns).to_excel(tmp_path / "own.xlsx", index=False)
    table = read_sheet(str(tmp_path / "own.xlsx"))
    assert table.to_pydict() == {
        **columns,
        "day": [date(2026, 5, 4), date(2026, 5, 4), None],
        "label": ["icu", "7", "7.5"],
    }
