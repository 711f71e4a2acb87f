"""Every family obeys the laws, and the laws detect every planted bug."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import betaln, gammaln, multigammaln

import troth
from registry import EXAMPLES, MISSING, SOAK, VARYING, generator
from troth import models
from troth.core.contract import Array

DRAWS = 100_000 if SOAK else 25_000
"""Pairs of datasets per law and size; enough for all planted bugs but those of `SUBTLE`."""

SUBTLE = {"day types, binary": 60_000}

STRONG = {"LinearRegression": 50_000, "NormalUnknownVariance": 50_000, "Bernoulli": 70_000}
"""Draws for bugs behind a strong prior that need more than the others."""


@pytest.mark.parametrize("name", EXAMPLES | VARYING)
def test_every_family_obeys_every_law_that_applies(name: str) -> None:
    draws = 1000 if "varying" in name else DRAWS if SOAK else 10_000
    check = troth.check_model((EXAMPLES | VARYING)[name], rng=generator(1), draws=draws)
    optional = {"rows are counted", "fresh statistics keep their design"} if name.startswith("day types") else set()
    assert len(check.obeyed) >= 13 - len(optional)
    optional |= {"log PMI given known data follows from their posterior"} if name in MISSING["posterior"] else set()
    assert set(check.skipped) <= {"the closed-form log PMI is the second difference"} | optional


class Mutant:
    """A model with the data of a family and an incorrect log evidence."""

    def __init__(self, model: Any, log_evidence: Callable[[Array], Array]) -> None:
        self.statistics = model.statistics
        self.draw_parameters = model.draw_parameters
        self.draw_data = model.draw_data
        self.log_evidence = log_evidence


def other_prior(**changes: Any) -> Callable[[Any], Callable[[Array], Array]]:
    return lambda model: dataclasses.replace(model, **changes).log_evidence


def plus(term: Callable[[Any, Array], Array]) -> Callable[[Any], Callable[[Array], Array]]:
    """Add a term to the log evidence, for example to cancel a term of the correct formula."""
    return lambda model: lambda t: model.log_evidence(t) + term(model, t)


def summary(m: Any, t: Array) -> Array:
    """Return a posterior rate or shape, prior plus sum, that an author might forget."""
    return np.asarray(m.rate + t[..., 1])


PLANTED: dict[str, dict[str, Callable[[Any], Callable[[Array], Array]]]] = {
    "finite": {
        "forgotten prior": other_prior(prior=(1 / 3, 1 / 3, 1 / 3)),
        "sum of logs for log of sum": lambda m: lambda t: t @ np.array(m.prior),
    },
    "finite with zeros": {
        "forgotten prior": other_prior(prior=(0.5, 0.5)),
        "maximum for sum": lambda m: lambda t: (np.log(m.prior) + t).max(-1),
    },
    "bernoulli": {
        "forgotten prior": other_prior(beta=1.0),
        "dropped normaliser": plus(lambda m, t: gammaln(m.alpha + m.beta + t.sum(-1))),
        "ones and zeros swapped": lambda m: lambda t: betaln(m.alpha + t[..., 1], m.beta + t[..., 0]),
    },
    "categorical": {
        "forgotten prior": other_prior(alpha=(1.0, 1.0, 1.0)),
        "dropped normaliser": plus(lambda m, t: gammaln(sum(m.alpha) + t.sum(-1))),
    },
    "geometric": {
        "forgotten prior": other_prior(alpha=1.0),
        "wrong sign of a term": plus(lambda m, t: 2 * gammaln(m.alpha + m.beta + t.sum(-1))),
    },
    "negative binomial": {
        "forgotten r": other_prior(r=1.0),
        "dropped normaliser": plus(lambda m, t: gammaln(m.alpha + m.beta + m.r * t[..., 0] + t[..., 1])),
    },
    "poisson": {
        "forgotten prior": other_prior(rate=2.5),
        "dropped power": plus(lambda m, t: (m.shape + t[..., 1]) * np.log(m.rate + t[..., 0])),
        "wrong sign of a term": plus(lambda m, t: -2 * gammaln(m.shape + t[..., 1])),
    },
    "exponential": {
        "forgotten prior": other_prior(shape=1.0),
        "dropped gamma function": plus(lambda m, t: -gammaln(m.shape + t[..., 0])),
    },
    "gamma": {
        "forgotten shape": lambda m: models.Gamma(1.0, m.shape, m.rate).log_evidence,
        "dropped power": plus(lambda m, t: (m.shape + m.known_shape * t[..., 0]) * np.log(summary(m, t))),
    },
    "normal": {
        "forgotten prior": other_prior(scale=100.0),
        "dropped log-determinant": plus(lambda m, t: 0.5 * np.log(m.scale**-2 + t[..., 0] * m.noise**-2)),
        "flipped log-determinant": plus(lambda m, t: np.log(m.scale**-2 + t[..., 0] * m.noise**-2)),
    },
    "normal, weighted": {"forgotten weight": other_prior(reference=None)},
    "normal, unknown variance": {
        "forgotten prior": other_prior(strength=5.0),
        "dropped log-determinant": plus(lambda m, t: 0.5 * np.log(m.strength + t[..., 0])),
        "dropped gamma function": plus(lambda m, t: -gammaln(m.shape + t[..., 0] / 2)),
    },
    "multivariate normal": {
        "forgotten correlation": other_prior(noise=((1.0, 0.0), (0.0, 1.0))),
        "dropped log-determinant": plus(lambda m, t: np.log(m._coordinates[1] + t[..., :1]).sum(-1) / 2),
    },
    "multivariate normal, unknown covariance": {
        "forgotten prior": other_prior(scale=((1.0, 0.0), (0.0, 0.2))),
        "dropped strength": plus(lambda m, t: np.log(m.strength + t[..., 0])),
        "wrong degrees of freedom": plus(
            lambda m, t: multigammaln((m.dof + 2 + t[..., 0]) / 2, 2) - multigammaln((m.dof + t[..., 0]) / 2, 2)
        ),
    },
    "regression": {
        "forgotten prior": other_prior(precision=((0.1, 0.0), (0.0, 0.1))),
        "dropped log-determinant": plus(lambda m, t: _log_determinant(m, t, m.noise**2) / 2),
        "flipped log-determinant": plus(lambda m, t: _log_determinant(m, t, m.noise**2)),
    },
    "regression, unknown noise": {
        "forgotten prior": other_prior(shape=1.0),
        "dropped log-determinant": plus(lambda m, t: _log_determinant(m, t, 1.0) / 2),
        "dropped gamma function": plus(lambda m, t: -gammaln(m.shape + t[..., -1] / 2)),
    },
    "day types, binary": {
        "forgotten prior": other_prior(prior=(1 / 3, 1 / 3, 1 / 3)),
        "maximum for sum": lambda m: lambda t: (np.log(m.prior) + t).max(-1),
    },
    "day types, binary, no dispersion": {"forgotten prior": other_prior(prior=(0.5, 0.5))},
    "day types, categorical": {"forgotten prior": other_prior(prior=(1 / 3, 1 / 3, 1 / 3))},
    "day types, count": {"forgotten prior": other_prior(prior=(0.3, 0.3, 0.4))},
    "day types, real": {"forgotten prior": other_prior(prior=(1 / 3, 1 / 3, 1 / 3))},
    "provider normal": {
        "forgotten prior": other_prior(scale=100.0),
        "dropped log-determinant": plus(lambda m, t: 0.5 * np.log(m.scale**-2 + t[..., 0])),
    },
}


def _log_determinant(m: Any, t: Array, unit: float) -> Array:
    d = len(m.mean)
    gram = t[..., : d * d].reshape(*t.shape[:-1], d, d)
    return np.asarray(np.linalg.slogdet(np.array(m.precision) + gram / unit)[1])


def check_with_more_and_more_draws(model: Any, seed: int, max_draws: int = DRAWS) -> None:
    """Check a model, starting with a small number of draws, which reveals most bugs quickly."""
    for draws in (2_000, 12_000, max_draws):
        troth.check_model(model, rng=generator(seed), draws=draws)


def test_bugs_are_planted_in_every_family() -> None:
    assert set(PLANTED) >= set(EXAMPLES) - set(VARYING)


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        (name, bug)
        for name, bugs in PLANTED.items()
        for bug in bugs
        if SOAK or (name, bug) != ("day types, binary", "forgotten prior")  # covered by the other day types
    ],
)
def test_a_planted_bug_is_caught(name: str, bug: str) -> None:
    mutant = Mutant(EXAMPLES[name], PLANTED[name][bug](EXAMPLES[name]))
    with pytest.raises(troth.LawBrokenError, match="the mean of PMI over independent datasets is 1"):
        check_with_more_and_more_draws(mutant, 2, max(DRAWS, SUBTLE.get(name, 0)))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("day types, binary", {"dispersion": 0.0}),
        ("day types, categorical", {"dispersion": 0.0}),
        ("day types, count", {"dispersion": 0.0}),
        ("day types, count", {"means": (2.5, 4.0, 9.0)}),
        ("day types, real", {"dispersion": 0.0}),
        ("day types, real", {"centre": 3.5}),
        ("provider normal", {"dispersion": 0.0}),
        ("provider normal", {"offset": 0.0}),
    ],
)
def test_statistics_of_another_distribution_than_the_data_are_caught(name: str, changes: dict[str, Any]) -> None:
    model: Any = EXAMPLES[name]
    mutant = Mutant(model, model.log_evidence)
    mutant.statistics = lambda data: dataclasses.replace(model, **changes).from_summary(model.summary(data))
    with pytest.raises(troth.LawBrokenError, match="the mean of PMI over independent datasets is 1"):
        check_with_more_and_more_draws(mutant, 2, max(DRAWS, SUBTLE.get(name, 0)))


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_flipped_sign_is_caught(name: str) -> None:
    model = EXAMPLES[name]
    mutant = Mutant(model, lambda t: -model.log_evidence(t))
    with pytest.raises(troth.LawBrokenError, match="mean of PMI|mutual information|is not a number|is a number"):
        check_with_more_and_more_draws(mutant, 3)


def test_the_message_names_the_law_and_an_example() -> None:
    class Drifting(models.Bernoulli):
        def log_evidence(self, t: Array, /) -> Array:
            return super().log_evidence(t) + t[..., 0] ** 2

    with pytest.raises(troth.LawBrokenError) as caught:
        troth.check_model(Drifting(1, 1), rng=generator(4), draws=20_000)
    assert "datasets 0 and 1" in caught.value.failures["the closed-form log PMI is the second difference"]


@pytest.mark.parametrize(
    ("law", "change"),
    [
        (
            "statistics follow from the summary",
            {"statistics": lambda self, x: 2 * models.Bernoulli.statistics(self, x)},
        ),
        (
            "summaries add over concatenated rows",
            {"summary": lambda self, x: np.array([np.sum(x) ** 2, len(x)])},
        ),
        ("summaries ignore the order of rows", {"summary": lambda self, x: np.array([x[0], np.sum(x)])}),
        ("rows are counted", {"rows": lambda self, t: t[..., 0]}),
        (
            "a batch gives the same as a loop",
            {"log_evidence": lambda self, t: np.asarray(betaln(*(1 + t.reshape(-1, 2)[0])))},
        ),
        ("log PMI is symmetric", {"log_pmi": lambda self, a, b, both=None: a[..., 0]}),
        ("log PMI is zero for an empty dataset", {"log_pmi": lambda self, a, b, both=None: np.asarray(1.0)}),
        (
            "fresh statistics keep their design",
            {"draw_statistics": lambda self, rng, p, design: np.ones((len(p), 2))},
        ),
        (
            "fresh statistics look like statistics of fresh data",
            {"draw_statistics": lambda self, rng, p, d: models.Bernoulli.draw_statistics(self, rng, 0.75 * p, d)},
        ),
        (
            "mutual information is not negative",
            {"expected_log_evidence": lambda self, design: design[..., 0] ** 2},
        ),
    ],
)
def test_each_law_can_fail(law: str, change: dict[str, Any]) -> None:
    broken = type("Broken", (models.Bernoulli,), change)(1, 1)
    with pytest.raises(troth.LawBrokenError, match=law):
        check_with_more_and_more_draws(broken, 5)


def test_a_model_that_cannot_draw_is_checked_on_given_data() -> None:
    class Plain:
        def statistics(self, data: Any) -> Array:
            return np.array([np.sum(data), len(data) - np.sum(data)], dtype=float)

        def log_evidence(self, t: Array) -> Array:
            return np.asarray(betaln(1 + t[..., 0], 1 + t[..., 1]))

    with pytest.raises(troth.MissingCapabilityError, match="datasets="):
        troth.check_model(Plain())
    check = troth.check_model(Plain(), datasets=[[1, 0], [1, 1, 1], [0, 0, 1]])
    assert "log PMI is symmetric" in check.obeyed
    assert "mutual information is not negative" in check.skipped
    assert "skipped: " in str(check)


NARROW = models.Normal(0, 0.1, 1)
ALIKE = ((0.5, 0.5), (0.45, 0.55) if SOAK else (0.4, 0.6))


def narrow_determinant(t: Array) -> Array:
    return np.asarray(0.5 * np.log(100 + t[..., 0]))


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        (NARROW, lambda t: NARROW.log_evidence(t) + narrow_determinant(t)),
        (NARROW, lambda t: NARROW.log_evidence(t) - narrow_determinant(t)),
        (NARROW, lambda t: -narrow_determinant(t)),
        (
            models.LinearRegression([0, 0], [[1, 0], [0, 1]], 1),
            models.LinearRegression([0, 0], [[2, 0], [0, 2]], 1).log_evidence,
        ),
        (models.NormalUnknownVariance(0, 1, 2, 2), models.NormalUnknownVariance(0, 1.2, 2, 2).log_evidence),
        (models.Bernoulli(5, 5), models.Bernoulli(5.5, 5).log_evidence),
        (
            models.Finite([0.5, 0.5], ALIKE),
            models.Finite([0.7, 0.3], ALIKE).log_evidence,
        ),
    ],
)
def test_bugs_behind_a_strong_prior_are_caught(model: Any, wrong: Any) -> None:
    with pytest.raises(troth.LawBrokenError, match="the mean of PMI over independent datasets is 1"):
        check_with_more_and_more_draws(
            Mutant(model, wrong), 6, 100_000 if SOAK else STRONG.get(type(model).__name__, DRAWS)
        )


@pytest.mark.parametrize(
    "model",
    [
        models.Poisson(1e6, 1),
        models.Bernoulli(1e-6, 1e-6),
        models.Bernoulli(1e-3, 1e3),
        NARROW,
        models.Normal(0, 1e4, 1),
    ],
    ids=repr,
)
def test_correct_models_with_extreme_parameters_pass(model: Any) -> None:
    for seed in range(3 if SOAK else 1):
        troth.check_model(model, rng=generator(7, seed), draws=30_000 if SOAK else 12_000)


class Averages:
    """Normal data with statistics (n, mean), which suffice for the evidence but do not add over providers."""

    inner = models.Normal(0, 1, 1)
    draw_parameters, draw_data = inner.draw_parameters, inner.draw_data

    def statistics(self, data: Any) -> Array:
        x = np.asarray(data, dtype=float)
        return np.stack([np.full(x.shape[:-1], float(x.shape[-1])), x.mean(axis=-1)], axis=-1)

    def log_evidence(self, t: Array) -> Array:
        return self.inner.log_evidence(np.stack([t[..., 0], t[..., 0] * t[..., 1]], axis=-1))


def test_statistics_that_do_not_add_are_caught() -> None:
    with pytest.raises(troth.LawBrokenError, match="statistics do not add over providers"):
        troth.check_model(Averages(), rng=generator(8), draws=20_000)


def test_statistics_that_add_only_once_are_caught() -> None:
    """Its log PMI converts averages of two datasets to sums, but peers' statistics are added up before."""

    class Pairwise(Averages):
        def log_pmi(self, own: Array, peers: Array, both: Array | None = None) -> Array:
            a, b = (np.stack([t[..., 0], t[..., 0] * t[..., 1]], axis=-1) for t in (own, peers))
            return self.inner.log_pmi(a, b)

    with pytest.raises(troth.LawBrokenError, match="statistics add over providers: (pooling|with)"):
        troth.check_model(Pairwise(), rng=generator(8), draws=20_000)


