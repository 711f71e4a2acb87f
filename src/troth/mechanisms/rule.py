"""What every payment rule shares: a round of reports, caps, and how a score becomes a payment.

A rule is a class with one method, ``breakdown(round)``, which says what share of its cap each provider earns and why.
Amounts, the share paid for nothing, bonds and explanations derive from it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from math import fsum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from troth.core.contract import Array, CountsRows, Generator, Model, shared_evidence
from troth.core.errors import DataError, MissingCapabilityError, ParameterError, ScoreOutOfRangeError
from troth.core.information import leave_one_out, log_pmi, peer_log_pmi
from troth.models.family import check_generator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Amount: TypeAlias = float | Sequence[float] | Array
    Shares: TypeAlias = Sequence[float] | Array

_CONTRADICTION = "where peers contradict each other, a report is paid as if it were empty, whatever it says"


@dataclass(frozen=True)
class Round:
    """The reports of a round and all that a rule may look at.

    Attributes
    ----------
    model
        One model, or one per provider that share a space of statistics.
    statistics
        Everybody's reports, ``(..., provider, statistic)``.
    groups
        Labels of related providers, none of whom is another's peer.
    rows
        Numbers of rows, where statistics do not tell them.
    rng
        For rules that draw.
    test
        Statistics of a test set, ``(..., statistic)``, for rivals that need one.
    lenient
        Give a score outside its range the share NaN instead of stopping the round: for audits of lies that a buyer
        would refuse.
    """

    model: Model | Sequence[Model]
    statistics: Array
    groups: Sequence[Any] | None = None
    rows: Array | None = None
    rng: Generator | None = None
    test: Array | None = None
    lenient: bool = False
    own: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        statistics = np.asarray(self.statistics, dtype=np.float64)
        if statistics.ndim < 2:
            raise DataError(f"statistics must have shape (..., provider, statistic), not {statistics.shape}")
        object.__setattr__(self, "statistics", statistics)
        object.__setattr__(self, "own", statistics)
        if self.rng is not None:
            check_generator(self.rng)
        if not isinstance(self.model, Model) and len(self.model) != self.providers:
            raise DataError(f"{len(self.model)} models for {self.providers} providers: give one model, or one each")
        if np.isneginf(statistics).any():
            impossible = np.isneginf(self.evidence.log_evidence(statistics))
            if impossible.any():
                provider = int(np.argwhere(impossible)[0][-1])
                raise DataError(f"provider {provider}: the report cannot occur under any state of the model: refuse it")

    @property
    def providers(self) -> int:
        """How many providers there are."""
        return int(np.shape(self.statistics)[-2])

    @cached_property
    def evidence(self) -> Model:
        """The model that all providers share for the evidence."""
        return shared_evidence(self.model)

    @property
    def models(self) -> list[Model]:
        """One model per provider."""
        return [self.model] * self.providers if isinstance(self.model, Model) else list(self.model)

    @cached_property
    def peers(self) -> Array:
        """For each provider the sum of its peers' statistics."""
        return leave_one_out(self.statistics, self.groups)

    @cached_property
    def peers_contradict(self) -> Any:
        """Where peers contradict each other, so that their data say nothing about anybody's (erratum E16)."""
        if not np.isneginf(self.peers).any():
            return np.zeros(self.peers.shape[:-1], dtype=bool)
        return np.isneginf(self.evidence.log_evidence(self.peers))

    def log_pmi(self) -> Array:
        """Log PMI of each own report with its peers; 0 where the peers contradict each other, whatever was reported."""
        if self.own is self.statistics:
            return np.where(self.peers_contradict, 0.0, peer_log_pmi(self.evidence, self.own, self.groups))
        return np.where(self.peers_contradict, 0.0, log_pmi(self.evidence, self.own, self.peers))

    def with_own(self, own: Array) -> Round:
        """Return the same round in which each provider is scored for another report, its peers' unchanged."""
        other = dataclasses.replace(self)
        object.__setattr__(other, "own", own)
        return other

    def with_nothing(self) -> Round:
        """Return the same round in which each provider is scored for an empty report."""
        return self.with_own(np.zeros_like(self.statistics))

    def count_rows(self) -> Array:
        """Rows behind every report, as given or as the models read them off."""
        if self.rows is not None:
            return np.broadcast_to(np.asarray(self.rows, dtype=np.float64), np.shape(self.statistics)[:-1])
        if isinstance(self.model, Model):
            return _rows(self.model, self.statistics)
        return np.stack([_rows(model, self.statistics[..., i, :]) for i, model in enumerate(self.model)], axis=-1)


