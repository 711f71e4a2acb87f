"""What a verdict claims: means over days, reports that can be sent, and what chance alone does."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from jinja2 import PackageLoader

import troth
from registry import generator
from troth import models
from troth.audits.strategies import Nothing, SendPart
from troth.audits.strategies.strategy import RoundKnowledge
from troth.core.errors import DataError, MissingCapabilityError
from troth.core.reductions import Counts, Moments
from troth.core.support import Support
from troth.results.replays import LESS, Replay, _last_round_setup, _reports_with_lie, replay_lies
from troth.results.templating import make_environment
from troth.results.verdict import judge

EVEN = troth.models.Bernoulli(2, 2)
NAMES = ("Ash", "Birch", "Elm", "Fir", "Oak")


def rounds(rows: int, days: int = 1, seed: int = 3) -> dict[str, Any]:
    """Draw honest answers of five providers with the same rate, another one each day."""
    rng = np.random.default_rng(seed)
    who = np.tile(np.repeat(NAMES, rows), days)
    rates = np.repeat(rng.beta(2, 2, days), len(NAMES) * rows)
    return {"who": who, "day": np.repeat(np.arange(days), len(NAMES) * rows), "x": (rng.random(len(who)) < rates) * 1}


def pay(rows: int, model: Any, days: int = 1) -> Any:
    table = rounds(rows, days)
    day = "day" if days > 1 else None
    return troth.pay(table, model, provider="who", day=day, columns="x", budget="50", seed=1, final=True)


def test_over_days_a_provider_is_below_an_empty_report_by_its_mean() -> None:
    result = pay(5, troth.models.Bernoulli(2, 2), days=30)
    below_once = {p.provider for r in result.rounds for p in r.payments if p.share < p.empty_share}
    assert below_once == set(NAMES)
    gaps = {
        name: np.mean([p.empty_share - p.share for r in result.rounds for p in r.payments if p.provider == name])
        for name in NAMES
    }
    assert result.verdict.below_empty == pytest.approx({name: gap for name, gap in gaps.items() if gap > 0})
    assert "nobody, on average over 30 days" in str(result.verdict)
    assert "on day 29 alone" in str(result.verdict)
    plain = result.verdict.to_dict()
    assert (plain["days"], plain["last_day"]) == (30, 29)


@pytest.mark.parametrize(("honest", "odd"), [(2, ()), (3, ("Oak",))])
def test_reports_are_called_odd_only_among_three_others(honest: int, odd: tuple[str, ...]) -> None:
    names = ["Ash", "Birch", "Elm"][:honest]
    table = {"who": np.repeat([*names, "Oak"], 60), "x": [*([0, 1] * 30 * honest), *([1] * 60)]}
    result = troth.pay(table, troth.models.Bernoulli(1, 1), provider="who", budget="50", seed=1)
    assert result.verdict.word == "does not fit"
    assert result.verdict.odd == odd


def test_whoever_is_paid_as_for_an_empty_report_is_not_below_it() -> None:
    model = models.Finite([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]])  # the peers of Ash, and of Elm, contradict each other
    table = {"who": ["Ash", "Birch", "Elm"], "x": [0, 1, 0]}
    result = troth.pay(table, model, troth.LineUp(decoys=9), provider="who", budget="30", seed=1)
    even = {p.provider for p in result.rounds[0].payments if p.share == p.empty_share}
    assert even == {"Ash", "Elm"}
    assert set(result.verdict.below_empty) == {"Birch"}


class SendAll(SendPart):
    """The truth, told as often as a lie about fewer rows."""

    def change_summary(self, knowledge: RoundKnowledge) -> Any:
        return knowledge.own


def test_truth_and_lie_are_scored_with_the_same_draws() -> None:
    """What is reported anyway gains nothing, however few peers are drawn."""
    result = pay(7, troth.models.VaryingBernoulli())
    (replay,) = replay_lies(result, [SendAll()], draws=30)
    assert replay.gains == dict.fromkeys(NAMES, 0.0)
    assert (
        replay.truth == replay.earned == pytest.approx(np.mean([p.share for p in result.rounds[0].payments]), abs=0.2)
    )
    (nothing,) = replay_lies(result, [Nothing()], draws=30)
    assert nothing.earned == pytest.approx(0.2, abs=1e-15)  # as proved, whatever is drawn


def test_less_is_tried_with_reports_that_can_be_sent() -> None:
    result = pay(7, troth.models.Bernoulli(1, 1))
    assert [replay.lie for replay in replay_lies(result, LESS)] == ["send half"]  # 7 rows have no tenth
    campaign, stage, _, today = _last_round_setup(result)
    halves, places = _reports_with_lie(SendPart(2), campaign, stage, today)
    assert places == stage.paid
    for own in halves:
        for whole, fewer in zip(stage.round.statistics, own, strict=True):
            assert fewer.sum() == 3
            assert (fewer == fewer.round()).all()
            assert (fewer <= whole).all()
    assert len({own.tobytes() for own in halves}) > 1
    assert set(result.verdict.to_dict()["tried_with_less"]) == {"send half"}


def test_whoever_is_better_off_with_less_is_named_with_its_largest_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    gains = [{"Ash": 0.3, "Elm": 0.01}, {"Ash": 0.1, "Fir": 0.2, "Elm": 0.02}]
    replays = [Replay(lie, 0.5, 0.6, gain) for lie, gain in zip(("send a tenth", "send half"), gains, strict=True)]
    result = pay(20, EVEN)
    monkeypatch.setattr("troth.results.verdict.replay_lies", lambda *_: replays)
    assert judge(result).better_with_less == {"Ash": 0.3, "Fir": 0.2}


def test_rows_of_several_numbers_are_not_told_to_choose_a_family_that_is_not_there() -> None:
    rng = np.random.default_rng(4)
    model = troth.models.MultivariateNormal([0, 0], np.eye(2) * 9, np.eye(2))
    rows = {"who": [name for name in NAMES for _ in range(20)], "x": [], "y": []}
    for _ in NAMES:
        for column, level in zip("xy", rng.normal(size=2) * 3, strict=True):
            rows[column] += (level + rng.normal(size=20)).tolist()
    verdict = troth.pay(rows, model, provider="who", budget="100.00", seed=1).verdict
    assert verdict.stops
    assert "pay for each column in a campaign of its own" in verdict.remedy


def test_one_row_has_no_less() -> None:
    verdict = pay(1, troth.models.Bernoulli(1, 1)).verdict
    assert verdict.gain_of_less == {}
    assert "better off with less       not tried: half of the rows" in str(verdict)


def test_the_average_is_over_those_who_have_enough_rows() -> None:
    table = rounds(12)
    keep = np.ones(60, dtype=bool)
    keep[:6] = False  # Ash has 6 rows
    table = {name: values[keep] for name, values in table.items()}
    verdict = troth.pay(table, troth.models.Bernoulli(1, 1), provider="who", columns="x", budget="50", seed=1).verdict
    assert verdict.tried == {"send a tenth": 4, "send half": 5}
    assert "(4 of 5 have enough rows)" in str(verdict)


@pytest.mark.parametrize(
    ("reduction", "summary"),
    [
        (Counts(3), [7.0, 1.0, 3.0]),
        (Moments(support=Support(0, integer=True)), [11.0, 25.0]),
        (Moments(centre=(2.0,), squares=True), [11.0, 3.5, 40.0]),
    ],
)
def test_fewer_rows_have_the_same_averages(reduction: Any, summary: list[float]) -> None:
    rng, whole = np.random.default_rng(1), np.array(summary)
    drawn = np.array([reduction.with_fewer_rows(whole, 4, rng) for _ in range(4000)])
    assert set(reduction.rows(drawn)) == {4.0}
    for report in drawn[:50]:
        reduction.check(report)
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - whole * 4 / 11) <= 4.5 * error + 1e-12).all()


def test_a_gain_in_one_round_is_said_to_be_chance() -> None:
    verdict = pay(20, troth.models.VaryingBernoulli()).verdict
    assert "often due to chance" in str(replace(verdict, better_with_less={"Ash": 0.1}))
    silent = replace(verdict, better_with_less={}, gain_of_less={"send half": -0.1})
    assert "often due to chance" not in str(silent)
    lines = str(replace(silent, better_with_less={"Ash": 0.1})).splitlines()
    assert ["often due to chance" in line for line in lines[-3:]] == [False, True, False]  # under Ash, not under a loss


@pytest.mark.parametrize(("gain", "contradicted"), [(0.067, True), (0.019, False), (-0.1, False)])
def test_a_verdict_does_not_contradict_what_less_would_have_paid(gain: float, contradicted: bool) -> None:
    result = pay(20, EVEN)
    verdict = replace(result.verdict, gain_of_less={"send a tenth": -0.3, "send half": gain})
    object.__setattr__(result, "verdict", verdict)
    assert verdict.word == "fits"
    assert verdict.supports is not contradicted
    assert ("but in this round sending less would have paid more on average" in str(verdict)) is contradicted
    page = result.to_html()
    assert ("so that telling the truth pays best" in page) is not contradicted
    assert ("Sending less would have paid more" in page) is contradicted
    assert ("or the model is wrong: if it is right, no lie gains in expectation" in page) is contradicted
    assert "but on day 29 sending less" in replace(verdict, days=30, last_day=29).meaning or not contradicted


@pytest.mark.parametrize(
    ("model", "values", "advice"),
    [
        (troth.models.Bernoulli(1, 1), False, "choose a family whose providers may differ, as troth init does; "),
        (troth.models.VaryingBernoulli(), False, ""),
        (troth.models.Normal(mean=0, scale=1, noise=1), True, "choose a family whose providers may differ"),
        (
            troth.models.VaryingNormal(mean=0, scale=1, noise=1),
            True,
            "if a few values are extreme, declare [limits] ",
        ),
    ],
)
def test_a_remedy_is_not_what_the_model_does_already(model: Any, values: bool, advice: str) -> None:
    table = rounds(20)
    table["x"] = table["x"] + 0.5 if values else table["x"]
    verdict = troth.pay(table, model, provider="who", columns="x", budget="50", seed=1).verdict
    assert verdict.advice.startswith(advice)
    assert bool(verdict.advice) == bool(advice)
    assert verdict.remedy.endswith("or learn the model from past days with troth fit")


@pytest.mark.parametrize(("p", "shown"), [(4 / 401, "0.00998"), (20 / 401, "0.0499"), (21 / 401, "0.052")])
def test_p_is_on_its_own_side_of_a_limit(p: float, shown: str) -> None:
    result = pay(20, EVEN)
    fit = result.verdict.fit
    assert fit is not None
    verdict = replace(result.verdict, fit=replace(fit, p_value=p))
    object.__setattr__(result, "verdict", verdict)
    assert f"{verdict.word} (p = {shown})" in str(verdict)
    assert f"p = {shown}:" in result.to_html()
    plain = {**verdict.to_dict(), "meaning": verdict.meaning, "remedy": verdict.remedy, "notes": []}
    template = make_environment(PackageLoader("troth.service")).from_string(
        '{% import "parts.html" as parts %}{{ parts.verdict(verdict) }}'
    )
    assert f"p = {shown}." in template.render(verdict=plain)


@pytest.mark.parametrize(("gain", "named", "said"), [(-0.1, {}, False), (0.01, {}, True), (-0.1, {"Ash": 0.1}, True)])
def test_the_service_says_chance_where_something_gained(gain: float, named: dict[str, float], said: bool) -> None:
    verdict = replace(pay(20, EVEN).verdict, gain_of_less={"send half": gain}, better_with_less=named)
    template = make_environment(PackageLoader("troth.service")).from_string(
        '{% import "parts.html" as parts %}{{ parts.verdict(verdict) }}'
    )
    page = template.render(verdict={**verdict.to_dict(), "meaning": verdict.meaning, "notes": []})
    assert ("often due to chance" in page) is said is ("often due to chance" in str(verdict))


@pytest.mark.parametrize(
    ("rule", "most", "words"),
    [
        (troth.LineUp(), 0.0, "telling the truth pays best"),
        (troth.OneTime(troth.clipped_range(EVEN, [20] * 5, low=-0.05)), 0.1, "a lie may gain up to"),
        (troth.OneTime(troth.exact_range(EVEN, [20] * 5)), 0.0, "telling the truth pays best"),
        (troth.OneTime(troth.exact_range(EVEN, [19] * 5)), None, "this rule is not proved truthful here"),
    ],
)
def test_that_the_truth_pays_best_is_said_where_it_is_proved(rule: Any, most: float | None, words: str) -> None:
    table = rounds(20)
    result = troth.pay(table, EVEN, rule, provider="who", columns="x", budget="50", seed=1)
    verdict = result.verdict
    assert verdict.word == "fits"
    assert verdict.supports == (most == 0) == ("so that telling the truth pays best" in result.to_html())
    assert words in str(verdict)
    assert (verdict.most_gained is None) == (most is None)
    assert (verdict.most_gained or 0) >= (most or 0)


def test_a_payment_is_that_of_its_day() -> None:
    result = pay(5, models.Bernoulli(2, 2), days=3)
    assert len({paid_round.payments[0].share for paid_round in result.rounds}) == 3
    for each in result.rounds:
        for payment in each.payments:
            assert result.payment(payment.provider, each.day) == payment
            amount = result.campaign.text(payment.payment)
            assert f"paid {amount}" in result.explain(payment.provider, each.day)
    with pytest.raises(DataError, match="nothing was paid to 'Ash'"):
        result.payment("Ash")
    with pytest.raises(DataError, match="nothing was paid to 'Ash' on day 7"):
        result.payment("Ash", 7)


def test_fewer_rows_have_sums_in_proportion() -> None:
    sums: Any = SimpleNamespace(columns=2, check=lambda summary: None, rows=lambda summary: summary[..., 0])
    knowledge = RoundKnowledge(sums, np.array([[10.0, 4.0], [13.0, 6.5]]), generator(60))
    assert SendPart(2).change_summary(knowledge).tolist() == [[5.0, 2.0], [6.0, 3.0]]
    with pytest.raises(DataError, match="'send one row in 11' leaves 0 rows"):
        SendPart(11).change_summary(knowledge)


class Coin:
    """A custom model: two functions, and whether rows are independent."""

    def __init__(self, independent: bool) -> None:
        self.independent_rows = independent

    def statistics(self, data: Any) -> Any:
        x = np.asarray(data)
        return np.stack([x.sum(axis=-1), (1 - x).sum(axis=-1)], axis=-1)

    def log_evidence(self, t: Any) -> Any:
        return EVEN.log_evidence(t)


@pytest.mark.parametrize("public", [False, True])
def test_lies_are_replayed_where_model_and_public_data_allow_them(public: bool) -> None:
    rule = troth.OneTime(troth.ScoreRange(-30, 30))
    public_table = {"x": [1, 0, 1]} if public else None
    copied = ["copy the public data"] * public

    def lies(model: Any) -> list[str]:
        result = troth.pay(rounds(12), model, rule, provider="who", columns="x", budget="50", public=public_table)
        return [replay.lie for replay in replay_lies(result)]

    less, more = ["send a tenth", "send half", "report nothing"], ["replicate 2 times"]
    assert lies(EVEN) == [*less, *more, "fabricate from the prior", *copied]
    assert lies(Coin(independent=True)) == ["report nothing", *more, *copied]
    assert lies(Coin(independent=False)) == ["report nothing", *copied]


def test_a_lie_about_summaries_is_not_audited() -> None:
    with pytest.raises(MissingCapabilityError, match="'send half' changes summaries, not rows"):
        troth.audit(EVEN, troth.LineUp(decoys=9), [SendPart()], rows=[5, 5], simulations=5)
