"""A rule is one class and one line in the registry; no other code names it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import troth
from troth.audits.exact import best_response
from troth.campaigns.check import audit_campaign, certify_campaign, setting_of
from troth.campaigns.settle import rehearse
from troth.campaigns.starter.examples import init
from troth.campaigns.terms import Campaign
from troth.core.settings import CampaignError, Section
from troth.mechanisms import DEFAULT_RULE, RULES, Breakdown, Rule, default_rule, offered_rules, read_rule, register
from troth.mechanisms.options import Choice, Flag, Integer, Number, option
from troth.results.explanation import steps

HERE = Path(__file__).parent
ROWS = {"clinic": ["Ash"] * 4 + ["Birch"] * 4 + ["Elm"] * 4, "improved": [1, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1]}
TERMS = {
    "campaign": {"name": "clinics", "budget": "300.00", "currency": "EUR"},
    "model": {"family": "Bernoulli", "columns": ["improved"], "prior": {"alpha": 1, "beta": 1}},
    "mechanism": {"rule": "damped", "weight": 0.25, "panels": 3, "ties": "half"},
    "data": {"provider": "clinic"},
}


@dataclass(frozen=True)
class Damped(Rule):
    """Pay cap·(1 − w + w·Brier): an affine function of a proper score."""

    weight: float = option(
        Number("weight", 0.5, "how much depends on the report", "Weight", above=0, below=1, expected="between 0 and 1")
    )
    panels: int = option(Integer("panels", 1, "not used", "Panels", minimum=1))
    strictly: bool = option(Flag("strictly", True, "not used", "Strictly"))
    ties: str = option(Choice("ties", "none", "or half", label="Ties", choices={"none": "none", "half": "a half"}))

    purpose = "a rule of this test"
    truthful_by = "affine in a proper score"
    symmetric = True
    strict = True
    term_labels: ClassVar[Mapping[str, str]] = {"forecast": "score of the forecast"}
    score_formula = r"\text{score} = 1 - w + w \cdot \text{forecast}"
    score_meaning = "A part of the cap is paid whatever is reported."

    def breakdown(self, this_round: troth.Round, /) -> Breakdown:
        """Damp the quadratic score."""
        inner = troth.Brier().breakdown(this_round)
        share = 1 - self.weight * (1 - inner.share)
        return Breakdown(share, inner.log_pmi, share, 0.0, 1.0, {"forecast": inner.share})


@pytest.fixture
def damped() -> Iterator[type[Rule]]:
    yield register(Damped)
    del RULES["Damped"]


def test_invalid_rules_and_taken_names_are_rejected() -> None:
    class Silent(Rule):
        breakdown = Damped.breakdown

    class Shareless(Rule):
        purpose = "a test"

    @dataclass(frozen=True)
    class Undeclared(Damped):
        depth: int = 1

    @dataclass(frozen=True)
    class Required(Damped):
        depth: int = option(Integer("depth", None, "how deep", "Depth", example=3, minimum=1))

    class Undecorated(Damped):
        depth: int = option(Integer("depth", 3, "how deep", "Depth", minimum=1))

    @dataclass(frozen=True)
    class Twice(Damped):
        depth: int = option(Integer("panels", 3, "how deep", "Depth", minimum=1))

    @dataclass(frozen=True)
    class Reserved(Damped):
        held: bool = option(Flag("bonded", False, "what every rule has", "Held"))

    @dataclass(frozen=True)
    class Lighthouse(Damped):
        light: bool = option(Flag("beacon", False, "what every rule that draws has", "Light"))

    @dataclass(frozen=True)
    class Shadowing(Damped):
        evaluate: bool = option(Flag("evaluation", False, "not a method any more", "Evaluation"))  # type: ignore[assignment]

    line_up = type(DEFAULT_RULE, (Damped,), {})
    refused: list[tuple[Any, str]] = [
        (int, "not a subclass of Rule"),
        (Damped(), "not a subclass of Rule"),
        (line_up, f"{DEFAULT_RULE} is taken by troth.mechanisms"),
        (Silent, "what it is for"),
        (Shareless, "breakdown"),
        (Undeclared, r"declare depth with option\(...\)"),
        (Required, "give every option a default .* depth"),
        (Undecorated, r"write @dataclass\(frozen=True\) above the class"),
        (Twice, "two options have the key 'panels'"),
        (Reserved, "'bonded' is taken"),
        (Lighthouse, "'beacon' is taken"),
        (Shadowing, "'evaluate' is a method of rules"),
    ]
    before = dict(RULES)
    for rule, message in refused:
        with pytest.raises(troth.ParameterError, match=message):
            register(rule)
    assert before == RULES


class Squared(Damped):
    """Pay the square of a score's position on its scale, and show the score."""

    def breakdown(self, this_round: troth.Round, /) -> Breakdown:
        """Pay less than the score implies."""
        result = super().breakdown(this_round)
        return replace(result, share=result.share**2)


