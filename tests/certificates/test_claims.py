"""Certificates agree with brute force."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

import troth
from mechanisms.exact import World, finite_world, one_model
from registry import EXAMPLES, MISSING, SOAK, generator
from troth import models
from troth.certificates.claims import Certificate, weakest
from troth.certificates.fit import _distance, _two_sided
from troth.core.claims import Claim
from troth.mechanisms.score_range import situations
from troth.models.numerics.extremes import unordered_datasets
from troth.models.numerics.identification import exact_linear_price, squared_singular_value

WORLDS = 1500 if SOAK else 120


def coarse_world(seed: int) -> World:
    """Return a random finite model, often with too few peer rows or with states that are hard to distinguish."""
    rng = generator(seed, 31)
    kind = seed % 4
    if kind == 0:
        return finite_world(seed, zeros=False, different=True)
    states = int(rng.integers(2, 5))
    labels = int(rng.integers(2, 4))
    table = rng.dirichlet(np.ones(labels), size=states)
    if kind == 1:  # two mirrored states and their mixture: one peer row distinguishes less than two own rows
        p = float(rng.uniform(0.55, 0.95))
        mirrored = models.Finite(np.full(3, 1 / 3), [[p, 1 - p], [1 - p, p], [0.5, 0.5]])
        return World([mirrored] * 2, [int(n) for n in rng.integers(1, 4, 2)])
    if kind == 2:
        table[1] = table[0]  # two indistinguishable states
    if kind == 3:
        table = np.round(table, 1)
        table[:, 0] += 1 - table.sum(axis=1)
    prior = rng.dirichlet(np.full(states, 3.0))
    rows = [int(n) for n in rng.integers(1, 3, 2)]
    return World([models.Finite(prior, np.clip(table, 0, 1))] * 2, rows)


def free_lie(world: World, provider: int) -> bool:
    """Return whether two reports with different posteriors predict the same distribution of the peers."""
    model = world.models[provider]
    reports, _ = world.reports(provider)
    peers, orders = world.peers(provider)
    evidence = model.log_evidence
    posterior = np.exp(np.log(np.array(model.prior)) + reports - evidence(reports)[:, None])
    forecast = np.exp(orders + evidence(reports[:, None] + peers.sum(axis=1)) - evidence(reports)[:, None])
    for i, j in combinations(range(len(reports)), 2):
        if np.abs(posterior[i] - posterior[j]).max() > 1e-7 and np.abs(forecast[i] - forecast[j]).max() < 1e-10:
            return True
    return False


def test_sensitivity_agrees_with_brute_force(capsys: pytest.CaptureFixture[str]) -> None:
    """Never "proved" where enumeration finds a free lie, and at least as many proved as by the k-rank condition."""
    proved = kruskal = refuted = 0
    for seed in range(WORLDS):
        world = coarse_world(seed)
        cases: Any = situations(one_model(world.models), world.rows)
        verdicts = [own.sensitivity(limit, peers).verdict for own, limit, peers in cases]
        free = any(free_lie(world, provider) for provider in range(len(world.models)))
        by_rank = all(own.k_rank_condition(peers) for own, _, peers in cases)
        sure = all(verdict == "proved" for verdict in verdicts)
        assert not (sure and free), (seed, world)
        assert not (by_rank and not sure), (seed, world)
        assert ("refuted" in verdicts) == free or "undecided" in verdicts, (seed, world, verdicts)
        proved, kruskal, refuted = proved + sure, kruskal + by_rank, refuted + free
    with capsys.disabled():
        print(f"\n{proved} of {WORLDS} models proved sensitive, {kruskal} of them by the k-rank condition, ", end="")
        print(f"{proved - kruskal} more by the exact rank or by comparing reports; {refuted} have a free lie")
    assert proved > kruskal > 0
    assert refuted > 0


def out_prediction_matrix(world: World, provider: int) -> Any:
    """P₋ᵢ with rows counted: p(counts of the peers' data | state)."""
    columns = np.ones((1, len(world.models[0].prior)))
    for j, model in enumerate(world.models):
        if j != provider:
            counts = unordered_datasets(world.rows[j], len(model.likelihood[0]))
            orders = gammaln(world.rows[j] + 1) - gammaln(counts + 1).sum(axis=1)
            part = np.exp(orders[:, None] + model.from_summary(counts))
            columns = (columns[:, None] * part[None]).reshape(-1, columns.shape[1])
    return columns


def test_e4_the_corrected_price_holds_on_every_pair_and_the_printed_one_fails() -> None:
    """loss = KL ≥ e²‖Δ‖² always; e‖Δ‖, as printed, is violated by many pairs."""
    violated = pairs = 0
    for seed in range(120):
        world = finite_world(seed, zeros=False, different=True)
        for provider in range(len(world.models)):
            model = world.models[provider]
            matrix = out_prediction_matrix(world, provider)
            e = np.linalg.svd(matrix, compute_uv=False)[-1] if len(matrix) >= matrix.shape[1] else 0.0
            peers = [(world.models[j], world.rows[j]) for j in range(len(world.models)) if j != provider]
            assert squared_singular_value(peers, len(model.prior)) == pytest.approx(e**2, abs=1e-12)
            reports, _ = world.reports(provider)
            posterior = np.exp(np.log(np.array(model.prior)) + reports - model.log_evidence(reports)[:, None])
            forecast = posterior @ matrix.T
            for i, j in combinations(range(len(reports)), 2):
                loss = float((forecast[i] * np.log(forecast[i] / forecast[j])).sum())
                gap = float(np.linalg.norm(posterior[i] - posterior[j]))
                assert loss >= e**2 * gap**2 - 1e-12
                violated += loss < e * gap - 1e-12
                pairs += 1
    assert violated > pairs / 10


def test_checks_are_odd_on_the_scale_of_their_own_side() -> None:
    """A value 9 above the median is as extreme as one 0.9 below it if the spread above is ten times as large."""
    values = np.concatenate([np.linspace(-1, 0, 101), 10 * np.linspace(0, 1, 101)])
    assert _distance(values)[[10, 50, 151, 191]] == pytest.approx([1.0, 0.55, 0.55, 1.0], abs=0.02)


@pytest.mark.parametrize("low", [-np.inf, -0.1])
def test_the_exact_linear_price_is_the_least_ratio(low: float) -> None:
    """The minimum ratio of a report's loss, with scores cut off from below, to the distance it moves the posterior."""
    for seed in range(30):
        world = finite_world(seed, zeros=False, different=False)
        provider = 0
        matrix = out_prediction_matrix(world, provider)
        model = world.models[0]
        reports, _ = world.reports(provider)
        posterior = np.exp(np.log(np.array(model.prior)) + reports - model.log_evidence(reports)[:, None])
        forecast = posterior @ matrix.T
        score = np.maximum(np.log(forecast / (np.array(model.prior) @ matrix.T)), low)
        ratios = []
        for i in range(len(reports)):
            for j in range(len(reports)):
                gap = np.linalg.norm(posterior[i] - posterior[j])
                if gap > 1e-9:
                    ratios.append((forecast[i] * (score[i] - score[j])).sum() / gap)
        peers = [(model, n) for n in world.rows[1:]]
        assert exact_linear_price(model, world.rows[0], peers, low) == pytest.approx(min(ratios), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_family_is_decided(name: str) -> None:
    certificate = troth.certify(EXAMPLES[name], [3, 3, 3], troth.SyntheticPeers())
    unproved = name in MISSING["proof of sensitivity"]
    assert certificate["sensitive"].verdict == ("undecided" if unproved else "proved"), certificate
    assert certificate["truthful"].verdict == "proved"
    assert all(claim.basis or claim.verdict == "undecided" for claim in certificate.claims)
    assert "sensitive" in str(certificate)
    assert certificate.to_dict()[0]["name"] == "truthful"


@pytest.mark.parametrize("name", [name for name in EXAMPLES if "regression" not in name])
def test_the_h_condition_is_right_where_it_is_proved(name: str) -> None:
    """Random pairs of reports with different posteriors have different log PMI with some peers' data."""
    model: Any = EXAMPLES[name]
    rng = generator(7)
    for peer_rows in (1, 2, 3):
        verdict = model.sensitivity(6, [(model, peer_rows)]).verdict
        theta = model.draw_parameters(rng, (400,))
        peers = model.statistics(model.draw_data(rng, theta, peer_rows))
        for _ in range(60 if SOAK else 25):
            a, b = (
                model.statistics(model.draw_data(rng, model.draw_parameters(rng), int(rng.integers(0, 7))))
                for _ in range(2)
            )
            if np.allclose(a, b):
                continue
            gaps = np.abs(troth.log_pmi(model, a, peers) - troth.log_pmi(model, b, peers))
            if verdict == "proved" and "finite" not in name:
                assert np.nanmax(gaps) > 1e-13


def test_e3_is_refuted_with_a_colliding_pair_and_only_where_it_can_happen() -> None:
    uniform = models.Bernoulli(1, 1)
    certificate = troth.certify(uniform, [2, 1], troth.SyntheticPeers())
    assert certificate["sensitive"].verdict == "refuted"
    first, second = certificate["sensitive"].witness
    outcomes = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert np.allclose(
        troth.log_pmi(uniform, np.array(first, dtype=float), outcomes),
        troth.log_pmi(uniform, np.array(second, dtype=float), outcomes),
    )
    assert troth.certify(uniform, [2, 2], troth.SyntheticPeers())["sensitive"].verdict == "proved"
    assert troth.certify(models.Bernoulli(1, np.pi), [3, 1], troth.SyntheticPeers())["sensitive"].verdict == "proved"
    assert (
        troth.certify(models.Categorical([1, 1, 1]), [3, 1], troth.SyntheticPeers())["sensitive"].verdict == "refuted"
    )
    assert troth.certify(EXAMPLES["regression"], [5, 1], troth.SyntheticPeers())["sensitive"].verdict == "refuted"


def test_claims_know_the_rule() -> None:
    model = models.Bernoulli(1, 1)
    rows = [5, 5, 5]
    clipped = troth.certify(model, rows, troth.OneTime(troth.clipped_range(model, rows)))
    assert clipped["truthful"].verdict == "proved"
    assert clipped["truthful"].margin == pytest.approx(troth.clipped_range(model, rows).epsilon_share)
    assert clipped["sensitive"].verdict == "undecided"
    tight = troth.certify(model, rows, troth.OneTime(troth.ScoreRange(-1, 1)))
    assert tight["truthful"].verdict == "undecided"
    wide = troth.certify(model, rows, troth.OneTime(troth.ScoreRange(-100, 50)))
    assert wide["truthful"].verdict == "proved"
    bonded = troth.certify(model, rows, troth.Bonded(troth.SyntheticPeers()))
    assert bonded["individually rational"].verdict == "refuted"
    assert bonded["budget feasible"].verdict == "proved"
    assert troth.certify(model, rows, troth.LogPmiRule())["budget feasible"].verdict == "refuted"
    lazy = troth.certify(model, rows, troth.MultiDay(divergence=troth.divergences.total_variation))
    assert lazy["sensitive"].verdict == "undecided"
    own = troth.certify(model, rows, troth.baselines.FixedPrice())
    assert own["truthful"].verdict == own["symmetric"].verdict == "undecided"
    finite: Any = EXAMPLES["finite"]
    priced = troth.certify(finite, [3, 3], troth.OneTime(troth.exact_range(finite, [3, 3])))
    assert priced["price of lying"].verdict == "proved"
    assert priced["k-rank condition"].verdict in ("proved", "undecided")


def test_check_fit_accepts_the_model_and_finds_what_breaks_it() -> None:
    """False alarms occur at most at the level on rounds from the model; providers that differ are detected."""
    model = models.Bernoulli(2, 2)
    rng = generator(8)
    alarms = 0
    for _ in range(100):
        t = model.draw_statistics(rng, model.draw_parameters(rng), np.full((6, 1), 40.0))
        alarms += not troth.check_fit(model, t, simulations=800, rng=rng).plausible
    assert alarms <= 8  # expected 1 at level 0.01; more than 8 has probability below 1e-5
    spread = np.stack([[40.0 * r, 40.0 * (1 - r)] for r in (0.1, 0.3, 0.5, 0.7, 0.9)])
    bad = troth.check_fit(model, spread)
    assert not bad.plausible
    assert "KL(p_true" in str(bad)
    days = model.draw_statistics(rng, model.draw_parameters(rng, (30, 1)), np.full((6, 1), 40.0))
    assert troth.check_fit(model, days, rng=rng).plausible


def test_near_duplicates_are_flagged_and_chance_is_not() -> None:
    rng = generator(9)
    normal = models.Normal(0, 1, 1)
    data = [rng.normal(size=20) for _ in range(5)]
    data[3] = data[1].copy()
    t = np.stack([normal.statistics(x) for x in data])
    assert [pair.providers for pair in troth.find_near_duplicates(normal, t)] == [(1, 3)]
    partly = [*data[:3], np.concatenate([data[0][:15], rng.normal(size=5)])]
    t = np.stack([normal.statistics(x) for x in partly])
    duplicates = troth.find_near_duplicates(normal, t, partly)
    assert [(pair.providers, pair.why) for pair in duplicates] == [((0, 3), "15 rows in common")]
    labels = models.Bernoulli(1, 1)
    t = labels.draw_statistics(rng, np.array([0.4]), np.full((12, 1), 8.0))
    assert troth.find_near_duplicates(labels, t) == []
    big = np.array([[400_000_123.0, 599_999_877.0], [400_000_123.0, 599_999_877.0], [399_000_000.0, 601_000_000.0]])
    assert [pair.providers for pair in troth.find_near_duplicates(labels, big)] == [(0, 1)]
    unknown = models.NormalUnknownVariance(0, 1, 2, 2)
    for times in (2, 3):
        t = np.stack([unknown.statistics(x) for x in (data[0], np.tile(data[0], times), data[2])])
        assert [pair.why for pair in troth.find_near_duplicates(unknown, t)] == [f"the same statistics {times} times"]


def test_honest_rounds_are_rarely_flagged_and_noisy_copies_are_found() -> None:
    """At most 1% of honest rounds; more than 5 of 60 has probability below 1e-4."""
    rng = generator(10)
    cases: list[tuple[Any, int]] = [
        (models.Poisson(2, 1), 50),
        (models.Categorical([1, 1, 1, 1, 1]), 60),
        (models.Categorical([1, 1, 1]), 4),
        (models.Normal(0, 1, 1), 20),
        (EXAMPLES["finite"], 30),
    ]
    for model, rows in cases:
        flagged = 0
        for _ in range(60 if SOAK else 25):
            theta = model.draw_parameters(rng)
            data = [model.draw_data(rng, theta, rows) for _ in range(12)]
            flagged += bool(
                troth.find_near_duplicates(model, np.stack([model.statistics(x) for x in data]), data, draws=4000)
            )
        assert flagged <= 5, model
    normal = models.Normal(0, 1, 1)
    data = [rng.normal(size=50) for _ in range(6)]
    data[4] = data[2] + 1e-8 * rng.normal(size=50)
    t = np.stack([normal.statistics(x) for x in data])
    assert [pair.providers for pair in troth.find_near_duplicates(normal, t)] == [(2, 4)]
    assert troth.find_near_duplicates(normal, np.zeros((3, 2)), [[], [], []]) == []


def test_nothing_is_proved_that_is_false() -> None:
    """Ranges of other campaigns, last days of other rules, custom rules and undetermined likelihoods."""
    b = models.Bernoulli(1, 1)

    class Generous(troth.Rule):
        individually_rational = False

        def breakdown(self, this_round: troth.Round) -> troth.Breakdown:
            return troth.Breakdown(np.full(this_round.own.shape[:-1], 5.0))

    assert troth.certify(b, [9, 9], troth.MultiDay(last=troth.LogPmiRule()))["budget feasible"].verdict == "refuted"
    assert troth.certify(b, [9, 9], troth.Bonded(troth.LogPmiRule()))["budget feasible"].verdict == "refuted"
    bounded = troth.certify(b, [3, 3], troth.Bonded(troth.LogPmiRule()))["budget feasible"]
    assert bounded.verdict == "undecided"  # log PMI is at most ln(16/7) here, less than the cap
    assert troth.certify(b, [3, 3], Generous())["budget feasible"].verdict == "undecided"
    fixed = troth.certify(b, [3, 3], troth.MultiDay(last=troth.baselines.FixedPrice()))
    assert fixed["truthful"].verdict == fixed["sensitive"].verdict == "undecided"
    for scale in (troth.exact_range(b, [2, 2]), troth.clipped_range(b, [1, 1], low=-1)):
        assert troth.certify(b, [40] * 5, troth.OneTime(scale))["truthful"].verdict == "undecided"
    open_model = models.Finite.from_posteriors([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9], [0.5, 0.5]])
    assert troth.certify(open_model, [2, 2], troth.LogPmiRule())["price of lying"].verdict == "undecided"


def test_without_the_margin_of_e5_nothing_is_called_sensitive() -> None:
    cases = 0
    for seed in range(60 if SOAK else 30):
        world = finite_world(seed, zeros=True, different=True)
        model = one_model(world.models)
        extremes = [own.log_pmi_extremes(limit, peers) for own, limit, peers in situations(model, world.rows)]  # type: ignore[attr-defined]
        low, high = min(e.low for e in extremes), max(e.high for e in extremes)
        if high - low < 1e-6:
            continue
        rule = troth.OneTime(troth.ScoreRange(low, high))
        certificate = troth.certify(model, world.rows, rule)
        if max(troth.best_response(model, rule, world.rows, provider=i).gain for i in range(len(world.rows))) > 1e-9:
            cases += 1
            assert certificate["truthful"].verdict == "undecided"
            assert certificate["sensitive"].verdict != "proved"
            assert certificate["price of lying"].verdict != "proved"
    assert cases > 0


def test_a_fit_is_as_wary_of_low_as_of_high_values() -> None:
    values = generator(12).standard_normal(400) ** 3
    assert _distance(values) == pytest.approx(_distance(-values))
    assert _distance(values)[values.argmin()] > 1


def test_a_price_is_proved_only_where_every_provider_has_one() -> None:
    known = models.Finite([0.5, 0.5], [[0.7, 0.1, 0.2], [0.1, 0.7, 0.2]])
    up_to_a_factor = models.Finite.from_posteriors([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9], [0.5, 0.5]])
    for combination in ([known] * 3, [up_to_a_factor] * 3, [known, known, up_to_a_factor]):
        claim = troth.certify(combination, [2, 2, 2], troth.LogPmiRule())["price of lying"]
        assert claim.verdict == ("proved" if up_to_a_factor not in combination else "undecided")


