"""Priors from simulated histories: recovered within their standard errors, with the right likelihood, or refused.

Declared error: a standardised error beyond 5 has probability 6e-7 for each of about 40 parameters if errors are
normal; seeds are fixed. Standard errors themselves are checked to be neither half nor twice as large as they should.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from history.worlds import past_of
from registry import EXAMPLES, generator
from troth import models
from troth.errors import DataError, ParameterError
from troth.history.likelihood import log_marginal
from troth.history.past import Past
from troth.history.priors import fit_prior
from troth.sums import Moments, Tally

GIVEN = {
    "finite": ("likelihood",),
    "finite with zeros": ("likelihood",),
    "negative binomial": ("r",),
    "gamma": ("known_shape",),
}
FAMILIES = {name: model for name, model in EXAMPLES.items() if getattr(model, "reference", None) is None}
COVERED = (*models.FAMILIES.values(),)


def fixed_of(name: str, model: Any) -> dict[str, Any]:
    return {key: getattr(model, key) for key in GIVEN.get(name, ())}


def test_every_conjugate_family_is_fitted() -> None:
    conjugate = {family for family in models.FAMILIES.values() if family.__module__ != "troth.models.latent_class"}
    fitted = {type(model) for model in FAMILIES.values()}
    missing = {family.__name__ for family in conjugate - fitted}
    assert missing <= {"ProviderNormal", "LatentClass"}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_prior_is_recovered(name: str) -> None:
    model: Any = FAMILIES[name]
    if isinstance(model, models.Family) and type(model).__name__ in {"LatentClass", "ProviderNormal"}:
        pytest.skip("fitted by expectation maximisation, not here")
    found = fit_prior(type(model), past_of(model, 1, days=150), **fixed_of(name, model))
    assert not found.at_bound
    for parameter, error in found.errors.items():
        fitted, true = (np.asarray(getattr(m, parameter)) for m in (found.model, model))
        assert np.isfinite(error).all()
        assert (np.abs(fitted - true) <= 5 * np.asarray(error) + 1e-9).all(), (parameter, fitted, true, error)
        assert (np.asarray(error) < 2 * np.abs(true).max()).all(), parameter


@pytest.mark.parametrize("name", FAMILIES)
def test_the_fit_beats_the_truth_and_every_neighbour(name: str) -> None:
    """The maximum is a maximum: the true prior and small changes of the fitted one have a lower likelihood."""
    model: Any = FAMILIES[name]
    past = past_of(model, 2, days=60)
    found = fit_prior(type(model), past, **fixed_of(name, model))
    assert log_marginal(found.model, past).sum() == pytest.approx(found.log_likelihood, rel=1e-9)
    assert log_marginal(model, past).sum() <= found.log_likelihood + 1e-6
    for parameter in found.errors:
        for factor in (0.9, 1.1):
            value = np.asarray(getattr(found.model, parameter)) * factor
            if parameter == "prior":
                value = value + np.linspace(0, 0.05, len(value))
                value = value / value.sum()
            plain = {**found.model.to_dict(), parameter: value if value.ndim else float(value)}
            other = models.from_dict(plain)
            assert log_marginal(other, past).sum() <= found.log_likelihood + 1e-6, parameter


def test_standard_errors_are_the_spread_of_fits() -> None:
    """Over 60 histories errors have spread 1 in units of the stated error: within [0.7, 1.4] but for 1 in 10,000."""
    rng = generator(3)
    standardised = []
    for _ in range(60):
        ones = rng.binomial(20, rng.beta(2, 5, size=(80, 1)), size=(80, 3))
        found = fit_prior("Bernoulli", Past(Tally(2), np.stack([20 - ones, ones], axis=-1)))
        fitted: Any = found.model
        standardised.append(np.log(fitted.alpha / 2) / (found.errors["alpha"] / fitted.alpha))
    assert 0.7 < np.std(standardised) < 1.4


def test_the_noise_of_a_normal_needs_no_squares() -> None:
    """Without squares, providers' means tell the noise, by how much they differ on the same day."""
    model = models.Normal(3, 2, 1.5)
    past = past_of(model, 5, days=120, providers=4)
    assert isinstance(past.declared, Moments)
    thin = Past(Moments(past.declared.centre), past.sums[..., :2])
    found = fit_prior("Normal", thin)
    fitted: Any = found.model
    assert abs(fitted.noise - 1.5) < 5 * found.errors["noise"] < 0.5
    assert abs(fitted.scale - 2) < 5 * found.errors["scale"]
    given: Any = fit_prior("Normal", thin, noise=1.5)
    assert given.model.noise == 1.5
    assert "noise" not in given.errors


