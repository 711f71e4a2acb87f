"""Audits agree with exact expectations, find what gains, and no single-provider lie gains under a truthful rule."""

from __future__ import annotations

from contextlib import suppress
from math import log
from typing import Any

import numpy as np
import pytest

import troth
from registry import EXAMPLES, SOAK, generator
from troth import baselines, models, strategies
from troth.audits.findings import finding_of
from troth.audits.strategies import lies_for_model

MODEL = models.Bernoulli(1, 1)
ROWS = [12] * 4
SIMULATIONS = 200_000 if SOAK else 20_000


def truthful_rules(model: Any, rows: list[int], values: Any = None) -> dict[str, troth.Rule]:
    rules: dict[str, troth.Rule] = {
        "MultiDay": troth.MultiDay(),
        "SyntheticPeers": troth.SyntheticPeers(draws=8),
    }
    with suppress(troth.UnboundedRangeError):
        rules["OneTime"] = troth.OneTime(troth.exact_range(model, [2 * n for n in rows], values))
    return rules


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_single_provider_lie_gains_under_a_truthful_rule(name: str) -> None:
    """At most 1e-6 false alarms per finding; some 250 findings in all."""
    model: Any = EXAMPLES[name]
    rows = [6] * 4
    values = {"poisson": (0, 200), "geometric": (0, 5000), "negative binomial": (0, 5000)}.get(name)
    place = [*EXAMPLES].index(name)
    for turn, rule in enumerate(truthful_rules(model, rows, values).values()):
        if not SOAK and place % 3 == turn:
            continue  # two of three rules meet a family, and each rule two of three families
        audit = troth.audit(model, rule, rows=rows, simulations=4000 if SOAK else 800)
        assert audit.gaining() == [], str(audit)
        assert len(audit.findings) >= 6


def exact_gain(model: Any, rule: troth.Rule, lie: Any) -> float:
    """Expected gain of a lie about three rows, as a sum over everything that could happen."""
    best = troth.best_response(model, rule, [3, 2, 2])
    column = {counts: i for i, counts in enumerate(_reports(model, 3))}
    truths = {counts: i for i, counts in enumerate(_reports(model, 3, only=True))}
    nothing = float(model.log_evidence(np.zeros(2)))
    total = 0.0
    for ones in range(4):
        evidence = float(model.log_evidence(np.array([ones, 3.0 - ones]))) - nothing
        total += [1, 3, 3, 1][ones] * np.exp(evidence) * best.gains[truths[3 - ones, ones]][column[lie(ones)]]
    return float(total)


def test_audits_agree_with_exact_expectations() -> None:
    """The expected shares of truth and lie, enumerated, lie within the audit's interval."""
    model = models.Bernoulli(1.5, 1)
    lies = [strategies.Nothing(), strategies.ReportTypical(), strategies.Flip(1.0)]
    for rule in (troth.OneTime(troth.exact_range(model, [6, 4, 4])), troth.MultiDay()):
        audit = troth.audit(model, rule, lies, [3, 2, 2], simulations=SIMULATIONS)
        for finding, lie in (
            (audit["report nothing"], lambda ones: (0, 0)),
            (audit["report what is typical"], lambda ones: (0, 3) if ones > 1.5 else (3, 0)),
            (audit["flip 100%"], lambda ones: (ones, 3 - ones)),
        ):
            assert finding.low <= exact_gain(model, rule, lie) <= finding.high


def _reports(model: Any, rows: int, only: bool = False) -> list[tuple[int, ...]]:
    from troth.models.numerics.enumeration import enumerate_reports

    counts, _, _ = enumerate_reports(model, [rows] if only else range(rows + 1))
    return [tuple(int(n) for n in c) for c in counts]


def test_a_planted_profitable_lie_is_detected() -> None:
    """A rule that forgets the prior of the range: whoever reports more rows earns more."""

    class PaysForRows(troth.Rule):
        def breakdown(self, this_round: troth.Round) -> troth.Breakdown:
            share = 1 / (1 + np.exp(-this_round.log_pmi())) + 0.002 * this_round.own.sum(axis=-1)
            return troth.Breakdown(np.clip(share, 0, 1))

    audit = troth.audit(MODEL, PaysForRows(), [strategies.Replicate(3)], ROWS, simulations=SIMULATIONS)
    assert audit.gaining()[0].lie == "replicate 3 times"
    assert audit.findings[0].verdict == "gains"
    assert "GAINS" in str(audit)
    assert "loses" not in str(audit)


