"""Fits recover what histories were drawn from, climb without falling, and refuse what cannot be learnt from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, multivariate_normal

import troth
from history.drawn import day_types, normals
from history.worlds import binary_days
from registry import SOAK, generator
from troth import models
from troth.core.reductions import Counts, Moments
from troth.core.support import Support
from troth.history import History
from troth.models.fitting.day_types import fit as choice
from troth.models.fitting.day_types.em import State, day_log_likelihoods, maximise, objective
from troth.models.fitting.day_types.fitted import FittedDayTypes
from troth.models.fitting.day_types.outcomes import outcome_data
from troth.models.fitting.workers import _PRIOR_TASKS, fit_workers

OUTCOMES = ["binary", "categorical", "count", "real"]
SEEDS = 12 if SOAK else 2


def fitted(outcome: str, seed: int, **options: Any) -> tuple[FittedDayTypes, list[models.LatentClass]]:
    history, truths = day_types(outcome, seed, **{k: v for k, v in options.items() if k in ("dispersion", "days")})
    return models.LatentClass.fit(history, outcome, types=options.get("types", 3)), truths


@pytest.mark.parametrize("dispersed", [True, False])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_parameters_are_recovered_within_their_errors(outcome: str, dispersed: bool) -> None:
    """Errors in standard errors are normal numbers: their squares add up to no more than chance has it in a million."""
    of_means, of_dispersion, of_prior = [], [], []
    for seed in range(SEEDS):
        fit, truths = fitted(outcome, seed, **({} if dispersed else {"dispersion": 0.0}))
        for i, true in enumerate(truths):
            own, errors = fit.models[f"p{i}"], fit.errors[f"p{i}"]
            stated = errors["means"][..., 1] if outcome == "binary" else errors["means"]
            of_means.append(((np.array(own.means) - np.array(true.means)) / stated).ravel())
            of_dispersion.append((own.dispersion - true.dispersion) / errors["dispersion"])
        of_prior.append((np.array(fit.population.prior) - np.array(truths[0].prior)) / fit.errors.prior)
    for z in (np.concatenate(of_means), np.array(of_dispersion), np.concatenate(of_prior)):
        assert (z**2).sum() < chi2.isf(1e-6, len(z))
        assert np.abs(z).max() < 6
    assert (np.concatenate(of_means) ** 2).mean() > 0.3  # nor are errors stated that are far too large


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_penalised_likelihood_never_falls(outcome: str) -> None:
    """From a bad start, where steps are long: at every step, up to the rounding of a sum of that size."""
    history, _ = day_types(outcome, 5)
    data = outcome_data(history, outcome, None)
    rng = generator(1)
    for dispersion in (data.start, 30 * data.start, data.low):
        weights = rng.dirichlet(np.ones(4), size=len(history.days))
        means = data.initial(weights)
        size = np.full(len(means), dispersion)
        prior = np.log(weights.mean(axis=0))
        state = State(prior, means, size, data.population(means), float(np.log(dispersion)), 20.0)
        end, trace = maximise(data, state, 60)
        steps = np.diff(trace)
        assert steps.min() >= -1e-11 * np.abs(trace[0])
        assert steps[0] > 0.1
        assert trace[-1] == pytest.approx(objective(data, end, day_log_likelihoods(data, end)[0]), abs=1e-6)
    fit = models.LatentClass.fit(history, outcome, types=3)
    assert np.diff(fit.trace).min() >= -1e-11 * abs(fit.trace[0])


def test_a_report_is_predicted_from_the_others_of_its_day_alone() -> None:
    fit, _ = fitted("binary", 3)
    history, _ = day_types("binary", 3)
    day = int(np.flatnonzero(history.present.all(axis=1))[0])
    before, summaries = fit.predicted_means(history), history.summaries.copy()
    summaries[day, 0] = summaries[day, 0, ::-1]
    after = fit.predicted_means(replace(history, summaries=summaries))
    assert np.flatnonzero((before != after).any(axis=1)).tolist() == [day]
    assert after[day, 0] == pytest.approx(before[day, 0], abs=1e-12)
    assert np.abs(after[day, 1:] - before[day, 1:]).max() > 1e-3


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_climb_ends_where_no_direction_rises(outcome: str) -> None:
    """The penalised likelihood at the end, against the same with any parameter moved a little."""
    history, _ = day_types(outcome, 6)
    data = outcome_data(history, outcome, None)
    means = data.initial(np.eye(3)[np.arange(len(history.days)) % 3] * 0.8 + 0.2 / 3)
    state = State(
        np.log(np.full(3, 1 / 3)),
        means,
        np.full(len(means), data.start),
        data.population(means),
        float(np.log(data.start)),
        5.0,
    )
    state, trace = maximise(data, state, 3000, 1e-9)
    rng = generator(2)
    for _ in range(20):
        noise = 1e-3 * rng.normal(size=state.means.shape)
        moved = state.means * np.exp(noise) if outcome != "real" else state.means + noise
        if outcome in ("binary", "categorical"):
            moved = moved / moved.sum(axis=-1, keepdims=True)
        size = state.dispersion * np.exp(1e-3 * rng.normal(size=len(state.dispersion)))
        other = State(state.log_prior, moved, size, state.population, state.centre, state.shrinkage)
        assert objective(data, other, day_log_likelihoods(data, other)[0]) < trace[-1] + 1e-4


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_number_of_types_is_found(outcome: str) -> None:
    history, _ = day_types(outcome, 7, days=160 if SOAK else 100, types=3)
    objectives: list[float] = []
    most = 5 if SOAK else 4
    fit = models.LatentClass.fit(
        history, outcome, max_types=most, progress=lambda share, words: objectives.append(share)
    )
    assert fit.types == 3
    assert fit.held_out[3][0] > fit.held_out[2][0]
    assert objectives == sorted(objectives)
    assert objectives[-1] == 1.0


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_work_of_a_step_is_linear(outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Likelihoods that a step computes, counted: at most six per day, provider and type, whatever their numbers."""
    for days, providers, types in ((40, 3, 2), (80, 3, 2), (40, 6, 2), (40, 3, 4)):
        history, _ = day_types(outcome, 14, days=days, providers=providers)
        data = outcome_data(history, outcome, None)
        means = data.initial(generator(6).dirichlet(np.ones(types), size=len(history.days)))
        size = np.full(providers, data.start)
        prior = np.log(np.full(types, 1 / types))
        state = State(prior, means, size, data.population(means), float(np.log(data.start)), 5.0)
        computed: list[int] = []
        whole = data.log_likelihood

        def counting(*arguments: Any, whole: Any = whole, computed: Any = computed) -> Any:
            answer = whole(*arguments)
            computed.append(answer.size)
            return answer

        monkeypatch.setattr(data, "log_likelihood", counting)
        maximise(data, state, 10)
        assert sum(computed) <= (1 + 10 * 6) * len(history.days) * providers * types


