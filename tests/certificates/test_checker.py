"""Every claim about random small campaigns agrees with enumeration, which detects planted false claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest

import troth
from certificates.checker import FAMILIES, View, World, payable, random_rule, random_world, violations
from registry import SOAK, generator
from troth import models
from troth.certificates import claims
from troth.core.claims import Claim
from troth.core.sensitivity import Price, Sensitivity
from troth.mechanisms import RULES
from troth.mechanisms.round import empty_round

SLOW = 1  # the last family integrates numerically
WORLDS = 20 * len(FAMILIES) if SOAK else len(FAMILIES) - SLOW
COIN = models.Bernoulli(1, 1)
OPEN = models.Finite.from_posteriors([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9], [0.5, 0.5]])
LABELS = models.LogisticRegression(mean=[0.0], precision=1 / 16)
STATES = models.Finite([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])


@pytest.mark.parametrize("name", list(RULES))
def test_every_claim_about_random_campaigns(name: str) -> None:
    """All families that can be listed and all options, with and without groups, minimum rows and bonds."""
    for seed in range(WORLDS):
        world = random_world(seed, name)
        certificate = world.certify()
        assert violations(world, certificate) == [], (seed, world, str(certificate))


@pytest.mark.parametrize("name", ["LineUp", "OneTime"])
def test_every_claim_about_providers_that_differ(name: str) -> None:
    """``make soak`` tests the other rules."""
    world = random_world(len(FAMILIES) - 1, name)
    certificate = world.certify()
    assert violations(world, certificate) == [], (world, str(certificate))


@pytest.mark.parametrize("family", dict.fromkeys(FAMILIES), ids=lambda family: family.__name__)
def test_probabilities_of_all_that_is_listed_add_up_to_one(family: Any) -> None:
    """Probabilities of the peers' reports, both marginal and given each own report."""
    for seed in range(6):
        drawn = family(generator(seed), 2)
        world = World(drawn, [2] * len(drawn), None, None, troth.SyntheticPeers())
        view = View(world, 0, world.max_rows)
        assert np.allclose([view.marginal.sum(), *view.forecast.sum(axis=1)], 1, rtol=0, atol=world.rounding / 10), (
            drawn
        )


def test_the_campaigns_are_as_varied_as_they_should_be() -> None:
    """Verdicts of each kind occur, so that every check is exercised."""
    certificates = [random_world(seed, name).certify() for name in RULES for seed in range(WORLDS)]
    verdicts = Counter((claim.name, claim.verdict) for certificate in certificates for claim in certificate.claims)
    for name in ("truthful", "sensitive", "symmetric", "individually rational", "budget feasible", "price of lying"):
        assert verdicts[name, "proved"] > 2, name
    for name in ("sensitive", "individually rational", "budget feasible", "payable"):
        assert verdicts[name, "refuted"] > 2, name
    for name in ("every attitude to risk", "uninformed reports earn exactly", "uninformed reports earn at most"):
        assert sum(count for (claim, verdict), count in verdicts.items() if name in claim and verdict == "proved"), name
    assert verdicts["k-rank condition", "proved"] > 2
    assert verdicts["linear price of lying", "proved"] > 2


def world(rule: troth.Rule, model: Any = COIN, max_rows: Any = (2, 2), **options: Any) -> World:
    return World([model] * len(max_rows), list(max_rows), options.get("min_rows"), options.get("groups"), rule)


class Agreement(troth.Rule):
    """A bounded, plausible rule that is not truthful."""

    symmetric = True
    truthful_by = "faith"

    def breakdown(self, this_round: troth.Round) -> troth.Breakdown:
        return troth.Breakdown(1 / (1 + np.exp(-this_round.log_pmi())))


class Flat(troth.Rule):
    """A truthful rule under which every lie is free."""

    truthful_by = "equal payments"
    strict = True

    def breakdown(self, this_round: troth.Round) -> troth.Breakdown:
        return troth.Breakdown(np.full(this_round.own.shape[:-1], 0.5))


