"""What every payment rule shares: caps, and how a share becomes a payment.

A rule is a class with one method, ``breakdown``, which says what share of its cap each provider earns and why. Amounts,
empty shares, bonds and explanations derive from it.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from fractions import Fraction
from math import fsum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from troth.core.errors import MissingCapabilityError, ParameterError, ScoreOutOfRangeError
from troth.mechanisms.breakdown import Breakdown
from troth.mechanisms.description import RuleDescription
from troth.mechanisms.round import Round, empty_round
from troth.mechanisms.tasks import Tasks, TaskShares, share_by_stacks
from troth.mechanisms.unpayable_rounds import may_be_due_to_reports, name_reports, reject_oversized

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.contract import Array, Bounds, Generator, Model, Models

    Amount: TypeAlias = float | Sequence[float] | Array
    Shares: TypeAlias = Sequence[float] | Array

_CONTRADICTION = "where peers contradict each other, a report is paid as if it were empty, whatever it says"


class Rule(RuleDescription):
    """A payment rule: subclasses return in ``breakdown`` what share of its cap each provider earns."""

    def breakdown(self, this_round: Round, /) -> Breakdown:
        """Return everybody's share of the cap and how it came about: the one method that a rule must have."""
        raise NotImplementedError

    def pay(
        self,
        model: Models,
        statistics: Array,
        *,
        budget: Amount,
        weights: Shares | None = None,
        groups: Sequence[Any] | None = None,
        rows: Any = None,
        rng: Generator | None = None,
    ) -> Array:
        """Pay everybody: amounts of shape ``(..., provider)``, whose sum never exceeds the budget.

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
            One label per provider; members of a group are never each other's peers.
        rows
            Numbers of rows, only where statistics do not say them.
        rng
            Only for rules that draw.
        """
        share = self.evaluate(Round(model, statistics, groups, rows, rng)).share
        caps = self.cap(share.shape[-1], budget=budget, weights=weights)
        try:
            amounts = caps * share
        except ValueError:
            raise ParameterError(
                f"a budget of shape {np.shape(budget)} does not fit payments of shape {share.shape}"
            ) from None
        room_for_rounding = (share.shape[-1] + 4) * 2.0**-52  # no order of adding them up exceeds the budget
        return np.asarray(amounts * (1 - room_for_rounding))

    def explain(self, model: Models, statistics: Array, **reports: Any) -> Breakdown:
        """Return the breakdown behind `pay`, which explains ``groups``, ``rows`` and ``rng``."""
        return self.evaluate(Round(model, statistics, **reports))

    def evaluate(self, this_round: Round, /) -> Breakdown:
        """Return the breakdown of a round, with the checks of every rule: limits, contradictions and bounds.

        If the round cannot be paid, the error names the report without which it can.
        """
        if this_round.lenient:
            return self._evaluate(this_round)
        reject_oversized(this_round)
        untouched = dataclasses.replace(this_round, rng=copy.deepcopy(this_round.rng), progress=None)
        try:
            return self._evaluate(this_round)
        except Exception as error:
            if may_be_due_to_reports(error):
                raise name_reports(error, untouched, self._evaluate) from error
            raise

    def _evaluate(self, this_round: Round, /) -> Breakdown:
        self._check_draws(this_round)
        result = dataclasses.replace(self._checked(self.breakdown(this_round), this_round), labels=self.term_labels)
        contradicted = self.contradicted(this_round)
        if contradicted.any():
            share = np.where(contradicted, self.evaluate_empty(this_round), result.share)
            score = None if result.score is None else np.where(contradicted, np.nan, result.score)
            result = dataclasses.replace(result, share=share, score=score, note=_CONTRADICTION, noted=contradicted)
        low, high = (0.0, 1.0) if self.individually_rational else (-np.inf, np.inf)
        outside = ~((result.share >= low) & (result.share <= high))
        if outside.any() and this_round.lenient:
            return dataclasses.replace(result, share=np.where(outside, np.nan, result.share))
        if outside.any():
            where = tuple(int(i) for i in np.argwhere(outside)[0])
            raise ScoreOutOfRangeError(where[-1], float(result.share[where]), low, high, "share of the cap")
        return result

    def _check_draws(self, this_round: Round) -> None:
        if self.needs_seed and this_round.rng is None:
            raise MissingCapabilityError(
                f"{self.name} draws random numbers: pass rng=, such as numpy.random.default_rng(secret)"
            )

    def _checked(self, result: Any, this_round: Round) -> Breakdown:
        """Refuse what is not one share for each report."""
        if not isinstance(result, Breakdown):
            raise ParameterError(f"{self.name}: breakdown must return a troth.Breakdown, not {type(result).__name__}")
        expected, shape = this_round.statistics.shape[:-1], np.shape(result.share)
        if shape != expected:
            raise ParameterError(f"{self.name}: breakdown must return shares of shape {expected}, not {shape}")
        return result

    def contradicted(self, this_round: Round, /) -> Any:
        """Return who is paid as for an empty report because all its peers together contradict each other (E16)."""
        return this_round.peers_contradict

    @classmethod
    def task_defaults(cls, model: Model, rows: int = 1) -> dict[str, Any]:
        """Return settings that campaigns of many small tasks, with up to ``rows`` rows in a report, have by default."""
        return {}

    @classmethod
    def first_defaults(cls, reports: int) -> dict[str, Any]:
        """Return settings that a first campaign has by default, whose data hold this many reports."""
        return {}

    def evaluate_tasks(self, tasks: Tasks, rng: Generator | None = None, /) -> TaskShares:
        """Return everybody's share of every task; each task is a separate round."""
        return share_by_stacks(self, tasks, rng)

    def cap(self, providers: int, *, budget: Amount, weights: Shares | None = None) -> Array:
        """Return the most that each provider can earn: its weight times the budget."""
        amount = np.asarray(budget, dtype=np.float64)
        if not (np.isfinite(amount) & (amount >= 0)).all():
            raise ParameterError(f"the budget must be a number of at least 0, not {budget!r}")
        return amount[..., None] * _checked_weights(providers, weights)

    def empty_share(self, model: Models, statistics: Array, **reports: Any) -> Array:
        """Return the share of its cap that each provider would earn for an empty report, its peers' unchanged."""
        return self.evaluate_empty(Round(model, statistics, **reports))

    def evaluate_empty(self, this_round: Round, /) -> Array:
        """Return everybody's empty share in a round."""
        self._check_draws(this_round)
        return self.breakdown(this_round.with_own(np.zeros_like(this_round.statistics))).share

    def deposit_shares(self, this_round: Round, /) -> Any:
        """Return the most that each provider can lose, as exact fractions of its cap."""
        return np.full(this_round.statistics.shape[:-1], Fraction(0), dtype=object)

    def prepared(self, model: Models, rows: Sequence[int] | None, values: Bounds | None = None) -> Rule:
        """Return the rule with all that depends on the model and on the most rows of each provider worked out."""
        return self

    def check_payable(self, model: Models, rows: Sequence[int], groups: Sequence[Any] | None = None) -> None:
        """Refuse models that this rule cannot pay for these numbers of rows."""
        silent = np.random.default_rng(0)
        self.drawing(1).evaluate(empty_round(model, len(rows), self.days, groups=groups, rng=silent))

    def drawing(self, max_draws: int) -> Rule:
        """Return a rule that draws peers at most ``max_draws`` times, and pays the same in expectation."""
        return self

    def in_expectation(self) -> Rule:
        """Return a rule that draws nothing and pays the same in expectation, perhaps over the peers of a second day."""
        return self


def group_weights(groups: Sequence[Any]) -> Array:
    """Return weights that give every group one cap, split evenly among its members.

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
        raise ParameterError(f"weights must be at least 0 and sum to at most 1, not {total:.9g}")
    return shares / max(1.0, total)
