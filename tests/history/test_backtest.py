"""Backtests on simulated histories: silent under the right model, loud under the textbook one.

Declared error: a backtest names a lie that does not gain with probability 0.05 at most; a few dozen histories are
checked against binomial bounds that hold but for 1 in 10,000, and single histories have fixed seeds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import troth
from history.worlds import binary_days, binary_models, draw_history
from registry import EXAMPLES, SOAK
from troth import models
from troth import strategies as lies
from troth.core.errors import DataError, MissingCapabilityError, ParameterError
from troth.core.formats import true_minus
from troth.core.information import log_pmi
from troth.core.past import History
from troth.core.reductions import Counts
from troth.history import from_summaries
from troth.history.backtest import backtest
from troth.history.comparison import ModelComparison, compare_models
from troth.history.findings import HONEST_PAST, INDEPENDENT_PAST
from troth.history.likelihood import log_marginal

RULES: dict[str, Any] = {
    "multi-day": troth.MultiDay(exchangeable=True),
    "synthetic peers": troth.SyntheticPeers(draws=16),
}


FEW: list[lies.SummaryLie] = [
    lies.Replicate(),
    lies.Withhold(),
    lies.Nothing(),
    lies.ShrinkToMean(1.0),
    lies.Distort(shift=-0.25),
]


def textbook(past: History) -> troth.history.Fitted:
    return models.Bernoulli.fit(past)


@pytest.mark.parametrize("rule", RULES)
def test_lies_gain_under_the_textbook_and_not_under_the_right_model(rule: str) -> None:
    past = binary_days(1, days=200)
    comparison = compare_models(past, {"textbook": textbook, "right": binary_models()}, RULES[rule], FEW)
    assert comparison["right"].gaining() == []
    assert comparison["textbook"].gaining()
    assert comparison["right"].log_score > comparison["textbook"].log_score + 1
    assert comparison["right"].incentive > comparison["textbook"].incentive
    assert comparison.recommended == "right"
    assert comparison.verdict.startswith(("Pay with right", "The model 'right' passes"))
    assert "Lies gain under textbook" in comparison.verdict
    assert "with 80% probability" in comparison.verdict


def test_the_right_law_raises_few_false_alarms() -> None:
    runs = 200 if SOAK else 4
    alarms = 0
    for seed in range(runs):
        past = binary_days(1000 + seed, days=60, providers=3, sizes=(5, 20))
        alarms += bool(backtest(past, binary_models(3), RULES["multi-day"], folds=2).gaining())
    assert alarms <= stats.binom.isf(1e-4, runs, 0.03)


def test_gains_are_what_the_rule_pays() -> None:
    """One lie of one provider on one day, computed by hand from the rule's definition."""
    past = binary_days(3, days=12, providers=3)
    model = models.Bernoulli(2, 4)
    result = backtest(past, model, RULES["multi-day"], lies.Replicate(2), split="blocks", folds=3)
    f = troth.divergences.logistic
    t = past.summaries[..., ::-1]
    day, provider = 5, 1
    peers = t.sum(axis=1) - t[:, provider]

    def share(own: Any) -> float:
        score = f.mismatched(log_pmi(model, own, peers[day + 1])) + f.matched(log_pmi(model, own, peers[day]))
        return float((score - f.low) / (f.high - f.low))

    expected = share(2 * t[day, provider]) - share(t[day, provider])
    assert result.gains[day, provider, 0] == pytest.approx(expected, abs=1e-12)
    assert np.isnan(result.gains[[3, 7, 11]]).all()  # the last days of blocks of four
    assert result.days == 9


def test_models_never_see_the_days_they_pay() -> None:
    past = binary_days(4, days=30)
    seen: list[set[Any]] = []

    def spy(train: History) -> Any:
        seen.append(set(train.days))
        return models.Bernoulli(1, 1)

    backtest(past, spy, RULES["multi-day"], lies.Nothing(), split="blocks", folds=3, gap=2)
    assert seen == [set(range(12, 30)), set(range(8)) | set(range(22, 30)), set(range(18))]
    seen.clear()
    rolled = backtest(past, spy, RULES["multi-day"], lies.Nothing(), folds=3, first=12, gap=2)
    assert seen == [set(range(10)), set(range(16)), set(range(22))]
    assert np.isnan(rolled.gains[:12]).all()
    assert [(stretch.first, stretch.last, stretch.fitted_days) for stretch in rolled.stretches] == [
        (12, 17, 10),
        (18, 23, 16),
        (24, 29, 22),
    ]


