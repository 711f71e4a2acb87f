"""Brier for day types, which predicts each peer's labels separately: enumeration, mpmath and every lie."""

from __future__ import annotations

from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

import troth
from mechanisms.exact import World
from registry import EXAMPLES, SOAK, generator
from troth import models
from troth.models.numerics.collisions import log_same_counts, log_same_dispersed
from troth.models.numerics.count_recovery import log_orders
from troth.models.numerics.extremes import unordered_datasets

PROBABILITY, COLLISION = "probability", "collision_probability"


def random_likelihood(rng: Any, prior: Any, codes: int, dispersion: float) -> Any:
    if codes == 2:
        return models.LatentClass(prior, "binary", rng.uniform(0.05, 0.95, len(prior)), dispersion)
    return models.LatentClass(prior, "categorical", rng.dirichlet(np.ones(codes), size=len(prior)), dispersion)


def random_world(seed: int, providers: int = 4) -> tuple[list[Any], list[int]]:
    """Likelihoods of two to four labels, one of them twice, with and without dispersion; up to four rows."""
    rng = generator(seed, 12)
    prior = rng.dirichlet(np.full(int(rng.integers(2, 5)), 2.0))
    likelihoods = [
        random_likelihood(rng, prior, int(rng.integers(2, 5)), float(rng.choice([0.0, 1e-7, 0.1, 0.6])))
        for _ in range(providers)
    ]
    likelihoods[-1] = likelihoods[0]
    return likelihoods, [int(n) for n in rng.integers(0, 5, providers)]


def datasets(likelihood: Any, rows: int, unordered: bool) -> Any:
    """Log-likelihoods by type of all possible reports: as counts, or as sequences of rows."""
    codes = likelihood.reduction.width
    if unordered:
        counts = unordered_datasets(rows, codes)
        return likelihood.from_summary(counts) + (gammaln(rows + 1) - gammaln(counts + 1).sum(axis=1))[:, None]
    return np.array([likelihood.statistics(list(data)) for data in product(range(codes), repeat=rows)])


@pytest.mark.parametrize("form", ["unordered", "paper"])
@pytest.mark.parametrize("groups", [None, ["a", "b", "a", "c"]])
@pytest.mark.parametrize("seed", range(40 if SOAK else 4))
def test_the_forecast_is_that_of_every_dataset_of_the_peers(form: Any, groups: Any, seed: int) -> None:
    likelihoods, rows = random_world(seed)
    rng = generator(seed, 13)
    theta = likelihoods[0].draw_parameters(rng)
    data = [likelihood.draw_data(rng, theta, n) for likelihood, n in zip(likelihoods, rows, strict=True)]
    t = np.stack([likelihood.statistics(x) for likelihood, x in zip(likelihoods, data, strict=True)])
    breakdown = troth.Brier(form).explain(likelihoods, t, rows=rows, groups=groups)
    unordered = form == "unordered"
    for i, own in enumerate(t):
        posterior = np.array(likelihoods[0].prior) * np.exp(own - likelihoods[0].log_evidence(own))
        everything, said = np.zeros((1, len(posterior))), np.zeros(len(posterior))
        for j in range(len(likelihoods)):
            if j == i or (groups is not None and groups[j] == groups[i]):
                continue
            outcomes = datasets(likelihoods[j], rows[j], unordered)
            everything = (everything[:, None] + outcomes[None]).reshape(-1, len(posterior))
            counts = likelihoods[j].summary(data[j])
            said = said + t[j] + (gammaln(rows[j] + 1) - gammaln(counts + 1).sum() if unordered else 0.0)
        chance = np.exp(everything) @ posterior
        assert chance.sum() == pytest.approx(1.0, rel=1e-11)
        happened = float(np.exp(said) @ posterior)
        assert breakdown.terms[PROBABILITY][i] == pytest.approx(happened, rel=1e-12)
        assert breakdown.terms[COLLISION][i] == pytest.approx((chance**2).sum(), rel=1e-12)
        gap = (chance**2).sum() - happened**2 + (happened - 1) ** 2
        expected = 1 - (gap / 2 if unordered else gap / len(chance))
        assert breakdown.share[i] == pytest.approx(expected, rel=1e-12)


def worlds() -> list[World]:
    all_worlds = []
    for seed in range(60 if SOAK else 8):
        rng = generator(seed, 14)
        prior = rng.dirichlet(np.full(int(rng.integers(2, 4)), 2.0))
        codes, dispersions = rng.integers(2, 4, 3), rng.choice([0.0, 0.2, 0.7], 3)
        likelihoods = [random_likelihood(rng, prior, int(k), float(d)) for k, d in zip(codes, dispersions, strict=True)]
        all_worlds.append(World(likelihoods, [int(n) for n in rng.integers(1, 3, 3)]))
    return all_worlds


