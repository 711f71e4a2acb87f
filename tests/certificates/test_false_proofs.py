"""Regression tests of claims that were once proved falsely, against the best enumerated or drawn lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import troth
from certificates.checker import View, World
from registry import generator
from troth import divergences, models
from troth.campaigns.check import certify_campaign, setting_of, truthful_claim
from troth.core.information import log_pmi
from troth.data import Report

COIN = models.Bernoulli(1, 1)
OPEN = models.Finite.from_posteriors([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9], [0.5, 0.5]])
SIZE = troth.SyntheticPeers()
LINE = models.LinearRegression([0.0], [[1.0]], 1.0)


def worst_gains(rule: troth.Rule, model: Any, rows: list[int]) -> tuple[float, float]:
    """Return the maximum gain of a lie on a day that is compared with the next, and on the last day."""
    views = [View(World([model] * len(rows), rows, None, None, rule), i, rows) for i in range(len(rows))]
    shares = [(view, view.shares(rule), view.last_day(rule)) for view in views]
    first = max(float(view.gains(before).max()) for view, before, _ in shares)
    return first, max(float(view.gains(after).max()) for view, _, after in shares)


def test_a_bond_does_not_divide_by_an_empty_share_that_depends_on_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dividing by the last day's PMI let a lie gain more than the whole cap."""
    rule, model = troth.Bonded(troth.MultiDay(last=troth.Brier())), models.Bernoulli(0.2, 0.6)
    assert max(worst_gains(rule, model, [1, 1])) <= 1e-12
    assert troth.certify(model, [1, 1], rule)["truthful"].margin == 0
    monkeypatch.setattr(troth.MultiDay, "constant_empty_share", True)
    assert worst_gains(rule, model, [1, 1])[1] > 1


def days_of(features: tuple[float, float], rows: int = 5) -> Any:
    """Return reports of three providers on two days: the first has feature 1 on both, the others these features."""
    rng = generator(3)
    return np.array(
        [
            [LINE.statistics((np.full((rows, 1), z), rng.normal(size=rows))) for z in (1.0, feature, feature)]
            for feature in features
        ]
    )


def test_peers_with_other_features_are_left_out_although_rows_are_equal() -> None:
    """Both peers of the first provider change their feature, so a fake cannot be compared with anything."""
    honest, fake = days_of((0.1, 10.0)), days_of((0.1, 10.0))
    fake[0, 0] = LINE.statistics((np.ones((5, 1)), np.full(5, 9.0)))
    for rule in (troth.MultiDay(), troth.MultiDay(divergences.le_cam)):
        shares = [rule.explain(LINE, reports).share[0, 0] for reports in (honest, fake)]
        np.testing.assert_allclose(shares, rule.divergence.empty_share, atol=1e-12)
    assert troth.MultiDay(exchangeable=True).pay(LINE, honest, budget=1.0).shape == (2, 3)
    everybody = days_of((0.1, 10.0))[:, 1:]
    with pytest.raises(troth.UnequalSizesError, match="5 rows, but other features on day 1") as error:
        troth.MultiDay().pay(LINE, everybody, budget=1.0)
    message = error.value.in_campaign(["Elm", "Fir"], ["Monday", "Tuesday"])
    assert "provider 'Elm'" in message
    assert "on day Monday and on day Tuesday" in message
    assert "exchangeable = true" in message


def test_the_same_features_in_another_order_are_the_same_design() -> None:
    rng = generator(4)
    z, y = rng.normal(size=(2, 30, 1)) ** 3, rng.normal(size=(2, 2, 30))
    today = [LINE.statistics((z[i], y[0, i])) for i in range(2)]
    tomorrow = [LINE.statistics((z[i, rng.permutation(30)], y[1, i])) for i in range(2)]
    assert troth.MultiDay().pay(LINE, np.array([today, tomorrow]), budget=1.0).shape == (2, 2)


def test_other_features_make_a_fake_pay() -> None:
    """Peers have feature .1 today and 10 tomorrow, five rows each: a made-up report gains without any data."""
    rng, f = generator(5), divergences.logistic
    fake = LINE.statistics((np.full((100, 1), 1.0), np.full(100, 3.0)))
    draws = [
        LINE.draw_statistics(rng, LINE.draw_parameters(rng, (4000,)), np.array([[5 * z * z, 5.0]])) for z in (0.1, 10.0)
    ]
    today, tomorrow = (log_pmi(LINE, fake, t) for t in draws)
    gain = (f.mismatched(tomorrow) + f.matched(today) - f.empty_score) / (f.high - f.low)
    assert gain.mean() - 6 * gain.std() / np.sqrt(len(gain)) > 0.1