def test_missing_reports_are_neither_paid_nor_peers() -> None:
    """A provider who never comes changes nothing for the others."""
    past = binary_days(5, days=40, providers=4)
    summaries = past.summaries.copy()
    summaries[::2, 3] = 0
    result = backtest(
        from_summaries(Counts(2), summaries), models.Bernoulli(2, 4), RULES["multi-day"], split="blocks", folds=2
    )
    assert np.isnan(result.gains[::2, 3]).all()
    assert result.of("3", "report nothing").days == 20 - 2
    three = backtest(
        from_summaries(Counts(2), summaries[:, :3]), models.Bernoulli(2, 4), RULES["multi-day"], split="blocks", folds=2
    )
    assert not np.allclose(result.gains[1:3, :3], three.gains[1:3], equal_nan=True)


def test_days_on_which_nobody_reported_are_not_taken_for_perfect_predictions() -> None:
    """The log probability of no data is 0; log scores are means over the days that have data."""
    summaries = binary_days(5, days=40, providers=4).summaries.copy()
    silent = np.arange(40) % 4 == 1
    summaries[silent] = 0
    past, model = from_summaries(Counts(2), summaries), models.Bernoulli(2, 4)
    result = backtest(past, model, RULES["synthetic peers"], lies.Nothing(), folds=3, first=10)
    scores = log_marginal(model, past)
    assert (scores[silent] == 0).all()
    paid = np.arange(40) >= 10
    assert np.isnan(result.scores[silent]).all()
    assert result.log_score == pytest.approx(scores[paid & ~silent].mean())
    for stretch in result.stretches:
        days = np.arange(stretch.first, stretch.last + 1)
        mean = scores[days[~silent[days]]].mean()
        assert [stretch.log_score, stretch.oldest_score] == pytest.approx([mean, mean])


def test_members_of_a_group_are_not_peers() -> None:
    """With the others of its group away, a provider is paid as if they had not come."""
    past = binary_days(6, days=12, providers=3)
    alone = backtest(
        past,
        models.Bernoulli(2, 4),
        RULES["multi-day"],
        lies.Nothing(),
        split="blocks",
        folds=2,
        groups=["a", "a", "b"],
    )
    pair = from_summaries(Counts(2), past.summaries[:, [0, 2]])
    two = backtest(pair, models.Bernoulli(2, 4), RULES["multi-day"], lies.Nothing(), split="blocks", folds=2)
    assert np.allclose(alone.gains[:, 0], two.gains[:, 0], equal_nan=True)


@pytest.mark.parametrize("name", [n for n, m in EXAMPLES.items() if getattr(m, "reference", None) is None])
def test_every_family_can_be_replayed(name: str) -> None:
    model: Any = EXAMPLES[name]
    past = draw_history(model, 11, days=14, rows=8)
    result = backtest(past, model, RULES["synthetic peers"], folds=2)
    assert np.isfinite(result.gains[7:]).all()
    assert len(result.lies) >= 6


def test_a_rule_may_depend_on_the_fitted_model() -> None:
    past = binary_days(6, days=60, sizes=(10, 20))

    def rule(model: Any) -> troth.Rule:
        return troth.OneTime(troth.exact_range(model, rows=[40] * 5))

    result = backtest(past, models.Bernoulli(2, 4), rule, folds=2)
    assert isinstance(result.rule, troth.OneTime)
    assert result["fabricate from own past"].gain < 0
    narrow = troth.OneTime(troth.ScoreRange(-0.01, 0.01))
    with pytest.raises(DataError, match="provider .*: the report itself falls outside"):
        backtest(past, models.Bernoulli(2, 4), narrow, folds=2)


def test_lies_that_no_state_could_produce_are_refused_and_earn_nothing() -> None:
    model = models.Finite([0.5, 0.5], [[1.0, 0.0], [0.3, 0.7]])
    never_one = models.Finite([0.5, 0.5], [[1.0, 0.0], [1.0, 0.0]])
    past = from_summaries(Counts(2), np.array([[[5.0, 0.0], [4.0, 0.0]]] * 12))
    result = backtest(
        past, [model, never_one], troth.MultiDay(exchangeable=True), lies.Flip(0.4), split="blocks", folds=2
    )
    assert result.of("1", "flip 40%").refused == 1.0
    assert result.of("1", "flip 40%").earned == 0.0
    assert result.of("0", "flip 40%").refused == 0.0


def test_a_backtest_prints_serialises_and_plots(tmp_path: Path) -> None:
    past = from_summaries(
        Counts(2), binary_days(7, days=60, providers=3).summaries, providers=["Ash", "Birch", "Cedar"]
    )
    comparison = compare_models(
        past, {"textbook": textbook, "right": binary_models(3)}, RULES["multi-day"], FEW, folds=3
    )
    for text in (str(comparison), str(comparison["right"])):
        assert HONEST_PAST in text
        assert INDEPENDENT_PAST in text
        assert "withhold 50%" in text
    plain = json.loads(json.dumps(comparison.to_dict()))
    assert plain["recommended"] == comparison.recommended
    assert {f["provider"] for f in plain["models"]["right"]["findings"]} == {"Ash", "Birch", "Cedar"}
    comparison["textbook"].plot(tmp_path / "backtest.png")
    comparison.plot(tmp_path / "models.png")
    assert all(path.stat().st_size > 10_000 for path in tmp_path.iterdir())


