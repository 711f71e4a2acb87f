"""Payments on a stretch of days under a model fitted to other days, for honest reports and for lies."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.audits.strategies import Knowledge, RowLie, SummaryLie
from troth.core.contract import Array, Mask, Model
from troth.core.errors import DataError
from troth.core.information import impossible
from troth.core.provider_models import shared_evidence
from troth.history.likelihood import daily_statistics
from troth.mechanisms import Round
from troth.mechanisms.log_pmi_cache import LogPmiCache

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from troth.core.past import History
    from troth.history.splits import Split
    from troth.mechanisms import Rule

_REHEARSAL_DRAWS = 16  # of rules that draw
_REHEARSAL_DAYS = 120  # recent public days on which a liar tries its lies


class Replay:
    """The paid days of a split, under the model that was fitted to the others."""

    def __init__(
        self,
        history: History,
        model: Any,
        rule: Rule,
        split: Split,
        seed: tuple[int, int],
        groups: Sequence[Any] | None = None,
    ) -> None:
        self.history, self.rule, self.split, self.seed = history, rule, split, seed
        self.model, self.groups = model, groups
        self.evidence = shared_evidence(model)
        self.summaries, self.present = history.summaries, history.present[split.paid]
        self.reported = self._statistics(self.summaries[split.paid])
        self.rows = history.reduction.rows(self.summaries[split.paid])
        self._earned: dict[SummaryLie, Array] = {}
        self._cache = LogPmiCache()

    @property
    def payable(self) -> Mask:
        """A mask of reports that can be paid; a rule that waits for the next day cannot pay the last one."""
        paid = self.present.copy()
        if self.rule.days > 1:
            paid[-1] = False
        return paid

    def honest(self, progress: Callable[[float], None] | None = None) -> Array:
        """Return the shares of the actual reports, NaN if a report cannot be paid."""
        share, paid = self._shares(self.reported, progress), self.payable
        if np.isnan(share[paid]).any():
            day, provider = (int(i) for i in np.argwhere(np.isnan(share) & paid)[0])
            raise DataError(
                f"day {self.history.days[self.split.paid[day]]}, provider {self.history.providers[provider]}: the "
                "report itself falls outside the rule's range, so the round could not have been paid; declare a wider "
                "range"
            )
        return np.where(paid, share, np.nan)

    def lying(
        self, lie: SummaryLie | RowLie, number: int, progress: Callable[[float], None] | None = None
    ) -> tuple[Array, Mask]:
        """Return the shares that each provider would have earned by a lie, and a mask of refusals.

        ``progress`` is called with the fraction that is done: one step per provider, and one for the payments.
        """
        reported = self.summaries[self.split.paid].copy()
        unknown = np.zeros(reported.shape[1], dtype=bool)
        providers = reported.shape[1]
        for provider in range(providers):
            knowledge = self._knowledge(provider, number)
            unknown[provider] = knowledge is None
            if knowledge is not None:
                reported[:, provider] = self._lie(lie, provider, knowledge)
            if progress is not None:
                progress((provider + 1) / (providers + 1))
        own = self._statistics(reported, np.ones_like(self.present))
        ruled_out = impossible(self.evidence, own)
        in_payment = scaled_progress(progress, providers, providers + 1)
        share = self._shares(np.where(ruled_out[..., None], 0.0, own), in_payment)
        refused = ruled_out | np.isnan(share)
        return np.where(unknown, np.nan, np.where(refused, 0.0, share)), refused & ~unknown

    def _lie(self, lie: SummaryLie | RowLie, provider: int, knowledge: Knowledge) -> Array:
        """Return a provider's lie, ``(day, entry)``: its changed summaries, or the summaries of its changed rows."""
        if isinstance(lie, SummaryLie) and lie.suits_reduction(knowledge.reduction):
            return lie.change_summary(knowledge)
        assert isinstance(lie, RowLie)  # noqa: S101 (it was chosen)
        rng = knowledge.rng
        history, model = self.history, self.model if isinstance(self.model, Model) else self.model[provider]
        changed = np.zeros((len(self.split.paid), history.reduction.width))
        for day in np.flatnonzero(self.present[:, provider]):
            table = history.tables[history.days[self.split.paid[day]], history.providers[provider]]  # type: ignore[index]
            rows = rng.permutation(table)  # tables are sorted, and some lies change the first rows
            z, y = lie.change_rows(rng, model, (rows[:, :-1], rows[:, -1]))
            changed[day] = history.reduction.of_rows(np.column_stack([z, y]))
        return changed

    def _knowledge(self, provider: int, number: int) -> Knowledge | None:
        """Return what a provider knows when it lies, or None if it reported nothing on the fitted days."""
        reduction, summaries = self.history.reduction, self.summaries
        own = summaries[:, provider]
        reported = reduction.rows(own) > 0
        past = own[self.split.fitted][reported[self.split.fitted]]
        pooled = summaries[self.split.fitted].reshape(-1, summaries.shape[-1])
        if not len(past):
            return None
        latest = np.maximum.accumulate(np.where(reported, np.arange(len(own)), -1))

        def stale(age: int) -> Array:
            day = self.split.paid - age
            reported_on = np.where(day >= 0, latest[day], -1)
            return np.where(reported_on[:, None] >= 0, own[reported_on], 0.0)

        return Knowledge(
            reduction,
            own[self.split.paid],
            np.random.default_rng([*self.seed, provider, number]),
            stale,
            past,
            pooled[reduction.rows(pooled) > 0],
            partial(self._rehearse, provider),
        )

    def _rehearse(self, provider: int, lie: SummaryLie) -> Array:
        """Return what a provider would have earned by a lie on each recent public day."""
        if lie not in self._earned:
            earned, _ = self._rehearsal.lying(lie, 0)
            self._earned[lie] = np.where(self._rehearsal.payable, earned, np.nan)
        return self._earned[lie][:, provider]

    @cached_property
    def _rehearsal(self) -> Replay:
        """A replay of the last fitted days under the model that will pay."""
        public = self.split._replace(paid=self.split.fitted[-_REHEARSAL_DAYS:])
        rule = self.rule.drawing(_REHEARSAL_DRAWS)
        return Replay(self.history, self.model, rule, public, (*self.seed[:1], self.seed[1] + 1), self.groups)

    def _statistics(self, summaries: Array, present: Mask | None = None) -> Array:
        """Return statistics ``(day, provider, statistic)``, zeros for providers who did not report."""
        t = daily_statistics(self.model, summaries, self.history.reduction)
        return np.where((self.present if present is None else present)[..., None], t, 0.0)

    def _shares(self, own: Array, progress: Callable[[float], None] | None) -> Array:
        key = np.random.default_rng([*self.seed, 0x50AD])  # the rule makes the same draws for the truth and all lies
        this_round = Round(
            self.model,
            self.reported,
            self.groups,
            self.rows,
            key,
            lenient=True,
            cache=self._cache,
            progress=progress,
        )
        return self.rule.evaluate(this_round if own is self.reported else this_round.with_own(own)).share


def scaled_progress(progress: Callable[[float], None] | None, done: int, steps: int) -> Callable[[float], None] | None:
    """Return a callback for the progress of one of several steps that reports the progress of all."""
    return None if progress is None else lambda part: progress((done + part) / steps)
