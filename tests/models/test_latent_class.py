"""Likelihoods with an effect of provider and day: against integrals, limits, draws and every report of small worlds."""

from __future__ import annotations

from itertools import combinations_with_replacement, product
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special, stats

import troth
from registry import EXAMPLES, SOAK, generator
from troth import models
from troth.core.reductions import Counts, Moments
from troth.models import latent_class
from troth.models.numerics import day_types
from troth.models.numerics.dispersed import log_likelihood, log_rising

DAY_TYPES = [name for name in EXAMPLES if name.startswith("day types")]
PRIOR = [0.3, 0.7]


@pytest.mark.parametrize("dispersion", [0.9, 0.2, 1e-3])
@pytest.mark.parametrize("rate", [0.03, 0.5, 0.9])
def test_binary_rows_are_binomial_given_a_beta_rate(rate: float, dispersion: float) -> None:
    """A polynomial in the rate, integrated exactly by Gauss and Jacobi."""
    model = models.LatentClass([1.0], "binary", [rate], dispersion)
    a, b = (p * (1 - dispersion) / dispersion for p in (rate, 1 - rate))
    for zeros, ones in ((0, 1), (3, 0), (7, 5), (0, 24)):
        x, w = special.roots_jacobi((zeros + ones) // 2 + 2, b - 1, a - 1)
        p = (1 + x) / 2
        expected = np.log((w * p**ones * (1 - p) ** zeros).sum() / w.sum())
        assert float(model.from_summary([zeros, ones])[0]) == pytest.approx(expected, abs=1e-10)  # type: ignore[arg-type]


@pytest.mark.parametrize("dispersion", [3.0, 0.2, 1e-3])
def test_counts_are_poisson_given_a_gamma_rate(dispersion: float) -> None:
    """Against the integral over the effect, up to what does not depend on the type."""
    model = models.LatentClass(PRIOR, "count", [1.3, 4.0], dispersion)
    for rows, total in ((1, 0), (3, 7), (5, 30)):
        expected = []
        for rate in (1.3, 4.0):
            shape = 1 / mpmath.mpf(dispersion)

            def integrand(g: Any, rate: float = rate, shape: Any = shape) -> Any:
                return g ** (shape - 1 + total) * mpmath.exp(-g * (shape + rows * rate)) * mpmath.mpf(rate) ** total  # noqa: B023

            peak = (shape + total) / (shape + rows * rate)
            width = mpmath.sqrt(shape + total) / (shape + rows * rate)
            ends = [
                mpmath.mpf(0),
                *(peak + k * width for k in (-9, -3, 0, 3, 9, 30) if peak + k * width > 0),
                mpmath.inf,
            ]
            expected.append(mpmath.log(mpmath.quad(integrand, ends)))
        log_likelihood = model.from_summary(np.array([rows, total], dtype=float))
        assert float(log_likelihood[1] - log_likelihood[0]) == pytest.approx(float(expected[1] - expected[0]), abs=1e-8)


def exact_rising(x: float, count: int) -> float:
    with mpmath.workdps(260):
        big = mpmath.mpf(x)
        return float(mpmath.loggamma(big + count) - mpmath.loggamma(big) - count * mpmath.log(big))


@pytest.mark.parametrize("x", [1e-8, 1e-3, 0.7, 15.9, 16.1, 300.0, 1e6, 1e12, 1e200])
def test_rising_factorials_keep_their_digits(x: float) -> None:
    for count in (0, 1, 2, 40, 10**4, 10**7):
        expected = exact_rising(x, count)
        assert float(log_rising(np.array(x), np.array(float(count)))) == pytest.approx(
            expected, rel=4e-15, abs=4e-16 * (count + 100)
        )


@pytest.mark.parametrize(
    ("outcome", "means", "sums"),
    [
        ("binary", [0.2, 0.6], [[30.0, 12.0], [0.0, 5.0]]),
        ("categorical", [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], [[5.0, 0.0, 40.0]]),
        ("count", [1.5, 4.0], [[40.0, 90.0], [3.0, 0.0]]),
        ("real", [-1.0, 2.5], [[40.0, 33.0], [0.0, 0.0]]),
    ],
)
def test_dispersion_vanishes_smoothly(outcome: str, means: Any, sums: Any) -> None:
    """Without dispersion rows are i.i.d.; little of it changes little, in proportion, and no digit is lost."""
    spread = 1.2 if outcome == "real" else None
    t = np.array(sums)
    still = models.LatentClass(PRIOR, outcome, means).from_summary(t) if spread is None else None
    if outcome == "real":
        still = models.LatentClass(PRIOR, outcome, means, 0.0, spread).from_summary(t)
    assert still is not None
    sizes = np.array([1e-4, 1e-6, 1e-8, 1e-10])
    if outcome == "real":
        sizes = np.sqrt(sizes)
    moved = [np.abs(models.LatentClass(PRIOR, outcome, means, s, spread).from_summary(t) - still).max() for s in sizes]
    slope = moved[0] / 1e-4
    for size, change in zip((1e-6, 1e-8, 1e-10), moved[1:], strict=True):
        assert change <= 1.2 * slope * size + 1e-12
    tiny = models.LatentClass(PRIOR, outcome, means, 1e-90, spread).from_summary(t)
    np.testing.assert_allclose(tiny, still, rtol=0, atol=1e-12)


def test_without_dispersion_labels_are_a_finite_model() -> None:
    table = [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]
    finite, types = models.Finite(PRIOR, table), models.LatentClass(PRIOR, "categorical", table)
    data = generator(1).integers(0, 3, (5, 40))
    np.testing.assert_allclose(types.statistics(data), finite.statistics(data), atol=1e-12)


def test_labels_have_a_probability_in_all() -> None:
    model: Any = EXAMPLES["day types, categorical"]
    total = sum(np.exp(model.statistics(list(data))) for data in product(range(3), repeat=5))
    np.testing.assert_allclose(total, 1.0, atol=1e-12)


@pytest.mark.parametrize("name", [*DAY_TYPES, "provider normal"])
def test_drawn_rows_and_drawn_sums_have_the_same_moments(name: str) -> None:
    """Mean and variance of the sum of six rows, of drawn data and of the likelihood: 5.5 standard errors, 6e-8 each."""
    model: Any = EXAMPLES[name]
    rng, draws, rows = generator(2), 60_000, 6
    theta = model.draw_parameters(rng, (draws,))
    data = model.draw_data(rng, theta, rows)
    if name == "provider normal":
        mean, day, row = theta[:, 0] + model.offset, model.dispersion**2, model.noise**2
    else:
        k = theta[:, 0].astype(int)
        mean = np.array(model.means)[k]
        if model.outcome == "categorical":
            data, mean = (data == 1).astype(float), mean[:, 1]
        if model.outcome == "real":
            day, row = model.dispersion**2, model.spread**2
        elif model.outcome == "count":
            day, row = model.dispersion * mean**2, mean
        else:
            day, row = model.dispersion * mean * (1 - mean), (1 - model.dispersion) * mean * (1 - mean)
    z = (data.mean(axis=-1) - mean) / np.sqrt(day + row / rows)
    assert abs(z.mean()) < 5.5 * z.std() / np.sqrt(draws)
    assert abs((z**2).mean() - 1) < 5.5 * (z**2).std() / np.sqrt(draws)
    fresh = model.draw_statistics(rng, theta, model.plan(float(rows)))
    for drawn, from_rows in zip(fresh.T, model.statistics(model.draw_data(rng, theta, rows)).T, strict=True):
        if np.ptp(drawn) > 0:
            assert stats.ks_2samp(drawn, from_rows).pvalue > 1e-7


def brute_force(likelihoods: list[Any], rows: list[int], values: Any) -> tuple[float, float]:
    everyone = []
    for likelihood, limit in zip(likelihoods, rows, strict=True):
        datasets = [list(d) for n in range(limit + 1) for d in combinations_with_replacement(values, n)]
        everyone.append(np.unique([likelihood.statistics(d) for d in datasets], axis=0))
    scores_by_report = []
    for i, own in enumerate(everyone):
        peers = np.array([np.sum(c, axis=0) for c in product(*(t for j, t in enumerate(everyone) if j != i))])
        scores_by_report.append(troth.log_pmi(likelihoods, own[:, None], peers[None]).ravel())
    scores = np.concatenate(scores_by_report)
    return float(scores.min()), float(scores.max())


def random_likelihood(outcome: str, prior: Any, rng: Any) -> models.LatentClass:
    types = len(prior)
    dispersion = float(rng.choice([0.0, rng.uniform(0, 0.9)]))
    if outcome == "categorical":
        return models.LatentClass(prior, outcome, rng.dirichlet(np.ones(3), size=types), dispersion)
    if outcome == "binary":
        return models.LatentClass(prior, outcome, rng.uniform(0.05, 0.95, types), dispersion)
    if outcome == "count":
        return models.LatentClass(prior, outcome, rng.uniform(0.2, 6, types), dispersion)
    return models.LatentClass(prior, outcome, rng.normal(0, 2, types), dispersion, 1.0)


@pytest.mark.parametrize("outcome", ["binary", "categorical", "count", "real"])
@pytest.mark.parametrize("enumerate_all", [True, False])
def test_ranges_hold_every_report(outcome: str, enumerate_all: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact where labels are enumerated, and otherwise a bound that holds."""
    if not enumerate_all:
        monkeypatch.setattr(latent_class, "_MAX_REPORTS", 0)
    values = {"binary": range(2), "categorical": range(3), "count": range(4), "real": (-2.0, 0.5, 3.0)}[outcome]
    for seed in range(60 if SOAK else 6):
        rng = generator(seed, 21)
        prior = rng.dirichlet(np.ones(int(rng.integers(2, 4))) * 2)
        likelihoods = [random_likelihood(outcome, prior, rng) for _ in range(3)]
        low, high = brute_force(likelihoods, [3, 2, 2], values)
        bounds = (min(values), max(values)) if outcome in ("count", "real") else None
        score_range = troth.exact_range(likelihoods, [3, 2, 2], values=bounds)
        if enumerate_all and bounds is None:
            assert (score_range.low, score_range.high) == pytest.approx((low, high), abs=1e-9)
        assert score_range.low <= low + 1e-12
        assert score_range.high >= high - 1e-12
        scale = troth.clipped_range(likelihoods, [3, 2, 2], values=bounds, low=-1.0)
        assert scale.high >= high - 1e-12


def test_the_range_of_very_many_labels_holds_that_of_the_best_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond some thousand rows labels are not sorted: all that favour a type are taken to have all rows."""
    for dispersion in (0.0, 0.02, 0.5):
        for means in (np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]), np.array([[0.4, 0.6], [0.5, 0.5]])):
            monkeypatch.setattr(day_types, "_MAX_EXACT_ROWS", 4000)
            exact = day_types.max_log_ratio("categorical", 60, means, dispersion)
            monkeypatch.setattr(day_types, "_MAX_EXACT_ROWS", 0)
            bound = day_types.max_log_ratio("categorical", 60, means, dispersion)
            assert exact - 1e-12 <= bound < 2 * exact + 1e-12