@pytest.mark.parametrize("squares", [True, False])
def test_the_likelihood_of_a_normal_is_that_of_its_rows(squares: bool) -> None:
    """Against quadrature over θ: nothing that depends on a parameter is left out."""
    model = models.Normal(0.5, 1.2, 0.8)
    rows = [np.array([0.1, 1.3]), np.array([0.7])]
    declared = Moments((0.3,), squares=squares)
    past = Past(declared, np.array([[declared.of_rows(x[:, None]) for x in rows]]))

    def density(theta: float) -> float:
        reports = rows if squares else [np.array([x.mean()]) for x in rows]
        sizes = [1] * 2 if squares else [len(x) for x in rows]
        p = stats.norm.pdf(theta, 0.5, 1.2)
        for x, n in zip(reports, sizes, strict=True):
            p *= np.prod(stats.norm.pdf(x, theta, 0.8 / np.sqrt(n)))
        return float(p)

    expected = np.log(quad(density, -8, 9, epsabs=1e-14)[0])
    assert log_marginal(model, past)[0] == pytest.approx(expected, abs=1e-8)


def test_a_regression_has_the_likelihood_of_its_answers() -> None:
    rng = generator(7)
    z, y = rng.normal(size=(5, 2)), rng.normal(size=5)
    model = models.LinearRegression([0.5, -1.0], [[2.0, 0.3], [0.3, 1.0]], 0.7)
    declared = Moments((0.0,) * 3, linear=False, squares=True)
    past = Past(declared, np.array([[declared.of_rows(np.column_stack([z, y]))]]))
    covariance = 0.49 * np.eye(5) + z @ np.linalg.inv(np.array(model.precision)) @ z.T
    expected = stats.multivariate_normal(z @ np.array(model.mean), covariance).logpdf(y)
    assert log_marginal(model, past)[0] == pytest.approx(expected, abs=1e-9)


def test_missing_reports_are_left_out() -> None:
    past = past_of(models.Bernoulli(2, 5), 3, days=40)
    sums = past.sums.copy()
    gone = generator(8).random(sums.shape[:2]) < 0.3
    sums[gone] = 0
    some = fit_prior("Bernoulli", Past(past.declared, sums))
    assert some.days == int((~gone).any(axis=1).sum())
    assert fit_prior("Bernoulli", Past(past.declared, sums)) == some  # deterministic


def test_days_that_do_not_differ_are_said_to() -> None:
    rng = generator(9)
    ones = rng.binomial(20, 0.3, size=(60, 3))
    found = fit_prior("Bernoulli", Past(Tally(2), np.stack([20 - ones, ones], axis=-1)))
    fitted: Any = found.model
    assert fitted.alpha + fitted.beta > 200
    assert fitted.alpha / (fitted.alpha + fitted.beta) == pytest.approx(0.3, abs=0.05)


COINS = np.array([[[2.0, 3.0], [1.0, 1.0]]] * 10)
NUMBERS = Moments((0.0,), squares=True)


@pytest.mark.parametrize(
    ("family", "past", "fixed", "message"),
    [
        ("Bernoulli", Past(Tally(2), COINS[:3]), {}, "3 days with reports: a prior is fitted to at least 5"),
        ("Bernoulli", Past(Tally(2), COINS * [1, 0]), {}, "code 1 never occurs"),
        ("Bernoulli", Past(Tally(3), np.ones((9, 2, 3))), {}, "needs two codes, but the history has 3"),
        ("Poisson", Past(Tally(2), COINS), {}, "Poisson needs numbers"),
        ("Categorical", Past(NUMBERS, np.ones((9, 2, 3))), {}, "Categorical needs codes"),
        ("Normal", Past(NUMBERS, np.tile([2.0, 6.0, 18.0], (9, 2, 1))), {}, "column 0: every value is the same"),
        ("NormalUnknownVariance", Past(Moments(), generator(1).random((9, 2, 2)) + 1), {}, "squares"),
        ("NegativeBinomial", Past(Moments(), np.ones((9, 2, 2))), {}, "give r="),
        ("Gamma", Past(Moments(), np.ones((9, 2, 2))), {}, "give known_shape="),
        ("Finite", Past(Tally(2), COINS), {}, "give the table likelihood="),
        ("Finite", Past(Tally(2), COINS), {"likelihood": [[1.0, 0.0], [0.0, 1.0]]}, "day 0: no state"),
        ("Bernoulli", Past(Tally(2), COINS), {"gamma": 1}, "no parameter 'gamma'"),
        ("Bernoulli", Past(Tally(2), COINS), {"alpha": 1, "beta": 1}, "nothing to fit"),
        ("Cauchy", Past(Tally(2), COINS), {}, "no family 'Cauchy'"),
    ],
)
def test_what_cannot_be_fitted_is_refused(family: str, past: Past, fixed: dict[str, Any], message: str) -> None:
    with pytest.raises((DataError, ParameterError), match=message):
        fit_prior(family, past, **fixed)