def test_a_small_dataset_within_a_large_one_is_flagged() -> None:
    rng, normal = generator(11), models.Normal(0, 1, 1)
    large = rng.normal(size=60)
    data = [large, large[:20], rng.normal(size=20)]
    t = np.stack([normal.statistics(x) for x in data])
    near = troth.find_near_duplicates(normal, t, data)
    assert [(pair.providers, pair.why) for pair in near] == [((0, 1), "20 rows in common")]


def test_what_no_simulation_reaches_has_the_smallest_p_value_and_not_0() -> None:
    """The reports themselves count as a simulation: otherwise the p-value would not be exact."""
    t = np.array([[900.0, 100.0], [100.0, 900.0], [500.0, 500.0]])
    for simulations in (200, 500):
        fit = troth.check_fit(models.Bernoulli(1, 1), t, simulations=simulations)
        assert fit.p_value == 1 / (simulations + 1)


def test_a_check_by_itself_looks_at_both_sides() -> None:
    others = np.arange(100.0)
    assert _two_sided(np.append(-1.0, others)) == pytest.approx(2 / 101)
    assert _two_sided(np.append(100.0, others)) == pytest.approx(2 / 101)
    assert _two_sided(np.append(50.0, others)) == 1.0


def test_the_more_pairs_the_nearer_near_duplicates_are() -> None:
    """Among 40 reports there are 780 pairs, so each must be closer than a single pair of two reports."""
    normal = models.Normal(0, 1, 1)
    t = np.column_stack([np.ones(40), np.linspace(-2, 2, 40)])
    for apart, near in ((1e-4, []), (1e-6, [(7, 39)])):
        t[39, 1] = t[7, 1] + apart
        assert [pair.providers for pair in troth.find_near_duplicates(normal, t)] == near


def test_the_weakest_of_several_campaigns_promises_least() -> None:
    def campaign(gain: float, price: float) -> Certificate:
        return Certificate(
            (Claim("truthful", "proved", "", "", gain), Claim("price of lying", "proved", "", "", price))
        )

    least = weakest([campaign(0.1, 0.3), campaign(0.2, 0.5), campaign(0.0, 0.4)])
    assert least["truthful"].margin == 0.2  # the maximum gain of a lie
    assert least["price of lying"].margin == 0.3  # its minimum cost


def test_a_linear_price_is_stated_only_where_more_rows_cannot_lower_it() -> None:
    """If a report can rule out the peers' data, the low end of a range is paid, and lies may cost less."""
    linear = "linear price of lying"
    with_zeros = models.Finite([0.5, 0.5], [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    for model, least, stated in (
        (with_zeros, None, False),
        (with_zeros, [1, 1, 2], False),
        (with_zeros, [2, 2, 2], True),
        (models.Finite([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]), [1, 1, 1], True),
    ):
        claims = troth.certify(model, [2, 2, 2], troth.OneTime(), min_rows=least)
        assert claims["price of lying"].verdict == "proved"
        assert (linear in [claim.name for claim in claims.claims]) is stated
