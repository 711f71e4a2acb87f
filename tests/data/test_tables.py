"""The same campaign from every kind of table: equal statistics and equal cents, for every family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import troth
from campaigns.shop import families, frame_of, reductions, value_columns
from registry import EXAMPLES, SOAK
from troth.core.errors import DataError
from troth.core.reductions import Counts, Moments
from troth.data import Request, read_reports
from troth.data.gather import gather_reports
from troth.data.single_provider import read_own_report

SEED = 20201206


def request_of(name: str, frame: pd.DataFrame, day: bool = True) -> Request:
    return Request(EXAMPLES[name].reduction, tuple(value_columns(frame)), "who", "day" if day else None)


def every_table(frame: pd.DataFrame, folder: Path) -> dict[str, Any]:
    """The same rows in every form that there is."""
    frame.to_parquet(folder / "one.parquet", row_group_size=17)
    frame.to_csv(folder / "one.csv", index=False)
    frame.to_csv(folder / "one.csv.gz", index=False)
    frame.to_csv(folder / "semicolons.csv", index=False, sep=";")
    frame.to_csv(folder / "one.tsv", index=False, sep="\t")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pyarrow.feather.write_feather(table, folder / "one.arrow")
    with pa.OSFile(str(folder / "stream.ipc"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=11)
    (folder / "one.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    (folder / "parts").mkdir()
    for part in range(3):
        frame.iloc[part::3].to_csv(folder / "parts" / f"part-{part}.csv", index=False)
    pq.write_to_dataset(table, folder / "hive", partition_cols=["who"])
    duck = duckdb.connect()
    relation = duck.from_arrow(table)
    engine = ibis.duckdb.connect()
    return {
        "Parquet": folder / "one.parquet",
        "CSV": folder / "one.csv",
        "CSV, compressed": folder / "one.csv.gz",
        "CSV with semicolons": folder / "semicolons.csv",
        "TSV": folder / "one.tsv",
        "JSON lines": folder / "one.jsonl",
        "Arrow file": folder / "one.arrow",
        "Arrow stream": folder / "stream.ipc",
        "folder": folder / "parts",
        "pattern": folder / "parts" / "*.csv",
        "several": [folder / "parts" / "part-0.csv", folder / "parts" / "part-1.csv", folder / "parts" / "part-2.csv"],
        "partitioned folder": folder / "hive",
        "pandas": frame,
        "Polars": pl.from_pandas(frame),
        "Polars, lazy": pl.from_pandas(frame).lazy(),
        "Arrow": table,
        "DuckDB relation": relation,
        "Ibis on DuckDB": engine.read_parquet(folder / "one.parquet"),
        "Ibis in memory": ibis.memtable(table),
    }


SOME_KINDS = {"Parquet", "CSV", "JSON lines", "Polars, lazy", "DuckDB relation", "Ibis on DuckDB"}
"""One of each way to read: for families whose sums are of a kind that another one has too."""


@pytest.mark.parametrize("name", families())
def test_every_table_gives_equal_statistics_and_equal_cents(name: str, tmp_path: Path) -> None:
    frame = frame_of(name, days=2)
    model, request = EXAMPLES[name], request_of(name, frame)
    rule = troth.SyntheticPeers(draws=8)
    columns = value_columns(frame)
    terms = {"model": {"target": columns.pop()}} if model.explains_target else {}
    reference, _ = read_reports(frame, request)
    expected = None
    tables = every_table(frame, tmp_path)
    some = sorted(SOME_KINDS & tables.keys())
    some = some if SOAK else some[[*families()].index(name) % 2 :: 2]
    for kind in tables if name in reductions() else some:
        table = tables[kind]
        reports_read, _ = read_reports(table, request)
        assert [(r.key, r.rows) for r in reports_read] == [(r.key, r.rows) for r in reference], kind
        for mine, theirs in zip(reports_read, reference, strict=True):
            scale = np.abs(theirs.summary).max()
            np.testing.assert_allclose(mine.summary, theirs.summary, rtol=1e-12, atol=1e-12 * scale, err_msg=kind)
        result = troth.pay(
            table, model, rule, provider="who", day="day", budget="1000.00", columns=columns, terms=terms, seed=SEED
        )
        cents = [(p.provider, p.payment) for r in result.rounds for p in r.payments]
        expected = expected or cents
        assert cents == expected, kind


def test_statistics_are_those_of_the_rows(tmp_path: Path) -> None:
    for name in families():
        frame = frame_of(name)
        reports, _ = read_reports(frame, request_of(name, frame, day=False))
        model: Any = EXAMPLES[name]
        for report in reports:
            rows = frame[frame.who == report.provider][value_columns(frame)].to_numpy(dtype=float)
            data = (
                (rows[:, :-1], rows[:, -1])
                if hasattr(model, "precision")
                else rows
                if rows.shape[1] > 1
                else rows[:, 0]
            )
            np.testing.assert_allclose(
                model.from_summary(report.summary), model.statistics(data), rtol=1e-12, atol=1e-10
            )


def test_the_same_bits_every_time(tmp_path: Path) -> None:
    frame = frame_of("regression, unknown noise", providers=7, rows=400)
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=100)
    request = request_of("regression, unknown noise", frame, day=False)
    first, _ = read_reports(tmp_path / "a.parquet", request)
    for _ in range(5):
        again, _ = read_reports(tmp_path / "a.parquet", request)
        assert all(np.array_equal(a.summary, b.summary) for a, b in zip(first, again, strict=True))


def test_wide_tables_in_an_engine_are_fetched(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    d = 12
    frame = pd.DataFrame(rng.normal(size=(300, d + 1)), columns=[f"c{i}" for i in range(d + 1)])
    frame["who"] = rng.integers(0, 4, 300)
    frame.to_parquet(tmp_path / "a.parquet")
    model = troth.models.LinearRegression([0.5] * d, np.eye(d), 1)
    request = Request(model.reduction, tuple(value_columns(frame)), "who")
    assert model.reduction.width > 100
    pushed, _ = read_reports(ibis.duckdb.connect().read_parquet(tmp_path / "a.parquet"), request)
    here, _ = read_reports(tmp_path / "a.parquet", request)
    for first, second in zip(pushed, here, strict=True):
        np.testing.assert_allclose(first.summary, second.summary, rtol=1e-12, atol=1e-10)


def test_an_intercept_is_a_column_of_ones(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"who": np.repeat(["a", "b", "c"], 40), "z": rng.normal(size=120)})
    frame["y"] = 3 + 2 * frame.z + rng.normal(size=120)
    model = troth.models.LinearRegression([0, 0], np.eye(2) / 100, 1)
    with_one = frame.assign(one=1.0)
    frame.to_parquet(tmp_path / "a.parquet")
    for table in (frame, tmp_path / "a.parquet", ibis.memtable(frame)):
        short = troth.pay(
            table,
            model,
            provider="who",
            budget="900",
            columns="z",
            terms={"model": {"target": "y", "intercept": True}},
            seed=1,
        )
        long = troth.pay(
            with_one,
            model,
            provider="who",
            budget="900",
            columns=["one", "z"],
            terms={"model": {"target": "y"}},
            seed=1,
        )
        assert short.totals == long.totals


def test_labels_stand_for_codes(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 3, 90)
    labels = np.array(["cat", "dog", "other"])[codes]
    who = np.repeat(["a", "b", "c"], 30)
    model = troth.models.Categorical([1, 1, 1])
    plain = troth.pay({"who": who, "x": codes}, model, provider="who", budget="900", seed=1)
    terms = {"model": {"categories": ["cat", "dog", "other"]}}
    frame = pd.DataFrame({"who": who, "x": labels})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    for table in (
        frame,
        frame.astype({"x": "category"}),
        tmp_path / "a.csv",
        tmp_path / "a.parquet",
        ibis.memtable(frame),
    ):
        result = troth.pay(table, model, provider="who", budget="900", terms=terms, seed=1)
        assert result.totals == plain.totals


@pytest.mark.parametrize("kind", ["pandas", "csv", "parquet", "jsonl", "ibis"])
@pytest.mark.parametrize(
    ("family", "bad", "message"),
    [
        ("normal", None, "missing|NaN"),
        ("normal", np.nan, "missing|NaN"),
        ("normal", np.inf, "infinite"),
        ("poisson", -1.0, "not a whole number of at least 0"),
        ("poisson", 1.5, "not a whole number of at least 0"),
        ("bernoulli", 2.0, "not a whole number from 0 to 1"),
        ("gamma", 0.0, "not a number above 0"),
        ("finite", 7.0, "not a whole number from 0 to 2"),
        ("multivariate normal", -np.inf, "infinite"),
        ("regression", np.nan, "missing|NaN"),
    ],
)
def test_bad_values_are_found_with_their_place(
    family: str, bad: float | None, message: str, kind: str, tmp_path: Path
) -> None:
    frame = frame_of(family)
    column = value_columns(frame)[-1]
    frame[column] = frame[column].astype(float)
    rows = frame.index[frame.who == "provider 2"][:3]
    frame.loc[rows, column] = bad
    if kind == "jsonl" and bad is not None and not np.isfinite(bad):
        pytest.skip("JSON has no such numbers")
    table: Any = frame
    if kind == "csv":
        frame.to_csv(table := tmp_path / "t.csv", index=False)
    if kind in ("parquet", "ibis"):
        frame.to_parquet(table := tmp_path / "t.parquet")
        table = ibis.duckdb.connect().read_parquet(table) if kind == "ibis" else table
    if kind == "jsonl":
        frame.to_json(table := tmp_path / "t.jsonl", orient="records", lines=True)
    with pytest.raises(DataError, match=message) as caught:
        read_reports(table, request_of(family, frame, day=False))
    text = str(caught.value)
    assert "provider 'provider 2'" in text
    assert f"column {column!r}" in text
    assert "3 values" in text
    if kind != "ibis":
        assert f"row {rows[0] + 1}" in text


@pytest.mark.parametrize("kind", ["pandas", "csv", "ibis"])
@pytest.mark.parametrize(("bad", "found"), [(-20.5, True), (20.5, True), (-20.0, False), (20.0, False)])
def test_values_outside_the_declared_ones_are_found(kind: str, bad: float, found: bool, tmp_path: Path) -> None:
    frame = pd.DataFrame({"who": ["Ash", "Birch", "Birch"], "x": [0.5, bad, 1.5]})
    table: Any = frame
    if kind == "csv":
        frame.to_csv(table := tmp_path / "t.csv", index=False)
    if kind == "ibis":
        table = ibis.memtable(frame)
    request = Request(EXAMPLES["normal"].reduction, ("x",), "who", None, values=(-20.0, 20.0))
    if found:
        with pytest.raises(DataError, match=r"provider 'Birch'.*outside the declared values -20 to 20"):
            read_reports(table, request)
    else:
        assert len(read_reports(table, request)[0]) == 2


def test_text_among_numbers_is_found(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("who,x\na,1\na,2\nb,oops\nb,3\nb,worse\n")
    with pytest.raises(DataError, match="provider 'b', column 'x': 2 values not a number .*row 3 of t.csv: 'oops'"):
        read_reports(tmp_path / "t.csv", Request(EXAMPLES["normal"].reduction, ("x",), "who"))
    with pytest.raises(DataError, match="differ in type from the rest .*row 2.*'oops'"):
        read_reports(
            pd.DataFrame({"who": ["a", "b"], "x": [1.0, "oops"]}), Request(EXAMPLES["normal"].reduction, ("x",), "who")
        )


def test_rows_are_counted_through_all_slices_and_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("troth.data.frames._SLICE_ROWS", 4)
    for module in ("fragments", "readers"):
        monkeypatch.setattr(f"troth.data.{module}.BATCH_VALUES", 1)
    frame = pa.table({"who": list("ab") * 5, "x": [1.0] * 9 + [None]})
    pq.write_table(frame, tmp_path / "t.parquet", row_group_size=3)
    request = Request(EXAMPLES["normal"].reduction, ("x",), "who")
    for table in (frame, tmp_path / "t.parquet"):
        with pytest.raises(DataError, match="row 10"):
            read_reports(table, request)
        with pytest.raises(DataError, match="row 10"):  # a custom model's
            gather_reports(EXAMPLES["normal"], table, request)


def test_sums_that_overflow_are_refused() -> None:
    frame = {"who": ["a", "b"], "x": [1e200, 1.0]}
    with pytest.raises(DataError, match="provider 'a'.*too large to add up"):
        read_reports(frame, Request(EXAMPLES["normal, unknown variance"].reduction, ("x",), "who"))


def test_days_of_every_kind() -> None:
    x = [1.0, 2.0, 3.0, 4.0]
    who = ["a", "b", "a", "b"]
    request = Request(EXAMPLES["normal"].reduction, ("x",), "who", "day")
    stamps = pd.to_datetime(["2026-01-02", "2026-01-02", "2026-01-10 13:00", "2026-01-10"], format="ISO8601")
    for days in (
        stamps,
        stamps.date,
        ["2026-01-02", "2026-01-02", "2026-01-10", "2026-01-10"],
        stamps.tz_localize("UTC"),
    ):
        reports, _ = read_reports(pd.DataFrame({"who": who, "x": x, "day": days}), request)
        assert [r.day for r in reports] == ["2026-01-02"] * 2 + ["2026-01-10"] * 2
    reports, _ = read_reports(pd.DataFrame({"who": who, "x": x, "day": [2, 2, 10, 10]}), request)
    assert [r.day for r in reports] == [2, 2, 10, 10]
    with pytest.raises(DataError, match="not a date"):
        read_reports(pd.DataFrame({"who": who, "x": x, "day": ["Monday"] * 4}), request)
    with pytest.raises(DataError, match="use one kind"):
        read_reports(pd.DataFrame({"who": who, "x": x, "day": ["1", "1", "2026-01-10", "2026-01-10"]}), request)


def test_a_moment_with_a_zone_belongs_to_its_day_in_utc() -> None:
    """On text with an offset, on timestamps of a table, and if an engine has several spellings of one day."""
    late = pd.to_datetime(["2026-05-04 22:30", "2026-05-05 07:00"]).tz_localize("America/New_York")
    frame = pd.DataFrame({"who": ["a", "a"], "day": late, "x": [1, 1]})
    spelled = frame.assign(day=["2026-05-05T02:30", "2026-05-05"])
    request = Request(Counts(2), ("x",), "who", "day")
    for table in (frame, pa.Table.from_pandas(frame), spelled, ibis.memtable(spelled)):
        reports, _ = read_reports(table, request)
        assert [(report.day, report.rows) for report in reports] == [("2026-05-05", 2)], table


def test_a_whole_number_beyond_64_bits_is_refused_among_names() -> None:
    request = Request(Counts(2), ("x",), "who")
    reports, _ = read_reports(pd.DataFrame({"who": [2**63 - 1, "b"], "x": [1, 1]}), request)
    assert [report.provider for report in reports] == [str(2**63 - 1), "b"]
    with pytest.raises(DataError, match="column 'who': a whole number is too large for 64 bits"):
        read_reports(pd.DataFrame({"who": [2**63, "b"], "x": [1, 1]}), request)


def test_many_providers_and_days_in_one_table() -> None:
    rng = np.random.default_rng(4)
    who, day = rng.integers(0, 5000, 20_000), rng.integers(0, 50, 20_000)
    x = rng.integers(0, 2, 20_000)
    request = Request(EXAMPLES["bernoulli"].reduction, ("x",), "who", "day")
    reports, _ = read_reports({"who": who, "day": day, "x": x}, request)
    counts = (
        pd.DataFrame({"who": who.astype(str), "day": day, "x": x}).groupby(["who", "day"])["x"].agg(["count", "sum"])
    )
    assert len(reports) == len(counts)
    for report in reports[::97]:
        n, ones = counts.loc[(report.provider, report.day)]
        assert (report.rows, report.summary[1]) == (n, ones)


def test_data_of_no_known_kind() -> None:
    with pytest.raises(DataError, match="data of type int cannot be read"):
        read_reports(7, Request(EXAMPLES["normal"].reduction, ("x",), "who"))


@pytest.mark.parametrize(
    ("column", "entry", "problem"),
    [
        ("day", "soon", "provider 'elm', column 'day': 1 value not a date"),
        ("who", "", "column 'who': 1 value without a provider's name"),
    ],
)
def test_a_model_without_a_reduction_has_its_rows_checked(
    column: str, entry: str, problem: str, tmp_path: Path
) -> None:
    rows = [{"who": who, "day": f"2026-05-0{k}", "x": k % 2} for who in ("ash", "elm") for k in (1, 2)]
    request = Request(Moments(), ("x",), "who", "day")
    reports = gather_reports(EXAMPLES["bernoulli"], pd.DataFrame(rows), request)
    assert [(report.key, report.rows, report.summary.tolist()) for report in reports] == [
        ((who, day), 1, counts)
        for day, counts in (("2026-05-01", [1.0, 0.0]), ("2026-05-02", [0.0, 1.0]))
        for who in ("ash", "elm")
    ]
    rows[-1][column] = entry
    for number, part in enumerate((rows[:2], rows[2:])):
        pd.DataFrame(part).to_csv(tmp_path / f"{number}.csv", index=False)
    with pytest.raises(DataError, match=rf"{problem}.*row 2 of 1\.csv"):
        gather_reports(EXAMPLES["bernoulli"], tmp_path, request)


@pytest.mark.parametrize(
    "table", [pd.DataFrame, lambda rows: ibis.memtable(pd.DataFrame(rows))], ids=["pandas", "ibis"]
)
def test_rows_without_a_name_are_counted_however_that_is_written(table: Any) -> None:
    rows = {"who": ["Ash", "Ash", "NA", "-", None, "Elm"], "x": [1, 0, 1, 1, 0, 1]}
    reports, _ = read_reports(table(rows), Request(Counts(2), ("x",), "who", missing="drop"))
    assert [(report.provider, report.rows, report.unnamed) for report in reports] == [("Ash", 2, 3), ("Elm", 1, 0)]


def test_a_file_of_its_own_has_the_rows_of_its_sender_alone(tmp_path: Path) -> None:
    request = Request(Counts(2), ("x",), "who")
    (tmp_path / "ash.csv").write_text("who,x\nAsh,1\nAsh,0\n")
    (tmp_path / "both.csv").write_text("who,x\nAsh,1\nElm,0\n")
    (own,) = read_own_report(tmp_path / "ash.csv", request, "Ash")
    assert (own.provider, own.rows) == ("Ash", 2)
    with pytest.raises(DataError, match="ash.csv: the rows belong to provider 'Ash', not 'Elm'"):
        read_own_report(tmp_path / "ash.csv", request, "Elm")
    with pytest.raises(DataError, match="both.csv: holds rows of 2 providers"):
        read_own_report(tmp_path / "both.csv", request, "Ash")
