"""Invariants of payments for every input, and the interface of every rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

import troth
from registry import EXAMPLES, SOAK, generator
from troth import divergences, models
from troth.core.information import log_pmi

BOUNDED: dict[str, Any] = {
    "bernoulli": models.Bernoulli(1, 2),
    "categorical": models.Categorical([1, 0.5, 2]),
    "finite": EXAMPLES["finite"],
    "finite with zeros": EXAMPLES["finite with zeros"],
    "poisson": models.Poisson(2, 1),
    "normal": models.Normal(0.3, 1.7, 0.9),
    "gamma": models.Gamma(2, 3, 1.5),
}
VALUES = {"poisson": (0.0, 9.0), "normal": (-4.0, 5.0), "gamma": (0.1, 6.0)}
ANY: dict[str, Any] = {
    **BOUNDED,
    **{name: EXAMPLES[name] for name in EXAMPLES if "unknown" in name or "regression" in name},
}
ROWS = 4


def random_reports(name: str, providers: int, seed: int) -> Any:
    """Reports that need not come from any common θ, some of them equal."""
    model, rng = ANY[name], generator(seed, providers)
    t = []
    for _ in range(providers):
        data = model.draw_data(rng, model.draw_parameters(rng), int(rng.integers(0, ROWS + 1)))
        t.append(model.statistics(np.clip(data, *VALUES[name]) if name in VALUES else data))
    t[-1] = t[0]
    return np.stack(t)


def rules(name: str) -> list[troth.Rule]:
    all_rules: list[troth.Rule] = [
        troth.SyntheticPeers(draws=5),
        troth.SyntheticPeers(draws=3, divergence=divergences.le_cam),
    ]
    if name in BOUNDED:
        rows, values = [ROWS] * 8, VALUES.get(name)
        all_rules.append(troth.OneTime(troth.exact_range(BOUNDED[name], rows, values=values)))
        all_rules.append(troth.OneTime(troth.clipped_range(BOUNDED[name], rows, values=values, low=-2)))
    if name in ("bernoulli", "finite"):
        all_rules += [troth.Brier(), troth.Brier("paper")]
    return all_rules


def paid(rule: troth.Rule, name: str, t: Any, **options: Any) -> Any:
    return rule.pay(ANY[name], t, budget=17.3, rng=generator(1), **options)


def rows_of(name: str, t: Any) -> Any:
    return ANY[name].rows(t)


@settings(max_examples=300 if SOAK else 15, deadline=None)
@given(
    name=st.sampled_from(sorted(ANY)),
    providers=st.integers(2, 8),
    seed=st.integers(0, 10**9),
    shuffle=st.randoms(use_true_random=False),
    grouped=st.booleans(),
    weighted=st.booleans(),
)
def test_payments_for_every_input(
    name: str, providers: int, seed: int, shuffle: Any, grouped: bool, weighted: bool
) -> None:
    t = random_reports(name, providers, seed)
    groups = [shuffle.randrange(3) for _ in t] if grouped else list(range(providers))
    groups[-1] = groups[0] if grouped else groups[-1]
    weights = generator(seed).dirichlet(np.ones(providers)) if weighted else np.full(providers, 1 / providers)
    weights[-1] = weights[0]
    weights /= weights.sum()
    order = list(range(providers))
    shuffle.shuffle(order)
    for rule in rules(name):
        pay = paid(rule, name, t, groups=groups, weights=weights)
        assert (pay >= 0).all()
        assert (pay <= rule.cap(providers, budget=17.3, weights=weights)).all()
        assert pay.sum() <= 17.3
        assert pay[0] == pay[-1]  # equal reports, equal payments
        again = paid(rule, name, t[order], groups=[groups[i] for i in order], weights=weights[order])
        assert np.array_equal(again, pay[order])


@settings(max_examples=100 if SOAK else 8, deadline=None)
@given(
    name=st.sampled_from(sorted(ANY)),
    days=st.integers(1, 4),
    seed=st.integers(0, 10**9),
    divergence=st.sampled_from(sorted(divergences.ALL)),
)
def test_payments_over_days_for_every_input(name: str, days: int, seed: int, divergence: str) -> None:
    t = np.stack([random_reports(name, 5, seed + day) for day in range(days)])
    rule = troth.MultiDay(divergence=divergences.ALL[divergence], exchangeable=True)
    budget = np.linspace(1.0, 2.0, days)
    pay = rule.pay(ANY[name], t, budget=budget)
    assert pay.shape == (days, 5)
    assert (pay >= 0).all()
    assert (pay <= budget[:, None] / 5).all()
    assert (pay.sum(axis=1) <= budget).all()
    assert np.allclose(pay[-1], budget[-1] / 5)
    order = generator(seed).permutation(5)
    assert np.array_equal(rule.pay(ANY[name], t[:, order], budget=budget), pay[:, order])
    assert np.array_equal(pay[:, 0], pay[:, -1])


def test_full_shares_do_not_exceed_the_budget_by_rounding() -> None:
    class Everything(troth.Rule):
        def breakdown(self, this_round: troth.Round) -> troth.Breakdown:
            return troth.Breakdown(np.ones(this_round.own.shape[:-1]))

    for providers in (3, 7, 11, 1001):
        for budget in (0.1, 1.0, 1e9 / 3):
            assert Everything().pay(models.Bernoulli(1, 1), np.zeros((providers, 2)), budget=budget).sum() <= budget


def test_a_custom_rule_is_one_method() -> None:
    """As in the documentation: pay half of the cap to providers who agree with their peers."""

    class Agreement(troth.Rule):
        def breakdown(self, this_round: troth.Round) -> troth.Breakdown:
            log_pmi = this_round.log_pmi()
            return troth.Breakdown(share=np.where(log_pmi > 0, 0.5, 0.0), log_pmi=log_pmi)

    model = models.Bernoulli(1, 1)
    t = np.array([[3.0, 0.0], [4.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    rule = Agreement()
    assert np.allclose(rule.pay(model, t, budget=8.0), [1, 1, 0, 0])
    assert np.allclose(rule.empty_share(model, t), 0)
    assert "share of the cap: 50.00%" in rule.explain(model, t).explain(0)
    assert np.allclose(troth.Bonded(rule).pay(model, t, budget=8.0), [1, 1, 0, 0])


def test_a_rule_that_pays_too_much_is_stopped() -> None:
    class Generous(troth.Rule):
        def breakdown(self, this_round: troth.Round) -> troth.Breakdown:
            return troth.Breakdown(np.array([0.5, 1.5]))

    with pytest.raises(troth.ScoreOutOfRangeError, match=r"provider 1: share of the cap 1.5 is outside \[0, 1\]"):
        Generous().pay(models.Bernoulli(1, 1), np.zeros((2, 2)), budget=1.0)


def test_an_out_of_range_score_names_the_provider() -> None:
    model = models.Bernoulli(1, 1)
    rule = troth.OneTime(troth.exact_range(model, [3, 3, 3]))
    t = np.array([[0.0, 3.0], [0.0, 3.0], [30.0, 0.0]])
    scores = troth.peer_log_pmi(model, t)
    with pytest.raises(troth.UnpayableRoundError, match=r"provider 2: .*score .* declared rows") as caught:
        rule.pay(model, t, budget=1.0)
    first = caught.value.__cause__
    assert isinstance(first, troth.ScoreOutOfRangeError)
    assert scores[first.provider] < rule.score_range.low


def test_one_time_is_the_formula() -> None:
    model = models.Bernoulli(2, 1)
    t = np.array([[3.0, 0.0], [2.0, 1.0], [1.0, 2.0]])
    scale = troth.ScoreRange(-5, 3)
    groups = ["a", "a", "b"]
    for labels, weights in ((None, None), (groups, None), (None, [0.5, 0.25, 0.25])):
        payments = troth.OneTime(scale).pay(model, t, budget=10.0, groups=labels, weights=weights)
        for i in range(3):
            peers = sum(t[j] for j in range(3) if (j != i if labels is None else labels[j] != labels[i]))
            cap = 10 / 3 if weights is None else 10 * weights[i]
            assert payments[i] == pytest.approx(cap * (float(log_pmi(model, t[i], peers)) + 5) / 8, rel=1e-12)


def test_multi_day_is_the_formula() -> None:
    model = models.Poisson(2, 1)
    t = np.array([[[2.0, 3], [2, 4], [2, 9]], [[2, 1], [2, 0], [2, 5]], [[2, 7], [2, 6], [2, 5]]])
    last = troth.OneTime(troth.ScoreRange(-20, 5))
    payments = troth.MultiDay(last=last).pay(model, t, budget=[3.0, 6.0, 9.0])

    def sigmoid(x: float) -> float:
        return float(1 / (1 + np.exp(-x)))

    for day in range(2):
        for i in range(3):
            other, same = (t[d].sum(axis=0) - t[d, i] for d in (day + 1, day))
            u, v = (1 / np.exp(float(log_pmi(model, t[day, i], peers))) for peers in (other, same))
            score = sigmoid(u) - (v * sigmoid(v) - np.log1p(np.exp(v)))
            share = (score - 0.5) / (0.5 + np.log(2))
            assert payments[day, i] == pytest.approx([3, 6][day] / 3 * share, rel=1e-12)
    assert np.allclose(payments[2], last.pay(model, t[2], budget=9.0))


@pytest.mark.parametrize(
    "divergence", [*divergences.ALL.values(), divergences.power(1.5), divergences.power(6)], ids=repr
)
def test_divergences_against_their_definition(divergence: Any) -> None:
    """Matched is f − u·f′, with f the integral of f′; ends are limits; the range is sharp; empty reports score f(1)."""
    derivative = divergence.mismatched
    for s in (-2.0, -0.5, 0.3, 1.0, 3.0):
        u = np.exp(-s)
        area, _ = integrate.quad(
            lambda v: float(derivative(np.array(-np.log(v)))), 1e-12, u, points=[min(1.0, u)], limit=200
        )
        start = {"logistic": np.log(2), "le_cam": 1.0, "total_variation": 0.5, "power": 0.0}[divergence.name]
        expected = start + area - u * float(derivative(np.array(s)))
        assert float(divergence.matched(np.array(s))) == pytest.approx(expected, abs=1e-6)
    ends = np.array([-np.inf, np.inf])
    assert divergence.matched(ends)[0] + divergence.mismatched(ends)[1] == pytest.approx(divergence.low)
    assert divergence.matched(ends)[1] + divergence.mismatched(ends)[0] == pytest.approx(divergence.high)
    near = np.linspace(-40, 40, 4001)
    for term in (divergence.matched(near), -divergence.mismatched(near)):
        assert (np.diff(term) >= -1e-12).all()
    assert divergence.strictly_convex == bool((np.diff(divergence.mismatched(near[1900:2100])) < 0).all())
    assert divergence.empty_share >= 0.5 - 1e-12
    assert np.isfinite(divergence.matched(np.array([-1e300, 1e300, -745.2, 800.0]))).all()


def test_every_rule_says_what_nothing_earns() -> None:
    model = models.Bernoulli(1, 1)
    t = np.array([[3.0, 1.0], [2.0, 2.0], [4.0, 0.0]])
    for rule in rules("bernoulli"):
        empty_shares = rule.empty_share(model, t, rng=generator(1))
        for i in range(3):
            without = t.copy()
            without[i] = 0
            actual = rule.explain(model, without, rng=generator(1)).share[i]
            assert empty_shares[i] == pytest.approx(actual, abs=1e-12)
    days = np.stack([t, t[::-1]])
    empty_shares = troth.MultiDay(last=troth.OneTime(troth.ScoreRange(-9, 3))).empty_share(model, days)
    assert empty_shares[0] == pytest.approx((np.log1p(np.e) - 0.5) / (0.5 + np.log(2)))
    assert empty_shares[1] == pytest.approx(0.75)


def test_breakdowns_explain_a_payment_with_its_numbers() -> None:
    model = models.Bernoulli(1, 1)
    t = np.array([[3.0, 1.0], [2.0, 2.0], [4.0, 0.0]])
    breakdown = troth.SyntheticPeers(draws=9).explain(model, t, rng=generator(2))
    text = breakdown.explain(1)
    for words in (
        "log PMI with peers",
        "term of the drawn peers",
        "term of the peers",
        "on a scale from 0.5000 to 1.6931",
    ):
        assert words in text
    assert breakdown.score is not None
    assert breakdown.score[1] == pytest.approx(sum(term[1] for term in breakdown.terms.values()))
    days = troth.MultiDay().explain(model, np.stack([t, t]))
    assert "next day's peers" in days.explain(0, 2)
    assert "share of the cap: 100.00%" in days.explain(1, 2)


@pytest.mark.parametrize("name", EXAMPLES)
def test_synthetic_peers_serve_every_family_from_statistics_alone(name: str) -> None:
    model: Any = EXAMPLES[name]
    rng = generator(3)
    theta = model.draw_parameters(rng)
    sizes = (3, 5, 2, 4)
    t = np.stack([model.statistics(model.draw_data(rng, theta, rows)) for rows in sizes])
    sizes_passed: Any = None
    if name.startswith("day types"):
        with pytest.raises(troth.MissingCapabilityError, match="rows="):
            troth.SyntheticPeers().pay(model, t, budget=1.0, rng=generator(1))
        sizes_passed = sizes
    rule = troth.SyntheticPeers(draws=7)
    first, second = (rule.pay(model, t, budget=4.0, rng=generator(9), rows=sizes_passed) for _ in range(2))
    assert first.tobytes() == second.tobytes()
    assert first.tobytes() != rule.pay(model, t, budget=4.0, rng=generator(10), rows=sizes_passed).tobytes()
    rows = None if sizes_passed is None else np.stack([sizes, sizes[::-1]])
    many = rule.pay(model, np.stack([t, t[::-1]]), budget=4.0, rng=generator(9), rows=rows)
    assert many.shape == (2, 4)


def test_synthetic_peers_take_rows_if_statistics_do_not_contain_them() -> None:
    certain = models.Finite([0.5, 0.5], [[1.0, 0.0], [0.5, 0.5]])
    t = np.stack([certain.statistics([0] * 40)] * 3)
    same = models.Finite([0.5, 0.5], [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]])
    ambiguous = np.stack([same.statistics([0, 1] * 10)] * 3)
    for model, reports, rows in ((certain, t, 40), (same, ambiguous, 20)):
        if model is same:
            with pytest.raises(troth.MissingCapabilityError, match="rows="):
                troth.SyntheticPeers().pay(model, reports, budget=1.0, rng=generator(1))
        assert troth.SyntheticPeers().pay(model, reports, budget=1.0, rng=generator(1), rows=[rows] * 3).shape == (3,)


def test_every_rule_that_draws_asks_for_a_generator() -> None:
    model = models.Bernoulli(1, 1)
    t = np.array([[3.0, 1.0], [2.0, 2.0], [1.0, 3.0]])
    last = troth.MultiDay(last=troth.SyntheticPeers())
    for rule in (troth.LineUp(), troth.SyntheticPeers(), troth.Bonded(troth.LineUp()), last):
        with pytest.raises(
            troth.MissingCapabilityError, match=f"{type(rule).__name__}.* draws random numbers: pass rng="
        ):
            rule.pay(model, t if rule.days == 1 else np.stack([t, t]), budget=1.0)
    assert troth.LineUp(decoys=float("inf")).pay(model, t, budget=1.0).shape == (3,)


def test_bonds_hold_back_what_is_paid_for_nothing() -> None:
    model = models.Bernoulli(1, 1)
    rng = generator(4)
    theta = model.draw_parameters(rng, (20_000, 1))
    honest = model.draw_statistics(rng, theta, np.full((6, 1), 20.0))
    fake = honest.copy()
    fake[:, 0] = model.draw_statistics(rng, model.draw_parameters(rng, (20_000,)), np.array([20.0]))
    inner = troth.OneTime(troth.clipped_range(model, [20] * 6))
    rule = troth.Bonded(inner)
    deposit = rule.deposit(model, honest, budget=6.0)
    truth, lie = (rule.pay(model, t, budget=6.0)[:, 0] for t in (honest, fake))
    assert truth.mean() > 10 * truth.std() / np.sqrt(len(truth))
    assert lie.mean() < -10 * lie.std() / np.sqrt(len(lie))
    assert (truth >= -deposit[:, 0] - 1e-12).all()
    assert (rule.pay(model, honest, budget=6.0).sum(axis=1) <= 6).all()
    nothing = honest[:1].copy()
    nothing[:, 0] = 0
    assert abs(rule.pay(model, nothing, budget=6.0)[0, 0]) < 1e-12


def test_e12_the_papers_brier_loses_its_incentive_and_ours_does_not() -> None:
    model = models.Finite([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]])
    peers = model.statistics([0] * 14 + [1] * 6)
    t = np.stack([model.statistics([0] * 5), peers])
    lost = {}
    for form in ("paper", "unordered"):
        rule = troth.Brier(form)
        lost[form] = float(rule.explain(model, t).share[0] - rule.empty_share(model, t)[0])
    assert abs(lost["paper"]) < 1e-9
    assert lost["unordered"] > 0.01


def test_brier_by_hand() -> None:
    """Two states, one own row, one peer row: the four terms written out."""
    model = models.Finite([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])
    t = np.stack([model.statistics([0]), model.statistics([1])])
    posterior = np.array([0.9, 0.2]) / 1.1
    forecast = posterior @ np.array([[0.9, 0.1], [0.2, 0.8]])
    expected = 1 - 0.5 * (forecast[0] ** 2 + (forecast[1] - 1) ** 2)
    assert troth.Brier().explain(model, t).share[0] == pytest.approx(expected, abs=1e-14)
    assert troth.Brier("paper").explain(model, t).share[0] == pytest.approx(1 - 0.5 * 2 * (1 - expected), abs=1e-14)
    with pytest.raises(troth.MissingCapabilityError, match="Poisson does not offer"):
        troth.Brier().pay(models.Poisson(1, 1), np.ones((2, 2)), budget=1.0)


def test_e16_peers_that_contradict_each_other_leave_a_constant() -> None:
    strict = models.Finite([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]])
    zero, one = strict.statistics([0]), strict.statistics([1])
    bounded: list[troth.Rule] = [
        troth.OneTime(troth.exact_range(strict, [1] * 3)),
        troth.SyntheticPeers(draws=4),
        troth.Brier(),
    ]
    for rule in bounded:
        paid_to = [
            rule.pay(strict, np.stack([own, zero, one]), budget=1.0, rng=generator(1), rows=[1] * 3)
            for own in (zero, one)
        ]
        assert paid_to[0][0] == paid_to[1][0] > 0
    days = [np.stack([[own, zero, one], [zero, zero, zero]]) for own in (zero, one)]
    paid_days = [troth.MultiDay().pay(strict, t, budget=1.0, rows=[1] * 3) for t in days]
    assert paid_days[0][0, 0] == paid_days[1][0, 0] > 0
    tomorrow = [np.stack([[own, zero, zero], [zero, zero, one]]) for own in (zero, one)]
    paid_days = [troth.MultiDay().pay(strict, t, budget=1.0, rows=[1] * 3) for t in tomorrow]
    assert paid_days[0][0, 0] == paid_days[1][0, 0] > 0


def test_a_report_outside_the_support_is_refused() -> None:
    strict = models.Finite([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]])
    t = np.stack([strict.statistics([0]), np.array([-np.inf, -np.inf])])
    with pytest.raises(troth.DataError, match="provider 1: the report cannot occur"):
        troth.SyntheticPeers().pay(strict, t, budget=1.0, rng=generator(1), rows=[1, 1])


def test_groups_take_the_profit_out_of_identical_fakes() -> None:
    """Two colluders with the same fake data confirm each other, unless they are in a group."""
    model = models.Bernoulli(1, 1)
    rng = generator(5)
    theta = model.draw_parameters(rng, (5000, 1))
    t = model.draw_statistics(rng, theta, np.full((5, 1), 30.0))
    t[:, 0] = t[:, 1] = [60.0, 0.0]
    rule = troth.LogPmiRule()
    apart = rule.pay(model, t)[:, 0].mean()
    related = rule.pay(model, t, groups=["x", "x", "c", "d", "e"])[:, 0].mean()
    assert related < apart - 1
    assert troth.group_weights(["x", "x", "c"]).tolist() == [0.25, 0.25, 0.5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": -1.0}, "budget must be"),
        ({"budget": float("nan")}, "budget must be"),
        ({"budget": 1.0, "weights": [0.5, 0.5]}, "3 numbers, one per provider"),
        ({"budget": 1.0, "weights": [0.5, 0.5, 0.5]}, "sum to at most 1"),
        ({"budget": 1.0, "weights": [1.5, -0.5, 0.0]}, "at least 0"),
        ({"budget": 1.0, "groups": ["a"]}, "1 group labels for 3 providers"),
    ],
)
def test_invalid_rounds_are_rejected(options: dict[str, Any], message: str) -> None:
    rule = troth.OneTime(troth.ScoreRange(-10, 5))
    with pytest.raises((troth.ParameterError, troth.DataError), match=message):
        rule.pay(models.Bernoulli(1, 1), np.ones((3, 2)), **options)


def test_invalid_shapes_are_named() -> None:
    model = models.Bernoulli(1, 1)
    with pytest.raises(troth.DataError, match=r"\(..., day, provider, statistic\)"):
        troth.MultiDay().pay(model, np.ones((3, 2)), budget=1.0)
    with pytest.raises(troth.DataError, match=r"\(..., provider, statistic\)"):
        troth.SyntheticPeers().pay(model, np.ones(2), budget=1.0, rng=generator(1))
    with pytest.raises(troth.DataError, match="2 models for 3 providers"):
        troth.LogPmiRule().pay([model, model], np.ones((3, 2)))
    with pytest.raises(troth.ParameterError, match="draws"):
        troth.SyntheticPeers(draws=0)
    with pytest.raises(troth.ParameterError, match="above 1"):
        divergences.power(1.0)


def test_leading_axes_are_simulations() -> None:
    model = models.Bernoulli(1, 1)
    t = generator(6).integers(0, 5, size=(4, 3, 2)).astype(float)
    rule = troth.OneTime(troth.ScoreRange(-20, 5))
    payments = rule.pay(model, t, budget=1.0)
    assert np.allclose(payments, [rule.pay(model, part, budget=1.0) for part in t])


def test_providers_with_different_likelihoods_are_paid_by_every_rule() -> None:
    combined = troth.combine([models.Normal(0, 1, 1), models.Normal(0, 1, 2), models.Normal(0, 1, 1)])
    t = np.stack([m.statistics(x) for m, x in zip(combined, ([0.5, 1.0], [1.2, 0.1, 0.4], [0.9]), strict=True)])
    scale = troth.exact_range(combined, [3, 3, 3], values=(-5, 5))
    for rule in (troth.OneTime(scale), troth.SyntheticPeers(draws=4), troth.LogPmiRule()):
        pay = rule.pay(combined, t, budget=3.0, rng=generator(7))
        order = [2, 0, 1]
        again = rule.pay([combined[i] for i in order], t[order], budget=3.0, rng=generator(7))
        assert np.array_equal(again, pay[order])
    days = np.stack([t, t])
    assert troth.MultiDay().pay(combined, days, budget=3.0).shape == (2, 3)
    breakdown = troth.MultiDay().explain(combined, np.stack([t, t * np.array([[1.0], [2.0], [1.0]])]))
    assert breakdown.noted.tolist() == [[False, True, False], [False] * 3]


def test_brier_at_scale() -> None:
    """Large rounds are paid, integrals agree with sums, and distant states do not break it."""
    model = models.Bernoulli(1.3, 0.7)
    for ones_, zeros in ((3.0, 2.0), (0.0, 0.0), (40.0, 60.0)):
        rows = 5000.0
        exact = model._squared_probability(np.arange(rows + 1), ones_, zeros, rows, True).sum()
        assert model._collision_probability(ones_, zeros, rows, True) == pytest.approx(exact, rel=1e-9)
    ones = generator(1).binomial(100, 0.4, 100_000).astype(float)
    share = troth.Brier().explain(model, np.stack([ones, 100 - ones], axis=-1)).share
    assert ((share >= 0) & (share <= 1)).all()
    finite = models.Finite([0.3, 0.7], [[0.5, 0.5], [0.9, 0.1]])
    counts = generator(2).multinomial(10**9, [0.5, 0.5], 3).astype(float)
    share = troth.Brier().explain(finite, finite.from_summary(counts), rows=np.full(3, 1e9)).share
    assert np.isfinite(share).all()


def test_rows_are_recovered_from_symmetric_tables_with_zeros() -> None:
    model = models.Finite([0.3, 0.3, 0.4], [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
    assert model.rows(model.statistics([0, 1])) == 2
    assert model.counts(model.statistics([0, 1])).tolist() == [1, 1, 0]


def test_options_are_checked() -> None:
    with pytest.raises(troth.ParameterError, match="last must be"):
        troth.MultiDay(last="one-time")  # type: ignore[arg-type]
    with pytest.raises(troth.ParameterError, match="form must be"):
        troth.Brier("sequences")  # type: ignore[arg-type]
    with pytest.raises(troth.ParameterError, match="Generator"):
        troth.SyntheticPeers().pay(models.Bernoulli(1, 1), np.ones((2, 2)), budget=1.0, rng=7)  # type: ignore[arg-type]
    with pytest.raises(troth.ParameterError, match="whole number"):
        troth.SyntheticPeers(draws=2.5)  # type: ignore[arg-type]
    with pytest.raises(troth.ParameterError, match="does not fit"):
        troth.MultiDay().pay(models.Bernoulli(1, 1), np.ones((2, 3, 2)), budget=[1.0, 2.0, 3.0])


def test_the_log_pmi_rule_explains_itself_and_has_no_cap() -> None:
    model, t = models.Bernoulli(1, 1), np.array([[50.0, 0.0], [60.0, 0.0], [40.0, 1.0]])
    assert troth.LogPmiRule().explain(model, t).share.max() > 1
    assert np.isinf(troth.LogPmiRule().cap(3)).all()
    assert troth.Bonded(troth.LogPmiRule()).explain(model, t).share.shape == (3,)


def test_unequal_sizes_are_reported_with_their_numbers() -> None:
    t = np.full((2, 2, 3, 2), 5.0)
    t[1, 1, 0] = [5, 9]
    assert troth.MultiDay().pay(models.Bernoulli(1, 1), t, budget=1.0).shape == (2, 2, 3)
    t[1, 1] = [5, 9]
    with pytest.raises(troth.UnequalSizesError, match="provider 0 has 10 rows, but 14 on day 1"):
        troth.MultiDay().pay(models.Bernoulli(1, 1), t, budget=1.0)


def test_plain_sums_of_payments_stay_within_the_budget() -> None:
    class Everything(troth.Rule):
        def breakdown(self, this_round: troth.Round) -> troth.Breakdown:
            return troth.Breakdown(np.ones(this_round.own.shape[:-1]))

    for providers in (3, 10, 1000, 4321):
        pay = Everything().pay(models.Bernoulli(1, 1), np.zeros((providers, 2)), budget=0.1)
        assert sum(pay.tolist()) <= 0.1
    assert troth.group_weights(list(range(20_000))).sum() == pytest.approx(1)
