"""Replay the known lies on past days, under models that never saw them, before a cent is spent.

Days are cut into blocks. For each block a model is fitted to the other days, and the block is paid as if the round were
paid then: each provider in turn lies, the others report what they reported. What the lie gains, day by day, has a mean
and a confidence interval over days.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from troth.audits.strategies import Knowledge, Strategy, SummaryLie, lies_for_reduction
from troth.core.contract import Array, HasReduction, Model, shared_evidence
from troth.core.errors import DataError, MissingCapabilityError, ParameterError
from troth.core.past import History, statistics_of
from troth.history.findings import Backtest, findings_of
from troth.history.likelihood import log_marginal, score_measure
from troth.mechanisms import Round, Rule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from troth.core.reductions import Reduction

Fitted: TypeAlias = Any
"""A model, one model per provider, or anything with one of these as ``models`` or ``model``."""

Candidate: TypeAlias = Fitted | Callable[[History], Fitted]
"""A fixed model, or a function that fits one to past days."""

Payer: TypeAlias = Rule | Callable[[Any], Rule]
"""A rule, or a function from the fitted model to a rule, for rules with a range that depends on the model."""


def backtest(
    history: History,
    model: Candidate,
    rule: Payer,
    lies: SummaryLie | Sequence[SummaryLie] | None = None,
    *,
    name: str = "the model",
    folds: int = 5,
    gap: int = 0,
    groups: Sequence[Any] | None = None,
    false_alarm: float = 0.05,
    negligible: float = 0.001,
    seed: int = 0,
    watch: Callable[[int, int], None] | None = None,
) -> Backtest:
    """Ask what the known lies would have gained on past days, one provider lying and the others honest.

    Parameters
    ----------
    history
        Past reports as sums by day and provider; reports may be missing.
    model
        How to fit a model to past days, ``fit(history) -> model`` or one model per provider; or a fixed model.
    rule
        Any payment rule, or a function that makes one of the fitted model. Where numbers of rows vary from day to day,
        as they do in real data, `troth.SyntheticPeers` or ``troth.MultiDay(exchangeable=True)``.
    lies
        By default `troth.strategies.lies_for_reduction`, all known ones that work on these summaries.
    name
        What the model is called in tables.
    folds
        Number of blocks of consecutive days; a block is paid under a model that was fitted to the others.
    gap
        Days on both sides of a block that are not used for fitting either, if neighbouring days resemble each other.
    groups
        One label per provider; none of a group is among another member's peers.
    false_alarm
        Largest probability that any lie is said to gain although none does, over all lies and providers.
    negligible
        Share of the cap up to which a gain is not worth a lie, and is not counted as one: no fitted model is exact.
    seed
        Of lies and rules that draw: the same seed gives the same backtest.
    watch
        Called with the number of blocks done and in all.

    Examples
    --------
    >>> import troth
    >>> from troth.history.arrange import from_summaries
    >>> from troth.core.reductions import Counts
    >>> rng = np.random.default_rng(1)
    >>> ones = rng.binomial(20, rng.beta(2, 6, size=(120, 1)), size=(120, 4))
    >>> past = from_summaries(Counts(2), np.stack([20 - ones, ones], axis=-1))
    >>> replayed = backtest(past, troth.models.Bernoulli(2, 6), troth.MultiDay())
    >>> replayed.gaining(), replayed["report the usual mean"].verdict
    ([], 'loses')
    """
    days, providers = history.summaries.shape[:2]
    tried = _chosen_lies(lies, history.reduction)
    blocks = _blocks(days, folds, gap)
    if not 0 < false_alarm < 1:
        raise ParameterError(f"false_alarm must lie between 0 and 1, not {false_alarm}")
    truth = np.full((days, providers), np.nan)
    gains = np.full((days, providers, len(tried)), np.nan)
    refused, scores = gains.copy(), np.full(days, np.nan)
    used: Rule | None = None
    for fold, (block, fitted_days) in enumerate(blocks):
        fitted = _models(model, history.select(days=[history.days[day] for day in fitted_days]), providers)
        used = rule if isinstance(rule, Rule) else rule(fitted)
        replay = _Replay(history, fitted, used, block, fitted_days, (seed, fold), groups)
        truth[block], paid = replay.honest()
        scores[block] = log_marginal(fitted, history, block)
        for k, lie in enumerate(tried):
            earned, out = replay.lying(lie, k)
            gains[block, :, k] = np.where(paid, earned - truth[block], np.nan)
            refused[block, :, k] = np.where(paid, out, np.nan)
        if watch is not None:
            watch(fold + 1, len(blocks))
    names = tuple(lie.name for lie in tried)
    reported = np.asarray(history.present).any(axis=1)
    overall, by_provider = findings_of(names, history.providers, truth, gains, refused, false_alarm, negligible)
    assert used is not None  # noqa: S101 (there is at least one fold)
    return Backtest(
        name=name,
        rule=used,
        providers=tuple(history.providers),
        lies=names,
        days=int((~np.isnan(truth)).any(axis=1).sum()),
        folds=folds,
        false_alarm=false_alarm,
        negligible=negligible,
        truth=overall[0].truth,
        log_score=float(np.mean(scores[reported])),
        overall=overall,
        findings=by_provider,
        gains=gains,
        scores=np.where(reported, scores, np.nan),
        measure=_measure(fitted),
        family=type(fitted if isinstance(fitted, Model) else fitted[0]).__name__,
    )


def _measure(model: Any) -> str | None:
    """Return what log scores leave out, or None if a model does not say or providers' models differ in it."""
    measures = {score_measure(each) for each in ([model] if isinstance(model, Model) else model)}
    return measures.pop() if len(measures) == 1 else None


