"""Priors from simulated histories: recovered within their standard errors, with the right likelihood, or refused.

Declared error: a standardised error beyond 5 has probability 6e-7 for each of about 40 parameters if errors are
normal; seeds are fixed. Standard errors themselves are checked to be neither half nor twice as large as they should.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import troth
from history.worlds import binary_days, draw_history
from registry import EXAMPLES, SOAK, generator
from troth import models
from troth.core.errors import DataError, ParameterError
from troth.core.past import History
from troth.core.reductions import Counts, Moments
from troth.history import from_summaries
from troth.history.learn import candidates_for
from troth.history.likelihood import log_marginal

FAMILIES = {
    name: model
    for name, model in EXAMPLES.items()
    if getattr(model, "reference", None) is None and model.independent_rows
}


def given_of(model: Any) -> dict[str, Any]:
    return {key: getattr(model, key) for key in model.given_parameters}


def test_every_conjugate_family_is_fitted() -> None:
    fitted = {type(model).__name__ for model in FAMILIES.values()}
    exact = {name for name, family in models.FAMILIES.items() if not (family.approximation or family.assumption)}
    assert fitted == {name for name in exact if models.FAMILIES[name].independent_rows}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_prior_is_recovered(name: str) -> None:
    model: Any = FAMILIES[name]
    fit = type(model).fit(draw_history(model, 1, days=150 if SOAK else 80), **given_of(model))
    assert not fit.at_bound
    for parameter, error in fit.errors.items():
        fitted, true = (np.asarray(getattr(m, parameter)) for m in (fit.model, model))
        assert np.isfinite(error).all()
        assert (np.abs(fitted - true) <= 5 * np.asarray(error) + 1e-9).all(), (parameter, fitted, true, error)
        assert (np.asarray(error) < 2 * np.abs(true).max()).all(), parameter


@pytest.mark.parametrize("name", FAMILIES)
def test_the_fit_beats_the_truth_and_every_neighbour(name: str) -> None:
    """The maximum is a maximum: the true prior and small changes of the fitted one have a lower likelihood."""
    model: Any = FAMILIES[name]
    past = draw_history(model, 2, days=60)
    fit = type(model).fit(past, **given_of(model))
    assert log_marginal(fit.model, past).sum() == pytest.approx(fit.log_likelihood, rel=1e-9)
    assert log_marginal(model, past).sum() <= fit.log_likelihood + 1e-6
    for parameter in fit.errors:
        for factor in (0.9, 1.1):
            value = np.asarray(getattr(fit.model, parameter)) * factor
            if parameter == "prior":
                value = value + np.linspace(0, 0.05, len(value))
                value = value / value.sum()
            plain = {**fit.model.to_dict(), parameter: value if value.ndim else float(value)}
            other = models.from_dict(plain)
            assert log_marginal(other, past).sum() <= fit.log_likelihood + 1e-6, parameter


def test_standard_errors_are_the_spread_of_fits() -> None:
    """Over histories errors have spread 1 in units of the stated error: within these bounds but for 1 in 2,000."""
    rng, low, high = generator(3), *((0.7, 1.4) if SOAK else (0.4, 1.7))
    standardised = []
    for _ in range(60 if SOAK else 15):
        ones = rng.binomial(20, rng.beta(2, 5, size=(80, 1)), size=(80, 3))
        fit: Any = models.Bernoulli.fit(from_summaries(Counts(2), np.stack([20 - ones, ones], axis=-1)))
        fitted: Any = fit.model
        standardised.append(np.log(fitted.alpha / 2) / (fit.errors["alpha"] / fitted.alpha))
    assert low < np.std(standardised) < high


def test_the_noise_of_a_normal_needs_no_squares() -> None:
    """Without squares, providers' means tell the noise, by how much they differ on the same day."""
    model = models.Normal(3, 2, 1.5)
    past = draw_history(model, 5, days=120, providers=4)
    assert isinstance(past.reduction, Moments)
    thin = from_summaries(Moments(past.reduction.centre), past.summaries[..., :2])
    fit: Any = models.Normal.fit(thin)
    fitted: Any = fit.model
    assert abs(fitted.noise - 1.5) < 5 * fit.errors["noise"] < 0.5
    assert abs(fitted.scale - 2) < 5 * fit.errors["scale"]
    given: Any = models.Normal.fit(thin, noise=1.5)
    assert given.model.noise == 1.5
    assert "noise" not in given.errors


