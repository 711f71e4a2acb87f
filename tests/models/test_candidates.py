"""Candidates: a finite model of anybody's likelihood."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, SGDClassifier
from sklearn.tree import DecisionTreeClassifier

import troth
from registry import SOAK, generator
from troth import models
from troth.core.errors import DataError, MissingCapabilityError, ParameterError
from troth.mechanisms.line import on_grid, rank_share


def symbols(prior: Any, table: Any) -> models.Candidates:
    """Rows are symbols, whose probabilities each candidate has in a row of the table."""
    log_table = np.log(table)
    return models.Candidates(
        prior,
        lambda rows: log_table[:, np.asarray(rows, dtype=int)].sum(axis=1),
        lambda rng, candidate, rows: rng.choice(table.shape[1], size=rows, p=table[candidate]),
    )


class Enumerated:
    """Everything that a provider and its peers could answer to their features, and with what probability."""

    def __init__(self, model: Any, own: Any, peers: Any) -> None:
        answers = [list(map(float, y)) for y in product((0, 1), repeat=len(peers))]
        mine = [list(map(float, y)) for y in product((0, 1), repeat=len(own))]
        a, b = (
            np.stack([model.statistics((z, y)) for y in outcomes]) for z, outcomes in ((own, mine), (peers, answers))
        )
        size = len(model.prior)
        self.joint = np.einsum("s,as,bs->ab", model.prior, np.exp(a[:, :size]), np.exp(b[:, :size]))
        self.given = self.joint / self.joint.sum(axis=1, keepdims=True)
        self.peers = self.joint.sum(axis=0)
        self.score = on_grid(troth.log_pmi(model, a[:, None], b))

    def line_up(self, decoys: int, rivals: int, distribution: Any) -> Any:
        """Expected shares ``[truth, report]`` over every real peer and every line of decoys with this distribution."""
        pay = np.zeros((len(self.given), len(self.given)))
        for real, *line in product(range(len(self.peers)), repeat=1 + decoys):
            above = (self.score[:, line] > self.score[:, [real]]).sum(axis=1)
            tied = (self.score[:, line] == self.score[:, [real]]).sum(axis=1)
            pay += self.given[:, real, None] * np.prod(distribution[line]) * rank_share(above, tied, decoys, rivals)
        return pay

    def spherical(self, decoys: int, distribution: Any) -> Any:
        pay = np.zeros((len(self.given), len(self.given)))
        for real, *line in product(range(len(self.peers)), repeat=1 + decoys):
            share = 1 / np.sqrt(1 + np.exp(2 * (self.score[:, line] - self.score[:, [real]])).sum(axis=1))
            pay += self.given[:, real, None] * np.prod(distribution[line]) * share
        return pay

    def synthetic(self, divergence: Any, distribution: Any) -> Any:
        return divergence.mismatched(self.score) @ distribution + self.given @ divergence.matched(self.score).T

    def pays(self, distribution: Any) -> dict[str, Any]:
        """Expected pay of every rule that draws, and of those that pay by the size of log PMI."""
        logistic, le_cam = troth.divergences.Logistic(), troth.divergences.LeCam()
        return {
            "LineUp, one decoy": self.line_up(1, 1, distribution),
            "LineUp, two decoys": self.line_up(2, 1, distribution),
            "LineUp, two rivals": self.line_up(2, 2, distribution),
            "LineUp, strict part": self.spherical(2, distribution),
            "SyntheticPeers and MultiDay, logistic": self.synthetic(logistic, distribution),
            "SyntheticPeers and MultiDay, Le Cam": self.synthetic(le_cam, distribution),
            "LogPmiRule and OneTime": self.given @ self.score.T,
        }


def enumerated(size: int, seed: int) -> tuple[Enumerated, Enumerated]:
    """S logistic regressions, a provider's two rows and its peers' three; then peers with other features."""
    rng = generator(size, seed)
    model = models.LogisticCandidates(rng.normal(0, 1.5, (size, 2)), prior=rng.dirichlet(np.full(size, 2.0)))
    own, peers, others = rng.normal(size=(2, 2)), rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    return Enumerated(model, own, peers), Enumerated(model, own, others)


def gain(pay: Any) -> float:
    """What the best lie gains over the truth."""
    return float((pay - np.diagonal(pay)[:, None]).max())


@pytest.mark.parametrize("size", [2, 3, 4])
def test_it_is_exactly_truthful_by_enumeration(size: int) -> None:
    """Every truth, every report, every answer of the peers and every line of decoys: no report beats the truth."""
    for seed in range(20 if SOAK else 4):
        reports, _ = enumerated(size, seed)
        for rule, pay in reports.pays(reports.peers).items():
            assert gain(pay) <= 1e-12, (rule, seed)
        clipped = reports.given @ np.maximum(reports.score, -0.5).T
        assert gain(clipped) <= np.log1p(np.exp(-0.5))


def test_decoys_that_do_not_have_the_features_of_the_peers_make_a_lie_pay() -> None:
    """The planted mistake: decoys with other features, so other distributions of answers. The enumeration sees it."""
    worst = dict.fromkeys(("LineUp, one decoy", "LineUp, two rivals", "SyntheticPeers and MultiDay, logistic"), 0.0)
    for seed in range(4):
        reports, others = enumerated(3, seed)
        pays = reports.pays(others.peers)
        worst = {rule: max(max_draws, gain(pays[rule])) for rule, max_draws in worst.items()}
    assert all(max_draws > 1e-3 for max_draws in worst.values()), worst


def test_draws_without_features_have_the_mean_and_the_covariance_of_fresh_answers() -> None:
    """Exactly enumerated moments of log-likelihoods under each candidate, against a large sample."""
    rng = generator(11)
    softmax = models.SoftmaxCandidates(rng.normal(size=(3, 6)), classes=3)
    cases = [(models.LogisticCandidates(rng.normal(size=(3, 2))), (0, 1)), (softmax, (0, 1, 2))]
    for model, labels in cases:
        z = rng.normal(size=(4, 2))
        t = np.stack([model.statistics((z, y)) for y in product(map(float, labels), repeat=4)])[:, :3]
        drawn = model.draw_statistics(rng, np.arange(3.0)[:, None].repeat(20_000, 0), model.plan(z))
        drawn = drawn.reshape(3, 20_000, -1)[..., :3]
        for k in range(3):
            chance = np.exp(t[:, k])
            mean = chance @ t
            covariance = (t - mean).T @ ((t - mean) * chance[:, None])
            spread = np.sqrt(np.diagonal(covariance))
            assert chance.sum() == pytest.approx(1)
            assert (np.abs(drawn[k].mean(axis=0) - mean) < 6 * spread / np.sqrt(20_000)).all()
            assert np.allclose(np.cov(drawn[k].T), covariance, atol=0.06 * np.outer(spread, spread).max())


@pytest.mark.parametrize(
    "model",
    [
        models.LogisticCandidates([[0.5, -1.0], [1.5, 0.0], [-0.5, 1.0]], prior=[0.2, 0.5, 0.3]),
        models.SoftmaxCandidates([[0, 1, 0, -1, 0, 0], [1, 0, 0, 0, 0, 1.0]], classes=3),
        models.PoissonCandidates([[0.2, -0.3], [-0.4, 0.5]]),
        models.LinearCandidates([[0.5, -1.0], [1.5, 0.0]], noise=[0.7, 1.4]),
    ],
    ids=lambda model: type(model).__name__,
)
def test_plain_coefficients_obey_the_laws(model: Any) -> None:
    check = troth.check_model(model, rng=generator(1), draws=2000)
    assert set(check.skipped) <= {"fresh statistics look like statistics of fresh data"}
    data = model.draw_data(generator(2), np.array([1.0]), 9)
    reduced = model.from_summary(model.reduction.of_rows(np.column_stack(data)))
    assert np.allclose(reduced, model.statistics(data), rtol=1e-10, atol=1e-10)


def test_linear_candidates_have_the_normal_log_likelihood() -> None:
    rng = generator(5)
    model = models.LinearCandidates(rng.normal(size=(4, 3)), noise=[0.5, 1.0, 2.0, 3.0])
    z, y = model.draw_data(rng, np.array([2.0]), 12)
    expected = [norm.logpdf(y, z @ np.array(b), s).sum() for b, s in zip(model.coefficients, model.noise, strict=True)]  # type: ignore[arg-type]
    assert np.allclose(model.statistics((z, y))[:4], expected)


def test_trained_linear_estimators_become_plain_coefficients() -> None:
    rng = generator(6)
    z = rng.normal(size=(200, 3))
    yes, many = rng.integers(0, 2, 200), rng.integers(0, 3, 200)
    counts = rng.poisson(np.exp(0.3 * z[:, 0]))
    with_constant = np.column_stack([np.ones(50), z[:50]])
    cases: list[tuple[Any, Any, Any]] = [
        (models.LogisticCandidates, yes, lambda part: LogisticRegression().fit(z[part], yes[part])),
        (models.SoftmaxCandidates, many, lambda part: LogisticRegression(C=0.3).fit(z[part], many[part])),
    ]
    for family, target, train in cases:
        trained = [train(slice(k, None, 3)) for k in range(3)]
        plain, called = family.from_estimators(trained), models.Candidates.from_estimators(trained)
        statistics = plain.statistics((with_constant, target[:50]))[:3]
        assert np.allclose(statistics, called.statistics((z[:50], target[:50])))
    counted = [PoissonRegressor(alpha=alpha).fit(z, counts) for alpha in (1, 2)]
    poisson = models.PoissonCandidates.from_estimators(counted)
    assert poisson.coefficients[0][1:] == pytest.approx(counted[0].coef_)
    ridges = [Ridge(alpha=alpha, fit_intercept=False).fit(z, z[:, 0]) for alpha in (1, 9)]
    linear = models.LinearCandidates.from_estimators(ridges, noise=1.0)
    assert linear.coefficients[0] == pytest.approx([1, 0, 0], abs=0.02)
    with pytest.raises(ParameterError, match="does not predict what SoftmaxCandidates predicts"):
        models.SoftmaxCandidates.from_estimators(
            [SGDClassifier(loss="log_loss", random_state=k).fit(z, many) for k in range(2)]
        )
    with pytest.raises(ParameterError, match=r"estimator 0 \(DecisionTreeClassifier\) has no coef_"):
        models.LogisticCandidates.from_estimators([DecisionTreeClassifier().fit(z, yes)])


def test_a_saved_posterior_of_pymc_is_paid_end_to_end(tmp_path: Path) -> None:
    """The example, from the draws that `save_posterior.py` sampled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arviz = pytest.importorskip("arviz")
        xarray = import_module("xarray")
        draws = arviz.from_netcdf(Path(__file__).with_name("posterior.nc"))
        sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
        example = import_module("candidates_from_pymc")
    result = example.run(tmp_path, draws)
    shares = {payment.provider: payment.share for payment in result.rounds[0].payments}
    assert shares.pop("hospital 4") < 0.6 < min(shares.values())
    effective = result.effective_candidates
    assert (effective.of, len(effective.by_report)) == (150, 10)
    assert effective.near_one
    assert not effective.coarse
    draws_of_slopes = draws.posterior["slopes"].values.reshape(-1, 2)
    called = models.Candidates.from_draws(
        draws, lambda p, x: float(p["intercept"]) + float(p["slopes"] @ np.ones(2)), max_draws=len(draws_of_slopes)
    )
    assert called.statistics([0])[-1] == pytest.approx(
        float(draws.posterior["intercept"].values[-1, -1]) + draws_of_slopes[-1].sum()
    )
    tree = xarray.DataTree.from_dict({"posterior": draws.posterior})  # an InferenceData of ArviZ 1
    assert models.LogisticCandidates.from_draws(tree, ["slopes"], max_draws=9).coefficients[8] == tuple(
        draws_of_slopes[-1]
    )
    rows = np.random.default_rng(1).normal(size=(2, 250, 7))
    with_rows = xarray.DataTree.from_dict({"log_likelihood": xarray.Dataset({"y": (("chain", "draw", "row"), rows)})})
    reported = models.Candidates.from_draws(draws).statistics(with_rows)
    assert np.allclose(reported, rows.sum(axis=2).ravel())
    dataset = models.Candidates.from_draws(
        draws.posterior, lambda p, x: float(p["intercept"]), max_draws=len(draws_of_slopes)
    )
    assert len(dataset.prior) == len(draws_of_slopes)


