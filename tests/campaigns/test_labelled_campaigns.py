"""Campaigns for labels and counts: categorical features from every table, and what `troth init` proposes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import troth
from registry import generator
from troth import models
from troth.campaigns.starter.examples import init
from troth.campaigns.starter.guess import guess
from troth.core.errors import DataError
from troth.core.settings import CampaignError
from troth.data import read_reports
from troth.data.request import Request

ROWS = 240
LEVELS = {"ward": ("surgery", "medicine", "other")}


def table() -> pd.DataFrame:
    rng = generator(7)
    x, ward = rng.normal(size=ROWS), rng.choice(["surgery", "Medicine", "other"], ROWS)
    eta = 0.8 * x + 0.9 * (ward == "Medicine")
    yes = rng.random(ROWS) < 1 / (1 + np.exp(0.4 - eta))
    return pd.DataFrame(
        {
            "who": rng.choice(list("abcdef"), ROWS),
            "age": 50 + 10 * x,
            "ward": ward,
            "back": np.where(yes, "yes", "no"),
            "visits": rng.poisson(np.exp(0.5 + 0.2 * x)),
            "crop": rng.choice(["corn", "rye", "oats"], ROWS),
            "price": 100 + 5 * x + rng.normal(size=ROWS),
        }
    )


def request(features: bool = False) -> Request:
    model = models.LogisticRegression([0.0] * 4, 1.0)
    return Request(
        model.reduction,
        (None, "age", "ward", "back"),
        "who",
        categories=("no", "yes"),
        scales=(None, (50.0, 10.0), None, None),
        levels=LEVELS,
        features=features,
    )


def expected(frame: pd.DataFrame, who: str) -> Any:
    rows = frame[frame.who == who]
    ward = rows.ward.str.lower()
    z = np.column_stack([np.ones(len(rows)), (rows.age - 50) / 10, ward == "medicine", ward == "other"])
    return models.LogisticRegression([0.0] * 4, 1.0).summary((z, (rows.back == "yes").to_numpy(dtype=float)))


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame", "engine"])
def test_categorical_features_are_read_from_every_table(kind: str, tmp_path: Path) -> None:
    frame = table()
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    data: Any = {"csv": tmp_path / "rows.csv", "parquet": tmp_path / "rows.parquet", "frame": frame}.get(kind)
    if kind == "engine":
        data = pytest.importorskip("ibis").memtable(frame)
    for keep in (False, True):
        reports, _ = read_reports(data, request(keep))
        assert [report.provider for report in reports] == list("abcdef")
        for report in reports:
            np.testing.assert_allclose(report.summary, expected(frame, report.provider), rtol=1e-9, atol=1e-9)
            assert (report.features is not None) == keep


def test_a_level_that_is_not_on_the_public_list_is_refused(tmp_path: Path) -> None:
    frame = table().assign(ward="cellar")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(DataError, match="not among the categories 'surgery', 'medicine', 'other'"):
        read_reports(tmp_path / "rows.csv", request())
    with pytest.raises(DataError, match="not among the categories"):
        read_reports(pytest.importorskip("ibis").memtable(frame), request())


def propose(folder: Path, target: str) -> Path:
    columns: dict[str, Any] = {"provider": "who", "column": ["age", "ward"], "target": target}
    return init(folder / "campaign", data=folder / "rows.csv", **columns)


@pytest.mark.parametrize(
    ("target", "family"),
    [
        ("back", "VaryingLogisticRegression"),
        ("crop", "VaryingSoftmaxRegression"),
        ("visits", "VaryingPoissonRegression"),
        ("price", "VaryingLinearRegression"),
    ],
)
def test_init_proposes_a_regression_of_the_targets_kind(target: str, family: str, tmp_path: Path) -> None:
    table().to_csv(tmp_path / "rows.csv", index=False)
    guessed = guess(tmp_path / "rows.csv", provider="who", column=["age", "ward"], target=target)
    assert guessed.family == family
    assert {label.casefold() for label in guessed.levels["ward"]} == {"surgery", "medicine", "other"}
    campaign = troth.Campaign.load(propose(tmp_path, target))
    model: Any = campaign.model
    assert model.reduction.columns == 5
    assert campaign.columns == (None, "age", "ward", target)
    if target == "back":
        assert model.mean[0] == pytest.approx(
            np.log(np.mean(table().back == "yes") / np.mean(table().back == "no")), abs=0.1
        )
    if target == "visits":
        assert model.precision == (4.0, 25.0, 25.0, 25.0)


def test_a_proposed_campaign_pays_and_is_verified(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "rows.csv", index=False)
    path = propose(tmp_path, "visits")
    path.write_text(path.read_text(encoding="utf-8").replace("decoys = 999", "decoys = 49"), encoding="utf-8")
    result = troth.pay(path)
    shares = [payment.share for payment in result.rounds[0].payments]
    assert 0.3 < np.mean(shares) < 1  # a wide prior of counts pays nothing or everything
    assert all(report.features is not None for report in result.reports)
    assert troth.verify(result.ledger).totals == result.totals


def test_levels_are_checked() -> None:
    plain: dict[str, Any] = {
        "campaign": {"name": "x", "budget": "1.00"},
        "model": {"family": "LogisticRegression", "columns": ["ward"], "target": "back", "intercept": True},
    }
    for levels, message in (
        ({"ward": ["one"]}, "at least two different labels"),
        ({"other": ["a", "b"]}, "other"),
        ({"ward": ["a", "b", "c"]}, "the model's parameters are for 2"),
    ):
        model = {**plain["model"], "levels": levels, "prior": {"mean": [0, 0], "precision": 1}}
        with pytest.raises(CampaignError, match=message):
            troth.Campaign.from_dict({**plain, "model": model})


def test_features_that_never_vary_are_left_out_and_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    columns = {"who": np.repeat(["a", "b"], 30), "x": rng.standard_normal(60), "label": rng.choice(["no", "yes"], 60)}
    table = pd.DataFrame({**columns, "unit": "mg", "version": 1.0})
    table.to_csv(tmp_path / "rows.csv", index=False)
    first = guess(tmp_path / "rows.csv", provider="who", target="label")
    assert first.columns == ("x",)
    assert (set(first.scales), set(first.levels)) == ({"x"}, set())
    assert any("'unit' ('mg'), 'version' (1.0) are the same in all 60 rows" in note for note in first.notes)
    with pytest.raises(DataError, match=r"'unit' \('mg'\) is the same in all 60 rows .* leave it out"):
        guess(tmp_path / "rows.csv", provider="who", target="label", column=["x", "unit"])
    table[["who", "unit", "label"]].to_csv(tmp_path / "idle.csv", index=False)
    with pytest.raises(DataError, match="leave it out"):
        guess(tmp_path / "idle.csv", provider="who", target="label")


def test_columns_may_stand_in_the_terms_and_lists_are_refused_with_the_remedy(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((40, 2)), rng.integers(0, 2, 40)
    who = np.repeat(["a", "b"], 20)
    wide = pd.DataFrame({"who": who, "p": x[:, 0], "q": x[:, 1], "more": 0, "y": y})
    model = troth.models.LogisticRegression(mean=[0, 0], precision=1)
    options: dict[str, Any] = {"provider": "who", "budget": "10", "seed": 1}
    named = troth.pay(wide, model, columns=["p", "q"], terms={"model": {"target": "y"}}, **options)
    in_terms = troth.pay(wide, model, terms={"model": {"target": "y", "columns": ["p", "q"]}}, **options)
    assert named.totals == in_terms.totals
    pd.DataFrame({"who": who, "e": list(x), "y": y}).to_parquet(tmp_path / "lists.parquet")
    with pytest.raises(CampaignError, match="needs a column of its own, also those of lists"):
        troth.pay(str(tmp_path / "lists.parquet"), model, columns=["e"], terms={"model": {"target": "y"}}, **options)
    one = troth.models.LogisticRegression(mean=[0], precision=1)
    with pytest.raises(DataError, match="every entry of a list to a column of its own"):
        troth.pay(str(tmp_path / "lists.parquet"), one, columns=["e"], terms={"model": {"target": "y"}}, **options)
