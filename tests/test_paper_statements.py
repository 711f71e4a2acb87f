"""Statements of the paper that no other test states by themselves, each on small random models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import khatri_rao
from scipy.special import softmax, xlogy

import troth
from mechanisms.exact import World, bernoulli_world, finite_world, one_model
from registry import SOAK, generator
from troth import divergences, models
from troth.models.numerics.identification import kruskal_rank

SEEDS = range(200 if SOAK else 10)
FINITE = [finite_world(seed, zeros=seed % 2 == 1, different=True) for seed in SEEDS]


def posterior(model: models.Finite, t: Any) -> Any:
    return softmax(np.log(np.array(model.prior)) + t, axis=-1)


def test_pmi_is_the_sum_over_states_and_the_ratio_of_chances() -> None:
    """Definition 4.3 and Lemma A.2: Σ p(θ|a)·p(θ|b)/p(θ) = p(a, b)/(p(a)·p(b))."""
    for world in FINITE:
        model, prior = world.models[0], np.array(world.models[0].prior)
        (a, _), (b, _) = world.reports(0), world.reports(1)
        pmi = np.exp(troth.log_pmi(model, a[:, None], b))
        by_posteriors = (posterior(model, a)[:, None] * posterior(model, b) / prior).sum(axis=-1)
        chance_a, chance_b = np.exp(a) @ prior, np.exp(b) @ prior
        together = np.exp(a[:, None] + b) @ prior
        assert np.allclose(pmi, by_posteriors, rtol=1e-12)
        assert np.allclose(pmi, together / np.multiply.outer(chance_a, chance_b), rtol=1e-12)


def test_posteriors_one_by_one_give_the_joint_posterior() -> None:
    """Lemma 3.1: p(θ|D₁,…,Dₙ) ∝ Π p(θ|Dᵢ)/p(θ)ⁿ⁻¹, so other data with the same posteriors change nothing."""
    rng = generator(3)
    for _ in SEEDS:
        states, symbols = int(rng.integers(2, 5)), int(rng.integers(2, 4))
        prior, table = rng.dirichlet(np.ones(states)), rng.dirichlet(np.ones(symbols), size=states)
        share = float(rng.uniform(0.1, 0.9))
        split = np.column_stack([table[:, :-1], table[:, -1] * share, table[:, -1] * (1 - share)])
        model = models.Finite(prior, split)  # the last two symbols mean the same
        true = [rng.integers(0, symbols + 1, int(rng.integers(1, 5))) for _ in range(3)]
        told = [np.where(rows >= symbols - 1, 2 * symbols - 1 - rows, rows) for rows in true]
        posteriors = [[posterior(model, model.statistics(rows)) for rows in data] for data in (true, told)]
        assert np.allclose(posteriors[0], posteriors[1], atol=1e-12)
        joint = [posterior(model, sum(model.statistics(rows) for rows in data)) for data in (true, told)]
        assert np.allclose(joint[0], joint[1], atol=1e-12)
        product = np.prod(posteriors[0], axis=0) / prior**2
        assert np.allclose(joint[0], product / product.sum(), atol=1e-12)


def test_the_kruskal_rank_is_the_size_of_the_smallest_dependence_less_one() -> None:
    """Definition 5.1."""
    rng = generator(5)
    for columns in range(2, 6):
        independent = rng.normal(size=(6, columns))
        assert kruskal_rank(independent) == columns
        for size in range(1, columns + 1):
            sample = rng.choice(columns, size, replace=False)
            dependent = independent[:, sample] @ rng.uniform(0.5, 1.5, size)
            assert kruskal_rank(np.column_stack([independent, dependent])) == size


def test_kruskal_ranks_add_in_a_column_wise_kronecker_product() -> None:
    """Lemma C.1, and what takes the place of Definition A.3: its Gram matrix is the entrywise product."""
    rng = generator(6)
    grown = 0
    for _ in SEEDS:
        columns = int(rng.integers(2, 6))
        a, b = (rng.integers(1, 4, size=(int(rng.integers(1, 4)), columns)).astype(float) for _ in range(2))
        product = khatri_rao(a, b)
        for column in range(columns):
            assert np.array_equal(product[:, column], np.kron(a[:, column], b[:, column]))
        assert np.allclose(product.T @ product, (a.T @ a) * (b.T @ b))
        least = min(kruskal_rank(a) + kruskal_rank(b) - 1, columns)
        assert kruskal_rank(product) >= least
        grown += kruskal_rank(product) > max(kruskal_rank(a), kruskal_rank(b))
    assert grown > 0


@pytest.mark.parametrize("divergence", divergences.ALL.values(), ids=repr)
def test_the_expected_score_of_the_truth_is_the_f_information_and_f_of_one(divergence: Any) -> None:
    """Definition A.4 and E8: Σ p(a, b)·f(p(a)·p(b)/p(a, b)), with f = matched + u·f′, is what the honest expect."""
    for world in FINITE[::2]:
        own, orders = world.reports(0, every_size=False)
        marginal, conditional = world.beliefs(0)
        s = troth.log_pmi(world.models[0], own[:, None], world.peers(0)[0].sum(axis=1))
        chance = np.exp(orders + world.models[0].log_evidence(own))
        joint, apart = chance[:, None] * conditional, np.multiply.outer(chance, marginal)
        f_of_ratio = divergence.matched(s) + apart / joint * divergence.mismatched(s)
        expected = (apart * divergence.mismatched(s) + joint * divergence.matched(s)).sum()
        assert expected == pytest.approx((joint * f_of_ratio).sum(), rel=1e-12)
        assert expected >= divergence.empty_score - 1e-12  # f-information is not negative
        independent = (apart * (divergence.mismatched(0 * s) + divergence.matched(0 * s))).sum()
        assert independent == pytest.approx(divergence.empty_score, rel=1e-12)


def test_no_other_function_exceeds_the_f_divergence() -> None:
    """Lemma 4.2: E_q g − E_p f*(g) ≤ D_f(p, q), reached by f′(q/p); logistic f* is −entropy (Definition 4.6)."""
    rng = generator(8)

    def conjugate(y: Any) -> Any:
        return xlogy(y, y) + xlogy(1 - y, 1 - y)

    for _ in SEEDS:
        p, q = rng.dirichlet(np.full(5, 3.0), size=2)
        s = np.log(p / q)
        best = divergences.logistic.mismatched(s)
        assert np.allclose(divergences.logistic.matched(s), -conjugate(best), atol=1e-12)
        divergence = p @ np.logaddexp(0, q / p)
        assert q @ best - p @ conjugate(best) == pytest.approx(divergence, rel=1e-12)
        for g in rng.uniform(0.01, 0.99, size=(50, 5)):
            assert q @ g - p @ conjugate(g) < divergence


def test_the_spread_of_posteriors_is_bounded_by_that_of_single_rows() -> None:
    """Claims C.1 and C.2: max p(θ|D)/min⁺ p(θ|D) ≤ Π U^N·T^{ΣN−1}, for one dataset and for two."""

    def log_spread(of: Any) -> float:
        positive = of[of > 0]
        return float(np.log(positive.max() / positive.min()))

    for world in FINITE:
        model = world.models[0]
        log_t = log_spread(np.array(model.prior))
        log_u = []
        for each in world.models[:2]:
            table = np.array(each.likelihood)
            table_of_symbols = table[:, table.any(axis=0)]
            joint = np.array(each.prior)[:, None] * table_of_symbols
            log_u.append(log_spread(joint / joint.sum(axis=0)))
        (a, _), (b, _) = (world.reports(i, every_size=False) for i in range(2))
        n, m = world.rows[:2]
        for own in a:
            assert log_spread(posterior(model, own)) <= n * log_u[0] + (n - 1) * log_t + 1e-9
            for other in b:
                if np.isfinite(model.log_evidence(own + other)):
                    bound = n * log_u[0] + m * log_u[1] + (n + m - 1) * log_t
                    assert log_spread(posterior(model, own + other)) <= bound + 1e-9


def test_nothing_is_paid_where_pmi_is_zero() -> None:
    """Mechanism 1: the payment is 0 where own and peers' data exclude each other, and positive elsewhere."""
    model = models.Finite([0.5, 0.5], [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    rule = troth.OneTime(troth.exact_range(model, rows=[1, 1]))
    rows = [model.statistics([symbol]) for symbol in range(3)]
    payments = [[rule.pay(model, np.stack([a, b]), budget=2.0)[0] for b in rows] for a in rows]
    assert (np.array(payments) == 0).tolist() == [[False, False, True], [False] * 3, [True, False, False]]


def losses(world: World, provider: int, divergence: Any) -> tuple[Any, Any]:
    """Expected loss of every report over two days, by true dataset, and whether it has another posterior."""
    model = world.models[0]
    pooled = world.peers(provider)[0].sum(axis=1)
    marginal, conditional = world.beliefs(provider)

    def score(own: Any) -> Any:
        s = troth.log_pmi(model, own[:, None], pooled)
        return (divergence.mismatched(s) @ marginal)[:, None] + divergence.matched(s)

    reports, _ = world.reports(provider)
    truths, _ = world.reports(provider, every_size=False)
    lost = (conditional * score(truths)).sum(axis=1)[:, None] - conditional @ score(reports).T
    if isinstance(model, models.Finite):
        apart = np.abs(posterior(model, truths)[:, None] - posterior(model, reports)).max(axis=-1) > 1e-3
    else:
        apart = (truths[:, None] != reports).any(axis=-1)
    return lost, apart


@pytest.mark.parametrize("divergence", [divergences.logistic, divergences.le_cam], ids=repr)
def test_over_days_every_other_posterior_loses_where_sensitivity_is_proved(divergence: Any) -> None:
    """Theorems D.1 and D.2: with strictly convex f the conditions of one round suffice for days."""
    rule = troth.MultiDay(divergence=divergence)
    proved = 0
    for world in [*FINITE[::2], *map(bernoulli_world, SEEDS)]:
        verdict = troth.certify(one_model(world.models), world.rows, rule)["sensitive"].verdict
        lost, apart = zip(*(losses(world, i, divergence) for i in range(len(world.models))), strict=True)
        least = min(float(x[y].min()) for x, y in zip(lost, apart, strict=True) if y.any())
        assert least > -1e-12
        if verdict == "proved":
            assert least > 1e-13, world
            proved += 1
    assert proved > len(SEEDS) / 2
