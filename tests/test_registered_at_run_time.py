"""A family and a rule that nobody knows, from `troth init` to a published payment: no other module knows them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import troth
from campaigns.shop import run
from pareto import LogSum, Pareto
from service.test_pages import Browser, make_analyst, make_app
from troth import mechanisms, models
from troth.service import accounts, campaigns
from troth.service.pages import terms_form

BUREAUS = ("Ash", "Birch", "Elm")


@pytest.fixture
def plugin() -> Iterator[Any]:
    """Register both by importing the module that does so, and forget them afterwards."""
    yield import_module("plugin")
    models.FAMILIES.pop("Pareto", None)
    mechanisms.RULES.pop("DrawnPlace", None)
    sys.modules.pop("plugin", None)


def json_output(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: object) -> Any:
    """Run a command with --json and return what it says."""
    capsys.readouterr()
    assert run(monkeypatch, *words, "--json") == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def begun(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the example campaign of both, with options other than the defaults."""
    assert run(monkeypatch, "init", folder, "--family", "Pareto", "--rule", "DrawnPlace") == 0
    path = folder / "campaign.toml"
    text = path.read_text()
    assert "groups = 20" in text
    assert 'ties = "half"' in text
    path.write_text(text.replace("groups = 20", "groups = 30").replace('ties = "half"', 'ties = "nothing"'))
    return path


def test_no_module_of_troth_names_them() -> None:
    sources = Path(troth.__file__).parent.rglob("*.py")
    assert [path for path in sources if re.search(r"\bPareto\b|DrawnPlace", path.read_text("utf-8"))] == []


def test_it_obeys_the_laws() -> None:
    assert troth.check_model(Pareto(3, 2, 1.5), rng=np.random.default_rng(1))


