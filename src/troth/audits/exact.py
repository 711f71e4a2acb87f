"""The best lie, computed exactly by enumerating true datasets, reports and the reports of peers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import DataError, ParameterError
from troth.core.provider_models import one_each, shared_evidence
from troth.mechanisms import Round
from troth.models.numerics.enumeration import count_reports, enumerate_reports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.contract import Array, Models
    from troth.mechanisms import Rule

_MAX_CASES = 3_000_000


@dataclass(frozen=True)
class BestResponse:
    """The most profitable lie.

    Attributes
    ----------
    gain
        Its expected gain over the truth, as a share of the cap; at most 0 (up to rounding) if the truth is best.
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
    max_rows: int | None = None,
    groups: Sequence[Any] | None = None,
) -> BestResponse:
    """Search all reports exhaustively for the one that gains most over the truth.

    Parameters
    ----------
    rows
        Rows of each provider's true dataset.
    provider
        The provider that may lie.
    max_rows
        The maximum number of rows of a report; by default, that of the true dataset.
    groups
        One label per provider; members of a group are never each other's peers.

    Notes
    -----
    The gain is an expectation over the peers of the other days, if the rule uses several, and over the rule's draws.

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
    max_rows = own_rows if max_rows is None else max_rows
    labels = list(range(len(rows)) if groups is None else groups)
    peer_indices = [j for j, label in enumerate(labels) if label != labels[provider]]
    own_reports = float(sum(count_reports(models[provider], n) for n in range(max_rows + 1)))
    situations = prod((count_reports(models[j], int(rows[j])) for j in peer_indices), start=own_reports)
    if situations > _MAX_CASES:
        raise DataError(f"{situations:.1e} situations are too many to enumerate; use troth.audit instead")
    truths, truth_t, _ = enumerate_reports(models[provider], [own_rows])
    reports, report_t, _ = enumerate_reports(models[provider], range(max_rows + 1))
    peer_reports = [enumerate_reports(models[j], [int(rows[j])]) for j in peer_indices]
    orders = np.array([sum(logs) for logs in product(*(logs for _, _, logs in peer_reports))])
    peers = np.zeros((len(orders), len(rows), truth_t.shape[-1]))
    for k, combination in enumerate(zip(*product(*(t for _, t, _ in peer_reports)), strict=True)):
        peers[:, peer_indices[k]] = combination
    pooled = peers.sum(axis=1)
    possible = np.isfinite(evidence.log_evidence(pooled))
    peers, orders, pooled = peers[possible], orders[possible], pooled[possible]
    empty = float(evidence.log_evidence(np.zeros(pooled.shape[-1])))
    marginal = np.exp(orders + evidence.log_evidence(pooled) - empty)
    own_evidence = evidence.log_evidence(truth_t)[:, None]
    conditional = np.exp(orders + evidence.log_evidence(truth_t[:, None] + pooled) - own_evidence)
    sizes = np.array([float(n) if j in peer_indices else 0.0 for j, n in enumerate(rows)])
    world = Round(model, peers, groups, sizes, np.random.default_rng(0), lenient=True)
    own, own_sizes = np.concatenate([report_t, truth_t]), np.concatenate([reports, truths]).sum(axis=1)
    shares = _expected_shares(rule.in_expectation(), world, marginal, provider, own, own_sizes)
    shares, honest = shares[: len(reports)], shares[len(reports) :]
    gains = conditional @ shares.T - (conditional * honest).sum(axis=1)[:, None]
    best = gains >= gains.max() - 1e-12  # ties are broken by order, regardless of rounding
    i, j = np.unravel_index(int(best.argmax()), gains.shape)
    return BestResponse(float(gains.max()), tuple(int(x) for x in truths[i]), tuple(int(x) for x in reports[j]), gains)


def _expected_shares(rule: Rule, world: Round, marginal: Array, provider: int, own: Array, own_rows: Array) -> Array:
    """Return the share of each report of the provider against each possible round of peers, averaged over other days.

    ``world`` enumerates the possible rounds of peers, ``(peers, provider, statistic)``; ``marginal`` has their
    probabilities.
    """
    peers = world.statistics
    if rule.days == 1:
        t = np.repeat(peers[None], len(own), axis=0)
        t[..., provider, :] = own[:, None]
        sizes = np.broadcast_to(world.count_rows(), t.shape[:-1]).copy()
        sizes[..., provider] = own_rows[:, None]
        result = rule.evaluate(replace(world, statistics=t, rows=sizes))
        return np.nan_to_num(result.share[..., provider])  # reports outside the score range are refused
    later_reports = np.array(list(product(range(len(peers)), repeat=rule.days - 1)))
    probability = marginal[later_reports].prod(axis=-1)
    shares = np.empty((len(own), len(peers)))
    for i in range(len(own)):
        today = peers.copy()
        today[:, provider] = own[i]
        shape = (len(today), *later_reports.shape, *today.shape[1:])
        first = np.broadcast_to(today[:, None, None], (*shape[:2], 1, *today.shape[1:]))
        days = np.concatenate([first, np.broadcast_to(peers[later_reports], shape)], axis=-3)
        shares[i] = np.nan_to_num(rule.evaluate(replace(world, statistics=days)).share[..., 0, provider]) @ probability
    return shares