@pytest.mark.parametrize("squares", [True, False])
def test_the_likelihood_of_a_normal_is_that_of_its_rows(squares: bool) -> None:
    """Against quadrature over θ: nothing that depends on a parameter is left out."""
    model = models.Normal(0.5, 1.2, 0.8)
    rows = [np.array([0.1, 1.3]), np.array([0.7])]
    reduction = Moments((0.3,), squares=squares)
    past = from_summaries(reduction, np.array([[reduction.of_rows(x[:, None]) for x in rows]]))

    def density(theta: float) -> float:
        reports = rows if squares else [np.array([x.mean()]) for x in rows]
        sizes = [1] * 2 if squares else [len(x) for x in rows]
        p = stats.norm.pdf(theta, 0.5, 1.2)
        for x, n in zip(reports, sizes, strict=True):
            p *= np.prod(stats.norm.pdf(x, theta, 0.8 / np.sqrt(n)))
        return float(p)

    expected = np.log(quad(density, -8, 9, epsabs=1e-14)[0])
    assert log_marginal(model, past)[0] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("squares", [True, False])
def test_laws_of_values_that_differ_by_provider_have_the_likelihood_of_their_rows(squares: bool) -> None:
    """Against the density of all rows together, a mixture over day types or one normal."""
    rows = [np.array([0.1, 1.3]), np.array([0.7])]
    reduction = Moments((0.3,), squares=squares)
    past = from_summaries(reduction, np.array([[reduction.of_rows(x[:, None]) for x in rows]]))
    sizes = np.array([1, 1, 1]) if squares else np.array([2, 1])
    values = np.concatenate(rows) if squares else np.array([x.mean() for x in rows])
    owner = np.array([0, 0, 1]) if squares else np.array([0, 1])
    noise, tau = np.array([0.8, 0.5])[owner], np.array([0.4, 0.9])[owner]
    own = np.diag(noise**2 / sizes) + np.equal.outer(owner, owner) * np.outer(tau, tau)

    offset = np.array([0.2, -0.6])
    normals = [models.ProviderNormal(0.5, 1.2, n, b, t) for n, b, t in zip((0.8, 0.5), offset, (0.4, 0.9), strict=True)]
    expected = stats.multivariate_normal(0.5 + offset[owner], own + 1.2**2).logpdf(values)
    assert log_marginal(normals, past)[0] == pytest.approx(expected, abs=1e-9)

    means = np.array([[0.0, 1.0], [0.5, -1.0]])
    types = [
        models.LatentClass([0.3, 0.7], "real", m, dispersion=t, spread=n, centre=0.3)
        for m, t, n in zip(means, (0.4, 0.9), (0.8, 0.5), strict=True)
    ]
    parts = [stats.multivariate_normal(means[owner, k], own).pdf(values) for k in range(2)]
    assert log_marginal(types, past)[0] == pytest.approx(np.log(0.3 * parts[0] + 0.7 * parts[1]), abs=1e-9)


def test_dispersed_counts_have_the_likelihood_of_their_rows() -> None:
    """A negative binomial total, up to how it is spread over rows, which no parameter changes."""
    past = from_summaries(Moments(), np.array([[[1.0, 4.0]], [[1.0, 0.0]]]))
    model = models.LatentClass([0.4, 0.6], "count", [1.5, 5.0], dispersion=0.3)
    x = np.array([4, 0])
    shape = 1 / 0.3
    parts = [stats.nbinom.pmf(x, shape, shape / (shape + rate)) for rate in (1.5, 5.0)]
    expected = np.log(0.4 * parts[0] + 0.6 * parts[1]) + np.log([24.0, 1.0])  # x!
    assert np.allclose(log_marginal(model, past), expected, atol=1e-9)


def test_a_regression_has_the_likelihood_of_its_answers() -> None:
    rng = generator(7)
    z, y = rng.normal(size=(5, 2)), rng.normal(size=5)
    model = models.LinearRegression([0.5, -1.0], [[2.0, 0.3], [0.3, 1.0]], 0.7)
    reduction = Moments((0.0,) * 3, linear=False, squares=True)
    past = from_summaries(reduction, np.array([[reduction.of_rows(np.column_stack([z, y]))]]))
    covariance = 0.49 * np.eye(5) + z @ np.linalg.inv(np.array(model.precision)) @ z.T
    expected = stats.multivariate_normal(z @ np.array(model.mean), covariance).logpdf(y)
    assert log_marginal(model, past)[0] == pytest.approx(expected, abs=1e-9)


