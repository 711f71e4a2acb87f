"""Exact truthfulness: no report gains more than 1e-12 of the cap, and the same test catches broken variants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import troth
from mechanisms.exact import (
    World,
    bernoulli_world,
    finite_world,
    one_model,
    paid_by,
    worst_gain,
    worst_gain_over_two_days,
)
from registry import SOAK
from troth import divergences
from troth.core.information import log_pmi
from troth.mechanisms.breakdown import normalise
from troth.mechanisms.score_range import _extremes

TOLERANCE = 1e-12
WORLDS = 2000 if SOAK else 500
PARTS = 20
SOME, FEW = (PARTS, PARTS) if SOAK else (2, 1)
"""Parts for rules whose enumeration takes long, and for their variants."""


def worlds(
    part: int, kinds: tuple[tuple[bool, bool], ...] = ((False, False), (False, True), (True, False), (True, True))
) -> list[World]:
    """Every twentieth of the random finite worlds, and a few Beta-Bernoulli grids."""
    seeds = range(part, WORLDS // 4, PARTS)
    return [finite_world(seed, zeros, different) for seed in seeds for zeros, different in kinds] + [
        bernoulli_world(part)
    ]


def fair(world: World) -> Any:
    return one_model(world.models)


def informative(world: World) -> bool:
    try:
        troth.clipped_range(fair(world), world.rows)
    except troth.UnboundedRangeError:
        return False
    return True


@pytest.mark.parametrize("part", range(SOME))
def test_one_time_with_exact_and_paper_range(part: int) -> None:
    for world in filter(informative, worlds(part)):
        assert worst_gain(world, paid_by(troth.OneTime(troth.exact_range(fair(world), world.rows)))) <= TOLERANCE
        if isinstance(world.models[0], troth.models.Finite):
            assert worst_gain(world, paid_by(troth.OneTime(troth.paper_range(fair(world), world.rows)))) <= TOLERANCE


@pytest.mark.parametrize("low", [-0.1, -1.0, -3.0])
def test_clipped_range_gains_at_most_epsilon(low: float, record_property: Any) -> None:
    closest = 0.0
    for part in range(FEW):
        for world in filter(informative, worlds(part)):
            scale = troth.clipped_range(fair(world), world.rows, low=low)
            gain = worst_gain(world, paid_by(troth.OneTime(scale)))
            assert gain <= scale.epsilon_share + TOLERANCE
            closest = max(closest, gain / scale.epsilon_share)
    record_property("share of epsilon reached", closest)
    print(f"low = {low}: the worst lie reaches {closest:.1%} of its certified gain")
    assert closest > (0.01 if low < -2 else 0.1)  # the bound is not vacuous


@pytest.mark.parametrize(
    ("divergence", "part"),
    [
        (divergence, part)
        for divergence in [*divergences.ALL.values(), divergences.power(1.3)]
        for part in range(SOME if divergence == divergences.logistic else FEW)
    ],
    ids=str,
)
def test_multi_day(part: int, divergence: Any) -> None:
    rule = troth.MultiDay(divergence=divergence)
    for world in worlds(part):
        rows = np.array(world.rows, dtype=float)
        assert worst_gain_over_two_days(world, lambda given, t: share(rule, given, t, rows)) <= TOLERANCE  # noqa: B023


def share(rule: troth.Rule, provider_models: list[Any], t: Any, rows: Any) -> Any:
    return rule.explain(one_model(provider_models), t, rows=rows).share


@pytest.mark.parametrize(
    ("divergence", "part"),
    [(divergences.logistic, part) for part in range(PARTS)] + [(divergences.le_cam, part) for part in range(SOME)],
    ids=str,
)
def test_synthetic_peers_in_exact_expectation(part: int, divergence: Any) -> None:
    """Drawn peers are distributed like real peers, so the expectation over draws is a sum over all peers' data."""
    for world in worlds(part):
        for provider in range(len(world.models)):
            peers, _ = world.peers(provider)
            marginal, conditional = world.beliefs(provider)
            pooled, model = peers.sum(axis=1), world.models[0]

            def expected(own: Any) -> Any:
                s = log_pmi(model, own[:, None], pooled[None])  # noqa: B023
                score = (divergence.mismatched(s) @ marginal)[:, None] + divergence.matched(s)  # noqa: B023
                return normalise(score, divergence.low, divergence.high)

            reports, _ = world.reports(provider)
            truths, _ = world.reports(provider, every_size=False)
            gain = conditional @ expected(reports).T - (conditional * expected(truths)).sum(axis=1)[:, None]
            assert gain.max() <= TOLERANCE


@pytest.mark.parametrize(
    ("form", "part"),
    [(form, part) for form in ("unordered", "paper") for part in range(SOME if form == "unordered" else FEW)],
)
def test_brier(part: int, form: Any) -> None:
    """In rare cases log-likelihoods do not determine numbers of rows, and the rule asks for them."""
    asked = 0
    for world in worlds(part):
        try:
            assert worst_gain(world, paid_by(troth.Brier(form))) <= TOLERANCE
        except troth.MissingCapabilityError:
            asked += 1
            assert any(0.0 in row or max(row) > 0.9 for model in world.models for row in model.likelihood)
    assert asked <= len(worlds(part)) / 4


@pytest.mark.parametrize("inner", ["one time", "brier"])
def test_bonds_keep_rules_truthful(inner: str) -> None:
    for world in filter(informative, worlds(0) + worlds(1, kinds=((False, True),))):
        certain = any(max(row) > 1 - 1e-9 for model in world.models for row in getattr(model, "likelihood", ()))
        if inner == "brier" and certain:
            continue
        rule = troth.Brier() if inner == "brier" else troth.OneTime(troth.exact_range(fair(world), world.rows))
        assert worst_gain(world, paid_by(troth.Bonded(rule))) <= 1e-10


