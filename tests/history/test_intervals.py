"""Intervals over days: they cover, also where days resemble their neighbours, and Holm holds its rate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from registry import generator
from troth.history.intervals import holm, over_days

RUNS = 600


@pytest.mark.parametrize("resemblance", [0.0, 0.4])
@pytest.mark.parametrize("days", [60, 300])
def test_intervals_miss_as_rarely_as_they_say(resemblance: float, days: int) -> None:
    """Declared: 5% of misses, 8% allowed where days resemble each other; binomial slack of 1 in 10,000 on top."""
    rng = generator(days, int(10 * resemblance))
    noise = rng.standard_normal((RUNS, days + 50))
    series = np.zeros_like(noise)
    for day in range(1, days + 50):
        series[:, day] = resemblance * series[:, day - 1] + noise[:, day]
    missed = sum(not (found.low <= 0 <= found.high) for found in (over_days(x[50:], 0.05) for x in series))
    allowed = 0.08 if resemblance else 0.05
    assert missed <= stats.binom.isf(1e-4, RUNS, allowed)
    assert missed >= stats.binom.ppf(1e-4, RUNS, 0.01)  # and are not needlessly wide


def test_missing_days_and_constant_gains() -> None:
    gains = np.array([0.1, np.nan, 0.3, 0.2, np.nan, 0.2])
    assert over_days(gains, 0.05).mean == pytest.approx(0.2)
    assert over_days(gains, 0.05).days == 4
    assert over_days(np.zeros(10), 0.05) == (0.0, 0.0, 0.0, 1.0, 1.0, 10)
    constant = over_days(np.full(10, 0.2), 0.05)
    assert constant.above == 0.0
    assert constant.below == 1.0
    assert over_days(np.full(10, 0.2), 0.05, negligible=0.3).above == 1.0
    assert over_days(gains, 0.05, negligible=0.1).above > over_days(gains, 0.05).above
    nobody = over_days(np.full(3, np.nan), 0.05)
    assert nobody.days == 0
    assert nobody.above == 1.0


def test_holm_holds_its_rate_and_beats_bonferroni() -> None:
    """Over 2,000 families of 20 true hypotheses some falls in 5% at most (slack 1 in 10,000)."""
    rng = generator(4)
    wrong = sum(bool(holm(p, 0.05).any()) for p in rng.random((2000, 20)))
    assert wrong <= stats.binom.isf(1e-4, 2000, 0.05)
    assert holm(np.array([0.02, 0.001, 0.03]), 0.05).tolist() == [True, True, True]
    assert holm(np.array([]), 0.05).tolist() == []
