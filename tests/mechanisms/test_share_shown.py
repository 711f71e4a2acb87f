"""Under every rule, a provider can bound or compute its share from the figures that it is shown."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest

from troth import models
from troth.mechanisms import (
    Bonded,
    Brier,
    Figures,
    LineUp,
    MultiDay,
    OneTime,
    Rule,
    SyntheticPeers,
    clipped_range,
    disclosed,
    exact_range,
)
from troth.mechanisms.multi_day import EqualShares
from troth.mechanisms.round import Round

MODEL = models.Bernoulli(1, 1)
RANGE = clipped_range(MODEL, rows=[12] * 5)
LINES = [
    LineUp(decoys=19),
    LineUp(decoys=19, rivals=1),
    LineUp(decoys=inf),
    LineUp(decoys=19, strict=0.1),
    LineUp(decoys=inf, strict=0.1),
    LineUp(decoys=19, panels=2),
    LineUp(decoys=inf, panels=2),
    LineUp(decoys=9, panels=2, strict=0.5, ties="lot"),
    LineUp(decoys=9, ties="lot"),
    LineUp(decoys=inf, ties="lot"),
    LineUp(decoys=4, source="days"),
]
RULES: list[Rule] = [
    *LINES,
    *map(Bonded, LINES[:6]),
    SyntheticPeers(draws=4),
    Bonded(SyntheticPeers(draws=4)),
    OneTime(RANGE),
    Brier(),
    Bonded(Brier()),
    MultiDay(),
    MultiDay(last=LineUp(decoys=19)),
]


def rounds_of(rule: Rule) -> list[Figures]:
    """Return the exact figures of some rounds, which include an empty and an extreme report."""
    figures = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows = np.array([12, 12, 12, 12, 0])
        ones = rng.binomial(rows, rng.uniform(size=(6, 1)))
        ones[..., 0] = 12
        t = np.stack([rows - ones, ones], axis=-1).astype(float)
        t = t if rule.days > 1 else t[0]
        result = rule.evaluate(Round(MODEL, t, rng=np.random.default_rng(seed)))
        empty = rule.evaluate_empty(Round(MODEL, t, rng=np.random.default_rng(seed)))
        figures += [result.at(*place, empty_share=float(empty[place])) for place in np.ndindex(result.share.shape)]
    return figures


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_every_share_is_possible_given_the_figures_shown(rule: Rule) -> None:
    for exact in rounds_of(rule):
        span = rule.share_shown(disclosed(rule, exact))
        assert span is not None
        assert span.low <= exact.share <= span.high


@pytest.mark.parametrize("rows", [50, 1000, 100_000])
def test_a_rounded_empty_share_near_one_does_not_determine_a_bond(rows: int) -> None:
    """Bonds are then divided by 1 − e, which two decimals of e do not determine."""
    rule = Bonded(OneTime(exact_range(MODEL, [rows] * 5)))
    for exact in rounds_of(rule):
        span = rule.share_shown(disclosed(rule, exact))
        assert span is None or span.low <= exact.share <= span.high
        assert (span is None) == (exact.terms["empty_share_before_bond"] > 0.99)


@pytest.mark.parametrize("rule", [OneTime(RANGE), Brier(), SyntheticPeers(draws=4), Bonded(OneTime(RANGE))], ids=repr)
def test_a_page_shows_how_a_rounded_share_follows_from_the_score(rule: Rule) -> None:
    """The service shows the share of the minor units that were paid, and the score with two decimals."""
    for exact in rounds_of(rule):
        shown = replace(disclosed(rule, exact), share=round(exact.share, 1))
        assert "From score to share" in [step.title for step in rule.steps(shown)]


@pytest.mark.parametrize("rule", [LINES[0], LINES[1], LINES[10], Bonded(LINES[0]), Bonded(LINES[1])], ids=repr)
def test_a_place_in_one_line_determines_the_share_exactly(rule: Rule) -> None:
    for exact in rounds_of(rule):
        span = rule.share_shown(disclosed(rule, exact))
        assert span is not None
        assert span.exact
        assert span.low == exact.share


@pytest.mark.parametrize("rule", [LINES[3], LINES[2], LINES[5], LINES[7]], ids=repr)
def test_a_share_that_is_far_off_is_not_possible(rule: Rule) -> None:
    """Two decimals of a score determine a share better than the mean place over panels does."""
    excluded = 0
    for exact in rounds_of(rule):
        span = rule.share_shown(disclosed(rule, exact))
        assert span is not None
        excluded += not span.low <= (exact.share + 0.5) % 1 <= span.high
    assert excluded >= 16


def test_an_empty_report_is_paid_exactly_the_empty_share() -> None:
    for rule in (LineUp(decoys=19), LineUp(decoys=19, strict=0.3)):
        empty = Figures(log_pmi=None, score=None, low=None, high=None, share=0.0, empty_share=0.0, terms={})
        terms = {"decoys": 19.0, "above": 0.0, "tied": 19.0, "strict_score": 0.22}
        span = rule.share_shown(replace(empty, terms=terms))
        assert span == (rule.line_empty_share, rule.line_empty_share)


def test_figures_that_do_not_determine_a_share() -> None:
    noted = Figures(log_pmi=None, score=0.4, low=0.0, high=1.0, terms={}, share=0.4, empty_share=0.2, note="paid so")
    rules: list[Any] = [LineUp(), SyntheticPeers(), Bonded(LineUp()), OneTime(RANGE)]
    assert {rule.share_shown(noted) for rule in rules} == {None}
    unscored = replace(noted, score=None, note="")
    assert SyntheticPeers().share_shown(unscored) is None
    assert EqualShares().share_shown(unscored) == (1.0, 1.0)


@pytest.mark.parametrize("rule", [LineUp(decoys=19), SyntheticPeers(draws=4), MultiDay(), MultiDay(last=LineUp())])
def test_no_share_is_disputed_if_peers_contradict_each_other(rule: Rule) -> None:
    """The empty share is then paid, whatever the figures imply."""
    model = models.Finite([0.5, 0.5], [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]])
    rng = np.random.default_rng(0)
    determined, rows = 0, np.full((3, 4), 2.0)
    for _ in range(8):
        t = np.stack([[model.statistics([symbol, symbol]) for symbol in rng.integers(0, 3, 4)] for _ in range(3)])
        days = slice(None) if rule.days > 1 else 0
        result = rule.evaluate(Round(model, t[days], rows=rows[days], rng=rng))
        for place in np.ndindex(result.share.shape):
            span = rule.share_shown(disclosed(rule, result.at(*place, empty_share=0.2)))
            determined += span is not None
            assert span is None or span.low <= result.share[place] <= span.high
    assert determined


def test_figures_that_depend_on_others_are_rounded() -> None:
    terms = {"above": 12.0, "next_day": 0.4321}
    shown = Figures(
        log_pmi=1.23456, score=0.98765, low=-1.0, high=1.0, terms=terms, share=0.876543, empty_share=0.123456
    )
    one_time, line = disclosed(OneTime(), shown), disclosed(LineUp(), shown)
    assert (one_time.log_pmi, one_time.score, one_time.terms) == (1.2, 0.99, {"above": 12.0, "next_day": 0.43})
    assert (line.log_pmi, line.empty_share) == (None, 0.1235)
    assert disclosed(Brier(), shown).empty_share == 0.12
    assert one_time.share == line.share == shown.share
