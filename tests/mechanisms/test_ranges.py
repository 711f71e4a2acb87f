"""Ranges against brute force: every admissible report of small rounds, enumerated row by row."""

from __future__ import annotations

from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

import troth
from registry import EXAMPLES, SOAK, generator
from troth import models
from troth.mechanisms.score_range import situations
from troth.models.numerics import extremes, finite_extremes
from troth.models.numerics.extremes import dirichlet_extremes, unordered_datasets

TRIALS = 300 if SOAK else 40


def brute_force(provider_models: list[Any], rows: list[int], values: Any) -> tuple[float, float, bool]:
    """Minimum and maximum finite log PMI over all reports with rows among ``values``, and whether PMI = 0 occurs."""
    everyone = []
    for model, limit in zip(provider_models, rows, strict=True):
        datasets = [list(d) for n in range(limit + 1) for d in combinations_with_replacement(values, n)]
        statistics = []
        for data in datasets:
            try:
                statistics.append(model.statistics(data))
            except troth.DataError:
                continue
        everyone.append(np.unique(np.array(statistics), axis=0))
    scores_by_report = []
    for i, own in enumerate(everyone):
        peers = np.array([np.sum(c, axis=0) for c in product(*(t for j, t in enumerate(everyone) if j != i))])
        peers = np.unique(peers, axis=0)
        peers = peers[np.isfinite(provider_models[0].log_evidence(peers))]
        scores_by_report.append(troth.log_pmi(provider_models, own[:, None], peers[None]).ravel())
    scores = np.concatenate(scores_by_report)
    finite = scores[np.isfinite(scores)]
    return float(finite.min()), float(finite.max()), bool(finite.size < scores.size)


def random_model(family: str, rng: Any) -> Any:
    a, b, c = 10 ** rng.uniform(-1.5, 1.3, 3)
    by_kind: dict[str, Any] = {
        "Bernoulli": models.Bernoulli(a, b),
        "Categorical": models.Categorical([a, b, c]),
        "Geometric": models.Geometric(a, b),
        "NegativeBinomial": models.NegativeBinomial(c, a, b),
        "Poisson": models.Poisson(a, b),
    }
    return by_kind[family]


@pytest.mark.parametrize("family", ["Bernoulli", "Categorical", "Geometric", "NegativeBinomial", "Poisson"])
def test_exact_range_of_discrete_families(family: str) -> None:
    for seed in range(TRIALS):
        rng = generator(seed, 5)
        model = random_model(family, rng)
        rows = [int(n) for n in rng.integers(0, 3, 3)]
        if sorted(rows)[-2] == 0:
            continue
        low, high = (
            (0, 1) if family == "Bernoulli" else (0, 2) if family == "Categorical" else (0, int(rng.integers(1, 5)))
        )
        expected = brute_force([model] * 3, rows, range(low, high + 1))
        score_range = troth.exact_range(model, rows, values=(low, high))
        assert (score_range.low, score_range.high) == pytest.approx(expected[:2], abs=1e-9)


@pytest.mark.parametrize("family", ["Exponential", "Gamma", "Normal"])
def test_exact_range_of_continuous_families_encloses_and_is_attained(family: str) -> None:
    for seed in range(TRIALS if SOAK else 6):
        rng = generator(seed, 6)
        a, b, c = 10 ** rng.uniform(-1.3, 1.3, 3)
        model: Any = {
            "Exponential": models.Exponential(a, b),
            "Gamma": models.Gamma(c, a, b),
            "Normal": models.Normal(0.5, a, b),
        }[family]
        bounds = (0.1, 0.1 + float(rng.uniform(0.5, 4)))
        score_range = troth.exact_range(model, [2, 1, 2], values=bounds)
        means = np.linspace(*bounds, 241 if SOAK else 161) - getattr(model, "mean", 0.0)
        tables = []
        for own, peers in ((2, 3), (1, 4)):
            sides = (np.array([[n, n * x] for n in range(limit + 1) for x in means]) for limit in (own, peers))
            first, second = sides
            tables.append(troth.log_pmi(model, first[:, None], second[None]))
        low, high = min(t.min() for t in tables), max(t.max() for t in tables)
        assert score_range.low == pytest.approx(low, abs=1e-9)  # attained at the ends of the values
        assert (
            high - 1e-9 <= score_range.high <= high + 2e-4 * (high - low)
        )  # attained, or between two points of the grid


