"""Exact truthfulness of the line-up on random finite models with zeros, and the planted errors that it detects."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import comb
from typing import Any, NamedTuple

import numpy as np
import pytest

import troth
from mechanisms.exact import finite_world, one_model
from registry import SOAK, generator
from troth.core.information import log_pmi
from troth.mechanisms import Round
from troth.mechanisms.decoys import Lines
from troth.mechanisms.line import on_grid, rank_share

MODELS = 2000 if SOAK else 500
TOLERANCE = 1e-12
DECOYS = (1, 2, 3)


class Scene(NamedTuple):
    """One provider's reports and beliefs: log PMI ``(report, peers)``, p(peers) and p(peers | truth)."""

    log_pmi: Any
    marginal: Any
    conditional: Any
    truth: Any  # the place of each truth among the reports


def scenes(seed: int) -> list[Scene]:
    """The view of every provider of a random finite model: reports of all sizes, the empty one first."""
    world = finite_world(seed, zeros=True, different=seed % 2 == 1)
    views = []
    for provider in range(len(world.models)):
        model = world.models[provider]
        reports, _ = world.reports(provider)
        truths, _ = world.reports(provider, every_size=False)
        peers, _ = world.peers(provider)
        marginal, conditional = world.beliefs(provider)
        v = on_grid(log_pmi(model, reports[:, None], peers.sum(axis=1)))
        places = np.arange(len(reports) - len(truths), len(reports))  # sizes ascend, so the truths come last
        views.append(Scene(v, marginal, conditional, places))
    return views


@cache
def every_scene() -> list[Scene]:
    return [view for seed in range(MODELS) for view in scenes(seed)]


def place_distribution(v: Any, distribution: Any, decoys: int, *, favoured: bool = False) -> Any:
    """P(place ≤ m), m = 0 … K − 1, of the real peers among random decoys, ties at random: ``(report, peers, m)``.

    A decreasing φ is a sum of such events, and averaging over ties is the lot's expectation.
    """
    above = np.where(v[:, None, :] > v[:, :, None], distribution, 0.0).sum(axis=-1)
    tied = np.where(v[:, None, :] == v[:, :, None], distribution, 0.0).sum(axis=-1)
    below = np.clip(1 - above - tied, 0, None)
    result = np.zeros((*v.shape, decoys))
    for a in range(decoys + 1):
        for t in range(decoys + 1 - a):
            b = decoys - a - t
            chance = comb(decoys, a) * comb(decoys - a, t) * above**a * tied**t * below**b
            places = [a] if favoured else range(a, a + t + 1)
            for m in range(decoys):
                result[..., m] += chance * np.mean([place <= m for place in places])
    return result


def places(scene: Scene, decoys: int, **error: Any) -> Any:
    return place_distribution(scene.log_pmi, scene.marginal, decoys, **error)


def gains(scene: Scene, chances: Any) -> Any:
    """The gain of each report over the truth in P(place ≤ m): ``(truth, report, m)``."""
    expected = np.einsum("tb,rbm->trm", scene.conditional, chances)
    honest = expected[np.arange(len(scene.truth)), scene.truth]
    return expected - honest[:, None]


def test_the_place_is_stochastically_best_under_the_truth_and_uniform_without_data() -> None:
    """Ties by lot: for every K, truth, report and m. So no decreasing φ makes a lie pay, whatever the taste for risk.

    The empty report has a uniform place in every line, and any report, even made up, where peers are like decoys.
    """
    for scene in every_scene():
        for decoys in DECOYS:
            best = places(scene, decoys)
            assert gains(scene, best).max() <= TOLERANCE
            uniform = (1 + np.arange(decoys)) / (decoys + 1)
            assert np.abs(best[0] - uniform).max() <= TOLERANCE  # the empty report comes first
            uninformed = np.einsum("b,rbm->rm", scene.marginal, best)
            assert np.abs(uninformed - uniform).max() <= TOLERANCE


def test_no_lie_gains_under_any_decreasing_payment() -> None:
    """Random decreasing φ, and the line-up's own for every number of rivals; ties averaged."""
    rng = generator(8)
    for decoys in DECOYS:
        payments = [np.sort(rng.random(decoys + 1))[::-1] for _ in range(5)]
        payments += [rank_share(np.arange(decoys + 1), np.zeros(decoys + 1), decoys, r) for r in range(1, decoys + 1)]
        steps = -np.diff(np.array(payments), axis=1)  # φ as a sum of events
        assert (steps >= 0).all()
        assert (
            max(float((gains(scene, places(scene, decoys)) @ steps.T).max()) for scene in every_scene()[::5])
            <= TOLERANCE
        )