def test_peers_of_one_model_are_not_one_peer() -> None:
    """Two peers with an effect each tell more than one with all rows: a range must hold both."""
    model = models.LatentClass(PRIOR, "binary", [0.2, 0.8], 0.5)
    low, high = brute_force([model] * 3, [4, 4, 4], range(2))
    score_range = troth.exact_range(model, [4, 4, 4])
    assert (score_range.low, score_range.high) == pytest.approx((low, high), abs=1e-9)


@pytest.mark.parametrize("seed", range(20 if SOAK else 2))
def test_no_report_gains_in_small_worlds(seed: int) -> None:
    """Every true dataset, every report and everything that peers could say, with a likelihood per provider."""
    rng = generator(seed, 22)
    prior = rng.dirichlet([2, 2, 2])
    likelihoods: list[Any] = [random_likelihood("binary" if seed % 2 else "categorical", prior, rng) for _ in range(3)]
    rows = [3, 2, 2]
    for rule in (troth.OneTime(troth.exact_range(likelihoods, rows)), troth.MultiDay(), troth.SyntheticPeers()):
        for provider in range(3):
            assert troth.best_response(likelihoods, rule, rows, provider=provider).gain <= 1e-12
    iid = [models.LatentClass(likelihood.prior, likelihood.outcome, likelihood.means) for likelihood in likelihoods]
    assert all(likelihood.dispersion == 0 for likelihood in iid)