def worst(world: World, share: Any) -> float:
    """Return the maximum gain of any report, for rules that need the peers' numbers of rows."""
    gains = []
    for provider in range(len(world.models)):
        peers, _ = world.peers(provider)
        _, conditional = world.beliefs(provider)
        truths, _ = world.reports(provider, every_size=False)
        reports, _ = world.reports(provider)
        paid = [share(world, provider, own, peers) for own in (reports, truths)]
        gains.append(float((conditional @ paid[0].T - (conditional * paid[1]).sum(axis=1)[:, None]).max()))
    return max(gains)


def brier_share(form: Any) -> Any:
    def share(world: World, provider: int, own: Any, peers: Any) -> Any:
        honest = world.reports(provider, every_size=False)[0][:1]
        t = world.round_with(provider, honest[:, None], peers[None])
        rows = np.array(world.rows, dtype=float)
        round_ = troth.Round(world.models, np.broadcast_to(t, (len(own), *t.shape[1:])), None, rows)
        scored = world.round_with(provider, own[:, None], peers[None])
        return troth.Brier(form).evaluate(round_.with_own(scored)).share[..., provider]

    return share


def pooled_share(world: World, provider: int, own: Any, peers: Any) -> Any:
    """The planted bug: peers of one likelihood are pooled into one dataset, whose rows share one effect."""
    likelihood = world.models[0]
    total = sum(n for j, n in enumerate(world.rows) if j != provider)
    types = datasets(likelihood, total, True)
    others = [world.models[j] for j in range(len(world.models)) if j != provider]
    lists = [unordered_datasets(n, likelihood.reduction.width) for j, n in enumerate(world.rows) if j != provider]
    assert all(other == likelihood for other in others)
    counts = np.array([np.sum(c, axis=0) for c in product(*lists)])
    assert len(counts) == len(peers)
    orders = gammaln(total + 1) - gammaln(counts + 1).sum(axis=1)
    posterior = np.array(likelihood.prior) * np.exp(own - likelihood.log_evidence(own)[:, None])
    happened = posterior @ np.exp(likelihood.from_summary(counts) + orders[:, None]).T
    return 1 - 0.5 * (((posterior @ np.exp(types).T) ** 2).sum(axis=1)[:, None] - 2 * happened + 1)


@pytest.mark.parametrize("form", ["unordered", "paper"])
def test_no_lie_gains(form: Any) -> None:
    for world in worlds():
        assert worst(world, brier_share(form)) <= 1e-12


def test_pooling_rows_that_share_an_effect_is_caught() -> None:
    same = [World([world.models[0]] * 3, world.rows) for world in worlds() if world.models[0].dispersion > 0]
    gains = [worst(world, pooled_share) for world in same]
    assert len(gains) >= 5
    assert sum(gain > 1e-6 for gain in gains) > len(gains) / 3
    without = [World([world.models[0]] * 3, world.rows) for world in worlds() if world.models[0].dispersion == 0]
    assert max(worst(world, pooled_share) for world in without) <= 1e-12  # pooling is correct for i.i.d. rows


def test_best_response_and_bonds_agree() -> None:
    for world in worlds()[:4]:
        best = troth.best_response(world.models, troth.Brier(), world.rows)
        assert best.gain <= 1e-12
        assert troth.best_response(world.models, troth.Bonded(troth.Brier()), world.rows).gain <= 1e-10


@settings(max_examples=200 if SOAK else 12, deadline=None)
@given(
    seed=st.integers(0, 10**9),
    providers=st.integers(2, 6),
    grouped=st.booleans(),
    form=st.sampled_from(["unordered", "paper"]),
    shuffle=st.randoms(use_true_random=False),
)
def test_payments_for_every_input(seed: int, providers: int, grouped: bool, form: Any, shuffle: Any) -> None:
    likelihoods, rows = random_world(seed, providers)
    rows[-1] = rows[0]
    rng = generator(seed, 15)
    t = np.stack(
        [
            likelihood.statistics(likelihood.draw_data(rng, likelihood.draw_parameters(rng), n))
            for likelihood, n in zip(likelihoods, rows, strict=True)
        ]
    )
    t[-1] = t[0]
    groups = [shuffle.randrange(3) for _ in likelihoods] if grouped else list(range(providers))
    groups[-1] = groups[0] if grouped else groups[-1]
    order = list(range(providers))
    shuffle.shuffle(order)
    rule = troth.Brier(form)
    pay = rule.pay(likelihoods, t, budget=17.3, rows=rows, groups=groups)
    assert (pay >= 0).all()
    assert (pay <= 17.3 / providers).all()
    assert pay.sum() <= 17.3
    assert pay[0] == pay[-1]
    again = rule.pay(
        [likelihoods[i] for i in order],
        t[order],
        budget=17.3,
        rows=[rows[i] for i in order],
        groups=[groups[i] for i in order],
    )
    assert np.array_equal(again, pay[order])