def test_what_clipping_costs_is_computed_whatever_the_origin_says() -> None:
    """With low end −.2, called "clipped" with ε = 0, truthful and sensitive were proved although a lie gains."""
    model = models.Bernoulli(0.3, 0.3)
    high = troth.exact_range(model, [2, 2]).high
    rule = troth.OneTime(troth.ScoreRange(-0.2, high, 0.0, "clipped"))
    gain = troth.best_response(model, rule, [0, 2], max_rows=2).gain
    claims = troth.certify(model, [2, 2], rule)
    certified = np.log1p(np.exp(-0.2)) / (high + 0.2)
    assert 0.03 < gain < certified
    assert claims["truthful"].margin == pytest.approx(certified)
    assert claims["sensitive"].verdict == claims["price of lying"].verdict == "undecided"
    campaign = troth.Campaign.from_dict(
        {
            "campaign": {"name": "clipped", "budget": "10.00"},
            "model": {"family": "Bernoulli", "columns": ["x"], "prior": {"alpha": 0.3, "beta": 0.3}},
            "mechanism": {
                "rule": "OneTime",
                "range": {"low": -0.2, "high": high, "epsilon": 0.0, "source": "clipped"},
            },
        }
    )
    assert campaign.rule == rule
    assert campaign.rule.scale.epsilon > 0.5
    for source in ("exact", "paper", "declared"):
        certificate = troth.certify(model, [2, 2], troth.OneTime(troth.ScoreRange(-0.2, high, 0.0, source)))
        assert certificate["truthful"].verdict == "undecided"
    with pytest.raises(troth.ParameterError, match="low must be below 0"):
        troth.ScoreRange(0.1, 2.0, source="clipped")


def test_the_last_day_counts_with_what_its_rule_lets_a_lie_gain() -> None:
    model = models.Bernoulli(0.3, 0.3)
    clipped = troth.OneTime(troth.clipped_range(model, [2, 2], low=-0.2))
    rule = troth.MultiDay(last=clipped)
    claim = troth.certify(model, [2, 2], rule)["truthful"]
    assert worst_gains(rule, model, [2, 2])[1] > 0.03
    assert claim.margin == clipped.scale.epsilon_share
    assert "on the last day" in claim.text


def test_a_bond_stretches_what_a_lie_gains() -> None:
    model = models.Finite([0.44, 0.56], [[0.05, 0.95], [0.9999, 0.0001]])
    scale = troth.clipped_range(model, [3, 3], low=-2.5)
    rule = troth.Bonded(troth.OneTime(scale))
    gain = troth.best_response(model, rule, [3, 3]).gain
    stretched = scale.epsilon / scale.high  # the cap is the distance from an empty report's 0 to the maximum
    assert scale.epsilon_share < gain < stretched
    assert troth.certify(model, [3, 3], rule)["truthful"].margin == pytest.approx(stretched)


def test_last_days_that_can_be_lost_or_wait_for_another_day_are_refused() -> None:
    """Nobody would collect the deposit of a bond on the last day, as no day follows it."""
    for last in (troth.Bonded(troth.SyntheticPeers()), troth.MultiDay()):
        with pytest.raises(troth.ParameterError, match="must be .equal. or a one-time rule"):
            troth.MultiDay(last=last)


def test_bonds_look_at_shares_that_the_rule_behind_them_would_refuse() -> None:
    class Generous(troth.Rule):
        def breakdown(self, this_round: troth.Round) -> troth.Breakdown:
            return troth.Breakdown(np.full(this_round.own.shape[:-1], 5.0) * (this_round.own != 0).any(axis=-1))

    rule = troth.Bonded(Generous())
    assert troth.certify(COIN, [3, 3], rule)["budget feasible"].verdict == "proved"
    with pytest.raises(troth.ScoreOutOfRangeError):
        rule.pay(COIN, np.ones((2, 2)), budget=1.0)