class Renamed(models.Normal):
    """An empty subclass."""


class WithoutBaseMeasure:
    """A custom model that says only what log PMI needs, and how rows become its summary."""

    def __init__(self, model: Any) -> None:
        self.model, self.reduction = model, model.reduction

    def statistics(self, data: Any) -> Any:
        return self.model.statistics(data)

    def summary(self, data: Any) -> Any:
        return self.model.summary(data)

    def from_summary(self, summary: Any) -> Any:
        return self.model.from_summary(summary)

    def log_evidence(self, statistics: Any) -> Any:
        return self.model.log_evidence(statistics)


def test_log_scores_are_inherited_and_unknown_ones_are_not_compared() -> None:
    """A subclass has its parent's log score; one that leaves out unknown terms has none, not a high one."""
    model = models.Normal(3, 2, 1.5)
    past = draw_history(model, 4, days=30)
    custom = WithoutBaseMeasure(model)
    candidates = {"normal": model, "renamed": Renamed(3, 2, 1.5), "custom": custom, "poor": models.Normal(0, 1, 1)}
    comparison = troth.compare_models(past, candidates, troth.MultiDay(), split="blocks", folds=2)
    normal, renamed, unknown = (comparison[name] for name in ("normal", "renamed", "custom"))
    assert renamed.log_score == normal.log_score == pytest.approx(log_marginal(model, past).mean())
    assert renamed.measure == normal.measure
    assert np.isnan(unknown.log_score)
    assert np.isnan(unknown.scores).all()
    assert comparison.to_dict()["models"]["custom"]["log_score"] is None
    assert "not comparable" in str(unknown)
    assert "not comparable" in str(comparison)
    assert not comparison.is_outperformed("custom")
    assert comparison.is_outperformed("poor")


@pytest.mark.parametrize(
    ("first", "second", "comparable"),
    [
        (models.Poisson(1, 1), models.LatentClass([1.0], "count", [2.0]), True),
        (models.Poisson(1, 1), models.Geometric(1, 1), False),
        (models.Geometric(1, 1), models.NegativeBinomial(1, 2, 2), True),
        (models.NegativeBinomial(2, 1, 1), models.NegativeBinomial(1, 1, 1), False),
        (models.Exponential(1, 1), models.Gamma(1, 2, 2), True),
        (models.Exponential(1, 1), models.Gamma(2, 1, 1), False),
        (models.Exponential(1, 1), models.Normal(1, 1, 1), True),
        (models.Bernoulli(1, 1), models.LatentClass([1.0], "binary", [0.5]), True),
    ],
)
def test_log_scores_compare_where_the_same_is_left_out(first: Any, second: Any, comparable: bool) -> None:
    assert (first.score_measure == second.score_measure) == comparable
    open_table = models.Finite([0.5, 0.5], [[0.9, 0.2], [0.2, 0.9]], normalised=False)
    assert open_table.score_measure is None


def test_a_registered_family_is_fitted_and_tried_like_a_bundled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    past = draw_history(models.Normal(3, 2, 1.5), 4, days=30)
    monkeypatch.setitem(models.FAMILIES, "Renamed", Renamed)
    learned: Any = troth.fit(past, "Renamed", noise=1.5)
    assert type(learned.model) is Renamed
    assert learned.model_table()["family"] == "Renamed"
    normal: Any = models.Normal.fit(past, noise=1.5)
    assert (learned.model.mean, learned.model.scale) == (normal.model.mean, normal.model.scale)
    names = ["textbook Normal", "day types", "offsets", "drifting offsets", "textbook Renamed"]
    assert list(candidates_for(past.reduction)) == names
    assert learned.model.sensitivity(3, [(learned.model, 2)]).verdict == "proved"


