"""Providers that differ: log PMI is that of the continuous integrals, written here a second time, to 1e-6."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import betaln, expit, gammaln, log_expit, logsumexp, roots_legendre
from scipy.stats import binomtest, kstest, multivariate_normal, uniform

import troth
from registry import SOAK, generator
from troth import models
from troth.core.errors import ParameterError
from troth.models.numerics.random_effects import integrate_effects
from troth.models.numerics.spread_grid import spread_grid

VARYING = [models.VaryingBernoulli(1, 2), models.VaryingPoisson(3, 2), models.VaryingNormal(3, 2, 1.5)]
SIZES = [(10, 100), (1000, 10_000)] + ([(100, 1000), (30, 10_000)] if SOAK else [])


def sizes_and_spreads(spreads: tuple[float, float]) -> list[tuple[int, int, float]]:
    """Each size with one spread, in turn; with both in `make soak`."""
    return [
        (*size, spread)
        for place, size in enumerate(SIZES)
        for turn, spread in enumerate(spreads)
        if SOAK or place % 2 == turn
    ]


ALIKE = 0.1


legendre = cache(roots_legendre)


def gauss(low: float, high: float, count: int) -> tuple[Any, Any]:
    x, w = legendre(count)
    return 0.5 * (low + high) + 0.5 * (high - low) * x, 0.5 * (high - low) * w


PANELS, WEIGHTS = np.concatenate([gauss(*ends, 14) for ends in pairwise((0.0, 0.05, 0.2, 0.5, 1.0))], axis=-1)


def over_location(log_likelihood: Callable[[Any], Any], low: float, high: float) -> float:
    """Ln ∫ exp f: a search for the peak, then Gauss and Legendre on panels where f is within 40 nats of it."""
    a, b = low, high
    for _ in range(11):
        x = np.linspace(a, b, 13)
        f = log_likelihood(x)
        i = int(np.argmax(f))
        a, b = x[max(i - 2, 0)], x[min(i + 2, 12)]
    top, peak = float(f[i]), float(x[i])
    ends = []
    for sign in (-1, 1):
        steps = peak + sign * 1e-4 * 1.5 ** np.arange(34)
        inside = log_likelihood(steps) > top - 40
        ends.append(float(np.clip(steps[np.argmin(inside)] if not inside.all() else steps[-1], low, high)))
    sides = [end - peak for end in ends]
    nodes = np.concatenate([peak + side * PANELS for side in sides])
    return float(logsumexp(log_likelihood(nodes), b=np.concatenate([abs(side) * WEIGHTS for side in sides])))


def over_spread(
    given: Callable[[float], float], low: float, high: float, providers: int, near: float = 0.0, nodes: int = 110
) -> float:
    """Ln of 0.8 times the mean of exp(given) over a log-uniform spread: near the true one where providers are many."""
    a, b = 2 * np.log(low), 2 * np.log(high)
    if providers < 200:
        v, w = gauss(a, b, nodes * (1 if providers < 50 else 2))
        return float(logsumexp([given(np.exp(u / 2)) for u in v], b=(1 - ALIKE) * w / (b - a)))
    v, w = gauss(2 * np.log(near) - 0.6, 2 * np.log(near) + 0.6, 44)
    return float(logsumexp([given(np.exp(u / 2)) for u in v], b=(1 - ALIKE) * w / (b - a)))


def reference_bernoulli(alpha: float, beta: float, near: float, ones: Any, rows: Any) -> float:
    counts, times = np.unique(np.stack([ones, rows - ones]), axis=1, return_counts=True)
    k, z = counts[:, None]

    def log_evidence_given(spread: float) -> float:
        s = spread**-2.0

        def f(x: Any) -> Any:
            a, b = expit(x)[:, None] * s, expit(-x)[:, None] * s
            log_evidence = betaln(a + k, b + z) - betaln(a, b)
            return (
                (log_evidence * times).sum(axis=-1) + alpha * log_expit(x) + beta * log_expit(-x) - betaln(alpha, beta)
            )

        return over_location(f, -60, 60)

    alike = betaln(alpha + ones.sum(), beta + (rows - ones).sum()) - betaln(alpha, beta)
    return float(np.logaddexp(np.log(ALIKE) + alike, over_spread(log_evidence_given, 0.03, 3, len(ones), near)))


def reference_poisson(mean: float, scale: float, near: float, total: Any, rows: Any) -> float:
    shape, rate = (mean / scale) ** 2, mean / scale**2
    prior = shape * np.log(rate) - gammaln(shape)

    def log_evidence_given(spread: float) -> float:
        d = spread**2
        constant = sum_log1p(total, d)

        def f(x: Any) -> Any:
            m = np.exp(x)[:, None]
            log_evidence = total * np.log(m) - (total + 1 / d) * np.log1p(rows * m * d)
            return log_evidence.sum(axis=-1) + shape * x - rate * np.exp(x) + prior + constant

        return over_location(f, -30, 12)

    A = shape + total.sum()
    alike = gammaln(A) - A * np.log(rate + rows.sum()) + prior
    return float(np.logaddexp(np.log(ALIKE) + alike, over_spread(log_evidence_given, 0.02, 2, len(total), near)))


def sum_log1p(total: Any, d: float) -> float:
    """Σ over reports of Σ_{i < S} log1p(iδ), term by term."""
    below = np.cumsum(np.concatenate([[0.0], np.log1p(d * np.arange(total.max(initial=1.0)))]))
    return float(below[total.astype(int)].sum())


def reference_normal(model: models.VaryingNormal, average: Any, rows: Any, squares: Any) -> float:
    """Means of reports are jointly normal; less their density without spread at the prior mean, as statistics are."""
    variance = (3 * model.noise**2 + squares) / (3 + rows - 1) / rows
    y = average - model.mean

    def log_evidence_given(spread: float) -> float:
        v = variance + (spread * model.noise) ** 2
        precision, product = (1 / v).sum(), (y / v).sum()
        total = 1 / model.scale**2 + precision
        at_mean = 0.5 * (y**2 / variance - y**2 / v + np.log(variance / v)).sum()
        return float(at_mean + product**2 / total / 2 - 0.5 * np.log(total * model.scale**2))

    return float(
        np.logaddexp(np.log(ALIKE) + log_evidence_given(0.0), over_spread(log_evidence_given, 0.1, 30, 0, nodes=1500))
    )


def pmi_of(reference: Callable[..., float], *columns: Any) -> float:
    """Log PMI of the first provider with the others."""
    everyone, own, peers = (reference(*(c[part] for c in columns)) for part in (slice(None), slice(1), slice(1, None)))
    return everyone - own - peers


@pytest.mark.parametrize("model", VARYING, ids=lambda model: type(model).__name__)
def test_drawn_spreads_are_those_of_the_prior(model: Any) -> None:
    """0 with probability 0.1, and otherwise log-uniform up to the largest; false alarms: 1 in 10⁶."""
    spread = model.draw_parameters(generator(3), (5000,))[:, -1]
    assert binomtest(int((spread == 0).sum()), 5000, ALIKE).pvalue > 1e-6
    logs = np.log(spread[spread > 0])
    low, high = np.log(model._spreads) + np.log(model.noise if isinstance(model, models.VaryingNormal) else 1.0)
    assert kstest(logs, uniform(low, high - low).cdf).pvalue > 1e-6


@pytest.mark.parametrize(("providers", "rows", "spread"), sizes_and_spreads((0.4, 0.05)))
def test_yes_or_no_is_the_continuous_integral(providers: int, rows: int, spread: float) -> None:
    rng, model = generator(1, providers), models.VaryingBernoulli(1, 2)
    n = np.full(providers, float(rows))
    k = rng.binomial(rows, rng.beta(0.3 / spread**2, 0.7 / spread**2, providers)).astype(float)
    t = model.from_summary(np.stack([n - k, k], axis=-1))
    log_pmi = float(troth.log_pmi(model, t[0], t[1:].sum(axis=0)))
    assert log_pmi == pytest.approx(pmi_of(lambda *c: reference_bernoulli(1, 2, spread, *c), k, n), abs=1e-6)


@pytest.mark.parametrize(("providers", "rows", "spread"), [(10, 100, 0.4), (1000, 10_000, 0.05)])
def test_labels_are_the_continuous_integral(providers: int, rows: int, spread: float) -> None:
    """One label after the other: a beta-binomial each, of those that have none of the labels before."""
    rng, model = generator(9, providers), models.VaryingCategorical([1, 2, 0.5])
    remaining, counts = np.full(providers, rows), []
    for rate in (0.3, 0.6):
        counts.append(rng.binomial(remaining, rng.beta(rate / spread**2, (1 - rate) / spread**2, providers)))
        remaining = remaining - counts[-1]
    first, second, third = (np.array(c, dtype=float) for c in (*counts, remaining))
    t = model.from_summary(np.stack([first, second, third], axis=-1))
    log_pmi = float(troth.log_pmi(model, t[0], t[1:].sum(axis=0)))
    expected = pmi_of(lambda *c: reference_bernoulli(1, 2.5, spread, *c), first, first + second + third)
    expected += pmi_of(lambda *c: reference_bernoulli(2, 0.5, spread, *c), second, second + third)
    assert log_pmi == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("providers", "rows", "spread"), sizes_and_spreads((0.05, 0.4)))
def test_counts_are_the_continuous_integral(providers: int, rows: int, spread: float) -> None:
    rng, model = generator(2, providers), models.VaryingPoisson(3, 2)
    n = np.full(providers, float(rows))
    total = rng.poisson(2 * rows * rng.gamma(spread**-2.0, spread**2, providers)).astype(float)
    t = model.from_summary(np.stack([n, total], axis=-1))
    log_pmi = float(troth.log_pmi(model, t[0], t[1:].sum(axis=0)))
    assert log_pmi == pytest.approx(pmi_of(lambda *c: reference_poisson(3, 2, spread, *c), total, n), abs=1e-6)


@pytest.mark.parametrize(("providers", "rows"), SIZES)
@pytest.mark.parametrize("spread", [0.0, 0.3, 5.0])
def test_values_are_the_continuous_integral(providers: int, rows: int, spread: float) -> None:
    rng, model = generator(3, providers), models.VaryingNormal(3, 2, 1.5)
    n = rng.integers(1, rows, providers).astype(float)
    sigma = 1.5 * np.exp(0.5 * rng.standard_normal(providers))
    squares = sigma**2 * rng.chisquare(np.maximum(n - 1, 1e-3))
    average = rng.normal(4, np.sqrt((1.5 * spread) ** 2 + sigma**2 / n))
    sums = n * (average - 3)
    t = model.from_summary(np.stack([n, sums, squares + sums**2 / n], axis=-1))
    log_pmi = float(troth.log_pmi(model, t[0], t[1:].sum(axis=0)))
    assert log_pmi == pytest.approx(pmi_of(lambda *c: reference_normal(model, *c), average, n, squares), abs=1e-6)


def test_regressions_are_the_continuous_integral() -> None:
    """All answers are jointly normal given the spread; residual variances are those of each provider."""
    rng = generator(4)
    model = models.VaryingLinearRegression([1, -2], [[2, 0.5], [0.5, 1]], 0.7)
    prior = np.linalg.inv(np.array(model.precision))
    data = [model.draw_data(rng, model.draw_parameters(rng), rows) for rows in (6, 4, 8, 5)]

    def reference(part: list[Any]) -> float:
        blocks = []
        for z, y in part:
            residual = y - z @ np.linalg.lstsq(z, y)[0]
            blocks.append((3 * 0.7**2 + residual @ residual) / (3 + len(y) - 2))
        features, answers = np.concatenate([z for z, _ in part]), np.concatenate([y for _, y in part])
        noise = np.concatenate([np.full(len(y), s) for (_, y), s in zip(part, blocks, strict=True)])
        same = np.concatenate([np.full(len(y), i) for i, (_, y) in enumerate(part)])

        def log_evidence_given(spread: float) -> float:
            shared = features @ prior @ features.T
            covariance = shared + spread**2 * shared * (same[:, None] == same) + np.diag(noise)
            return float(multivariate_normal(features @ [1, -2], covariance).logpdf(answers))

        return float(
            np.logaddexp(np.log(ALIKE) + log_evidence_given(0.0), over_spread(log_evidence_given, 0.01, 3, len(part)))
        )

    t = np.stack([model.statistics(rows) for rows in data])
    log_pmi = float(troth.log_pmi(model, t[0], t[1:].sum(axis=0)))
    assert log_pmi == pytest.approx(reference(data) - reference(data[:1]) - reference(data[1:]), abs=1e-6)


@pytest.mark.parametrize(
    ("providers", "rows", "coefficients", "spread"), [(10, 100, 3, 0.0), (16, 100, 8, 0.5), (1000, 10_000, 4, 0.5)]
)
def test_regressions_of_any_size_are_the_continuous_integral(
    providers: int, rows: int, coefficients: int, spread: float
) -> None:
    """With orthogonal features every coefficient is a normal mean of its own; they share the spread alone."""
    rng, d = generator(5, providers, coefficients), coefficients
    model = models.VaryingLinearRegression([0.0] * d, np.eye(d).tolist(), 0.7)
    n = rng.integers(rows // 2, rows, providers).astype(float)
    squares = n[:, None] * rng.uniform(0.5, 2, (providers, d))  # the diagonal of ZᵀZ
    best = rng.standard_normal(d) + spread * rng.standard_normal((providers, d))
    best += 0.7 / np.sqrt(squares) * rng.standard_normal((providers, d))
    residuals = 0.7**2 * rng.chisquare(n - d)
    products = np.zeros((providers, d + 1, d + 1))
    products[:, range(d), range(d)] = squares
    products[:, d, :d] = products[:, :d, d] = squares * best
    products[:, d, d] = residuals + (squares * best**2).sum(axis=-1)
    t = model.from_summary(np.concatenate([n[:, None], products.reshape(providers, -1)], axis=-1))
    variance = (3 * 0.7**2 + residuals) / (3 + n - d)

    def reference(part: slice) -> float:
        precision, y = (squares / variance[:, None])[part], best[part]

        def log_evidence_given(tau: Any) -> Any:
            v = 1 / precision + tau[:, None, None] ** 2
            total, product = 1 + (1 / v).sum(axis=1), (y / v).sum(axis=1)
            at_mean = (y**2 * (precision - 1 / v) - np.log(precision * v)).sum(axis=1)
            return 0.5 * (at_mean + product**2 / total - np.log(total)).sum(axis=-1)

        low, high, centre = 2 * np.log(0.01), 2 * np.log(3), 2 * np.log(spread or 1.0)
        u, w = gauss(centre - 0.5, centre + 0.5, 60) if len(y) > 50 else gauss(low, high, 500)
        w = (1 - ALIKE) * w / (high - low)
        return float(
            np.logaddexp(
                np.log(ALIKE) + log_evidence_given(np.zeros(1))[0], logsumexp(log_evidence_given(np.exp(u / 2)), b=w)
            )
        )

    log_pmi = float(troth.log_pmi(model, t[0], t[1:].sum(axis=0)))
    expected = reference(slice(None)) - reference(slice(1)) - reference(slice(1, None))
    assert log_pmi == pytest.approx(expected, abs=1e-6)


def test_coefficients_differ_between_providers_as_far_as_is_declared() -> None:
    rng, size, spread = generator(5), np.array([1.0, 0.1]), 0.8
    prior: dict[str, Any] = {"mean": [0.2, -0.1], "precision": [[2, 0.5], [0.5, 1]]}
    model = models.VaryingLogisticRegression(**prior, relative_spread=size)
    apart = spread**2 * size[:, None] * np.linalg.inv(prior["precision"]) * size
    own = model.draw_own_coefficients(rng, np.tile([0.0, 0.0, spread], (100_000, 1)))
    assert np.allclose(np.cov(own.T), apart, rtol=0.04)
    z = rng.normal(size=(30, 2))
    H, g = z.T @ z, rng.normal(size=2)
    alone = np.linalg.inv(model._prior_root)  # mean + alone.T @ gamma
    integral = integrate_effects(alone @ H @ alone.T, alone @ g, np.array([spread]), model._scale_of_effects)
    precision = np.linalg.inv(np.linalg.inv(H) + apart)  # the precision of common coefficients
    assert np.allclose(integral.precision[0], alone @ precision @ alone.T)
    assert np.allclose(integral.product[0], alone @ precision @ np.linalg.solve(H, g))
    with pytest.raises(ParameterError, match="relative_spread must have 2 entries"):
        models.VaryingLogisticRegression(**prior, relative_spread=[1.0])
    alike = models.VaryingLogisticRegression(**prior)
    data = model.draw_data(rng, model.draw_parameters(rng), 20)
    same = models.VaryingLogisticRegression(**prior, relative_spread=[1, 1])
    assert np.allclose(alike.statistics(data), same.statistics(data))


def test_labels_are_questions_of_yes_and_no() -> None:
    model, one, two = (
        models.VaryingCategorical([1, 2, 0.5]),
        models.VaryingBernoulli(2.5, 1),
        models.VaryingBernoulli(0.5, 2),
    )
    counts = np.array([[3.0, 4, 1], [0, 5, 2], [6, 1, 0]])
    t = model.from_summary(counts)
    first = one.from_summary(np.stack([counts[:, 0], counts[:, 1] + counts[:, 2]], axis=-1))
    second = two.from_summary(counts[:, 1:])
    expected = sum(troth.log_pmi(m, s[0], s[1] + s[2]) for m, s in ((one, first), (two, second)))
    assert float(troth.log_pmi(model, t[0], t[1] + t[2])) == pytest.approx(float(expected), abs=1e-12)


def test_without_spread_it_is_the_textbook() -> None:
    """If providers may differ by next to nothing, log PMI is that of the textbook family."""
    counts = np.array([[3.0, 4], [1, 5], [2, 3]])
    for varying, textbook in (
        (models.VaryingBernoulli(1, 2), models.Bernoulli(1, 2)),
        (models.VaryingPoisson(3, 2), models.Poisson(9 / 4, 3 / 4)),
    ):
        alike = AlmostAlike(varying)
        own, peers = (alike.model.from_summary(part).sum(axis=0) for part in (counts[:1], counts[1:]))
        plain: Any = textbook
        first, second = (plain.from_summary(part).sum(axis=0) for part in (counts[:1], counts[1:]))
        expected = float(troth.log_pmi(plain, first, second))
        assert float(troth.log_pmi(alike.model, own, peers)) == pytest.approx(expected, abs=1e-4)
        t = varying.from_summary(counts)
        assert abs(float(troth.log_pmi(varying, t[0], t[1:].sum(axis=0))) - expected) > 0.01


class AlmostAlike:
    """A family whose largest spread is hardly more than its smallest."""

    def __init__(self, model: Any) -> None:
        small = type(model.__class__.__name__, (type(model),), {"min_spread": 0.001, "max_spread": 0.0011})
        self.model: Any = small(**{field.name: getattr(model, field.name) for field in dataclasses.fields(model)})


@pytest.mark.parametrize("model", VARYING, ids=lambda m: type(m).__name__)
def test_every_report_is_within_the_range(model: Any) -> None:
    rng = generator(5)
    scale = troth.exact_range(model, [6, 6, 6], values=(0, 9))
    theta = model.draw_parameters(rng, (40,))
    data = np.clip(np.stack([model.draw_data(rng, theta, 6) for _ in range(3)], axis=1), 0, 9)
    log_pmi = troth.peer_log_pmi(model, model.statistics(data))
    assert scale.low <= log_pmi.min()
    assert log_pmi.max() <= scale.high
    share = troth.OneTime(troth.clipped_range(model, [6, 6, 6], values=(0, 9))).pay(
        model, model.statistics(data[0]), budget=1.0
    )
    assert (share >= 0).all()


@pytest.mark.parametrize("model", VARYING, ids=lambda m: type(m).__name__)
def test_a_log_evidence_does_not_depend_on_the_batch(model: Any) -> None:
    rng = generator(10)
    t = model.draw_statistics(rng, model.draw_parameters(rng, (300,)), model.plan(20))
    together = model.log_evidence(t + t[::-1])
    for i in (0, 7, 150, 299):
        assert float(model.log_evidence(t[i] + t[299 - i])) == together[i]
    assert np.array_equal(model.log_evidence((t + t[::-1])[::3]), together[::3])


@pytest.mark.parametrize("model", VARYING, ids=lambda m: type(m).__name__)
def test_rules_pay_them(model: Any) -> None:
    rng = generator(6)
    t = model.statistics(model.draw_data(rng, model.draw_parameters(rng, (2, 1)).repeat(4, axis=1), 5))
    t[:, 3] = 0
    payments = troth.SyntheticPeers(draws=8).pay(model, t, budget=4.0, rng=generator(7))
    order = np.array([2, 0, 3, 1])
    assert np.array_equal(
        troth.SyntheticPeers(draws=8).pay(model, t[:, order], budget=4.0, rng=generator(7)), payments[:, order]
    )
    assert np.allclose(payments[:, 3], troth.divergences.logistic.empty_share, atol=1e-12)


@pytest.mark.parametrize("model", [models.VaryingNormal(10, 3, 2), models.VaryingPoisson(3, 2)], ids=repr)
def test_a_history_of_varying_providers_is_fitted(model: Any) -> None:
    rng = generator(8)
    theta = model.draw_parameters(rng, (60 if SOAK else 30, 1)).repeat(4, axis=1)
    past = troth.history.from_summaries(model.reduction, model.summary(model.draw_data(rng, theta, 12)))
    fitted: Any = type(model).fit(past)
    assert not fitted.at_bound
    for name, error in fitted.errors.items():
        assert abs(getattr(fitted.model, name) - getattr(model, name)) < 5 * error, name


FLAT: list[Any] = [models.VaryingPoisson(3, 300), models.VaryingPoisson(3, 3e6)]
FLAT += [models.VaryingBernoulli(*prior) for prior in ((0.01, 0.01), (0.001, 2), (1e-9, 1e-9))]


@pytest.mark.parametrize("model", FLAT, ids=repr)
def test_a_prior_that_says_nothing_still_prices(model: Any) -> None:
    """Its tails are longer than any exponential that fits a double, and yet it adds up to 1."""
    assert float(model.log_evidence(model.statistics([]))) == pytest.approx(0, abs=2e-5)
    t = model.statistics([[0, 1, 1], [1, 0, 1]])
    assert np.isfinite(troth.peer_log_pmi(model, t)).all()
    if isinstance(model, models.VaryingBernoulli):
        single_row = float(model.log_evidence(model.statistics([1])))  # does not depend on the spread
        assert single_row == pytest.approx(np.log(model.alpha / (model.alpha + model.beta)), abs=1e-6)


def test_posterior_draws_of_the_spread_are_continuous() -> None:
    """Without data they have the prior's distribution: 0 with probability 0.1, otherwise each factor equally likely."""
    for model, ends in ((models.VaryingNormal(3, 2, 1.5), (0.15, 45)), (linear(), (0.01, 3))):
        nothing = np.zeros(
            (4000, len(model.statistics(model.draw_data(generator(7), model.draw_parameters(generator(7)), 3))))
        )
        spread = model.draw_posterior(generator(8), nothing)[:, -1]
        some = np.sort(np.log(spread[spread > 0]))
        assert len(some) / 4000 == pytest.approx(1 - ALIKE, abs=0.02)
        place = (some - np.log(ends[0])) / np.log(ends[1] / ends[0])
        assert abs(place - np.linspace(0, 1, len(place))).max() < 1.95 / np.sqrt(len(place))  # once in a thousand times


def test_what_is_known_at_the_nodes_is_interpolated_between_them() -> None:
    """Exactly, if it is linear in ln spread; no spread is a node of its own."""
    grid, spreads = spread_grid(0.01, 1.0), np.array([0.0, 0.011, 0.3, 0.97])
    known = np.concatenate([[7.0], 2 - 3 * np.log(grid.nodes[1:])])
    values = grid.interpolate(np.tile(known[:, None] * [1.0, 10.0], (4, 1, 1)), spreads)
    expected = np.concatenate([[7.0], 2 - 3 * np.log(spreads[1:])])
    np.testing.assert_allclose(values, expected[:, None] * [1.0, 10.0], rtol=1e-12)


def linear() -> Any:
    return models.VaryingLinearRegression([1, -2], [[2, 0.5], [0.5, 1]], 0.7)