def test_rows_within_a_group_are_no_peer_rows() -> None:
    """One peer row outside the group: (0, 0) and (1, 1) collide, however many rows the group has."""
    rows, groups = [4, 4, 1], ["sisters", "sisters", "other"]
    assert troth.certify(COIN, rows, SIZE)["sensitive"].verdict == "proved"
    grouped = troth.certify(COIN, rows, SIZE, groups=groups)["sensitive"]
    assert (grouped.verdict, grouped.witness) == ("refuted", ((0, 0), (1, 1)))
    gains = troth.best_response(COIN, SIZE, [2, 2, 1], groups=groups).gains
    assert np.isclose(gains[1], 0).sum() == 2  # for the truth (1, 1): itself and the empty report
    alone = troth.certify(COIN, [2, 2], SIZE, groups=["a", "a"])["sensitive"]
    assert (alone.verdict, alone.witness) == ("refuted", ("any report", "any other"))


def test_peers_need_not_fill_their_limits() -> None:
    """With a limit of nine rows but one actual row, a lie is free; without actual rows the claim states a minimum."""
    stated = troth.certify(COIN, [9, 9], SIZE)["sensitive"]
    assert (stated.verdict, stated.min_rows) == ("proved", 2)
    assert "if every provider reports at least 2 rows" in stated.text
    actual = troth.certify(COIN, [9, 9], SIZE, min_rows=[1, 1])["sensitive"]
    assert (actual.verdict, actual.witness) == ("refuted", ((0, 0), (1, 1)))
    assert troth.certify(COIN, [9, 9], SIZE, min_rows=[2, 3])["sensitive"].verdict == "proved"
    with pytest.raises(troth.ParameterError, match="min_rows must not exceed rows"):
        troth.certify(COIN, [2, 2], min_rows=[3, 2])
    mirrored = models.Finite([1 / 3] * 3, [[0.8, 0.2], [0.2, 0.8], [0.5, 0.5]])
    rule = troth.OneTime(troth.exact_range(mirrored, [2, 9]))
    priced = troth.certify(mirrored, [2, 9], rule)
    assert priced["sensitive"].min_rows == priced["price of lying"].min_rows == 2
    assert priced["price of lying"].margin == troth.certify(mirrored, [2, 2], rule)["price of lying"].margin


CAMPAIGN: dict[str, Any] = {
    "campaign": {"name": "coins", "budget": "10.00"},
    "model": {"family": "Bernoulli", "columns": ["x"], "prior": {"alpha": 1, "beta": 1}},
    "limits": {"rows": 50},
    "mechanism": {"rule": "SyntheticPeers"},
}


def reports(**rows: int) -> list[Report]:
    return [Report(name, None, count, np.array([float(count), 0.0])) for name, count in rows.items()]


def test_a_campaign_is_certified_with_its_groups_and_its_reports() -> None:
    def sensitive(plain: dict[str, Any], reports: list[Report]) -> Any:
        campaign = troth.Campaign.from_dict({**CAMPAIGN, **plain})
        return certify_campaign(campaign, setting_of(campaign, reports))["sensitive"]

    assert sensitive({}, reports(Ash=5, Elm=1)).verdict == "refuted"
    assert sensitive({}, reports(Ash=5, Elm=2)).verdict == "proved"
    assert sensitive({}, reports(Ash=5, Elm=1, Fir=1)).verdict == "proved"
    assert sensitive({"groups": {"sisters": ["Ash", "Fir"]}}, reports(Ash=5, Elm=1, Fir=1)).verdict == "refuted"
    assert sensitive({"data": {"providers": ["Ash", "Elm"]}}, []).min_rows == 2


def of_days(rule: dict[str, Any], *days: dict[str, int]) -> Any:
    """Return the claim about sensitivity for days on which providers have these rows."""
    campaign = troth.Campaign.from_dict(
        {
            **CAMPAIGN,
            "campaign": {**CAMPAIGN["campaign"], "budget_per": "day"},
            "mechanism": rule,
            "data": {"provider": "who", "day": "day"},
        }
    )
    reports = [
        Report(name, number, rows, np.array([float(rows), 0.0]))
        for number, day in enumerate(days)
        for name, rows in day.items()
    ]
    return certify_campaign(campaign, setting_of(campaign, reports), reports)["sensitive"]


