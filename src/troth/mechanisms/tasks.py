"""Many small rounds that are settled together: reports on tasks, and their shares.

Each task has its own θ and is a round of the providers who worked on it. Reports are compared only with reports on the
same task, so tasks do not affect each other's shares, and a payment is a sum of shares.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import DataError, ReportError
from troth.core.posterior import posterior
from troth.mechanisms.round import Round

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from troth.core.contract import Array, Generator, Indexes
    from troth.mechanisms.rule import Rule


@dataclass(frozen=True, eq=False)
class Tasks:
    """Reports on tasks, sorted by task: one for each task and each provider that worked on it.

    Attributes
    ----------
    task, provider
        The indexes of each report's task and provider, ``(report,)``.
    summaries
        The summary of each report, ``(report, entry)``.
    likelihoods, likelihood_of
        The distinct models, in one space of statistics, and the index of each provider's, ``(provider,)``.
    group
        The index of each provider's group of related providers, ``(provider,)``.
    known
        Statistics of the public data about each task, ``(task, statistic)``, or None.
    own
        Summaries to score instead of those reported, with peers unchanged, for audits.
    """

    task: Indexes
    provider: Indexes
    summaries: Array
    likelihoods: tuple[Any, ...]
    likelihood_of: Indexes
    group: Indexes
    known: Array | None = None
    own: Array | None = None

    def __post_init__(self) -> None:
        if (np.diff(self.task) < 0).any():
            raise DataError("reports must be sorted by task")

    def __len__(self) -> int:
        return len(self.task)

    @property
    def scored(self) -> Array:
        """The summaries that are scored."""
        return self.summaries if self.own is None else self.own

    def with_own(self, own: Array) -> Tasks:
        """Return the tasks with each provider scored for a different report, and its peers unchanged."""
        return replace(self, own=own)

    def statistics(self, summaries: Array) -> Array:
        """Return the statistics of each report under its provider's likelihood."""
        likelihood = self.likelihood_of[self.provider]
        first = np.asarray(self.likelihoods[0].from_summary(summaries[:1]))
        result = np.zeros((len(self), first.shape[-1]))
        order = np.argsort(likelihood, kind="stable")
        ends = np.searchsorted(likelihood[order], np.arange(len(self.likelihoods) + 1))
        for number, model in enumerate(self.likelihoods):
            reports = order[ends[number] : ends[number + 1]]
            if len(reports):
                result[reports] = model.from_summary(summaries[reports])
        return result

    def stacks(self) -> Iterator[tuple[Indexes, Any, Array | None]]:
        """Yield reports ``(task, provider)`` of tasks with equal likelihoods, groups and public data, and the last two.

        Reports on a task are sorted by likelihood, so that stacks do not depend on the order of a task's providers.
        """
        starts = np.flatnonzero(np.diff(self.task, prepend=-1))
        sizes = np.diff(starts, append=len(self))
        alone = len(np.unique(self.group)) == len(self.group)
        for size in np.unique(sizes).tolist():
            reports = starts[sizes == size][:, None] + np.arange(size)
            likelihood = self.likelihood_of[self.provider[reports]]
            order = np.argsort(likelihood, axis=1, kind="stable")
            reports = np.take_along_axis(reports, order, axis=1)
            group = self.group[self.provider[reports]]
            first = np.broadcast_to(np.arange(size), group.shape)
            if not alone:  # which providers are related, not which groups they have
                first = (group[:, :, None] == group[:, None, :]).argmax(axis=2)
            keys = [np.take_along_axis(likelihood, order, axis=1), first]
            if self.known is not None:
                known = self.known[self.task[reports[:, 0]]]
                keys.append(np.unique(known, axis=0, return_inverse=True)[1].reshape(-1, 1))
            _, inverse = np.unique(np.concatenate(keys, axis=1), axis=0, return_inverse=True)
            for number in range(int(inverse.max()) + 1):
                in_stack = inverse.ravel() == number
                z = None if self.known is None else self.known[self.task[reports[in_stack][0, 0]]]
                yield reports[in_stack], first[in_stack][0], z


@dataclass(frozen=True)
class TaskShares:
    """For each report its share, log PMI with its peers, the number of peers, and the empty share."""

    share: Array
    log_pmi: Array
    peers: NDArray[np.int64]
    empty_share: Array


def share_by_stacks(rule: Rule, tasks: Tasks, rng: Generator | None) -> TaskShares:
    """Evaluate tasks under any model and rule, with one call of the rule for each stack of similar tasks."""
    share, log_pmi, empty = np.zeros((3, len(tasks)))
    statistics = tasks.statistics(tasks.summaries)
    own = None if tasks.own is None else tasks.statistics(tasks.own)
    rows = np.asarray(tasks.likelihoods[0].reduction.rows(tasks.summaries))

    def round_of(model: Any, groups: list[int], reports: Indexes) -> Round:
        this_round = Round(model, statistics[reports], groups, rows[reports], rng)
        return this_round if own is None else this_round.with_own(own[reports])

    for reports, groups, known in tasks.stacks():
        models = [tasks.likelihoods[number] for number in tasks.likelihood_of[tasks.provider[reports[0]]]]
        model: Any = models[0] if len(set(map(id, models))) == 1 else models
        if known is not None:
            model = posterior(model, known)
        round_of_model = partial(round_of, model, groups.tolist())
        try:
            this_round = round_of_model(reports)
            result = rule.evaluate(this_round)
        except ReportError as error:
            raise _with_report_number(error, rule, round_of_model, reports) from None
        share[reports] = result.share
        log_pmi[reports] = this_round.log_pmi() if result.log_pmi is None else result.log_pmi
        empty[reports] = rule.evaluate_empty(this_round)
    return TaskShares(share, log_pmi, count_peers(tasks), empty)


def _with_report_number(
    error: ReportError, rule: Rule, round_of: Callable[[Indexes], Round], reports: Indexes
) -> ReportError:
    """Return the error with the index of the report: the rule knows only the place of its provider in a task."""
    for task in reports:
        try:
            rule.evaluate(round_of(task))
        except ReportError as alone:
            return ReportError(int(task[alone.provider]), alone.problem)
    return ReportError(int(reports[0, error.provider]), error.problem)


def count_peers(tasks: Tasks) -> NDArray[np.int64]:
    """Return, for each report, the number of providers of other groups who worked on the same task."""
    on_task = np.bincount(tasks.task)[tasks.task]
    pairs = tasks.task.astype(np.int64) * (int(tasks.group.max(initial=0)) + 1) + tasks.group[tasks.provider]
    _, inverse, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    return np.asarray(on_task - counts[inverse.ravel()], dtype=np.int64)