def test_it_prices_as_a_finite_model_does() -> None:
    prior, table = np.array([0.2, 0.5, 0.3]), np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]])
    model, finite = symbols(prior, table), models.Finite(prior, table)
    own, peers = [0, 1, 1], [2, 1, 0, 0]
    assert troth.log_pmi(model, model.statistics(own), model.statistics(peers)) == pytest.approx(
        float(troth.log_pmi(finite, finite.statistics(own), finite.statistics(peers)))
    )
    t = np.stack([model.statistics(own), model.statistics(peers)])
    payments = troth.LineUp(decoys=9).pay(
        [model.with_features(3), model.with_features(4)], t, budget=2.0, rng=generator(1)
    )
    assert ((payments >= 0) & (payments <= 1)).all()


def test_effective_candidates_are_counted_and_near_one_is_said() -> None:
    model = symbols(np.full(4, 0.25), np.array([[0.9, 0.1], [0.6, 0.4], [0.4, 0.6], [0.1, 0.9]]))
    few = model.effective_candidates(np.stack([model.statistics([0, 1]), model.statistics([1, 0])]))
    assert 2 < few.together <= few.by_report.min() <= 4
    assert not few.near_one
    many = model.effective_candidates(np.stack([model.statistics([0] * 60), model.statistics([1])]))
    assert many.near_one
    assert many.coarse
    assert "too few: a report leaves only about one" in str(many)
    assert many.to_dict(["a", "b"])["by_report"]["a"] == pytest.approx(1)
    together = model.effective_candidates(np.stack([model.statistics([0, 0, 0, 0, 1])] * 30))
    assert together.near_one
    assert not together.coarse
    assert "too few: together the reports leave only about one" in str(together)