def test_what_people_do_today_pays_liars() -> None:
    cases: list[tuple[troth.Rule, Any]] = [
        (baselines.FixedPrice(), strategies.FabricateFromPrior()),
        (baselines.PerRow(max_rows=100), strategies.Replicate()),
        (baselines.TestLikelihood(bias=baselines.with_extra_ones), _towards_ones),
        (baselines.LeaveOneOutValue(bias=baselines.with_extra_ones), _towards_ones),
        (baselines.ShapleyValue(bias=baselines.with_extra_ones), _towards_ones),
        (baselines.OutOfBag(), strategies.ReportTypical()),
    ]
    for rule, lie in cases:
        audit = troth.audit(MODEL, rule, [lie], ROWS, simulations=SIMULATIONS).findings[0]
        if isinstance(rule, baselines.FixedPrice):
            assert audit.gain == 0  # making data up costs nothing, and earns as much as the truth
        else:
            assert audit.verdict == "gains", (rule, audit)
    withheld = troth.audit(MODEL, baselines.FixedPrice(), [strategies.Withhold(0.9)], ROWS, simulations=1000).findings[
        0
    ]
    assert withheld.gain == 0
    split = troth.audit(MODEL, baselines.FixedPrice(), [strategies.Split(3)], ROWS, simulations=1000).findings[0]
    assert split.verdict == "gains"


