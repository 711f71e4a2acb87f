"""The best lie of all, exactly: every true dataset, every report and everything that peers could say."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.contract import Array, Model, Models, shared_evidence
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
    model: Models, rule: Rule, rows: Sequence[int], *, provider: int = 0, most: int | None = None
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

    Notes
    -----
    Rules over two days are averaged over the second day's peers, rules that draw over everything that they could draw.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(1, 1)
    >>> print(best_response(model, troth.SyntheticPeers(), rows=[3, 2, 2]))
    no report earns more than the truth
    """
    evidence = shared_evidence(model)
    models = [model] * len(rows) if isinstance(model, Model) else list(model)
    if not 0 <= provider < len(rows):
        raise ParameterError(f"provider must be one of the {len(rows)} providers, not {provider!r}")
    own_rows = int(rows[provider])
    most = own_rows if most is None else most
    _check_size(models, rows, provider, most)
    truths, truth_t, _ = enumerate_reports(models[provider], [own_rows])
    reports, report_t, _ = enumerate_reports(models[provider], range(most + 1))
    peer_reports = [enumerate_reports(models[j], [int(rows[j])]) for j in range(len(rows)) if j != provider]
    peers = np.array(list(product(*(t for _, t, _ in peer_reports))))
    orders = np.array([sum(logs) for logs in product(*(logs for _, _, logs in peer_reports))])
    pooled = peers.sum(axis=1)
    possible = np.isfinite(evidence.log_evidence(pooled))
    peers, orders, pooled = peers[possible], orders[possible], pooled[possible]
    empty = float(evidence.log_evidence(np.zeros(pooled.shape[-1])))
    marginal = np.exp(orders + evidence.log_evidence(pooled) - empty)
    own_evidence = evidence.log_evidence(truth_t)[:, None]
    conditional = np.exp(orders + evidence.log_evidence(truth_t[:, None] + pooled) - own_evidence)
    shares = _expected_shares(rule, model, provider, report_t, reports.sum(axis=1), peers, marginal, rows)
    honest = _expected_shares(rule, model, provider, truth_t, truths.sum(axis=1), peers, marginal, rows)
    gains = conditional @ shares.T - (conditional * honest).sum(axis=1)[:, None]
    best = gains >= gains.max() - 1e-12  # the first of equals, however sums were rounded
    i, j = np.unravel_index(int(best.argmax()), gains.shape)
    return BestResponse(float(gains.max()), tuple(int(x) for x in truths[i]), tuple(int(x) for x in reports[j]), gains)


def _check_size(models: list[Any], rows: Sequence[int], provider: int, most: int) -> None:
    """Refuse before enumerating what would take too long."""
    situations = 1.0
    for j, model in enumerate(models):
        support = getattr(model, "support", None)
        labels = int(support.high) + 1 if support is not None and np.isfinite(support.high) else 1
        situations *= comb(most + labels, labels) if j == provider else comb(int(rows[j]) + labels - 1, labels - 1)
    if situations > _LARGEST:
        raise DataError(f"{situations:.1e} situations are too many to enumerate; use audit instead")


def _expected_shares(
    rule: Rule,
    model: Any,
    provider: int,
    own: Array,
    own_rows: Array,
    peers: Array,
    marginal: Array,
    rows: Sequence[int],
) -> Array:
    """Share of every own report with all of today's peers, averaged over any other day: ``(report, peers)``."""
    counts = np.array([float(n) for n in rows])
    rule = rule.in_expectation()
    if rule.days == 1:
        t = _with_own(own[:, None], peers[None], provider)
        sizes = np.broadcast_to(counts, t.shape[:-1]).copy()
        sizes[..., provider] = own_rows[:, None]
        result = rule.evaluate(Round(model, t, rows=sizes, rng=np.random.default_rng(0), lenient=True))
        return np.nan_to_num(result.share[..., provider])  # a report outside the range is refused
    shares = np.empty((len(own), len(peers)))
    tomorrow = _with_own(own[0], peers, provider)
    for i in range(len(own)):
        today = _with_own(own[i], peers, provider)
        days = np.stack(np.broadcast_arrays(today[:, None], tomorrow[None]), axis=-3)
        paid = rule.evaluate(Round(model, days, rows=counts, lenient=True)).share[..., 0, provider]
        shares[i] = np.nan_to_num(paid) @ marginal
    return shares


def _with_own(own: Array, peers: Array, provider: int) -> Array:
    shape = (*np.broadcast_shapes(own.shape[:-1], peers.shape[:-2]), *peers.shape[-2:])
    return np.insert(np.broadcast_to(peers, shape), provider, own, axis=-2)