class FirstComes(Flat):
    symmetric = True

    def breakdown(self, this_round: troth.Round) -> troth.Breakdown:
        return troth.Breakdown(np.broadcast_to(np.arange(this_round.providers) / 9, this_round.own.shape[:-1]))


class Unbounded(Flat):
    """A rule with negative payments, or payments above the cap."""

    level = -0.5
    individually_rational = False

    def breakdown(self, this_round: troth.Round) -> troth.Breakdown:
        return troth.Breakdown(np.full(this_round.own.shape[:-1], self.level))

    def feasible(self) -> list[troth.Claim]:
        names = ("individually rational", "budget feasible")
        return [troth.Claim(name, "proved", "so it says", "faith") for name in names]


class Generous(Unbounded):
    level = 2.0


def believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claim that no lie gains under a clipped range."""
    monkeypatch.setattr(troth.ScoreRange, "epsilon_share", 0.0)


def not_stretched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claim that a bond does not change the gain of a lie."""
    monkeypatch.setattr(troth.Bonded, "truthful", lambda rule, *campaign: rule.rule.truthful(*campaign))


def divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claim that the empty share of a forecast does not depend on the peers."""
    monkeypatch.setattr(troth.Brier, "constant_empty_share", True)


def one_row_tells_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.Bernoulli, "sensitivity", lambda *_: Sensitivity("proved", "faith"))


def nothing_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.Bernoulli, "sensitivity", lambda *_: Sensitivity("refuted", "doubt"))


def dear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.Finite, "price_of_lying", lambda *_: Price(50.0, None))


def dear_in_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.Finite, "price_of_lying", lambda *_: Price(0.0, 50.0))


def always_of_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.Finite, "k_rank_condition", lambda *_: True)


def nobody_minds_risk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claim risk-proof truthfulness even if ties are averaged or days share decoys."""
    monkeypatch.setattr(
        "troth.mechanisms.line_claims._risk_claims",
        lambda _: [Claim("truthful for every attitude to risk", "proved", "", "faith")],
    )


def each_day_too(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "truthful for every attitude to risk, each day by itself"
    monkeypatch.setattr("troth.mechanisms.line_claims._risk_claims", lambda _: [Claim(name, "proved", "", "faith")])


def zeros_as_dear_as_the_log_score_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claim that a report ruled out by its peers loses as under the log score, although it is paid a finite score."""
    monkeypatch.setattr(claims, "_remaining_fraction", lambda *_: 1.0)


def every_range_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(troth.Rule, "check_payable", lambda *_: None)


def strict_pays_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claim that a made-up report has the strict score of an empty one."""
    name = "uninformed reports earn exactly the empty share"
    monkeypatch.setattr("troth.mechanisms.line_claims._uninformed", lambda _: Claim(name, "proved", "", "faith"))


def one_panel_knows_what_all_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "_in_a_panel", lambda all_peers, _: claims._sensitivity(*all_peers))


def everything_can_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(troth.LineUp, "check_payable", lambda *_: None)