def _towards_ones(data: Any, rng: Any) -> Any:
    return np.where(np.arange(data.shape[-1]) < data.shape[-1] // 3, 1.0, data)


def test_collusion_and_splitting_are_reported_with_and_without_groups() -> None:
    rule = troth.SyntheticPeers(draws=8)
    audit = troth.audit(
        MODEL,
        rule,
        [strategies.Collude(2, strategies.Replicate(5)), strategies.Split(2)],
        [10] * 4,
        simulations=SIMULATIONS // 4,
    )
    names = [f.lie for f in audit.findings]
    assert names == [
        "2 collude: replicate 5 times",
        "split over 2 accounts",
        "2 collude: replicate 5 times, in a group",
        "split over 2 accounts, in a group",
    ]
    assert audit["split over 2 accounts"].verdict == "gains"
    assert audit["split over 2 accounts, in a group"].gain < audit["split over 2 accounts"].gain - 0.3


def test_what_several_earn_is_counted_for_each_provider_that_there_is() -> None:
    """Three who collude earn a cap each; whoever splits in three has three of six caps of two thirds."""
    lies = [strategies.Collude(3, strategies.Replicate(2)), strategies.Split(3)]
    audit = troth.audit(MODEL, baselines.FixedPrice(), lies, ROWS, simulations=100)
    collude, split, *_ = audit.findings
    assert (collude.truth, collude.earned) == pytest.approx((1.0, 1.0))
    assert (split.truth, split.earned) == pytest.approx((1.0, 3 * 4 / 6))


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_strategy_plays_every_family_or_says_why_not(name: str) -> None:
    model: Any = EXAMPLES[name]
    rng = generator(1)
    theta = model.draw_parameters(rng, (3,))
    data = model.draw_data(rng, theta, 6)
    honest = np.stack([model.statistics(model.draw_data(rng, theta, 6)) for _ in range(4)], axis=-2)
    honest[:, 0] = model.statistics(data)
    lies: list[strategies.Strategy] = [
        strategies.Truthful(),
        strategies.Replicate(),
        strategies.Withhold(),
        strategies.Nothing(),
        strategies.Flip(),
        strategies.Perturb(),
        strategies.Shift(),
        strategies.FabricateFromPrior(),
        strategies.FabricateFromPosterior(),
        strategies.ShuffleLabels(),
        strategies.ScaleAnswers(),
        strategies.ReportTypical(),
        strategies.Copy(),
        strategies.Collude(),
        strategies.Split(2),
    ]
    played = 0
    for strategy in lies:
        try:
            reported, accounts, rows = strategy.play(rng, model, data, honest, 0)
        except troth.MissingCapabilityError:
            continue
        played += 1
        assert reported.shape[-2] == 4 + (isinstance(strategy, strategies.Split))
        untouched = [i for i in range(4) if i not in accounts]
        assert np.array_equal(reported[:, untouched], honest[:, untouched])
        assert strategy.name
        assert len(rows) == len(accounts)
    assert played >= 11
    assert np.array_equal(strategies.Truthful().play(rng, model, data, honest, 0).statistics, honest)
    assert all(isinstance(lie, strategies.Strategy) for lie in lies_for_model(model))


@pytest.mark.parametrize(("accounts", "sizes"), [(2, (2, 3)), (3, (2, 1, 2)), (7, (1, 0, 1, 1, 1, 0, 1))])
def test_accounts_share_the_rows_of_whoever_splits(accounts: int, sizes: tuple[int, ...]) -> None:
    data = np.array([[1.0, 1.0, 0.0, 1.0, 0.0]])
    honest = np.stack([MODEL.statistics(data), MODEL.statistics(1 - data)], axis=-2)
    play = strategies.Split(accounts).play(generator(3), MODEL, data, honest, 0)
    assert play.accounts == (0, *range(2, accounts + 1))
    own = play.statistics[0, list(play.accounts)]
    assert own.sum(axis=-1).tolist() == list(play.rows) == list(sizes)
    assert np.array_equal(own.sum(axis=0), honest[0, 0])
    assert np.array_equal(own[0], MODEL.statistics(data[0, : sizes[0]]))
    assert np.array_equal(play.statistics[0, 1], honest[0, 1])


def test_strategies_do_what_they_say() -> None:
    rng = generator(2)
    data = np.array([[1.0, 1.0, 0.0, 1.0]])
    assert strategies.Replicate(2).change_rows(rng, MODEL, data).tolist() == [[1, 1, 0, 1, 1, 1, 0, 1]]
    assert strategies.Withhold(0.5).change_rows(rng, MODEL, data).tolist() == [[1, 1]]
    assert strategies.Withhold(0.25).change_rows(rng, MODEL, data).tolist() == [[1, 1, 0]]
    assert strategies.Flip(0.5).change_rows(rng, MODEL, data).tolist() == [[0, 0, 0, 1]]
    assert strategies.ReportTypical().change_rows(rng, MODEL, data).tolist() == [[1, 1, 1, 1]]
    assert strategies.Nothing().change_rows(rng, MODEL, data).shape == (1, 0)
    normal = models.Normal(0, 1, 1)
    values = np.array([[1.0, 3.0]])
    assert strategies.Shift(2.0).change_rows(rng, normal, values).tolist() == [[3.0, 5.0]]
    assert strategies.ReportTypical().change_rows(rng, normal, values).tolist() == [[2.0, 2.0]]
    regression = models.LinearRegression([0.0], [[1.0]], 1.0)
    z, y = strategies.ScaleAnswers(3.0).change_rows(rng, regression, (np.ones((1, 2, 1)), values))
    assert (z.tolist(), y.tolist()) == ([[[1.0], [1.0]]], [[3.0, 9.0]])
    with pytest.raises(troth.ParameterError, match="share"):
        strategies.Withhold(1.5)
    with pytest.raises(troth.ParameterError, match="times"):
        strategies.Replicate(0)


def test_a_label_is_redrawn_as_any_label() -> None:
    """Each of three labels is drawn with probability 1/3, whatever the label was; five standard deviations are 130."""
    redrawn = strategies.Perturb(1.0).change_rows(generator(3), models.Categorical([1, 1, 1]), np.zeros((1, 3000)))
    assert np.bincount(redrawn[0].astype(int), minlength=3).tolist() == pytest.approx([1000] * 3, abs=130)


def test_posterior_draws_follow_the_posterior() -> None:
    """Drawing θ given data and then data given θ twice over leaves the joint distribution as it is."""
    for name in EXAMPLES:
        model: Any = EXAMPLES[name]
        rng = generator(3)
        theta = model.draw_parameters(rng, (40_000 if SOAK else 12_000,))
        data = model.draw_data(rng, theta, 4)
        again = model.draw_posterior(rng, model.statistics(data))
        first, second = (np.tanh((x - np.median(theta, axis=0)) / (theta.std(axis=0) + 1e-9)) for x in (theta, again))
        spread = np.sqrt((first.var(axis=0) + second.var(axis=0)) / len(first)) + 1e-12
        assert (np.abs(first.mean(axis=0) - second.mean(axis=0)) < 6 * spread).all(), name
        peers = model.statistics(model.draw_data(rng, theta, 4))
        fresh = model.statistics(model.draw_data(rng, again, 4))
        left, right = (
            1 / (1 + np.exp(-np.clip(troth.log_pmi(model, model.statistics(data), t), -50, 50))) for t in (peers, fresh)
        )
        assert abs(left.mean() - right.mean()) < 6 * np.sqrt((left.var() + right.var()) / len(left)), name


def test_best_response_finds_the_best_of_all_reports() -> None:
    class Loudest(troth.Rule):
        def breakdown(self, this_round: troth.Round) -> troth.Breakdown:
            return troth.Breakdown(np.minimum(this_round.own[..., 0] / 3, 1.0))

    best = troth.best_response(MODEL, Loudest(), [3, 2])
    assert best.gain == pytest.approx(1.0)
    assert (best.truth, best.report) == ((3, 0), (0, 3))
    assert "gains 1.000000 of the cap" in str(best)
    finite: Any = EXAMPLES["finite"]
    for rule in (
        troth.MultiDay(),
        troth.SyntheticPeers(),
        troth.Brier(),
        troth.OneTime(troth.exact_range(finite, [2, 2, 2])),
    ):
        assert troth.best_response(finite, rule, [2, 2, 2]).gain <= 1e-12
    with pytest.raises(troth.MissingCapabilityError, match="use troth.audit"):
        troth.best_response(models.Normal(0, 1, 1), troth.MultiDay(), [2, 2])
    with pytest.raises(troth.DataError, match="too many"):
        troth.best_response(finite, troth.Brier(), [200, 200, 200])


def test_lies_beyond_the_declared_rows_are_refused_and_earn_nothing() -> None:
    rule = troth.OneTime(troth.exact_range(MODEL, [10, 10]))
    audit = troth.audit(MODEL, rule, [strategies.Replicate(5)], [10, 10], simulations=2000).findings[0]
    assert 0 < audit.refused < 1
    assert audit.verdict == "loses"


def test_a_finding_does_not_depend_on_the_lies_before_it() -> None:
    alone, late = (
        troth.audit(MODEL, troth.MultiDay(), [*before, strategies.FabricateFromPrior()], ROWS, simulations=500)
        for before in ([], [strategies.Perturb()])
    )
    assert alone.findings[-1] == late.findings[-1]


@pytest.mark.parametrize("rule", [troth.MultiDay(), troth.LineUp(decoys=19)], ids=lambda rule: rule.name)
def test_made_up_data_know_nothing_of_the_true_parameter(rule: troth.Rule) -> None:
    """In expectation they earn at most the empty share; drawn with the numbers of the truth they would be the truth."""
    audit = troth.audit(MODEL, rule, [strategies.FabricateFromPrior()], ROWS, simulations=2000)
    assert audit.findings[0].earned < audit.empty_share + 0.02 < audit.findings[0].truth
    assert audit.findings[0].high < 0


def test_audits_can_be_repeated_and_say_what_they_could_see(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (troth.audit(MODEL, troth.MultiDay(), rows=ROWS, simulations=3000) for _ in range(2))
    assert first == second
    assert first.findings[0].detectable > 0
    assert first.empty_share == pytest.approx(troth.divergences.logistic.empty_share)
    calls: list[tuple[int, int]] = []
    more = troth.audit(
        MODEL, troth.MultiDay(), rows=ROWS, simulations=30_000, progress=lambda *call: calls.append(call)
    )
    assert more.findings[0].detectable < first.findings[0].detectable
    assert calls == sorted(calls)
    assert calls[-1] == (30_000, 30_000)
    assert capsys.readouterr() == ("", "")
    assert "replicate 2 times" in str(first)
    assert first.to_dict()["findings"][0]["verdict"]


def test_mistakes_are_explained() -> None:
    with pytest.raises(troth.DataError, match="at least two providers"):
        troth.audit(MODEL, troth.MultiDay())
    with pytest.raises(troth.ParameterError, match="liar"):
        troth.audit(MODEL, troth.MultiDay(), rows=ROWS, liar=9)
    for lie in (strategies.Shift(), strategies.ShuffleLabels(), strategies.LabelWithOwnModel()):
        for played in (lie, strategies.Collude(fake=lie)):
            with pytest.raises(troth.MissingCapabilityError, match=f"'{lie.name}' does not suit .*lies_for_model"):
                troth.audit(MODEL, troth.MultiDay(), [played], rows=ROWS, simulations=2)
    with pytest.raises(troth.MissingCapabilityError, match="test set"):
        baselines.TestLikelihood().pay(MODEL, np.ones((2, 2)), budget=1.0)


def test_providers_with_different_models_can_be_audited() -> None:
    combined = troth.combine([models.Normal(0, 1, 1), models.Normal(0, 1, 2), models.Normal(0, 1, 1)])
    audit = troth.audit(combined, troth.SyntheticPeers(draws=4), rows=[5, 6, 7], simulations=4000, liar=1)
    assert audit.gaining() == []


def test_the_comparison_prints_and_plots(tmp_path: Any) -> None:
    rules: dict[str, troth.Rule] = {
        "fixed price": baselines.FixedPrice(),
        "per row": baselines.PerRow(max_rows=50),
        "MultiDay": troth.MultiDay(),
    }
    lies = [strategies.Replicate(), strategies.Nothing(), strategies.ReportTypical()]
    comparison = troth.compare(MODEL, rules, lies, ROWS, simulations=2000)
    assert "replicate 2 times" in str(comparison)
    assert "*" in str(comparison)
    comparison.plot(tmp_path / "comparison.png")
    comparison.audits["MultiDay"].plot(tmp_path / "audit.png")
    assert (tmp_path / "comparison.png").stat().st_size > 10_000
    assert (tmp_path / "audit.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    "rule",
    [
        baselines.FixedPrice(),
        baselines.PerRow(),
        baselines.TestLikelihood(),
        baselines.LeaveOneOutValue(),
        baselines.ShapleyValue(),
        baselines.OutOfBag(),
        troth.SyntheticPeers(draws=8),
        troth.LineUp(decoys=19),
        troth.LineUp(decoys=19, panels=2, strict=0.2),
        troth.Brier(),
        troth.LogPmiRule(),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_a_share_does_not_depend_on_what_others_are_scored_for(rule: troth.Rule) -> None:
    """An audit scores only the liar: the others' reports stay where they are as peers, and nothing else changes."""
    rng = generator(9)
    t = MODEL.statistics(MODEL.draw_data(rng, MODEL.draw_parameters(rng, (20,))[:, None].repeat(4, axis=1), 10))
    test = MODEL.statistics(MODEL.draw_data(rng, MODEL.draw_parameters(rng, (20,)), 10))
    options: dict[str, Any] = {"rows": np.full(t.shape[:-1], 10.0), "test": test}
    everybody = troth.Round(MODEL, t, rng=generator(1), **options)
    alone = troth.Round(MODEL, t, rng=generator(1), **options).with_own(np.where(np.arange(4)[:, None] == 1, t, 0.0))
    whole, part = (rule.breakdown(scene).share[..., 1] for scene in (everybody, alone))
    np.testing.assert_allclose(part, whole, atol=1e-12)
    if not isinstance(rule, baselines.FixedPrice | baselines.PerRow):
        assert np.ptp(whole) > 0.01


def test_finite_models_of_any_size_can_be_audited() -> None:
    wide = models.Finite([0.5, 0.5], [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    strict = models.Finite([0.5, 0.5], [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    for model, rows in ((wide, [40] * 5), (strict, [6, 5, 4])):
        for rule in (
            troth.MultiDay(),
            troth.SyntheticPeers(draws=4),
            baselines.PerRow(),
            baselines.OutOfBag(),
            baselines.ShapleyValue(),
        ):
            audit = troth.audit(model, rule, rows=rows, simulations=1000 if SOAK else 200)
            assert len(audit.findings) >= 6
    impossible = troth.audit(strict, troth.MultiDay(), [strategies.Flip(0.5)], [6, 5, 4], simulations=1000).findings[0]
    assert impossible.refused > 0.5
    assert impossible.earned <= 1 - impossible.refused  # nothing for what is refused, and at most the cap otherwise


def test_lies_with_the_same_name_are_told_apart_and_cannot_touch_each_other() -> None:
    def spoil(data: Any, rng: Any) -> Any:
        data[...] = 1
        return data

    audit = troth.audit(
        MODEL,
        troth.MultiDay(),
        [spoil, strategies.Truthful(), lambda d, r: d, lambda d, r: np.ones_like(d)],
        ROWS,
        simulations=2000,
    )
    assert audit["tell the truth"].gain == 0
    names = [f.lie for f in audit.findings]
    assert len(set(names)) == 4
    assert audit.findings[2].gain == pytest.approx(0, abs=1e-12)
    assert audit.findings[3].gain < -0.1


def test_shapley_orders_differ_from_round_to_round() -> None:
    rule = baselines.ShapleyValue(orders=1)
    first, second = (
        troth.audit(
            MODEL, rule, [strategies.FabricateFromPrior()], [10] * 3, simulations=20_000, rng=generator(s)
        ).findings[0]
        for s in (0, 1)
    )
    assert max(first.low, second.low) < min(first.high, second.high)


def test_wrapped_rules_and_refused_reports_are_enumerated_too() -> None:
    wrapped = troth.Bonded(troth.SyntheticPeers(draws=2))
    assert troth.best_response(MODEL, wrapped, [3, 2, 2]).gain <= 1e-12
    short = troth.OneTime(troth.exact_range(MODEL, [3, 2, 2]))
    assert troth.best_response(MODEL, short, [3, 2, 2], max_rows=5).gain <= 1e-12
    late = troth.MultiDay(last=troth.OneTime(troth.exact_range(MODEL, [4] * 3)))
    assert troth.audit(MODEL, late, [strategies.Replicate(3)], [4] * 3, simulations=500).findings


@pytest.mark.parametrize(
    "options",
    [
        {"rng": 7},
        {"simulations": 0},
        {"rows": [4, -4]},
        {"rows": [4.5, 4]},
        {"false_alarm": 2.0},
        {"lies": ["x"]},
        {"rule": "x"},
    ],
)
def test_bad_arguments_are_typed_errors(options: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "rule": troth.MultiDay(),
        "rows": [4, 4],
        "lies": [strategies.Nothing()],
        "simulations": 100,
        **options,
    }
    with pytest.raises(troth.TrothError):
        troth.audit(MODEL, given.pop("rule"), given.pop("lies"), given.pop("rows"), **given)
    with pytest.raises(troth.ParameterError, match="5 members"):
        troth.audit(MODEL, troth.MultiDay(), [strategies.Collude(5)], [4, 4, 4], simulations=100)


def test_the_margin_knows_how_far_a_gain_by_several_accounts_reaches() -> None:
    one, three = (
        finding_of("lie", np.array([40.0, 50.0, 5.0, 0.0]), 1000, troth.LineUp(), 0.05, accounts) for accounts in (1, 3)
    )
    assert three.detectable - one.detectable == pytest.approx(2 * 3 * 2 * log(3 / 0.05) / 1000)


def test_an_interval_is_the_empirical_bernstein_bound() -> None:
    """Of Audibert, Munos and Szepesvari (2009): sqrt(2V ln(3/a)/n) + 3R ln(3/a)/n, computed from single gains."""
    gains = generator(31).uniform(-0.4, 0.7, 2000)
    sums = np.array([300.0, 300.0 + gains.sum(), (gains**2).sum(), 0.0])
    finding = finding_of("lie", sums, 2000, troth.LineUp(), 0.01, 1)
    margin = np.sqrt(2 * gains.var(ddof=1) * log(300) / 2000) + 3 * 2 * log(300) / 2000
    assert (finding.gain, finding.low, finding.high) == pytest.approx(
        (gains.mean(), gains.mean() - margin, gains.mean() + margin), rel=1e-9
    )
    assert finding.verdict == "gains"
    of_log_pmi = finding_of("lie", sums, 2000, troth.LogPmiRule(), 0.01, 1)  # unbounded: taken to reach 20 deviations
    margin = gains.std(ddof=1) * (np.sqrt(2 * log(300) / 2000) + 3 * 20 * log(300) / 2000)
    assert of_log_pmi.high == pytest.approx(gains.mean() + margin, rel=1e-9)
