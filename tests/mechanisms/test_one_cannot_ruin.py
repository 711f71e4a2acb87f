"""A report that stops a payment is named: limits, reports to leave out, and days with different designs."""

from __future__ import annotations

from itertools import product
from math import comb, inf
from typing import Any

import numpy as np
import pytest

import troth
from certificates.day_checker import FAMILIES, draw_days
from registry import EXAMPLES, generator
from troth import models
from troth.core.errors import ReportError
from troth.core.limits import MAX_ROWS
from troth.mechanisms.registry import RULES

DRAWN = troth.SyntheticPeers(draws=8)
BERNOULLI = models.Bernoulli(2, 2)
HONEST = np.tile([[28.0, 12.0]], (5, 1))


def honest(model: Any, providers: int = 5, rows: int = 12) -> Any:
    rng = generator(41)
    theta = model.draw_parameters(rng)
    return np.stack([model.summary(model.draw_data(rng, theta, rows)) for _ in range(providers)])


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("attack", ["rows", "size"])
def test_every_family_has_limits_and_names_the_provider_beyond_them(name: str, attack: str) -> None:
    model: Any = EXAMPLES[name]
    summaries = honest(model)
    rows = np.full(5, 12.0)
    if attack == "rows":
        summaries[3] *= 1e18
        rows[3] *= 1e18
    else:
        summaries[3, 1:] = 1e200
        rows[3] = model.reduction.rows(summaries[3])
    with np.errstate(all="ignore"):
        t = model.from_summary(summaries)
    if attack == "size" and not np.isfinite(t).all():
        t[~np.isfinite(t)] = -1e200
    with pytest.raises(troth.core.errors.ReportError, match="rows, not from 0|beyond") as refused:
        DRAWN.pay(model, t, budget=1.0, rows=rows, rng=generator(1))
    assert refused.value.provider == 3


@pytest.mark.parametrize("name", FAMILIES)
def test_a_statistic_of_any_size_is_paid_or_named(name: str) -> None:
    """For every family, with and without numbers of rows: no `nan`, no other error, no other provider named."""
    model, guilty, rng = FAMILIES[name], 2, generator(43)
    reports, rows = draw_days(model, 1, lambda _, i: generator(44, i).normal(size=(4, 2)))[0], np.full(3, 4.0)
    for size in (-np.inf, -1e9, 1e9, 1e18, 1e99, 1e308):
        for entry in {0, int(rng.integers(reports.shape[1])), reports.shape[1] - 1}:
            t = reports.copy()
            t[guilty, entry] = size
            for limits in (None, rows):
                blamed = guilty
                try:
                    payments = troth.LineUp(rivals=1, decoys=2).pay(model, t, budget=1.0, rows=limits, rng=generator(1))
                    assert np.isfinite(payments).all()
                except troth.MissingCapabilityError:
                    continue  # log-likelihoods contain neither numbers of rows nor features
                except ReportError as refused:
                    (blamed,) = getattr(refused, "providers", (refused.provider,))
                assert blamed == guilty, (size, entry)


def test_only_a_huge_report_is_named_if_it_makes_all_others_unpayable() -> None:
    """The round could be paid without any one of them, but only one is an outlier."""
    model, rng = models.LinearRegressionUnknownNoise([1, -2], [[2, 0.5], [0.5, 1]], 3, 2), generator(68)
    z, y = rng.standard_normal((5, 6, 2)), rng.standard_normal((5, 6))
    z[3, 0, 0] = 1e18
    t = np.stack([model.statistics(pair) for pair in zip(z, y, strict=True)])
    with pytest.raises(troth.UnpayableRoundError) as refused:
        troth.LineUp(rivals=2, decoys=9).pay(model, t, budget=1.0, rng=generator(1))
    assert refused.value.providers == (3,)


def test_the_limit_itself_is_payable() -> None:
    for model in (BERNOULLI, models.Poisson(2, 1), models.NormalUnknownVariance(0, 1, 2, 2)):
        t: Any = honest(model)
        t[0] *= MAX_ROWS / 12
        assert np.isfinite(DRAWN.pay(model, t, budget=1.0, rng=generator(2))).all()
    assert EXAMPLES["multivariate normal, unknown covariance"].max_rows == 10**7