def test_exact_range_of_the_normal_is_approached_from_inside() -> None:
    model = models.Normal(0.0, 2.0, 1.0)
    score_range = troth.exact_range(model, [3, 4], values=(-2, 5))
    n, m = np.arange(4.0), np.arange(5.0)
    means = np.linspace(-2, 5, 401)
    own = np.stack(np.broadcast_arrays(n[:, None], n[:, None] * means), axis=-1).reshape(-1, 1, 2)
    peers = np.stack(np.broadcast_arrays(m[:, None], m[:, None] * means), axis=-1).reshape(1, -1, 2)
    scores = troth.log_pmi(model, own, peers)
    assert score_range.low == pytest.approx(scores.min(), abs=1e-9)
    assert scores.max() <= score_range.high <= scores.max() + 1e-3


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("different", [False, True])
def test_exact_range_of_finite_models(zeros: bool, different: bool) -> None:
    for seed in range(TRIALS):
        rng = generator(seed, int(zeros), int(different), 7)
        states = int(rng.integers(2, 5))
        tables = rng.dirichlet(np.ones(3), size=(3, states))
        if zeros:
            tables *= rng.random(tables.shape) > 0.3
            tables[..., 0] += 0.05
            tables /= tables.sum(axis=-1, keepdims=True)
        prior = rng.dirichlet(np.ones(states))
        provider_models = [models.Finite(prior, tables[i if different else 0]) for i in range(3)]
        rows = [2, 1, 2]
        low, high, impossible = brute_force(provider_models, rows, range(3))
        if low - impossible == high:
            continue  # no symbol is informative about the state
        score_range = troth.exact_range(provider_models if different else provider_models[0], rows)
        assert score_range.low == pytest.approx(low - impossible, abs=1e-9)
        assert score_range.high == pytest.approx(high, abs=1e-9)
        paper = troth.paper_range(provider_models if different else provider_models[0], rows)
        assert paper.low <= low - impossible
        assert paper.high >= high - 1e-12


def test_the_search_for_many_categories_agrees_with_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hill climb for large reports, applied to small ones."""
    monkeypatch.setattr(extremes, "_MAX_EXHAUSTIVE", 0)
    for seed in range(5 * TRIALS if SOAK else 60):
        rng = generator(seed, 8)
        k = int(rng.integers(2, 5))
        prior, own, peers = 10 ** rng.uniform(-3, 1.5, k), int(rng.integers(1, 7)), int(rng.integers(1, 7))
        model = models.Categorical(prior)
        scores = troth.log_pmi(model, unordered_datasets(own, k)[:, None], unordered_datasets(peers, k)[None])
        assert dirichlet_extremes(prior, own, peers) == pytest.approx((scores.min(), scores.max()), abs=1e-9)


def test_ranges_of_large_rounds_hold_for_random_reports() -> None:
    rng = generator(9)
    cases: list[tuple[Any, Any]] = [
        (models.Bernoulli(1, 1), None),
        (models.Categorical([0.5, 1, 2]), None),
        (models.Poisson(2, 1), (0, 50)),
        (models.Geometric(2, 3), (0, 100)),
        (models.Exponential(2, 1), (0.01, 20)),
        (models.Normal(0, 1, 2), (-10, 10)),
    ]
    for model, values in cases:
        scale = troth.exact_range(model, [100] * 10, values=values)
        theta = model.draw_parameters(rng, (2000, 10))
        data = model.draw_data(rng, theta, 100)
        if values is not None:
            data = np.clip(data, *values)
        scores = troth.peer_log_pmi(model, model.statistics(data))
        assert scale.low <= scores.min()
        assert scores.max() <= scale.high
        troth.OneTime(scale).pay(model, model.statistics(data), budget=1.0)


def test_providers_with_different_noise_share_one_range() -> None:
    combined = troth.combine([models.Normal(0, 1, 1), models.Normal(0, 1, 2), models.Normal(0, 1, 3)])
    scale = troth.exact_range(combined, [3, 2, 2], values=(-2, 2))
    low, high, _ = brute_force(combined, [3, 2, 2], [-2, -1, 0, 1, 2])
    assert scale.low == pytest.approx(low, abs=1e-9)
    assert high <= scale.high + 1e-12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: troth.exact_range(models.Normal(0, 1, 1), [3, 3]),
            r"declare the minimum and the maximum value of a row \(\[limits\] values, .*needs no range",
        ),
        (lambda: troth.exact_range(models.Poisson(1, 1), [3, 3]), r"Poisson grows without bound"),
        (
            lambda: troth.exact_range(EXAMPLES["regression"], [3, 3]),
            "LinearRegression has no finite range.*needs no range",
        ),
        (lambda: troth.exact_range(EXAMPLES["normal, unknown variance"], [3, 3], values=(0, 1)), "no finite range"),
        (lambda: troth.paper_range(models.Bernoulli(1, 1), [3, 3]), "the paper has no range for Bernoulli"),
        (lambda: troth.exact_range(models.Bernoulli(1, 1), [0, 0]), "say nothing"),
    ],
)
def test_a_missing_range_is_an_error_with_reason_and_remedy(call: Any, message: str) -> None:
    with pytest.raises(troth.UnboundedRangeError, match=message):
        call()


def test_bounds_on_counts_are_integers() -> None:
    loose, tight = (troth.exact_range(models.Poisson(2, 1), [3, 3], values=v) for v in ((0.5, 3.7), (1, 3)))
    assert loose == tight
    with pytest.raises(troth.ParameterError, match="no whole number"):
        troth.exact_range(models.Poisson(2, 1), [3, 3], values=(0.2, 0.8))


def test_impossible_requests_are_refused() -> None:
    model = models.Bernoulli(1, 1)
    with pytest.raises(troth.DataError, match="at least two providers"):
        troth.exact_range(model, [3])
    with pytest.raises(troth.DataError, match="whole numbers"):
        troth.exact_range(model, [3, -1])
    with pytest.raises(troth.DataError, match="2 models for 3 providers"):
        troth.exact_range([model, model], [1, 1, 1])
    with pytest.raises(troth.ParameterError, match="below 0"):
        troth.clipped_range(model, [3, 3], low=0.5)
    with pytest.raises(troth.ParameterError, match="low < high"):
        troth.ScoreRange(1, 1)
    with pytest.raises(troth.ParameterError, match="low <= high"):
        troth.exact_range(models.Poisson(1, 1), [3, 3], values=(5, 2))
    with pytest.raises(troth.ParameterError, match="outside the support"):
        troth.exact_range(models.Poisson(1, 1), [3, 3], values=(-5, -2))


def test_a_clipped_range_computes_its_epsilon_and_needs_no_minimum() -> None:
    scale = troth.clipped_range(models.Bernoulli(1, 1), [100] * 10, low=-8)
    assert scale.epsilon == pytest.approx(np.log1p(np.exp(-8)))
    assert scale.high == pytest.approx(np.log(101 * 901 / 1001))


def test_e14_the_paper_range_leaves_no_incentive() -> None:
    """A provider without data gets nearly the full cap under the paper's range."""
    prior, table = [0.3, 0.4, 0.3], [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]]
    model = models.Finite(prior, table)
    t = np.stack([model.statistics([0] * 20)] * 3)
    nothing = troth.OneTime(troth.paper_range(model, [20] * 3)).empty_share(model, t)
    assert nothing.min() > 0.95
    assert troth.OneTime(troth.clipped_range(model, [20] * 3, low=-2)).empty_share(model, t).max() < 0.7