def test_skipped_laws_are_listed() -> None:
    class Plain:
        def statistics(self, data: Any) -> Array:
            return np.array([np.sum(data), len(data) - np.sum(data)], dtype=float)

        def log_evidence(self, t: Array) -> Array:
            return np.asarray(betaln(1 + t[..., 0], 1 + t[..., 1]))

    with pytest.raises(troth.DataError, match="datasets is empty"):
        troth.check_model(Plain(), datasets=[])
    checks = troth.check_model(Plain(), datasets=[[1, 0]])
    assert {"log PMI is symmetric", "statistics add over providers"} <= set(checks.skipped)
    assert "statistics add over providers" in troth.check_model(Plain(), datasets=[[1], [0], [1, 1]]).skipped
    with pytest.raises(troth.ParameterError, match="numpy.random.Generator"):
        troth.check_model(models.Bernoulli(1, 1), rng=5)  # type: ignore[arg-type]


def test_a_missing_capability_breaks_no_law() -> None:
    open_model = models.Finite.from_posteriors([0.5, 0.5], [[0.75, 0.25], [0.2, 0.8], [0.55, 0.45]])
    with pytest.raises(troth.MissingCapabilityError, match="pass datasets="):
        troth.check_model(open_model)
    check = troth.check_model(open_model, datasets=[[0, 1, 2], [1, 1], [2, 0]])
    assert "log PMI is symmetric" in check.obeyed
    assert "the mean of PMI over independent datasets is 1" in check.skipped