@pytest.mark.parametrize(
    ("bad", "problem"), [([0.0, 1e19], "1e\\+19 rows"), ([-5.0, 4.0], "-1 rows"), ([np.nan, 1.0], "nan")]
)
def test_impossible_counts_are_rejected(bad: list[float], problem: str) -> None:
    with pytest.raises(troth.DataError, match=f"provider 5.*{problem}"):
        DRAWN.pay(BERNOULLI, np.vstack([HONEST, bad]), budget=1.0, rng=generator(3))


def test_a_negative_count_is_found_by_leaving_it_out() -> None:
    with pytest.raises(troth.core.errors.ReportError, match="provider 2"), np.errstate(all="ignore"):
        DRAWN.pay(BERNOULLI, np.insert(HONEST, 2, [-5.0, 45.0], axis=0), budget=1.0, rng=generator(3))


@pytest.mark.parametrize("place", range(6))
def test_the_provider_with_too_many_rows_is_named_not_the_one_scored(place: int) -> None:
    """All scores leave the range, which was fixed for 40 rows each; one report has 4,000."""
    rule = troth.OneTime(troth.exact_range(BERNOULLI, [40] * 6))
    t = np.insert(HONEST, place, [0.0, 40_000.0], axis=0)
    with pytest.raises(troth.core.errors.ReportError) as refused:
        rule.pay(BERNOULLI, t, budget=1.0)
    assert refused.value.provider == place
    assert rule.pay(BERNOULLI, np.insert(HONEST, place, 0.0, axis=0), budget=1.0).shape == (6,)


def test_two_reports_that_stop_a_round_together_are_both_named() -> None:
    rule = troth.OneTime(troth.exact_range(BERNOULLI, [40] * 8))
    t = np.vstack([HONEST[:3], [0.0, 40_000.0], HONEST[:2], [0.0, 50_000.0], HONEST[:1]])
    with pytest.raises(troth.core.errors.ReportError) as refused:
        rule.pay(BERNOULLI, t, budget=1.0)
    assert getattr(refused.value, "providers", ()) == (3, 6)


@pytest.mark.parametrize("place", [0, 400, 699])
def test_the_report_that_stops_a_large_round_is_named(place: int) -> None:
    rule = troth.OneTime(troth.exact_range(BERNOULLI, [40] * 700))
    t = np.tile([[28.0, 12.0]], (700, 1))
    t[place] = [0.0, 1e9]
    with pytest.raises(troth.core.errors.ReportError) as refused:
        rule.pay(BERNOULLI, t, budget=1.0)
    assert refused.value.provider == place


@pytest.mark.parametrize("size", [1e9, 1e12])
def test_features_that_are_too_large_for_the_others(size: float) -> None:
    """ZᵀZ of 1e18 and more: the error names the report, not only the matrix that cannot be factored."""
    model = models.LinearRegressionUnknownNoise([0, 0], [[1, 0], [0, 1]], 3, 2)
    rng = generator(42)
    features = rng.standard_normal((6, 20, 2))
    features[4] *= size
    answers = features[..., 0] + rng.standard_normal((6, 20))
    answers[4] = rng.standard_normal(20)
    t = np.stack([model.statistics(pair) for pair in zip(features, answers, strict=True)])
    with pytest.raises(troth.UnpayableRoundError, match="provider 4: the round can be paid without") as refused:
        DRAWN.pay(model, t, budget=1.0, rng=generator(4))
    assert refused.value.providers == (4,)


def test_an_error_that_no_report_causes_is_unchanged() -> None:
    with pytest.raises(troth.DataError, match="must have shape"):
        troth.MultiDay().pay(BERNOULLI, HONEST, budget=1.0)


def test_shares_do_not_depend_on_the_search() -> None:
    """A round that can be paid uses its generator only once."""
    first, second = generator(5), generator(5)
    payments = DRAWN.pay(BERNOULLI, HONEST, budget=1.0, rng=first)
    assert np.array_equal(payments, DRAWN.pay(BERNOULLI, HONEST, budget=1.0, rng=second))
    assert first.random() == second.random()
    assert RULES


# Days with different designs


def three_days() -> Any:
    return np.tile([[28.0, 12.0], [25.0, 15.0], [29.0, 11.0], [22.0, 18.0]], (3, 1, 1))


