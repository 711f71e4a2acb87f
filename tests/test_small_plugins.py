"""Families and rules that declare as little as the how-tos ask for, and empty subclasses of bundled ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.special import gammaln

import troth
from campaigns.shop import run
from troth import mechanisms, models
from troth.campaigns.past import fit_campaign
from troth.core.reductions import Moments
from troth.history.learn import Learner, candidates_for
from troth.models.parameters import parameter, positive


@dataclass(frozen=True)
class Waiting(models.Family):
    """Two functions and two parameters, and nothing to draw with."""

    shape: float = field(metadata=parameter("pseudo-count of waits", positive, 3.0))
    rate: float = field(metadata=parameter("pseudo-sum of waits", positive, 2.0))
    description: ClassVar[str] = "waits"

    def statistics(self, data: Any, /) -> Any:
        """(n, Σx)."""
        x = np.asarray(data, dtype=float)
        return np.stack([np.full(x.shape[:-1], float(x.shape[-1])), x.sum(axis=-1)], axis=-1)

    def log_evidence(self, t: Any, /) -> Any:
        """lnΓ(a + n) − (a + n) ln(b + Σx)."""
        a = self.shape + t[..., 0]
        return gammaln(a) - a * np.log(self.rate + t[..., 1])


class EmptyNormal(models.Normal):
    """An empty subclass."""


class EmptyBernoulli(models.Bernoulli):
    """An empty subclass."""


class EmptyGamma(models.Gamma):
    """An empty subclass of a family with a given parameter."""


class EmptyOffsets(models.ProviderNormal):
    """An empty subclass of a family that learns each provider."""


class EmptyLineUp(troth.LineUp):
    """An empty subclass."""


class EmptyMultiDay(troth.MultiDay):
    """An empty subclass."""


@dataclass(frozen=True)
class Lottery(troth.Rule):
    """Draw who is paid."""

    purpose = "a lottery"
    needs_seed = True

    def breakdown(self, this_round: troth.Round, /) -> troth.Breakdown:
        """Win with the probability that data and peers belong together."""
        log_pmi = this_round.log_pmi()
        won = this_round.rng.random(log_pmi.shape) < 1 / (1 + np.exp(-log_pmi))  # type: ignore[union-attr]
        return troth.Breakdown(won.astype(float), log_pmi)


@dataclass(frozen=True)
class Tomorrow(troth.Rule):
    """Pay for today's and tomorrow's log PMI."""

    purpose = "two days"
    days = 2

    def breakdown(self, this_round: troth.Round, /) -> troth.Breakdown:
        """Average both days."""
        log_pmi = this_round.log_pmi()
        chance = 1 / (1 + np.exp(-log_pmi))
        share = chance.copy()
        share[..., :-1, :] = (chance[..., :-1, :] + chance[..., 1:, :]) / 2
        return troth.Breakdown(share, log_pmi)


FAMILIES = (Waiting, EmptyNormal, EmptyBernoulli, EmptyGamma, EmptyOffsets)
RULES = (Lottery, Tomorrow, EmptyLineUp, EmptyMultiDay)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    for family in FAMILIES:
        models.register(family)
    for rule in RULES:
        mechanisms.register(rule)
    yield
    for family in FAMILIES:
        del models.FAMILIES[family.__name__]
    for rule in RULES:
        del mechanisms.RULES[rule.__name__]


def json_output(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: object) -> Any:
    """Run a command with --json and return what it says."""
    capsys.readouterr()
    assert run(monkeypatch, *words, "--json") == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("rule", ["Lottery", "Tomorrow"])
def test_a_family_of_two_functions_is_paid(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x" / "campaign.toml"
    assert run(monkeypatch, "init", tmp_path / "x", "--family", "Waiting", "--rule", rule) == 0
    assert "which is empty: the family cannot draw an example" in capsys.readouterr().out
    assert list((tmp_path / "x" / "data").iterdir()) == []
    days = ["2026-05-04", "2026-05-05"] if rule == "Tomorrow" else [""]
    for name, scale in (("Ash", 1.0), ("Birch", 1.2), ("Elm", 4.0)):
        rows = [f"{day},{scale * k}".lstrip(",") for day in days for k in (1, 2, 3)]
        (tmp_path / "x" / "data" / f"{name}.csv").write_text("\n".join(["day,value" if days[0] else "value", *rows]))
    result = json_output(capsys, monkeypatch, "pay", path)
    assert (result["rule"], len(result["rounds"])) == (rule, 1)
    assert "Waiting cannot draw fresh statistics" in json.dumps(result["verdict"])
    ledger = tmp_path / "x" / "ledger.jsonl"
    assert json_output(capsys, monkeypatch, "verify", ledger)["payments"] == 3
    capsys.readouterr()
    assert run(monkeypatch, "explain", ledger, "Ash") == 0
    assert "The rule does not show how it computes this share." in capsys.readouterr().out
    claims = {claim["name"]: claim["verdict"] for claim in json_output(capsys, monkeypatch, "certify", path)["claims"]}
    assert (claims["truthful"], claims["sensitive"]) == ("undecided", "undecided")
    assert run(monkeypatch, "audit", path) == 1
    assert "Waiting cannot draw data, so it cannot be audited" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("empty", "bundled", "empty_rule", "bundled_rule"),
    [
        (EmptyNormal, models.Normal, EmptyLineUp, troth.LineUp),
        (EmptyBernoulli, models.Bernoulli, EmptyMultiDay, troth.MultiDay),
        (EmptyGamma, models.Gamma, EmptyLineUp, troth.LineUp),
    ],
)
def test_empty_subclasses_pay_what_the_bundled_classes_pay(
    empty: Any, bundled: Any, empty_rule: Any, bundled_rule: Any, tmp_path: Path
) -> None:
    model, rng = bundled.example_model(), np.random.default_rng(1)
    values = model.draw_data(rng, model.draw_parameters(rng), 24)
    rows = {"who": np.repeat(["Ash", "Birch", "Elm"], 8), "day": [1, 2] * 12, "x": values}
    columns: dict[str, Any] = {"provider": "who", "day": "day"}

    def pay(family: Any, rule: Any, ledger: Path) -> Any:
        result = troth.pay(rows, family.example_model(), rule(), **columns, budget="300", seed=1, ledger=ledger)
        return [payment.payment for paid_round in result.rounds for payment in paid_round.payments]

    payments = pay(empty, empty_rule, tmp_path / "empty.jsonl")
    assert payments == pay(bundled, bundled_rule, tmp_path / "bundled.jsonl")
    assert sum(payments) > 0
    terms = troth.verify(tmp_path / "empty.jsonl").campaign
    assert (type(terms.model), type(terms.rule)) == (empty, empty_rule)


def past_of(model: Any, reduction: Any, days: int = 24) -> troth.History:
    """Draw past days with three providers."""
    rng = np.random.default_rng(1)
    theta = model.draw_parameters(rng, (days, 3))[:, :1] + np.zeros((1, 3, 1))
    return troth.history.from_summaries(reduction, reduction.of_rows(model.draw_data(rng, theta, 8)[..., None]))


@pytest.mark.parametrize(
    ("empty", "model"),
    [
        (EmptyNormal, models.Normal(1, 2, 1)),
        (EmptyBernoulli, models.Bernoulli(2, 3)),
        (EmptyGamma, models.Gamma(2, 3, 2)),
    ],
)
def test_a_backtest_gives_an_empty_subclass_the_same_log_score(empty: Any, model: Any) -> None:
    past = past_of(model, model.reduction if empty is not EmptyNormal else Moments((0.0,), squares=True))
    values = {key: value for key, value in model.to_dict().items() if key != "family"}
    same = empty(**values)
    first, second = (troth.backtest(past, candidate, troth.MultiDay()) for candidate in (same, model))
    assert np.isfinite(first.log_score)
    assert (first.log_score, first.measure, first.left_out, first.truth) == (
        second.log_score,
        second.measure,
        second.left_out,
        second.truth,
    )
    parameters = {name: values[name] for name in empty.given_parameters}
    assert empty.fit(past, **parameters).log_likelihood == type(model).fit(past, **parameters).log_likelihood


def test_subclasses_are_tried_besides_the_bundled_families_and_not_instead_of_them() -> None:
    candidates = candidates_for(Moments(squares=True), recent=5)
    assert {"textbook EmptyNormal", "offsets of EmptyOffsets", "offsets of EmptyOffsets, last 5 days"} <= set(
        candidates
    )
    assert "drifting offsets of EmptyOffsets" in candidates
    for name, family in (("offsets", models.ProviderNormal), ("offsets of EmptyOffsets", EmptyOffsets)):
        learner = candidates[name]
        assert isinstance(learner, Learner)
        assert learner.family is family


def test_a_subclass_keeps_its_given_parameters_when_it_is_fitted() -> None:
    past = past_of(models.Gamma(2, 3, 2), models.Gamma(2, 3, 2).reduction)

    def campaign(family: str, prior: dict[str, float]) -> troth.Campaign:
        model = {"family": family, "columns": ["x"], "prior": prior}
        return troth.Campaign.from_dict({"campaign": {"name": "waits", "budget": "9"}, "model": model})

    terms = campaign("EmptyGamma", {"known_shape": 2, "shape": 3, "rate": 2})
    for family in ("EmptyGamma", "Gamma"):
        fitted: Any = fit_campaign(terms, past, family)
        assert (type(fitted.model).__name__, fitted.model.known_shape) == (family, 2)
    with pytest.raises(troth.ParameterError, match="give known_shape="):  # in which it is 1, and no parameter
        fit_campaign(campaign("Exponential", {"shape": 3, "rate": 2}), past, "Gamma")


def test_a_rule_that_draws_also_settles_tasks(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    workers = [str(who) for _ in range(20) for who in rng.choice(["Ash", "Birch", "Elm", "Fir"], 3, replace=False)]
    answers = {"item": np.repeat(np.arange(20), 3), "who": workers, "x": rng.integers(0, 2, 60)}
    result = troth.pay(
        answers, EmptyBernoulli(1, 1), Lottery(), provider="who", task="item", price="0.05", seed=1, anyway=True,
        ledger=tmp_path / "ledger.jsonl",
    )  # fmt: skip
    assert sum(result.totals.values()) > 0
    assert (
        "Lottery draws what it pays for an uninformative answer" in result.write_page(tmp_path / "r.html").read_text()
    )
    assert troth.verify(tmp_path / "ledger.jsonl").totals == result.totals


def test_a_rule_that_draws_asks_for_draws_of_empty_shares_too() -> None:
    reports = np.array([[6.0, 2.0], [4.0, 2.0], [1.0, 5.0]])
    with pytest.raises(troth.MissingCapabilityError, match="Lottery draws random numbers: pass rng="):
        Lottery().empty_share(models.Bernoulli(1, 1), reports)
    assert Lottery().empty_share(models.Bernoulli(1, 1), reports, rng=np.random.default_rng(1)).shape == (3,)
