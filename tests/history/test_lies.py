"""Lies told in sums: each is what it says, keeps to what data can have, and knows only what a liar knows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from registry import generator
from troth import models
from troth import strategies as lies
from troth.audits import audit
from troth.audits.strategies import Knowledge, lies_for_reduction, lies_left_out
from troth.core.errors import MissingCapabilityError, ParameterError
from troth.core.reductions import Counts, Moments, Reduction
from troth.core.reductions.counts import apportion
from troth.core.support import Support
from troth.history import backtest, from_summaries
from troth.mechanisms import MultiDay

KINDS: dict[str, Reduction] = {
    "codes": Counts(3),
    "counts": Moments(support=Support(0, integer=True)),
    "numbers": Moments((2.0,), squares=True),
    "waits": Moments(support=Support(0)),
    "vectors": Moments((1.0, -1.0), squares=True),
    "regression": Moments((0.0, 0.0, 0.0), linear=False, squares=True),
    "regression with sums": Moments((0.0, 0.0, 0.0), squares=True),
}


def knowledge(reduction: Reduction, seed: int = 1) -> Knowledge:
    rng = generator(seed, 71)

    def report() -> Any:
        n = int(rng.integers(1, 20))
        if isinstance(reduction, Counts):
            return reduction.of_rows(rng.integers(0, reduction.size, (n, 1)).astype(float))
        table = rng.gamma(3.0, size=(n, reduction.columns))
        return reduction.of_rows(np.round(table) if reduction.support.integer else table)

    own, earlier, past, everyone = (np.array([report() for _ in range(k)]) for k in (6, 6, 30, 80))
    return Knowledge(
        reduction, own, generator(seed, 72), lambda age: np.roll(earlier, age, axis=0), past, everyone, liked
    )


def liked(lie: lies.SummaryLie) -> Any:
    """A public history on which whoever shifts down a little and replicates is paid most."""
    assert isinstance(lie, lies.Distort)
    return np.full(9, -abs(lie.shift + 0.3) + 0.1 * (lie.times == 2) - abs(lie.scale - 1) - lie.share)


@pytest.mark.parametrize("kind", KINDS)
def test_lies_are_sums_that_data_can_have(kind: str) -> None:
    reduction = KINDS[kind]
    for lie in lies_for_reduction(reduction):
        here = knowledge(reduction)
        reported = lie.change_summary(here)
        assert reported.shape == here.own.shape
        for report in reported:
            reduction.check(report)
        assert np.array_equal(reported, lie.change_summary(knowledge(reduction)))  # deterministic given the seed


@pytest.mark.parametrize("kind", KINDS)
def test_the_truth_is_left_alone(kind: str) -> None:
    here = knowledge(KINDS[kind])
    before = here.own.copy()
    for lie in lies_for_reduction(KINDS[kind]):
        lie.change_summary(here)
    assert np.array_equal(before, here.own)


def test_each_lie_is_what_it_says() -> None:
    kinds: list[Any] = [KINDS["codes"], KINDS["numbers"]]
    for reduction in kinds:
        here = knowledge(reduction)
        n, own = here.rows, reduction.means(here.own)
        assert np.array_equal(reduction.rows(lies.Replicate(3).change_summary(here)), 3 * n)
        least = 0 if isinstance(reduction, Counts) else np.minimum(n, 2)
        assert np.array_equal(
            reduction.rows(lies.Withhold(0.5).change_summary(here)), np.maximum(np.round(n / 2), least)
        )
        assert not lies.Nothing().change_summary(here).any()
        assert np.array_equal(lies.SendStale().change_summary(here), here.stale(1))
        usual = reduction.means(lies.ShrinkToMean(1.0).change_summary(here))
        half = reduction.means(lies.ShrinkToMean(0.5).change_summary(here))
        slack = 1 / n[:, None] if isinstance(reduction, Counts) else 1e-9
        assert (np.abs(usual - here.mean) <= slack).all()
        assert (np.abs(half - (own + here.mean) / 2) <= slack).all()
        fabricated = lies.FabricateFromPast().change_summary(here)
        assert all((report == here.past).all(axis=1).any() for report in fabricated)


def test_withheld_rows_are_rows() -> None:
    here = knowledge(Counts(3))
    remaining = lies.Withhold(0.5).change_summary(here)
    assert (remaining <= here.own).all()
    flipped = lies.Flip(0.3).change_summary(here)
    assert np.array_equal(flipped.sum(axis=1), here.own.sum(axis=1))
    assert np.abs(flipped - here.own).sum() > 0


def test_a_shift_moves_every_value_and_leaves_the_scatter() -> None:
    reduction: Any = KINDS["numbers"]
    here = knowledge(reduction)
    reported = lies.Shift(1.0).change_summary(here)
    assert np.allclose(reduction.means(reported) - reduction.means(here.own), here.spread)

    def scatter(summaries: Any) -> Any:
        return summaries[:, 2] - summaries[:, 1] ** 2 / summaries[:, 0]

    assert np.allclose(scatter(reported), scatter(here.own))


def test_whole_counts_sum_to_the_rows() -> None:
    rng = generator(6)
    weights, rows = rng.random((50, 4)), rng.integers(0, 30, 50).astype(float)
    counts = apportion(weights, rows)
    assert np.array_equal(counts.sum(axis=1), rows)
    assert (np.abs(counts - rows[:, None] * weights / weights.sum(axis=1, keepdims=True)) < 1).all()


def test_lies_that_do_not_fit_are_refused() -> None:
    model = models.Normal(0, 1, 1)
    past = from_summaries(Moments(), np.ones((12, 2, 2)))
    for lie, message in (
        (lies.Flip(), "'flip 10%' does not work on summaries of Moments"),
        (lies.ReportTypical(), "ReportTypical.* needs rows, which past days do not have"),
        (["replicate"], "'replicate' needs rows"),
        ([], "no lies"),
    ):
        with pytest.raises(ParameterError, match=message):
            backtest(past, model, MultiDay(), lie)  # type: ignore[arg-type]
    with pytest.raises(MissingCapabilityError, match='"send yesterday\'s report" changes summaries, not rows'):
        audit(model, MultiDay(), lie=lies.SendStale(), rows=[3, 3])


def test_every_known_lie_is_told_in_rows_or_in_summaries() -> None:
    """And both ways mean the same: the summary of changed rows is the changed summary, in expectation."""
    assert all(isinstance(lie, lies.RowLie | lies.SummaryLie) for lie in lies.KNOWN_LIES)
    model = models.Categorical([1, 1, 1])
    rng = generator(8)
    data = np.repeat([0.0, 1.0, 1.0, 2.0], 5)[rng.permutation(20)]
    own = np.tile(model.summary(data), (4000, 1))
    knowledge = Knowledge(model.reduction, own, rng, lambda _: own, own, own, liked)
    for lie in lies.KNOWN_LIES:
        if isinstance(lie, lies.RowLie) and isinstance(lie, lies.SummaryLie) and lie.suits_model(model):
            by_rows = np.mean(
                [model.summary(lie.change_rows(rng, model, rng.permuted(data))) for _ in range(4000)], axis=0
            )
            assert np.allclose(by_rows, lie.change_summary(knowledge).mean(axis=0), atol=0.15), lie.name


def test_a_reduction_says_itself_which_lies_act_on_its_summaries() -> None:
    class Bare:
        pass

    class Thinning:
        def thinned(self, summaries: Any, rows: Any, rng: Any, /) -> Any:
            return summaries

    bare, thinning, model = cast(Any, Bare()), cast(Any, Thinning()), models.Normal(0, 1, 1)
    assert "withhold 50%" in {lie.name for lie in lies_for_reduction(thinning)}
    assert {lie.name for lie in lies_for_reduction(bare)}.isdisjoint({"withhold 50%", "shift by 1 sd"})
    left_out = {lie.name for lie in lies_left_out(model, bare)}
    assert {"withhold 50%", "shift by 1 sd", "shrink 50% to the mean", "perturb by 0.5"} <= left_out
    assert "flip 10%" not in left_out  # numbers have no labels
    assert "withhold 50%" not in {lie.name for lie in lies_left_out(model, thinning)}


def test_whoever_looks_at_few_days_looks_at_the_last() -> None:
    def rehearse(lie: lies.Distort) -> Any:
        return np.array([float(lie.times > 1)] * 5 + [float(lie.shift > 0)] * 3)

    knowledge: Any = SimpleNamespace(reduction=Moments((0.0,), squares=True), rehearse=rehearse)
    assert lies.Searched(days=3).search(knowledge) == lies.Distort(shift=1.0)
    assert lies.Searched().search(knowledge) == lies.Distort(shift=1.0, times=3)


def test_providers_draw_their_lies_independently() -> None:
    """Otherwise all of them would send the report of the same day, and their gains would be one gain."""
    drawn: list[float] = []

    class Noted(lies.Truthful):
        def change_summary(self, knowledge: Any) -> Any:
            drawn.append(knowledge.rng.random())
            return knowledge.own

    past = from_summaries(Counts(2), generator(5).integers(1, 9, (40, 4, 2)))
    backtest(past, models.Bernoulli(1, 1), MultiDay(exchangeable=True), Noted(), folds=2)
    assert len(drawn) == 4 * 2
    assert len(set(drawn)) == len(drawn)