@pytest.mark.parametrize("change", ["an extra row", "absent"])
def test_one_provider_whose_rows_change_does_not_block_the_others(change: str) -> None:
    t = three_days()
    t[1, 2] = [30.0, 11.0] if change == "an extra row" else [0.0, 0.0]
    breakdown = troth.MultiDay().explain(BERNOULLI, t)
    without = t.copy()
    without[:, 2] = 0.0
    expected = troth.MultiDay().explain(BERNOULLI, without)
    others = [0, 1, 3]
    assert np.array_equal(breakdown.share[:, others], expected.share[:, others])
    assert breakdown.noted[:2, 2].all()
    assert not breakdown.noted[:, others].any()
    assert np.isfinite(breakdown.share).all()


def test_days_are_left_out_only_where_a_design_changes() -> None:
    t = np.concatenate([three_days(), three_days()])
    t[5, 2] = [40.0, 11.0]
    breakdown, full = (
        troth.MultiDay().explain(BERNOULLI, statistics) for statistics in (t, np.concatenate([three_days()] * 2))
    )
    assert np.array_equal(breakdown.share[:4], full.share[:4])
    assert breakdown.noted.sum() == 1


def test_no_provider_is_left_out_if_rows_move_between_peers_of_one_model() -> None:
    t = three_days()
    t[1, 0], t[1, 1] = [30.0, 12.0], [23.0, 15.0]
    breakdown: Any = troth.MultiDay().explain(BERNOULLI, t)
    assert np.array_equal(breakdown.log_pmi[:, 2:], troth.peer_log_pmi(BERNOULLI, t)[:, 2:])


def test_an_error_if_all_designs_change() -> None:
    t = three_days()
    t[1] += 1.0
    with pytest.raises(troth.UnequalSizesError, match="no provider has the same rows"):
        troth.MultiDay().pay(BERNOULLI, t, budget=1.0)


def changing_days(changes: int, days: int) -> Any:
    """Eight honest providers, some with a different number of rows each day, and 4,000 opposite rows every day."""
    rng = generator(17)
    rows = np.broadcast_to(np.arange(31.0, 39.0), (days, 8)).copy()
    rows[:, :changes] += np.arange(days)[:, None]
    ones = rng.binomial(rows.astype(int), 0.7).astype(np.float64)
    honest = np.stack([ones, rows - ones], axis=-1)
    return np.concatenate([honest, np.broadcast_to([0.0, 4000.0], (days, 1, 2))], axis=1)


@pytest.mark.parametrize(
    "rule", [troth.MultiDay(), troth.LineUp(rivals=2, decoys=2, source="days")], ids=["MultiDay", "LineUp"]
)
def test_a_provider_that_keeps_its_design_does_not_become_the_only_peer_of_all(rule: Any) -> None:
    """A provider with fewer than half of its peers left is paid as for an empty report, whatever it reports."""
    for changes, lonely in ((8, [*range(9)]), (5, [5, 6, 7, 8]), (4, [])):
        t = changing_days(changes, rule.days)
        share = rule.explain(BERNOULLI, t, rng=generator(1)).share[0]
        empty = rule.empty_share(BERNOULLI, t, rng=generator(1))[0]
        assert np.flatnonzero(np.isclose(share, empty, atol=1e-12)).tolist() == lonely
        lie = t.copy()
        lie[0, 7] = [3.0, 900.0]  # another design, too
        paid = rule.explain(BERNOULLI, lie, rng=generator(1)).share[0, 7]
        assert np.isclose(paid, empty[7], atol=1e-12) == (7 in lonely), "this depends only on the peers' reports"