def test_every_day_has_the_rows_that_are_needed() -> None:
    """The rows of the first day were assumed for all days."""
    synthetic = {"rule": "SyntheticPeers"}
    few = of_days(synthetic, {"Ash": 5, "Elm": 5}, {"Ash": 1, "Elm": 1})
    assert (few.verdict, few.witness) == ("refuted", ((0, 0), (1, 1)))
    assert of_days(synthetic, {"Ash": 5, "Elm": 5}, {"Ash": 2, "Elm": 3}).verdict == "proved"
    absent = of_days(synthetic, {"Ash": 5, "Elm": 1, "Fir": 1}, {"Ash": 1, "Elm": 1})
    assert absent.verdict == "refuted"
    either = of_days(synthetic, {"Ash": 2, "Elm": 2}, {"Elm": 2, "Fir": 2})  # never all three
    assert either.verdict == "proved"


@pytest.mark.parametrize("bonded", [False, True])
def test_who_has_other_rows_on_the_next_day_is_no_peer(bonded: bool) -> None:
    """Fir's rows change, so that Ash and Elm have one peer row each, unless this is unpredictable."""
    days = {"Ash": 1, "Elm": 1, "Fir": 5}, {"Ash": 1, "Elm": 1, "Fir": 6}
    rule: dict[str, Any] = {"rule": "MultiDay", "bonded": bonded}
    assert of_days(rule, *days).verdict == "refuted"
    assert of_days({**rule, "exchangeable": True}, *days).verdict == "proved"
    assert of_days(rule, days[0], days[0]).verdict == "proved"


def test_what_is_known_on_a_day_counts_on_that_day(tmp_path: Path) -> None:
    """A narrower prior has a shorter range, so that clipping costs more of the cap."""
    (tmp_path / "known.csv").write_text("day,x\n" + "2,0\n2,1\n" * 30)
    plain = {
        **CAMPAIGN,
        "campaign": {**CAMPAIGN["campaign"], "budget_per": "day"},
        "mechanism": {"rule": "OneTime", "range": "clipped", "low": -0.5},
        "limits": {"rows": 3},
        "data": {"provider": "who", "day": "day", "public": str(tmp_path / "known.csv")},
    }
    campaign = troth.Campaign.from_dict(plain)
    reports = [Report(name, day, 3, np.array([2.0, 1.0])) for day in (1, 2) for name in ("Ash", "Elm", "Fir")]
    setting = setting_of(campaign, reports)
    margins = [
        troth.clipped_range(model, [3] * 3, low=-0.5).epsilon_share for model in (COIN, models.Bernoulli(31, 31))
    ]
    assert margins[0] < margins[1] / 2
    claim = certify_campaign(campaign, setting, reports)["truthful"]
    assert claim.margin == truthful_claim(campaign, setting, reports).margin == pytest.approx(margins[1])
    (narrow,) = {day: report for day, report in campaign.public.items() if day is not None}
    assert certify_campaign(campaign.on(narrow), setting_of(campaign, [], 3, 3))["truthful"].margin == claim.margin


@pytest.mark.parametrize(
    ("model", "rule", "why"),
    [
        (models.Normal(0, 1, 1), troth.Brier(), "finitely many possible datasets"),
        (models.Normal(0, 1, 1), troth.OneTime(), "values"),
        (OPEN, troth.SyntheticPeers(), "cannot draw data"),
        (models.Poisson(1, 1), troth.Bonded(troth.MultiDay(last=troth.Brier())), "finitely many possible datasets"),
    ],
    ids=repr,
)
def test_a_rule_that_cannot_pay_a_model_has_no_claims_about_it(model: Any, rule: troth.Rule, why: str) -> None:
    certificate = troth.certify(model, [3, 3], rule)
    assert [(claim.name, claim.verdict) for claim in certificate.claims] == [("payable", "refuted")]
    assert why in certificate["payable"].text
    with pytest.raises(KeyError, match="cannot pay this model"):
        certificate["truthful"]


