"""Each family's log PMI against a computation that shares no code with it: the chain of posterior predictives.

log PMI(A, B) = log p(B|A) − log p(B), and p(B|A) is the product of the predictive densities of B's rows, each given
A and the rows before it. The predictives below are textbook distributions of SciPy, fed with raw rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import integrate, linalg, special, stats
from scipy.special import logsumexp

import troth
from registry import EXAMPLES, SOAK, generator
from troth import models
from troth.models.shared.candidate_states import CandidateStates
from troth.models.shared.generalised_regression import ExpandedRegression
from troth.models.shared.varying_providers import VaryingProviders


def finite(model: models.Finite, past: Any, x: Any) -> float:
    prior, table = np.array(model.prior), np.array(model.likelihood)
    weights = prior * np.prod(table[:, np.asarray(past, dtype=int)] * 4, axis=1)
    return float(np.log(weights @ table[:, int(x)] / weights.sum()))


def bernoulli(model: models.Bernoulli, past: Any, x: Any) -> float:
    rate = (model.alpha + np.sum(past)) / (model.alpha + model.beta + len(past))
    return float(np.log(rate if x else 1 - rate))


def categorical(model: models.Categorical, past: Any, x: Any) -> float:
    counts = np.array(model.alpha) + [np.sum(np.asarray(past) == k) for k in range(len(model.alpha))]
    return float(np.log(counts[int(x)] / counts.sum()))


def negative_binomial(model: models.NegativeBinomial, past: Any, x: Any) -> float:
    a, b = model.alpha + model.r * len(past), model.beta + np.sum(past)
    orders = mpmath.gamma(x + model.r) / mpmath.gamma(model.r) / mpmath.factorial(x)
    return float(mpmath.log(orders * mpmath.beta(a + model.r, b + x) / mpmath.beta(a, b)))


def poisson(model: models.Poisson, past: Any, x: Any) -> float:
    a, b = model.shape + np.sum(past), model.rate + len(past)
    return float(stats.nbinom.logpmf(x, a, b / (b + 1)))


def gamma(model: models.Gamma, past: Any, x: Any) -> float:
    a, b = model.shape + model.known_shape * len(past), model.rate + np.sum(past)
    return float(stats.betaprime.logpdf(x, model.known_shape, a, scale=b))


def normal(model: models.Normal, past: Any, x: Any) -> float:
    variance = 1 / (model.scale**-2 + len(past) / model.noise**2)
    mean = variance * (model.mean / model.scale**2 + np.sum(past) / model.noise**2)
    return float(stats.norm.logpdf(x, mean, np.sqrt(variance + model.noise**2)))


def normal_unknown(model: models.NormalUnknownVariance, past: Any, x: Any) -> float:
    n, k = len(past), model.strength + len(past)
    average = np.mean(past) if n else 0.0
    mean = (model.strength * model.mean + n * average) / k
    shape = model.shape + n / 2
    scale = model.scale + np.sum((past - average) ** 2) / 2 + model.strength * n * (average - model.mean) ** 2 / 2 / k
    return float(stats.t.logpdf(x, 2 * shape, mean, np.sqrt(scale / shape * (1 + 1 / k))))


def multivariate(model: models.MultivariateNormal, past: Any, x: Any) -> float:
    prior, noise = np.array(model.covariance), np.array(model.noise)
    covariance = np.linalg.inv(np.linalg.inv(prior) + len(past) * np.linalg.inv(noise))
    mean = covariance @ (np.linalg.solve(prior, model.mean) + np.linalg.solve(noise, np.sum(past, axis=0)))
    return float(stats.multivariate_normal.logpdf(x, mean, covariance + noise))


def multivariate_unknown(model: models.MultivariateNormalUnknownCovariance, past: Any, x: Any) -> float:
    n, d, m0 = len(past), len(model.mean), np.array(model.mean)
    k, dof = model.strength + n, model.dof + n
    average = np.mean(past, axis=0) if n else m0
    centred = past - average
    gap = average - m0
    scale = np.array(model.scale) + centred.T @ centred + model.strength * n / k * np.outer(gap, gap)
    mean, df = (model.strength * m0 + n * average) / k, dof - d + 1
    return float(stats.multivariate_t.logpdf(x, mean, scale * (k + 1) / (k * df), df))  # type: ignore[arg-type]


def regression(model: models.LinearRegression, past: Any, x: Any) -> float:
    (z, y), (feature, answer) = past, x
    prior = np.array(model.precision)
    covariance = np.linalg.inv(prior + z.T @ z / model.noise**2)
    mean = covariance @ (prior @ model.mean + z.T @ y / model.noise**2)
    return float(stats.norm.logpdf(answer, feature @ mean, np.sqrt(model.noise**2 + feature @ covariance @ feature)))


def regression_unknown(model: models.LinearRegressionUnknownNoise, past: Any, x: Any) -> float:
    (z, y), (feature, answer) = past, x
    prior, m0 = np.array(model.precision), np.array(model.mean)
    inverse = np.linalg.inv(prior + z.T @ z)
    mean = inverse @ (prior @ m0 + z.T @ y)
    shape = model.shape + len(y) / 2
    scale = model.scale + (np.sum((y - z @ mean) ** 2) + (mean - m0) @ prior @ (mean - m0)) / 2
    spread = np.sqrt(scale / shape * (1 + feature @ inverse @ feature))
    return float(stats.t.logpdf(answer, 2 * shape, feature @ mean, spread))


PREDICTIVES: dict[str, Callable[[Any, Any, Any], float]] = {
    "finite": finite,
    "finite with zeros": finite,
    "bernoulli": bernoulli,
    "categorical": categorical,
    "geometric": negative_binomial,
    "negative binomial": negative_binomial,
    "poisson": poisson,
    "exponential": gamma,
    "gamma": gamma,
    "normal": normal,
    "normal, weighted": normal,
    "normal, unknown variance": normal_unknown,
    "multivariate normal": multivariate,
    "multivariate normal, unknown covariance": multivariate_unknown,
    "regression": regression,
    "regression, unknown noise": regression_unknown,
}


def urn(means: Any, dispersion: float, data: Any) -> float:
    """Pólya's urn: after each row one more ball of its colour."""
    balls, total = np.array(means) * (1 - dispersion), 0.0
    for x in data:
        total += float(np.log(balls[int(x)] / balls.sum()))
        balls[int(x)] += dispersion
    return total


