"""The base class of payment rules: caps, and how a share becomes a payment.

A rule has one method, ``breakdown``, which returns the share of its cap that each provider earns, and the numbers
behind it. Amounts, empty shares, bonds and explanations derive from this method.
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
    """A payment rule. Subclasses implement ``breakdown``, which returns each provider's share of its cap."""

    def breakdown(self, this_round: Round, /) -> Breakdown:
        """Return each provider's share of its cap, and the numbers behind it: the only method that a rule must have."""
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
        """Return payments of shape ``(..., provider)``, whose sum never exceeds the budget.

        Parameters
        ----------
        model
            One model, or one per provider that share a space of statistics.
        statistics
            Reports, ``(..., provider, statistic)``.
        budget
            The maximum total payment, one number or one per day.
        weights
            Announced shares of the budget that cap each provider; equal by default.
        groups
            One label per provider; members of a group are never each other's peers.
        rows
            Numbers of rows, only if statistics do not contain them.
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
        room_for_rounding = (share.shape[-1] + 4) * 2.0**-52  # the sum stays within the budget in every order
        return np.asarray(amounts * (1 - room_for_rounding))

    def explain(self, model: Models, statistics: Array, **reports: Any) -> Breakdown:
        """Return the breakdown behind `pay`; see there for ``groups``, ``rows`` and ``rng``."""
        return self.evaluate(Round(model, statistics, **reports))

    def evaluate(self, this_round: Round, /) -> Breakdown:
        """Return the breakdown of a round, with the checks common to all rules: limits, contradictions and bounds.

        If the round cannot be paid, the error names the reports without which it can.
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
        self._check_generator(this_round)
        result = self._check_shape(self.breakdown(this_round), this_round)
        result = dataclasses.replace(result, labels=self.term_labels)
        contradicted = self.contradicted(this_round)
        if contradicted.any():
            share = np.where(contradicted, self.evaluate_empty(this_round), result.share)
            score = None if result.score is None else np.where(contradicted, np.nan, result.score)
            result = dataclasses.replace(result, share=share, score=score, note=_CONTRADICTION, noted=contradicted)
        low, high = (0.0, 1.0) if self.individually_rational else (-np.inf, np.inf)
        outside = ~((result.share >= low) & (result.share <= high))
        if not outside.any():
            return result
        if this_round.lenient:
            return dataclasses.replace(result, share=np.where(outside, np.nan, result.share))
        where = tuple(int(i) for i in np.argwhere(outside)[0])
        raise ScoreOutOfRangeError(where[-1], float(result.share[where]), low, high, "share of the cap")

    def _check_generator(self, this_round: Round) -> None:
        if self.needs_seed and this_round.rng is None:
            raise MissingCapabilityError(
                f"{self.name} draws random numbers: pass rng=, such as numpy.random.default_rng(secret)"
            )

    def _check_shape(self, result: Any, this_round: Round) -> Breakdown:
        """Check that a breakdown has one share for each report."""
        if not isinstance(result, Breakdown):
            raise ParameterError(f"{self.name}: breakdown must return a troth.Breakdown, not {type(result).__name__}")
        expected, shape = this_round.statistics.shape[:-1], np.shape(result.share)
        if shape != expected:
            raise ParameterError(f"{self.name}: breakdown must return shares of shape {expected}, not {shape}")
        return result

    def contradicted(self, this_round: Round, /) -> Any:
        """Return a mask of providers paid as for an empty report because their peers contradict each other (E16)."""
        return this_round.peers_contradict

    @classmethod
    def task_defaults(cls, model: Model, rows: int = 1) -> dict[str, Any]:
        """Return the default settings of campaigns of tasks with up to ``rows`` rows in a report."""
        return {}

    @classmethod
    def first_defaults(cls, reports: int) -> dict[str, Any]:
        """Return the default settings of a first campaign with this number of reports."""
        return {}

    def evaluate_tasks(self, tasks: Tasks, rng: Generator | None = None, /) -> TaskShares:
        """Return the share of each report; each task is a separate round."""
        return share_by_stacks(self, tasks, rng)

    def cap(self, providers: int, *, budget: Amount, weights: Shares | None = None) -> Array:
        """Return the most that each provider can earn: its weight times the budget."""
        amount = np.asarray(budget, dtype=np.float64)
        if not (np.isfinite(amount) & (amount >= 0)).all():
            raise ParameterError(f"the budget must be a number of at least 0, not {budget!r}")
        return amount[..., None] * _checked_weights(providers, weights)

    def empty_share(self, model: Models, statistics: Array, **reports: Any) -> Array:
        """Return the share of its cap that each provider would earn for an empty report, with its peers unchanged."""
        return self.evaluate_empty(Round(model, statistics, **reports))

    def evaluate_empty(self, this_round: Round, /) -> Array:
        """Return each provider's empty share in a round."""
        self._check_generator(this_round)
        return self.breakdown(this_round.with_own(np.zeros_like(this_round.statistics))).share

    def deposit_shares(self, this_round: Round, /) -> Any:
        """Return the most that each provider can lose, as exact fractions of its cap."""
        return np.full(this_round.statistics.shape[:-1], Fraction(0), dtype=object)

    def prepared(self, model: Models, rows: Sequence[int] | None, values: Bounds | None = None) -> Rule:
        """Return the rule with everything computed that depends on the model and on maximum numbers of rows."""
        return self

    def check_payable(self, model: Models, rows: Sequence[int], groups: Sequence[Any] | None = None) -> None:
        """Reject models that this rule cannot pay for these numbers of rows."""
        rng = np.random.default_rng(0)
        self.drawing(1).evaluate(empty_round(model, len(rows), self.days, groups=groups, rng=rng))

    def drawing(self, max_draws: int) -> Rule:
        """Return a rule that draws peers at most ``max_draws`` times, and pays the same in expectation."""
        return self

    def in_expectation(self) -> Rule:
        """Return a rule that pays the same in expectation without draws, possibly over the peers of a second day."""
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
