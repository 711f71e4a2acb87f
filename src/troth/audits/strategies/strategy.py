"""Strategies: a report in place of the truth, computed from rows or from a summary."""

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
    """What is reported, ``(..., provider, statistic)``, the liar's accounts, and how many rows each of them reports."""

    statistics: Array
    accounts: tuple[int, ...]
    rows: tuple[int, ...]


def one_report(honest: Array, liar: int, statistics: Array, rows: int) -> Play:
    """Return the play in which one provider reports these statistics of ``rows`` rows, and nobody else lies."""
    reported = honest.copy()
    reported[..., liar, :] = statistics
    return Play(reported, (liar,), (rows,))


@dataclass(frozen=True)
class Strategy:
    """A way to report.

    Most strategies change one report: a `RowLie` its rows, a `SummaryLie` its summary. Strategies that need more than
    one report have a `play` of their own.
    """

    label: ClassVar[str] = ""
    """What it is called in tables, with its options in braces."""

    def __str__(self) -> str:
        return self.label.format(**vars(self)) if self.label else repr(self)

    def play(self, rng: Generator, model: Model, data: Any, honest: Array, liar: int) -> Play:
        """Return the round in which provider ``liar`` lies and everybody else is honest.

        ``data`` are the liar's rows, ``(..., row[, column])``, or features and target, ``(z, y)``, and ``honest`` are
        everybody's honest statistics, ``(..., provider, statistic)``.
        """
        raise MissingCapabilityError(f"{self.name!r} changes summaries, not rows: it can be backtested, not audited")

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return str(self)

    @property
    def needed_accounts(self) -> int:
        """How many accounts it takes."""
        return 1


@dataclass(frozen=True)
class RowLie(Strategy):
    """A strategy that changes rows, so that it can be audited."""

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        """Return the rows to report instead of ``data``."""
        raise NotImplementedError

    @staticmethod
    def suits_model(model: Any) -> bool:
        """Whether it makes sense for a model's rows."""
        return True

    def reported_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        """Return the changed rows, or raise if such rows cannot be changed like this."""
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
        How rows became the summaries, with all that it can do to these; None where a custom model reports statistics.
    own
        Its true summaries, ``(round, entry)``.
    rng
        For lies that draw.
    public
        The summary of public rows, if there are any.
    """

    reduction: Any
    own: Array
    rng: Generator
    public: Array | None = field(default=None, kw_only=True)

    @property
    def rows(self) -> Array:
        """Rows of its own reports, ``(round,)``."""
        return np.asarray(self.reduction.rows(self.own))


@dataclass(frozen=True)
class Knowledge(RoundKnowledge):
    """What a provider knows when it lies on past days, each of which is a round.

    Attributes
    ----------
    stale
        Its latest report that is older than each of them by a number of days, ``(day, entry)``; zeros if there is none.
    past
        Its own reports of the other days, ``(day, entry)``.
    population
        Everybody's reports of the other days, ``(report, entry)``.
    rehearse
        What a lie would have earned it on each public day under the model that will pay, NaN where it did not report.
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
    """A strategy that changes a summary, so that it can be backtested on past days whose rows are long gone.

    It may use what a liar would have known: its own report of the day, its own earlier reports, and everybody's
    reports of other days. One that needs nothing but `RoundKnowledge` can be replayed in any round.
    """

    def change_summary(self, knowledge: Knowledge) -> Array:
        """Return the summaries to report instead of ``knowledge.own``."""
        raise NotImplementedError

    @staticmethod
    def suits_reduction(reduction: Any) -> bool:
        """Whether it makes sense for summaries of a reduction."""
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
        """Call the function, on a copy: what it does to its rows must not reach anybody else."""
        own = tuple(np.array(x) for x in data) if explains_target(model) else np.array(data)
        return self.function(own, rng)


Lie: TypeAlias = Strategy | Callable[[Any, Generator], Any]


def as_strategy(lie: Lie) -> Strategy:
    """Return a strategy for a strategy or for a function."""
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
