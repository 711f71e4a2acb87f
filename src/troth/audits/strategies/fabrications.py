"""Lies that send other data: drawn from the model, reports of other days, or public data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.audits.strategies.amounts import check_positive_integer
from troth.audits.strategies.row_shapes import count_rows, row_axis, values_of
from troth.audits.strategies.strategy import Knowledge, RoundKnowledge, RowLie, SummaryLie
from troth.core.contract import Array, SamplesPosterior, SamplesStatistics, explains_target
from troth.core.errors import MissingCapabilityError
from troth.core.provider_models import one_each

if TYPE_CHECKING:
    from troth.core.contract import Generator
    from troth.mechanisms import Round


@dataclass(frozen=True)
class FabricateFromPrior(RowLie):
    """Make data up: draw parameters from the prior, and rows given the parameters."""

    label = "fabricate from the prior"

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        parameters = model.draw_parameters(rng, values_of(model, data).shape[: row_axis(model)])
        return model.draw_data(rng, parameters, data[0] if explains_target(model) else count_rows(model, data))

    def change_statistics(self, rng: Generator, this_round: Round) -> Array:
        """Draw the statistics of all providers with their rows and features, for rounds whose rows are gone."""
        t, model, evidence = this_round.statistics, this_round.model, this_round.evidence
        if not isinstance(evidence, SamplesStatistics):
            raise MissingCapabilityError(f"{type(evidence).__name__} cannot draw statistics, so they cannot be made up")
        theta = evidence.draw_parameters(rng, t.shape[:-1])
        if isinstance(model, SamplesStatistics):
            return model.draw_statistics(rng, theta, model.design(t))
        models = enumerate(one_each(model))
        drawn = [own.draw_statistics(rng, theta[..., i, :], own.design(t[..., i, :])) for i, own in models]
        return np.stack(drawn, axis=-2)


@dataclass(frozen=True)
class FabricateFromPosterior(RowLie):
    """Make data up: draw ``times`` as many rows as there are from the posterior given the true data."""

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
    """Send the liar's report from ``age`` days earlier again."""

    age: int = 1

    def __post_init__(self) -> None:
        check_positive_integer(self, self.age, "age")

    def __str__(self) -> str:
        return "send yesterday's report" if self.age == 1 else f"send the report from {self.age} days earlier"

    def change_summary(self, knowledge: Knowledge) -> Array:
        return knowledge.stale(self.age)


@dataclass(frozen=True)
class CopyPublic(SummaryLie):
    """Report the public rows."""

    label = "copy the public data"

    def change_summary(self, knowledge: RoundKnowledge) -> Array:
        """Repeat the public summary."""
        if knowledge.public is None:
            raise MissingCapabilityError(f"{self.name!r}: there are no public data")
        return np.broadcast_to(knowledge.public, knowledge.own.shape)