def test_a_family_that_says_nothing_about_itself_is_undecided_and_not_fitted() -> None:
    class Bare(models.Family):
        pass

    bare = Bare()
    assert bare.sensitivity(3, [(bare, 2)]).reason == "no proof is known for Bare"
    assert bare.price_of_lying(3, [(bare, 2)]) is None
    assert bare.k_rank_condition([(bare, 2)]) is None
    past = draw_history(models.Normal(3, 2, 1.5), 4, days=30)
    with pytest.raises(ParameterError, match="Bare has no initial_parameters, so its prior cannot be fitted"):
        Bare.fit(past)


def test_missing_reports_are_left_out() -> None:
    past = draw_history(models.Bernoulli(2, 5), 3, days=40)
    summaries = past.summaries.copy()
    gone = generator(8).random(summaries.shape[:2]) < 0.3
    summaries[gone] = 0
    some: Any = models.Bernoulli.fit(from_summaries(past.reduction, summaries))
    assert some.days == int((~gone).any(axis=1).sum())
    assert models.Bernoulli.fit(from_summaries(past.reduction, summaries)) == some  # deterministic


def test_days_that_do_not_differ_are_said_to() -> None:
    rng = generator(9)
    ones = rng.binomial(20, 0.3, size=(60, 3))
    fit: Any = models.Bernoulli.fit(from_summaries(Counts(2), np.stack([20 - ones, ones], axis=-1)))
    fitted: Any = fit.model
    assert fitted.alpha + fitted.beta > 200
    assert fitted.alpha / (fitted.alpha + fitted.beta) == pytest.approx(0.3, abs=0.05)


COINS = np.array([[[2.0, 3.0], [1.0, 1.0]]] * 10)
NUMBERS = Moments((0.0,), squares=True)


@pytest.mark.parametrize(
    ("family", "past", "fixed", "message"),
    [
        ("Bernoulli", from_summaries(Counts(2), COINS[:3]), {}, "3 days with reports: a fit of the prior needs"),
        ("Bernoulli", from_summaries(Counts(2), COINS * [1, 0]), {}, "code 1 never occurs"),
        ("Bernoulli", from_summaries(Counts(3), np.ones((9, 2, 3))), {}, "needs two codes, but the history has 3"),
        ("Poisson", from_summaries(Counts(2), COINS), {}, "Poisson needs numbers"),
        ("Categorical", from_summaries(NUMBERS, np.ones((9, 2, 3))), {}, "Categorical needs codes"),
        (
            "Normal",
            from_summaries(NUMBERS, np.tile([2.0, 6.0, 18.0], (9, 2, 1))),
            {},
            "column 0: every value is the same",
        ),
        ("NormalUnknownVariance", from_summaries(Moments(), generator(1).integers(1, 9, (9, 2, 2))), {}, "squares"),
        ("NegativeBinomial", from_summaries(Moments(), np.ones((9, 2, 2))), {}, "give r="),
        ("Gamma", from_summaries(Moments(), np.ones((9, 2, 2))), {}, "give known_shape="),
        ("Finite", from_summaries(Counts(2), COINS), {}, r"give likelihood= \(one row per state"),
        ("Finite", from_summaries(Counts(2), COINS), {"likelihood": [[1.0, 0.0], [0.0, 1.0]]}, "day 0: no state"),
        ("Bernoulli", from_summaries(Counts(2), COINS), {"gamma": 1}, "gamma is not an option"),
        ("Bernoulli", from_summaries(Counts(2), COINS), {"alpha": 1, "beta": 1}, "nothing to fit"),
        ("Cauchy", from_summaries(Counts(2), COINS), {}, "no family 'Cauchy'"),
    ],
)
def test_what_cannot_be_fitted_is_refused(family: str, past: History, fixed: dict[str, Any], message: str) -> None:
    with pytest.raises((DataError, ParameterError), match=message):
        troth.fit(past, family, **fixed)


def test_a_fit_says_what_its_log_likelihood_leaves_out() -> None:
    """That of counts may lie above 0, because their factorials are left out."""
    counts, binary = draw_history(models.Poisson(4, 1), 3, days=40), binary_days(3, days=40)
    for fitted in (troth.fit(counts, types=2), models.Poisson.fit(counts)):
        title = str(fitted).split("\n")[0]
        assert "log-likelihood" in title
        assert title.endswith("without ln x! for each row")
    title = str(troth.fit(binary, types=2)).split("\n")[0]
    assert re.search("log-likelihood −[0-9.]+ nats per day$", title)