def test_the_same_seed_gives_the_same_fit() -> None:
    history, _ = day_types("binary", 8)
    first, second = (models.LatentClass.fit(history, "binary", types=3, seed=4) for _ in range(2))
    assert first.models == second.models
    assert first.trace == second.trace


def test_providers_are_pooled_as_far_as_they_are_alike() -> None:
    """Clones are shrunk together strongly, strangers hardly; a provider with few days is shrunk most."""
    strict, _ = day_types("binary", 9, providers=6)
    rng = generator(3)
    truth = models.LatentClass([0.4, 0.6], "binary", [0.2, 0.6], 0.03)
    theta = truth.draw_parameters(rng, (100,))
    reports = [
        (day, f"p{i}", Counts(2).of_rows(truth.draw_data(rng, theta[day], 40)[:, None]))
        for day in range(100)
        for i in range(6)
        if i or day < 8
    ]
    alike = models.LatentClass.fit(History.from_reports(reports, Counts(2)), "binary", types=2)
    assert alike.shrinkage > 5 * models.LatentClass.fit(strict, "binary", types=3).shrinkage
    means = np.array([model.means for model in alike.models.values()])
    assert np.abs(means - [0.2, 0.6]).max() < 0.06
    assert alike.population.dispersion < 0.06


def test_a_provider_without_history_gets_the_population_s_distribution() -> None:
    """Its dispersion holds how much providers differ, so that a stranger's honest data are not unlikely."""
    history, truths = day_types("binary", 10, days=150, providers=8)
    fit = models.LatentClass.fit(history, "binary", types=3)
    assert fit.model_of("nobody") == fit.population
    assert fit.population.dispersion > np.mean([m.dispersion for m in fit.models.values()])
    with pytest.raises(troth.DataError, match="'nobody' has no distribution in this fit"):
        fit.errors["nobody"]
    apart = np.std([np.array(truth.means) for truth in truths], axis=0).mean()
    p = np.array(fit.population.means)
    implied = np.sqrt((fit.population.dispersion - 0.04) * p * (1 - p)).mean()
    assert 0.4 * apart < implied < 2 * apart


