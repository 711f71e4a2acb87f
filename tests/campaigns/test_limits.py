"""Limits hold where a campaign sets none: the error names the provider, the place and the limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import troth
from campaigns.shop import GOOD, write_campaign
from troth.core.errors import DataError

UNLIMITED = (
    GOOD.replace('rule = "OneTime"\nrange = "clipped"', 'rule = "SyntheticPeers"')
    .replace("[limits]\nrows = 50\n", "")
    .replace('"clinics.csv"', '["clinics.csv", "elm.json"]')
)
NORMAL = UNLIMITED.replace('"Bernoulli"', '"Normal"').replace("alpha = 1\nbeta = 1", "mean = 0\nscale = 1\nnoise = 1")
ROWS = "clinic,improved\n" + "Ash,1\nAsh,0\nOak,1\nOak,1\n"


def statistics(family: str, rows: int, summary: list[Any]) -> str:
    plain = {"kind": "troth summary", "format": 2, "provider": "Elm", "family": family, "rows": rows}
    return json.dumps({**plain, "summary": summary, "digest": "sha256:" + "0" * 64})


@pytest.mark.parametrize(
    ("text", "elm", "message"),
    [
        (
            UNLIMITED,
            statistics("Bernoulli", 10**19, [0, 10**19]),
            "[Ee]lm.*10,000,000,000,000,000,000 rows.*1,000,000,000,000",
        ),
        (UNLIMITED, statistics("Bernoulli", 10**12, [0, 10**12]), None),
        (
            NORMAL,
            statistics("Normal", 1, [1, 1e200]),
            "elm.json: number 1 of the summary is not a number up to 1e\\+100",
        ),
        (NORMAL, statistics("Normal", 1, [1, 1e9]), None),
    ],
    ids=["too many rows", "most rows", "too large a sum", "a large sum"],
)
def test_statistics_files(tmp_path: Path, text: str, elm: str, message: str | None) -> None:
    path = write_campaign(tmp_path, text, {"clinics.csv": ROWS, "elm.json": elm})
    if message is None:
        assert len(troth.pay(path, seed=1).totals) == 3
    else:
        with pytest.raises(DataError, match=message):
            troth.pay(path, seed=1)


def test_rows_of_a_table(tmp_path: Path) -> None:
    text = NORMAL.replace('["clinics.csv", "elm.json"]', '"clinics.csv"')
    path = write_campaign(tmp_path, text, {"clinics.csv": ROWS + "Elm,1\nElm,1e200\n"})
    with pytest.raises(DataError, match=r"provider 'Elm'.*exceed 1e\+100.*row 6 of clinics.csv: 1e\+200"):
        troth.pay(path, seed=1)


def test_the_guilty_report_of_a_campaign_has_a_name(tmp_path: Path) -> None:
    """Features of size 1e9 beside those of size 1, which nobody's limits refuse, stop the round: the error says whose."""
    text = NORMAL.replace(
        '"Normal"\ncolumns = ["improved"]',
        '"LinearRegressionUnknownNoise"\ncolumns = ["z"]\ntarget = "improved"\nintercept = true',
    )
    text = text.replace(
        "mean = 0\nscale = 1\nnoise = 1", "mean = [0, 0]\nprecision = [[1, 0], [0, 1]]\nshape = 3\nscale = 2"
    )
    text = text.replace('["clinics.csv", "elm.json"]', '"clinics.csv"')
    honest = "".join(
        f"{name},{z},{z + e}\n" for name in ("Ash", "Oak", "Yew") for z, e in ((1, 0.5), (-1, 0.2), (2, -0.4))
    )
    giant = "".join(f"Elm,{z},{e}\n" for z, e in ((1e9, 0.5), (-2e9, 0.2), (3e9, -0.4), (1.5e9, 0.1)))
    path = write_campaign(tmp_path, text, {"clinics.csv": "clinic,z,improved\n" + honest + giant})
    with pytest.raises(DataError, match="provider 'Elm': the round can be paid without this report") as refused:
        troth.pay(path, seed=1)
    assert refused.value.names == ("Elm",)