def test_ignoring_dispersion_makes_a_lie_pay() -> None:
    """The data share an effect, the mechanism's model does not: withholding rows then gains, as it did on real days."""
    true = models.LatentClass([0.5, 0.5], "binary", [0.35, 0.65], 0.3)
    naive = models.LatentClass([0.5, 0.5], "binary", [0.35, 0.65])
    rng = generator(23)
    theta = true.draw_parameters(rng, (20_000, 2))
    data = [true.draw_data(rng, theta, 30) for _ in range(4)]
    for likelihood, gains in ((true, False), (naive, True)):
        honest = np.stack([likelihood.statistics(x) for x in data], axis=-2)
        lie = honest.copy()
        lie[..., 0, :] = likelihood.statistics(data[0][..., :4])
        truth, told = (troth.MultiDay(exchangeable=True).explain(likelihood, t).share[:, 0, 0] for t in (honest, lie))
        gain = told - truth
        margin = 5 * gain.std() / np.sqrt(len(gain))
        assert (gain.mean() > margin) if gains else (gain.mean() < -margin)


def test_sums_are_declared() -> None:
    assert EXAMPLES["day types, binary"].reduction == Counts(2)
    assert EXAMPLES["day types, categorical"].reduction == Counts(3)
    assert EXAMPLES["day types, real"].reduction == Moments((3.0,))
    assert EXAMPLES["day types, count"].reduction.support.integer
    assert np.array_equal(log_likelihood("count", np.zeros((4, 2)), np.ones(3), 0.2, 0.0), np.zeros((4, 3)))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: models.LatentClass([0.5, 0.6], "binary", [0.1, 0.2]), "prior must sum to 1"),
        (lambda: models.LatentClass([1.0, 0.0], "binary", [0.1, 0.2]), r"prior\[1\] must be above 0"),
        (lambda: models.LatentClass(PRIOR, "bernoulli", [0.1, 0.2]), "no outcome 'bernoulli'; there are binary"),
        (lambda: models.LatentClass(PRIOR, "binary", [0.1]), "means must have 2 entries, one per type, not 1"),
        (lambda: models.LatentClass(PRIOR, "binary", [0.1, 1.0]), r"means\[1\] must lie between 0 and 1"),
        (lambda: models.LatentClass(PRIOR, "categorical", [[0.5, 0.5], [1.0, 0.0]]), r"means\[1, 0\].*use Finite"),
        (lambda: models.LatentClass(PRIOR, "categorical", [[0.5, 0.6], [0.9, 0.1]]), r"means\[0\] must sum to 1"),
        (lambda: models.LatentClass(PRIOR, "categorical", [[1.0], [1.0]]), "at least two codes"),
        (lambda: models.LatentClass(PRIOR, "count", [0.0, 1.0]), r"means\[0\] must lie above 0"),
        (lambda: models.LatentClass(PRIOR, "binary", [0.1, 0.2], 1.0), "must be below 1"),
        (lambda: models.LatentClass(PRIOR, "binary", [0.1, 0.2], -0.1), "dispersion must be 0 or above"),
        (lambda: models.LatentClass(PRIOR, "binary", [0.1, 0.2], 0.1, 1.0), "spread is only for real outcomes"),
        (lambda: models.LatentClass(PRIOR, "count", [1, 2], 0.1, centre=1.0), "centre is only for real outcomes"),
        (lambda: models.LatentClass(PRIOR, "real", [0.1, 0.2]), "spread is missing"),
        (lambda: models.ProviderNormal(0, 1, 1, dispersion=-1), "dispersion must be 0 or above"),
    ],
)
def test_impossible_laws_are_refused(build: Any, message: str) -> None:
    with pytest.raises(troth.ParameterError, match=message):
        build()