def test_a_provider_with_too_little_is_noted() -> None:
    history, _ = day_types("binary", 11, days=60)
    reports = [
        (day, name, history.summaries[d, i])
        for d, day in enumerate(history.days)
        for i, name in enumerate(history.providers)
        if history.present[d, i]
    ]
    reports += [(day, "new", np.array([5.0, 3.0])) for day in history.days[:3]]
    reports += [(day, "steady", np.array([9.0, 0.0])) for day in history.days]
    fit = models.LatentClass.fit(History.from_reports(reports, Counts(2)), "binary", types=3)
    assert fit.models["new"] == fit.population
    assert max(fit.models["steady"].means) < 0.3
    assert "provider 'new' has 3 days of data, fewer than 5" in fit.notes[0]
    assert "'steady' reports the same mean every day" in fit.notes[1]
    assert "note: provider 'new'" in str(fit)


def reported(days: int, names: str = "ab", varying: bool = True, rows: int = 1) -> Any:
    return [(d, name, [rows * (1 + varying * (d % 3)), 3 * rows]) for d in range(days) for name in names]


@pytest.mark.parametrize(
    ("reports", "outcome", "options", "message"),
    [
        (reported(9), "binary", {}, "has 9 days; a fit needs at least 10"),
        (reported(12), "binary", {"types": 9}, "at least 27"),
        (reported(20, varying=False), "binary", {}, "the column is constant"),
        (reported(20, "a"), "binary", {}, "at least 2 providers"),
        (reported(20, rows=0), "binary", {}, "no rows"),
        (reported(20), "count", {}, "number of rows and the sum"),
        (reported(20), "bin", {}, "no outcome 'bin'"),
        (reported(20), "binary", {"starts": 0}, "starts"),
    ],
)
def test_histories_that_teach_nothing_are_refused(reports: Any, outcome: str, options: Any, message: str) -> None:
    with pytest.raises(troth.TrothError, match=message):
        models.LatentClass.fit(History.from_reports(reports, Counts(2)), outcome, **options)


def test_values_need_a_spread() -> None:
    rng = generator(4)
    reports = [(d, n, [20, 20 * float(rng.normal(d % 2 * 4, 0.5))]) for d in range(40) for n in "abc"]
    history = History.from_reports(reports, Moments())
    with pytest.raises(troth.DataError, match=r"sums of squares .* or spread="):
        models.LatentClass.fit(history, "real", types=2)
    fit = models.LatentClass.fit(history, "real", types=2, spread=1.0)
    assert fit.models["a"].means == pytest.approx((0.0, 4.0), abs=0.4)
    with pytest.raises(troth.DataError, match="not negative and not centred"):
        models.LatentClass.fit(history, "count", types=2)


def test_few_days_per_parameter_have_errors_too() -> None:
    history, _ = day_types("binary", 12, days=30, providers=8)
    fit = models.LatentClass.fit(history, "binary", types=3)
    assert np.isfinite(fit.errors.means).all()
    assert (fit.errors.means > 0).all()


def test_a_fit_is_a_campaign_file_and_pays() -> None:
    """From history to payments: the fit's table makes the same models, and honest reports are paid."""
    from troth.campaigns.settle import settle
    from troth.campaigns.terms import Campaign
    from troth.data.request import Report

    history, truths = day_types("binary", 13)
    fit = models.LatentClass.fit(history, "binary", types=3)
    campaign = Campaign.from_dict(
        {
            "campaign": {"name": "fitted", "budget": "100.00"},
            "model": {"columns": ["late"], **fit.model_table()},
            "mechanism": {"rule": "OneTime", "range": "clipped", "low": -4.0},
            "limits": {"rows": 60},
            "data": {"source": "nowhere.csv", "provider": "who"},
        }
    )
    assert campaign.model == fit.population
    assert {name: campaign.model_of(name) for name in fit.models} == fit.models
    rng = generator(5)
    theta = truths[0].draw_parameters(rng)
    reports = []
    for i, truth in enumerate(truths):
        summaries = truth.reduction.of_rows(truth.draw_data(rng, theta, 50)[:, None])
        reports.append(Report(f"p{i}", None, 50, summaries))
    result = settle(campaign, reports)
    assert 0 < sum(payment.payment for payment in result) <= 10_000


