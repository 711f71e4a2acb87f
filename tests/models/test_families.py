"""Constructors, data, capabilities and combination of the families."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import stats

import troth
from registry import EXAMPLES, MISSING, SOAK, VARYING, generator
from troth import models
from troth.core.contract import (
    Combinable,
    CountsRows,
    HasExpectedEvidence,
    HasSummary,
    HasSupport,
    SamplesData,
    SamplesStatistics,
    design_of,
)
from troth.core.reductions import Moments

EYE = [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("family", models.FAMILIES.values())
def test_help_says_what_every_hyperparameter_means(family: type[models.Family]) -> None:
    about, _, section = (family.__doc__ or "").partition("\nParameters\n----------\n")
    assert about
    for hyper_parameter in family.parameters():
        assert (
            f"{hyper_parameter.name}\n    {hyper_parameter.meaning[0].upper()}{hyper_parameter.meaning[1:]}." in section
        )


@pytest.mark.parametrize("name", EXAMPLES)
def test_models_print_compare_and_serialise(name: str) -> None:
    model = EXAMPLES[name]
    plain = json.loads(json.dumps(model.to_dict()))
    again = models.from_dict(plain)
    assert again == model
    assert hash(again) == hash(model)
    assert eval(repr(model), vars(models)) == model  # noqa: S307
    assert pickle.loads(pickle.dumps(model)) == model  # noqa: S301
    assert copy.deepcopy(model) == model
    assert plain["family"] == type(model).__name__
    assert all(model != other for key, other in EXAMPLES.items() if key != name)


@pytest.mark.parametrize("name", EXAMPLES)
def test_capabilities_are_offered(name: str) -> None:
    for capability in (troth.Model, HasSummary, SamplesData, SamplesStatistics, CountsRows, HasSupport, Combinable):
        assert isinstance(EXAMPLES[name], capability), capability
    assert isinstance(EXAMPLES[name], HasExpectedEvidence) != (name in MISSING["expected evidence"])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: models.Bernoulli(0, 1), "alpha must be above 0"),
        (lambda: models.Bernoulli(1, float("nan")), "beta must be finite"),
        (lambda: models.Bernoulli(1, "x"), "beta must be a number, not 'x'"),  # type: ignore[arg-type]
        (lambda: models.Bernoulli(10**400, 1), "alpha is too large"),
        (lambda: models.Normal(0, 1e-160, 1), "scale must lie between 1e-100 and 1e\\+100"),
        (lambda: models.Categorical([1]), "at least 2 entries"),
        (lambda: models.Categorical([1, -1]), r"alpha\[1\] must be above 0"),
        (lambda: models.Geometric(1, 0), "beta must be above 0"),
        (lambda: models.NegativeBinomial(0, 1, 1), "r must be above 0"),
        (lambda: models.Poisson(1, -1), "rate must be above 0"),
        (lambda: models.Exponential(-1, 1), "shape must be above 0"),
        (lambda: models.Gamma(0, 1, 1), "known_shape must be above 0"),
        (lambda: models.Normal(0, 0, 1), "scale must be above 0"),
        (lambda: models.Normal(float("inf"), 1, 1), "mean must be finite"),
        (lambda: models.NormalUnknownVariance(0, 1, 1, 0), "scale must be above 0"),
        (lambda: models.MultivariateNormal([0, 0], [[1, 2], [0, 1]], EYE), "covariance must be symmetric"),
        (lambda: models.MultivariateNormal([0, 0], EYE, [[1, 2], [2, 1]]), "noise must be positive definite"),
        (lambda: models.MultivariateNormal([0, 0], [[1.0]], EYE), "covariance must be 2 by 2"),
        (lambda: models.MultivariateNormalUnknownCovariance([0, 0], 1, 1, EYE), "dof must be above 1"),
        (lambda: models.LinearRegression([0, 0], EYE, 0), "noise must be above 0"),
        (lambda: models.LinearRegression([0, 0, 0], EYE, 1), "precision must be 3 by 3"),
        (lambda: models.LinearRegressionUnknownNoise([0, 0], EYE, 1, -1), "scale must be above 0"),
        (lambda: models.Finite([0.5, 0.6], EYE), "prior must sum to 1"),
        (lambda: models.Finite([1.0, 0.0], EYE), r"prior\[1\] must be above 0"),
        (lambda: models.Finite([0.5, 0.5], [[0.5, 0.6], [1, 0]]), r"likelihood\[0\] must sum to 1"),
        (lambda: models.Finite([0.5, 0.5], [[1.5, -0.5], [1, 0]]), r"likelihood\[0, 1\] is below 0"),
        (lambda: models.Finite([0.5, 0.5], [[1.0]]), "must have 2 rows"),
        (lambda: models.Finite.from_posteriors([0.5, 0.5], [[0.9, 0.1], [0.8, 0.2]]), "contradict"),
        (lambda: models.Finite.from_posteriors([0.5, 0.5], [[0.9, 0.2], [0.1, 0.8]]), "sum to 1"),
        (
            lambda: models.from_dict({"family": "Bernouli"}),
            "there is no family 'Bernouli'; there are Bernoulli, Categorical",
        ),
        (lambda: models.from_dict({"family": "Bernoulli", "alpha": 1}), "missing .* 'beta'"),
        (lambda: models.from_dict({"family": "Bernoulli", "alpha": 1, "betta": 1}), "no parameter 'betta'"),
    ],
)
def test_impossible_hyperparameters_are_refused(build: Any, message: str) -> None:
    with pytest.raises(troth.ParameterError, match=message):
        build()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("bernoulli", [0, 1, 2], "row 2: value 2.0 is not a whole number from 0 to 1"),
        ("bernoulli", [0, None], "row 1: value nan"),
        ("bernoulli", [0, "yes"], "row 1: value 'yes' is not a number"),
        ("bernoulli", 1, r"shape \(rows,\)"),
        ("bernoulli", [[0, 1], [1, 3]], r"row 1 of dataset \(1,\): value 3.0"),
        ("categorical", [0, 1.5], "row 1: code 1.5 is not a whole number from 0 to 2"),
        ("categorical", [3], "row 0: code 3.0"),
        ("finite", [0, -1], "row 1: symbol -1.0"),
        ("geometric", [1, -1], "row 1: count -1.0 is not a whole number of at least 0"),
        ("negative binomial", [0.5], "row 0: count 0.5"),
        ("poisson", [1, 2, np.inf], "row 2: count inf"),
        ("exponential", [0.0, -1e-9], "row 1: value -1e-09 is not a number of at least 0"),
        ("gamma", [1.0, 0.0], "row 1: value 0.0 is not a number above 0"),
        ("normal", [1.0, np.nan], "row 1: value nan is not a number"),
        ("normal, unknown variance", [np.inf], "row 0: value inf"),
        ("multivariate normal", [[1, 2], [3, np.nan]], "row 1, column 1: value nan"),
        ("multivariate normal", [[1, 2, 3]], r"shape \(rows, 2\), not \(1, 3\)"),
        ("multivariate normal", [[1, 2], [3]], "different lengths"),
        ("multivariate normal, unknown covariance", [1, 2], r"shape \(rows, 2\)"),
        ("regression", ([[1, 2]], [np.nan]), "row 0: answer nan"),
        ("regression", ([[1, np.inf]], [1]), "row 0, column 1: feature inf"),
        ("regression", ([[1, 2], [3, 4]], [1]), r"features of shape \(2, 2\) need answers of shape"),
        (
            "regression",
            (np.ones((3, 2, 2)), np.ones((4, 2))),
            r"\(3, 2, 2\) need answers of shape \(3, 2\), not \(4, 2\)",
        ),
        ("regression, unknown noise", [1, 2, 3], r"a pair \(z, y\)"),
        ("poisson", [1e308, 1e308], "too large to add up"),
        ("exponential", [1e308, 1e308], "too large to add up"),
        ("geometric", [1e308, 1e308], "too large to add up"),
        ("normal", [1e308, 1e308], "too large to add up"),
        ("normal, unknown variance", [1e200], "too large to add up"),
        ("multivariate normal", [[1e200, 0]], "too large to add up"),
        ("regression", ([[1e200, 0]], [0]), "too large to add up"),
    ],
)
def test_data_outside_the_support_is_refused_by_row_and_value(name: str, data: Any, message: str) -> None:
    with pytest.raises(troth.DataError, match=message):
        EXAMPLES[name].statistics(data)


def test_what_a_mask_hides_is_no_value() -> None:
    data = np.ma.masked_array([1.0, 0.0, 1.0], mask=[False, True, False])
    with pytest.raises(troth.DataError, match="row 1: value nan is not a whole number from 0 to 1"):
        models.Bernoulli(1, 1).statistics(data)


def test_a_report_that_no_state_can_explain_is_refused() -> None:
    model = models.Finite([0.5, 0.5], [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    with pytest.raises(troth.DataError, match="row 2: symbol 2 cannot occur together with the rows before it"):
        model.statistics([1, 0, 2])


def test_impossible_regression_statistics_are_refused() -> None:
    model = models.LinearRegressionUnknownNoise([0.0], [[1.0]], 1, 1)
    with pytest.raises(troth.DataError, match="contradict"):
        model.log_evidence(np.array([1.0, 50.0, 1.0, 1.0]))


def test_statistics_are_laid_out_as_documented() -> None:
    x = np.array([[4.0, 1.0], [5.0, 3.0]])
    s = x - [1, 2]
    expected = [2, *s.sum(axis=0), *(s.T @ s).ravel()]
    for name in ("multivariate normal", "multivariate normal, unknown covariance"):
        assert np.allclose(EXAMPLES[name].statistics(x), expected)
    y = np.array([1.0, -1.0])
    r = y - x @ [1, -2]
    for name in ("regression", "regression, unknown noise"):
        assert np.allclose(EXAMPLES[name].statistics((x, y)), [*(x.T @ x).ravel(), *(x.T @ r), r @ r, 2])
    assert np.allclose(EXAMPLES["finite"].statistics([0, 2]), np.log([0.2 * 0.5, 0.6 * 0.1, 0.1 * 0.1]))


def test_posteriors_price_like_the_likelihoods_they_come_from() -> None:
    rng = generator(1)
    for symbols in (2, 3, 5):
        prior, table = rng.dirichlet([1, 1, 1]), rng.dirichlet(np.ones(symbols), size=3)
        joint = prior[:, None] * table
        model = models.Finite(tuple(prior), table.tolist())
        paper = models.Finite.from_posteriors(prior, (joint / joint.sum(axis=0)).T)
        assert paper.normalised == (symbols <= 3)
        a, b = rng.integers(0, symbols, 6), rng.integers(0, symbols, 9)
        log_pmi = troth.log_pmi(paper, paper.statistics(a), paper.statistics(b))
        assert float(log_pmi) == pytest.approx(
            float(troth.log_pmi(model, model.statistics(a), model.statistics(b))), abs=1e-12
        )
        if not paper.normalised:
            with pytest.raises(troth.MissingCapabilityError, match="do not determine p\\(d\\|θ\\)"):
                paper.draw_data(rng, paper.draw_parameters(rng), 3)


def test_finite_rows_are_recovered_or_asked_for() -> None:
    rng = generator(2)
    model = EXAMPLES["finite"]
    assert model.rows(model.statistics(rng.integers(0, 3, 1000))) == 1000
    wide: Any = models.Finite([0.5, 0.5], rng.dirichlet(np.ones(4), size=2).tolist())
    assert np.array_equal(wide.rows(wide.statistics(rng.integers(0, 4, (6, 5)))), np.full(6, 5))
    with pytest.raises(troth.MissingCapabilityError, match="numbers of rows"):
        wide.rows(wide.statistics(rng.integers(0, 4, 500)))


@pytest.mark.parametrize(
    "pair",
    [
        (models.Normal(1, 2, 1), models.Normal(1, 2, 3)),
        (
            EXAMPLES["multivariate normal"],
            models.MultivariateNormal([1, 2], [[2, 0.5], [0.5, 1]], [[2, 0.4], [0.4, 6]]),
        ),
        (EXAMPLES["regression"], models.LinearRegression([1, -2], [[2, 0.5], [0.5, 1]], 2.0)),
        (EXAMPLES["finite"], models.Finite([0.2, 0.5, 0.3], [[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]])),
    ],
    ids=lambda pair: type(pair[0]).__name__,
)
def test_providers_with_different_likelihoods_combine(pair: tuple[Any, Any]) -> None:
    """PMI across different likelihoods is a density ratio: mean 1 over independent pairs, both ways round."""
    rng = generator(3)
    first, second = troth.combine(pair)
    assert isinstance(first, SamplesData)
    assert isinstance(second, SamplesData)
    theta = first.draw_parameters(rng, (100_000,))
    a, b = first.statistics(first.draw_data(rng, theta, 3)), second.statistics(second.draw_data(rng, theta, 4))
    matched = troth.log_pmi([first, second], a, b)
    independent = troth.log_pmi([second, first], a, np.roll(b, 1, axis=0))
    left, right = 1 / (1 + np.exp(-independent)), 1 / (1 + np.exp(matched))
    assert abs(left.mean() - right.mean()) < 5.5 * np.sqrt((left.var() * 2 + right.var()) / len(left))
    assert matched.mean() > 0
    for model, t, rows in ((first, a, 3), (second, b, 4)):
        assert isinstance(model, CountsRows)
        assert np.allclose(model.rows(t[:5]), rows)


def test_unequal_noise_equals_one_regression_on_rescaled_rows() -> None:
    """Dividing a row by its noise is the textbook way to weight it."""
    rng = generator(4)
    precise, vague = troth.combine(
        [models.LinearRegression([0, 0], EYE, 1.0), models.LinearRegression([0, 0], EYE, 3.0)]
    )
    z1, z2, y1, y2 = rng.normal(size=(5, 2)), rng.normal(size=(6, 2)), rng.normal(size=5), rng.normal(size=6)
    log_pmi = troth.log_pmi(precise, precise.statistics((z1, y1)), vague.statistics((z2, y2)))
    expected = troth.log_pmi(precise, precise.statistics((z1, y1)), precise.statistics((z2 / 3, y2 / 3)))
    assert float(log_pmi) == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (models.Normal(0, 1, 1), models.Normal(0, 2, 1), "scale is 2.0 here and 1.0 there"),
        (models.Normal(0, 1, 1), models.Bernoulli(1, 1), "family is Bernoulli here and Normal there"),
        (models.Bernoulli(1, 1), models.Bernoulli(1, 2), "beta is 2.0 here and 1.0 there"),
        (EXAMPLES["finite"], models.Finite([0.5, 0.5], EYE), "prior is"),
        (
            EXAMPLES["multivariate normal"],
            models.MultivariateNormal([1, 2], [[2, 0.5], [0.5, 1]], EYE),
            "reference noise is",
        ),
    ],
)
def test_incompatible_providers_are_refused_with_the_reason(first: Any, second: Any, message: str) -> None:
    with pytest.raises(troth.IncompatibleModelsError, match=message):
        troth.combine([first, second])


def test_statistics_that_do_not_have_the_likelihood_in_them_are_not_added() -> None:
    """A family that lets providers differ, but whose evidence needs the noise, would be paid under a wrong one."""

    class Careless(models.Normal):
        own_likelihoods = True
        space = models.Family.space
        in_space_of = models.Family.in_space_of

    with pytest.raises(troth.IncompatibleModelsError, match="log evidence of the same statistics is"):
        troth.combine([Careless(0, 1, 1), Careless(0, 1, 2)])
    assert len(troth.combine([Careless(0, 1, 2), Careless(0, 1, 2)])) == 2


def test_statistics_taken_before_combining_are_refused() -> None:
    apart = [models.Normal(0, 1, 1), models.Normal(0, 1, 2)]
    t = np.stack([model.statistics([1.0]) for model in apart])
    with pytest.raises(
        troth.IncompatibleModelsError, match=r"providers 0 and 1 differ in reference noise .* troth.combine"
    ):
        troth.log_pmi(apart, t[0], t[1])


def test_a_matrix_may_be_symmetric_up_to_rounding() -> None:
    rng = generator(6)
    basis = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    matrix = basis @ np.diag([1.0, 1.0, 1.0 + 1e-15]) @ basis.T  # off the diagonal there is only rounding
    matrix[0, 1] += 1e-12
    assert models.LinearRegression([0, 0, 0], matrix.tolist(), 1).precision[0][1] == pytest.approx(5e-13, abs=1e-15)
    with pytest.raises(troth.ParameterError, match="symmetric"):
        models.LinearRegression([0, 0], [[1, 1e-8], [0, 1]], 1)


@pytest.mark.parametrize(
    "model",
    [
        models.MultivariateNormalUnknownCovariance([0, 0], 1, 1.5, EYE),
        models.Exponential(0.01, 1),
        models.NormalUnknownVariance(0, 1, 0.01, 1),
        models.Geometric(0.01, 1),
        models.LinearRegressionUnknownNoise([0, 0], EYE, 0.01, 1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_heavy_tails_obey_the_laws_without_a_warning(model: Any) -> None:
    assert len(troth.check_model(model, draws=30_000 if SOAK else 8000).obeyed) >= 13


def test_impossible_moments_are_refused() -> None:
    model = models.MultivariateNormalUnknownCovariance([0, 0], 1, 3, EYE)
    with pytest.raises(troth.DataError, match="contradict"):
        model.log_evidence(np.array([2.0, 50, 0, 1, 0, 0, 1]))


@pytest.mark.parametrize("name", [*EXAMPLES, *VARYING])
def test_statistics_are_drawn_as_those_of_rows_are(name: str) -> None:
    """Each number of a statistic by itself; false alarms are at most one in 100,000 for each."""
    model: Any = {**EXAMPLES, **VARYING}[name]
    rng = generator(21)
    size = 300 if name in VARYING else 3000
    theta = model.draw_parameters(rng, (size,))
    for rows in (1, 2, 5):
        planned = rng.normal(size=(rows, 2)) if "regression" in name else rows
        of_rows = model.statistics(model.draw_data(rng, theta, planned))
        drawn = model.draw_statistics(rng, theta, design_of(model, of_rows, np.full(size, float(rows))))
        columns: Any = [np.nan_to_num(each, neginf=-1e6).round(9).T for each in (of_rows, drawn)]
        for one, two in zip(*columns, strict=True):
            assert stats.ks_2samp(one, two, method="asymp").pvalue > 1e-5


@pytest.mark.parametrize("name", [*EXAMPLES, *VARYING])
def test_an_empty_report_has_no_base_measure(name: str) -> None:
    model: Any = {**EXAMPLES, **VARYING}[name]
    assert not model.base_measure(np.zeros(model.reduction.width), model.reduction).any()


def test_absent_providers_do_not_narrow_the_fitted_noise() -> None:
    rng = generator(3)
    values = rng.normal(20, 5, (400, 1, 1)) + rng.normal(0, 2, (400, 6, 4))
    present = rng.random((400, 6)) < 0.4
    reports = [(int(day), f"{who}", (4.0, values[day, who].sum())) for day, who in np.argwhere(present)]
    fitted: Any = models.Normal.fit(troth.History.from_reports(reports, Moments()))
    assert abs(fitted.model.noise - 2) < 4 * fitted.errors["noise"]