def _rows(model: Model, statistics: Array) -> Array:
    if not isinstance(model, CountsRows):
        raise MissingCapabilityError(f"{type(model).__name__} does not tell numbers of rows: pass rows=")
    return model.rows(statistics)


@dataclass(frozen=True)
class Breakdown:
    """Why everybody earns what they earn: arrays with one entry per provider (and day).

    Attributes
    ----------
    share
        Share of the cap that is paid.
    log_pmi
        Log PMI of the report with its peers, in nats.
    score
        What is put on the scale from ``low`` to ``high``.
    terms
        The parts of the score, by name.
    note, noted
        Anything else that some providers should be told, and which.
    """

    share: Array
    log_pmi: Array | None = None
    score: Array | None = None
    low: Array | float = 0.0
    high: Array | float = 1.0
    terms: Mapping[str, Array] = field(default_factory=dict)
    note: str = ""
    noted: Any = False

    def explain(self, *index: int) -> str:
        """Explain one provider's share in words, for an index such as ``(provider,)`` or ``(day, provider)``.

        Examples
        --------
        >>> shares = Breakdown(np.array([0.25]), np.array([-6.0]), np.array([-6.0]), low=-8.0, high=0.0)
        >>> print(shares.explain(0))
        log PMI with peers: -6.0000 nats
        score: -6.0000 on a scale from -8.0000 to 0.0000
        share of the cap: 25.00%
        """
        lines = []
        if self.log_pmi is not None:
            lines.append(f"log PMI with peers: {self.log_pmi[index]:.4f} nats")
        lines += [f"{name}: {value[index]:.4f}" for name, value in self.terms.items() if not np.isnan(value[index])]
        if self.score is not None and np.isfinite(self.score[index]):
            low, high = (np.broadcast_to(end, np.shape(self.share))[index] for end in (self.low, self.high))
            lines.append(f"score: {self.score[index]:.4f} on a scale from {low:.4f} to {high:.4f}")
        lines.append(f"share of the cap: {self.share[index]:.2%}")
        noted = self.note and bool(np.broadcast_to(self.noted, np.shape(self.share))[index])
        return "\n".join([*lines, self.note] if noted else lines)