def test_trained_estimators_are_candidates() -> None:
    rng = generator(3)
    z = rng.normal(size=(300, 2))
    y = np.where(rng.random(300) < 1 / (1 + np.exp(-2 * z[:, 0])), "sick", "well")
    trained = [LogisticRegression(C=c).fit(z[:100] * flip, y[:100]) for c in (0.01, 1.0) for flip in (1, -1)]
    model = models.Candidates.from_estimators(trained)
    data = [(z[a : a + 50], y[a : a + 50]) for a in (100, 150, 200)]
    t = np.stack([model.statistics(rows) for rows in data])
    assert model.posterior_probabilities(t.sum(axis=0)).argmax() == 2
    rule = troth.LineUp(decoys=49)
    payments = rule.pay([model.with_features(part) for part, _ in data], t, budget=3.0, rng=rng)
    t[0] = 0.0
    nothing = rule.pay([model.with_features(part) for part, _ in data], t, budget=3.0, rng=rng)
    assert payments[0] > nothing[0] == pytest.approx(0.2)
    with pytest.raises(DataError, match="do not know the label 'dead'"):
        model.statistics((z[:1], ["dead"]))
    with pytest.raises(ParameterError, match="same classes"):
        models.Candidates.from_estimators([trained[0], LogisticRegression().fit(z[:100], y[:100] == "sick")])