def exact_same(table: Any, dispersion: float, rows: int, unordered: bool) -> list[Any]:
    """The probability of equal labels under each pair of types, with fifty digits, for two labels."""
    with mpmath.workdps(50):
        strength = (1 - mpmath.mpf(dispersion)) / mpmath.mpf(dispersion)

        def sequence(p: Any, k: int) -> Any:
            a, b = mpmath.mpf(p[0]) * strength, mpmath.mpf(p[1]) * strength
            return mpmath.rf(a, k) * mpmath.rf(b, rows - k) / mpmath.rf(a + b, rows)

        power = 2 if unordered else 1
        first, second = np.triu_indices(len(table))
        orders = [mpmath.binomial(rows, k) ** power for k in range(rows + 1)]
        likelihoods = [[sequence(p, k) for k in range(rows + 1)] for p in table]
        return [
            sum(o * x * y for o, x, y in zip(orders, likelihoods[i], likelihoods[j], strict=True))
            for i, j in zip(first, second, strict=True)
        ]


@pytest.mark.parametrize(
    ("unordered", "dispersion"),
    [(True, 1e-4), (False, 0.05), (True, 0.7)] + [(False, 1e-4), (True, 0.05), (False, 0.7)] * SOAK,
)
def test_a_thousand_rows_against_mpmath(dispersion: float, unordered: bool) -> None:
    table = np.array([[0.3, 0.7], [0.35, 0.65], [0.9, 0.1]])
    log_probability = log_same_dispersed(table, dispersion, 1000, unordered)
    expected = [float(mpmath.log(x)) for x in exact_same(table, dispersion, 1000, unordered)]
    np.testing.assert_allclose(log_probability, expected, rtol=0, atol=1e-10)
    # a third label, too rare to change the result, exercises the convolution; errors are relative to the two states'
    # own entries, since 2qq′K ≤ K/√(LM)·(q²L + q′²M)
    three = np.hstack([table * (1 - 1e-12), np.full((3, 1), 1e-12)])
    first, second = np.triu_indices(3)
    own = np.array([expected[k] for k in np.flatnonzero(first == second)])
    lengths = (own[first] + own[second]) / 2
    beside = log_same_dispersed(three, dispersion, 1000, unordered) - lengths
    np.testing.assert_allclose(np.exp(beside), np.exp(expected - lengths), rtol=0, atol=1e-8)


@pytest.mark.parametrize(("rows", "tolerance"), [(2 * 10**6, 5e-8), (10**9, 1e-5)])
def test_the_same_counts_of_very_many_rows(rows: int, tolerance: float) -> None:
    """Two binomial counts are equal with probability √(1/4πNv)·(1 + (1/16v − 3/8)/N + …), v = p(1 − p)."""
    for p in (0.5, 0.1):
        v = p * (1 - p)
        expected = -0.5 * np.log(4 * np.pi * rows * v) + (1 / (16 * v) - 3 / 8) / rows
        assert log_same_counts(np.array([[p, 1 - p]]), rows)[0, 0] == pytest.approx(expected, abs=tolerance)


def test_fifty_providers_of_a_thousand_rows() -> None:
    """Log probabilities of the peers' data against mpmath; those of sequences would underflow."""
    rng = generator(21)
    prior = np.array([0.3, 0.3, 0.4])
    likelihoods = [random_likelihood(rng, prior, 2, float(rng.uniform(0.001, 0.3))) for _ in range(50)]
    counts = np.stack([rng.multinomial(1000, [0.4, 0.6]) for _ in likelihoods]).astype(float)
    t = np.stack([likelihood.from_summary(c) for likelihood, c in zip(likelihoods, counts, strict=True)])
    breakdown = troth.Brier().explain(likelihoods, t, rows=np.full(50, 1000))
    assert ((breakdown.share >= 0) & (breakdown.share <= 1)).all()
    with mpmath.workdps(50):
        posterior = [mpmath.mpf(p) * mpmath.exp(mpmath.mpf(x)) for p, x in zip(prior, t[0], strict=True)]
        posterior = [x / sum(posterior) for x in posterior]
        chances = list(posterior)
        pairs = [posterior[i] * posterior[j] * (1 if i == j else 2) for i, j in zip(*np.triu_indices(3), strict=True)]
        for likelihood, c in zip(likelihoods[1:], counts[1:], strict=True):
            strength = (1 - mpmath.mpf(likelihood.dispersion)) / mpmath.mpf(likelihood.dispersion)
            for k, mean in enumerate(likelihood.means):
                a, b = mpmath.mpf(mean) * strength, (1 - mpmath.mpf(mean)) * strength
                chance_of_counts = mpmath.rf(a, int(c[1])) * mpmath.rf(b, int(c[0])) / mpmath.rf(a + b, 1000)
                chances[k] *= mpmath.binomial(1000, int(c[1])) * chance_of_counts
        for likelihood in likelihoods[1:3]:
            table = np.stack([1 - np.array(likelihood.means), np.array(likelihood.means)], axis=-1)
            same = exact_same(table, likelihood.dispersion, 1000, True)
            pairs = [x * y for x, y in zip(pairs, same, strict=True)]
        assert breakdown.terms[PROBABILITY][0] == pytest.approx(float(sum(chances)), rel=1e-9)
        three = troth.Brier().explain(likelihoods[:3], t[:3], rows=np.full(3, 1000))
        assert three.terms[COLLISION][0] == pytest.approx(float(sum(pairs)), rel=1e-10)
    assert 0 < breakdown.terms[COLLISION][0] < 1e-40


