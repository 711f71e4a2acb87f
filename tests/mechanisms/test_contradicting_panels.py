"""Panels whose members contradict each other pay the empty share; other panels are unaffected (erratum E16)."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import inf
from typing import Any

import numpy as np
import pytest

import troth
from mechanisms.exact import World, worst_gain
from registry import generator
from troth import models
from troth.mechanisms import Round, panels
from troth.mechanisms.disclosure import disclosed

TWO = models.Finite([0.5, 0.5], [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]])  # symbols 1 and 2 exclude each other
SIX = models.Finite([1 / 6] * 6, np.column_stack([np.full(6, 0.1), 0.9 * np.eye(6)]))


def attacked(providers: int) -> tuple[Any, Any]:
    """All providers report symbol 1; then the first contradicts the others."""
    t = np.stack([SIX.statistics([1, 1])] * providers)
    other = t.copy()
    other[0] = SIX.statistics([2, 2])
    return t, other


def random_model(seed: int) -> models.Finite:
    rng = generator(seed, 31)
    table = rng.dirichlet(np.ones(3), size=3) * (rng.random((3, 3)) > 0.6)
    table[np.arange(3), rng.integers(0, 3, 3)] += 0.1
    return models.Finite(rng.dirichlet(np.full(3, 3.0)), table / table.sum(axis=1, keepdims=True))


@pytest.mark.parametrize(
    "rule", [{}, {"strict": 0.3}, {"ties": "lot"}, {"decoys": inf}, {"decoys": inf, "strict": 0.3}]
)
@pytest.mark.parametrize(("providers", "count"), [(5, 2), (9, 4), (9, 8), (31, 5)])
def test_one_report_changes_a_share_only_through_its_panel(providers: int, count: int, rule: dict[str, Any]) -> None:
    """Without panels all others fall to the empty share; with B panels no provider loses more than 1/B."""
    before, after = attacked(providers)
    rows = np.full(providers, 2.0)
    line_up = troth.LineUp(**{"decoys": 99, "panels": count, **rule})
    honest, hit = (line_up.explain(SIX, t, rows=rows, rng=generator(2)).share[1:] for t in (before, after))
    assert np.abs(honest - hit).max() <= 1 / count + 1e-12
    pooled = replace(line_up, panels=1)
    if providers < 31:
        assert pooled.explain(SIX, after, rows=rows, rng=generator(2)).share[1:].tolist() == [
            pooled.line_empty_share
        ] * (providers - 1)


@pytest.mark.parametrize("strict", [0.0, 0.4])
@pytest.mark.parametrize("groups", [None, ["a", "b", "b", "c", "d"]])
def test_a_share_is_the_mean_over_panels_paid_separately(groups: Any, strict: float) -> None:
    """Every panel of every split is paid as a separate round, contradicting or not, for any report."""
    single, split = (troth.LineUp(decoys=inf, strict=strict, panels=count) for count in (1, 2))
    contradicted = 0
    for seed in range(8):
        model, rng = random_model(seed), generator(seed, 5)
        possible = [model.statistics([symbol]) for symbol in range(3) if any(row[symbol] for row in model.likelihood)]
        t = np.stack([possible[i] for i in rng.integers(0, len(possible), 5)])
        share = split.explain(model, t, rows=np.ones(5), groups=groups, rng=generator(1)).share
        for provider in range(5):
            peers = [j for j in range(5) if (groups or range(5))[j] != (groups or range(5))[provider]]
            splits = [len(peers) // 2] if len(peers) % 2 == 0 else [len(peers) // 2, len(peers) // 2 + 1]
            paid = []
            for size in splits:
                rounds = np.stack([t[[provider, *panel]] for panel in combinations(peers, size)])
                alone = single.explain(model, rounds, rows=np.ones(rounds.shape[:-1]))
                contradicted += int(np.sum(alone.noted))
                paid.append(alone.share[:, 0].mean())
            assert share[provider] == pytest.approx(np.mean(paid), abs=1e-12)
    assert contradicted > 20


def test_a_report_does_not_decide_whether_a_panel_of_peers_contradicts() -> None:
    """Two peers report 1 and two report 2: which pairs contradict each other does not depend on the fifth report."""
    rows = np.full(5, 1.0)
    paid = []
    for own in ([0], [1], [2], []):
        t = np.stack([TWO.statistics(x) for x in (own, [1], [2], [1], [2])])
        result = troth.LineUp(decoys=inf, panels=2).explain(TWO, t, rows=rows, rng=generator(1))
        paid.append(result.terms["contradicting"][0])
    assert paid == pytest.approx([4 / 6] * 4)  # four of six pairs of peers contradict each other


@pytest.mark.parametrize("strict", [0.0, 0.3])
@pytest.mark.parametrize("dealt", [False, True])
def test_panels_are_exactly_truthful_under_models_with_zeros(
    dealt: bool, strict: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All truths, reports and peers; the mean over all splits, or over all permutations that deal peers out."""
    seeds: dict[tuple[int, ...], int] = {}
    if dealt:
        monkeypatch.setattr(panels, "_MAX_ENUMERATED", 0)
        for seed in range(60):
            seeds.setdefault(tuple(np.random.default_rng(seed).permutation(3)), seed)
        assert len(seeds) == 6
    rule = troth.LineUp(rivals=2, decoys=inf, panels=2, strict=strict)

    def pay(provider_models: Any, t: Any) -> Any:
        rows = np.ones(t.shape[:-1])
        rounds = [
            Round(provider_models[0], t, rows=rows, rng=np.random.default_rng(seed)) for seed in seeds.values() or [0]
        ]
        return np.mean([rule.evaluate(this_round).share for this_round in rounds], axis=0)

    gains = [worst_gain(World([random_model(seed)] * 4, [1] * 4), pay) for seed in range(2 if dealt else 6)]
    assert max(gains) <= 1e-12


