"""The best lie of all, exactly: every true dataset, every report and everything that peers could say."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.contract import Array, HasSupport, Models, one_each, shared_evidence
from troth.core.errors import DataError, ParameterError
from troth.mechanisms import Round
from troth.models.numerics.reports import enumerate_reports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.mechanisms import Rule

_LARGEST = 3_000_000


@dataclass(frozen=True)
class BestResponse:
    """The most profitable report of all.

    Attributes
    ----------
    gain
        What it gains over the truth in expectation, as a share of the cap; at most 0 (up to rounding) if truth is best.
    truth, report
        The true dataset and the report, as counts of each possible row.
    gains
        The gain of every report (column) for every true dataset (row).
    """

    gain: float
    truth: tuple[int, ...]
    report: tuple[int, ...]
    gains: Array

    def __str__(self) -> str:
        if self.gain <= 1e-12:
            return "no report earns more than the truth"
        return f"a provider with rows {self.truth} gains {self.gain:.6f} of the cap by reporting {self.report}"


def best_response(
    model: Models,
    rule: Rule,
    rows: Sequence[int],
    *,
    provider: int = 0,
    most: int | None = None,
    groups: Sequence[Any] | None = None,
) -> BestResponse:
    """Search all reports for the one that gains most over the truth, exactly.

    Parameters
    ----------
    rows
        Rows of each provider's true dataset.
    provider
        Who considers lying.
    most
        The most rows that a report may have; the provider's own by default.
    groups
        One label per provider; none of a group is among another member's peers.

    Notes
    -----
    Rules over several days are averaged over the other days' peers, rules that draw over everything that they could
    draw.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(1, 1)
    >>> print(best_response(model, troth.SyntheticPeers(), rows=[3, 2, 2]))
    no report earns more than the truth
    """
    evidence = shared_evidence(model)
    models = one_each(model, len(rows))
    if not 0 <= provider < len(rows):
        raise ParameterError(f"provider must be one of the {len(rows)} providers, not {provider!r}")
    own_rows = int(rows[provider])
    most = own_rows if most is None else most
    labels = list(range(len(rows)) if groups is None else groups)
    places = [j for j, label in enumerate(labels) if label != labels[provider]]
    _check_size(models, rows, provider, places, most)
    truths, truth_t, _ = enumerate_reports(models[provider], [own_rows])
    reports, report_t, _ = enumerate_reports(models[provider], range(most + 1))
    peer_reports = [enumerate_reports(models[j], [int(rows[j])]) for j in places]
    orders = np.array([sum(logs) for logs in product(*(logs for _, _, logs in peer_reports))])
    peers = np.zeros((len(orders), len(rows), truth_t.shape[-1]))
    for k, chosen in enumerate(zip(*product(*(t for _, t, _ in peer_reports)), strict=True)):
        peers[:, places[k]] = chosen
    pooled = peers.sum(axis=1)
    possible = np.isfinite(evidence.log_evidence(pooled))
    peers, orders, pooled = peers[possible], orders[possible], pooled[possible]
    empty = float(evidence.log_evidence(np.zeros(pooled.shape[-1])))
    marginal = np.exp(orders + evidence.log_evidence(pooled) - empty)
    own_evidence = evidence.log_evidence(truth_t)[:, None]
    conditional = np.exp(orders + evidence.log_evidence(truth_t[:, None] + pooled) - own_evidence)
    sizes = np.array([float(n) if j in places else 0.0 for j, n in enumerate(rows)])
    world = _World(model, groups, provider, peers, marginal, sizes)
    shares = _expected_shares(rule.in_expectation(), world, report_t, reports.sum(axis=1))
    honest = _expected_shares(rule.in_expectation(), world, truth_t, truths.sum(axis=1))
    gains = conditional @ shares.T - (conditional * honest).sum(axis=1)[:, None]
    best = gains >= gains.max() - 1e-12  # the first of equals, however sums were rounded
    i, j = np.unravel_index(int(best.argmax()), gains.shape)
    return BestResponse(float(gains.max()), tuple(int(x) for x in truths[i]), tuple(int(x) for x in reports[j]), gains)


@dataclass(frozen=True)
class _World:
    """All that a provider's peers could report, ``(peers, provider, statistic)``, and how likely it is."""

    model: Models
    groups: Sequence[Any] | None
    provider: int
    peers: Array
    marginal: Array
    rows: Array


def _check_size(models: list[Any], rows: Sequence[int], provider: int, places: list[int], most: int) -> None:
    """Refuse before enumerating what would take too long."""
    situations = 1.0
    for j in (provider, *places):
        model = models[j]
        labels = int(model.support.high) + 1 if isinstance(model, HasSupport) and np.isfinite(model.support.high) else 1
        situations *= comb(most + labels, labels) if j == provider else comb(int(rows[j]) + labels - 1, labels - 1)
    if situations > _LARGEST:
        raise DataError(f"{situations:.1e} situations are too many to enumerate; use audit instead")


def _expected_shares(rule: Rule, world: _World, own: Array, own_rows: Array) -> Array:
    """Share of every own report with all of today's peers, averaged over any other days: ``(report, peers)``."""
    rng = np.random.default_rng(0)
    if rule.days == 1:
        t = np.repeat(world.peers[None], len(own), axis=0)
        t[..., world.provider, :] = own[:, None]
        sizes = np.broadcast_to(world.rows, t.shape[:-1]).copy()
        sizes[..., world.provider] = own_rows[:, None]
        result = rule.evaluate(Round(world.model, t, world.groups, sizes, rng, lenient=True))
        return np.nan_to_num(result.share[..., world.provider])  # a report outside the range is refused
    others = np.array(list(product(range(len(world.peers)), repeat=rule.days - 1)))
    chance = world.marginal[others].prod(axis=-1)
    shares = np.empty((len(own), len(world.peers)))
    for i in range(len(own)):
        today = world.peers.copy()
        today[:, world.provider] = own[i]
        shape = (len(today), *others.shape, *today.shape[1:])
        later = np.broadcast_to(world.peers[others], shape)
        first = np.broadcast_to(today[:, None, None], (*shape[:2], 1, *today.shape[1:]))
        this_round = Round(
            world.model, np.concatenate([first, later], axis=-3), world.groups, world.rows, rng, lenient=True
        )
        shares[i] = np.nan_to_num(rule.evaluate(this_round).share[..., 0, world.provider]) @ chance
    return shares