class _Replay:
    """A block of days, paid under a model that was fitted to others."""

    def __init__(
        self,
        history: History,
        model: Any,
        rule: Rule,
        block: NDArray[np.intp],
        fitted_days: NDArray[np.intp],
        seed: tuple[int, int],
        groups: Sequence[Any] | None = None,
    ) -> None:
        self.history, self.rule, self.block, self.fitted_days, self.seed = history, rule, block, fitted_days, seed
        self.model, self.groups = model, groups
        self.evidence = shared_evidence(model)
        self.summaries = np.asarray(history.summaries, dtype=np.float64)
        self.present = np.asarray(history.present, dtype=bool)[block]
        self.reported = self._statistics(self.summaries[block])
        self.rows = history.reduction.rows(self.summaries[block])

    def honest(self) -> tuple[Array, NDArray[np.bool_]]:
        """Return what was earned by what was reported, and where anything was to be earned."""
        share = self._shares(self.reported)
        paid = self.present.copy()
        if self.rule.days > 1:  # the last day of a block has no next one
            paid[-1] = False
        if np.isnan(share[paid]).any():
            day, provider = (int(i) for i in np.argwhere(np.isnan(share) & paid)[0])
            raise DataError(
                f"day {self.history.days[self.block[day]]}, provider {self.history.providers[provider]}: the report "
                "itself falls outside the rule's range, so the round could not have been paid; declare a wider range"
            )
        return np.where(paid, share, np.nan), paid

    def lying(self, lie: SummaryLie, number: int) -> tuple[Array, NDArray[np.bool_]]:
        """Return what everybody would have earned by a lie, and where it would have been refused."""
        reported = self.summaries[self.block].copy()
        unknown = np.zeros(reported.shape[1], dtype=bool)
        for provider in range(reported.shape[1]):
            knowledge = self._knowledge(provider, number)
            unknown[provider] = knowledge is None
            if knowledge is not None:
                reported[:, provider] = lie.change_summary(knowledge)
        own = self._statistics(reported, np.ones_like(self.present))
        excluding = np.isneginf(own).any()
        impossible = np.isneginf(self.evidence.log_evidence(own)) if excluding else np.zeros_like(self.present)
        share = self._shares(np.where(impossible[..., None], 0.0, own))
        refused = impossible | np.isnan(share)
        return np.where(unknown, np.nan, np.where(refused, 0.0, share)), refused & ~unknown

    def _knowledge(self, provider: int, number: int) -> Knowledge | None:
        """Return what a provider knows when it lies, or None if it reported nothing outside the block."""
        reduction, summaries = self.history.reduction, self.summaries
        own = summaries[:, provider]
        reported = reduction.rows(own) > 0
        past = own[self.fitted_days][reported[self.fitted_days]]
        everyone = summaries[self.fitted_days].reshape(-1, summaries.shape[-1])
        if not len(past):
            return None
        last_reported = np.maximum.accumulate(np.where(reported, np.arange(len(own)), -1))
        latest = np.concatenate([[-1], last_reported[:-1]])[self.block]
        yesterday = np.where(latest[:, None] >= 0, own[latest], 0.0)
        rng = np.random.default_rng([*self.seed, provider, number])
        return Knowledge(reduction, own[self.block], yesterday, past, everyone[reduction.rows(everyone) > 0], rng)

    def _statistics(self, summaries: Array, present: NDArray[np.bool_] | None = None) -> Array:
        """Statistics ``(day, provider, statistic)``; zeros for providers who did not report."""
        reduction = self.history.reduction
        if isinstance(self.model, Model):
            t = statistics_of(self.model, summaries, reduction)  # type: ignore[arg-type]
        else:
            t = np.stack([statistics_of(m, summaries[:, i], reduction) for i, m in enumerate(self.model)], axis=1)
        return np.where((self.present if present is None else present)[..., None], t, 0.0)

    def _shares(self, own: Array) -> Array:
        key = np.random.default_rng([*self.seed, 0x50AD])  # truth and every lie face the same draws of the rule
        this_round = Round(self.model, self.reported, self.groups, self.rows, key, lenient=True)
        return self.rule.evaluate(this_round if own is self.reported else this_round.with_own(own)).share


