"""Lies about the amount of data: more rows, fewer rows, or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.audits.strategies.row_shapes import count_rows, map_rows, take_rows
from troth.audits.strategies.strategy import RoundKnowledge, RowLie, SummaryLie
from troth.core.errors import DataError, ParameterError
from troth.core.reductions.reduction import TakesFewerRows, ThinsRows

if TYPE_CHECKING:
    from troth.core.contract import Array, Generator


@dataclass(frozen=True)
class Replicate(RowLie, SummaryLie):
    """Report every row several times."""

    times: int = 2

    label = "replicate {times} times"

    def __post_init__(self) -> None:
        check_positive_integer(self, self.times, "times")

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        return map_rows(model, data, lambda x, axis: np.concatenate([x] * self.times, axis=axis))

    def change_summary(self, knowledge: RoundKnowledge) -> Array:
        return self.times * knowledge.own


@dataclass(frozen=True)
class Withhold(RowLie, SummaryLie):
    """Withhold a share of the rows: the last ones, since rows are exchangeable."""

    share: float = 0.5

    label = "withhold {share:.0%}"
    suits_reduction = staticmethod(lambda reduction: isinstance(reduction, ThinsRows))

    def __post_init__(self) -> None:
        check_share(self)

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        return take_rows(model, data, 0, round(count_rows(model, data) * (1 - self.share)))

    def change_summary(self, knowledge: RoundKnowledge) -> Array:
        rows = np.round(knowledge.rows * (1 - self.share))
        return np.asarray(knowledge.reduction.thinned(knowledge.own, rows, knowledge.rng))


@dataclass(frozen=True)
class SendPart(SummaryLie):
    """Report one row in ``parts`` and preserve averages: labels are drawn from the true ones, sums are scaled."""

    parts: int = 2

    def __post_init__(self) -> None:
        check_positive_integer(self, self.parts, "parts")

    def __str__(self) -> str:
        return {2: "send half", 10: "send a tenth"}.get(self.parts, f"send one row in {self.parts}")

    def change_summary(self, knowledge: RoundKnowledge) -> Array:
        """Return a part of each summary; raise if it has too few rows for a report."""
        return np.array([self._part_of(own, knowledge) for own in knowledge.own])

    def _part_of(self, own: Array, knowledge: RoundKnowledge) -> Array:
        reduction = knowledge.reduction
        rows = int(reduction.rows(own)) // self.parts
        if rows < max(1, reduction.columns - 1):
            raise DataError(f"{self.name!r} leaves {rows} rows, too few for a report")
        scaled = own * rows / reduction.rows(own)
        part = reduction.with_fewer_rows(own, rows, knowledge.rng) if isinstance(reduction, TakesFewerRows) else scaled
        reduction.check(part)
        return np.asarray(part)


@dataclass(frozen=True)
class Nothing(RowLie, SummaryLie):
    """Report no rows at all."""

    label = "report nothing"

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        return take_rows(model, data, 0, 0)

    def change_summary(self, knowledge: RoundKnowledge) -> Array:
        return np.zeros_like(knowledge.own)


def check_positive_integer(strategy: Any, number: int, name: str) -> None:
    """Raise unless a number is an integer of at least 1."""
    if number < 1 or number != int(number):
        raise ParameterError(f"{type(strategy).__name__}: {name} must be a whole number of at least 1, not {number!r}")


def check_share(strategy: Any) -> None:
    """Raise unless a share is between 0 and 1."""
    if not 0 <= strategy.share <= 1:
        raise ParameterError(f"{type(strategy).__name__}: share must lie between 0 and 1, not {strategy.share!r}")