def test_offsets_and_dispersions_are_recovered_within_their_errors() -> None:
    of_prior, of_offset, of_dispersion = [], [], []
    for seed in range(2 * SEEDS):
        history, truths = normals(seed)
        fit = models.ProviderNormal.fit(history)
        assert np.diff(fit.trace).min() >= -1e-11 * abs(fit.trace[0])
        of_prior.append((fit.population.mean - 50) / fit.errors["mean"])
        of_prior.append((fit.population.scale - 4) / fit.errors["scale"])
        for i, true in enumerate(truths):
            own, stated = fit.models[f"p{i}"], fit.errors["providers"][f"p{i}"]
            of_offset.append((own.offset - true.offset) / stated["offset"])
            of_dispersion.append((own.dispersion - true.dispersion) / stated["dispersion"])
            assert own.noise == pytest.approx(2.0, rel=0.06)
    for z in (of_prior, of_offset, of_dispersion):
        assert np.square(z).sum() < chi2.isf(1e-6, len(z))
        assert np.abs(z).max() < 6


def test_a_normal_fit_maximises_the_marginal_likelihood() -> None:
    """Against the density of each day as one multivariate normal: any move of a parameter lowers it."""
    history, _ = normals(20, days=60, providers=3)
    fit = models.ProviderNormal.fit(history)

    def density(fits: list[models.ProviderNormal]) -> float:
        total = 0.0
        for d in range(len(history.days)):
            who = np.flatnonzero(history.present[d])
            n = history.rows[d, who]
            y = history.summaries[d, who, 1] / n + 48.0
            own = [fits[i] for i in who]
            noise = np.diag([m.dispersion**2 + m.noise**2 / k for m, k in zip(own, n, strict=True)])
            mean = [m.mean + m.offset for m in own]
            total += float(multivariate_normal.logpdf(y, mean, noise + fits[0].scale ** 2))
        return total

    fits = list(fit.models.values())
    best = density(fits)
    penalty = 0.5 * sum((m.offset / fit.offsets) ** 2 for m in fits)
    for change in ({"scale": 1.15}, {"scale": 0.85}, {"dispersion": 1.2}, {"dispersion": 0.8}):
        (name, factor), *_ = change.items()
        moved = [models.ProviderNormal(**{**_plain(m), name: factor * getattr(m, name)}) for m in fits]
        assert density(moved) < best + 0.05
    shifted = [models.ProviderNormal(**{**_plain(m), "offset": m.offset + 0.4 * (-1) ** i}) for i, m in enumerate(fits)]
    assert density(shifted) - 0.5 * sum((m.offset / fit.offsets) ** 2 for m in shifted) < best - penalty


def _plain(model: models.ProviderNormal) -> dict[str, Any]:
    return {key: value for key, value in model.to_dict().items() if key != "family"}


@pytest.mark.parametrize("scale", [1.0, 100.0, 1000.0])
def test_types_of_counts_do_not_depend_on_their_unit(scale: float) -> None:
    """Rates of one to three times the scale with an effect of the day: three types, whatever is counted."""
    rng = np.random.default_rng(3)
    kinds = rng.choice(3, size=200)
    reports = [
        (day, name, [1.0, float(rng.poisson(scale * (1 + kind) * 4 * rng.gamma(50, 1 / 50)))])
        for day, kind in enumerate(kinds)
        for name in "abcdef"
    ]
    reduction = Moments(support=Support(0, integer=True))
    fit = models.LatentClass.fit(History.from_reports(reports, reduction), "count", types=3)
    np.testing.assert_allclose(np.array(fit.population.means) / (4 * scale), [1, 2, 3], rtol=0.1)


@pytest.mark.parametrize("noise", [1.0, 0.1, 0.01])
def test_types_of_values_do_not_depend_on_the_noise_of_a_row(noise: float) -> None:
    """Precise rows do not make the anchor heavier: types are 5 apart and the effect of a day is 1."""
    rng = np.random.default_rng(4)
    kinds = rng.choice(3, size=200)
    reports = [
        (day, name, Moments(squares=True).of_rows((20 + 5 * kind + rng.normal() + rng.normal(0, noise, 10))[:, None]))
        for day, kind in enumerate(kinds)
        for name in "abcdef"
    ]
    fit = models.LatentClass.fit(History.from_reports(reports, Moments(squares=True)), "real", types=3)
    np.testing.assert_allclose(fit.population.means, [20, 25, 30], atol=0.5)


