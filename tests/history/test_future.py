"""What a backtest says of the next period: drift is found, and models that drift follow it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import troth
from registry import SOAK, generator
from troth import models
from troth import strategies as lies
from troth.core.errors import DataError, ParameterError
from troth.core.past import History
from troth.core.reductions import Counts, Moments
from troth.history import backtest, from_summaries
from troth.history.learn import Learner, candidates_for, fit
from troth.history.splits import first_days, split_days
from troth.models.fitting.offsets import fit_random_walk

RULE = troth.SyntheticPeers(draws=8)


def weighed(seed: int, days: int, drift: float, sites: int = 5) -> History:
    """Values of sites whose offsets walk by ``drift`` a day around a common mean of the day."""
    rng = generator(seed, 81)
    offset = rng.normal(0, 0.5, sites) + np.cumsum(rng.normal(0, drift, (days, sites)), axis=0)
    mean = rng.normal(0, 1, (days, 1)) + offset + rng.normal(0, 0.3, (days, sites))
    values = mean[..., None] + rng.normal(0, 1, (days, sites, 20))
    summaries = np.stack([np.full((days, sites), 20.0), values.sum(axis=-1), (values**2).sum(axis=-1)], axis=-1)
    return from_summaries(Moments((0.0,), squares=True), summaries)


def test_blocks_pass_what_a_rolling_origin_refutes() -> None:
    """Offsets that walk: the gain of small shifts between fits shows only if the model pays the days after its own."""
    past = weighed(1, days=150, drift=0.12)
    shifts = [lies.Distort(shift=by) for by in (-0.25, 0.25)]
    offsets = candidates_for(past.reduction)["offsets"]
    rolling, blocks = (backtest(past, offsets, RULE, shifts, split=split, folds=3) for split in ("rolling", "blocks"))
    assert rolling.worst().gain > blocks.worst().gain + 0.01
    assert rolling.ages[0].low > 0.1
    assert rolling.shelf_life.startswith("A fit stays good for about ")
    assert "says nothing about a future that drifts" in str(blocks)
    assert blocks.ages == ()


def test_offsets_that_walk_are_followed() -> None:
    past = weighed(2, days=200, drift=0.1)
    still, drifting = (candidates_for(past.reduction)[name] for name in ("offsets", "drifting offsets"))
    replayed = [backtest(past, model, RULE, lies.Distort(shift=0.25), folds=4) for model in (still, drifting)]
    assert replayed[1].log_score > replayed[0].log_score + 0.3
    assert replayed[1].worst().gain < replayed[0].worst().gain
    assert replayed[1].ahead == 30


@pytest.mark.parametrize("step", [0.0, 0.1])
def test_a_walk_is_learnt_from_residuals(step: float) -> None:
    rng = generator(3, int(100 * step))
    level = np.cumsum(step * rng.standard_normal((300, 4)), axis=0)
    residual = level + rng.normal(0, 0.5, level.shape)
    residual[rng.random(level.shape) < 0.1] = np.nan
    walk = fit_random_walk(residual, np.full(4, 0.25), np.zeros(level.shape), ahead=10)
    assert np.sqrt(walk.step_variance) == pytest.approx(step, abs=0.06 if step else 0.02)
    assert (np.abs(walk.level - level[-1]) < 4 * np.sqrt(walk.variance)).all()
    assert np.all(walk.variance >= walk.step_variance * 5)


@pytest.mark.parametrize("ahead", [1, 7])
def test_an_offset_is_as_uncertain_as_it_walks_on_average_until_then(ahead: int) -> None:
    """After many days the filter has the variance P = (P + q)r/(P + q + r); on top comes hq, h days later."""
    rng = generator(7)
    residual = np.cumsum(0.4 * rng.standard_normal((400, 3)), axis=0) + rng.normal(0, 0.5, (400, 3))
    walk = fit_random_walk(residual, np.full(3, 0.25), np.full(residual.shape, 0.05), ahead)
    q, r = walk.step_variance, walk.noise_share * 0.25 + 0.05
    settled = (-q + np.sqrt(q * q + 4 * q * r)) / 2
    assert q > 0
    assert walk.variance == pytest.approx(np.full(3, settled + np.mean([h * q for h in range(1, ahead + 1)])))


def test_a_stable_model_is_not_said_to_age() -> None:
    past = weighed(4, days=120, drift=0.0)
    replayed = backtest(past, lambda days: troth.fit(days, "ProviderNormal"), RULE, lies.Nothing(), folds=3, first=60)
    assert "at least" in replayed.shelf_life
    assert len(replayed.ages) == 2


def test_searched_lies_find_what_gains_and_tell_the_truth_where_nothing_does() -> None:
    """One provider's offset is wrong in the model: a shift down gains, and the search finds it."""
    past = weighed(5, days=90, drift=0.0, sites=3)
    model = troth.fit(past, "ProviderNormal")
    own: list[Any] = [model.model_of(name) for name in past.providers]
    wrong = [
        models.ProviderNormal(m.mean, m.scale, m.noise, m.offset - 0.8 * (i == 0), m.dispersion)
        for i, m in enumerate(own)
    ]
    lies_tried = [lies.Searched(), lies.Searched(days=30), lies.Distort(shift=-0.25), lies.Nothing()]
    replayed, right = (backtest(past, model, RULE, lies_tried, folds=1) for model in (wrong, own))
    assert replayed.of("0", "searched on the past").gain > replayed.of("0", "shift by -0.25 sd").gain > 0.02
    assert not right.gaining()
    assert abs(right["searched on the past"].gain) < 0.02


