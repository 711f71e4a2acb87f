"""From start to end: a history of each kind of outcome, a model fitted to it, lies replayed on days that it never saw.

Declared error: under the true model the chance of any false alarm in a history is 0.05; a fitted model is close. A
few histories of each kind are tried under each rule, and may raise no more than the binomial allows with 1 in 10,000.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from scipy import stats

import troth
from history.worlds import TEXTBOOK, dispersed_days
from registry import SOAK
from troth import models
from troth.history import History, compare_models

HISTORIES = 12 if SOAK else 1
RULES: dict[str, Any] = {
    "multi-day": troth.MultiDay(exchangeable=True),
    "synthetic peers": troth.SyntheticPeers(draws=8),
}


@pytest.mark.parametrize(
    ("outcome", "rule"),
    [pair for number, pair in enumerate(product(TEXTBOOK, RULES)) if SOAK or number % 4 in (0, 3)],
)
def test_lies_gain_under_the_textbook_and_not_under_the_fitted_model(outcome: str, rule: str) -> None:
    def textbook(past: History) -> Any:
        return models.FAMILIES[TEXTBOOK[outcome]].fit(past)

    def day_types(past: History) -> Any:
        return models.LatentClass.fit(past, outcome, types=3, starts=2)

    alarms = 0
    for seed in range(HISTORIES):
        past = dispersed_days(outcome, seed, days=160)
        comparison = compare_models(past, {"textbook": textbook, "day types": day_types}, RULES[rule], folds=3)
        alarms += bool(comparison["day types"].gaining())
        assert comparison["textbook"].gaining(), "the textbook model must fail here, or the test shows nothing"
        assert comparison["day types"].log_score > comparison["textbook"].log_score + 1
        assert comparison["day types"].incentive > comparison["textbook"].incentive
        assert comparison.recommended == "day types"
    assert alarms <= stats.binom.isf(1e-4, HISTORIES, 0.05)
