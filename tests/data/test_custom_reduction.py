"""A family may bring its own reduction: every engine adds its rows up, and the ledger has what it adds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import troth
from pareto import Pareto
from troth import models
from troth.campaigns.statistics_file import make_statistics, parse_statistics
from troth.core.errors import DataError


@pytest.fixture(autouse=True)
def family() -> Iterator[type[Pareto]]:
    yield models.register(Pareto)
    del models.FAMILIES["Pareto"]


@pytest.fixture
def incomes() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    names = np.repeat(["Ash", "Birch", "Elm"], 8)
    return pd.DataFrame({"bureau": names, "income": Pareto(3, 2).draw_data(rng, np.array([1.5]), 24)})


def test_every_engine_adds_it_up(incomes: pd.DataFrame, tmp_path: Path) -> None:
    ibis = pytest.importorskip("ibis")
    path = tmp_path / "incomes.csv"
    incomes.to_csv(path, index=False)
    summaries = [Pareto(3, 2).summary(rows) for _, rows in incomes.groupby("bureau")["income"]]
    for data in (incomes, path, ibis.memtable(incomes)):
        result = troth.pay(data, Pareto(3, 2), provider="bureau", budget="300.00", seed=1)
        assert [report.summary for report in result.reports] == [pytest.approx(sums, rel=1e-12) for sums in summaries]


def test_it_is_paid_and_verified_from_a_campaign_file(incomes: pd.DataFrame, tmp_path: Path) -> None:
    incomes.to_csv(tmp_path / "incomes.csv", index=False)
    (tmp_path / "campaign.toml").write_text(
        '[campaign]\nname = "incomes"\nbudget = "300.00"\n[model]\nfamily = "Pareto"\ncolumns = ["income"]\n'
        '[model.prior]\nshape = 3\nrate = 2\n[data]\nsource = "incomes.csv"\nprovider = "bureau"\n'
    )
    ledger = tmp_path / "ledger.jsonl"
    result = troth.pay(tmp_path / "campaign.toml", ledger=ledger, anyway=True)
    assert troth.verify(ledger).paid == result.paid > 0
    incomes[incomes.bureau == "Ash"].to_csv(tmp_path / "ash.csv", index=False)
    sent = make_statistics(result.campaign, tmp_path / "ash.csv")
    assert parse_statistics(result.campaign, sent)[0].summary == pytest.approx(result.reports[0].summary)
    with pytest.raises(DataError, match="no rows have a sum of logarithms"):
        parse_statistics(result.campaign, sent | {"summary": [0.0, 1.0], "rows": 0})