def test_planted_errors_are_detected() -> None:
    some = every_scene()[:200]
    better = max(gains(scene, places(scene, 2, favoured=True)).max() for scene in some)
    assert better > 0.05, "ties to the better place: an empty report is paid best of all"
    posterior = [scene._replace(marginal=scene.conditional.mean(axis=0)) for scene in some]
    other_distribution = max(gains(scene, places(scene, 2)).max() for scene in posterior)
    assert other_distribution > 1e-3, "decoys from another distribution than the denominator's"
    with np.errstate(divide="ignore", invalid="ignore"):
        wrong = [scene._replace(log_pmi=scene.log_pmi + np.log(scene.marginal)) for scene in some]
    assert max(gains(scene, places(scene, 2)).max() for scene in wrong) > 0.01, "wrong denominator: the order of p(b|a)"


def test_decoys_that_a_provider_knows_make_lies_profitable() -> None:
    """Past days as decoys: a provider that knows them chooses its report accordingly."""
    worst = 0.0
    for scene in every_scene()[:100]:
        v, outcomes = scene.log_pmi, range(len(scene.marginal))
        beats = (v[:, :, None] > v[:, None, :]) + 0.5 * (v[:, :, None] == v[:, None, :])  # report, real, decoy
        conditional = np.einsum("tb,rbk->trk", scene.conditional, beats)
        known = np.array([conditional[..., k].max(axis=1) for k in outcomes]).T @ scene.marginal
        honest = conditional[np.arange(len(scene.truth)), scene.truth] @ scene.marginal
        worst = max(worst, float((known - honest).max()))
    assert worst > 0.05


@pytest.mark.parametrize("decoys", [1, 2])
@pytest.mark.parametrize("seed", [0, 2, 4])
def test_the_rule_pays_what_was_enumerated(seed: int, decoys: int) -> None:
    """The expected share over all possible lines, compared by the rule itself, is the enumerated one."""
    world = finite_world(seed, zeros=True, different=False)
    peers, _ = world.peers(0)
    marginal, _ = world.beliefs(0)
    reports, _ = world.reports(0)
    rule = troth.LineUp(rivals=1, decoys=decoys)
    scene = scenes(seed)[0]
    steps = -np.diff(rank_share(np.arange(decoys + 1), np.zeros(decoys + 1), decoys, 1))
    expected = place_distribution(scene.log_pmi, scene.marginal, decoys) @ steps
    expected += rank_share(np.array([decoys]), np.array([0]), decoys, 1)[0]
    t = world.round_with(0, reports[:, None], peers[None])
    rows = np.array(world.rows, dtype=float)
    lines = Lines(Round(one_model(world.models), t, rows=np.broadcast_to(rows, t.shape[:-1])), None)
    share = np.zeros(t.shape[:-2])
    pooled = peers.sum(axis=1)
    for line in product(range(len(peers)), repeat=decoys):
        drawn = np.zeros((decoys, lines.rounds, lines.per_round, t.shape[-1]))
        drawn[:, :, 0] = pooled[list(line)][:, None]
        places = lines.place_among([drawn], np.zeros((decoys, lines.rounds)), strict=False)
        paid = rank_share(places.above, places.tied, decoys, rule.rivals)[:, 0].reshape(share.shape)
        share += marginal[list(line)].prod() * paid
    assert np.abs(share - expected).max() <= TOLERANCE
    limit = rule.in_expectation().evaluate(Round(one_model(world.models), t, rows=np.broadcast_to(rows, t.shape[:-1])))
    assert np.abs(limit.share[..., 0] - expected).max() <= TOLERANCE


@pytest.mark.parametrize("rule", [troth.LineUp(), troth.LineUp(strict=0.3, decoys=5), troth.LineUp(panels=2)], ids=repr)
def test_best_response_enumerates_the_line_up(rule: troth.LineUp) -> None:
    for seed in range(6 if SOAK else 2):
        world = finite_world(seed, zeros=True, different=False)
        assert troth.best_response(one_model(world.models), rule, world.rows).gain <= TOLERANCE
    model = troth.models.LatentClass([0.4, 0.6], "binary", [0.2, 0.7], 0.1)
    assert troth.best_response(model, rule, [2, 2, 1]).gain <= TOLERANCE