def _chosen_lies(lies: Any, reduction: Reduction) -> list[Any]:
    """Return lies that work on summaries of this reduction, or say which does not."""
    if lies is None:
        return lies_for_reduction(reduction)
    chosen: list[Any] = [lies] if isinstance(lies, Strategy) else list(lies)
    for lie in chosen:
        if not isinstance(lie, SummaryLie):
            raise ParameterError(f"{lie!r} does not work on a summary: past days have no rows, so audit it instead")
        if not lie.suits_reduction(reduction):
            raise ParameterError(f"{lie.name!r} does not work on summaries of {type(reduction).__name__}")
    if not chosen:
        raise ParameterError("there are no lies to replay")
    return chosen


def _blocks(days: int, folds: int, gap: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Cut days into blocks; with each come the days to fit on."""
    if not 2 <= folds <= days // 3 or gap < 0:
        raise DataError(
            f"{days} days cannot be cut into {folds} blocks with a gap of {gap}: a backtest needs at least 2 blocks of "
            "3 days, so ask for fewer blocks or give it a longer history"
        )
    every = np.arange(days)
    blocks = []
    for block in np.array_split(every, folds):
        fitted_days = every[(every < block[0] - gap) | (every > block[-1] + gap)]
        if not len(fitted_days):
            raise DataError(f"a gap of {gap} days leaves nothing to fit on")
        blocks.append((block, fitted_days))
    return blocks


def _models(candidate: Candidate, past: History, providers: int) -> Any:
    """Fit, and return one model or one per provider, all of which can take sums."""
    fitted: Any = candidate
    if not isinstance(candidate, Model | list | tuple) and callable(candidate):
        fitted = candidate(past)
    for name in ("models", "model"):
        if not isinstance(fitted, Model | list | tuple) and hasattr(fitted, name):
            fitted = getattr(fitted, name)
    if isinstance(fitted, Mapping):
        fitted = [fitted[provider] for provider in past.providers]
    models = [fitted] if isinstance(fitted, Model) else list(fitted)
    if not isinstance(fitted, Model) and len(models) != providers:
        raise DataError(f"{len(models)} models for {providers} providers: give one model, or one each")
    for each in models:
        if not isinstance(each, HasReduction):
            raise MissingCapabilityError(
                f"{type(each).__name__} does not declare its sums, so past sums cannot be mapped to its statistics"
            )
    return fitted if isinstance(fitted, Model) else models