def test_the_same_seed_gives_the_same_backtest() -> None:
    past = binary_days(8, days=30)
    first, again, other = (
        backtest(past, models.Bernoulli(2, 4), RULES["synthetic peers"], [*FEW, lies.Searched()], folds=2, seed=seed)
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first.gains, again.gains, equal_nan=True)
    assert not np.array_equal(first.gains, other.gains, equal_nan=True)


def test_gains_that_are_not_worth_a_lie_are_not_counted() -> None:
    past = binary_days(1, days=200)
    gains = {
        least: len(backtest(past, textbook, RULES["multi-day"], FEW, folds=2, negligible=least).gaining())
        for least in (0.0, 0.08, 0.5)
    }
    assert gains[0.0] > gains[0.08] >= gains[0.5] == 0


def test_models_that_are_compared_share_the_false_alarm_rate() -> None:
    past, model = binary_days(7, days=30, providers=3), models.Bernoulli(1, 1)
    candidates = {"a": model, "b": models.Bernoulli(2, 2), "c": models.Bernoulli(1, 3), "d": models.Bernoulli(3, 1)}
    comparison = compare_models(past, candidates, RULES["multi-day"], FEW, folds=2, false_alarm=0.08)
    alone = backtest(past, model, RULES["multi-day"], FEW, folds=2, false_alarm=0.02, name="a")
    assert comparison["a"].to_dict() == alone.to_dict()


def test_where_lies_gain_under_every_model_that_is_said() -> None:
    past = binary_days(1, days=200)
    comparison = compare_models(past, {"a": textbook, "b": models.Bernoulli(1, 1)}, RULES["multi-day"], FEW, folds=2)
    assert "Lies gain under every model" in comparison.verdict
    assert "do not pay" in comparison.verdict


@pytest.mark.parametrize(
    ("options", "needed"), [({}, 5), ({"split": "blocks"}, 6), ({"first": 4}, 7), ({"folds": 2}, 11)]
)
def test_a_history_that_is_too_short_is_told_how_many_days_it_takes(options: dict[str, Any], needed: int) -> None:
    model = models.Bernoulli(1, 1)
    for days in range(1, needed):
        with pytest.raises(DataError, match=rf"^{days} days are too few .*: that takes {needed} days"):
            backtest(binary_days(9, days=days, providers=3), model, RULES["multi-day"], FEW, **options)
    assert backtest(binary_days(9, days=needed, providers=3), model, RULES["multi-day"], FEW, **options).days


def test_where_nobody_has_a_peer_nothing_is_tested() -> None:
    """One provider, one provider a day, or all of one group: every lie changes nothing, which shows nothing."""
    past, model = binary_days(9, days=60, providers=3), models.Bernoulli(2, 2)
    one_a_day = past.summaries.copy()
    one_a_day[np.arange(3) != np.arange(60)[:, None] % 3] = 0
    for history, groups in (
        (past.select(providers=past.providers[:1]), None),
        (from_summaries(Counts(2), one_a_day), None),
        (past, ["a"] * 3),
    ):
        with pytest.raises(DataError, match="nobody has a peer on any of the 30 days"):
            backtest(history, model, RULES["multi-day"], FEW, groups=groups)
    assert backtest(past, model, RULES["multi-day"], FEW, groups=["a", "a", "b"]).days


def test_what_cannot_be_replayed_is_refused() -> None:
    past = binary_days(9, days=12, providers=3)
    model = models.Bernoulli(1, 1)
    with pytest.raises(DataError, match="12 days are too few for 5 stretches of at least 3 .* that takes 29 days, so"):
        backtest(past, model, RULES["multi-day"], folds=5)
    with pytest.raises(DataError, match="at least 1 day before its first stretch, not 0"):
        backtest(past, model, RULES["multi-day"], first=0)
    with pytest.raises(DataError, match="2 models for 3 providers"):
        backtest(past, [model] * 2, RULES["multi-day"], folds=2)
    with pytest.raises(ParameterError, match="false_alarm"):
        backtest(past, model, RULES["multi-day"], folds=2, false_alarm=0.0)
    with pytest.raises(ParameterError, match="no models"):
        compare_models(past, {}, RULES["multi-day"])
    gone = past.summaries.copy()
    gone[4:, 1] = 0
    late = backtest(from_summaries(Counts(2), gone), model, RULES["multi-day"], split="blocks", folds=3)
    assert np.isnan(
        late.of(late.providers[1], "replicate 2 times").gain
    )  # nothing was known about it outside the only block it is in
    assert not np.isnan(late.worst("replicate 2 times").gain)

    class Bare:
        def statistics(self, data: Any, /) -> Any:
            return model.statistics(data)

        def log_evidence(self, statistics: Any, /) -> Any:
            return model.log_evidence(statistics)

    with pytest.raises(MissingCapabilityError, match="Bare declares no reduction"):
        backtest(past, Bare(), RULES["multi-day"], folds=2)