@pytest.mark.parametrize("divergence", [troth.divergences.logistic, troth.divergences.le_cam])
@pytest.mark.parametrize("rows", [2, 0])
def test_leaving_a_provider_out_is_truthful(divergence: Any, rows: int) -> None:
    """Enumerated: three providers, one of whom has one row today and two tomorrow; every truth and every report.

    Or it is absent tomorrow, like the one who is paid, so that its one peer reports alone.
    """
    model = models.Bernoulli(1.0, 2.0)
    rule = troth.MultiDay(divergence)
    today = [np.array(x) for x in product((0, 1), (0, 1))]  # one row of each peer
    tomorrow = [(a, b) for a in (0, 1) for b in range(rows + 1)]  # one row, and none or two rows with b ones
    worlds = list(product(today, tomorrow))

    def chance(ones: float, rows: float) -> float:
        return float(np.exp(model.log_evidence(np.array([ones, rows - ones])) - model.log_evidence(np.zeros(2))))

    later = np.array([chance(a + b, 1 + rows) * comb(rows, b) for _, (a, b) in worlds])
    t = np.zeros((len(worlds), 2, 3, 2))
    for k, (now, (a, b)) in enumerate(worlds):
        t[k, 0, 1:] = np.stack([now, 1 - now], axis=-1)
        t[k, 1, 1:] = [[a, 1 - a], [b, rows - b]]
    t[:, 1, 0] = rows / 2
    reports = [(a, n - a) for n in range(5) for a in range(n + 1)]
    for truth in [(1, 0), (0, 1), (1, 1), (2, 0), (0, 2)]:
        conditional = np.array([chance(truth[0] + sum(now), sum(truth) + 2) for now, _ in worlds]) / chance(
            truth[0], sum(truth)
        )
        weights = conditional * later
        assert weights.sum() == pytest.approx(1.0)
        expected = {}
        for report in reports:
            t[:, 0, 0] = report
            expected[report] = float(weights @ rule.explain(model, t).share[:, 0, 0])
        assert max(expected.values()) <= expected[truth] + 1e-12
        assert expected[truth] > expected[0, 0] + 1e-4


@pytest.mark.parametrize("options", [{}, {"panels": 2}, {"decoys": inf}, {"strict": 0.5}, {"ties": "lot"}])
@pytest.mark.parametrize("statistic", [[-1.0, 3.0], [np.nan, 3.0], [np.inf, 3.0]])
def test_a_line_up_rejects_invalid_reports(options: Any, statistic: Any) -> None:
    """For example, NaN does not come first in a line."""
    rule = troth.LineUp(**{"decoys": 9, **options})
    t = np.array([[30.0, 10.0]] * 4 + [statistic])
    with pytest.raises(ReportError) as refused, np.errstate(all="ignore"):
        rule.pay(models.Bernoulli(1, 1), t, budget=5.0, rng=generator(1))
    assert refused.value.provider == 4


def test_a_family_whose_evidence_is_an_integral_names_a_report_that_is_not_a_number() -> None:
    model = models.VaryingBernoulli(2, 2)
    with np.errstate(all="ignore"):
        t = model.from_summary(np.array([[10.0, 10.0]] * 4 + [[np.inf, 3.0]]))
    with np.errstate(all="ignore"), pytest.raises(ReportError, match="provider 4"):
        troth.LineUp(decoys=9).pay(model, t, budget=5.0, rng=generator(0))


def test_many_panels_find_a_report_that_is_not_a_number() -> None:
    t = np.array([[30.0, 10.0]] * 14 + [[np.nan, 1.0]])
    with pytest.raises(ReportError, match="provider 14: statistic 0 is nan"):
        troth.LineUp(decoys=9, panels=4).pay(models.Bernoulli(1, 1), t, budget=5.0, rng=generator(1))


def test_a_report_that_makes_an_exhaustive_line_too_long_is_named() -> None:
    t = np.array([[30.0, 10.0]] * 4 + [[5e6, 0.0]])
    with pytest.raises(troth.UnpayableRoundError) as refused:
        troth.LineUp(decoys=inf).pay(models.Bernoulli(1, 1), t, budget=5.0)
    assert refused.value.providers == (4,)


def test_no_bonded_last_day_loses_more_than_its_deposit() -> None:
    """The empty share under random tie-breaking is an expectation, not another random draw."""
    model, rng = models.Bernoulli(1, 1), generator(3)
    t = np.array([[[3.0, 1.0], [2.0, 2.0], [3.0, 1.0], [4.0, 0.0]]] * 2)
    rule = troth.Bonded(troth.MultiDay(last=troth.LineUp(ties="lot", decoys=9)))
    deposit = rule.deposit(model, t, budget=4.0)
    assert deposit[1] == pytest.approx([0.25] * 4)
    payments = np.array([rule.pay(model, t, budget=4.0, rng=rng)[1] for _ in range(100)])
    assert payments.min() >= -0.25 - 1e-12
    assert payments.mean() > 0.2