def test_draws_of_a_posterior_are_candidates() -> None:
    """Of the shape that ArviZ gives an InferenceData: groups of variables by chain and draw."""
    rng = generator(4)
    values = {"mean": rng.normal(size=(2, 100)), "scale": np.ones((2, 100))}
    variables = {name: SimpleNamespace(values=array) for name, array in values.items()}

    class Dataset(dict[str, Any]):
        data_vars = tuple(variables)

    draws = SimpleNamespace(posterior=Dataset(variables))
    model = models.Candidates.from_draws(
        draws, lambda p, x: float(-0.5 * (((np.asarray(x) - p["mean"]) / p["scale"]) ** 2).sum()), max_draws=50
    )
    assert len(model.prior) == 50
    assert model.effective_candidates(model.statistics([0.1, 0.4])).together > 5
    with pytest.raises(ParameterError, match="no group 'prior'"):
        models.Candidates.from_draws(draws, lambda p, x: 0.0, group="prior")
    with pytest.raises(MissingCapabilityError, match="draw="):
        model.draw_data(rng, np.array([0]), 3)


def test_each_draw_answers_for_itself() -> None:
    model = models.Candidates.from_draws(
        {"mean": np.array([1.0, 2.0, 3.0])},
        lambda p, x: float(-((np.asarray(x) - p["mean"]) ** 2).sum()),
        lambda rng, p, rows: np.full(rows, p["mean"]),
    )
    for k in range(3):
        assert model.draw_data(generator(1), np.array([k]), 2).tolist() == [k + 1.0] * 2
    posterior: Any = troth.posterior(model, np.array([-np.inf, 0.0, 0.0]))
    assert posterior.draw_data(generator(1), np.array([1]), 2).tolist() == [3.0] * 2


