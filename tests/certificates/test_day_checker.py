"""Every family can be paid as certified, under every rule; and days with different features are distinguished."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import troth
from certificates.day_checker import FAMILIES, PAIRS, ROWS, wrongly_certified
from registry import SOAK, generator
from troth import divergences, models
from troth.core.contract import ComparedDesign
from troth.core.information import log_pmi
from troth.mechanisms import RULES
from troth.models.shared.varying_providers import RandomEffects

DAYS: dict[str, troth.Rule] = {
    "MultiDay": troth.MultiDay(),
    "LineUp over days": troth.LineUp(rivals=1, decoys=1, source="days"),
}
ONE_DAY = {name: kind().drawing(2) for name, kind in RULES.items() if kind().days == 1} if SOAK else {}
FEATURED = {name: model for name, model in FAMILIES.items() if getattr(model, "explains_target", False)}


@pytest.mark.parametrize("name", [*DAYS, *ONE_DAY])
def test_what_is_certified_can_be_paid(name: str) -> None:
    rule = {**DAYS, **ONE_DAY}[name]
    assert {family: wrong for family, model in FAMILIES.items() if (wrong := wrongly_certified(model, rule))} == {}


@pytest.mark.parametrize("rule", DAYS.values(), ids=DAYS)
def test_days_that_differ_in_what_answers_show_were_certified_and_never_paid(
    rule: troth.Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plant a bug: the spread of a provider's rows must be the same on both days."""

    def with_spread(model: Any, statistics: Any) -> ComparedDesign:
        return ComparedDesign(model.design(statistics), np.zeros_like(model.design(statistics)))

    monkeypatch.setattr(RandomEffects, "compared_design", with_spread)
    monkeypatch.setattr(models.VaryingLinearRegression, "compared_design", with_spread)
    for name in ("varying normal", "regression, varying"):
        assert wrongly_certified(FAMILIES[name], rule) == ["payable"]


@pytest.mark.parametrize("rule", DAYS.values(), ids=DAYS)
def test_features_that_nobody_compares_go_red(rule: troth.Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a bug: only numbers of rows are compared, although there are features."""
    assert troth.certify(PAIRS, [ROWS] * 3, rule)["payable"].verdict == "refuted"
    for model in FEATURED.values():
        monkeypatch.setattr(type(model), "compared_design", lambda _, statistics: ComparedDesign.rows_only(statistics))
    for name in (
        "regression",
        "regression, varying",
        *(["candidates with features"] if rule.name == "MultiDay" else []),
    ):
        assert wrongly_certified(FAMILIES[name], rule) == ["truthful"], name


def test_candidates_with_features_need_to_be_declared_exchangeable() -> None:
    """With five rows on both days, but features of .05 and 5, a fake gained 6% of the cap without any data."""
    rng, f = generator(5), divergences.logistic
    fake = PAIRS.statistics(([[5.0]] * 3, [1.0, 1.0, 1.0]))
    draws = []
    for feature in (0.05, 5.0):
        z = np.full((5, 1), feature)
        theta = PAIRS.draw_parameters(rng, (800,))
        draws.append(2 * PAIRS.draw_with_features(rng, theta, z))
    today, tomorrow = (log_pmi(PAIRS, fake, t) for t in draws)
    gain = (f.mismatched(tomorrow) + f.matched(today) - f.empty_score) / (f.high - f.low)
    assert gain.mean() - 6 * gain.std() / np.sqrt(len(gain)) > 0.02
    t = np.array([[PAIRS.statistics((np.full((5, 1), z), np.ones(5))) for _ in range(3)] for z in (0.05, 5.0)])
    rows = np.full((2, 3), 5.0)
    for rule in DAYS.values():
        with pytest.raises(troth.MissingCapabilityError, match="exchangeable=True"):
            rule.pay(PAIRS, t, budget=1.0, rows=rows, rng=generator(1))
    declared = troth.MultiDay(exchangeable=True)
    assert declared.pay(PAIRS, t, budget=1.0, rows=rows).shape == (2, 3)
    assert troth.certify(PAIRS, [5] * 3, declared)["truthful"].verdict == "proved"


def test_equal_rows_are_all_that_days_of_values_need() -> None:
    """Providers that differ, each with a spread of its own on each day: neither a fake nor a lie gains.

    Declared: 4,000 rounds, five standard errors.
    """
    model, rng, f = models.VaryingNormal(0, 2, 1), generator(6), divergences.logistic
    theta = [model.draw_parameters(rng, (4000,)) for _ in range(2)]
    peers = [
        model.statistics(model.draw_data(rng, parameters, 6)) + model.statistics(model.draw_data(rng, parameters, 3))
        for parameters in theta
    ]
    own = model.draw_data(rng, theta[0], 4)

    def score(report: Any) -> Any:
        same, other = (log_pmi(model, np.broadcast_to(report, day.shape), day) for day in peers)
        return (f.mismatched(other) + f.matched(same)) / (f.high - f.low)

    def gains(over: Any) -> bool:
        return bool(over.mean() > 5 * over.std() / np.sqrt(len(over)))

    truth, nothing = score(model.statistics(own)), f.empty_score / (f.high - f.low)
    assert gains(truth - nothing)
    assert not gains(score(model.statistics(np.linspace(-0.5, 0.5, 4))) - nothing)
    for lie in (own + 1.0, 2 * own, own[:, :2], np.repeat(own, 3, axis=1)):
        assert not gains(score(model.statistics(lie)) - truth)


@pytest.mark.parametrize("name", FEATURED)
def test_rounding_is_not_taken_for_other_features(name: str) -> None:
    """The same features in another order, of any size, with other answers; and those that are other by a millionth."""
    model, rng = FEATURED[name], generator(10)
    if model is PAIRS:
        return
    counts = "poisson" in name
    for size in 10 ** rng.uniform(-3, 0.5 if counts else 3, 20 if SOAK else 6):
        z = size * rng.normal(size=(20, 2))
        y = (rng.random((2, 20)) < 0.5) * 1.0
        shuffled = rng.permutation(20)
        today = model.statistics((z, y[0]))
        same, other = model.statistics((z[shuffled], y[1])), model.statistics((z * (1 + 1e-6), y[1]))
        rows = np.full((2, 1), 20.0)

        def compare(tomorrow: Any, today: Any = today, rows: Any = rows) -> Any:
            return troth.MultiDay().explain(model, np.array([[today] * 2, [tomorrow] * 2]), rows=rows)

        assert not compare(same).note, size
        with pytest.raises(troth.UnequalSizesError):
            compare(other)


def test_features_that_are_all_but_orthogonal_are_the_same_in_another_order() -> None:
    model = models.LinearRegression([0, 0], np.eye(2), 1.0)
    z = np.array([[0.1, 0.3], [0.1, -0.3], [-0.1, 0.3], [-0.1, -0.3], [0.7, 0], [-0.7, 1e-9]])
    y = generator(11).normal(size=(2, 3, 6))
    orders = ([0, 1, 2, 3, 4, 5], [3, 1, 5, 0, 2, 4])
    t = [[model.statistics((z[order], answers)) for answers in day] for order, day in zip(orders, y, strict=True)]
    assert not troth.MultiDay().explain(model, np.array(t)).note
