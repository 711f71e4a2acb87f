"""A lie that gains more and more is said to; one whose gain only fluctuates hardly ever is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import troth
from registry import SOAK, generator
from troth.audits import strategies
from troth.core.reductions import Counts
from troth.history.comparison import ModelComparison
from troth.history.drift import Trend, trends_of

LIES = tuple(f"lie {k}" for k in range(12))


def gains(rng: Any, days: int, alike: float = 0.0, shared: float = 0.5) -> Any:
    noise = np.sqrt(shared) * rng.standard_normal((days + 30, 1))
    noise = 0.1 * (noise + np.sqrt(1 - shared) * rng.standard_normal((days + 30, len(LIES))))
    for day in range(1, len(noise)):
        noise[day] += alike * noise[day - 1]
    return noise[30:]


@pytest.mark.parametrize("days", [30, 60, 120])
@pytest.mark.parametrize("alike", [0.0, 0.4, 0.8])
def test_false_alarms_are_fewer_than_stated(days: int, alike: float) -> None:
    rng, runs = generator(int(days + 10 * alike)), 2000 if SOAK else 100
    alarms = sum(bool(trends_of(LIES, gains(rng, days, alike), 0.05)) for _ in range(runs))
    assert alarms <= 0.05 * runs + 2 * np.sqrt(0.05 * 0.95 * runs)


def test_false_alarms_are_few_even_if_all_lies_move_together() -> None:
    """The mean over lies then says nothing more about how much neighbouring days are alike; the margin is for that."""
    rng, runs = generator(20), 1000
    alarms = sum(bool(trends_of(LIES, gains(rng, 20, 0.8, shared=1.0), 0.05)) for _ in range(runs))
    assert alarms <= 0.05 * runs + 2 * np.sqrt(0.05 * 0.95 * runs)


def test_a_planted_trend_is_found_and_no_other() -> None:
    rng, names = generator(2), []
    for _ in range(20):
        x = gains(rng, 200)
        x[:, 3] += np.linspace(-0.02, 0.12, 200)
        names += [trend.lie for trend in trends_of(LIES, x, 0.05)]
    assert names.count("lie 3") >= 18
    assert len(names) - names.count("lie 3") <= 3


def test_few_days_missing_days_and_constant_gains() -> None:
    x = gains(generator(3), 19) + np.linspace(0, 9, 19)[:, None]
    assert trends_of(LIES, x, 0.05) == ()
    assert trends_of(LIES, np.zeros((80, 12)), 0.05) == ()
    x = gains(generator(4), 100) + np.linspace(0, 1, 100)[:, None]
    x[::7] = np.nan
    assert len(trends_of(LIES, x, 0.05)) == 12


def test_in_words() -> None:
    assert "double gains more as time goes on: −1.0% of the cap" in str(Trend("double", -0.01, 0.03, 0.05, 0.01))
    assert "double costs less as time goes on" in str(Trend("double", -0.05, -0.01, 0.05, 0.01))


def rising_history(days: int = 160) -> Any:
    """Providers' rows resemble each other more and more, so that the fixed model fits later days worse."""
    rng = generator(5)
    apart = np.linspace(0.0, 0.35, days)[:, None]
    rate = rng.uniform(0.4, 0.6, size=(days, 1)) + apart * rng.choice([-1, 1], size=(days, 6))
    ones = rng.binomial(60, rate)
    return troth.history.from_summaries(Counts(2), np.stack([60 - ones, ones], axis=-1))


def test_a_backtest_says_so_and_blocks_do_not() -> None:
    history, model, rule = rising_history(), troth.models.Bernoulli(20, 20), troth.SyntheticPeers(draws=8)
    lies: list[Any] = [strategies.Nothing(), strategies.Replicate(2)]
    replayed = troth.history.backtest(history, model, rule, lies, seed=1)
    assert replayed.trends
    assert str(replayed.trends[0]) in str(replayed)
    assert str(replayed.trends[0]) in str(ModelComparison({"fixed": replayed}))
    assert replayed.to_dict()["trends"][0]["lie"] == replayed.trends[0].lie
    assert troth.history.backtest(history, model, rule, lies, seed=1, split="blocks").trends == ()


def test_a_comparison_fits_a_page() -> None:
    history = rising_history(80)
    models = {f"a model with a long name, number {k}": troth.models.Bernoulli(20 + k, 20) for k in range(5)}
    rule, lies = troth.SyntheticPeers(draws=4), [strategies.Nothing(), strategies.Replicate(2)]
    lines = str(troth.history.compare_models(history, models, rule, lies, seed=1)).split("\n")
    ends = [number for number, line in enumerate(lines) if line.startswith("lies that gain")]
    assert len(ends) > 1
    assert max(len(line) for line in lines[2 : ends[-1] + 1]) <= 120
    assert all(any(name in line for line in lines[: ends[-1]]) for name in models)