def test_a_prior_may_be_given_with_what_was_trained_or_simulated() -> None:
    rng, prior = generator(7), [0.2, 0.8]
    z = rng.normal(size=(60, 2))
    labels, counts = rng.integers(0, 2, 60), rng.poisson(1.0, 60)
    logistic = [LogisticRegression(C=c).fit(z, labels) for c in (0.01, 1.0)]
    ridges = [Ridge(alpha=alpha).fit(z, z[:, 0]) for alpha in (1, 9)]
    assert models.Candidates.from_estimators(logistic, prior).prior == (0.2, 0.8)
    assert models.LogisticCandidates.from_estimators(logistic, prior).prior == (0.2, 0.8)
    poisson = [PoissonRegressor(alpha=alpha).fit(z, counts) for alpha in (1, 2)]
    assert models.PoissonCandidates.from_estimators(poisson, prior).prior == (0.2, 0.8)
    assert models.LinearCandidates.from_estimators(ridges, 1.0, prior).prior == (0.2, 0.8)
    assert models.ReportedCandidates.from_simulation(rng.normal(size=(2, 9, 2)), prior).prior == (0.2, 0.8)


def test_log_likelihoods_that_make_no_sense_are_refused() -> None:
    with pytest.raises(DataError, match="shape"):
        models.Candidates([0.5, 0.5], lambda x: [0.0]).statistics([1])
    with pytest.raises(DataError, match="candidate 1"):
        models.Candidates([0.5, 0.5], lambda x: [0.0, np.nan]).statistics([1])


