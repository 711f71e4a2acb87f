"""The command line, the library, the examples and the report: near_duplicates that say the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import troth
from campaigns.shop import CLINICS, GOOD, campaign_for, run, write_campaign
from registry import SOAK
from troth.campaigns.starter.demo import write_demo
from troth.campaigns.starter.examples import init
from troth.campaigns.statistics_file import make_statistics
from troth.cli import app, commands
from troth.models import FAMILIES
from troth.models.shared.varying_providers import VaryingProviders

BERNOULLI = troth.models.Bernoulli(1, 1)
FRAME: dict[str, Any] = {"who": ["a"] * 9 + ["b"] * 9 + ["c"] * 9, "x": [1, 1, 0] * 6 + [0, 0, 1] * 3}


LIKE_OTHERS = {"SoftmaxCandidates", "PoissonCandidates"}
QUICK = [name for name in FAMILIES if SOAK or not (issubclass(FAMILIES[name], VaryingProviders) or name in LIKE_OTHERS)]
SOME = QUICK if SOAK else QUICK[::5]
WITHOUT_PAGE = [] if SOAK else ["--no-report"]
"""Most tests need no page: its simulations take longer than everything else."""


@pytest.mark.parametrize(
    ("family", "daily"), [(family, False) for family in QUICK] + [(family, True) for family in SOME]
)
def test_every_example_runs(family: str, daily: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["init", tmp_path / "x", "--family", family, *(["--daily"] if daily else [])]
    assert run(monkeypatch, *arguments) == 0
    campaign = tmp_path / "x" / "campaign.toml"
    ledger = tmp_path / "x" / "ledger.jsonl"
    assert run(monkeypatch, "pay", campaign, *WITHOUT_PAGE) == 0
    assert run(monkeypatch, "verify", ledger) == 0
    result = troth.pay(campaign, ledger=ledger)
    assert result.paid_now == ()
    assert len(result.rounds) == (5 if daily else 1)
    page = result.write_page(tmp_path / "r.html", simulations=4000 if SOAK else 100).read_text()
    assert len(page) < 2_000_000
    assert "could not be simulated" not in page
    assert "No certificate" not in page
    assert "was not checked" not in page
    assert "cannot be drawn" not in page
    assert "<td>open</td>" not in page  # a verdict is printed in words


@pytest.mark.parametrize("rule", ["LineUp", "OneTime", "Brier", "MultiDay", "SyntheticPeers"])
def test_every_rule_has_an_example(rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = init(tmp_path / "x", "Finite", rule)
    assert run(monkeypatch, "pay", path, *WITHOUT_PAGE) == 0
    assert run(monkeypatch, "verify", tmp_path / "x" / "ledger.jsonl") == 0


@pytest.mark.parametrize(("family", "rule"), [("Categorical", "Brier"), ("LinearRegression", "OneTime")])
def test_what_could_never_be_paid_is_not_written(family: str, rule: str, tmp_path: Path) -> None:
    with pytest.raises(troth.TrothError, match="SyntheticPeers|the default one"):
        init(tmp_path / "x", family, rule)
    assert not (tmp_path / "x").exists()


def test_statistics_files_pay_the_same_cents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, family in enumerate(SOME):
        for daily in (False, True) if SOAK else (place % 2 == 1,):
            campaign = init(tmp_path / f"{family}{daily}", family, daily=daily)
            text = campaign.read_text().replace("[data]\n", "[data]\nkeep_features = false\n")  # statistics have none
            campaign.write_text(text)
            expected = troth.pay(campaign).totals
            files = sorted((campaign.parent / "data").glob("*.csv"))
            for file in files[::2]:
                assert run(monkeypatch, "statistics", campaign, file) == 0
                file.unlink()
            written = list((campaign.parent / "data").glob("*.statistics.json"))
            assert len(written) == 4
            for file in written:  # nonces move the seed, and files of rows have none
                plain = json.loads(file.read_text())
                for sums in plain.get("days", [plain]):
                    assert len(sums.pop("nonce")) == 64
                file.write_text(json.dumps(plain))
            assert troth.pay(campaign).totals == expected


def test_a_statistics_file_is_small_and_tells_what_it_is(tmp_path: Path) -> None:
    campaign = troth.Campaign.load(
        write_campaign(tmp_path, GOOD, {"clinics.csv": CLINICS, "ash.csv": "improved\n1\n1\n0\n"})
    )
    statistics_file = make_statistics(campaign, tmp_path / "ash.csv")
    assert statistics_file["provider"] == "ash"
    assert (statistics_file["family"], statistics_file["rows"], statistics_file["summary"]) == (
        "Bernoulli",
        3,
        [1.0, 2.0],
    )
    assert re.fullmatch("sha256:[0-9a-f]{64}", statistics_file["digest"])
    with pytest.raises(troth.DataError, match="3 providers"):
        make_statistics(campaign, tmp_path / "clinics.csv")


def test_json_has_the_shape_that_others_rely_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    path = write_campaign(tmp_path)
    assert run(monkeypatch, "pay", path, "--json") == 0
    output = capsys.readouterr()
    plain = json.loads(output.out)
    assert output.err == ""
    assert list(plain) == ["campaign", "rule", "budget", "currency", "paid", "rounds", "verdict", "written"]
    assert (plain["campaign"], plain["rule"], plain["budget"], plain["currency"]) == (
        "Clinics",
        "OneTime",
        "1000.00",
        "EUR",
    )
    assert [list(r) for r in plain["rounds"]] == [["day", "payments"]]
    payments = plain["rounds"][0]["payments"]
    assert [list(p) for p in payments] == [["provider", "rows", "score", "share", "payment"]] * 3
    assert [p["provider"] for p in payments] == ["Ash", "Birch", "Elm"]
    assert all(re.fullmatch(r"\d+\.\d\d", p["payment"]) for p in payments)
    assert f"{sum(float(p['payment']) for p in payments):.2f}" == plain["paid"]
    result = troth.pay(path)
    assert {**result.to_dict(), "verdict": result.verdict.to_dict(), "written": True} == plain


COMMANDS = ["demo", "init", "commit", "pay", "audit", "certify", "statistics", "verify", "report", "explain"]


def test_help_names_every_command() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    for command in COMMANDS:
        assert re.search(rf"^\W*{command}\b", result.output, re.MULTILINE), command
    registered = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    assert set(COMMANDS) <= registered


def test_every_command_speaks_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    text = GOOD.replace('rule = "OneTime"\nrange = "clipped"', 'rule = "SyntheticPeers"')
    path = write_campaign(tmp_path, text, {"clinics.csv": CLINICS, "ash.csv": "improved\n1\n"})
    ledger = tmp_path / "ledger.jsonl"
    for arguments in (
        ["init", "new", "--json"],
        ["commit", path, "--json"],
        ["pay", path, "--json", "--csv", "payments.csv"],
        ["audit", path, "--simulations", "200", "--json", "--plot", tmp_path / "audit.png"],
        ["certify", path, "--json"],
        ["statistics", path, "ash.csv", "--json"],
        ["verify", ledger, "--json"],
        ["report", ledger, "--json"],
        ["explain", ledger, "Ash", "--json"],
        ["demo", "--json"],
    ):
        assert run(monkeypatch, *arguments) == 0, capsys.readouterr().err
        json.loads(capsys.readouterr().out)
    assert (tmp_path / "audit.png").stat().st_size > 1000
    assert (tmp_path / "payments.csv").read_text().startswith("provider,rows,log_pmi,score,share,payment")


def test_words_for_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    path = write_campaign(tmp_path)
    for arguments, words in (
        (["pay", path], "Clinics: OneTime, budget 1,000.00 EUR"),
        (["pay", path], "nothing to pay"),
        (["audit", path, "--simulations", "200"], "report nothing"),
        (["certify", path], "assumed, not proved"),
        (["verify", tmp_path / "ledger.jsonl"], ": valid. "),
        (["explain", tmp_path / "ledger.jsonl", "Elm"], "times less likely"),
        (["report", tmp_path / "ledger.jsonl"], "wrote"),
        (["--version"], "troth "),
    ):
        assert run(monkeypatch, *arguments) == 0
        output = capsys.readouterr()
        assert words in output.out, output
        assert output.err == ""


def test_exit_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    assert run(monkeypatch, "pay", tmp_path / "nothing.toml") == 1
    assert "there is no such file" in capsys.readouterr().err
    assert run(monkeypatch, "pay") == 2
    assert run(monkeypatch, "frobnicate") == 2
    assert run(monkeypatch, "verify", tmp_path) == 1
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    assert run(monkeypatch, "init", tmp_path / "full") == 1
    assert run(monkeypatch, "explain", tmp_path / "none.jsonl", "x") == 1
    path = write_campaign(tmp_path / "c")
    assert run(monkeypatch, "commit", path) == 1
    assert "draws nothing" in capsys.readouterr().err
    assert run(monkeypatch, "pay", path) == 0
    assert run(monkeypatch, "explain", tmp_path / "c" / "ledger.jsonl", "Oak") == 1
    raw = (tmp_path / "c" / "ledger.jsonl").read_bytes()
    (tmp_path / "c" / "ledger.jsonl").write_bytes(raw.replace(b"Ash", b"Asp", 1))
    assert run(monkeypatch, "verify", tmp_path / "c" / "ledger.jsonl") == 1
    assert "line 2: the hash chain breaks here" in capsys.readouterr().err


def test_a_commitment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    text = GOOD.replace('rule = "OneTime"\nrange = "clipped"', 'rule = "SyntheticPeers" # drawn')
    path = write_campaign(tmp_path, text)
    assert run(monkeypatch, "pay", path, "--ledger", tmp_path / "before.jsonl", "--no-report") == 0
    assert "no commitment was published" in capsys.readouterr().err
    assert run(monkeypatch, "commit", path) == 0
    assert (tmp_path / "campaign.secret").stat().st_mode & 0o077 == 0
    committed = path.read_text()
    assert text.replace("[mechanism]\n", "") in committed.replace(
        re.findall("commitment.*\n", committed)[0], ""
    ).replace("[mechanism]\n", "")
    assert run(monkeypatch, "commit", path) == 1
    assert run(monkeypatch, "pay", path, "--no-report") == 0
    first = troth.verify(tmp_path / "ledger.jsonl")
    assert troth.pay(path).totals == first.totals
    (tmp_path / "campaign.secret").write_text('{"secret": "' + "0" * 64 + '", "rounds": 1}')
    with pytest.raises(troth.DataError, match="the secret does not match the campaign's commitment"):
        troth.pay(path)


def test_a_result_prints_shows_converts_and_plots(tmp_path: Path) -> None:
    result = troth.pay(
        FRAME, BERNOULLI, provider="who", budget="900.00", terms={"campaign": {"currency": "EUR"}}, seed=1
    )
    assert "paid" in str(result)
    assert repr(result).startswith("<Result campaign: LineUp")
    hostile = troth.pay(
        {**FRAME, "who": ["<script>"] * 9 + FRAME["who"][9:]}, BERNOULLI, provider="who", budget="900", seed=1
    )
    assert "<script>" not in hostile._repr_html_()
    arrow, pandas, polars = result.to_arrow(), result.to_pandas(), result.to_polars()
    assert isinstance(arrow, pa.Table)
    assert isinstance(pandas, pd.DataFrame)
    assert isinstance(polars, pl.DataFrame)
    assert float(sum(pandas["payment"])) == float(polars["payment"].sum()) == result.paid / 100
    assert "times" in result.explain("a")
    result.write_csv(tmp_path / "p.csv")
    result.write_ledger(tmp_path / "l.jsonl")
    assert troth.verify(tmp_path / "l.jsonl").totals == result.totals


def test_spreadsheets_run_no_names(tmp_path: Path) -> None:
    result = troth.pay(
        {**FRAME, "who": ["=1+1"] * 9 + FRAME["who"][9:]}, BERNOULLI, provider="who", budget="900", seed=1
    )
    assert "\n'=1+1," in result.write_csv(tmp_path / "p.csv").read_text()


def test_columns_are_guessed_only_where_there_is_no_choice() -> None:
    with pytest.raises(troth.DataError, match="columns="):
        troth.pay({**FRAME, "y": FRAME["x"]}, BERNOULLI, provider="who", budget="900")
    with pytest.raises(ValueError, match="model and a budget"):
        troth.pay(FRAME, BERNOULLI, provider="who")


def test_the_other_terms_of_a_campaign_are_tables() -> None:
    """Terms are checked like a campaign file, may hold all that one may, and say nothing twice."""
    options: dict[str, Any] = {"provider": "who", "budget": "900", "seed": 1}
    short = troth.pay(FRAME, BERNOULLI, "OneTime", terms={"limits": {"rows": 9}}, **options)
    mechanism = {"rule": "OneTime", "range": "exact"}
    spelled_out = troth.pay(FRAME, BERNOULLI, terms={"mechanism": mechanism, "limits": {"rows": 9}}, **options)
    assert spelled_out.totals == short.totals
    refused: list[tuple[Any, str]] = [
        ({"limits": {"row": 9}}, r"\[limits\] row: there is no such setting"),
        ({"limit": {"rows": 9}}, "limit: there is no such setting"),
        ({"limits": 9}, r"terms: \[limits\] must be a table"),
        ({"campaign": {"budget": "8"}}, r"terms: \[campaign\] budget is given twice"),
        ({"model": {"alpha": 2}}, r"terms: \[model\] alpha is given twice"),
        ({"mechanism": mechanism}, r"terms: \[mechanism\] rule is given twice"),
    ]
    for terms, message in refused:
        with pytest.raises(troth.TrothError, match=message):
            troth.pay(FRAME, BERNOULLI, "OneTime", terms=terms, **options)


def test_the_demonstration_shows_that_lying_costs(tmp_path: Path) -> None:
    lying, honest = write_demo(tmp_path)
    lied, true = troth.pay(lying), troth.pay(honest)
    assert len(lied.totals) == 12
    changed = [name for name in lied.totals if lied.totals[name] < true.totals[name] - 5000]
    assert changed == ["Glenside", "Juniper"]
    assert write_demo(tmp_path) == (lying, honest)


def test_quiet_when_not_on_a_terminal(tmp_path: Path) -> None:
    path = write_campaign(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "troth.cli", "pay", str(path)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert "━" not in done.stdout


def test_bars_and_colours_on_a_terminal(tmp_path: Path) -> None:
    import pty

    path = write_campaign(tmp_path)
    main, child = pty.openpty()
    command = [sys.executable, "-m", "troth.cli", "pay", str(path)]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    with subprocess.Popen(command, stdout=child, stderr=child, env=environment) as process:
        os.close(child)
        output = b""
        while True:
            try:
                block = os.read(main, 65536)
            except OSError:
                break
            if not block:
                break
            output += block
        assert process.wait() == 0
    os.close(main)
    text = output.decode()
    assert "█" in text
    assert "reading" in text or "page" in text


HOSTILE = "<img src=x onerror=alert(1)>\"'&</script><script>alert(2)</script>"


def test_the_report_escapes_hostile_names(tmp_path: Path) -> None:
    frame = {**FRAME, "who": [HOSTILE] * 9 + FRAME["who"][9:]}
    terms = {"campaign": {"name": HOSTILE, "currency": "<b>"}}
    result = troth.pay(frame, BERNOULLI, provider="who", budget="900", terms=terms, seed=1)
    page = result.write_page(tmp_path / "r.html", simulations=200).read_text()
    assert "<img src=x" not in page
    assert "<script>alert" not in page
    assert "&lt;img src=x" in page


def test_the_report_escapes_hostile_names_of_near_duplicates() -> None:
    x = np.random.default_rng(1).normal(size=(4, 9))
    who = [name for name in (HOSTILE, f"2 {HOSTILE}", "c", "d", "e") for _ in range(9)]
    frame = {"who": who, "x": np.concatenate([x[0], *x])}
    result = troth.pay(frame, troth.models.Normal(0, 1, 1), provider="who", budget="900", seed=1)
    page = result.to_html(simulations=200)
    assert "check whether one copied the other" in page
    assert "<img src=x" not in page
    assert "<script>alert" not in page


def test_the_report_stays_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = {
        "who": np.repeat([f"provider with a rather long name {i}" for i in range(5000)], 3),
        "x": rng.integers(0, 2, 15_000),
    }
    result = troth.pay(frame, BERNOULLI, troth.SyntheticPeers(draws=4), provider="who", budget="90000", seed=1)
    assert result.write_page(tmp_path / "r.html", simulations=200).stat().st_size < 2_000_000


def test_copies_and_poor_fit_are_flagged(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    same = rng.normal(3, 1, 20)
    frame = {
        "who": np.repeat(["a", "b", "c", "d"], 20),
        "x": np.concatenate([same, same, rng.normal(3, 1, 20), rng.normal(40, 1, 20)]),
    }
    result = troth.pay(frame, troth.models.Normal(0, 5, 1), provider="who", budget="900", seed=1)
    page = result.write_page(tmp_path / "r.html", simulations=200).read_text()
    assert "<b>a</b> and <b>b</b> have the same statistics" in page
    assert "The model does not fit these reports" in page


@pytest.mark.parametrize(
    ("scheme", "width"),
    [("dark", 375), *([("light", 1100), ("light", 375), ("dark", 1100)] if SOAK else [])],
)
def test_the_report_in_a_real_browser(scheme: str, width: int, tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    lying, _ = write_demo(tmp_path)
    frame = {**FRAME, "who": [HOSTILE] * 9 + FRAME["who"][9:]}
    pages = [
        troth.pay(lying).write_page(tmp_path / "demo.html", simulations=200),
        troth.pay(frame, BERNOULLI, provider="who", budget="900", seed=1).write_page(
            tmp_path / "hostile.html", simulations=200
        ),
        troth.pay(init(tmp_path / "days", daily=True)).write_page(tmp_path / "days.html", simulations=200),
    ]
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        for path in pages:
            context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})  # type: ignore[arg-type]
            page: Any = context.new_page()
            complaints: list[str] = []
            requests: list[str] = []
            page.on("console", lambda message, messages=complaints: messages.append(message.text))
            page.on("pageerror", lambda error, messages=complaints: messages.append(str(error)))
            page.on("dialog", lambda dialog, messages=complaints: (messages.append(dialog.message), dialog.dismiss()))
            page.on("request", lambda request, addresses=requests: addresses.append(request.url))
            page.goto(path.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            background = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, re.findall(r"\d+", background)[:3])) < 200) == (scheme == "dark")
            page.click("th:last-child button")
            first = page.inner_text("table.sortable tbody:nth-of-type(1) td:last-child")
            page.click("th:last-child button")
            last = page.inner_text("table.sortable tbody:nth-of-type(1) td:last-child")
            assert float(first) <= float(last)
            page.click("summary >> nth=0")
            assert page.is_visible("table.steps >> nth=0")
            assert requests == [path.as_uri()]
            assert complaints == []
            context.close()
        browser.close()


def chromium() -> str:
    from shutil import which

    path = which("chromium") or which("chromium-browser") or which("google-chrome")
    assert path, "chromium is missing: make test installs it (apt-get install chromium)"
    return path


OWN: dict[str, tuple[str, dict[str, Any]]] = {
    "improved": ("VaryingBernoulli", {"alpha": 1.0, "beta": 1.0}),
    "label": ("VaryingCategorical", {"alpha": (1.0, 1.0, 1.0)}),
    "cars": ("VaryingPoisson", {"mean": 4.0, "scale": 4.0}),
    "price": ("VaryingNormal", {"mean": 20.0, "scale": 4.0, "noise": 2.0}),
}


def own_table() -> dict[str, list[Any]]:
    rng = np.random.default_rng(4)
    size = 90
    return {
        "who": [f"shop {'ABC'[i % 3]}" for i in range(size)],
        "when": [1 + i // 30 for i in range(size)],
        "improved": rng.integers(0, 2, size).tolist(),
        "label": [("cat", "dog", 'a "wild" one')[i] for i in rng.integers(0, 3, size)],
        "cars": rng.poisson(3.5, size).tolist(),
        "price": rng.normal(20, 1.7, size).round(2).tolist(),
    }


@pytest.mark.parametrize("column", OWN)
@pytest.mark.parametrize("kind", ["csv", "parquet"] if SOAK else ["csv"])
def test_a_campaign_is_written_for_ones_own_data(
    column: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    path = tmp_path / f"own.{kind}"
    frame = pd.DataFrame(own_table())
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    arguments = ["--data", path, "--provider", "who", "--column", column, "--budget", "300"]
    assert run(monkeypatch, "init", tmp_path / "x", *arguments) == 0
    family, parameters = OWN[column]
    campaign = troth.Campaign.load(tmp_path / "x" / "campaign.toml")
    assert campaign.model.to_dict() == troth.models.from_dict({"family": family, **parameters}).to_dict()  # type: ignore[attr-defined]
    assert campaign.budget == 30000
    assert ("guessed from the data" in capsys.readouterr().err) == (family in ("VaryingPoisson", "VaryingNormal"))
    assert run(monkeypatch, "pay", tmp_path / "x" / "campaign.toml", *WITHOUT_PAGE) == 0
    assert run(monkeypatch, "verify", tmp_path / "x" / "ledger.jsonl") == 0
    assert path.exists()


@pytest.mark.parametrize("rule", ["SyntheticPeers", "MultiDay"])
def test_a_daily_campaign_is_written_for_ones_own_data(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pd.DataFrame(own_table()).to_csv(tmp_path / "own.csv", index=False)
    arguments = ["--data", tmp_path / "own.csv", "--provider", "who", "--column", "improved", "--day", "when"]
    assert run(monkeypatch, "init", tmp_path / "x", *arguments, "--rule", rule) == 0
    assert run(monkeypatch, "pay", tmp_path / "x" / "campaign.toml", "--final", *WITHOUT_PAGE) == 0
    assert len(troth.verify(tmp_path / "x" / "ledger.jsonl").rounds) == 3


def test_files_named_for_providers_need_no_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, part in pd.DataFrame(own_table()).groupby("who"):
        (tmp_path / "files").mkdir(exist_ok=True)
        part[["improved"]].to_csv(tmp_path / "files" / f"{name}.csv", index=False)
    assert run(monkeypatch, "init", tmp_path / "x", "--data", tmp_path / "files", "--rule", "OneTime") == 0
    result = troth.pay(tmp_path / "x" / "campaign.toml")
    assert list(result.totals) == ["shop A", "shop B", "shop C"]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({}, "name the column of providers with --provider; there are 'who'"),
        ({"provider": "who"}, "name the column that you pay for with --column; there are 'when', 'improved'"),
        ({"provider": "shop"}, r"no column 'shop' \(--provider\)"),
        ({"provider": "who", "column": "who"}, "is already the provider, day or target column; choose another"),
        ({"provider": "improved", "column": "many"}, "90 different labels"),
        ({"provider": "who", "column": "label", "family": "Poisson"}, "has text, but numbers are needed"),
        ({"provider": "who", "column": "price", "family": "Gamma"}, "not for 'Gamma'"),
        ({"provider": "who", "column": "improved", "rule": "MultiDay"}, "name the column of days"),
        ({"provider": "who", "column": "improved", "rule": "Nonsense"}, "no rule .Nonsense."),
        ({"provider": "who", "column": "improved", "budget": "much"}, "budget"),
        ({"provider": "who", "column": "empty"}, "has no values"),
        ({"provider": "who", "column": "comma"}, "numbers with commas, such as '1,5'"),
        ({"provider": "alone", "column": "improved"}, "'alone' names only one provider; at least two"),
        ({"provider": "who", "column": "improved", "day": "date"}, r"'31.12.2026' is not a day \(--day\).*YYYY-MM-DD"),
    ],
)
def test_what_cannot_be_guessed_is_asked_for(chosen: dict[str, str], message: str, tmp_path: Path) -> None:
    table = own_table()
    more: dict[str, list[Any]] = {
        "many": [f"label {i}" for i in range(90)],
        "empty": [None] * 90,
        "comma": ["1,5", "1.200,75", "3"] * 30,
        "alone": ["Ash"] * 90,
        "date": ["31.12.2026"] * 90,
    }
    frame = pd.DataFrame({**table, **more})
    frame.to_csv(tmp_path / "own.csv", index=False)
    with pytest.raises(troth.TrothError, match=message):
        campaign_for(tmp_path / "x", data=tmp_path / "own.csv", **chosen)
    assert not (tmp_path / "x").exists()


def test_headers_with_blanks_and_capitals_are_found(tmp_path: Path) -> None:
    text = " Clinic ;Improved ?; note\nAsh;1;x\nAsh;0;x\nElm;1;x\n"
    (tmp_path / "own.csv").write_text(text, encoding="utf-8-sig")
    path = campaign_for(tmp_path / "x", data=tmp_path / "own.csv", provider="clinic", column="improved ?")
    assert list(troth.pay(path).totals) == ["Ash", "Elm"]
    (tmp_path / "own.csv").write_text("Clinic,clinic,improved\nAsh,a,1\nElm,b,0\n")
    with pytest.raises(troth.DataError, match="no column 'CLINIC'"):
        campaign_for(tmp_path / "y", data=tmp_path / "own.csv", provider="CLINIC", column="improved")


def test_a_header_that_is_not_in_utf_8_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    (tmp_path / "own.csv").write_bytes("hôpital,guéri\nAsh,1\nElm,0\n".encode("latin-1"))
    assert run(monkeypatch, "init", tmp_path / "x", "--data", tmp_path / "own.csv", "--column", "guéri") == 1
    assert "own.csv: holds text that is not in UTF-8" in capsys.readouterr().err


def test_one_column_is_paid_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    pd.DataFrame(own_table()).to_csv(tmp_path / "own.csv", index=False)
    arguments = ["--data", tmp_path / "own.csv", "--provider", "who", "--column", "price", "--column", "cars"]
    assert run(monkeypatch, "init", tmp_path / "x", *arguments) == 1
    assert "with --target the one that the others predict" in capsys.readouterr().err


def test_one_row_each_leaves_the_noise_as_large_as_the_spread(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("who,price\nAsh,1200.5\nElm,1500.5\nOak,900.5\n")
    campaign = troth.Campaign.load(
        campaign_for(tmp_path / "x", data=tmp_path / "own.csv", provider="who", column="price")
    )
    assert campaign.model.to_dict()["noise"] == 300.0  # type: ignore[attr-defined]


def test_columns_without_data_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "init", tmp_path / "x", "--provider", "who") == 1
    assert "--day need --data" in capsys.readouterr().err


def test_every_command_is_in_a_section_of_the_help() -> None:
    listed = [name for names in commands.SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(commands.command().commands)