def labels_of_a_day(model: models.LatentClass, data: Any) -> list[float]:
    means = [[1 - p, p] for p in model.means] if model.outcome == "binary" else model.means  # type: ignore[operator]
    return [urn(p, model.dispersion, data) for p in means]


def counts_of_a_day(model: models.LatentClass, data: Any) -> list[float]:
    """Each count given those before it is negative binomial."""
    probabilities, r = [], 1 / model.dispersion
    for rate in np.array(model.means):
        past = np.concatenate([[0], np.cumsum(data)[:-1]])
        share = (r / rate + np.arange(len(data))) / (r / rate + np.arange(len(data)) + 1)
        probabilities.append(float(np.sum(stats.nbinom.logpmf(data, r + past, share))))
    return probabilities


def values_of_a_day(model: models.LatentClass, data: Any) -> list[float]:
    """All rows are one multivariate normal whose entries have a covariance."""
    assert model.spread is not None
    covariance = model.dispersion**2 + model.spread**2 * np.eye(len(data))
    return [float(stats.multivariate_normal.logpdf(data, np.full(len(data), m), covariance)) for m in model.means]


DAY_TYPES: dict[str, Callable[[Any, Any], list[float]]] = {
    "day types, binary": labels_of_a_day,
    "day types, binary, no dispersion": labels_of_a_day,
    "day types, categorical": labels_of_a_day,
    "day types, count": counts_of_a_day,
    "day types, real": values_of_a_day,
}