class Silent(Squared):
    """Like `Squared`, without claiming that the share follows from the score."""

    def share_shown(self, figures: troth.mechanisms.Figures, /) -> None:
        """Return None."""


class Placed(troth.LineUp):
    """Pay less than the place in the line implies."""

    def breakdown(self, this_round: troth.Round, /) -> Breakdown:
        """Pay less than the line implies."""
        result = super().breakdown(this_round)
        return replace(result, share=result.share * 0.75)


@pytest.mark.parametrize("rule", [Squared(0.9), Placed(decoys=19)])
def test_a_share_that_its_explanation_contradicts_is_not_paid(rule: Rule) -> None:
    message = f"{rule.name} pays a share of .*, but the numbers that the provider is shown give .* override share_shown"
    with pytest.raises(troth.ParameterError, match=message):
        troth.pay(ROWS, troth.models.Bernoulli(1, 1), rule, provider="clinic", budget="300.00", seed=1)
    if isinstance(rule, Placed):  # empty reports already show it, before anybody reports
        with pytest.raises(troth.ParameterError, match=message):
            rehearse(replace(Campaign.from_dict(TERMS | {"mechanism": {}}), rule=rule), ["Ash", "Birch"])


class Signed(Rule):
    """Pay a share below 0 for a score below its scale."""

    individually_rational = False

    def breakdown(self, this_round: troth.Round, /) -> Breakdown:
        """Put log PMI on a scale from 0 to 1, without clipping."""
        score = this_round.log_pmi()
        return Breakdown(score, score, score, 0.0, 1.0)


def test_a_share_below_zero_may_follow_from_its_score() -> None:
    result = troth.pay(ROWS, troth.models.Bernoulli(1, 1), Signed(), provider="clinic", budget="300.00")
    assert min(payment.share for payment in result.rounds[0].payments) < 0


def test_a_share_that_does_not_follow_from_the_score_is_explained_without_a_calculation() -> None:
    result = troth.pay(ROWS, troth.models.Bernoulli(1, 1), Silent(0.9), provider="clinic", budget="300.00")
    score, share = result.campaign.rule.steps(result.payment("Elm"))
    assert score.symbol == "score"
    assert (share.formula, share.calculation) == ("", "")
    assert share.meaning == "The rule does not show how it computes the share from the score."


def test_an_impossible_share_is_nan_in_a_lenient_audit() -> None:
    class Wild(Rule):
        def breakdown(self, this_round: troth.Round, /) -> Breakdown:
            return Breakdown(np.array([0.5, -3.0, 1.5]))

    this_round = troth.Round(troth.models.Bernoulli(1, 1), np.ones((3, 2)))
    with pytest.raises(troth.ScoreOutOfRangeError):
        Wild().evaluate(this_round)
    np.testing.assert_array_equal(Wild().evaluate(replace(this_round, lenient=True)).share, [0.5, np.nan, np.nan])


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.ones(3), "Careless: breakdown must return a troth.Breakdown, not ndarray"),
        (Breakdown(np.full(2, 0.5)), r"Careless: breakdown must return shares of shape \(3,\), not \(2,\)"),
        (Breakdown(np.array(0.5)), r"Careless: breakdown must return shares of shape \(3,\), not \(\)"),
    ],
)
def test_a_breakdown_has_a_share_for_each_report(returned: Any, message: str) -> None:
    class Careless(Rule):
        def breakdown(self, this_round: troth.Round, /) -> Breakdown:
            return returned  # type: ignore[no-any-return]

    reports = np.array([[6.0, 2.0], [4.0, 2.0], [1.0, 5.0]])
    with pytest.raises(troth.ParameterError, match=message):
        Careless().pay(troth.models.Bernoulli(1, 1), reports, budget=300.0)


def test_a_rule_that_is_defined_again_replaces_the_first(damped: type[Rule]) -> None:
    again = type("Damped", (Damped,), {"__module__": Damped.__module__, "__qualname__": Damped.__qualname__})
    assert register(again) is RULES["Damped"]


def test_settings_make_a_rule_and_a_rule_makes_its_settings(damped: type[Rule]) -> None:
    rule = read_rule(Section("mechanism", {"rule": "damped", "weight": 0.25, "bonded": True}))
    assert rule == troth.Bonded(Damped(0.25))
    table = rule.to_settings()
    assert table == {
        "rule": "Damped",
        "weight": 0.25,
        "panels": 1,
        "strictly": True,
        "ties": "none",
        "bonded": True,
    }
    assert read_rule(Section("mechanism", table)) == rule


