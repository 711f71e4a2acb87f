"""Public data z and truthfulness, by enumeration: beliefs under the declared model given z, pay by its posterior."""

from __future__ import annotations

from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

import troth
from mechanisms.exact import finite_world
from registry import SOAK, generator
from troth.models.numerics.extremes import unordered_datasets

SEEDS = range(200 if SOAK else 12)


class KnownWorld:
    """Two providers, their possible reports as counts of symbols, and public rows from the first one's table."""

    def __init__(self, seed: int, zeros: bool) -> None:
        world = finite_world(seed, zeros, different=True)
        self.declared: Any = world.models[:2]
        self.rows = world.rows[:2]
        rng = generator(seed, 5)
        theta = self.declared[0].draw_parameters(rng)
        self.public = self.declared[0].summary(self.declared[0].draw_data(rng, theta, int(rng.integers(1, 4))))
        self.z = self.declared[0].from_summary(self.public)
        self.given: Any = troth.posterior(self.declared, self.z)

    def datasets(self, provider: int, rows: int | None = None) -> Any:
        """Counts of all datasets of one size that are possible given the public data."""
        model = self.declared[provider]
        counts = unordered_datasets(self.rows[provider] if rows is None else rows, int(model.support.high) + 1)
        return counts[np.isfinite(model.log_evidence(model.from_summary(counts) + self.z))]

    def belief(self, own: Any, of: int) -> Any:
        """p(data of ``of`` | own statistics and z) under the declared model, over `datasets`."""
        counts, evidence = self.datasets(of), self.declared[0].log_evidence
        orders = gammaln(counts.sum(axis=1) + 1) - gammaln(counts + 1).sum(axis=1)
        known = own + self.z
        p = np.exp(orders + evidence(self.declared[of].from_summary(counts) + known) - evidence(known))
        assert p.sum() == pytest.approx(1, abs=1e-12)
        return p

    def shares(self, rule: troth.Rule, own: Any) -> Any:
        """The pay of provider 0 for reports of these counts, against everything that provider 1 could report."""
        own, peers = self.given[0].from_summary(own), self.given[1].from_summary(self.datasets(1))
        t = np.stack(np.broadcast_arrays(own[:, None], peers[None]), axis=-2)
        return rule.explain(self.given, t).share[..., 0]


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_truth_pays_best_and_a_copy_earns_no_more_than_an_empty_report(seed: int, zeros: bool) -> None:
    world = KnownWorld(seed, zeros)
    size = int(max(world.rows[0], world.public.sum()))
    try:
        rule = troth.OneTime(troth.exact_range(world.given, [size, world.rows[1]]))
    except troth.UnboundedRangeError:  # the public data determine everything
        rule = troth.OneTime(troth.ScoreRange(-1, 1))
    reports = np.concatenate([world.datasets(0, rows) for rows in range(size + 1)])
    shares = world.shares(rule, reports)
    for truth in world.datasets(0):
        believed = world.belief(world.declared[0].from_summary(truth), of=1)
        honest = world.shares(rule, truth[None]) @ believed
        assert (shares @ believed <= honest + 1e-12).all()
    knowing_only_z = world.belief(np.zeros_like(world.z), of=1)
    empty = world.shares(rule, np.zeros((1, len(world.public)))) @ knowing_only_z
    assert world.shares(rule, world.public[None]) @ knowing_only_z <= empty + 1e-12


def line_up_share(values: list[float], rivals: int) -> float:
    """Share of the first member of a line: the probability that it beats ``rivals`` others, ties at random."""
    others = len(values) - 1
    first = sum(value > values[0] + 1e-12 for value in values)
    tied = sum(abs(value - values[0]) <= 1e-12 for value in values)
    places = range(first, first + tied)
    return float(np.mean([comb(others - place, rivals) / comb(others, rivals) for place in places]))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("decoys", "rivals"), [(1, 1), (2, 1), (2, 2)])
def test_a_copy_earns_the_empty_share_of_a_line(seed: int, decoys: int, rivals: int) -> None:
    """Real peers given z and decoys from the posterior have exactly the same distribution."""
    world = KnownWorld(seed, zeros=False)
    real = world.belief(np.zeros_like(world.z), of=1)
    counts = world.datasets(1)
    t = world.given[1].from_summary(counts)
    orders = gammaln(counts.sum(axis=1) + 1) - gammaln(counts + 1).sum(axis=1)
    evidence = world.given[0].log_evidence
    drawn = np.exp(orders + evidence(t) - evidence(np.zeros(t.shape[-1])))
    values = troth.log_pmi(world.given, world.given[0].from_summary(world.public), t)
    expected = 0.0
    for line in product(range(len(t)), repeat=1 + decoys):
        chance = real[line[0]] * np.prod([drawn[j] for j in line[1:]])
        expected += chance * line_up_share([float(values[j]) for j in line], rivals)
    assert expected == pytest.approx(1 / (rivals + 1), abs=1e-12)


def test_without_conditioning_a_copy_would_be_paid() -> None:
    """Under the prior alone a copy of 20 public rows is worth 0.83 nats, under the posterior less than 0."""
    model = troth.models.Bernoulli(1, 1)
    counts = unordered_datasets(20, 2)[:, ::-1]
    orders = gammaln(21) - gammaln(counts + 1).sum(axis=1)
    believed = np.exp(orders + model.log_evidence(counts[:, None] + counts) - model.log_evidence(counts)[:, None])
    bare = troth.log_pmi(model, counts[:, None], counts)
    updated = np.array([troth.log_pmi(troth.posterior(model, z), z, counts) for z in counts])
    assert (believed * bare).sum(axis=1).mean() == pytest.approx(0.831372, abs=1e-6)
    assert ((believed * updated).sum(axis=1) < 0).all()


@pytest.mark.parametrize("name", ["audit", "certify"])
def test_audits_and_certificates_take_the_posterior(name: str) -> None:
    model = troth.models.Bernoulli(1, 1)
    updated = troth.posterior(model, model.statistics([1] * 9 + [0]))
    rule = troth.SyntheticPeers(draws=4)
    if name == "audit":
        findings = troth.audit(updated, rule, rows=[10, 10, 10], simulations=400)
        assert not findings.gaining()
    else:
        assert "proved" in str(troth.certify(updated, [10, 10, 10], rule))