def test_log_pmi_rule() -> None:
    for world in worlds(0, kinds=((False, False), (False, True))):
        assert (
            worst_gain(world, lambda provider_models, t: troth.LogPmiRule().pay(one_model(provider_models), t))
            <= TOLERANCE * 50
        )


# --- the broken variants, caught by the same tests ---


def caught(gains: list[float]) -> int:
    return sum(gain > 1e-6 for gain in gains)


def test_e5_exact_range_without_the_margin_is_caught() -> None:
    gains = []
    for part in range(PARTS):
        for world in filter(informative, worlds(part, kinds=((True, False), (True, True)))):
            extremes = _extremes(fair(world), world.rows, None)
            if any(e.impossible for e in extremes):
                scale = troth.ScoreRange(min(e.low for e in extremes), max(e.high for e in extremes))
                gains.append(worst_gain(world, paid_by(troth.OneTime(scale))))
    assert len(gains) > 50
    assert caught(gains) > len(gains) / 10


def test_e6_paying_nothing_for_pmi_zero_over_days_is_caught() -> None:
    def pay(provider_models: list[Any], t: Any) -> Any:
        result = troth.MultiDay(exchangeable=True).explain(one_model(provider_models), t)
        assert result.log_pmi is not None
        hopeless = np.isneginf(result.log_pmi) | np.isneginf(result.terms["next_day_log_pmi"])
        return np.where(hopeless, 0.0, result.share)

    gains = [worst_gain_over_two_days(w, pay) for part in range(3) for w in worlds(part, kinds=((True, False),))]
    assert caught(gains) >= 2


def test_e7_pmi_instead_of_its_inverse_is_caught() -> None:
    class Inverted(divergences.Logistic):
        def matched(self, log_pmi: Any) -> Any:
            return super().matched(-log_pmi)

        def mismatched(self, log_pmi: Any) -> Any:
            return super().mismatched(-log_pmi)

    rule = troth.MultiDay(divergence=Inverted(), exchangeable=True)
    gains = [
        worst_gain_over_two_days(w, paid_by(rule)) for part in range(4) for w in worlds(part, kinds=((False, False),))
    ]
    assert caught(gains) > len(gains) / 2


def test_e9_the_realised_range_is_caught() -> None:
    def pay(provider_models: list[Any], t: Any) -> Any:
        s = np.maximum(troth.peer_log_pmi(one_model(provider_models), t), -50)
        low, high = s.min(axis=-1, keepdims=True), s.max(axis=-1, keepdims=True)
        return (s - low) / np.where(high > low, high - low, 1.0)

    gains = [worst_gain(world, pay) for part in range(4) for world in worlds(part, kinds=((False, False),))]
    assert caught(gains) > len(gains) / 2


def test_e10_unequal_sizes_make_faking_pay_and_are_refused() -> None:
    """A provider without data, one peer row today and twenty tomorrow: the exact gain of a fake report."""
    model = troth.models.Bernoulli(1, 1)
    f = divergences.logistic

    def outcomes(rows: int) -> tuple[Any, Any]:
        ones = np.arange(rows + 1.0)
        return np.stack([ones, rows - ones], axis=-1), np.full(rows + 1, 1 / (rows + 1))

    (today, p_today), (tomorrow, p_tomorrow) = outcomes(1), outcomes(20)
    fakes = np.array([[a, b] for a in range(30) for b in range(30)], dtype=float)
    score = f.mismatched(log_pmi(model, fakes[:, None], tomorrow)) @ p_tomorrow
    score = score + f.matched(log_pmi(model, fakes[:, None], today)) @ p_today
    gain = (score - f.empty_score) / (f.high - f.low)
    assert gain.max() > 0.05
    days = np.array([[[0, 0], [1, 0], [1, 0]], [[0, 0], [11, 9], [11, 9]]], dtype=float)
    with pytest.raises(troth.UnequalSizesError, match="no provider has the same .* 1 has 1 rows, but 20 on day 1"):
        troth.MultiDay().pay(model, days, budget=1.0)
    assert troth.MultiDay(exchangeable=True).pay(model, days, budget=1.0).shape == (2, 3)
    one_peer = troth.MultiDay().explain(model, days[:, :2]).share
    assert np.all(one_peer[0] == f.empty_share)


def test_synthetic_peers_agree_with_their_exact_expectation() -> None:
    """With many draws, the rule agrees with the exact expectation over peers' data within 6 standard errors."""
    world = finite_world(3, zeros=False, different=True)
    rule = troth.SyntheticPeers(draws=20_000)
    t = np.stack([world.reports(i, every_size=False)[0][0] for i in range(len(world.models))])
    drawn_term = rule.explain(world.models, t, rng=np.random.default_rng(1)).terms["drawn_peers"]
    for provider in range(len(world.models)):
        peers, _ = world.peers(provider)
        marginal, _ = world.beliefs(provider)
        values = divergences.logistic.mismatched(log_pmi(world.models[0], t[provider], peers.sum(axis=1)))
        mean = values @ marginal
        error = np.sqrt((values - mean) ** 2 @ marginal / rule.draws)
        assert abs(drawn_term[provider] - mean) < 6 * error + 1e-12


def test_the_worlds_are_varied() -> None:
    seen = [world for part in range(PARTS) for world in worlds(part)]
    finite = [world for world in seen if isinstance(world.models[0], troth.models.Finite)]
    assert len(finite) >= 500
    assert {len(w.models[0].prior) for w in finite} == {2, 3, 4}
    assert {len(w.models) for w in finite} == {2, 3}
    assert {n for w in finite for n in w.rows} == {1, 2, 3}
