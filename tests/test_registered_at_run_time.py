"""A family and a rule that nobody knows, from `troth init` to the service's preview: no other module knows them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import troth
from campaigns.shop import run
from service.test_pages import Browser, make_analyst, make_app
from troth import mechanisms, models
from troth.service.pages import terms_form


@pytest.fixture
def plugin() -> Iterator[Any]:
    """Register both by importing the module that does so, and forget them afterwards."""
    yield import_module("plugin")
    models.FAMILIES.pop("Rayleigh", None)
    mechanisms.RULES.pop("Agreement", None)
    sys.modules.pop("plugin", None)


def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: object) -> Any:
    """Run a command with --json and return what it says."""
    capsys.readouterr()
    assert run(monkeypatch, *words, "--json") == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_from_init_to_explanation(
    plugin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "init", tmp_path / "x", "--family", "Rayleigh", "--rule", "Agreement") == 0
    path = tmp_path / "x" / "campaign.toml"
    assert "slope = 1.0" in path.read_text()
    path.write_text(path.read_text().replace("slope = 1.0", "slope = 2.0"))
    assert troth.Campaign.load(path).rule == plugin.Agreement(2.0)
    paid = said(capsys, monkeypatch, "pay", path)
    assert paid["rule"] == "Agreement"
    assert paid["verdict"]["most_gained"] is None
    ledger = tmp_path / "x" / "ledger.jsonl"
    assert said(capsys, monkeypatch, "verify", ledger)["payments"] == len(paid["rounds"][0]["payments"])
    assert run(monkeypatch, "explain", ledger, "buoy A") == 0
    assert "odds that data and peers belong together" in capsys.readouterr().out
    assert "Agreement" in (tmp_path / "x" / "report.html").read_text()
    claims = {claim["name"]: claim["verdict"] for claim in said(capsys, monkeypatch, "certify", path)["claims"]}
    assert (claims["truthful"], claims["symmetric"], claims["sensitive"]) == ("undecided", "proved", "undecided")
    audited = said(capsys, monkeypatch, "audit", path, "--simulations", "200")
    assert {"replicate 2 times", "report nothing"} <= {finding["lie"] for finding in audited["findings"]}


def test_on_past_days(
    plugin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "init", tmp_path / "x", "--family", "Rayleigh", "--rule", "Agreement") == 0
    path = tmp_path / "x" / "campaign.toml"
    rng = np.random.default_rng(4)
    model = plugin.Rayleigh(3, 2)
    lines = ["day,buoy,height"]
    for day in range(16):
        theta = model.draw_parameters(rng)
        lines += [f"{day},{who},{x:.6f}" for who in ("A", "B", "C") for x in model.draw_data(rng, theta, 8)]
    (tmp_path / "past.csv").write_text("\n".join(lines))
    columns = ("--provider", "buoy", "--day", "day")
    fitted = said(
        capsys, monkeypatch, "fit", path, tmp_path / "past.csv", "--family", "Rayleigh", *columns,
        "--output", tmp_path / "x" / "fitted.toml",
    )  # fmt: skip
    assert fitted["model"]["family"] == "Rayleigh"
    assert 0.3 < fitted["model"]["shape"] / fitted["model"]["rate"] / 1.5 < 3
    replayed = said(capsys, monkeypatch, "backtest", path, tmp_path / "past.csv", *columns, "--types", "2")
    assert "as declared" in json.dumps(replayed)


def test_in_the_service(plugin: Any, tmp_path: Path) -> None:
    app = make_app(tmp_path)
    ana = make_analyst(app, "Ana")
    analyst = Browser(app).sign_in(app, ana.account)
    analyst.get("/campaigns/new")
    typed = {**terms_form.blank("Rayleigh", "Agreement"), "shown": "Rayleigh", "shown_rule": "Agreement"}
    typed |= {"name": "waves", "option_slope": "2", "prior_rate": "0.5", "providers": "3", "expected": "5"}
    typed = {name: value for name, value in typed.items() if value}
    form = analyst.post("/campaigns/new", {**typed, "show": "yes"}).text
    for words in ("heights of waves", "pseudo-count of waves", "agreement with the peers", "Slope"):
        assert words in form, words
    preview = analyst.post("/campaigns/new/preview", typed).text
    for words in ("calmness of height", "truthful", "Gain over the truth"):
        assert words in preview, preview[-3000:]
    created = analyst.post("/campaigns/new", typed)
    assert created.url.params["notice"] == "created"
    with app.state.store.read() as tx:
        from troth.service import campaigns

        terms = campaigns.terms_of(campaigns.owned(tx, ana, created.url.path.rsplit("/", 1)[1]))
    assert (terms.model, terms.rule) == (plugin.Rayleigh(3, 0.5), plugin.Agreement(2.0))
    app.state.store.close()