@pytest.mark.parametrize(("deviation", "own", "peers"), [(1, 60, 5), (4, 200, 5)])
def test_an_expansion_is_not_called_truthful_even_with_decoys_of_the_likelihood(
    deviation: float, own: int, peers: int
) -> None:
    """Labels with a constant, one rival and one decoy: enumerate truths, reports, peers' answers and decoys."""
    model = models.LogisticRegression(mean=[0.0], precision=deviation**-2.0)
    z = np.linspace(-6, 6, 1201)
    weight = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
    chance = 1 / (1 + np.exp(-deviation * z))[:, None]
    of_own, of_peers = (binom.pmf(np.arange(n + 1), n, chance) for n in (own, peers))
    joint, decoys = np.einsum("t,ta,tb->ab", weight, of_own, of_peers), weight @ of_peers
    t_own, t_peers = (
        np.stack([model.statistics((np.ones((n, 1)), np.arange(n) < ones)) for ones in range(n + 1)])
        for n in (own, peers)
    )
    score = troth.log_pmi(model, t_own[:, None], t_peers)
    ahead = (score[:, :, None] - score[:, None] > 1e-9) + 0.5 * (np.abs(score[:, :, None] - score[:, None]) <= 1e-9)
    expected = joint / joint.sum(axis=1, keepdims=True) @ (ahead @ decoys).T
    likely = joint.sum(axis=1) > 1e-3
    assert (expected - np.diag(expected)[:, None])[likely].max() > 5e-4  # a lie gains
    at_hand = [model.with_features(np.ones((n, 1))) for n in (own, peers)]
    certificate = troth.certify(at_hand, [own, peers], troth.LineUp(rivals=1, decoys=1))
    assert (certificate["truthful"].verdict, certificate["truthful"].limit) == ("undecided", model.evidence_limit)
    assert certificate["uninformed reports earn exactly the empty share"].verdict == "proved"
    without = troth.certify(model, [own, peers], troth.LineUp(rivals=1, decoys=1))
    assert without["uninformed reports earn exactly the empty share"].verdict == "undecided"
    for name in ("individually rational", "budget feasible", "symmetric"):
        assert without[name].verdict == "proved"


def test_a_sample_of_features_is_no_likelihood() -> None:
    model = models.LogisticRegression(mean=[0.0], precision=1.0)
    earned = "uninformed reports earn exactly the empty share"
    sampled = [model.with_features(np.ones((3, 1)), rows) for rows in (3, 9)]
    assert "sample" in troth.certify(sampled, [9, 9])[earned].limit
    assert troth.certify(sampled[:1] * 2, [3, 3])[earned].verdict == "proved"


def test_public_data_do_not_make_an_expansion_exact() -> None:
    model = models.VaryingLogisticRegression([0.0, 0.0], 1.0)
    posterior = troth.posterior(model, model.statistics((np.ones((3, 2)), [0, 1, 1])))
    claims = [
        troth.certify(candidate, [20, 20], troth.SyntheticPeers())["truthful"] for candidate in (model, posterior)
    ]
    assert [(claim.verdict, claim.limit) for claim in claims] == [("undecided", model.evidence_limit)] * 2
    assert all("Labelled rows: how good the expansion is" in claim.text for claim in claims)


def test_exact_candidates_are_proved_where_decoys_are_exact_or_none_are_drawn() -> None:
    model = models.LogisticCandidates([[-1.0], [1.0]])
    at_hand = [model.with_features(np.ones((3, 1)))] * 2
    assert troth.certify(at_hand, [3, 3], troth.LineUp(strict=0.1))["truthful"].verdict == "proved"
    assert troth.certify(model, [3, 3], troth.LineUp())["truthful"].limit == "many rows"
    assert troth.certify(model, [3, 3], troth.MultiDay())["truthful"].verdict == "proved"


@pytest.mark.parametrize("rarest", [1e-300, 1e-9, 0.05])
def test_a_state_too_rare_for_doubles_is_not_called_sensitive(rarest: float) -> None:
    """The cost of lies about a rare state scales with its squared probability: positive, but below rounding."""
    rule, model = (
        troth.LineUp(decoys=float("inf"), strict=0.3),
        models.Finite([rarest, 1 - rarest], [[0.5, 0.5], [0.2, 0.8]]),
    )
    claim = troth.certify(model, [2, 3], rule)["sensitive"]
    gains = troth.best_response(model, rule, [2, 3], max_rows=2).gains
    costs = np.sort(-gains.ravel())[len(gains) :]  # all but the truth itself
    assert claim.verdict == ("proved" if rarest == 0.05 else "undecided")
    assert (costs.min() > 1e-9) == (claim.verdict == "proved")
    assert ("small if a state is rare" in claim.text) == (claim.verdict == "proved")
