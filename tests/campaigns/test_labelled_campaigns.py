"""Campaigns for labels and counts: categorical features from every table, and what `troth init` proposes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import troth
from campaigns.shop import campaign_for, run
from registry import generator
from troth import models
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
    return campaign_for(folder / "campaign", data=folder / "rows.csv", **columns)


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
    path.write_text(re.sub(r"decoys = \d+", "decoys = 49", path.read_text("utf-8")), "utf-8")
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


SCALES = {"price": [100, 5], "age": [50, 10]}
LABELLED: dict[str, Any] = {"target": "back", "categories": ["no", "yes"], "intercept": True}


def pay_labelled(model: Any, columns: list[str], frame: pd.DataFrame | None = None, **terms: Any) -> troth.Result:
    paid: Any = {"columns": columns, "terms": {"model": {**LABELLED, **terms}, "mechanism": {"decoys": 19}}}
    return troth.pay(table() if frame is None else frame, model, "LineUp", provider="who", budget="600", seed=1, **paid)


def test_candidates_read_columns_on_public_scales() -> None:
    model, scales = models.LogisticCandidates([[-0.4, 0.8], [0.0, -0.8]]), {"age": [50, 10]}
    scaled = pay_labelled(model, ["age"], scales=scales)
    same = pay_labelled(model, ["age"], table().assign(age=(table().age - 50) / 10))
    assert scaled.totals == same.totals


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (models.LogisticRegression([0.0] * 2, 1.0), {"target": "back", "categories": ["no", "yes"]}),
        (models.LogisticCandidates([[0.0, 1.0], [1.0, 0.0]]), {"target": "back", "categories": ["no", "yes"]}),
        (models.VaryingPoissonRegression([0.0] * 2, 25.0), {"target": "visits", "categories": []}),
    ],
)
def test_labels_and_counts_have_no_scale(model: Any, target: dict[str, Any]) -> None:
    with pytest.raises(CampaignError, match=f"{target['target']}: is the target, and labels and counts have no scale"):
        pay_labelled(model, ["age"], **target, scales={target["target"]: [0, 2]})
    price = pay_labelled(
        models.LinearRegression([0.0] * 2, np.eye(2), 1.0),
        ["age"],
        target="price",
        categories=[],
        scales=SCALES,
    )
    assert price.campaign.scales[-1] == (100, 5)


def test_a_column_with_levels_has_no_scale() -> None:
    with pytest.raises(CampaignError, match="ward: has labels"):
        pay_labelled(models.LogisticRegression([0.0] * 3, 1.0), ["ward"], levels=LEVELS, scales={"ward": [9, 7]})


def test_the_verdict_says_in_which_limit_the_truth_pays_best() -> None:
    verdict = pay_labelled(models.LogisticRegression([0.0] * 2, 4.0), ["age"], scales={"age": [50, 10]}).verdict
    assert verdict.most_gained is None
    assert verdict.limit == "many rows with coefficients near the public point"
    assert "telling the truth pays best in the limit of many rows" in str(verdict)
    assert not verdict.supports
    exact = pay_labelled(
        models.LinearRegression([0.0] * 2, np.eye(2), 1.0), ["age"], target="price", categories=[], scales=SCALES
    ).verdict
    assert (exact.most_gained, exact.limit, exact.to_dict()["limit"]) == (0.0, "", None)


def test_counts_of_columns_without_scales_are_warned_of() -> None:
    """Decoys from all over a prior that is far too wide for raw columns lose against anything."""
    counts: dict[str, Any] = {"target": "visits", "categories": []}
    raw = pay_labelled(models.PoissonRegression([0.0] * 2, 1.0), ["age"], **counts)
    assert "[model.scales]" in raw.notes[0]
    assert raw.notes[0] in str(raw)
    assert raw.notes[0] in str(raw.verdict)
    assert raw.verdict.to_dict()["warning"] == raw.notes[0]
    assert "poor for these data" in raw.to_html()
    scaled = pay_labelled(models.PoissonRegression([0.5, 0.0], 25.0), ["age"], **counts, scales={"age": [50, 10]})
    assert scaled.notes == ()
    assert scaled.verdict.warning == ""


def test_features_that_never_vary_are_left_out_and_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    columns = {"who": np.repeat(["a", "b"], 30), "x": rng.standard_normal(60), "label": rng.choice(["no", "yes"], 60)}
    table = pd.DataFrame({**columns, "unit": "mg", "version": 1.0})
    table.to_csv(tmp_path / "rows.csv", index=False)
    first = guess(tmp_path / "rows.csv", provider="who", target="label")
    assert first.columns == ("x",)
    assert (set(first.scales), set(first.levels)) == ({"x"}, set())
    assert any("'unit' ('mg'), 'version' (1) are the same in all 60 rows" in note for note in first.notes)
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
    result = troth.pay(wide, model, columns=["p", "q"], terms={"model": {"target": "y"}}, **options)
    in_terms = troth.pay(wide, model, terms={"model": {"target": "y", "columns": ["p", "q"]}}, **options)
    assert result.totals == in_terms.totals
    pd.DataFrame({"who": who, "e": list(x), "y": y}).to_parquet(tmp_path / "lists.parquet")
    with pytest.raises(CampaignError, match="needs its own column, also each number of a list"):
        troth.pay(str(tmp_path / "lists.parquet"), model, columns=["e"], terms={"model": {"target": "y"}}, **options)
    regression = troth.models.LogisticRegression(mean=[0], precision=1)
    with pytest.raises(DataError, match="every entry of a list to its own column"):
        troth.pay(
            str(tmp_path / "lists.parquet"), regression, columns=["e"], terms={"model": {"target": "y"}}, **options
        )


def test_an_audit_runs_as_many_simulations_as_asked_and_says_what_it_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """A model that takes long is simulated as often as somebody says; features and the limit are named."""
    table().to_csv(tmp_path / "rows.csv", index=False)
    path = propose(tmp_path, "back")
    assert run(monkeypatch, "audit", path, "--simulations", "7") == 0
    output = capsys.readouterr().out
    assert "LineUp: 7 simulations" in output
    assert "features come from the data, answers and decoys from the likelihood" in output
    text = path.read_text("utf-8")
    path.write_text(text.replace("[data]\n", "[data]\nkeep_features = false\n"), "utf-8")
    assert run(monkeypatch, "audit", path, "--simulations", "7", "--json") == 0
    assert "decoys from its normal limit" in json.loads(capsys.readouterr().out)["drawn"]