@pytest.mark.parametrize(
    ("settings", "message", "key"),
    [
        ({"weight": 2}, r"\[mechanism\] weight: must be between 0 and 1, not 2", "weight"),
        ({"panels": 0}, r"\[mechanism\] panels: must be a whole number of at least 1, not 0", "panels"),
        ({"strictly": "no"}, r"\[mechanism\] strictly: must be true or false, not 'no'", "strictly"),
        ({"ties": "all"}, r"\[mechanism\] ties: 'all' is not known; choose one of none, half", "ties"),
        ({"wieght": 0.5}, r"\[mechanism\] wieght: there is no such setting; did you mean 'weight'\?", "wieght"),
    ],
)
def test_invalid_options_are_named(damped: type[Rule], settings: dict[str, object], message: str, key: str) -> None:
    with pytest.raises(CampaignError, match=message) as caught:
        read_rule(Section("mechanism", {"rule": "Damped", **settings}))
    assert (caught.value.section, caught.value.key) == ("mechanism", key)


def test_a_constructor_checks_the_same_bounds() -> None:
    with pytest.raises(troth.ParameterError, match="Damped: weight must be between 0 and 1, not 2"):
        Damped(2)
    with pytest.raises(troth.ParameterError, match='Damped: ties must be "none" or "half"'):
        Damped(ties="all")


def test_it_is_paid_verified_and_explained(damped: type[Rule]) -> None:
    model = troth.models.Bernoulli(1, 1)
    campaign = Campaign.from_dict(TERMS)
    assert campaign.rule == Damped(0.25, panels=3, ties="half")
    result = troth.pay(ROWS, model, Damped(0.25), provider="clinic", budget="300.00")
    assert result.rule == "Damped"
    assert result.campaign.rule == Damped(0.25)
    assert result.verify() is result
    assert troth.verify(result.ledger).paid == result.paid
    payment = result.payment("Elm")
    assert payment.share == pytest.approx(1 - 0.25 * (1 - payment.terms["forecast"]))
    text = result.explain("Elm")
    assert "score of the forecast" in text
    assert ("score of the forecast", f"{payment.terms['forecast']:.4f}", "") in steps(result.campaign, payment)
    first, second = result.campaign.rule.steps(payment)
    assert first.formula == Damped.score_formula
    assert first.terms == (("score of the forecast", payment.terms["forecast"]),)
    assert second.scale is not None
    assert second.scale.empty_share == payment.empty_share


def test_it_is_certified_and_audited(damped: type[Rule]) -> None:
    campaign = Campaign.from_dict(TERMS)
    setting = setting_of(campaign, [], providers=3, rows=3)
    certificate = certify_campaign(campaign, setting)
    assert certificate["truthful"].basis == "affine in a proper score"
    for claim in ("truthful", "individually rational", "budget feasible", "symmetric", "sensitive"):
        assert certificate[claim].verdict == "proved"
    assert best_response(campaign.model, campaign.rule, rows=[3, 2, 2]).gain < 1e-12
    audit = audit_campaign(campaign, setting, simulations=200)
    assert not audit.gaining()
    assert 0.75 < audit.empty_share < 1


def test_a_new_campaign_file_shows_its_options(damped: type[Rule], tmp_path: Path) -> None:
    path = init(tmp_path / "new", rule="damped")
    assert "weight = 0.5              # how much depends on the report\n" in path.read_text()
    assert Campaign.load(path).rule == Damped()


def test_a_rule_that_is_not_registered_has_no_settings() -> None:
    assert Damped().to_settings() is None
    result = troth.pay(ROWS, troth.models.Bernoulli(1, 1), Damped(), provider="clinic", budget="300.00")
    assert result.verify() is result
    with pytest.raises(troth.LedgerError, match="rule"):
        troth.verify(result.ledger)
    assert troth.verify(result.ledger, rule=Damped()).paid == result.paid


def test_the_default_rule_is_stated_once_and_can_be_offered() -> None:
    assert type(default_rule()) is RULES[DEFAULT_RULE]
    assert DEFAULT_RULE in offered_rules()
    assert "LogPmiRule" not in offered_rules()
    with pytest.raises(CampaignError, match="LogPmiRule has no budget and pays negative amounts; use LineUp"):
        read_rule(Section("mechanism", {"rule": "LogPmiRule"}))


@pytest.mark.parametrize("name", RULES)
def test_every_rule_has_defaults_that_make_it(name: str) -> None:
    rule = RULES[name]()
    settings = rule.to_settings()
    assert settings is not None
    assert settings.pop("rule") == name
    assert set(settings) <= set(rule.settings())
    assert type(rule).from_settings(Section("mechanism", settings)) == rule


@pytest.mark.parametrize("name", RULES)
def test_every_rule_is_checked_exactly_and_documented(name: str) -> None:
    checks = [path.read_text("utf-8") for path in (HERE / "test_truthful.py", HERE / "test_line_up_exact.py")]
    assert any(f"{name}(" in text for text in checks)
    docs = HERE.parents[1] / "docs"
    pages = [docs / "rules.md", *([docs / "howto" / "choose-a-rule.md"] if name in offered_rules() else [])]
    assert all(f"`{name}" in page.read_text("utf-8") for page in pages)