class Forest:
    """Three trees that vote: some labels have probability 0."""

    def __init__(self, low: float, features: int = 1) -> None:
        self.classes_, self.low, self.n_features_in_ = ["no", "yes"], low, features

    def predict_log_proba(self, z: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(np.tile([1 - self.low, self.low], (len(z), 1)))


def test_estimators_that_are_sure_are_named_with_the_remedy() -> None:
    sure = troth.models.Candidates.from_estimators([Forest(0.4), Forest(0.0), Forest(0.0)])
    with pytest.raises(troth.DataError, match=r"estimators 1, 2 \(Forest\) give .* row 2, 'yes'.*calibrate or smooth"):
        sure.statistics((np.zeros((3, 1)), ["no", "yes", "no"]))
    assert np.isfinite(sure.statistics((np.zeros((2, 1)), ["no", "no"]))).all()
    with pytest.raises(troth.ParameterError, match="at least two different estimators, not 1"):
        troth.models.Candidates.from_estimators([Forest(0.4)])
    with pytest.raises(troth.ParameterError, match=r"different numbers of features: \[1, 2\]"):
        troth.models.Candidates.from_estimators([Forest(0.4), Forest(0.4, 2)])


def test_candidates_that_leave_nothing_are_named() -> None:
    model = troth.models.Candidates([0.5, 0.5], lambda x: np.array(x, dtype=float))
    with pytest.raises(troth.DataError, match="all 2 candidates give these data probability 0"):
        model.statistics([-np.inf, -np.inf])
    effective = model.effective_candidates(np.array([[0.0, -np.inf], [-np.inf, 0.0]]))
    assert (effective.by_report.tolist(), effective.together) == ([1.0, 1.0], 0.0)
    assert "together the reports rule out every candidate" in str(effective)


def test_a_rule_that_draws_says_how_candidates_are_given_rows() -> None:
    model = troth.models.Candidates([0.5, 0.5], lambda x: np.array(x), lambda rng, k, rows: rng.random(rows))
    with pytest.raises(troth.MissingCapabilityError, match=r"model.with_features\(features\), or its number of rows"):
        troth.LineUp().pay(model, np.log([[0.2, 0.4], [0.3, 0.2]]), budget=1.0, rng=np.random.default_rng(1))
    with pytest.raises(troth.ParameterError, match=r"shape \(4, 0\)"):
        model.with_features(np.zeros((4, 0)))


def test_log_likelihoods_of_other_draws_are_refused() -> None:
    """Of the same shape, so that only the draws beside them tell."""
    rng = generator(5)
    published: dict[str, Any] = {"posterior": {"b": rng.normal(size=20)}, "log_likelihood": {"y": rng.normal(size=20)}}
    model = models.Candidates.from_draws(published)
    np.testing.assert_array_equal(model.statistics(published), published["log_likelihood"]["y"])
    bare = {"log_likelihood": published["log_likelihood"]}
    np.testing.assert_array_equal(model.statistics(bare), model.statistics(published))
    for other in (rng.normal(size=20), published["posterior"]["b"][::-1]):
        with pytest.raises(DataError, match="of other draws of 'b'"):
            model.statistics({**published, "posterior": {"b": other}})


def test_what_is_no_candidate_is_refused_with_the_remedy() -> None:
    rng = generator(6)
    z, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    strong, weak = (LogisticRegression(C=c).fit(z, y) for c in (0.01, 1.0))
    refused: dict[str, Any] = {
        "has no classes_: train it first": lambda: models.Candidates.from_estimators([strong, LogisticRegression()]),
        "different estimators, not 1": lambda: models.Candidates.from_estimators([strong, strong]),
        "has no predict_log_proba: calibrate": lambda: models.Candidates.from_estimators(
            [SGDClassifier(random_state=k).fit(z, y) for k in range(2)]
        ),
        "log_likelihood must be a function, not 3": lambda: models.Candidates([0.5, 0.5], 3),  # type: ignore[arg-type]
        "draw must be a function": lambda: models.Candidates([0.5, 0.5], np.sum, 3),  # type: ignore[arg-type]
        "Candidates: give at least two": lambda: models.Candidates([1.0], np.sum),
        "LogisticCandidates: give at least two": lambda: models.LogisticCandidates([[1.0, 2.0]]),
        "PoissonCandidates: give at least two": lambda: models.PoissonCandidates([[1.0], [1.0]]),
        "SoftmaxCandidates: give at least two": lambda: models.SoftmaxCandidates([[0, 1], [1, 2]], classes=2),
        "ReportedCandidates: give at least two": lambda: models.ReportedCandidates([[1.0]], [[1.0]]),
        "same number of entries for each of 3 classes": lambda: models.SoftmaxCandidates([[0, 1], [1, 2]], classes=3),
    }
    for words, make in refused.items():
        with pytest.raises(ParameterError, match=words):
            make()
    model = models.Candidates.from_estimators([strong, weak])
    for features in (z[:, :1], z * np.nan):
        with pytest.raises(DataError, match=r"estimator 0 \(LogisticRegression\) cannot read these features"):
            model.statistics((features, y))
    same_noise = models.LinearCandidates([[1.0], [1.0]], noise=[1.0, 2.0])  # these differ
    assert len(same_noise.prior or ()) == 2


def test_estimators_of_two_classes_are_softmax_candidates_too() -> None:
    rng = generator(7)
    z, y = rng.normal(size=(80, 2)), rng.integers(0, 2, 80)
    estimators = [LogisticRegression(C=c).fit(z, y) for c in (0.01, 1.0)]
    model = models.SoftmaxCandidates.from_estimators(estimators)
    t = model.statistics((np.column_stack([np.ones(80), z]), y))
    np.testing.assert_allclose(
        t[:2], [estimator.predict_log_proba(z)[np.arange(80), y].sum() for estimator in estimators]
    )


def test_days_of_features_that_nobody_sees_are_not_compared() -> None:
    """Whoever tells the days apart by their features would gain by faking (erratum E10)."""
    model = models.ReportedCandidates([[0.0, -1.0], [-1.0, 0.0]], [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    days = np.array([[[-1.0, -3.0, 4.0], [-2.0, -1.0, 4.0]]] * 2)
    with pytest.raises(MissingCapabilityError, match="log-likelihoods do not show features"):
        troth.MultiDay().explain(model, days)
    assert np.isfinite(troth.MultiDay(exchangeable=True).explain(model, days).share).all()