def test_explanation_of_contradicting_panels() -> None:
    """The place shown is that of an empty report, so the share follows from it as usual."""
    _, t = attacked(5)
    rows = np.full(5, 2.0)
    for rule in (troth.LineUp(decoys=99, panels=2), troth.Bonded(troth.LineUp(decoys=99, panels=2, strict=0.2))):
        result = rule.evaluate(Round(SIX, t, rows=rows, rng=generator(3)))
        figures = result.at(1, empty_share=0.2)
        shown: Any = rule.share_shown(disclosed(rule, figures))
        assert shown.low <= figures.share <= shown.high
        text = " ".join(step.meaning for step in rule.steps(figures))
        assert "In 50% of the panels your peers contradict each other" in text
        assert "contradict" not in " ".join(step.meaning for step in rule.steps(result.at(0, empty_share=0.2)))


@pytest.mark.parametrize("bonded", [False, True])
def test_days_and_the_last_day_of_a_campaign(bonded: bool) -> None:
    """Later days as decoys, and a line-up on the last day of a multi-day rule: contradictions stay in their panel."""
    before, after = attacked(5)
    quiet = np.stack([SIX.statistics([0, 0])] * 5)
    rows = np.full((4, 5), 2.0)
    rule: Any = troth.LineUp(rivals=2, decoys=3, panels=4, source="days")
    rule = troth.Bonded(rule) if bonded else rule
    days = [np.stack([first, quiet, before, before]) for first in (before, after)]
    honest, hit = (rule.explain(SIX, t, rows=rows, rng=generator(1)).share for t in days)
    stretched = 1 / 4 / (1 - 1 / 3) if bonded else 1 / 4
    assert np.abs(honest - hit)[0, 1:].max() <= stretched + 1e-12
    multi = troth.MultiDay(last=troth.LineUp(decoys=99, panels=4))
    days = [np.stack([before, last]) for last in (before, after)]
    honest, hit = (multi.explain(SIX, t, rows=rows[:2], rng=generator(1)).share for t in days)
    assert np.abs(honest - hit)[1, 1:].max() <= 1 / 4 + 1e-12
