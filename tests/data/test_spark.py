"""A real Spark session: the same fragments as tasks, and push-down of tables that live in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import troth
from campaigns.shop import frame_of, reductions, toml_of, value_columns, write_campaign
from registry import EXAMPLES, SOAK
from troth.core.errors import DataError
from troth.data import Request, read_reports

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("troth tests")
        .config("spark.ui.enabled", "false")
        .config(
            "spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        )  # small tables, few queries
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.mark.parametrize("name", reductions() if SOAK else reductions()[:1])
def test_spark_gives_the_same_bits_and_cents(name: str, spark: Any, tmp_path: Path) -> None:
    frame = frame_of(name, days=2)
    table = spark.createDataFrame(frame)
    table.repartition(3).write.parquet(str(tmp_path / "parts"))
    assert len(list((tmp_path / "parts").glob("*.parquet"))) >= 2
    model = EXAMPLES[name]
    request = Request(model.reduction, tuple(value_columns(frame)), "who", "day")
    here, _ = read_reports(tmp_path / "parts", request)
    there, _ = read_reports(tmp_path / "parts", request, engine="spark")
    assert [r.key for r in here] == [r.key for r in there]
    assert all(np.array_equal(a.summary, b.summary) for a, b in zip(here, there, strict=True))
    text = toml_of(model, frame, "parts", extra='budget_per = "day"\n', data='day = "day"\n')
    campaign = write_campaign(tmp_path, text + 'engine = "spark"\n', {})
    by_spark = troth.pay(campaign, seed=1)
    assert by_spark.totals == troth.pay(write_campaign(tmp_path, text, {}), seed=1).totals


@pytest.mark.parametrize("name", reductions())
def test_a_table_that_lives_in_spark_is_reduced_there(name: str, spark: Any) -> None:
    frame = frame_of(name)
    table = spark.createDataFrame(frame).repartition(3)
    request = Request(EXAMPLES[name].reduction, tuple(value_columns(frame)), "who")
    here, _ = read_reports(frame, request)
    there, _ = read_reports(table, request)
    assert [(r.key, r.rows) for r in here] == [(r.key, r.rows) for r in there]
    for mine, theirs in zip(there, here, strict=True):
        scale = np.abs(theirs.summary).max()
        np.testing.assert_allclose(mine.summary, theirs.summary, rtol=1e-12, atol=1e-12 * scale)
    columns = value_columns(frame)
    terms = {"model": {"target": columns.pop()}} if EXAMPLES[name].explains_target else {}
    options: dict[str, Any] = {"provider": "who", "budget": "1000.00", "columns": columns, "terms": terms, "seed": 1}
    rule = troth.SyntheticPeers(draws=8)
    assert (
        troth.pay(table, EXAMPLES[name], rule, **options).totals
        == troth.pay(frame, EXAMPLES[name], rule, **options).totals
    )


def test_bad_values_are_found_in_spark_too(spark: Any, tmp_path: Path) -> None:
    frame = frame_of("poisson")
    frame.loc[frame.index[frame.who == "provider 1"][:2], "c0"] = -1
    table = spark.createDataFrame(frame)
    table.write.parquet(str(tmp_path / "parts"))
    request = Request(EXAMPLES["poisson"].reduction, ("c0",), "who")
    for data, engine in ((table, "threads"), (tmp_path / "parts", "spark")):
        with pytest.raises(
            DataError, match="provider 'provider 1', column 'c0': 2 values not a whole number of at least 0"
        ):
            read_reports(data, request, engine=engine)


def test_labels_are_read_from_spark_with_their_features(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = 60
    frame = pd.DataFrame(
        {
            "who": rng.choice(["a", "b", "c"], rows),
            "age": rng.normal(50, 10, rows),
            "ward": rng.choice(["surgery", "other"], rows),
            "back": rng.choice(["no", "yes"], rows),
        }
    )
    frame.to_parquet(tmp_path / "rows.parquet")
    model = troth.models.LogisticRegression([0.0] * 3, 1.0)
    scales, levels = (None, (50.0, 10.0), None, None), {"ward": ("surgery", "other")}
    columns, labels = (None, "age", "ward", "back"), ("no", "yes")
    for keep in (False, True):
        request = Request(model.reduction, columns, "who", None, labels, scales=scales, levels=levels, features=keep)
        here, _ = read_reports(frame, request)
        there, _ = read_reports(tmp_path / "rows.parquet", request, engine="spark")
        inside, _ = read_reports(spark.createDataFrame(frame).repartition(3), request)
        for first, second, third in zip(here, there, inside, strict=True):
            np.testing.assert_allclose(second.summary, first.summary, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(third.summary, first.summary, rtol=1e-9, atol=1e-9)
            if keep:
                features = [np.asarray(report.features) for report in (first, second, third)]
                assert len(features[0]) == first.rows
                assert all(np.array_equal(other, features[0]) for other in features)
