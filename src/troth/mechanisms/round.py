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
    """The reports of a round, and everything else that a rule may use.

    Attributes
    ----------
    model
        One model, or one per provider that share a space of statistics.
    statistics
        All reports, ``(..., provider, statistic)``.
    groups
        One label per provider; members of a group are never each other's peers.
    rows
        Numbers of rows, if statistics do not contain them.
    rng
        The generator of rules that draw.
    test
        Statistics of a test set, ``(..., statistic)``, for baselines that need one.
    lenient
        Give scores outside their range the share NaN instead of stopping the round, for audits of lies that an analyst
        would reject.
    cache
        Log PMI with decoys, shared by rounds that differ only in own reports and draw with the same seed.
    progress
        Called by rules that draw with the fraction of draws done, from 0 to 1.
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
        one_each(self.model, self.providers)  # checks the models
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
        """The number of providers."""
        return int(np.shape(self.statistics)[-2])

    @cached_property
    def evidence(self) -> Model:
        """The model of the evidence, which all providers share."""
        return shared_evidence(self.model)

    @property
    def providers_by_model(self) -> dict[Model, list[int]]:
        """The providers of each distinct model; the order of models does not depend on that of providers."""
        if isinstance(self.model, Model):
            return {self.model: list(range(self.providers))}
        return dict(sorted(indexes_by_label(self.model).items(), key=lambda item: repr(item[0])))

    @cached_property
    def peers(self) -> Array:
        """The sum of each provider's peers' statistics."""
        return leave_one_out(self.statistics, self.groups)

    @cached_property
    def peers_contradict(self) -> Any:
        """A mask of providers whose peers contradict each other, so that their data carry no information (E16)."""
        return impossible(self.evidence, self.peers)

    def log_pmi(self) -> Array:
        """Return log PMI of each own report with its peers; 0 if these contradict each other."""
        if self.own is self.statistics:
            return np.where(self.peers_contradict, 0.0, peer_log_pmi(self.evidence, self.own, self.groups))
        return np.where(self.peers_contradict, 0.0, log_pmi(self.evidence, self.own, self.peers))

    def with_own(self, own: Array) -> Round:
        """Return the round with each provider scored for a different report, and its peers unchanged."""
        other = dataclasses.replace(self)
        object.__setattr__(other, "own", own)
        return other

    def report_progress(self, part: float) -> None:
        """Report the fraction of draws done."""
        if self.progress is not None:
            self.progress(part)

    def on_days(self, days: int | slice) -> Round:
        """Return one or several days of a round over days, without progress reports."""
        rows = None if self.rows is None else self.count_rows()[..., days, :]
        other = dataclasses.replace(self, statistics=self.statistics[..., days, :, :], rows=rows, progress=None)
        return other if self.own is self.statistics else other.with_own(self.own[..., days, :, :])

    def scatter(self, entries: Array, members: list[int]) -> Array:
        """Scatter entries of some providers, ``(..., member, entry)``, over all providers, with zeros elsewhere."""
        if len(members) == self.providers:
            return entries
        scattered = np.zeros((*entries.shape[:-2], self.providers, entries.shape[-1]))
        scattered[..., members, :] = entries
        return scattered

    def count_rows(self) -> Array:
        """Return the number of rows of each report, as given or as counted by the models."""
        if self.rows is not None:
            return np.broadcast_to(np.asarray(self.rows, dtype=np.float64), np.shape(self.statistics)[:-1])
        if isinstance(self.model, Model):
            return _rows(self.model, self.statistics)
        return np.stack([_rows(model, self.statistics[..., i, :]) for i, model in enumerate(self.model)], axis=-1)


def indexes_by_label(labels: Iterable[Label]) -> dict[Label, list[int]]:
    """Return the indexes of each distinct label, such as the providers of each model or group."""
    indexes: dict[Label, list[int]] = {}
    for index, label in enumerate(labels):
        indexes.setdefault(label, []).append(index)
    return indexes


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