def test_paper_range_of_the_normal_mean_is_corrected() -> None:
    """Bounds on the values are needed (E1), and the corrected bounds hold."""
    model = models.Normal(1, 2, 1.5)
    with pytest.raises(troth.UnboundedRangeError, match="declare the minimum"):
        troth.paper_range(model, [3, 4])
    for values in ((-3, 4), (0, 9), (2, 3)):
        paper, exact = (make(model, [3, 4], values=values) for make in (troth.paper_range, troth.exact_range))
        assert paper.low <= exact.low
        assert exact.high <= paper.high


def test_equal_pseudo_counts_do_not_confuse_the_search() -> None:
    """Ties between categories once gave peers more rows than they have."""
    for alpha in (0.01, 0.2, 0.41, 0.47, 1 / 3, 2 / 3, 1.0, 2.5):
        for k in (3, 4):
            model = models.Categorical([alpha] * k)
            for rows in ([2, 1], [3, 2], [2, 4]):
                expected = brute_force([model] * 2, rows, range(k))
                score_range = troth.exact_range(model, rows)
                assert (score_range.low, score_range.high) == pytest.approx(expected[:2], abs=1e-9)


def test_ranges_of_huge_reports_are_precise_and_fast() -> None:
    bernoulli = models.Bernoulli(1, 1)
    full = np.tile([[100.0, 0.0]], (100_000, 1))
    troth.OneTime(troth.clipped_range(bernoulli, [100] * 100_000)).pay(bernoulli, full, budget=1.0)
    huge = np.tile([[1e10, 0.0]], (3, 1))
    troth.OneTime(troth.clipped_range(bernoulli, [10**10] * 3)).pay(bernoulli, huge, budget=1.0)
    for model, values in (
        (models.Poisson(2, 1), (0, 20)),
        (models.Normal(0, 1, 2e4), (-1e5, 1e5)),
        (models.Geometric(2, 1), (0, 9)),
    ):
        for rows in ([200] * 100_000, [10**6] * 100):
            score_range = troth.exact_range(model, rows, values=values)
            assert score_range.low < 0 < score_range.high
    labs = troth.combine([models.Normal(0, 8.2, s) for s in (95.7, 0.0107, 0.105)])
    assert troth.exact_range(labs, [1, 3, 3], values=(6.5, 25.6)).high > 9


