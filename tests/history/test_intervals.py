"""Intervals over days: they cover, also where days resemble their neighbours, and name what they can find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from registry import SOAK, generator
from troth.history.intervals import joint_level, over_days
from troth.history.significance import findings_of

RUNS = 3000 if SOAK else 400


def alike(resemblance: float, days: int, runs: int = RUNS) -> Any:
    """Series of days of which each resembles the one before."""
    noise = generator(days, int(10 * resemblance)).standard_normal((runs, days + 80))
    series = np.zeros_like(noise)
    for day in range(1, days + 80):
        series[:, day] = resemblance * series[:, day - 1] + noise[:, day]
    return series[:, 80:]


@pytest.mark.parametrize("resemblance", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("days", [60, 300])
def test_intervals_miss_as_rarely_as_they_say(resemblance: float, days: int) -> None:
    """Declared: 5% of misses, 8% allowed where days resemble each other; binomial slack of 1 in 10,000 on top."""
    intervals = [over_days(x, 0.05) for x in alike(resemblance, days)]
    missed = sum(not (interval.low <= 0 <= interval.high) for interval in intervals)
    assert missed <= stats.binom.isf(1e-4, RUNS, 0.08 if resemblance else 0.05)
    assert missed >= stats.binom.ppf(1e-4, RUNS, 0.01)  # and are not needlessly wide


def test_days_that_resemble_the_day_before_yesterday() -> None:
    """Declared: 5% of misses, 12% allowed; with neighbouring days alone in the variance they are 24%."""
    noise, runs = generator(9).standard_normal((1000, 369)), 1000
    intervals = [over_days(x[4:] + x[2:-2] + x[:-4], 0.05) for x in noise]
    missed = sum(not (interval.low <= 0 <= interval.high) for interval in intervals)
    assert missed <= stats.binom.isf(1e-4, runs, 0.12)


@pytest.mark.parametrize("days", [60, 150, 365])
def test_the_error_of_a_mean_is_that_of_newey_and_west_after_prewhitening(days: int) -> None:
    """Computed day by day, on days that resemble the day before yesterday: there the covariances make it larger."""
    noise = generator(days).standard_normal(days + 4)
    x = 0.3 + noise[4:] + noise[2:-2] + noise[:-4]
    r = x - x.mean()
    neighbours = sum(r[t] * r[t - 1] for t in range(1, days)) / sum(each**2 for each in r)
    if neighbours > 1 / np.sqrt(days):
        neighbours += (1 + 3 * neighbours) / days
    rho = min(max(neighbours, 0.0), 0.97)
    e = [r[t] - rho * r[t - 1] for t in range(1, days)]
    lags = int(4 * (days / 100) ** (2 / 9))
    covariance = [sum(e[t] * e[t - lag] for t in range(lag, len(e))) for lag in range(lags + 1)]
    total = covariance[0] + 2 * sum((1 - lag / (lags + 1)) * covariance[lag] for lag in range(1, lags + 1))
    long_run = total / (len(e) - 1) / (1 - rho) ** 2
    assert total > 1.2 * covariance[0]  # neither of the bounds from below is what is tested
    assert long_run > x.var(ddof=1)
    interval = over_days(x, 0.05)
    assert interval.error == pytest.approx(np.sqrt(long_run / days), rel=1e-12)
    freedom = days * (1 - rho) / (1 + rho) - 1
    assert interval.high - interval.mean == pytest.approx(stats.t.isf(0.025, freedom) * interval.error, rel=1e-9)
    assert interval.mean - interval.low == pytest.approx(interval.high - interval.mean, rel=1e-9)
    assert over_days(x, 0.05, extra=0.01).error == pytest.approx(np.sqrt(long_run / days + 0.01), rel=1e-12)


@pytest.mark.parametrize("resemblance", [0.0, 0.5])
@pytest.mark.parametrize("days", [60, 120, 365])
def test_a_detectable_gain_is_found_in_four_of_five_histories(resemblance: float, days: int) -> None:
    """The gain that a typical history calls detectable is found in 70% to 90% of them (slack 1 in 10,000)."""
    level = 0.002
    noise = alike(resemblance, days)
    gain = float(np.median([over_days(x, 0.05, 0.01).detectable(level, 0.01) for x in noise]))
    significant = sum(over_days(x + gain, 0.05, 0.01).above <= level for x in noise)
    assert stats.binom.ppf(1e-4, RUNS, 0.7) <= significant <= stats.binom.isf(1e-4, RUNS, 0.9)


def test_missing_days_and_constant_gains() -> None:
    gains = np.array([0.1, np.nan, 0.3, 0.2, np.nan, 0.2])
    assert over_days(gains, 0.05).mean == pytest.approx(0.2)
    assert over_days(gains, 0.05).days == 4
    assert over_days(np.zeros(10), 0.05)[:6] == (0.0, 0.0, 0.0, 1.0, 1.0, 10)
    constant = over_days(np.full(10, 0.2), 0.05)
    assert constant.above == 0.0
    assert constant.below == 1.0
    assert over_days(np.full(10, 0.2), 0.05, negligible=0.3).above == 1.0
    assert over_days(gains, 0.05, negligible=0.1).above > over_days(gains, 0.05).above
    assert over_days(gains, 0.05, extra=0.01).error > over_days(gains, 0.05).error
    nobody = over_days(np.full(3, np.nan), 0.05)
    assert nobody.days == 0
    assert nobody.above == 1.0
    assert nobody.detectable(0.05) == np.inf


def test_many_comparisons_hold_their_rate_together() -> None:
    """20 comparisons, ten and their near copies: any is found in 5% of histories at most, and Bonferroni is beaten."""
    runs, wrong, levels = RUNS // 4, 0, []
    for noise in generator(4).standard_normal((runs, 100, 10)):
        columns = np.concatenate([noise, noise + 0.05 * noise[:, ::-1]], axis=1)
        levels.append(joint_level(columns, 0.05))
        wrong += min(over_days(column, 0.05).above for column in columns.T) <= levels[-1]
    assert wrong <= stats.binom.isf(1e-4, runs, 0.05)
    assert 0.05 / 20 < np.median(levels) < 0.05 / 8


def test_missing_and_constant_comparisons_count_for_nothing() -> None:
    noise = generator(5).standard_normal((80, 2))
    padded = np.column_stack([noise, np.zeros((80, 5)), np.full((80, 5), np.nan)])
    assert joint_level(padded, 0.05) == pytest.approx(joint_level(noise, 0.05))
    assert joint_level(np.zeros((9, 4)), 0.05) == 0.05 / 4


def test_false_alarms_of_all_comparisons_are_fewer_than_stated() -> None:
    rng, runs, alarm, alarms = generator(27), 100, 0.2, 0
    truth = np.full((60, 4), 0.5)
    for _ in range(runs):
        gains = 0.1 * rng.standard_normal((60, 4, 3))
        overall, single = findings_of("abc", "wxyz", truth, gains, np.zeros_like(gains), alarm, 0.0)
        alarms += any(interval.verdict in ("gains", "loses") for interval in (*overall, *single))
    assert alarms <= alarm * runs + 2 * np.sqrt(alarm * (1 - alarm) * runs)


def test_days_without_a_report_do_not_shrink_what_a_provider_gains() -> None:
    """Where chance is small, an estimate is the mean over providers and how far it lies from that on its days."""
    gains = np.array([-0.3, 0.0, 0.1, 0.4])[None, :, None] + 0.001 * generator(28).standard_normal((60, 4, 1))
    gains[::2, 3] = np.nan
    overall = np.nanmean(gains[..., 0], axis=1)
    truth = np.where(np.isnan(gains[..., 0]), np.nan, 0.5)
    _, single = findings_of("a", "wxyz", truth, gains, np.zeros_like(gains), 0.05, 0.0)
    for provider, finding in enumerate(single):
        apart = np.nanmean(gains[:, provider, 0] - overall)
        assert finding.gain == pytest.approx(overall.mean() + apart, abs=1e-3)
        assert finding.days == (30 if provider == 3 else 60)
