"""Exact expected payments on small finite worlds, by enumerating every true dataset, every report and all peers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from scipy.special import gammaln

import troth
from registry import generator
from troth import models
from troth.models.numerics.extremes import unordered_datasets

Pay = Callable[[Any, Any], Any]
"""A rule under test: from models and statistics ``(world, provider, statistic)`` to shares ``(world, provider)``."""


@dataclass(frozen=True, eq=False)
class World:
    """A model that is small enough to enumerate; all enumerations are cached."""

    models: list[Any]
    rows: list[int]

    @cache  # noqa: B019
    def reports(self, provider: int, every_size: bool = True) -> Any:
        """All possible reports of a provider, up to its number of rows: statistics, and log numbers of orders."""
        model = self.models[provider]
        sizes = range(self.rows[provider] + 1) if every_size else [self.rows[provider]]
        symbols = int(model.support.high) + 1
        types = np.concatenate([unordered_datasets(n, symbols) for n in sizes])
        t = types[:, ::-1] if isinstance(model, models.Bernoulli) else model.from_summary(types)
        orders = gammaln(types.sum(axis=1) + 1) - gammaln(types + 1).sum(axis=1)
        possible = np.isfinite(model.log_evidence(t))
        return t[possible], orders[possible]

    @cache  # noqa: B019
    def peers(self, provider: int) -> Any:
        """All joint reports of the others: statistics ``(joint, provider, statistic)`` and log numbers of orders."""
        others = [self.reports(j, every_size=False) for j in range(len(self.models)) if j != provider]
        joint = list(product(*(range(len(t)) for t, _ in others)))
        t = np.array([[others[k][0][i] for k, i in enumerate(row)] for row in joint])
        orders = np.array([sum(others[k][1][i] for k, i in enumerate(row)) for row in joint])
        possible = np.isfinite(self.models[0].log_evidence(t.sum(axis=1)))
        return t[possible], orders[possible]

    @cache  # noqa: B019
    def beliefs(self, provider: int) -> tuple[Any, Any]:
        """p(peers' data) and p(peers' data | own data), the latter with one row per own dataset of full size."""
        evidence = self.models[0].log_evidence
        peers, orders = self.peers(provider)
        pooled = peers.sum(axis=1)
        nothing = evidence(np.zeros(pooled.shape[-1]))
        marginal = np.exp(orders + evidence(pooled) - nothing)
        truths, _ = self.reports(provider, every_size=False)
        conditional = np.exp(orders + evidence(truths[:, None] + pooled[None]) - evidence(truths)[:, None])
        return marginal, conditional

    def round_with(self, provider: int, own: Any, peers: Any) -> Any:
        """All statistics, given those of one provider and of its peers."""
        shape = np.broadcast_shapes(own.shape[:-1], peers.shape[:-2])
        everyone = [np.broadcast_to(peers[..., k, :], (*shape, own.shape[-1])) for k in range(peers.shape[-2])]
        everyone.insert(provider, np.broadcast_to(own, (*shape, own.shape[-1])))
        return np.stack(everyone, axis=-2)


@cache
def finite_world(seed: int, zeros: bool, different: bool) -> World:
    """A random finite model: 2 to 4 states, 2 to 3 symbols, 2 to 3 providers, 1 to 3 rows."""
    rng = generator(seed, int(zeros), int(different))
    states, providers = int(rng.integers(2, 5)), int(rng.integers(2, 4))
    rows = [int(n) for n in rng.integers(1, 4 if providers == 2 else 3, providers)]
    prior = rng.dirichlet(np.full(states, 2.0))
    tables = []
    for _ in range(providers):
        table = rng.dirichlet(np.ones(int(rng.integers(2, 4))), size=states)
        if zeros:
            table *= rng.random(table.shape) > 0.35
            table[np.arange(states), rng.integers(0, table.shape[1], states)] += 0.05
            table /= table.sum(axis=1, keepdims=True)
        tables.append(table)
    used = tables if different else [tables[0]] * providers
    return World([models.Finite(prior, table) for table in used], rows)


@cache
def bernoulli_world(seed: int) -> World:
    rng = generator(seed, 77)
    model = models.Bernoulli(*10 ** rng.uniform(-0.7, 1, 2))
    return World([model] * 3, [int(n) for n in rng.integers(1, 4, 3)])


def worst_gain(world: World, pay: Pay) -> float:
    """Return the most that any report gains over the truth in expectation, as a share of the cap.

    For every provider, every true dataset and every possible report, of any size up to the provider's own.
    """
    worst = -np.inf
    for provider in range(len(world.models)):
        peers, _ = world.peers(provider)
        _, conditional = world.beliefs(provider)
        reports, _ = world.reports(provider)
        truths, _ = world.reports(provider, every_size=False)
        shares = pay(world.models, world.round_with(provider, reports[:, None], peers[None]))[..., provider]
        honest = pay(world.models, world.round_with(provider, truths[:, None], peers[None]))[..., provider]
        expected = conditional @ shares.T  # (truth, report)
        truth = (conditional * honest).sum(axis=1)
        worst = max(worst, float((expected - truth[:, None]).max()))
    return worst


def worst_gain_over_two_days(world: World, pay: Pay) -> float:
    """Like `worst_gain`, for a rule that compares day 0 with day 1, whose peers are drawn independently."""
    worst = -np.inf
    for provider in range(len(world.models)):
        peers, _ = world.peers(provider)
        marginal, conditional = world.beliefs(provider)
        reports, _ = world.reports(provider)
        truths, _ = world.reports(provider, every_size=False)

        def shares(own: Any) -> Any:
            today = world.round_with(provider, own[:, None, None], peers[None, :, None])  # noqa: B023
            tomorrow = world.round_with(provider, truths[:1, None, None], peers[None, None])  # noqa: B023
            days = np.stack(np.broadcast_arrays(today, tomorrow), axis=-3)
            payments = pay(world.models, days)[..., 0, provider]  # noqa: B023
            return payments @ marginal  # noqa: B023

        expected = conditional @ shares(reports).T
        truth = (conditional * shares(truths)).sum(axis=1)
        worst = max(worst, float((expected - truth[:, None]).max()))
    return worst


def one_model(provider_models: list[Any]) -> Any:
    """Return a single model if all providers share it."""
    return provider_models[0] if all(model == provider_models[0] for model in provider_models) else provider_models


def paid_by(rule: troth.Rule) -> Pay:
    return lambda provider_models, t: rule.explain(one_model(provider_models), t).share
