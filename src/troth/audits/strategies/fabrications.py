"""Lies that send data from elsewhere: drawn from the model, or reports of other days."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.audits.strategies.row_shapes import count_rows, row_axis, values_of
from troth.audits.strategies.strategy import Knowledge, RowLie, SummaryLie
from troth.core.contract import Array, SamplesPosterior, explains_target
from troth.core.errors import ParameterError

if TYPE_CHECKING:
    from troth.core.contract import Generator


@dataclass(frozen=True)
class FabricateFromPrior(RowLie):
    """Make data up: parameters from the prior, rows from the parameters."""

    label = "fabricate from the prior"

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        parameters = model.draw_parameters(rng, values_of(model, data).shape[: row_axis(model)])
        return model.draw_data(rng, parameters, data[0] if explains_target(model) else count_rows(model, data))


@dataclass(frozen=True)
class FabricateFromPosterior(RowLie):
    """Make up ``times`` as many rows as there are, from the posterior given the true data."""

    times: float = 1.0

    suits_model = staticmethod(lambda model: isinstance(model, SamplesPosterior))

    def __str__(self) -> str:
        amount = "" if self.times == 1 else f"{self.times:g}× "
        return f"fabricate {amount}from own posterior"

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        parameters = model.draw_posterior(rng, model.statistics(data))
        design = data[0] if explains_target(model) else round(self.times * count_rows(model, data))
        return model.draw_data(rng, parameters, design)


@dataclass(frozen=True)
class FabricateFromPast(SummaryLie):
    """Send a report of another day: the liar's, or anybody's."""

    anybody: bool = False

    def __str__(self) -> str:
        return "fabricate from anybody's past" if self.anybody else "fabricate from own past"

    def change_summary(self, knowledge: Knowledge) -> Array:
        reports = knowledge.population if self.anybody else knowledge.past
        return np.asarray(reports[knowledge.rng.integers(0, len(reports), len(knowledge.own))])


@dataclass(frozen=True)
class SendStale(SummaryLie):
    """Send the liar's report of some days before once more."""

    age: int = 1

    def __post_init__(self) -> None:
        if self.age < 1 or self.age != int(self.age):
            raise ParameterError(f"SendStale: age must be a whole number of days of at least 1, not {self.age!r}")

    def __str__(self) -> str:
        return "send yesterday's report" if self.age == 1 else f"send the report of {self.age} days before"

    def change_summary(self, knowledge: Knowledge) -> Array:
        return knowledge.stale(self.age)
