"""A round of reports, as a payment rule sees it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from troth.core.contract import Array, CountsRows, Generator, HasFiniteStates, Model, Models
from troth.core.errors import DataError, MissingCapabilityError, ReportError
from troth.core.information import HasWidth, check_generator, impossible, leave_one_out, log_pmi, peer_log_pmi
from troth.core.provider_models import one_each, shared_evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from troth.mechanisms.log_pmi_cache import LogPmiCache

Label = TypeVar("Label")


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
        Numbers of rows, where statistics do not say them.
    rng
        For rules that draw.
    test
        Statistics of a test set, ``(..., statistic)``, for baselines that need one.
    lenient
        Give a score outside its range the share NaN instead of stopping the round: for audits of lies that an analyst
        would refuse.
    cache
        Log PMI with decoys, shared by rounds that differ only in own reports and draw with the same seed.
    progress
        Called with the part of all draws that is done, from 0 to 1, by rules that draw.
    """

    model: Models
    statistics: Array
    groups: Sequence[Any] | None = None
    rows: Array | None = None
    rng: Generator | None = None
    test: Array | None = None
    lenient: bool = False
    cache: LogPmiCache | None = field(default=None, repr=False)
    progress: Callable[[float], None] | None = field(default=None, repr=False)
    own: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        statistics = np.asarray(self.statistics, dtype=np.float64)
        if statistics.ndim < 2:
            raise DataError(f"statistics must have shape (..., provider, statistic), not {statistics.shape}")
        if not statistics.shape[-2]:
            raise DataError("there are no providers to pay: give at least one report")
        for name in ("statistics", "own"):
            object.__setattr__(self, name, statistics)
        if self.rng is not None:
            check_generator(self.rng)
        one_each(self.model, self.providers)  # checks them
        ruled_out = np.isneginf(statistics)
        if ruled_out.any():
            if not isinstance(self.evidence, HasFiniteStates):
                *_, provider, entry = (int(i) for i in np.argwhere(ruled_out)[0])
                problem = f"statistic {entry} is -inf, which only log-likelihoods of finitely many states can be"
                raise ReportError(provider, f"{problem}: leave this report out")
            refused = impossible(self.evidence, statistics)
            if refused.any():
                provider = int(np.argwhere(refused)[0][-1])
                raise ReportError(provider, "the report cannot occur under any state of the model: leave it out")

    @property
    def providers(self) -> int:
        """How many providers there are."""
        return int(np.shape(self.statistics)[-2])

    @cached_property
    def evidence(self) -> Model:
        """The model that all providers share for the evidence."""
        return shared_evidence(self.model)

    @property
    def providers_by_model(self) -> dict[Model, list[int]]:
        """The providers of each distinct model, the models in an order that does not depend on who comes first."""
        if isinstance(self.model, Model):
            return {self.model: list(range(self.providers))}
        return dict(sorted(places_of(self.model).items(), key=lambda item: repr(item[0])))

    @cached_property
    def peers(self) -> Array:
        """For each provider the sum of its peers' statistics."""
        return leave_one_out(self.statistics, self.groups)

    @cached_property
    def peers_contradict(self) -> Any:
        """Where peers contradict each other, so that their data say nothing about anybody's (erratum E16)."""
        return impossible(self.evidence, self.peers)

    def log_pmi(self) -> Array:
        """Log PMI of each own report with its peers; 0 where the peers contradict each other, whatever was reported."""
        if self.own is self.statistics:
            return np.where(self.peers_contradict, 0.0, peer_log_pmi(self.evidence, self.own, self.groups))
        return np.where(self.peers_contradict, 0.0, log_pmi(self.evidence, self.own, self.peers))

    def with_own(self, own: Array) -> Round:
        """Return the same round with each provider scored for another report, its peers' unchanged."""
        other = dataclasses.replace(self)
        object.__setattr__(other, "own", own)
        return other

    def report_progress(self, part: float) -> None:
        """Say what part of all draws is done."""
        if self.progress is not None:
            self.progress(part)

    def on_days(self, days: int | slice) -> Round:
        """Return the round of one day, or of several days, of a round over days; it reports no progress of its own."""
        rows = None if self.rows is None else self.count_rows()[..., days, :]
        other = dataclasses.replace(self, statistics=self.statistics[..., days, :, :], rows=rows, progress=None)
        return other if self.own is self.statistics else other.with_own(self.own[..., days, :, :])

    def among_all(self, entries: Array, members: list[int]) -> Array:
        """Return entries of some providers, ``(..., member, entry)``, among those of all; the others have zeros."""
        if len(members) == self.providers:
            return entries
        scattered = np.zeros((*entries.shape[:-2], self.providers, entries.shape[-1]))
        scattered[..., members, :] = entries
        return scattered

    def count_rows(self) -> Array:
        """Rows behind every report, as given or as counted by the models."""
        if self.rows is not None:
            return np.broadcast_to(np.asarray(self.rows, dtype=np.float64), np.shape(self.statistics)[:-1])
        if isinstance(self.model, Model):
            return _rows(self.model, self.statistics)
        return np.stack([_rows(model, self.statistics[..., i, :]) for i, model in enumerate(self.model)], axis=-1)


def places_of(labels: Iterable[Label]) -> dict[Label, list[int]]:
    """Return where each label is among others, such as the providers of each model or group."""
    places: dict[Label, list[int]] = {}
    for place, label in enumerate(labels):
        places.setdefault(label, []).append(place)
    return places


def empty_round(model: Models, providers: int, days: int = 1, **reports: Any) -> Round:
    """Return a round of empty reports, or several days of them for a rule that compares days."""
    first = one_each(model)[0]
    width = first.width if isinstance(first, HasWidth) else np.shape(first.statistics([]))[-1]
    shape = (providers,) if days == 1 else (days, providers)
    return Round(model, np.zeros((*shape, width)), rows=np.zeros(shape), **reports)


def _rows(model: Model, statistics: Array) -> Array:
    if not isinstance(model, CountsRows):
        raise MissingCapabilityError(f"{type(model).__name__} does not count rows: pass rows=")
    return model.rows(statistics)