def test_progress_is_said_within_a_stretch() -> None:
    """A stretch can take minutes: whoever waits sees something at once, and each lie move the bar."""
    said: list[tuple[float, int]] = []
    candidates: dict[str, Any] = {"textbook": textbook, "fails": _failing, "right": binary_models()}
    rule = troth.SyntheticPeers(draws=4)
    compare_models(binary_days(1, days=40), candidates, rule, FEW, folds=2, progress=lambda *at: said.append(at))
    parts = [done / total for done, total in said]
    assert said[0] == (0, 6)
    assert parts == sorted(parts)
    assert parts[-1] == 1
    assert len(set(parts)) > 2 * 2 * (1 + len(FEW))


def _failing(_: History) -> Any:
    raise DataError("these days suit no model")


def test_a_rule_that_draws_much_draws_less_in_a_backtest() -> None:
    """The expectation is the same for every number of decoys; time is not."""
    past = binary_days(1, days=40)
    much, enough = (backtest(past, binary_models(), troth.LineUp(decoys=k), FEW, folds=2) for k in (999, 199))
    assert np.array_equal(much.gains, enough.gains, equal_nan=True)
    assert repr(much.rule) == repr(troth.LineUp(decoys=999))


def test_the_number_of_lies_that_gain_is_that_of_the_rows_with_a_star() -> None:
    """A lie by which several providers gain is one lie."""
    past = binary_days(1, days=200)
    compared = compare_models(past, {"textbook": textbook, "right": binary_models()}, RULES["multi-day"])
    backtests = compared.backtests
    lines = str(compared).split("\n")
    rows = lines[lines.index(next(line for line in lines if line.startswith("---"))) + 1 :][
        : len(backtests["right"].lies)
    ]
    starred = [sum("*" in row.split(")")[column] for row in rows) for column in (0, 1)]
    said = next(line for line in lines if line.startswith("lies that gain")).split()[3:]
    replayed = len(backtests["textbook"].lies)
    assert said == [str(starred[0]), "of", str(replayed), str(starred[1]), "of", str(replayed)]
    assert len(backtests["textbook"].gaining()) > starred[0] > 0


def test_the_best_lie_of_the_verdict_is_that_of_the_table() -> None:
    """Both are shrunk towards the mean over providers."""
    past = binary_days(6, days=60)
    replayed = backtest(past, textbook, troth.SyntheticPeers(draws=16), FEW, negligible=0.5)
    assert not replayed.gaining()
    best, raw = replayed.worst(), np.nanmean(replayed.gains, axis=0).max()
    assert raw > best.gain + 0.001 > 0.002
    row = next(line for line in str(replayed).split("\n") if line.startswith(true_minus(best.lie)))
    assert row.endswith(f" {100 * best.gain:+.2f}")
    assert f"the most that any gained is {100 * best.gain:+.1f}% of the cap ({true_minus(best.lie)}" in replayed.verdict


def test_a_verdict_without_power_says_what_it_would_have_found() -> None:
    compared = compare_models(binary_days(3, days=40), {"day types": binary_models()}, RULES["multi-day"], FEW, folds=2)
    assert compared.verdict.startswith("The model 'day types' passes: no lie gains significantly")
    assert "held-out days would reveal, with 80% probability, a lie that gains" in compared.verdict


def test_lies_are_shown_with_a_minus_and_keep_their_names() -> None:
    replayed = backtest(binary_days(1, days=200), textbook, RULES["multi-day"], [*FEW, lies.Shift(-1.0)], folds=2)
    shown = [str(replayed), str(ModelComparison({"textbook": replayed})), replayed.verdict]
    assert all("shift by −0.25 sd" in text for text in shown[:2])
    assert not any("by -" in text for text in shown)
    assert replayed["shift by -1 sd"].lie == "shift by -1 sd"


@pytest.mark.parametrize(("family", "left_out"), [("Poisson", "ln x!"), ("Bernoulli", None)])
def test_a_backtest_says_what_log_scores_leave_out(family: str, left_out: str | None) -> None:
    """Without the factorials of counts a log score can lie above 0, which no log probability does."""
    past = draw_history(models.Poisson(4, 1), 3, days=30) if left_out else binary_days(3, days=30)
    compared = compare_models(past, {"textbook": lambda past: models.FAMILIES[family].fit(past)}, troth.LineUp(), FEW)
    for text in (str(compared), str(compared["textbook"])):
        assert ("leave out ln x!" in text) == (left_out is not None)
