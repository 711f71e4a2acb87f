"""What people who mean no good, or have odd data, may try: each case was once a defect."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import troth
from campaigns.shop import CLINICS, GOOD, run, write_campaign
from troth.campaigns.records.ledger import Ledger, LedgerError
from troth.campaigns.toml import to_toml
from troth.cli.output import print_result
from troth.core.errors import DataError
from troth.core.formats import printable
from troth.data import Request, read_reports

B = troth.models.Bernoulli(1, 1)
C3 = troth.models.Categorical([1, 1, 1])


def days(n: int, first: int = -1) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        [(name, first + d, int(x)) for d in range(n) for name in "abc" for x in rng.random(6) < 0.2 + 0.3 * d],
        columns=["who", "day", "x"],
    )


def forged(result: troth.Result, change: Any) -> Ledger:
    entries = json.loads(json.dumps(result.ledger.entries))
    changed = change(entries)
    return Ledger(entries if changed is None else changed)


def test_a_frame_may_begin_and_continue_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    options: dict[str, Any] = {"provider": "who", "day": "day", "budget": "9.00", "ledger": path}
    first = troth.pay(days(2), B, troth.MultiDay(), **options)
    assert [r.day for r in first.rounds] == [-1]
    second = troth.pay(days(4), B, troth.MultiDay(), **options, final=True)
    assert second.paid_now == (0, 1, 2)
    assert troth.verify(path).totals == second.totals
    with pytest.raises(DataError, match="campaign is over"):
        troth.pay(days(5), B, troth.MultiDay(), **options, final=True)


def test_a_ledger_does_not_end_before_a_day_whose_reports_it_has() -> None:
    result = troth.pay(days(3), B, troth.MultiDay(), provider="who", day="day", budget="9.00", final=False)

    def end(entries: list[dict[str, Any]]) -> None:
        [entry for entry in entries if entry["entry"] == "round"][-1]["last"] = True

    with pytest.raises(troth.LedgerError, match="round 2: it claims to be the last"):
        troth.verify(forged(result, end))


ROUNDS = {
    "a day twice": lambda e: [
        *e,
        *[x for x in e if x["entry"] in ("round", "payment", "close") and x.get("day") == -1],
    ],
    "no next day": lambda e: [x | ({"next": None} if x["entry"] == "round" else {}) for x in e],
    "another next day": lambda e: [x | ({"next": 1} if x["entry"] == "round" and x["day"] == -1 else {}) for x in e],
    "last too early": lambda e: [x | ({"last": True} if x["entry"] == "round" else {}) for x in e],
    "no versions": lambda e: [x | ({"versions": {}} if x["entry"] == "round" else {}) for x in e],
    "no time": lambda e: [x | ({"time": "soon"} if x["entry"] == "round" else {}) for x in e],
    "half a row": lambda e: [x | ({"rows": 6.0} if x["entry"] == "report" else {}) for x in e],
    "a report of words": lambda e: [x | ({"summary": ["many"]} if x["entry"] == "report" else {}) for x in e],
    "rows of words left out": lambda e: [x | ({"dropped": "many"} if x["entry"] == "report" else {}) for x in e],
    "fewer rows than none left out": lambda e: [x | ({"unnamed": -1} if x["entry"] == "report" else {}) for x in e],
    "a report without a day": lambda e: [
        {k: v for k, v in x.items() if k != "day"} if x["entry"] == "report" else x for x in e
    ],
    "terms of words": lambda e: [x | ({"terms": []} if x["entry"] == "campaign" else {}) for x in e],
    "a seed of words": lambda e: [x | ({"seed": "guess"} if x["entry"] == "round" else {}) for x in e],
    "a stranger's payment": lambda e: [
        *e[:-1],
        {**next(x for x in e if x["entry"] == "payment"), "provider": "z"},
        e[-1],
    ],
    "nothing": lambda e: [],
}


@pytest.mark.parametrize("case", ROUNDS)
def test_ledgers_that_break_their_own_terms_are_refused(case: str) -> None:
    result = troth.pay(
        days(3), B, troth.MultiDay(), provider="who", day="day", budget="9.00", terms={"campaign": {"days": 3}}
    ).verify()
    with pytest.raises(LedgerError):
        troth.verify(forged(result, ROUNDS[case]))


def test_limits_hold_for_ledgers_too() -> None:
    result = troth.pay(
        {"who": list("aabb"), "x": [1, 0, 1, 1]},
        B,
        "OneTime",
        provider="who",
        budget="9",
        terms={"limits": {"rows": 2}},
    )

    def larger(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            if entry["entry"] == "report":
                entry |= {"rows": 50, "summary": [25.0, 25.0]}

    with pytest.raises(LedgerError, match="50 rows"):
        troth.verify(forged(result, larger))


def test_codes_with_nulls_or_repeats_count_right() -> None:
    labels = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0, 1, 0]), pa.array(["cat", "dog", None]))
    with pytest.raises(DataError, match="missing|not among"):
        troth.pay(
            pa.table({"p": list("aaabbb"), "x": labels}),
            C3,
            provider="p",
            budget="9",
            terms={"model": {"categories": ["cat", "dog", "owl"]}},
        )
    names = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 2, 2, 2]), pa.array(["a", "a", "b"]))
    result = troth.pay(pa.table({"p": names, "x": [1, 1, 0, 1, 0, 0]}), B, provider="p", budget="9", seed=1)
    assert [p.rows for p in result.rounds[0].payments] == [3, 3]


def test_engines_refuse_what_files_refuse(tmp_path: Path) -> None:
    con = ibis.duckdb.connect()
    half = con.sql("select * from (values ('a', 1.0), ('a', 0.5), ('b', 1.0), ('b', 0.0)) t(p, x)")
    with pytest.raises(DataError, match="provider 'a'.*not a whole number from 0 to 1"):
        troth.pay(half, B, provider="p", budget="9")
    nan = con.sql("select * from (values ('a', 1.0::double), ('a', 'nan'::double), ('b', 1.0::double)) t(p, x)")
    with pytest.raises(DataError, match="NaN"):
        troth.pay(nan, B, provider="p", budget="9")
    blank = con.sql("select * from (values ('a', 1), (chr(160), 1), ('b', 0)) t(p, x)")
    with pytest.raises(DataError, match="without a provider's name"):
        troth.pay(blank, B, provider="p", budget="9")
    frame = pd.DataFrame({"p": list("aabb"), "x": [1, 0, 1, 1]})
    lite = ibis.sqlite.connect(tmp_path / "x.db")
    lite.raw_sql("create table t (p text, x real)").close()
    for row in frame.itertuples(index=False):
        lite.raw_sql(f"insert into t values ('{row.p}', {row.x})").close()
    expected = troth.pay(frame, B, provider="p", budget="9", seed=1).totals
    assert troth.pay(lite.table("t"), B, provider="p", budget="9", seed=1).totals == expected


@pytest.mark.parametrize(
    "layout",
    [
        'mechanism.rule = "SyntheticPeers"\nmechanism.draws = 4\n',
        'mechanism = {rule = "SyntheticPeers", draws = 4}\n',
        '[ mechanism ]\nrule = "SyntheticPeers"\n',
        '["mechanism"] # here\nrule = "SyntheticPeers"\n',
        '[mechanism]\r\nrule = "SyntheticPeers"\r\n',
        "",
    ],
)
def test_commitments_find_their_place(layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = GOOD.replace('[mechanism]\nrule = "OneTime"\nrange = "clipped"\n', "").replace("[limits]\nrows = 50\n", "")
    text = layout + rest if layout.startswith("mechanism") else rest + layout
    path = write_campaign(tmp_path, "")
    path.write_bytes(text.encode())
    assert run(monkeypatch, "commit", path) == 0
    assert run(monkeypatch, "pay", path, "--no-report") == 0
    assert troth.verify(tmp_path / "ledger.jsonl").campaign.commitment is not None
    assert (b"\r\n" in path.read_bytes()) == ("\r\n" in layout)


def test_settings_of_any_kind_are_written_as_toml() -> None:
    plain = {
        "model": {"prior": {'a "b"\n\x7f\u2028': [[0.1 + 0.2, 1e-300]] * 9}, "": [True, -3, "\x00", []], "none": {}},
        "weights": {"lab.B": "0.5", "ü": 2},
    }
    assert tomllib.loads(to_toml(plain)) == plain
    for value in (float("nan"), float("inf"), None, {1, 2}):
        with pytest.raises(troth.ParameterError, match="cannot be written into a campaign file"):
            to_toml({"model": {"alpha": [1.0, value]}})


def test_names_and_groups_do_not_mix() -> None:
    frame = {"p": ["a", "b", "c", "group g", "g"] * 4, "x": [1, 1, 0, 1, 0] * 4}
    result = troth.pay(frame, B, provider="p", budget="40", terms={"groups": {"g": ["a", "b"]}}, seed=1)
    assert [p.cap for p in result.rounds[0].payments] == [500, 500, 1000, 1000, 1000]


def test_names_cannot_steer_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    evil = "\x1b]0;x\x07\x1b[2Jevil\u202e\nline"
    assert printable(evil) == "�]0;x��[2Jevil��line"
    result = troth.pay(
        {"p": [evil, "b"] * 3, "x": [1, 0] * 3},
        B,
        provider="p",
        budget="9",
        terms={"campaign": {"name": "[/x]", "currency": "[/y]"}},
        seed=1,
    )
    assert "\x1b" not in str(result)
    assert "\x1b" not in result.explain(evil.strip())
    result.write_ledger(tmp_path / "l.jsonl")
    assert run(monkeypatch, "explain", tmp_path / "l.jsonl", evil.strip()) == 0
    assert "\x1b" not in capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    print_result(result)
    on_terminal = capsys.readouterr().out
    assert "[/x]" in on_terminal
    assert "\x1b" not in on_terminal.replace("\x1b[1m", "").replace("\x1b[0m", "")


def test_a_late_mistake_in_a_long_file_is_named(tmp_path: Path) -> None:
    rows = 700_000
    lines = ["p,x,y\n", *(f"{'ab'[i % 2]},{i % 7}.5,1\n" for i in range(rows))]
    lines[rows - 9] = "a,1.5,oops\n"
    (tmp_path / "t.csv").write_text("".join(lines))
    model = troth.models.MultivariateNormal([0, 0], np.eye(2), np.eye(2))
    with pytest.raises(DataError) as caught:
        read_reports(tmp_path / "t.csv", Request(model.reduction, ("x", "y"), "p"))
    assert f"provider 'a', column 'y': 1 value not a number (first: row {rows - 9:,} of t.csv: 'oops')" in str(
        caught.value
    )
    assert str(caught.value).count("column") == 1


def test_reports_stay_small_whatever_the_names(tmp_path: Path) -> None:
    for n, length, rounds in ((450, 20, 6), (1500, 300, 1), (20, 50_000, 1)):
        rng = np.random.default_rng(2)
        rows = [(f"{i:0{length}d}", d, int(x)) for i in range(n) for d in range(rounds) for x in rng.random(3) < 0.5]
        frame = pd.DataFrame(rows, columns=["p", "day", "x"])
        result = troth.pay(frame, B, troth.SyntheticPeers(draws=2), provider="p", day="day", budget="900", seed=1)
        assert result.write_page(tmp_path / "r.html", simulations=100).stat().st_size < 2_000_000


def test_impossible_statistics_of_an_intercept_and_of_declared_values(tmp_path: Path) -> None:
    text = GOOD.replace(
        '"Bernoulli"\ncolumns = ["improved"]',
        '"LinearRegression"\ncolumns = ["z"]\ntarget = "improved"\nintercept = true',
    )
    text = text.replace("alpha = 1\nbeta = 1", "mean = [0, 0]\nprecision = [[1, 0], [0, 1]]\nnoise = 1")
    text = text.replace('rule = "OneTime"\nrange = "clipped"', 'rule = "SyntheticPeers"').replace(
        '"clinics.csv"', '["clinics.csv", "elm.json"]'
    )
    text = text.replace("rows = 50", "values = [-2, 2]")
    plain = {
        "kind": "troth summary",
        "format": 2,
        "provider": "Elm",
        "family": "LinearRegression",
        "digest": "sha256:" + "0" * 64,
    }
    good = {**plain, "rows": 3, "summary": [3, 3, 1, 1, 1, 2, 0.5, 1, 0.5, 2]}
    bad = {**plain, "rows": 3, "summary": [3, 9, 1, 1, 1, 2, 0.5, 1, 0.5, 2]}
    wide = {**plain, "rows": 3, "summary": [3, 3, 1, 1, 1, 50, 0.5, 1, 0.5, 2]}
    rows = "clinic,z,improved\nAsh,1,1\nAsh,0,1\nOak,1,0\n"
    for statistics, message in ((good, None), (bad, "intercept"), (wide, "values from -2 to 2")):
        path = write_campaign(tmp_path, text, {"clinics.csv": rows, "elm.json": json.dumps(statistics)})
        if message is None:
            assert len(troth.pay(path, seed=1).totals) == 3
        else:
            with pytest.raises(DataError, match=message):
                troth.pay(path, seed=1)


def test_statistics_of_files_with_dots_do_not_collide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_campaign(
        tmp_path, GOOD, {"clinics.csv": CLINICS, "Dr. A.csv": "improved\n1\n", "Dr. B.csv": "improved\n0\n"}
    )
    for name in ("Dr. A", "Dr. B"):
        assert run(monkeypatch, "statistics", path, tmp_path / f"{name}.csv") == 0
        assert json.loads((tmp_path / f"{name}.statistics.json").read_text())["provider"] == name


def test_days_are_the_same_in_every_format(tmp_path: Path) -> None:
    request = Request(B.reduction, ("x",), "who", "day")
    for values in ([20260504, 20260505], [1, 2]):
        frame = pd.DataFrame({"who": ["a", "b"], "day": values, "x": [1, 0]})
        frame.to_csv(tmp_path / "t.csv", index=False)
        days_read = [
            [r.day for r in read_reports(t, request)[0]] for t in (frame, tmp_path / "t.csv", ibis.memtable(frame))
        ]
        assert days_read == [values] * 3
    zoned = pd.DataFrame({"who": ["a"], "day": ["2026-05-04 22:30:00-04:00"], "x": [1]})
    zoned.to_csv(tmp_path / "t.csv", index=False)
    stamped = zoned.assign(day=pd.to_datetime(zoned.day))
    for table in (tmp_path / "t.csv", stamped, zoned):
        assert read_reports(table, request)[0][0].day == "2026-05-05"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("rows = 50", f"rows = {'9' * 5000}"), "cannot be read|too large"),
        (("rows = 50", "rows = 50\nvalues = [0, " + "9" * 400 + "]"), "values"),
        (('range = "clipped"', "range = {low = -9, high = 9, source = 2020-01-01}"), "source must be text"),
        (('range = "clipped"', "range = {low = -9, high = 9, lower = 3}"), "no 'lower'"),
        (('columns = ["improved"]', 'columns = ["improved"]\ncolumn = 5'), "column or columns, not both"),
        (('"1000.00"', '"1_000"'), "not an amount"),
        (('"1000.00"', '"999.99999999999999999999999999999999999"'), "more than 2 decimals"),
        (('currency = "EUR"', "decimals = 9"), "at most 8"),
    ],
)
def test_more_mistakes_in_campaign_files(
    change: tuple[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    import re

    path = write_campaign(tmp_path, GOOD.replace(*change))
    assert run(monkeypatch, "pay", path) == 1
    error = capsys.readouterr().err
    assert re.search(message, error), error


def test_outputs_never_overwrite_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    path = write_campaign(tmp_path)
    for option, target in (("--report", "ledger.jsonl"), ("--csv", "campaign.toml"), ("--ledger", "campaign.toml")):
        assert run(monkeypatch, "pay", path, option, tmp_path / target) == 1
        assert "two files have the same path" in capsys.readouterr().err
    assert troth.Campaign.load(path).name == "Clinics"
    assert run(monkeypatch, "demo", "--directory", tmp_path) == 1


def test_odd_folders(tmp_path: Path) -> None:
    text = GOOD.replace('"clinics.csv"', '"data/*.csv"')
    path = write_campaign(tmp_path / "q [2026] *", text, {"data/clinics.csv": CLINICS})
    assert len(troth.pay(path).totals) == 3
    here = write_campaign(tmp_path / "here", GOOD.replace('"clinics.csv"', '"."'))
    for _ in range(2):
        troth.pay(here, ledger=tmp_path / "here" / "ledger.jsonl")
    (tmp_path / "real.jsonl").write_bytes((tmp_path / "here" / "ledger.jsonl").read_bytes())
    (tmp_path / "here" / "ledger.jsonl").unlink()
    (tmp_path / "here" / "ledger.jsonl").symlink_to(tmp_path / "real.jsonl")
    troth.pay(here, ledger=tmp_path / "here" / "ledger.jsonl")
    assert (tmp_path / "here" / "ledger.jsonl").is_symlink()


def test_odd_frames() -> None:
    good = {"p": ["a", "b"] * 3, "x": [1, 0] * 3}
    expected = troth.pay(good, B, provider="p", budget="9", seed=1).totals
    for kind in ("Int64", "boolean", "Float64", "int8", "uint64"):
        frame = pd.DataFrame(good).astype({"x": kind, "p": "category"})
        assert troth.pay(frame, B, provider="p", budget="9", seed=1).totals == expected
    assert (
        troth.pay(pl.DataFrame(good).cast({"p": pl.Categorical}), B, provider="p", budget="9", seed=1).totals
        == expected
    )
    big = pd.DataFrame({"p": np.array([2**63, 2**63 + 5] * 3, dtype=np.uint64), "x": good["x"]})
    assert set(troth.pay(big, B, provider="p", budget="9", seed=1).totals) == {str(2**63), str(2**63 + 5)}
    for odd in (
        pd.DataFrame({"p": ["a", "b"], "x": pd.Series([1, pd.NA], dtype=object)}),
        pd.DataFrame({"p": ["a", "b"], "x": [1, 2**80]}),
        pd.DataFrame({"p": ["a", "b"], 7: [1, 0]}),
        pd.DataFrame([[1, 0]], columns=pd.MultiIndex.from_tuples([("p", "q"), ("x", "y")])),
    ):
        with pytest.raises(DataError):
            troth.pay(odd, B, provider="p", budget="9")


def test_extreme_values_do_not_stop_a_report(tmp_path: Path) -> None:
    frame = {"p": ["a", "b", "c"] * 4, "x": [1e40, 2e40, -1e40] * 4}
    model = troth.models.NormalUnknownVariance(0, 1, 2, 1)
    result = troth.pay(frame, model, provider="p", budget="9", seed=1)
    assert result.write_page(tmp_path / "r.html", simulations=100).exists()


def test_a_provider_without_rows_is_named(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "data/a.csv": "improved\n1\n",
        "data/b.csv": "improved\n0\n",
        "data/c.csv": "improved\n",
    }
    text = GOOD.replace('"clinics.csv"', '"data"').replace('provider = "clinic"\n', "")
    with pytest.raises(DataError, match=r"c.csv: has no rows"):
        troth.pay(write_campaign(tmp_path, text, files))


FAMILIES = [
    troth.models.Gamma(2.0, 2.0, 1.0),
    troth.models.Exponential(3, 1),
    troth.models.Normal(0, 1, 1),
    troth.models.NormalUnknownVariance(0, 1, 2, 1),
    troth.models.Poisson(2, 1),
    troth.models.LinearRegression([0, 0], np.eye(2), 1),
]


@pytest.mark.parametrize("model", FAMILIES, ids=lambda m: type(m).__name__)
def test_what_is_paid_verifies_at_the_edge_of_declared_values(model: Any) -> None:
    """Values at the declared bounds, and an intercept outside them: `pay` never writes what `verify` refuses."""
    rng = np.random.default_rng(1)
    for low, high in ((2.0, 3.0), (0.0, 0.5), (1.0, 1.0)):
        low = max(low, 0.01) if isinstance(model, troth.models.Gamma) else low
        x = rng.choice([low, high], 12)
        if isinstance(model, troth.models.Poisson):
            x = np.floor(x)
            low, high = float(np.floor(low)), float(np.ceil(high))
        frame: dict[str, Any] = {"p": [*"aabbcc"] * 2, "x": x}
        terms: dict[str, Any] = {"limits": {"values": (low, high)}}
        if isinstance(model, troth.models.LinearRegression):
            frame["y"] = rng.choice([low, high], 12)
            terms["model"] = {"target": "y", "intercept": True}
        result = troth.pay(frame, model, provider="p", budget="9.00", terms=terms, seed=1)
        assert result.verify().paid == result.paid


def test_untyped_engines_are_looked_at_value_by_value(tmp_path: Path) -> None:
    lite = ibis.sqlite.connect(tmp_path / "x.db")
    lite.raw_sql("create table t (p text, x integer)").close()
    for value in ("0.7", "1", "2"):
        lite.raw_sql(f"insert into t values ('a', {value}), ('b', 1)").close()
    with pytest.raises(DataError):
        troth.pay(lite.table("t"), troth.models.Poisson(2, 1), provider="p", budget="9")
    frame = pd.DataFrame({"p": list("aab"), "x": [1.2, 2.0, 1.6]})
    for table in (frame, ibis.memtable(frame)):
        with pytest.raises(DataError, match="fractions"):
            troth.pay(table, B, provider="p", budget="9", terms={"model": {"categories": ["1", "2"]}})


def test_days_of_two_kinds_never_meet(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    options: dict[str, Any] = {"provider": "who", "day": "day", "budget": "9.00", "ledger": path, "seed": 1}
    troth.pay(days(1), B, **options)
    later = days(1).assign(day="2026-01-01")
    with pytest.raises(DataError, match="use one kind"):
        troth.pay(later, B, **options)


def test_results_travel_between_processes() -> None:
    import pickle

    result = troth.pay(days(2), B, provider="who", day="day", budget="9.00", seed=1)
    again = pickle.loads(pickle.dumps(result))
    assert again.to_dict() == result.to_dict()
    assert again.verify().totals == result.totals


def test_files_keep_their_permissions_and_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = GOOD.replace('rule = "OneTime"\nrange = "clipped"', 'rule = "SyntheticPeers"')
    path = write_campaign(tmp_path, "")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    path.chmod(0o600)
    assert run(monkeypatch, "commit", path) == 0
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert path.stat().st_mode & 0o777 == 0o600
    assert run(monkeypatch, "pay", path, "--no-report") == 0


def test_a_campaign_file_has_the_last_word(tmp_path: Path) -> None:
    path = write_campaign(tmp_path)
    with pytest.raises(ValueError, match="budget= belongs in the campaign file"):
        troth.pay(path, budget="5.00")


def test_a_report_that_cannot_be_written_does_not_hide_the_payment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    path = write_campaign(tmp_path)
    (tmp_path / "report.html").mkdir()
    assert run(monkeypatch, "pay", path) == 1
    assert "The payments are made and recorded in" in capsys.readouterr().err
    assert troth.verify(tmp_path / "ledger.jsonl").paid > 0