def exact_where_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claim that expansions, and draws from a limit, are exact."""
    for family in (models.LogisticRegression, models.LogisticCandidates):
        for limit in ("evidence_limit", "draws_limit"):
            monkeypatch.setattr(family, limit, "")


def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    del monkeypatch


TIGHT = troth.OneTime(troth.ScoreRange(-0.2, 3, source="clipped"))
OPPOSED = models.Finite([0.44, 0.56], [[0.05, 0.95], [0.9999, 0.0001]])
HEDGED = [models.Finite([0.5, 0.5], [[p, 1 - p], [1 - p, p]]) for p in (0.6, 0.95)]
RULED_OUT = models.Finite([0.86, 0.14], [[0.2, 0.8, 0.0], [0.2, 0.0, 0.8]])
MIRRORED = models.Finite([1 / 3] * 3, [[0.8, 0.2], [0.2, 0.8], [0.5, 0.5]])
PLANTED: dict[str, tuple[str, World, Callable[[pytest.MonkeyPatch], None]]] = {
    "a rule that is not truthful": ("truthful", world(Agreement(), models.Bernoulli(1, 4), (6, 6)), nothing),
    "clipping that costs nothing": ("truthful", world(TIGHT, models.Bernoulli(0.3, 0.3), (2, 2)), believed),
    "a bond that stretches nothing": (
        "truthful",
        world(troth.Bonded(troth.OneTime(troth.clipped_range(OPPOSED, [3, 3], low=-2.5))), OPPOSED, (3, 3)),
        not_stretched,
    ),
    "an empty share that is not constant": (
        "truthful",
        world(troth.Bonded(troth.MultiDay(last=troth.Brier())), models.Bernoulli(0.2, 0.6), (1, 1)),
        divided,
    ),
    "one peer row that tells all": ("sensitive", world(troth.SyntheticPeers(), max_rows=(2, 1)), one_row_tells_all),
    "peers that tell nothing": ("sensitive", world(troth.SyntheticPeers()), nothing_tells),
    "a strict rule that is not": ("sensitive", world(Flat()), nothing),
    "a rule that knows who comes first": ("symmetric", world(FirstComes()), nothing),
    "payments below nothing": ("individually rational", world(Unbounded()), nothing),
    "payments above the cap": ("budget feasible", world(Generous()), nothing),
    "a price that no lie pays": ("price of lying", world(troth.OneTime(), STATES), dear),
    "a price in nats": ("price of lying", world(troth.SyntheticPeers(), STATES), dear),
    "a linear price that no lie pays": ("linear price of lying", world(troth.OneTime(), STATES), dear_in_line),
    "a line for those who fear no risk": (
        "truthful for every attitude to risk",
        world(troth.LineUp(rivals=2, decoys=3)),
        nobody_minds_risk,
    ),
    "days that share decoys": (
        "truthful for every attitude to risk",
        World(list(HEDGED), [1, 1], None, None, troth.LineUp(rivals=1, decoys=1, ties="lot", source="days")),
        nobody_minds_risk,
    ),
    "a day for those who fear no risk": (
        "truthful for every attitude to risk, each day by itself",
        world(troth.LineUp(rivals=2, decoys=2, source="days"), max_rows=(1, 1)),
        each_day_too,
    ),
    "a price of what peers rule out": (
        "price of lying",
        world(troth.OneTime(troth.exact_range(RULED_OUT, [1, 1])), RULED_OUT, (1, 1), min_rows=[1, 1]),
        zeros_as_dear_as_the_log_score_has_them,
    ),
    "a range without the score of an empty report": (
        "payable",
        world(troth.OneTime(troth.ScoreRange(0.1, 5))),
        every_range_has_room,
    ),
    "a strict score for nothing": (
        "uninformed reports earn exactly the empty share",
        world(troth.LineUp(rivals=2, decoys=3, strict=0.5)),
        strict_pays_as_much,
    ),
    "panels of a single row": (
        "sensitive",
        world(troth.LineUp(rivals=1, decoys=inf, strict=0.3, panels=2), max_rows=(2, 2, 1)),
        one_panel_knows_what_all_know,
    ),
    "a line of all that nobody can list": ("payable", world(troth.LineUp(decoys=inf), OPEN), everything_can_be_listed),
    "an expansion that is taken for the likelihood": (
        "truthful",
        world(troth.SyntheticPeers(), LABELS, (2, 2)),
        exact_where_it_is_not,
    ),
    "a line of an expansion": ("truthful", world(troth.LineUp(rivals=1, decoys=99), LABELS), exact_where_it_is_not),
    "decoys of a limit": (
        "uninformed reports earn exactly the empty share",
        world(troth.LineUp(rivals=1, decoys=99), LABELS),
        exact_where_it_is_not,
    ),
    "decoys of a limit for nothing": (
        "uninformed reports earn at most the empty share",
        world(troth.LineUp(rivals=1, decoys=99, strict=0.1), LABELS),
        exact_where_it_is_not,
    ),
    "candidates with decoys of a limit": (
        "truthful",
        world(troth.LineUp(rivals=1, decoys=199), models.LogisticCandidates([[-3.0], [0.5]]), (1, 1)),
        exact_where_it_is_not,
    ),
    "a rank that peers do not have": (
        "k-rank condition",
        world(troth.SyntheticPeers(), MIRRORED, (2, 1)),
        always_of_rank,
    ),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_false_claim_goes_red(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, place, plant = PLANTED[kind]
    plant(monkeypatch)
    if not SOAK:
        monkeypatch.setattr("certificates.checker.CONFIRMATIONS", 5)  # the plants are large
    assert name in violations(place, place.certify())


def test_without_the_plant_the_same_campaigns_are_green() -> None:
    for name, place, plant in PLANTED.values():
        if plant is not nothing:
            assert violations(place, place.certify()) == [], (name, place)


def test_prices_where_peers_may_rule_a_report_out() -> None:
    """Two states and an uninformative symbol: all prices claimed under random ranges, with and without a bond."""
    rng = generator(21)
    for _ in range(12):
        neutral, prior = rng.uniform(0.05, 0.6), rng.uniform(0.05, 0.95)
        model = models.Finite([prior, 1 - prior], [[neutral, 1 - neutral, 0.0], [neutral, 0.0, 1 - neutral]])
        exact = troth.exact_range(model, [1, 1])
        rule: troth.Rule = troth.OneTime(troth.ScoreRange(exact.low - rng.choice([0.0, 1.0, 5.0]), exact.high))
        place = world(troth.Bonded(rule) if rng.random() < 0.5 else rule, model, (1, 1), min_rows=[1, 1])
        certificate = place.certify()
        assert certificate["price of lying"].verdict == "proved"
        assert violations(place, certificate) == [], place


def test_claims_of_another_campaign_go_red() -> None:
    """Certificates that ignore groups, minimum rows or an unpayable rule, or that refute without a witness."""
    grouped = world(troth.SyntheticPeers(), max_rows=(2, 1, 2), groups=[0, 1, 0])
    assert violations(grouped, troth.certify(COIN, grouped.max_rows, grouped.rule)) == ["sensitive"]
    few = world(troth.SyntheticPeers(), max_rows=(3, 3), min_rows=[1, 1])
    assert violations(few, troth.certify(COIN, few.max_rows, few.rule)) == ["sensitive"]
    unpaid = world(troth.SyntheticPeers(), OPEN)
    assert [claim.name for claim in unpaid.certify().claims] == ["payable"]
    assert violations(unpaid, troth.certify(STATES, [2, 2], unpaid.rule)) == ["payable"]
    result = world(troth.SyntheticPeers())
    assert violations(result, unpaid.certify()) == ["payable"]
    for name in ("individually rational", "budget feasible"):
        claims = tuple(replace(c, verdict="refuted") if c.name == name else c for c in result.certify().claims)
        assert violations(result, troth.Certificate(claims)) == [name]


@pytest.mark.parametrize("name", list(RULES))
def test_an_empty_share_that_is_called_constant_is_so(name: str) -> None:
    """The empty share is the same for all reports of the peers, also behind a bond or on a last day."""
    rng = generator(11)
    for _ in range(12):
        rule = random_rule(rng, name).prepared(STATES, [2, 2, 2])
        if not (rule.constant_empty_share and payable(world(rule, STATES, (2, 2, 2)))):
            continue
        shape = (5, rule.days, 3) if rule.days > 1 else (5, 3)
        counts = rng.multinomial(2, [0.5, 0.5], size=shape).astype(np.float64)
        this_round = troth.Round(
            STATES, STATES.from_summary(counts), rows=np.full(shape, 2.0), rng=np.random.default_rng(1)
        )
        empty = rule.evaluate_empty(empty_round(STATES, 3, rule.days, rng=np.random.default_rng(1)))
        assert np.array_equal(rule.evaluate_empty(this_round), np.broadcast_to(empty, shape)), rule
