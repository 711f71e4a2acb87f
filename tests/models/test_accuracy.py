"""Accuracy of log PMI against 50 digits of mpmath, from a thousand rows to a million million."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import troth
from registry import SOAK, generator
from troth import models
from troth.core.information import second_difference

mpmath.mp.dps = 50

ROWS = {1e3: 1e-9, 1e6: 1e-9, 1e9: 1e-8, 1e12: 1e-7}
"""Rows in all, and the absolute error that log PMI may have."""

FAR = 1e6  # standard deviations between zero and the values


def dirichlet(prior: list[float], t: list[Any]) -> Any:
    x = [mpmath.mpf(a) + count for a, count in zip(prior, t, strict=True)]
    return sum((mpmath.loggamma(k) for k in x), mpmath.mpf(0)) - mpmath.loggamma(mpmath.fsum(x))


def bernoulli(m: models.Bernoulli, t: list[Any]) -> Any:
    return dirichlet([m.alpha, m.beta], t)


def categorical(m: models.Categorical, t: list[Any]) -> Any:
    return dirichlet(list(m.alpha), t)


def negative_binomial(m: models.NegativeBinomial, t: list[Any]) -> Any:
    return dirichlet([m.alpha, m.beta], [m.r * t[0], t[1]])


def poisson(m: models.Poisson, t: list[Any]) -> Any:
    a = m.shape + t[1]
    return mpmath.loggamma(a) - a * mpmath.log(m.rate + t[0])


def gamma(m: models.Gamma, t: list[Any]) -> Any:
    a = m.shape + m.known_shape * t[0]
    return mpmath.loggamma(a) - a * mpmath.log(m.rate + t[1])


def normal(m: models.Normal, t: list[Any]) -> Any:
    w = 1 / mpmath.mpf(m.noise) ** 2
    precision = 1 / mpmath.mpf(m.scale) ** 2 + w * t[0]
    return (w * t[1]) ** 2 / (2 * precision) - mpmath.log(precision) / 2


def normal_unknown(m: models.NormalUnknownVariance, t: list[Any]) -> Any:
    a, precision = m.shape + t[0] / 2, m.strength + t[0]
    rate = m.scale + (t[2] - t[1] ** 2 / precision) / 2
    return mpmath.loggamma(a) - a * mpmath.log(rate) - mpmath.log(precision) / 2


def exact(evidence: Callable[[Any, list[Any]], Any], model: Any, own: Any, peers: Any) -> float:
    a, b = ([mpmath.mpf(float(x)) for x in t] for t in (own, peers))
    total = [x + y for x, y in zip(a, b, strict=True)]
    nothing = [mpmath.mpf(0)] * len(a)
    return float(evidence(model, total) + evidence(model, nothing) - evidence(model, a) - evidence(model, b))


CASES: list[tuple[Any, Callable[[Any, list[Any]], Any]]] = [
    (models.Bernoulli(1, 1), bernoulli),
    (models.Bernoulli(0.3, 7), bernoulli),
    (models.Categorical([1, 0.5, 2, 0.1]), categorical),
    (models.Geometric(3, 2), negative_binomial),
    (models.NegativeBinomial(2.5, 3, 2), negative_binomial),
    (models.Poisson(2, 1), poisson),
    (models.Poisson(50, 0.5), poisson),
    (models.Exponential(3, 1), gamma),
    (models.Gamma(2, 3, 1.5), gamma),
    (models.Normal(0, 1, 1), normal),
    (models.Normal(FAR, 3, 1), normal),
    (models.NormalUnknownVariance(0, 1, 2, 2), normal_unknown),
    (models.NormalUnknownVariance(FAR, 0.5, 3, 2), normal_unknown),
    (models.Poisson(1e4, 1e-4), poisson),
    (models.Poisson(1e6, 1), poisson),
    (models.Gamma(0.1, 3, 1.5), gamma),
    (models.Normal(0, 1e4, 0.3), normal),
    (models.NormalUnknownVariance(0, 1e-4, 2, 2), normal_unknown),
    (models.NormalUnknownVariance(0, 1e-6, 0.5, 2), normal_unknown),
]


@pytest.mark.parametrize(("rows", "tolerance"), ROWS.items())
@pytest.mark.parametrize(
    ("model", "evidence"), CASES, ids=lambda value: repr(value) if isinstance(value, models.Family) else ""
)
def test_digits_at_every_size(model: Any, evidence: Any, rows: float, tolerance: float) -> None:
    worst = 0.0
    for seed in range(40 if SOAK else 4):
        rng = generator(seed, int(np.log10(rows)))
        parameters = model.draw_parameters(rng)
        for share in (0.5, 0.1, 1e-3, 10 / rows):
            own, peers = (
                model.draw_statistics(rng, parameters, model.plan(float(round(n))))
                for n in (share * rows, (1 - share) * rows)
            )
            log_pmi = float(troth.log_pmi(model, own, peers))
            worst = max(worst, abs(log_pmi - exact(evidence, model, own, peers)))
    assert worst <= tolerance


@pytest.mark.parametrize(("model", "evidence"), [CASES[0], CASES[5], CASES[9]], ids=["bernoulli", "poisson", "normal"])
def test_parameters_that_disagree_keep_their_digits_too(model: Any, evidence: Any) -> None:
    """Own and peers from different θ: log PMI itself is large, and its relative error stays at rounding."""
    for seed in range(10):
        rng = generator(seed, 3)
        own, peers = (model.draw_statistics(rng, model.draw_parameters(rng), model.plan(1e6)) for _ in range(2))
        expected = exact(evidence, model, own, peers)
        assert float(troth.log_pmi(model, own, peers)) == pytest.approx(expected, rel=2e-15, abs=1e-9)


@pytest.mark.parametrize(
    ("model", "evidence", "own", "peers"),
    [
        (models.Bernoulli(1, 1), bernoulli, [1.5e11, 3.5e11], [1.55e11, 3.45e11]),
        (models.Bernoulli(0.3, 0.7), bernoulli, [1.5e11, 3.5e11], [1.55e11, 3.45e11]),
        (models.Categorical([0.3, 0.3, 0.3]), categorical, [1e11, 1.5e11, 2.5e11], [1.01e11, 1.52e11, 2.47e11]),
        (models.Poisson(2, 1), poisson, [5e11, 1.5e12], [5e11, 1.501e12]),
        (models.Exponential(2.3, 1.1), gamma, [5e11, 1.5e11], [5e11, 1.501e11]),
        (models.NormalUnknownVariance(0, 1, 2, 2), normal_unknown, [5e11, 1e11, 5e11], [5e11, 1.001e11, 5.01e11]),
    ],
    ids=lambda value: repr(value) if isinstance(value, models.Family) else "",
)
def test_a_million_million_rows_that_disagree(model: Any, evidence: Any, own: Any, peers: Any) -> None:
    expected = exact(evidence, model, own, peers)
    assert abs(expected) > 1e4
    assert abs(float(troth.log_pmi(model, np.array(own), np.array(peers))) - expected) < 1e-7


@pytest.mark.parametrize("model", [models.Bernoulli(1, 1), models.NormalUnknownVariance(0, 1, 2, 2)], ids=repr)
def test_bits_do_not_depend_on_the_neighbours(model: Any) -> None:
    rng = generator(9)
    theta = model.draw_parameters(rng, (40_000,))
    a, b = (model.draw_statistics(rng, theta, model.plan(np.geomspace(n, 1e9, 40_000).round())) for n in (1, 30))
    whole = troth.log_pmi(model, a, b)
    for i in (0, 1, 777, 32_767, 32_768, 39_999):
        assert float(troth.log_pmi(model, a[i], b[i])) == whole[i]
    assert np.array_equal(troth.log_pmi(model, a[::-7], b[::-7]), whole[::-7])


def test_four_lgammas_would_not_do() -> None:
    """The generic difference of log evidences fails beyond 1e7 rows: the reason for the closed forms."""
    model = models.Bernoulli(1, 1)
    rng = generator(0)
    own, peers = (model.draw_statistics(rng, np.array([0.3]), model.plan(5e8)) for _ in range(2))
    expected = exact(bernoulli, model, own, peers)
    assert abs(float(second_difference(model, own, peers)) - expected) > 1e-8
    assert abs(float(troth.log_pmi(model, own, peers)) - expected) < 1e-10


@pytest.mark.parametrize("model", [models.Normal(FAR, 3, 1), models.NormalUnknownVariance(FAR, 0.5, 3, 2)], ids=repr)
def test_values_far_from_zero_cost_nothing_where_the_prior_sits(model: Any) -> None:
    """The same values moved by 1e6 standard deviations, prior included, have the same log PMI."""
    near: Any = type(model).from_dict({**model.to_dict(), "mean": 0.0})
    rng = generator(4)
    a, b = rng.integers(-3000, 3000, (2, 500)) / 1024  # exact in binary, near and far
    far = troth.log_pmi(model, model.statistics(a + FAR), model.statistics(b + FAR))
    assert float(far) == float(troth.log_pmi(near, near.statistics(a), near.statistics(b)))


def mp_regression(model: Any, t: Any) -> Any:
    d = len(model.mean)
    known = isinstance(model, models.LinearRegression)
    unit = mpmath.mpf(model.noise) ** 2 if known else mpmath.mpf(1)
    gram = mpmath.matrix(d, d)
    for i in range(d):
        for j in range(d):
            gram[i, j] = mpmath.mpf(model.precision[i][j]) + t[i * d + j] / unit
    h = mpmath.matrix([t[d * d + i] / unit for i in range(d)])
    fit = (h.T * mpmath.lu_solve(gram, h))[0]
    log_determinant = mpmath.log(mpmath.det(gram))
    if known:
        return (fit - log_determinant) / 2
    a, rate = model.shape + t[-1] / 2, model.scale + (t[-2] - fit) / 2
    return mpmath.loggamma(a) - a * mpmath.log(rate) - log_determinant / 2


@pytest.mark.parametrize("known", [True, False], ids=["known noise", "unknown noise"])
@pytest.mark.parametrize(
    ("rows", "signal", "prior"), [(100, 1, 1e-8), (100_000, 1, 1e-8), *((100_000, 1e4, p) for p in (1e-8, 1e-4, 1))]
)
@pytest.mark.parametrize("seed", range(20 if SOAK else 2))
def test_regression_with_a_condition_number_of_1e8(
    known: bool, rows: int, signal: float, prior: float, seed: int
) -> None:
    rng = generator(seed, rows)
    d = 6
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    spread = basis * (signal * np.logspace(0, -4, d))  # singular values, so that the Gram matrix has 1e8
    precision = (prior * np.eye(d)).tolist()
    model: Any
    if known:
        model = models.LinearRegression(np.zeros(d), precision, 0.5)
    else:
        model = models.LinearRegressionUnknownNoise(np.zeros(d), precision, 2.0, 0.5)
    theta = rng.standard_normal(d) if known else np.append(rng.standard_normal(d), 0.25)
    own, peers = (
        model.statistics(model.draw_data(rng, theta, rng.standard_normal((n, d)) @ spread.T)) for n in (rows, 2 * rows)
    )
    gram = own[: d * d].reshape(d, d)
    assert 1e7 < np.linalg.cond(gram) < 1e10
    assert abs(float(troth.log_pmi(model, own, peers)) - exact(mp_regression, model, own, peers)) < 1e-6