@pytest.mark.parametrize(("codes", "rows"), [(2, 5000), (3, 300), (4, 100), (6, 20)])
@pytest.mark.parametrize("dispersion", [0.0, 0.2])
def test_numbers_of_orders_are_recovered_from_log_likelihoods(codes: int, rows: int, dispersion: float) -> None:
    rng = generator(22, codes)
    table = rng.dirichlet(np.ones(codes), size=3)
    counts = rng.multinomial(rows, rng.dirichlet(np.ones(codes), size=20)).astype(float)
    likelihood = models.LatentClass([0.2, 0.3, 0.5], "categorical", table, dispersion)
    log_number = log_orders(table, dispersion, likelihood.from_summary(counts), rows)
    np.testing.assert_allclose(log_number, gammaln(rows + 1) - gammaln(counts + 1).sum(axis=1), rtol=1e-12, atol=1e-10)


def test_unrecoverable_counts_are_an_error() -> None:
    brier = troth.Brier()
    binary: Any = EXAMPLES["day types, binary"]
    t = binary.statistics(np.array([[1, 0, 1], [1, 0, 0], [0, 0, 1]]))
    with pytest.raises(troth.MissingCapabilityError, match="pass rows= with the statistics"):
        brier.pay(binary, t, budget=1.0)
    with pytest.raises(troth.MissingCapabilityError, match="no dataset of 4 rows"):
        brier.pay(binary, t, budget=1.0, rows=[3, 4, 3])
    with pytest.raises(troth.DataError, match="whole numbers"):
        brier.pay(binary, t, budget=1.0, rows=[3, 2.5, 3])
    with pytest.raises(troth.MissingCapabilityError, match="up to 1,000,000 rows"):
        brier.pay(binary, t, budget=1.0, rows=[3, 2e6, 3])
    for name in ("day types, count", "day types, real", "provider normal"):
        with pytest.raises(troth.MissingCapabilityError, match="Brier needs finitely many possible datasets"):
            brier.pay(EXAMPLES[name], np.zeros((3, EXAMPLES[name].width)), budget=1.0, rows=[1, 1, 1])
    # with one type, counts (1, 1, 1) and (2, 1, 0) are equally likely row by row, but have six and three orders
    alike = models.LatentClass([1.0], "categorical", [[0.25, 0.5, 0.25]])
    with pytest.raises(troth.MissingCapabilityError, match="differ in how many orders"):
        brier.pay(alike, alike.statistics(np.array([[0, 2, 1], [0, 0, 1]])), budget=1.0, rows=[3, 3])
    twelve = models.LatentClass([0.5, 0.5], "categorical", generator(1).dirichlet(np.ones(12), size=2))
    many = twelve.from_summary(np.full((2, 12), 20.0))
    with pytest.raises(troth.MissingCapabilityError, match="the counts of 12 labels cannot be recovered"):
        brier.pay(twelve, many, budget=1.0, rows=[240, 240])
    assert troth.Brier("paper").pay(twelve, many, budget=1.0, rows=[240, 240]).sum() <= 1.0


def test_without_dispersion_two_providers_are_a_finite_model() -> None:
    """With a single peer separate and pooled predictions agree."""
    table = [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]
    types = models.LatentClass([0.3, 0.7], "categorical", table)
    finite = models.Finite([0.3, 0.7], table)
    data = generator(3).integers(0, 3, (2, 9))
    for form in ("unordered", "paper"):
        rule = troth.Brier(form)
        payments = rule.pay(types, types.statistics(data), budget=1.0, rows=[9, 9])
        np.testing.assert_allclose(
            payments, rule.pay(finite, finite.statistics(data), budget=1.0, rows=[9, 9]), rtol=1e-13
        )
