"""Features that a campaign keeps: decoys come from the likelihood itself, and a ledger is verified with them."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import troth
from registry import SOAK, generator
from troth import models
from troth.campaigns.check import certify_campaign, setting_of
from troth.campaigns.records.ledger import Ledger, LedgerError
from troth.campaigns.rounds import check_possible
from troth.campaigns.settle import set_up_round
from troth.certificates import check_fit
from troth.core.errors import DataError
from troth.data import read_reports
from troth.data.features import MAX_VALUES_PER_REPORT, FeatureSampler
from troth.data.request import Request
from troth.results.findings import check_campaign_fit

MODEL = models.LogisticRegression([0, 0, 0], 1.0)
TERMS = {"model": {"intercept": True, "target": "back", "scales": {"age": [50, 10]}}}


def hospitals(rows: int = 40) -> pd.DataFrame:
    rng = generator(1)
    x = rng.normal(size=(5 * rows, 2))
    back = rng.random(5 * rows) < 1 / (1 + np.exp(0.5 - x @ [0.8, -0.6]))
    names = np.repeat([f"hospital {letter}" for letter in "ABCDE"], rows)
    return pd.DataFrame({"who": names, "age": 50 + 10 * x[:, 0], "stay": x[:, 1], "back": back.astype(int)})


def pay(table: Any, **terms: Any) -> troth.Result:
    options: dict[str, Any] = {"provider": "who", "columns": ["age", "stay"], "budget": "100.00", "seed": 3}
    return troth.pay(table, MODEL, troth.LineUp(decoys=99), terms={**TERMS, **terms}, **options)


def cents(result: troth.Result) -> list[int]:
    return [payment.payment for payment in result.rounds[0].payments]


def test_every_table_with_rows_keeps_the_same_features(tmp_path: Path) -> None:
    table, ibis = hospitals(), pytest.importorskip("ibis")
    table.to_csv(tmp_path / "rows.csv", index=False)
    table.iloc[::-1].to_parquet(tmp_path / "rows.parquet")
    results = [pay(data) for data in (table, tmp_path / "rows.csv", tmp_path / "rows.parquet", ibis.memtable(table))]
    assert all(cents(result) == cents(results[0]) for result in results)
    assert all(report.features is not None and len(report.features) == 40 for report in results[0].reports)
    assert troth.verify(results[1].ledger).totals == results[1].totals
    assert cents(pay(table, data={"keep_features": False})) != cents(results[0])


def test_the_certificate_says_where_decoys_come_from() -> None:
    text = {}
    for keep in (True, False):
        result = pay(hospitals(), data={"keep_features": keep})
        setting = setting_of(result.campaign, result.reports)
        text[keep] = certify_campaign(result.campaign, setting, result.reports)["exact likelihood"].text
    assert "from the likelihood itself, with the peers' features" in text[True]
    assert "from that normal limit" in text[False]
    some = [report if k else _without_features(report) for k, report in enumerate(pay(hospitals()).reports)]
    mixed = str(certify_campaign(result.campaign, setting, some))
    assert "4 of 5 providers: the likelihood" in mixed
    assert "1 of 5 providers: the likelihood" in mixed


def test_the_fit_is_checked_as_decoys_are_drawn() -> None:
    result = pay(hospitals())
    with_features, without = (
        check_campaign_fit(result.campaign, reports)[0]
        for reports in (result.reports, [_without_features(report) for report in result.reports])
    )
    assert with_features.observed == without.observed
    stage, rng = set_up_round(result.campaign, result.reports, None).round, np.random.default_rng(20201206)
    drawn = check_fit(stage.model, stage.statistics, simulations=with_features.simulations, rng=rng)
    assert with_features.expected == drawn.expected != without.expected


def _without_features(report: Any) -> Any:
    return replace(report, features=None)


def test_features_that_were_changed_are_not_verified() -> None:
    ledger = pay(hospitals()).ledger
    entries = json.loads(json.dumps(ledger.entries))
    report = next(entry for entry in entries if entry["entry"] == "report")
    values = np.frombuffer(b64decode(report["features"]["values"]), dtype="<f8").copy()
    values[1] += 0.5
    report["features"]["values"] = b64encode(values.tobytes()).decode()
    with pytest.raises(LedgerError, match="the features do not belong to the rows"):
        troth.verify(Ledger(entries))
    del report["features"]
    with pytest.raises(LedgerError):
        troth.verify(Ledger(entries))


def test_a_report_with_features_that_it_cannot_have_is_refused() -> None:
    result = pay(hospitals())
    report = result.reports[0]
    with pytest.raises(DataError, match="features of 41 rows, but 40 rows"):
        check_possible(result.campaign, replace(report, features=np.ones((41, 3))))
    with pytest.raises(DataError, match="features do not belong"):
        check_possible(result.campaign, replace(report, features=np.ones((40, 3))))


def test_of_many_rows_a_random_sample_is_kept() -> None:
    rows, features = 60_000, 2
    table = pd.DataFrame(
        {"who": ["a", "b"] * (rows // 2), "x": np.arange(rows) / rows, "y": [0, 0, 1, 1] * (rows // 4)}
    )
    request = Request(models.LogisticRegression([0, 0], 1.0).reduction, (None, "x", "y"), "who", features=True)
    reports, _ = read_reports(table, request)
    for report in reports:
        sample: Any = report.features
        assert MAX_VALUES_PER_REPORT // features / 3 < len(sample) <= MAX_VALUES_PER_REPORT // features
        assert abs(sample[:, 1].mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(sample))
        assert (np.diff(sample[:, 1]) >= 0).all()
    assert _keep(3, 2).features([100]) == [None]
    (wide,) = _keep(200, 1024).features([200])
    assert wide is not None
    assert wide.shape == (200, 1024)


def _keep(rows: int, features: int) -> FeatureSampler:
    sampler = FeatureSampler(features)
    sampler.add(np.zeros(rows, dtype=np.intp), [np.ones(rows)] * features, np.arange(rows))
    return sampler


def test_parts_keep_what_the_whole_keeps() -> None:
    rng = np.random.default_rng(5)
    rows, reports = 60_000, rng.integers(3, size=60_000)
    columns, numbers = rng.normal(size=(4, rows)), np.arange(rows)
    whole, joined = FeatureSampler(4), FeatureSampler(4)
    whole.add(reports, list(columns), numbers)
    for some in np.split(numbers, [1_000, 55_000]):
        part = FeatureSampler(4)
        part.add(reports[some], list(columns[:, some]), some)
        part.thin()
        joined.join(part, np.arange(3))
    counts = np.bincount(reports).tolist()
    for first, second in zip(whole.features(counts), joined.features(counts), strict=True):
        assert first is not None
        assert len(first) < 20_000
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        models.LogisticRegression([0.3, -0.2], 1.0, point=[0.5, 0.1]),
        models.SoftmaxRegression([0.0] * 6, 1.0, classes=3, point=[0.1, 0, 0.3, 0, -0.2, 0.4]),
        models.PoissonRegression([0.3, -0.2], 4.0),
        models.VaryingLogisticRegression([0.3, -0.2], 1.0, point=[0.5, 0.1]),
    ],
)
def test_decoys_have_the_moments_of_fresh_answers(model: Any, sampled: bool) -> None:
    """Means and standard deviations of draws with features, against statistics of drawn data with the same rows."""
    rng, draws = generator(2), 20_000 if SOAK else 1500
    few = rng.normal(size=(6, 2))
    z = np.repeat(few, 3, axis=0)
    theta = np.broadcast_to(model.draw_parameters(rng), (draws, *model.draw_parameters(rng).shape))
    honest = model.statistics(model.draw_data(rng, theta, z))
    at_hand = model.with_features(few, 18) if sampled else model.with_features(z)
    drawn = at_hand.draw_statistics(rng, theta, model.plan(z))
    error = np.sqrt((honest.var(axis=0) + drawn.var(axis=0)) / draws)
    assert (np.abs(honest.mean(axis=0) - drawn.mean(axis=0)) <= 5 * error + 1e-9).all()
    assert np.allclose(honest.std(axis=0), drawn.std(axis=0), rtol=0.15, atol=1e-9)


def test_equal_features_are_one_model() -> None:
    z = generator(3).normal(size=(5, 3))
    first, second = MODEL.with_features(z), MODEL.with_features(z.copy())
    assert first == second
    assert hash(first) == hash(second)
    assert repr(first) == repr(second)
    assert first != MODEL.with_features(z, 10)
