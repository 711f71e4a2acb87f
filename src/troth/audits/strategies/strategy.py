"""Strategies, which compute a report from the true rows or from their summary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from troth.audits.strategies.row_shapes import count_rows
from troth.core.contract import Array, Generator, HasSummary, Model, explains_target
from troth.core.errors import MissingCapabilityError, ParameterError


class Play(NamedTuple):
    """All reports, ``(..., provider, statistic)``, the liar's accounts, and the number of rows of each account."""

    statistics: Array
    accounts: tuple[int, ...]
    rows: tuple[int, ...]


def one_report(honest: Array, liar: int, statistics: Array, rows: int) -> Play:
    """Return the play in which one provider reports ``statistics`` of ``rows`` rows and all others are honest."""
    reported = honest.copy()
    reported[..., liar, :] = statistics
    return Play(reported, (liar,), (rows,))


@dataclass(frozen=True)
class Strategy:
    """A way to report.

    Most strategies change one report: a `RowLie` its rows, a `SummaryLie` its summary. Strategies that change several
    reports override `play`.
    """

    label: ClassVar[str] = ""
    """The name of the strategy in tables, with placeholders for its options."""

    def __str__(self) -> str:
        return self.label.format(**vars(self)) if self.label else repr(self)

    def play(self, rng: Generator, model: Model, data: Any, honest: Array, liar: int) -> Play:
        """Return the round in which provider ``liar`` lies and all others are honest.

        ``data`` are the liar's rows, ``(..., row[, column])``, or features and target, ``(z, y)``; ``honest`` are the
        honest statistics of all providers, ``(..., provider, statistic)``.
        """
        raise MissingCapabilityError(f"{self.name!r} changes summaries, not rows: it can be backtested, not audited")

    @property
    def name(self) -> str:
        """The name of the strategy in tables."""
        return str(self)

    @property
    def needed_accounts(self) -> int:
        """The number of accounts that the strategy uses."""
        return 1


@dataclass(frozen=True)
class RowLie(Strategy):
    """A strategy that changes rows and can therefore be audited."""

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        """Return the rows to report instead of ``data``."""
        raise NotImplementedError

    @staticmethod
    def suits_model(model: Any) -> bool:
        """Whether the strategy makes sense for a model's rows."""
        return True

    def reported_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        """Return the changed rows; raise if the strategy does not suit the model's rows."""
        if not self.suits_model(model):
            raise MissingCapabilityError(
                f"{self.name!r} does not suit rows of {type(model).__name__}: troth.strategies.lies_for_model(model) "
                "lists the lies that do"
            )
        return self.change_rows(rng, model, data)

    def play(self, rng: Generator, model: Model, data: Any, honest: Array, liar: int) -> Play:
        rows = self.reported_rows(rng, model, data)
        return one_report(honest, liar, statistics_of(model, rows), count_rows(model, rows))


@dataclass(frozen=True)
class RoundKnowledge:
    """What a provider knows when it lies in a round.

    Attributes
    ----------
    reduction
        The reduction of rows to summaries, and its operations on these; None if a custom model reports statistics.
    own
        The provider's true summaries, ``(round, entry)``.
    rng
        A generator for lies that draw.
    public
        The summary of public rows, if there are any.
    """

    reduction: Any
    own: Array
    rng: Generator
    public: Array | None = field(default=None, kw_only=True)

    @property
    def rows(self) -> Array:
        """The numbers of rows of its reports, ``(round,)``."""
        return np.asarray(self.reduction.rows(self.own))


@dataclass(frozen=True)
class Knowledge(RoundKnowledge):
    """What a provider knows when it lies on past days, each of which is a round.

    Attributes
    ----------
    stale
        A function that returns, for each day, the latest report that is at least a number of days older,
        ``(day, entry)``; zeros if there is none.
    past
        The provider's reports of the other days, ``(day, entry)``.
    population
        The reports of all providers of the other days, ``(report, entry)``.
    rehearse
        A function that returns a lie's shares on the public days under the model that will pay; NaN without a report.
    """

    stale: Callable[[int], Array]
    past: Array
    population: Array
    rehearse: Callable[[SummaryLie], Array]

    @cached_property
    def mean(self) -> Array:
        """Frequencies of codes, or means of the columns, over its own past, ``(code or column,)``."""
        return np.asarray(self.reduction.means(self.past.sum(axis=0)))

    @cached_property
    def spread(self) -> Array:
        """Standard deviation of its own daily means, ``(code or column,)``."""
        return np.asarray(self.reduction.means(self.past).std(axis=0))


@dataclass(frozen=True)
class SummaryLie(Strategy):
    """A strategy that changes a summary, so that it can be backtested on past days without their rows.

    It may use what a liar would have known: its own report of the day, its earlier reports, and all providers' reports
    of other days. A strategy that only needs `RoundKnowledge` can be replayed in any round.
    """

    def change_summary(self, knowledge: Knowledge) -> Array:
        """Return the summaries to report instead of ``knowledge.own``."""
        raise NotImplementedError

    @staticmethod
    def suits_reduction(reduction: Any) -> bool:
        """Whether the strategy makes sense for summaries of a reduction."""
        return True


@dataclass(frozen=True)
class Truthful(RowLie, SummaryLie):
    """Report the data."""

    label = "tell the truth"

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        return data

    def change_summary(self, knowledge: RoundKnowledge) -> Array:
        return knowledge.own


@dataclass(frozen=True)
class _Function(RowLie):
    """A custom strategy, ``lie(data, rng) -> data``."""

    function: Callable[[Any, Generator], Any]

    def __str__(self) -> str:
        return getattr(self.function, "__name__", "custom strategy").replace("_", " ")

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        """Call the function on a copy, so that changes in place do not affect the honest data."""
        own = tuple(np.array(x) for x in data) if explains_target(model) else np.array(data)
        return self.function(own, rng)


Lie: TypeAlias = Strategy | Callable[[Any, Generator], Any]


def as_strategy(lie: Lie) -> Strategy:
    """Return a strategy unchanged, or wrap a function as one."""
    if isinstance(lie, Strategy):
        return lie
    if not callable(lie):
        raise ParameterError(f"a lie is a strategy or a function lie(data, rng) -> data, not {lie!r}")
    return _Function(lie)


def statistics_of(model: Any, data: Any) -> Array:
    """Return the statistics of reported rows, even if no state could have produced them."""
    if isinstance(model, HasSummary):
        return np.asarray(model.from_summary(model.summary(data)))
    return np.asarray(model.statistics(data))
