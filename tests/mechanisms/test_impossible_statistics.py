"""Impossible statistics are rejected with the provider's name; those of real data never are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import troth
from registry import EXAMPLES, generator
from troth import models
from troth.core.contract import ChecksStatistics
from troth.core.errors import ReportError

FIRST = troth.SyntheticPeers(draws=4)
NORMAL = models.NormalUnknownVariance(0, 1, 2, 2)
VECTORS = models.MultivariateNormalUnknownCovariance([0, 0], 1, 4, [[1, 0], [0, 1]])
LINEAR = models.LinearRegression([0, 0], [[1, 0], [0, 1]], 1.0)
UNKNOWN = models.LinearRegressionUnknownNoise([0, 0], [[1, 0], [0, 1]], 3, 2)
LOGISTIC = models.LogisticRegression([0, 0], 1.0)
FINITE = models.Finite([0.5, 0.5], [[0.8, 0.2], [0.3, 0.7]])
ZEROS = models.Finite([0.5, 0.5], [[1.0, 0.0], [0.3, 0.7]])


def honest(model: Any, providers: int = 5, rows: int = 12, seed: int = 5) -> Any:
    rng = generator(seed)
    theta = model.draw_parameters(rng)
    return np.stack([model.statistics(model.draw_data(rng, theta, rows)) for _ in range(providers)])


def changed(model: Any, change: dict[int, float]) -> Any:
    t = honest(model)
    for place, value in change.items():
        t[3, place] = value
    return t


IMPOSSIBLE = {
    "negative ones": (models.Bernoulli(1, 1), {0: -2.0, 1: 30.0}),
    "more ones than rows": (models.Bernoulli(1, 1), {0: 15.0, 1: -3.0}),
    "a negative label": (models.Categorical([1, 1, 1]), {2: -1.0, 1: 20.0}),
    "a negative sum of counts": (models.Poisson(2, 1), {1: -3.0}),
    "a negative sum of failures": (models.Geometric(2, 2), {1: -1.0}),
    "a negative sum of times": (models.Exponential(2, 1), {1: -1e-3}),
    "squares below the sum": (NORMAL, {0: 4.0, 1: 10.0, 2: 24.9}),
    "negative squares": (NORMAL, {0: 4.0, 1: 0.0, 2: -1.0}),
    "one row that scatters": (NORMAL, {0: 1.0, 1: 1.0, 2: 2.0}),
    "products below the sums": (VECTORS, {0: 4.0, 1: 10.0, 2: 0.0, 3: 24.0, 4: 0.0, 5: 0.0, 6: 1.0}),
    "products that are not symmetric": (VECTORS, {4: 1.0, 5: 2.0}),
    "an indefinite Gram matrix": (LINEAR, {0: 1.0, 1: 2.0, 2: 2.0, 3: 1.0}),
    "answers below their fit": (UNKNOWN, {6: 0.0}),
    "features of rank 2 in one row": (LINEAR, {7: 1.0}),
    "an indefinite curvature": (LOGISTIC, {0: -1.0}),
    "a log-likelihood above 0": (FINITE, {0: 0.5}),
    "a negative count behind it": (FINITE, {0: 0.0, 1: -40.0}),
    "a state that nothing rules out": (ZEROS, {1: -np.inf}),
    "a likelihood of days above 1": (EXAMPLES["day types, real"], {0: 3.0}),
    "counts that differ from the functions of them": (models.VaryingBernoulli(2, 2), {0: 11.0, 1: 1.0}),
    "negative counts of a varying rate": (models.VaryingBernoulli(2, 2), {0: -2.0}),
    "a sum that differs from the functions of it": (models.VaryingPoisson(5, 5), {1: 400.0}),
    "a likelihood at one spread": (models.VaryingNormal(0, 1, 1), {5: 40.0}),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_statistics_are_rejected_with_the_provider(name: str) -> None:
    model, change = IMPOSSIBLE[name]
    rows = np.full(5, 12.0)
    with pytest.raises(ReportError, match=r"provider 3: (no data have|the report cannot occur)") as refused:
        FIRST.pay(model, changed(model, change), budget=1.0, rows=rows, rng=generator(1))
    assert refused.value.provider == 3


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("rows", [0, 1, 2, 40])
def test_statistics_of_data_are_never_rejected(name: str, rows: int) -> None:
    model: Any = EXAMPLES[name]
    t = honest(model, rows=rows, seed=rows)
    assert isinstance(model, ChecksStatistics)
    assert model.possible(t).all()
    assert model.possible(np.zeros_like(t)).all()
    beside = troth.core.posterior.conditioned_on(model, t[0])
    assert isinstance(beside, ChecksStatistics)
    assert beside.possible(t).all()


def test_sums_of_a_million_rows_far_from_zero_are_possible() -> None:
    x = 1e6 + generator(2).standard_normal(1_000_000)
    z = np.stack([np.ones_like(x), x], axis=-1)
    for model, data in (
        (NORMAL, x),
        (VECTORS, np.stack([x, 2 * x], axis=-1)),
        (LINEAR, (z, x)),
        (UNKNOWN, (z, 3 * x)),
        (models.VaryingNormal(0, 1, 1), x),
        (models.VaryingLinearRegression([0, 0], [[1, 0], [0, 1]], 1.0), (z, x)),
        (models.Exponential(2, 1), x),
        (models.Poisson(2, 1), np.floor(x)),
        (FINITE, (x > 1e6).astype(float)),
    ):
        each: Any = model
        assert each.possible(each.statistics(data))


def test_features_of_very_different_sizes_are_possible() -> None:
    rng = generator(3)
    for power in (0, 6, 12, 20):
        z = rng.standard_normal((30, 2)) * [1.0, 10.0**power]
        y = z @ [1.0, 10.0**-power] + rng.standard_normal(30)
        for model in (LINEAR, UNKNOWN, models.VaryingLinearRegression([0, 0], [[1, 0], [0, 1]], 1.0)):
            each: Any = model
            assert each.possible(each.statistics((z, y)))


def test_different_noises_are_possible() -> None:
    combined = troth.combine([models.Normal(0, 1, 1), models.Normal(0, 1, 0.37)])
    linear = troth.combine([LINEAR, models.LinearRegression([0, 0], [[1, 0], [0, 1]], 0.37)])
    for model in (*combined, *linear):
        each: Any = model
        assert each.possible(honest(each, rows=1)).all()


def test_a_model_without_a_check_is_paid() -> None:
    class Rate:
        def statistics(self, data: Any) -> Any:
            return models.Bernoulli(1, 1).statistics(data)

        def log_evidence(self, statistics: Any) -> Any:
            return models.Bernoulli(1, 1).log_evidence(statistics)

    t = np.array([[3.0, 1.0], [2.0, 2.0], [-0.5, 2.5]])
    assert np.isfinite(troth.MultiDay().pay(Rate(), np.stack([t, t]), budget=1.0, rows=np.ones((2, 3)))).all()


def test_fractions_are_weights() -> None:
    t = np.array([[3.5, 1.0], [2.0, 2.25], [0.0, 0.0]])
    for model in (models.Bernoulli(1, 1), models.Categorical([1, 1]), models.Poisson(2, 1), models.Exponential(2, 1)):
        assert model.possible(t).all()


@pytest.mark.parametrize(
    "model",
    [models.VaryingNormal(0, 1, 1), models.VaryingLinearRegression([0, 0], [[1, 0], [0, 1]], 1.0)],
    ids=["values", "regression"],
)
def test_squares_beyond_the_limit_are_rejected_although_no_statistic_shows_them(model: Any) -> None:
    """A sum of squares of 1e200 only makes a provider's own precision small."""
    rng = generator(4)
    theta = model.draw_parameters(rng)
    summaries = np.stack([model.summary(model.draw_data(rng, theta, 12)) for _ in range(5)])
    for size, refused in ((1e90, False), (1e101, True), (1e200, True)):
        summaries[2, -1] = size
        t = model.from_summary(summaries)
        if refused:
            with pytest.raises(ReportError, match=r"provider 2: .*beyond ±1e\+100"):
                troth.LineUp(decoys=9).pay(model, t, budget=1.0, rng=generator(1))
        else:
            assert np.isfinite(troth.LineUp(decoys=9).pay(model, t, budget=1.0, rng=generator(1))).all()


@pytest.mark.parametrize("report", [[5.0, 5.0], [-0.5, -0.1]])
def test_log_likelihoods_of_no_dataset_are_blamed_on_their_provider(report: list[float]) -> None:
    model = models.Finite([0.5, 0.5], [[0.7, 0.3], [0.2, 0.8]])
    t = np.stack([*(model.statistics(x) for x in ([0, 0, 1], [0, 1, 1], [0, 0, 0])), np.array(report)])
    for rows in ([3] * 4, None):
        with pytest.raises(ReportError if report[0] > 0 else troth.UnpayableRoundError, match="provider 3"):
            troth.Brier().pay(model, t, budget=4.0, rows=rows)
    with pytest.raises(troth.TrothError, match="provider 3"):
        troth.LineUp().pay(model, t, budget=4.0, rng=np.random.default_rng(1))