def test_providers_share_the_prior_and_nothing_else() -> None:
    one = models.LatentClass(PRIOR, "binary", [0.2, 0.6], 0.1)
    other = models.LatentClass(PRIOR, "real", [0.0, 5.0], 0.5, 1.0)
    assert troth.combine([one, other]) == [one, other]
    with pytest.raises(troth.IncompatibleModelsError, match="prior is"):
        troth.combine([one, models.LatentClass([0.4, 0.6], "binary", [0.2, 0.6])])
    near, far = models.ProviderNormal(0, 1, 1), models.ProviderNormal(0, 1, 2, 3, 0.5)
    assert troth.combine([near, far]) == [near, far]
    with pytest.raises(troth.IncompatibleModelsError, match="scale is 2.0"):
        troth.combine([near, models.ProviderNormal(0, 2, 1)])


def test_rows_are_asked_for() -> None:
    model: Any = EXAMPLES["day types, binary"]
    assert np.array_equal(model.rows(np.zeros((4, 3))), np.zeros(4))
    with pytest.raises(troth.MissingCapabilityError, match="pass rows="):
        model.rows(model.statistics([1, 0]))
    t = model.statistics(np.array([[1, 0, 1], [1, 0, 0], [0, 0, 1]]))
    with pytest.raises(troth.MissingCapabilityError, match="rows="):
        troth.MultiDay().pay(model, np.stack([t, t]), budget=1.0)
    uneven = np.array([[3, 3, 3], [4, 3, 2]])
    breakdown = troth.MultiDay().explain(model, np.stack([t, t]), rows=uneven)
    assert breakdown.noted[0].tolist() == [True, False, True]
    with pytest.raises(troth.UnequalSizesError, match="provider 0 has 3 rows, but 4"):
        troth.MultiDay().pay(model, np.stack([t, t]), budget=1.0, rows=np.array([[3, 3, 3], [4, 4, 2]]))


