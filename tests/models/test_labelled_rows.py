"""Logistic, softmax and Poisson regression: against derivatives, exact evidence, engines, and lies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.labelled_rows import exact_log_evidence, losses, one_line
from scipy.integrate import quad
from scipy.stats import kendalltau

import troth
from registry import SOAK, generator
from troth import models
from troth.core.errors import DataError, LawBrokenError, ParameterError
from troth.data import read_reports
from troth.data.request import Request
from troth.history import from_summaries

FAMILIES: dict[str, Any] = {
    "logistic": models.LogisticRegression([0.3, -0.2], [1, 2], point=[0.5, 0.1]),
    "softmax": models.SoftmaxRegression([0, 0, 0.1, 0.2, 0, 0], 1.0, classes=3, point=[0.1, 0, 0.3, 0, -0.2, 0.4]),
    "poisson": models.PoissonRegression([0.3, -0.2], [[1.5, 0.2], [0.2, 1]], point=[0.1, 0.1]),
}
VARYING: dict[str, Any] = {
    "logistic": models.VaryingLogisticRegression([0.3, -0.2], [1, 2], point=[0.5, 0.1]),
    "softmax": models.VaryingSoftmaxRegression([0.0] * 2, 1.0, classes=2),
    "poisson": models.VaryingPoissonRegression([0.3, -0.2], 1.0),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_they_obey_the_laws_within_the_expansion(name: str) -> None:
    check = troth.check_model(FAMILIES[name], rng=generator(1), draws=25_000 if SOAK else 1000)
    assert len(check.obeyed) == 14
    assert check.skipped == ("fresh statistics look like statistics of fresh data",)


@pytest.mark.parametrize("name", VARYING)
def test_with_providers_that_differ_they_obey_the_laws_too(name: str) -> None:
    assert len(troth.check_model(VARYING[name], rng=generator(1), draws=10_000 if SOAK else 200).obeyed) >= 11


def test_a_wrong_prior_breaks_a_law() -> None:
    class Wrong(models.LogisticRegression):
        def log_pmi(self, own: Any, peers: Any, both: Any = None, /) -> Any:
            other = models.LogisticRegression(self.mean, 20.0, point=self.point)
            return other.log_pmi(own, peers, both)

        def log_evidence(self, statistics: Any, /) -> Any:
            return models.LogisticRegression(self.mean, 20.0, point=self.point).log_evidence(statistics)

    with pytest.raises(LawBrokenError):
        troth.check_model(Wrong([0.3, -0.2], 0.5), rng=generator(1), draws=5000)


@pytest.mark.parametrize("name", FAMILIES)
def test_slope_and_curvature_are_derivatives_of_the_log_likelihood(name: str) -> None:
    model = FAMILIES[name]
    data = model.draw_data(generator(2), model.draw_parameters(generator(3)), 12)
    point, step, size = np.array(model.point), 1e-4, len(model.mean)

    def height(theta: Any) -> float:
        return float(model.log_likelihoods(theta, data).sum())

    axes = step * np.eye(size)
    slope = np.array([height(point + a) - height(point - a) for a in axes]) / (2 * step)
    curvature = -np.array(
        [[height(point + a + b) - height(point + a - b) - height(point - a + b) + height(point - a - b) for b in axes]
         for a in axes]
    ) / (4 * step**2)  # fmt: skip
    t = model.statistics(data)
    H = t[: size**2].reshape(size, size)
    assert np.allclose(H, curvature, atol=1e-4 * max(1.0, np.abs(H).max()))
    assert np.allclose(t[size**2 : -2], slope + H @ (point - np.array(model.mean)), atol=1e-5 * np.abs(slope).max())
    assert model.summary(data)[1] == pytest.approx(height(point))


@pytest.mark.parametrize("name", FAMILIES)
def test_every_engine_adds_up_the_same(name: str, tmp_path: Path) -> None:
    model, rng = FAMILIES[name], generator(4)
    table = pd.DataFrame({"who": rng.choice(["a", "b"], 60), "x": rng.normal(size=60)})
    codes = rng.integers(0, 2 if name == "logistic" else 3, 60)
    labels = {"logistic": ("no", "yes"), "softmax": ("no", "maybe", "yes")}.get(name)
    table["y"] = codes if labels is None else np.array(labels)[codes]
    table.to_csv(tmp_path / "rows.csv", index=False)
    table.to_parquet(tmp_path / "rows.parquet")
    ibis = pytest.importorskip("ibis")
    request = Request(model.reduction, (None, "x", "y"), "who", None, labels)
    here = {who: np.flatnonzero(table.who == who) for who in ("a", "b")}
    features = np.column_stack([np.ones(60), table.x])
    for source in (tmp_path / "rows.csv", tmp_path / "rows.parquet", table, ibis.memtable(table)):
        reports, _ = read_reports(source, request)
        assert len(reports) == 2
        for report in reports:
            rows = here[report.provider]
            assert np.allclose(report.summary, model.summary((features[rows], codes[rows])), rtol=1e-9, atol=1e-9)
            model.reduction.check(report.summary, None, (0,))


@pytest.mark.parametrize("point", [[0.4, 0, 0, -0.1, 0, 0, 0, 0, 0], np.linspace(-1, 1, 9)], ids=("alike", "by row"))
def test_pairs_of_classes_are_all_that_is_kept_of_their_curvature(point: Any) -> None:
    reduction, rng = models.SoftmaxRegression(point, 1.0, classes=3).reduction, generator(4)
    z = np.column_stack([np.ones(90), rng.normal(size=(90, 2))])
    y, codes = rng.integers(0, 3, 90), rng.choice([0, 2], 90)
    summaries = reduction.add([*z.T, y], codes, 3)
    assert summaries.shape == (3, 2 + 9 + 3 * 6)
    assert not summaries[1].any()
    for code in (0, 2):
        rows = codes == code
        assert np.allclose(summaries[code], reduction.of_datasets(z[rows], y[rows]), rtol=1e-12, atol=1e-12)
        mean = reduction.answer.means(np.reshape(point, (3, 3)) @ z[rows].T)
        W = np.einsum("an,ab->nab", mean, np.eye(3)) - np.einsum("an,bn->nab", mean, mean)
        H = np.einsum("nab,ni,nj->aibj", W, z[rows], z[rows]).reshape(9, 9)
        assert np.allclose(reduction.curvature(summaries)[code], H, rtol=1e-12, atol=1e-12)


def test_a_label_that_the_model_does_not_have_is_refused(tmp_path: Path) -> None:
    model = models.LogisticRegression([0.0], 1.0)
    pd.DataFrame({"who": ["a", "b"], "x": [0.5, 7.0], "y": [1, 2]}).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(DataError, match="column 'y': 1 value not a whole number from 0 to 1"):
        read_reports(tmp_path / "rows.csv", Request(model.reduction, ("x", "y"), "who"))
    with pytest.raises(DataError, match="whole number from 0 to 1"):
        model.statistics(([[1.0]], [2]))


def test_a_summary_that_no_rows_have_is_refused() -> None:
    model = FAMILIES["logistic"]
    honest = model.summary(model.draw_data(generator(1), model.draw_parameters(generator(2)), 5))
    for place, value in ((0, 2.5), (1, 3.0), (4, -1.0), (5, 100.0)):
        wrong = honest.copy()
        wrong[place] = value
        with pytest.raises(DataError):
            model.reduction.check(wrong)


def test_a_feature_that_no_row_has_has_no_slope() -> None:
    model = models.LogisticRegression([0.0, 0.0], 1.0)
    summary = model.summary(([[1.0, 0.0], [2.0, 0.0]], [1, 0]))
    model.reduction.check(summary)
    summary[3] = 0.5
    with pytest.raises(DataError, match="a feature without curvature has a slope"):
        model.reduction.check(summary)


def test_parameters_are_checked() -> None:
    with pytest.raises(ParameterError, match="point must have 2 entries"):
        models.LogisticRegression([0, 0], 1, point=[1])
    with pytest.raises(ParameterError, match="each of 3 classes"):
        models.SoftmaxRegression([0, 0], 1, classes=3)
    with pytest.raises(ParameterError, match="precision must have 2 entries"):
        models.LogisticRegression([0, 0], [1, 2, 3])
    assert models.from_dict(FAMILIES["softmax"].to_dict()) == FAMILIES["softmax"]


def test_log_pmi_is_near_that_of_exact_evidence() -> None:
    """Importance sampling against quadrature, then the expansion against both: good for a tight prior and many rows."""
    rng = generator(5)
    model = models.LogisticRegression([0.0], 4.0)
    own, peers = (model.draw_data(rng, np.array([0.4]), n) for n in (200, 600))
    total = tuple(np.concatenate(parts) for parts in zip(own, peers, strict=True))

    def by_quadrature(data: Any) -> float:
        mode: Any = model.expanded_at_mode(data).point
        top, peak = float(model.log_likelihoods(np.array(mode), data).sum()), mode[0]

        def density(theta: float) -> float:
            height = float(model.log_likelihoods(np.array([theta]), data).sum()) - top
            return float(np.exp(height - 2 * theta**2) * np.sqrt(2 / np.pi))

        return top + float(np.log(quad(density, peak - 2, peak + 2, points=[peak])[0]))

    exact = [by_quadrature(data) for data in (total, own, peers)]
    sampled = [exact_log_evidence(model, data, rng) for data in (total, own, peers)]
    assert np.allclose(sampled, exact, atol=0.02)
    log_pmi = float(troth.log_pmi(model, model.statistics(own), model.statistics(peers)))
    assert log_pmi == pytest.approx(exact[0] - exact[1] - exact[2], abs=0.15)


def test_the_order_in_a_line_up_agrees_with_exact_evidence() -> None:
    exact, (expanded, at_pilot) = one_line(generator(6), d=2, rows=100, scale=0.5, decoys=19)
    assert kendalltau(exact, expanded)[0] > 0.9
    assert kendalltau(exact, at_pilot)[0] > 0.85


@pytest.mark.parametrize("name", FAMILIES)
def test_no_lie_gains_under_the_line_up(name: str) -> None:
    table = losses(name, 5, 50, simulations=1000 if SOAK else 40)
    assert table.pop("truth earns")[0] > 0.6
    for lie, (lost, error) in table.items():
        assert lost > -4 * error - 1e-9, (lie, lost, error)
    assert table["report nothing"][0] > 0.4
    assert table["shuffle labels"][0] > 0.3


def test_with_features_at_hand_a_made_up_report_earns_the_empty_share() -> None:
    """Decoys are exchangeable with the real peers, however wide the prior: 20% within four standard errors."""
    model, rng = models.LogisticRegression([0.0] * 3, 0.1), generator(7)
    rule, shares = troth.LineUp(decoys=19), []
    for _ in range(100):
        theta = model.draw_parameters(rng)
        made_up = model.draw_data(rng, model.draw_parameters(rng), 30)
        data = [made_up, model.draw_data(rng, theta, 30)]
        t = np.stack([model.statistics(rows) for rows in data])
        shares.append(rule.pay([model.with_features(z) for z, _ in data], t, budget=2.0, rng=rng)[0])
    assert abs(np.mean(shares) - 0.2) < 4 * np.std(shares) / np.sqrt(len(shares))


def test_features_at_hand_are_planned_for_as_many_rows_and_no_others() -> None:
    model, z = FAMILIES["logistic"], generator(9).normal(size=(4, 2))
    np.testing.assert_array_equal(model.with_features(z).plan([4, 4]), np.tile(model.plan(z), (2, 1)))
    whole, sample = model.with_features(z), model.with_features(z, 8)
    for at_hand, rows in ((whole, 5), (whole, [4, 3]), (sample, 8)):
        with pytest.raises(DataError, match="planned by its features"):
            at_hand.plan(rows)


def test_a_sample_of_features_stands_for_all_rows() -> None:
    """Eight rows of which three were kept: counts with mean 2 exceed the mean 1 at the point by 8 in all."""
    model = models.PoissonRegression([0.0], 25.0)
    some = model.with_features(np.ones((3, 1)), 8)
    drawn = some.draw_answer_part(generator(9), np.full((4000, 1), np.log(2.0)), model.plan(np.ones((8, 1))))
    assert abs(drawn.mean() - 8) < 5 * 4 / np.sqrt(4000)
    assert drawn.var() == pytest.approx(16, rel=0.15)


def test_certificates_say_what_is_exact_and_where_decoys_come_from() -> None:
    model = FAMILIES["logistic"]
    claim = troth.certify(model, [50] * 3)["exact likelihood"]
    assert claim.verdict == "refuted"
    assert "normal limit" in claim.text
    at_hand = [model.with_features(generator(k).normal(size=(5, 2))) for k in range(3)]
    assert "peers' features" in troth.certify(at_hand, [5] * 3)["exact likelihood"].text


@pytest.mark.parametrize(("name", "precision"), [("logistic", 4.0), ("poisson", 25.0)])
def test_the_prior_is_learnt_from_past_days(name: str, precision: float) -> None:
    """The expansion costs a little of the spread of days; of counts, it must be narrow."""
    model = type(FAMILIES[name])([0.3, -0.2], precision)
    rng = generator(8)
    theta = model.draw_parameters(rng, (60,))
    summaries = np.stack([model.summary(model.draw_data(rng, theta, 40)) for _ in range(3)], axis=1)
    fit = type(model).fit(from_summaries(model.reduction, summaries))
    assert fit.model.point == model.mean
    assert np.allclose(fit.model.mean, model.mean, atol=0.3)
    assert log_ratio(fit.model.precision, model.precision) < 1.0


def log_ratio(first: Any, second: Any) -> float:
    return float(np.abs(np.log(np.asarray(first) / np.asarray(second))).max())


@pytest.mark.parametrize("name", FAMILIES)
def test_an_audit_knows_lies_for_labelled_rows(name: str) -> None:
    audit = troth.audit(FAMILIES[name], troth.LineUp(decoys=9), rows=[20] * 4, simulations=40)
    text = str(audit)
    for lie in ("its own model", "copy public labels", "easiest", "swap two features", "shuffle labels"):
        assert lie in text


@pytest.mark.parametrize("name", FAMILIES)
def test_an_audit_keeps_the_features_that_are_at_hand(name: str) -> None:
    """Reports of that many rows have them, and a made-up one earns the empty share: within four standard errors."""
    model: Any = FAMILIES[name]
    size, rng = model.reduction.features, generator(6)
    at_hand = [model.with_features(generator(k).normal(size=(12, size))) for k in range(3)]
    z, y = at_hand[0].draw_data(rng, model.draw_parameters(rng, (5,)), 12)
    np.testing.assert_array_equal(z, np.broadcast_to(at_hand[0].features, z.shape))
    np.testing.assert_allclose(at_hand[0].plan(12), model.design(model.statistics((z, y)))[0], rtol=1e-12)
    assert at_hand[0].draw_data(rng, model.draw_parameters(rng), 11)[0].shape == (11, size)
    audit = troth.audit(
        at_hand,
        troth.LineUp(decoys=9),
        [troth.strategies.FabricateFromPrior()],
        rows=[12] * 3,
        simulations=400,
        rng=rng,
    )
    assert abs(audit.findings[0].earned - 0.2) < 4 * 0.25 / 20


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("name", [*FAMILIES, *(f"varying {name}" for name in VARYING)])
def test_decoys_that_are_drawn_without_their_design_are_the_same(name: str, features: bool) -> None:
    model = VARYING[name.removeprefix("varying ")] if name.startswith("varying") else FAMILIES[name]
    rng = generator(4)
    data = [model.draw_data(rng, model.draw_parameters(rng), rows) for rows in (30, 20)]
    own, peers = (model.statistics(rows) for rows in data)
    if features:
        model = model.with_features(data[1][0])
    theta, design = model.draw_parameters(rng, (8,)), model.design(peers)
    line = model.draw_statistics(generator(5), theta, design)
    short = model.draw_answer_part(generator(5), theta, design)
    np.testing.assert_array_equal(short, model.answer_part(line))
    assert short.shape[-1] < line.shape[-1]
    log_pmi = troth.log_pmi(model, own, line)
    np.testing.assert_allclose(model.answer_scorer(own, peers)(short), log_pmi, atol=1e-9)
    assert np.ptp(log_pmi) > 0.1


@pytest.mark.parametrize(
    ("family", "good", "poor"),
    [
        (models.PoissonRegression, 0.5, 1.5),
        (models.VaryingPoissonRegression, 0.2, 1.5),
        (models.LogisticRegression, 4.0, 8.0),
        (models.VaryingLogisticRegression, 2.0, 8.0),
        (models.SoftmaxRegression, 3.0, 8.0),
    ],
)
@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_a_poor_expansion_is_warned_of_and_a_good_one_is_not(
    family: Any, good: float, poor: float, constant: float
) -> None:
    """By how far linear predictors are from the point over the prior, with honest reports of six providers."""
    rng, more = generator(12), {"classes": 3} if family is models.SoftmaxRegression else {}
    mean = np.zeros((more.get("classes", 1), 4))
    mean[0, 0] = constant
    for reach, warned in ((good, False), (poor, True)):
        model = family(mean.ravel(), 4 / reach**2, **more)
        for _ in range(5):
            z = np.concatenate([np.ones((6, 50, 1)), rng.normal(size=(6, 50, 3))], axis=-1)
            theta = model.draw_parameters(rng)
            t = np.stack([model.statistics(model.draw_data(rng, theta, features)) for features in z])
            assert bool(model.warning_about(t)) == warned, (reach, model.warning_about(t))
    wrong = family(mean.ravel(), 25.0, **more)
    assert wrong.warning_about(np.zeros((2, wrong.width))) == ""
    assert "narrower prior" in troth.check_fit([model.with_features(z[0])] * 6, t, simulations=200).warning


@pytest.mark.parametrize("with_rows", [False, True])
def test_a_softmax_fit_asks_for_the_number_of_labels(with_rows: bool) -> None:
    model, rng = models.SoftmaxRegression([0.0] * 3, 4.0, classes=3), generator(5)
    rows = {(day, name): model.draw_data(rng, model.draw_parameters(rng), 30) for day in range(8) for name in "ab"}
    tables = {key: np.column_stack(data) for key, data in rows.items()}
    reports = [(day, name, model.summary(data)) for (day, name), data in rows.items()]
    past = troth.History.from_reports(reports, model.reduction)
    history = replace(past, tables=tables) if with_rows else past
    with pytest.raises(ParameterError, match="the history does not determine classes: give classes="):
        models.SoftmaxRegression.fit(history)
    assert models.SoftmaxRegression.fit(history, classes=3).model.classes == 3


def test_predictions_are_the_most_probable_label_and_the_nearest_count() -> None:
    """With one coefficient θ and rows 1, −1 and 0.1: labels are 1 where θz > 0, counts are exp(θz) to the nearest."""
    z = np.array([[1.0], [-1.0], [0.1]])
    assert models.PoissonRegression([0], 1).predict(np.log([2.7]), z).tolist() == [3, 0, 1]
    assert models.LogisticRegression([0], 1).predict(np.array([1.0]), z).tolist() == [1, 0, 1]
    softmax = models.SoftmaxRegression([0, 0], 1.0, classes=2)
    assert softmax.predict(np.array([-1.0, 1.0]), z).tolist() == [1, 0, 1]