@pytest.mark.parametrize("name", DAY_TYPES)
@pytest.mark.parametrize("seed", range(20 if SOAK else 2))
def test_log_pmi_of_day_types_is_a_sum_over_types(name: str, seed: int) -> None:
    model: Any = EXAMPLES[name]
    rng = generator(seed, 12)
    parameters = model.draw_parameters(rng)
    for own, peers in ((1, 1), (3, 5), (40, 10), (int(rng.integers(1, 190)), 10)):
        a, b = (model.draw_data(rng, parameters, rows) for rows in (own, peers))
        first, second = (np.array(DAY_TYPES[name](model, data)) for data in (a, b))
        expected = (
            logsumexp(first + second, b=model.prior)
            - logsumexp(first, b=model.prior)
            - logsumexp(second, b=model.prior)
        )
        log_pmi = troth.log_pmi(model, model.statistics(a), model.statistics(b))
        assert float(log_pmi) == pytest.approx(float(expected), abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_log_pmi_of_providers_with_offsets_is_that_of_one_normal(seed: int) -> None:
    """All rows of both providers are one multivariate normal: θ is in all, an effect in each provider's."""
    first, second = models.ProviderNormal(3, 2, 1.5, 0.4, 0.7), models.ProviderNormal(3, 2, 0.8, -1.3, 0.2)
    rng = generator(seed, 13)
    theta = first.draw_parameters(rng)
    a, b = first.draw_data(rng, theta, 5), second.draw_data(rng, theta, 8)

    def density(*parts: tuple[models.ProviderNormal, Any]) -> float:
        blocks = [m.dispersion**2 + m.noise**2 * np.eye(len(x)) for m, x in parts]
        means = np.concatenate([np.full(len(x), m.mean + m.offset) for m, x in parts])
        data = np.concatenate([x for _, x in parts])
        return float(stats.multivariate_normal.logpdf(data, means, linalg.block_diag(*blocks) + 4.0))

    expected = density((first, a), (second, b)) - density((first, a)) - density((second, b))
    assert float(troth.log_pmi([first, second], first.statistics(a), second.statistics(b))) == pytest.approx(
        expected, abs=1e-11
    )


def rows_of(data: Any, part: slice) -> Any:
    return tuple(x[part] for x in data) if isinstance(data, tuple) else data[part]


def joined(a: Any, b: Any) -> Any:
    return (
        tuple(np.concatenate(pair) for pair in zip(a, b, strict=True))
        if isinstance(a, tuple)
        else np.concatenate([a, b])
    )


def chain(predictive: Callable[[Any, Any, Any], float], model: Any, past: Any, data: Any) -> float:
    total = 0.0
    for i in range(len(data[-1]) if isinstance(data, tuple) else len(data)):
        row = tuple(x[i] for x in data) if isinstance(data, tuple) else data[i]
        total += predictive(model, joined(past, rows_of(data, slice(i))), row)
    return total


def test_every_family_has_an_independent_computation() -> None:
    by_quadrature = {name for name in EXAMPLES if "varying" in name}  # in test_varying.py
    assert {*PREDICTIVES, *DAY_TYPES, "provider normal"} == set(EXAMPLES) - by_quadrature
    kinds = {type(model) for model in EXAMPLES.values()}
    elsewhere = (
        VaryingProviders,
        ExpandedRegression,
        CandidateStates,
    )  # test_varying, test_labelled_rows, test_candidates
    assert {family for family in models.FAMILIES.values() if not issubclass(family, elsewhere)} <= kinds


@pytest.mark.parametrize("name", PREDICTIVES)
@pytest.mark.parametrize("seed", range(20 if SOAK else 2))
def test_log_pmi_is_the_predictive_chain(name: str, seed: int) -> None:
    model: Any = EXAMPLES[name]
    rng = generator(seed, 11)
    parameters = model.draw_parameters(rng)
    for own, peers in (
        (1, 1),
        (3, 5),
        (40, 10),
        (int(rng.integers(1, 190)), 10),
        (10, int(rng.integers(1, 190))),
    ):
        a, b = (model.draw_data(rng, parameters, rows) for rows in (own, peers))
        expected = chain(PREDICTIVES[name], model, a, b) - chain(PREDICTIVES[name], model, rows_of(a, slice(0)), b)
        assert float(troth.log_pmi(model, model.statistics(a), model.statistics(b))) == pytest.approx(
            expected, abs=1e-9
        )


LEFT_OUT: dict[str, Callable[[Any, Any], Any]] = {
    "geometric": lambda model, x: special.gammaln(x + model.r) - special.gammaln(model.r) - special.gammaln(x + 1),
    "negative binomial": lambda model, x: (
        special.gammaln(x + model.r) - special.gammaln(model.r) - special.gammaln(x + 1)
    ),
    "poisson": lambda model, x: -special.gammaln(x + 1),
    "gamma": lambda model, x: (model.known_shape - 1) * np.log(x),
}
"""What ``score_measure`` says that log scores leave out."""


def summary_for_histories(model: Any, data: Any) -> tuple[Any, Any]:
    """Return a summary that keeps squares where the model's own does not, and its reduction."""
    reduction = model.reduction.for_history() if hasattr(model.reduction, "for_history") else model.reduction
    columns = [*np.asarray(data[0]).T, data[1]] if isinstance(data, tuple) else [*np.atleast_2d(np.asarray(data).T)]
    codes = np.zeros(len(columns[0]), dtype=int)
    return reduction.add(columns, codes, 1)[0], reduction


@pytest.mark.parametrize("name", PREDICTIVES)
def test_log_evidence_is_the_predictive_chain(name: str) -> None:
    """Log PMI may have a form of its own; log evidence is what posteriors, fits and log scores are made of."""
    model: Any = EXAMPLES[name]
    rng = generator(0, 12)
    parameters = model.draw_parameters(rng)
    for rows in (1, 3, 40):
        data = model.draw_data(rng, parameters, rows)
        statistics = model.statistics(data)
        total = model.log_evidence(statistics) - model.log_evidence(np.zeros_like(statistics))
        total += model.base_measure(*summary_for_histories(model, data))
        if name in LEFT_OUT:
            total += LEFT_OUT[name](model, data).sum()
        expected = chain(PREDICTIVES[name], model, rows_of(data, slice(0)), data)
        assert float(total) == pytest.approx(expected, abs=1e-8)


def test_datasets_that_contradict_each_other_have_no_chance() -> None:
    """The finite chain with a zero: p(B|A) = 0."""
    model = models.Finite([0.5, 0.5], [[1.0, 0.0], [0.5, 0.5]])
    picky = models.Finite([0.5, 0.5], [[0.5, 0.5], [1.0, 0.0]])
    assert troth.log_pmi([model, picky], model.statistics([1]), picky.statistics([1])) == -np.inf


@pytest.mark.parametrize(("rows", "expected"), [((5, 8), 0.231312), ((10, 8), 0.323314)])
def test_reference_value_of_the_normal_mean(rows: tuple[int, int], expected: float) -> None:
    model = models.Normal(0, 1, 2)  # κ = σ²/σ₀² = 4
    information = troth.mutual_information(model, *rows)
    assert information.method == "exact"
    assert information.value == pytest.approx(expected, abs=5e-7)
    kappa = 4
    squared = rows[0] / (rows[0] + kappa) * rows[1] / (rows[1] + kappa)
    assert information.value == pytest.approx(-0.5 * np.log(1 - squared), abs=1e-14)


def test_reference_value_of_the_uniform_bernoulli() -> None:
    assert troth.mutual_information(models.Bernoulli(1, 1), 10, 20).value == pytest.approx(0.671328, abs=5e-7)


@pytest.mark.parametrize("seed", range(5))
def test_regression_equals_the_joint_predictive_normals(seed: int) -> None:
    """log PMI = log p(y₂|z₂, D₁) − log p(y₂|z₂), as one multivariate normal each, to 1e-12."""
    rng = generator(seed, 5)
    model = models.LinearRegression([0.5, -1, 0], np.diag([1.0, 2, 3]).tolist(), 0.8)
    (z1, y1), (z2, y2) = (model.draw_data(rng, model.draw_parameters(rng), rows) for rows in (12, 7))
    prior = np.array(model.precision)

    def density(precision: Any, shift: Any) -> float:
        covariance = np.linalg.inv(precision)
        return float(
            stats.multivariate_normal.logpdf(y2, z2 @ covariance @ shift, z2 @ covariance @ z2.T + 0.64 * np.eye(7))
        )

    after = density(prior + z1.T @ z1 / 0.64, prior @ model.mean + z1.T @ y1 / 0.64)
    before = density(prior, prior @ model.mean)
    log_pmi = troth.log_pmi(model, model.statistics((z1, y1)), model.statistics((z2, y2)))
    assert float(log_pmi) == pytest.approx(after - before, abs=1e-12)


def paper_normal_pmi(model: models.Normal, own: int, peers: int) -> float:
    """The formula printed in the paper's appendix, which depends on the numbers of rows alone."""
    p0, w = model.scale**-2, model.noise**-2
    return float(np.sqrt((p0 + own * w) * (p0 + peers * w) / (p0 * (p0 + (own + peers) * w))))


def test_e1_the_normal_mean_agrees_with_quadrature_and_the_paper_does_not() -> None:
    model = models.Normal(0, 2, 1)
    rng = generator(1)
    base, other = rng.normal(0, 1, 10), rng.normal(0, 1, 12)
    other += base.mean() - other.mean()
    printed, values = paper_normal_pmi(model, 10, 12), []
    for shift in (0.0, 1.0, 2.0, 4.0):

        def posterior(theta: float, x: Any) -> float:
            variance = 1 / (0.25 + len(x))
            return float(stats.norm.pdf(theta, variance * np.sum(x), np.sqrt(variance)))

        def integrand(theta: float, x: Any = other + shift) -> float:
            return posterior(theta, base) * posterior(theta, x) / float(stats.norm.pdf(theta, 0, 2))

        expected, _ = integrate.quad(integrand, -8, 12, points=[base.mean(), base.mean() + shift], epsabs=1e-13)
        values.append(float(np.exp(troth.log_pmi(model, model.statistics(base), model.statistics(other + shift)))))
        assert values[-1] == pytest.approx(expected, rel=1e-8)
    assert values == sorted(values, reverse=True)
    assert values[0] / values[-1] > 100
    assert abs(values[-1] - printed) > 1


def collisions(peers: int, most: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of reports of up to ``most`` rows whose log PMI is equal whatever the peers report (Beta(1, 1))."""
    model = models.Bernoulli(1, 1)
    reports = [(ones, zeros) for ones in range(most + 1) for zeros in range(most + 1 - ones)]
    own = np.array(reports, dtype=float)[:, None]
    outcomes = np.array([[ones, peers - ones] for ones in range(peers + 1)], dtype=float)
    table = troth.log_pmi(model, own, outcomes)
    equal = np.isclose(table[:, None], table[None], rtol=0, atol=1e-12).all(axis=-1)
    return [(reports[i], reports[j]) for i, j in np.argwhere(np.triu(equal, 1))]


def test_e3_one_peer_row_cannot_tell_nothing_from_one_of_each() -> None:
    assert ((0, 0), (1, 1)) in collisions(peers=1, most=2)


@pytest.mark.parametrize("peers", [2, 3, 5])
def test_e3_two_peer_rows_tell_all_reports_apart(peers: int) -> None:
    assert collisions(peers=peers, most=8) == []