class Rule:
    """A payment rule: subclasses say in ``breakdown`` what share of its cap each provider earns."""

    individually_rational = True
    """Whether no payment is ever negative, and none above its cap."""

    days = 1
    """How many days a payment looks at."""

    constant_empty_share = False
    """Whether the share for an empty report is the same whatever peers report, so that bonds may be scaled by it."""

    pools_peers = False
    """Whether a payment depends on one's peers through their pooled data alone, so that an audit may pool them."""

    def breakdown(self, this_round: Round, /) -> Breakdown:
        """Return everybody's share of the cap and how it came about: the one method that a rule must have."""
        raise NotImplementedError

    def pay(
        self,
        model: Model | Sequence[Model],
        statistics: Array,
        *,
        budget: Amount,
        weights: Shares | None = None,
        groups: Sequence[Any] | None = None,
        rows: Any = None,
        rng: Generator | None = None,
    ) -> Array:
        """Pay everybody: amounts of shape ``(..., provider)``, never above the budget in all.

        Parameters
        ----------
        model
            One model, or one per provider that share a space of statistics.
        statistics
            Reports, ``(..., provider, statistic)``.
        budget
            What may be spent, one number or one per day.
        weights
            Announced shares of the budget that cap each provider; equal by default.
        groups
            One label per provider; none of a group is among another member's peers.
        rows
            Numbers of rows, only where statistics do not tell them.
        rng
            Only for rules that draw.
        """
        share = self.explain(model, statistics, groups=groups, rows=rows, rng=rng).share
        caps = self.cap(share.shape[-1], budget=budget, weights=weights)
        try:
            amounts = caps * share
        except ValueError:
            raise ParameterError(
                f"a budget of shape {np.shape(budget)} does not fit payments of shape {share.shape}"
            ) from None
        return np.asarray(
            amounts * (1 - (share.shape[-1] + 4) * 2.0**-52)
        )  # so that no order of adding them up exceeds the budget

    def explain(
        self,
        model: Model | Sequence[Model],
        statistics: Array,
        *,
        groups: Sequence[Any] | None = None,
        rows: Any = None,
        rng: Generator | None = None,
    ) -> Breakdown:
        """Return the breakdown behind `pay`: log PMI, terms, scale and share of everybody."""
        return self.evaluate(Round(model, statistics, groups, rows, rng))

    def evaluate(self, this_round: Round, /) -> Breakdown:
        """Return the breakdown of a round, with what every rule sees to: contradictions and bounds."""
        result = self.breakdown(this_round)
        if this_round.peers_contradict.any():
            share = np.where(this_round.peers_contradict, self.empty_share_of(this_round), result.share)
            result = dataclasses.replace(result, share=share, note=_CONTRADICTION, noted=this_round.peers_contradict)
        low, high = (0.0, 1.0) if self.individually_rational else (-np.inf, np.inf)
        outside = ~((result.share >= low) & (result.share <= high))
        if outside.any() and not this_round.lenient:
            where = tuple(int(i) for i in np.argwhere(outside)[0])
            raise ScoreOutOfRangeError(where[-1], float(result.share[where]), low, high, "share of the cap")
        return result

    def cap(self, providers: int, *, budget: Amount, weights: Shares | None = None) -> Array:
        """Return the most that each provider can earn: its weight times the budget."""
        amount = np.asarray(budget, dtype=np.float64)
        if not (np.isfinite(amount) & (amount >= 0)).all():
            raise ParameterError(f"the budget must be a number of at least 0, not {budget!r}")
        return amount[..., None] * _checked_weights(providers, weights)

    def empty_share(
        self,
        model: Model | Sequence[Model],
        statistics: Array,
        *,
        groups: Sequence[Any] | None = None,
        rows: Any = None,
        rng: Generator | None = None,
    ) -> Array:
        """Return the share of its cap that each provider would earn for sending nothing."""
        return self.empty_share_of(Round(model, statistics, groups, rows, rng))

    def empty_share_of(self, this_round: Round, /) -> Array:
        """Return everybody's share if they had reported nothing and their peers the same."""
        return self.breakdown(this_round.with_nothing()).share


def normalise(score: Array, low: float, high: float, lenient: bool = False) -> Array:
    """Put scores on the scale from low to high, as shares; one that lies outside stops the round, or is NaN.

    A difference in the last digits, as rounding makes it, is forgiven; more than that is an error with the provider.
    """
    slack = 1e-9 * (1 + abs(low) + abs(high))
    outside = ~((score >= low - slack) & (score <= high + slack))
    if outside.any() and not lenient:
        where = tuple(int(i) for i in np.argwhere(outside)[0])
        raise ScoreOutOfRangeError(where[-1], float(score[where]), low, high)
    share = np.asarray(np.clip((score - low) / (high - low), 0.0, 1.0))
    return np.where(outside, np.nan, share) if outside.any() else share


def group_weights(groups: Sequence[Any]) -> Array:
    """Weights that give every group one cap, split evenly among its members: one payment per group.

    Examples
    --------
    >>> group_weights(["a", "a", "b"])
    array([0.25, 0.25, 0.5 ])
    """
    sizes = Counter(groups)
    return np.array([1 / (len(sizes) * sizes[label]) for label in groups])


def _checked_weights(providers: int, weights: Shares | None) -> Array:
    if weights is None:
        return np.full(providers, 1 / max(providers, 1))
    shares = np.asarray(weights, dtype=np.float64)
    if shares.shape != (providers,):
        raise ParameterError(f"weights must be {providers} numbers, one per provider, not of shape {shares.shape}")
    total = fsum(shares)  # exact, so that it does not depend on the order of providers
    if not ((shares >= 0).all() and total <= 1 + 1e-9):
        raise ParameterError(f"weights must be at least 0 and sum to 1 at most, not to {total:.9g}")
    return shares / max(1.0, total)
