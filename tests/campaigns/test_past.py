"""Past days of a campaign: `troth fit` learns a model, `troth backtest` tries lies on it, the page shows both."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import troth
from campaigns.shop import run
from registry import SOAK
from troth.campaigns.past import fit_campaign, fitted_text, history_digest, read_history
from troth.core.errors import DataError

TEXT = """
[campaign]
name = "Carriers"
budget = "90.00"
budget_per = "day"

[model]
family = "{family}"
columns = ["{column}"]
{settings}

[mechanism]
rule = "SyntheticPeers"
draws = 8

[data]
source = "now.csv"
provider = "carrier"
day = "date"
"""
FAMILIES = {
    "Bernoulli": ("late", "prior = {alpha = 1, beta = 2}"),
    "Categorical": ("kind", 'prior = {alpha = [1, 1, 1]}\ncategories = ["a", "b", "c"]'),
    "Poisson": ("count", "prior = {shape = 2, rate = 1}"),
    "Normal": ("value", "prior = {mean = 3, scale = 2}\nnoise = 1"),
}


DAYS = 120 if SOAK else 60


@cache
def table(days: range, seed: int = 1) -> pd.DataFrame:
    """Days of three kinds; four providers with likelihoods and day effects of their own."""
    rng = np.random.default_rng(seed)
    rates = np.array([[0.15, 0.1, 0.3, 0.2], [0.4, 0.3, 0.5, 0.45], [0.7, 0.65, 0.85, 0.6]])
    parts = []
    for day in days:
        kind = rng.choice(3, p=[0.4, 0.35, 0.25])
        for i, name in enumerate("ABCD"):
            n = int(rng.integers(15, 25))
            p = rng.beta(20 * rates[kind, i], 20 * (1 - rates[kind, i]))
            late = (rng.random(n) < p).astype(int)
            parts.append(
                pd.DataFrame(
                    {
                        "carrier": name,
                        "date": pd.Timestamp("2026-01-01") + pd.Timedelta(days=day),
                        "late": late,
                        "kind": np.array(["a", "b", "c"])[np.minimum(late + (rng.random(n) < 0.3), 2)],
                        "count": rng.poisson(5 * p, n),
                        "value": 4 * rates[kind, i] + rng.normal(0, 0.2) + rng.normal(0, 1, n),
                    }
                )
            )
    return pd.concat(parts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "past.csv").write_text(rows(range(DAYS)))
    (tmp_path / "now.csv").write_text(rows(range(DAYS, DAYS + 3), seed=2))
    return tmp_path


@cache
def rows(days: range, seed: int = 1) -> str:
    return str(table(days, seed).to_csv(index=False))


def campaign(folder: Path, family: str = "Bernoulli") -> Path:
    column, settings = FAMILIES[family]
    path = folder / "campaign.toml"
    path.write_text(TEXT.format(family=family, column=column, settings=settings))
    return path


@pytest.mark.parametrize("family", FAMILIES)
def test_a_fitted_campaign_pays_and_verifies(
    family: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    path = campaign(folder, family)
    plot = folder / "fit.png"
    assert run(monkeypatch, "fit", path, folder / "past.csv", "--types", "3", "--plot", plot) == 0
    assert "3 day types of 4 providers" in capsys.readouterr().out
    assert plot.stat().st_size > 10_000
    fitted = troth.Campaign.load(folder / "fitted.toml")
    assert isinstance(fitted.model, troth.models.LatentClass)
    assert set(fitted.provider_models) == set("ABCD")
    assert fitted.history is not None
    assert fitted.history["days"] == DAYS
    with_page = SOAK or family == "Bernoulli"
    assert run(monkeypatch, "pay", folder / "fitted.toml", *([] if with_page else ["--no-report"])) == 0
    assert run(monkeypatch, "verify", folder / "ledger.jsonl") == 0
    if not with_page:
        return
    page = (folder / "report.html").read_text()
    assert "What lies would have earned on past days" in page
    assert f"Of the {DAYS} past days {DAYS - 30} are held out: each stretch is paid under a model fitted to" in page
    assert "shift by −0.25 sd" in page
    assert "shift by -0.25 sd" not in page
    assert "no lie gains significantly" in page or "lies gain" in page


def test_a_rewritten_page_keeps_the_backtest(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """The ledger has no path of the history, but the campaign file beside it has; else the page says what to do."""
    path = campaign(folder, "Bernoulli")
    assert run(monkeypatch, "fit", path, folder / "past.csv", "--types", "2") == 0
    assert run(monkeypatch, "pay", folder / "fitted.toml", "--no-report") == 0
    capsys.readouterr()
    page, ledger = folder / "report.html", folder / "ledger.jsonl"
    assert run(monkeypatch, "report", ledger) == 0
    assert f"Of the {DAYS} past days {DAYS - 30} are held out" in page.read_text()
    assert capsys.readouterr().err == ""
    (folder / "fitted.toml").rename(folder.parent / "elsewhere.toml")
    assert run(monkeypatch, "report", ledger) == 0
    assert "are held out" not in page.read_text()
    assert "The model was learnt from past days" in page.read_text()
    assert "troth report LEDGER --history FILE" in page.read_text()
    assert "no campaign file beside" in capsys.readouterr().err


def test_a_model_that_was_learnt_from_the_file_it_pays_is_warned_about(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    path = campaign(folder, "Bernoulli")
    assert run(monkeypatch, "fit", path, folder / "past.csv", "--family", "Bernoulli") == 0
    fitted = folder / "fitted.toml"
    data = re.search(r"^\[data\]\nsource = .*$", fitted.read_text(), re.MULTILINE)
    assert data is not None
    fitted.write_text(fitted.read_text().replace(data[0], '[data]\nsource = "past.csv"'))
    assert run(monkeypatch, "pay", fitted, "--no-report", "--anyway") == 0
    assert "[history] and [data] name the same file" in capsys.readouterr().err


@pytest.mark.parametrize("family", ["Bernoulli", "ProviderNormal", "Normal"])
def test_plain_priors_and_offsets_are_fitted_too(family: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = campaign(folder, "Normal" if "Normal" in family else "Bernoulli")
    assert run(monkeypatch, "fit", path, folder / "past.csv", "--family", family, "--output", folder / "f.toml") == 0
    fitted = troth.Campaign.load(folder / "f.toml")
    assert type(fitted.model).__name__ == family
    assert troth.pay(fitted).verify().paid > 0


def test_the_backtest_names_the_lies_that_gain(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    path = campaign(folder)
    plot = folder / "b.png"
    assert (
        run(
            monkeypatch, "backtest", path, folder / "past.csv", "--types", "3", "--folds", "2", "--json", "--plot", plot
        )
        == 0
    )
    output = json.loads(capsys.readouterr().out)
    assert output["recommended"] == "day types"
    assert set(output["models"]) == {"as declared", "textbook Bernoulli", "day types"}
    assert plot.stat().st_size > 10_000
    assert run(monkeypatch, "backtest", path, folder / "past.csv", "--types", "3", "--folds", "2") == 0
    text = capsys.readouterr().out
    assert "The model 'day types' passes: no lie gains significantly" in text
    assert "providers under day types:" in text
    for once in ("with 80% probability", "assumed honest", "must not depend on the reports", "A fit stays good"):
        assert text.count(once) == 1
    assert "No lie gains significantly under day types" in text.partition("providers under day types:")[2]


def test_fits_and_backtests_are_the_same_every_time(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    path = campaign(folder)
    messages = []
    folds = "2" if SOAK else "1"
    for _ in range(2):
        assert run(monkeypatch, "fit", path, folder / "past.csv", "--types", "3", "--json") == 0
        assert run(monkeypatch, "backtest", path, folder / "past.csv", "--types", "2", "--folds", folds, "--json") == 0
        messages.append(capsys.readouterr().out)
    assert messages[0] == messages[1]


def test_a_provider_without_history_has_the_populations_likelihood(folder: Path) -> None:
    terms = troth.Campaign.load(campaign(folder))
    past = read_history(terms, folder / "past.csv")
    learned = fit_campaign(terms, past, types=3, seed=0)
    (folder / "fitted.toml").write_text(fitted_text(terms, learned, past))
    now = pd.read_csv(folder / "now.csv")
    newcomer = now[now.carrier == "A"].assign(carrier="E")
    pd.concat([now[now.carrier != "D"], newcomer]).to_csv(folder / "now.csv", index=False)
    fitted = troth.Campaign.load(folder / "fitted.toml")
    assert fitted.model_of("E") == fitted.model
    result = troth.pay(fitted, seed=1).verify()
    assert set(result.totals) == set("ABCE")


def test_a_history_that_changed_is_not_the_one_that_was_learnt_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = campaign(folder)
    assert run(monkeypatch, "fit", path, folder / "past.csv", "--types", "2") == 0
    terms = troth.Campaign.load(folder / "fitted.toml")
    assert terms.history is not None
    assert terms.history["digest"] == history_digest(read_history(terms, folder / "past.csv"))
    (folder / "past.csv").write_text(rows(range(DAYS - 1)))
    assert run(monkeypatch, "pay", folder / "fitted.toml") == 0
    assert "not the history that the model was learnt from" in (folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[t.date < "2026-01-06"], "5 days; a fit needs at least"),
        (lambda t: t.assign(late=1), "same|constant|vary"),
        (lambda t: t.drop(columns="date"), "no column 'date'"),
        (lambda t: t.drop(columns="late"), "no column 'late'"),
        (lambda t: t.head(0), "no rows"),
        (lambda t: t.assign(late=t.late.where(t.index > 0, 7)), "not a whole number from 0 to 1"),
    ],
)
def test_bad_histories_are_refused(
    change: Any, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    change(table(range(40))).to_csv(folder / "past.csv", index=False)
    assert run(monkeypatch, "fit", campaign(folder), folder / "past.csv") == 1
    assert re.search(message, capsys.readouterr().err)
    assert not (folder / "fitted.toml").exists()


def test_a_fit_counts_the_rows_that_it_leaves_out(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    past = table(range(40)).astype({"late": "Float64", "carrier": object})
    past.iloc[[3, 300, 501], past.columns.get_loc("late")] = pd.NA
    past.iloc[[7], past.columns.get_loc("carrier")] = None
    past.to_csv(folder / "past.csv", index=False)
    path = campaign(folder)
    arguments = ["fit", path, folder / "past.csv", "--types", "1"]
    assert run(monkeypatch, *arguments) == 1  # by default nothing is left out
    path.write_text(path.read_text() + 'missing = "drop"\n')
    capsys.readouterr()
    assert run(monkeypatch, *arguments) == 0
    noted = [line for line in capsys.readouterr().err.splitlines() if "left out" in line]
    assert noted == [
        "warning: the history: 3 rows without a value are left out",
        "warning: the history: 1 row without a provider is left out",
    ]


def test_other_names_of_columns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(range(40)).rename(columns={"carrier": "who", "date": "on"}).to_parquet(folder / "past.parquet")
    path = campaign(folder)
    arguments = ["fit", path, folder / "past.parquet", "--types", "2", "--provider", "who", "--day", "on"]
    assert run(monkeypatch, *arguments) == 0
    fitted = troth.Campaign.load(folder / "fitted.toml")
    assert fitted.history is not None
    assert (fitted.history["provider"], fitted.history["day"]) == ("who", "on")
    if SOAK:
        assert run(monkeypatch, "pay", folder / "fitted.toml") == 0
        page = (folder / "report.html").read_text()
        assert "Of the 40 past days 20 are held out: each stretch is paid under a model fitted to" in page
    plain = dict(troth.Campaign.load(path).plain)
    plain["data"] = {"source": "now.csv", "provider": "carrier"}
    plain["campaign"] = {"name": "x", "budget": "1"}
    without_days = troth.Campaign.from_dict(plain)
    with pytest.raises(DataError, match="history needs a column of days"):
        read_history(without_days, folder / "past.csv")


def test_one_row_a_day_is_enough(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    rows = [
        {"carrier": name, "date": day, "value": theta + offset + rng.normal(0, 0.3)}
        for day, theta in enumerate(rng.normal(3, 2, 80))
        for name, offset in zip("ABCD", (-1, 0, 0.5, 2), strict=True)
    ]
    pd.DataFrame(rows).to_csv(folder / "past.csv", index=False)
    path = campaign(folder, "Normal")
    assert run(monkeypatch, "fit", path, folder / "past.csv", "--family", "ProviderNormal") == 0
    fitted: Any = troth.Campaign.load(folder / "fitted.toml")
    gap = fitted.model_of("D").offset - fitted.model_of("A").offset
    assert abs(gap - 3) < 0.3


@pytest.mark.parametrize(
    "family",
    ["Gamma", *(["Geometric", "NormalUnknownVariance", "Exponential", "NegativeBinomial", "Poisson"] if SOAK else [])],
)
def test_every_family_can_be_fitted_and_backtested(
    family: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from troth.campaigns.starter.examples import init

    path = init(folder / family, family, "SyntheticPeers", daily=True)
    example = troth.Campaign.load(path)
    model: Any = example.model
    rng = np.random.default_rng(1)
    frames: list[Any] = []
    column = str(example.columns[0])
    for day in range(60 if SOAK else 40):
        theta = model.draw_parameters(rng)
        frames += [pd.DataFrame({"who": who, "day": day, column: model.draw_data(rng, theta, 8)}) for who in "ABC"]
    pd.concat(frames).to_parquet(folder / "past.parquet")
    options = ["--provider", "who"]
    assert run(monkeypatch, "fit", path, folder / "past.parquet", "--family", family, *options) == 0, (
        capsys.readouterr().err
    )
    assert type(troth.Campaign.load(path.with_name("fitted.toml")).model).__name__ == family
    capsys.readouterr()
    assert run(monkeypatch, "backtest", path, folder / "past.parquet", "--types", "2", "--folds", "2", *options) == 0
    assert "a lie costs" in capsys.readouterr().out


def test_any_option_that_a_family_declares_can_be_given(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    models = []
    for options in (["--types", "2"], ["--option", "types=2", "--option", "starts=4"]):
        assert run(monkeypatch, "fit", campaign(folder), folder / "past.csv", "--json", *options) == 0
        models.append(json.loads(capsys.readouterr().out)["model"])
    assert models[0] == models[1]
    options = ["--family", "Bernoulli", "--option", "alpha=3.5", "--json"]
    assert run(monkeypatch, "fit", campaign(folder), folder / "past.csv", *options) == 0
    assert json.loads(capsys.readouterr().out)["model"]["alpha"] == 3.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--spread", "0"], "spread"),
        (["--spread", "nan"], "spread"),
        (["--family", "Bernoulli", "--types", "3"], "types is not an option for fitting Bernoulli"),
        (["--types", "60"], "at least 180"),
        (["--family", "Cauchy"], "no family 'Cauchy'"),
        (["--option", "strats=2"], "no such fit option; it has outcome, types, max_types, starts, seed"),
        (["--option", "types=two"], "'two' is not a number"),
        (["--option", "types=1.5"], "types must be a whole number of at least 1"),
        (["--option", "outcome=words"], "there is no outcome 'words'"),
        (["--gold", "past.csv"], "--gold is for tasks"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    options: list[str], message: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    assert run(monkeypatch, "fit", campaign(folder), folder / "past.csv", *options) == 1
    assert message in capsys.readouterr().err
    assert not (folder / "fitted.toml").exists()


def under_brier(folder: Path, family: str, form: str = "unordered") -> Path:
    path = campaign(folder, family)
    path.write_text(path.read_text().replace('rule = "SyntheticPeers"\ndraws = 8', f'rule = "Brier"\nform = "{form}"'))
    return path


def test_a_backtest_survives_a_candidate_that_cannot_be_fitted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    path = under_brier(folder, "Categorical")
    assert run(monkeypatch, "backtest", path, folder / "past.csv", "--types", "2", "--folds", "1") == 0
    assert "textbook Categorical could not be tested: Brier needs" in capsys.readouterr().out


def test_brier_refuses_day_types_of_counts(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    path = under_brier(folder, "Poisson")
    assert run(monkeypatch, "fit", path, folder / "past.csv", "--types", "2") == 1
    assert "Brier cannot pay LatentClass of counts or values" in capsys.readouterr().err
    assert run(monkeypatch, "backtest", path, folder / "past.csv", "--types", "2", "--folds", "3") == 1
    assert "Brier needs finitely many possible datasets with known p(data|θ)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("family", "form"),
    [("Bernoulli", "unordered"), ("Categorical", "paper")]
    + ([("Bernoulli", "paper"), ("Categorical", "unordered")] if SOAK else []),
)
def test_brier_pays_day_types_of_labels(
    family: str, form: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    path = under_brier(folder, family, form)
    assert run(monkeypatch, "backtest", path, folder / "past.csv", "--types", "2", "--folds", "3" if SOAK else "1") == 0
    output = capsys.readouterr().out
    assert "under day types" in output
    assert "day types could not be tested" not in output
    assert run(monkeypatch, "fit", path, folder / "past.csv", "--types", "3") == 0
    fitted = folder / "fitted.toml"
    assert any(model.dispersion > 0 for model in troth.Campaign.load(fitted).provider_models.values())  # type: ignore[attr-defined]
    assert run(monkeypatch, "pay", fitted, *([] if SOAK else ["--no-report"])) == 0
    assert run(monkeypatch, "verify", folder / "ledger.jsonl") == 0
    assert run(monkeypatch, "certify", fitted) == 0
    assert "truthful (proved)" in capsys.readouterr().out
    assert run(monkeypatch, "audit", fitted, "--simulations", "400") == 0
    entries = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    shares = [entry["share"] for entry in entries if "share" in entry]
    assert len(shares) == 12
    assert all(0 <= share <= 1 for share in shares)