def test_the_hill_climb_agrees_with_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for large finite reports, applied to small ones, with zeros and with different tables."""
    cases = []
    for seed in range(TRIALS):
        rng = generator(seed, 12)
        states, labels = int(rng.integers(2, 5)), int(rng.integers(2, 5))
        tables = rng.dirichlet(np.ones(labels), size=(2, states))
        if seed % 3 == 0:
            tables *= rng.random(tables.shape) > 0.3
            tables[..., 0] += 0.05
            tables /= tables.sum(axis=-1, keepdims=True)
        prior = rng.dirichlet(np.ones(states))
        first, second = (models.Finite(prior, table) for table in tables)
        peers: Any = [(first, int(rng.integers(1, 6))), *([(second, 2)] if seed % 2 else [])]
        cases.append((first, int(rng.integers(1, 6)), peers))
    enumerated = [model.log_pmi_extremes(rows, peers) for model, rows, peers in cases]
    monkeypatch.setattr(finite_extremes, "_MAX_COMBINATIONS", 0)
    for (model, rows, peers), expected in zip(cases, enumerated, strict=True):
        assert model.log_pmi_extremes(rows, peers)[:2] == pytest.approx(expected[:2], abs=1e-9)


def test_large_finite_rounds_have_a_range() -> None:
    model = models.Finite([0.3, 0.3, 0.4], [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]])
    scale = troth.exact_range(model, [100] * 10)
    rng = generator(13)
    t = model.draw_statistics(rng, model.draw_parameters(rng, (500, 10)), np.full((10, 1), 100.0))
    scores = troth.peer_log_pmi(model, t)
    assert scale.low <= scores.min()
    assert scores.max() <= scale.high + 1e-9


@pytest.mark.parametrize("outcome", ["binary", "categorical", "count", "real"])
@pytest.mark.parametrize("dispersion", [0.0, 0.3])
def test_reports_of_day_types_stay_within_the_range(outcome: str, dispersion: float) -> None:
    """Different likelihoods, numbers of rows from 0 to the limit, and values that include both ends."""
    for seed in range(20 if SOAK else 2):
        rng = generator(seed, 17)
        prior, values = rng.dirichlet(np.ones(3)), (0, 9) if outcome == "count" else (-4, 4)
        provider_models: list[Any] = [
            models.LatentClass(prior, outcome, means, dispersion, 1.0 if outcome == "real" else None)
            for means in (
                rng.dirichlet(np.ones(3), (3, 3)) if outcome == "categorical" else rng.uniform(0.05, 0.95, (3, 3))
            )
        ]
        scale = troth.exact_range(provider_models, [4, 3, 5], values=values)
        for _ in range(100):
            rows = [int(rng.integers(0, limit + 1)) for limit in (4, 3, 5)]
            high: Any = {"binary": 1, "categorical": 2}.get(outcome, values[1])
            low = values[0] if outcome == "real" else 0
            t = [
                m.statistics(rng.choice([low, high, rng.integers(low, high + 1)], n))
                for m, n in zip(provider_models, rows, strict=True)
            ]
            scores = troth.peer_log_pmi(provider_models, np.stack(t))
            assert scale.low - 1e-9 <= scores.min()
            assert scores.max() <= scale.high + 1e-9


def test_the_largest_panel_can_have_the_peers_with_the_most_rows() -> None:
    """Five peers in two panels: three of them in the larger one."""
    cases = situations(models.Bernoulli(1, 1), [9, 1, 2, 3, 4, 5], panels=2)
    largest = {limit: sum(rows for _, rows in peers) for _, limit, peers in cases}
    assert largest == {9: 5 + 4 + 3, 1: 9 + 5 + 4, 2: 9 + 5 + 4, 3: 9 + 5 + 4, 4: 9 + 5 + 3, 5: 9 + 4 + 3}


def test_reports_contradict_each_other_only_if_their_rows_rule_out_enough_states() -> None:
    """Each symbol rules out one of three states, so a row on either side leaves a state that both allow."""
    model = models.Finite([0.2, 0.3, 0.5], (1 - np.eye(3)) / 2)
    for own, peers, impossible in ((1, [1], False), (2, [1], True), (1, [1, 1], True), (1, [0, 1], False)):
        assert model.log_pmi_extremes(own, [(model, rows) for rows in peers]).impossible == impossible