def test_from_init_to_explanation(
    plugin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = begun(tmp_path / "x", monkeypatch)
    assert troth.Campaign.load(path).rule == plugin.DrawnPlace(30, "nothing")
    result = json_output(capsys, monkeypatch, "pay", path)
    assert result["rule"] == "DrawnPlace"
    payments = result["rounds"][0]["payments"]
    assert len({payment["share"] for payment in payments}) > 1
    ledger = tmp_path / "x" / "ledger.jsonl"
    assert json_output(capsys, monkeypatch, "verify", ledger)["payments"] == len(payments)
    assert run(monkeypatch, "explain", ledger, "bureau A") == 0
    assert "drawn groups that agree less" in capsys.readouterr().out
    page = (tmp_path / "x" / "report.html").read_text()
    assert "DrawnPlace" in page
    assert "equality of income" in page
    claims = {claim["name"]: claim["verdict"] for claim in json_output(capsys, monkeypatch, "certify", path)["claims"]}
    assert (claims["truthful"], claims["symmetric"], claims["sensitive"]) == ("undecided", "proved", "undecided")
    audited = json_output(capsys, monkeypatch, "audit", path, "--simulations", "200")
    assert {"replicate 2 times", "report nothing"} <= {finding["lie"] for finding in audited["findings"]}


def test_its_draws_depend_on_the_seed_alone(plugin: Any) -> None:
    rows = {"bureau": np.repeat(BUREAUS, 3), "income": [1.5, 2.0, 1.2, 1.9, 3.0, 1.1, 7.0, 9.0, 5.0]}

    def shares(seed: int) -> Any:
        result = troth.pay(rows, Pareto(3, 2), plugin.DrawnPlace(), provider="bureau", budget="300.00", seed=seed)
        return [payment["share"] for payment in result.to_dict()["rounds"][0]["payments"]]

    assert shares(1) == shares(1) != shares(2)


def test_on_past_days(
    plugin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = begun(tmp_path / "x", monkeypatch)
    rng = np.random.default_rng(4)
    model = Pareto(6, 3)
    lines = ["day,bureau,income"]
    for day in range(16):
        theta = model.draw_parameters(rng)
        lines += [f"{day},{who},{x:.6f}" for who in BUREAUS for x in model.draw_data(rng, theta, 8)]
    (tmp_path / "past.csv").write_text("\n".join(lines))
    columns = ("--provider", "bureau", "--day", "day")
    fitted = json_output(
        capsys, monkeypatch, "fit", path, tmp_path / "past.csv", "--family", "Pareto", *columns,
        "--output", tmp_path / "x" / "fitted.toml",
    )  # fmt: skip
    assert fitted["model"]["family"] == "Pareto"
    assert 0.5 < fitted["model"]["shape"] / fitted["model"]["rate"] / 2 < 2
    replayed = json_output(capsys, monkeypatch, "backtest", path, tmp_path / "past.csv", *columns)
    assert "as declared" in json.dumps(replayed)
    assert "report nothing" in json.dumps(replayed)


def test_a_campaign_is_written_for_data(plugin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "incomes.csv").write_text("bureau,income\nAsh,1.5\nAsh,2\nElm,3\nElm,2.5\n")
    words = ("--data", tmp_path / "incomes.csv", "--provider", "bureau", "--rule", "DrawnPlace")
    assert run(monkeypatch, "init", tmp_path / "x", "--family", "Pareto", *words) == 0
    terms = troth.Campaign.load(tmp_path / "x" / "campaign.toml")
    assert isinstance(terms.model, Pareto)
    assert (terms.model.minimum, terms.rule) == (1.5, plugin.DrawnPlace())
    assert terms.request.reduction == LogSum(1.5)


def test_in_the_service(plugin: Any, tmp_path: Path) -> None:
    """The form, its preview, three uploads, a round that is closed and published, and the payment with its steps."""
    app = make_app(tmp_path)
    ana = make_analyst(app, "Ana")
    analyst = Browser(app).sign_in(app, ana.account)
    analyst.get("/campaigns/new")
    typed = {**terms_form.blank("Pareto", "DrawnPlace"), "shown": "Pareto", "shown_rule": "DrawnPlace"}
    typed |= {"name": "incomes", "option_groups": "40", "option_ties": "nothing", "prior_rate": "1.5"}
    typed |= {"providers": "3", "expected": "8", "rows": "60"}
    typed = {name: value for name, value in typed.items() if value}
    form = analyst.post("/campaigns/new", {**typed, "show": "yes"}).text
    for words in ("incomes above a minimum", "pseudo-count of incomes", "place among drawn peers", "Groups", "Ties"):
        assert words in form, words
    preview = analyst.post("/campaigns/new/preview", typed).text
    for words in ("equality of income", "truthful", "Gain over the truth"):
        assert words in preview, preview[-3000:]
    created = analyst.post("/campaigns/new", typed)
    assert created.url.params["notice"] == "created"
    campaign = created.url.path.rsplit("/", 1)[1]
    with app.state.store.write() as tx:
        terms = campaigns.terms_of(campaigns.owned(tx, ana, campaign))
        people = {}
        for name in BUREAUS:
            link = campaigns.invite(tx, ana, campaign, campaigns.add_member(tx, ana, campaign, name, "known"))
            people[name] = accounts.accept_invitation(tx, link, account=accounts.create_account(tx, name, "provider"))
    assert (terms.model, terms.rule) == (Pareto(3, 1.5), plugin.DrawnPlace(40, "nothing"))
    analyst.post(f"/campaigns/{campaign}/rounds")
    base = f"/campaigns/{campaign}/rounds/1"
    rng = np.random.default_rng(1)
    providers = {name: Browser(app).sign_in(app, account) for name, account in people.items()}
    for provider in providers.values():
        rows = "\n".join(f"{x:.6f}" for x in Pareto(3, 1.5).draw_data(rng, np.array([2.0]), 8))
        answer = provider.post(f"{base}/submissions", files={"file": ("incomes.csv", f"income\n{rows}".encode())})
        assert answer.status_code == 200, answer.text
        assert provider.post(f"{answer.url.path}/confirm").url.params["notice"] == "confirmed"
    assert analyst.post(f"{base}/close").url.params["notice"] == "closed"
    assert analyst.post(f"{base}/publish").url.params["notice"] == "published"
    for provider in providers.values():
        payment = provider.get(f"{base}/payment").text
        for words in ("drawn groups that agree less", "How many of the drawn groups agree less with your data"):
            assert words in payment, words
    (tmp_path / "ledger.jsonl").write_bytes(analyst.get(f"/campaigns/{campaign}/ledger.jsonl").content)
    app.state.store.close()
    verified = troth.verify(tmp_path / "ledger.jsonl")
    assert len(verified.rounds[0].payments) == len(BUREAUS)
    assert verified.paid > 0
