"""Real past days, from packages on PyPI: lies that gain under the textbook model do not gain under what was learnt.

Each comparison declares a false-alarm rate of 5%; on real data there is no truth to compare with, so what is tested is
what the documentation says of these very histories.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import troth
from registry import SOAK
from troth.audits.strategies import lies_for_reduction
from troth.history.learn import candidates_for

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))


def compared(name: str, **options: Any) -> troth.ModelComparison:
    past = import_module("backtest_real").HISTORIES[name]()
    lies = lies_for_reduction(past.reduction)
    some = lies if SOAK else lies[:6]
    return troth.compare_models(
        past, candidates_for(past.reduction, **options), troth.SyntheticPeers(draws=16), some, folds=4 if SOAK else 2
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "textbook", "learnt", "left"),
    [
        ("flights", "textbook Bernoulli", "day types", 0.0),
        ("stops", "textbook Bernoulli", "day types", 0.025),
        ("nitrogen oxides", "textbook Normal", "drifting offsets", 0.005),
    ][: 3 if SOAK else 1],
)
def test_lies_gain_much_under_the_textbook_model_and_little_under_what_was_learnt(
    name: str, textbook: str, learnt: str, left: float
) -> None:
    """On two histories a gain remains (``docs/explanation/real-histories.md``): a quarter of the textbook's at most."""
    comparison = compared(name, types=5)
    gains = {model: max((f.gain for f in comparison[model].gaining()), default=0.0) for model in (textbook, learnt)}
    assert gains[learnt] <= min(left, gains[textbook] / 4)
    assert gains[textbook] > 0
    assert comparison[learnt].log_score > comparison[textbook].log_score
    assert left or comparison.recommended == learnt