@pytest.mark.parametrize("days", [60, 365] if SOAK else [60])
def test_the_stated_power_is_right(days: int) -> None:
    """Sending nothing truly gains under a model that ignores dispersion: it is found as often as the interval says.

    The expected rate of a gain g with detectable gain D is Φ((g − D)/error + z₀.₈), averaged over histories.
    """
    runs, seen, detectable = (150 if SOAK else 25), 0, []
    rng = generator(6, days)
    for _ in range(runs):
        rate = rng.beta(4, 8, size=(days, 1))
        ones = rng.binomial(20, rng.beta(4 * rate * np.ones(5), 4 * (1 - rate) * np.ones(5)))
        past = from_summaries(Counts(2), np.stack([20 - ones, ones], axis=-1))
        replayed = backtest(past, models.Bernoulli(4, 8), troth.MultiDay(exchangeable=True), lies.Nothing(), folds=1)
        seen += replayed["report nothing"].verdict == "gains"
        detectable.append(replayed.detectable)
        assert days > 60 or replayed.underpowered
    gain = 0.0525  # measured on 12,000 days
    share = seen / runs
    assert (share > 0.6) if gain > np.median(detectable) else (share < 0.95)
    assert np.isfinite(detectable).all()


def test_days_are_split_in_order() -> None:
    splits = split_days(100, "rolling", 3, 0, None)
    assert first_days(100) == 30
    assert [(part.paid[0], len(part.fitted)) for part in splits] == [(30, 30), (54, 54), (77, 77)]
    assert all(part.fitted.max() < part.paid.min() for part in splits)
    with pytest.raises(ParameterError, match="no split 'random'"):
        split_days(100, "random", 3, 0, None)
    with pytest.raises(DataError, match="after the first 99"):
        split_days(100, "rolling", 1, 0, 99)
    past = weighed(7, days=40, drift=0.0)
    last = Learner(models.Normal, {"noise": 1.0}, recent=12)(past)
    assert last.model_of("any") == fit(past.select(days=past.days[-12:]), models.Normal, noise=1.0).model_of("any")


def test_a_lie_that_changes_nothing_is_not_said_to_cost() -> None:
    past = weighed(8, days=120, drift=0.0)
    truth = backtest(past, models.ProviderNormal(0, 1, 1, 0, 0.5), RULE, lies.Truthful(), folds=1)
    assert truth["tell the truth"].verdict == "unchanged"
    assert "tell the truth would have changed nothing" in truth.verdict
    assert "cost" not in truth.verdict