@pytest.mark.parametrize("days", [12, 14, 20, 25] if SOAK else [12])
def test_short_histories_are_fitted_too(days: int) -> None:
    rng = np.random.default_rng(days)
    rates = np.array([0.2, 0.4, 0.6])
    reports = []
    for day in range(days):
        rate = rates[rng.integers(3)]
        for name in "abcde":
            ones = rng.binomial(20, rate)
            reports.append((day, name, [20.0 - ones, float(ones)]))
    fit = models.LatentClass.fit(History.from_reports(reports, Counts(2)), "binary")
    assert 1 <= fit.types <= 8


def test_an_unknown_provider_of_a_normal_fit_differs_as_much_as_the_known_ones() -> None:
    history, _ = normals(3, providers=8)
    fit = models.ProviderNormal.fit(history)
    own = np.exp(np.mean([np.log(m.dispersion**2) for m in fit.models.values()]))
    assert fit.offsets > 0.5
    assert fit.population.dispersion**2 == pytest.approx(own + fit.offsets**2, rel=0.05)


def test_fewer_types_are_taken_within_one_standard_error_of_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    past = binary_days(1, 100)
    wave = np.where(np.arange(100) % 2, 1.0, -1.0)
    place = {day: k for k, day in enumerate(past.days)}
    for errors, types in ((0.8, 1), (1.5, 2)):
        short = {1: 0.1 * errors + wave, 2: 0 * wave, 3: 1 + wave, 4: 1 + wave}
        monkeypatch.setattr(choice, "outcome_data", lambda history, *_: history)
        monkeypatch.setattr(choice, "climb", lambda data, types, *_: types)
        monkeypatch.setattr(
            choice,
            "day_log_likelihoods",
            lambda days, k, short=short: (-short[k][[place[d] for d in days.days]],),
        )
        assert choice.choose_types(past, "binary", 4, 0, None, lambda *_: None)[0] == types


def test_classes_are_as_frequent_as_gold_answers_say() -> None:
    gold = np.repeat(np.arange(4), [1, 2, 3, 6])
    task, worker = np.divmod(np.arange(24), 2)
    learned = fit_workers(task, worker, np.eye(4)[gold[task]], ["a", "b"], gold, pooling=1.0)
    expected = (np.bincount(gold) + _PRIOR_TASKS) / (12 + 4 * _PRIOR_TASKS)
    assert learned.population.prior == pytest.approx(expected, abs=1e-8)


def test_a_class_that_only_gold_answers_have_is_a_class() -> None:
    """Nobody ever gives the label 2: tasks whose gold answer it is are all answered wrongly, with the label 0."""
    gold = np.repeat(np.arange(3), 12)
    task, worker = np.divmod(np.arange(72), 2)
    labels = np.where(gold == 2, 0, gold)[task]
    learned = fit_workers(task, worker, np.eye(3)[labels], ["a", "b"], gold, pooling=1.0)
    assert learned.seen == (True, True, True)
    assert learned.posterior.argmax(axis=1).tolist() == gold.tolist()
    assert np.isfinite(learned.log_likelihood)
    assert learned.population.likelihood[2][0] > 0.9


def test_a_class_that_nobody_saw_is_answered_rightly_as_often_as_the_others_on_average() -> None:
    gold = np.repeat([0, 1], 40)
    task, worker = np.divmod(np.arange(160), 2)
    wrong = np.arange(160) % 10 < np.array([1, 4])[gold[task]]  # a tenth of one class, and four tenths of the other
    labels = np.where(wrong, 1 - gold[task], gold[task])
    learned = fit_workers(task, worker, np.eye(3)[labels], ["a", "b"], gold, pooling=1.0)
    for model in (learned.population, *learned.models.values()):
        right = np.diagonal(np.array(model.likelihood))
        assert right[0] > right[1] + 0.1
        assert right[2] == pytest.approx((right[0] + right[1]) / 2, abs=1e-8)
        assert model.likelihood[2][0] == pytest.approx((1 - right[2]) / 2, abs=1e-8)


def test_an_unknown_provider_of_counts_has_a_factor_of_its_own_beside_that_of_the_day() -> None:
    """The variance of a product of factors with mean 1 is (1 + δ)(1 + o) − 1; o is that of providers' rates."""
    data, population = outcome_data(day_types("count", 1)[0], "count", None), np.array([1.0, 4.0])
    other = data.widened(0.0, population, 0.3)
    assert other > 0.01
    assert data.widened(0.2, population, 0.3) == pytest.approx(1.2 * (1 + other) - 1)
