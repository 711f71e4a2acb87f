"""Payment rules that are common today, as baselines for audits.

None of them is truthful. The audit draws a test set from the same θ, honest or biased, for those that need one. The
value of data S for a test set T is log p(T|S)/p(T), their log PMI.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.audits.strategies.row_shapes import has_labels
from troth.core.errors import MissingCapabilityError
from troth.core.information import log_pmi
from troth.mechanisms import Breakdown, Round, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from troth.core.contract import Array, Generator


def honest_test(data: Any, rng: Generator) -> Any:  # noqa: ARG001
    """Return a test set unchanged."""
    return data


def with_extra_ones(data: Any, rng: Generator) -> Any:  # noqa: ARG001
    """Bias a test set of labels: turn a third of its rows into ones."""
    ones = np.arange(data.shape[-1]) < data.shape[-1] // 3
    return np.where(ones, 1.0, data)


@dataclass(frozen=True)
class FixedPrice(Rule):
    """The full cap for any dataset that is not empty."""

    def breakdown(self, this_round: Round, /) -> Breakdown:
        return Breakdown((this_round.own != 0).any(axis=-1).astype(np.float64))


@dataclass(frozen=True)
class PerRow(Rule):
    """A price per row, up to ``max_rows`` rows."""

    max_rows: int = 200

    def breakdown(self, this_round: Round, /) -> Breakdown:
        return Breakdown(np.minimum(_own_rows(this_round) / self.max_rows, 1.0))


@dataclass(frozen=True)
class TestSetRule(Rule):
    """A rule that values data by a test set; values are clipped to a fixed scale from ``low`` to ``high``."""

    __test__ = False

    test_rows: int = 50
    bias: Callable[[Any, Generator], Any] = honest_test
    low: float = -1.0
    high: float = 1.0

    def value(self, this_round: Round, test: Array) -> Array:
        """Return the value of each provider's data for a test set."""
        raise NotImplementedError

    def breakdown(self, this_round: Round, /) -> Breakdown:
        if this_round.test is None:
            raise MissingCapabilityError("this baseline needs a test set, which only an audit provides")
        value = self.value(this_round, this_round.test[..., None, :])
        share = np.clip((value - self.low) / (self.high - self.low), 0.0, 1.0)
        return Breakdown(share, score=value, low=self.low, high=self.high)


@dataclass(frozen=True)
class TestLikelihood(TestSetRule):
    """The likelihood of a test set given the data alone, on a fixed scale."""

    low: float = -5.0
    high: float = 5.0

    def value(self, this_round: Round, test: Array) -> Array:
        return log_pmi(this_round.model, this_round.own, test)


@dataclass(frozen=True)
class LeaveOneOutValue(TestSetRule):
    """How much the log-likelihood of a test set falls without the data, on a fixed scale."""

    def value(self, this_round: Round, test: Array) -> Array:
        pooled, peers = (
            np.maximum(log_pmi(this_round.evidence, t, test), -50.0)
            for t in (this_round.own + this_round.peers, this_round.peers)
        )
        return pooled - peers


@dataclass(frozen=True)
class ShapleyValue(TestSetRule):
    """The average marginal contribution over random orders of the datasets, on a fixed scale."""

    high: float = 2.0
    orders: int = 8

    def value(self, this_round: Round, test: Array) -> Array:
        if this_round.rng is None:
            raise MissingCapabilityError("ShapleyValue draws random orders: pass rng=")
        value = np.zeros(this_round.own.shape[:-1])
        for _ in range(self.orders):
            order = np.argsort(this_round.rng.random(value.shape), axis=-1)
            peers, own = (
                np.take_along_axis(t, order[..., None], axis=-2) for t in (this_round.statistics, this_round.own)
            )
            before = np.zeros_like(peers)
            np.cumsum(peers[..., :-1, :], axis=-2, out=before[..., 1:, :])
            without, joined = (np.maximum(log_pmi(this_round.evidence, t, test), -50.0) for t in (before, before + own))
            part = np.take_along_axis(value, order, axis=-1) + (joined - without) / self.orders
            np.put_along_axis(value, order, part, axis=-1)
        return value


@dataclass(frozen=True)
class OutOfBag(Rule):
    """The geometric mean of the rows' probabilities given the peers' data, which rewards the expected answer."""

    def breakdown(self, this_round: Round, /) -> Breakdown:
        model: Any = this_round.evidence
        if not has_labels(model):
            raise MissingCapabilityError("OutOfBag is defined here for labels only")
        rows = _own_rows(this_round)
        joint, peers = (model.log_evidence(t) for t in (this_round.own + this_round.peers, this_round.peers))
        log_chance = np.where(np.isneginf(joint), -np.inf, joint - np.where(np.isneginf(peers), 0.0, peers))
        return Breakdown(np.where(rows > 0, np.exp(np.minimum(log_chance / np.maximum(rows, 1), 0.0)), 0.0))


def _own_rows(this_round: Round) -> Array:
    """Return the rows of the data that are scored: those of the reports, or zero where data are empty."""
    if this_round.own is this_round.statistics:
        return this_round.count_rows()
    return np.where((this_round.own != 0).any(axis=-1), this_round.count_rows(), 0.0)