def test_a_copy_among_values_is_found_if_rows_are_told() -> None:
    model: Any = EXAMPLES["day types, real"]
    rng = generator(24)
    t = model.statistics(model.draw_data(rng, model.draw_parameters(rng, (5,)), 20))
    t[3] = t[1]
    assert troth.find_near_duplicates(model, t) == []
    assert [near_duplicates.providers for near_duplicates in troth.find_near_duplicates(model, t, rows=20)] == [(1, 3)]


def test_the_fit_is_checked() -> None:
    model: Any = models.LatentClass([0.3, 0.3, 0.4], "binary", [0.15, 0.45, 0.8], 0.05)
    rng = generator(25)
    right = model.draw_statistics(rng, model.draw_parameters(rng, (30, 1)), np.full((6, 1), 40.0))
    wild = models.LatentClass(model.prior, "binary", model.means, 0.6)
    data = wild.draw_data(rng, model.draw_parameters(rng, (30, 6)), 40)
    assert troth.check_fit(model, right, rows=40, simulations=800).plausible
    assert not troth.check_fit(model, model.statistics(data), rows=40, simulations=800).plausible


def test_sensitivity_is_decided_by_rank() -> None:
    three = models.LatentClass([0.3, 0.3, 0.4], "binary", [0.2, 0.5, 0.8], 0.2)
    assert troth.certify(three, [3, 2], troth.SyntheticPeers())["sensitive"].verdict == "proved"
    blind = models.LatentClass([0.3, 0.3, 0.4], "binary", [0.2, 0.5, 0.8])
    certificate = troth.certify(blind, [2, 1], troth.SyntheticPeers())["sensitive"]
    assert certificate.verdict in ("refuted", "proved")  # one row shows only the mean rate: all reports are compared
    alike = models.LatentClass(PRIOR, "binary", [0.4, 0.4], 0.1)
    assert troth.certify([three, three], [3, 0], troth.SyntheticPeers())["sensitive"].verdict == "refuted"
    told = troth.certify([models.LatentClass(PRIOR, "binary", [0.1, 0.7]), alike], [3, 3], troth.SyntheticPeers())[
        "sensitive"
    ]
    assert told.verdict == "refuted"
    assert told.witness is not None
    same = models.LatentClass(PRIOR, "count", [2.0, 2.0], 0.1)
    assert troth.certify(same, [3, 3], troth.SyntheticPeers())["sensitive"].verdict == "undecided"
