"""Replay the known lies on past days, under models that never saw them, before a cent is spent.

With a rolling origin, a model is fitted to the first days and pays the next stretch, then it is refitted to all days so
far and pays the stretch after, and so on. Each provider in turn lies while the others keep their reports. A lie's daily
gains have a mean and a confidence interval over days.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from troth.audits.strategies import RowLie, Strategy, SummaryLie, lies_for_reduction, lies_left_out
from troth.core.contract import Array, HasReduction, Model
from troth.core.errors import DataError, MissingCapabilityError, ParameterError
from troth.core.provider_models import one_each
from troth.history.drift import Stretch, ages_of, trends_of
from troth.history.findings import Backtest
from troth.history.learn import Learner
from troth.history.likelihood import log_marginal, score_measure
from troth.history.replay import Replay, scaled_progress
from troth.history.significance import daily_mean, findings_of, mean_of
from troth.history.splits import Split, split_days
from troth.mechanisms import Rule
from troth.models.fitting.fitted import FittedPrior, FittedProviders

if TYPE_CHECKING:
    from troth.core.past import History

Candidate: TypeAlias = Any
"""A model, one model per provider, the result of a fit, or a function from past days to one of these."""

Payer: TypeAlias = Rule | Callable[[Any], Rule]
"""A rule, or a function from the fitted model to a rule, for rules whose score range depends on the model."""

_DRAWS = 199  # of rules that draw: draws take most of the time, but days vary far more
_ROUNDING = 1e-12  # smaller gains, as shares of the cap, are rounding errors


def backtest(
    history: History,
    model: Candidate,
    rule: Payer,
    lies: Strategy | Sequence[Strategy] | None = None,
    *,
    name: str = "the model",
    split: str = "rolling",
    folds: int | None = None,
    first: int | None = None,
    gap: int = 0,
    groups: Sequence[Any] | None = None,
    false_alarm: float = 0.05,
    negligible: float = 0.001,
    seed: int = 0,
    progress: Callable[[float, int], None] | None = None,
) -> Backtest:
    """Replay the known lies on past days, one provider lying at a time.

    Parameters
    ----------
    history
        Past reports as summaries by day and provider; reports may be missing.
    model
        A function that fits a model, or one model per provider, to past days, ``fit(history)``; or a fixed model.
    rule
        Any payment rule, or a function from the fitted model to a rule. If numbers of rows vary from day to day, as in
        real data, a rule that compares days needs ``exchangeable=True``. A rule that draws peers draws them at most
        199 times here, which changes no expected payment.
    lies
        By default, all known lies that work on these summaries (`troth.strategies.lies_for_reduction`); if the history
        has rows, also those about labelled rows (`troth.strategies.lies_left_out`).
    name
        The name of the model in tables.
    split
        ``"rolling"`` fits to the past and pays the next stretch, as a campaign does. ``"blocks"`` fits to the days
        before and after a block: it interpolates, uses all days, and says nothing about a future that drifts.
    folds
        The number of stretches or blocks; by default five, or fewer if there are few days.
    first
        Days before the first stretch of a rolling origin. By default a quarter of all days, but at least 30, or half of
        them if that is less.
    gap
        The number of days next to a stretch that are excluded from the fit, if neighbouring days resemble each other.
    groups
        One label per provider; members of a group are never each other's peers.
    false_alarm
        The maximum probability that any lie of any provider is reported to gain although none does.
    negligible
        Gains up to this share of the cap are not counted, because no fitted model is exact.
    seed
        The seed of lies and rules that draw: the same seed gives the same backtest.
    progress
        Called with the number of stretches that are done, including fractions, and the total.

    Examples
    --------
    >>> import troth
    >>> from troth.history import from_summaries
    >>> from troth.core.reductions import Counts
    >>> rng = np.random.default_rng(1)
    >>> ones = rng.binomial(20, rng.beta(2, 6, size=(120, 1)), size=(120, 4))
    >>> past = from_summaries(Counts(2), np.stack([20 - ones, ones], axis=-1))
    >>> replayed = backtest(past, troth.models.Bernoulli(2, 6), troth.MultiDay())
    >>> replayed.gaining(), replayed["report the usual mean"].verdict
    ([], 'loses')
    """
    splits = split_days(len(history.days), split, folds, gap, first)
    _reject_without_peers(history, splits, groups)
    if not 0 < false_alarm < 1:
        raise ParameterError(f"false_alarm must lie between 0 and 1, not {false_alarm}")
    paid = _replay_all(
        history, model, rule, lies, splits, split == "rolling", groups=groups, seed=seed, progress=progress
    )
    names = tuple(lie.name for lie in paid.lies)
    truth, gains, scores, fresh = paid.truth, paid.gains, paid.scores, paid.fresh_scores
    overall, by_provider = findings_of(names, history.providers, truth, gains, paid.refused, false_alarm, negligible)
    return Backtest(
        name=name,
        rule=paid.rule,
        providers=tuple(history.providers),
        lies=names,
        days=int((~np.isnan(truth)).any(axis=1).sum()),
        split=split,
        false_alarm=false_alarm,
        negligible=negligible,
        truth=overall[0].truth,
        log_score=float(np.nanmean(fresh)) if np.isfinite(fresh).any() else float("nan"),
        overall=overall,
        findings=by_provider,
        stretches=tuple(
            _stretch(history, part, truth, gains, names, scores[fold], scores[0]) for fold, part in enumerate(splits)
        ),
        ages=ages_of(scores, splits, false_alarm) if callable(model) and split == "rolling" else (),
        trends=trends_of(names, daily_mean(gains), false_alarm) if split == "rolling" else (),
        gains=gains,
        scores=fresh,
        measure=_measure(paid.fitted),
        family=type(_representative(paid.fitted)).__name__,
        recent=model.recent if isinstance(model, Learner) else None,
        ahead=model.options.get("ahead") if isinstance(model, Learner) else None,
        left_out=paid.left_out,
    )


class _Replayed(NamedTuple):
    """Payments of reports and lies on the paid days, and how well the models predicted the days.

    ``truth`` is ``(day, provider)``; ``gains`` and ``refused`` are ``(day, provider, lie)``. ``scores`` are the log
    probabilities of days under each fit, ``fresh_scores`` those under the fit that paid the day. ``fitted`` is the last
    model, and ``rule`` the rule for it.
    """

    lies: list[Any]
    left_out: tuple[str, ...]
    truth: Array
    gains: Array
    refused: Array
    scores: Array
    fresh_scores: Array
    fitted: Any
    rule: Rule


def _replay_all(
    history: History,
    model: Candidate,
    rule: Payer,
    lies: Any,
    splits: Sequence[Split],
    rolling: bool,
    *,
    groups: Sequence[Any] | None,
    seed: int,
    progress: Callable[[float, int], None] | None,
) -> _Replayed:
    """Fit a model for each stretch, and pay the stretch for the truth and every lie."""
    days, providers = history.summaries.shape[:2]
    truth = np.full((days, providers), np.nan)
    scores, fresh = np.full((len(splits), days), np.nan), np.full(days, np.nan)
    chosen: list[Any] = []
    for fold, part in enumerate(splits):
        if progress is not None:
            progress(fold, len(splits))
        fitted = _models(model, history.select(days=[history.days[day] for day in part.fitted]), providers)
        payer = _representative(fitted)
        if fold == 0:
            chosen, left_out = _chosen_lies(lies, history, payer)
            gains = np.full((days, providers, len(chosen)), np.nan)
            refused = gains.copy()
        payment_rule = rule if isinstance(rule, Rule) else rule(fitted)
        own = history.reduced_by(payer.reduction)
        replay = Replay(own, fitted, payment_rule.drawing(_DRAWS), part, (seed, fold), groups)
        in_stretch = None if progress is None else partial(_report_part, progress, fold, len(splits))
        steps = 1 + len(chosen)
        truth[part.paid] = replay.honest(scaled_progress(in_stretch, 0, steps))
        later = np.concatenate([later_part.paid for later_part in splits[fold : len(splits) if rolling else fold + 1]])
        scores[fold, later] = log_marginal(fitted, own, later)
        fresh[part.paid] = scores[fold, part.paid]
        for k, lie in enumerate(chosen):
            earned, was_refused = replay.lying(lie, k, scaled_progress(in_stretch, 1 + k, steps))
            gains[part.paid, :, k] = earned - truth[part.paid]
            refused[part.paid, :, k] = np.where(np.isnan(truth[part.paid]), np.nan, was_refused)
    if progress is not None:
        progress(len(splits), len(splits))
    gains[np.abs(gains) < _ROUNDING] = 0.0
    reported = history.present.any(axis=1)
    scores[:, ~reported] = np.nan
    fresh[~reported] = np.nan
    return _Replayed(chosen, left_out, truth, gains, refused, scores, fresh, fitted, payment_rule)


def _report_part(progress: Callable[[float, int], None], done: int, stretches: int, part: float) -> None:
    """Report a fraction of a stretch in addition to the stretches that are done."""
    progress(done + part, stretches)


def _representative(fitted: Any) -> Any:
    """Return the model, or the first of providers' models, which share their reduction and family."""
    return fitted if isinstance(fitted, Model) else fitted[0]


def _reject_without_peers(history: History, splits: Sequence[Split], groups: Sequence[Any] | None) -> None:
    """Raise if nobody has a peer, since without peers every report is paid the same."""
    labels = list(range(len(history.providers)) if groups is None else groups)
    paid = np.concatenate([part.paid for part in splits])
    present = [
        {label for label, reports_present in zip(labels, day, strict=True) if reports_present}
        for day in history.present[paid]
    ]
    if all(len(reporting) < 2 for reporting in present):
        of_groups = "" if groups is None else " of different groups"
        raise DataError(
            f"nobody has a peer on any of the {len(paid)} days that would be replayed, so nothing can be tested: "
            "without peers every report is paid the same; give days on which at least two providers"
            f"{of_groups} reported"
        )


def _stretch(
    history: History, part: Split, truth: Array, gains: Array, lies: Sequence[str], scores: Array, oldest: Array
) -> Stretch:
    """Summarise a stretch: honest payment, the lie that gained most, and log scores under its own fit and the first."""
    by_lie = np.array([mean_of(gains[part.paid, :, k]) for k in range(len(lies))])
    best = int(np.nanargmax(by_lie)) if np.isfinite(by_lie).any() else 0
    return Stretch(
        history.days[part.paid[0]],
        history.days[part.paid[-1]],
        len(part.paid),
        len(part.fitted),
        mean_of(truth[part.paid]),
        lies[best],
        float(by_lie[best]),
        mean_of(scores[part.paid]),
        mean_of(oldest[part.paid]),
    )


def _measure(model: Any) -> str | None:
    """Return the terms that log scores leave out, or None if they are unknown or differ between providers."""
    measures = {score_measure(member) for member in one_each(model)}
    return measures.pop() if len(measures) == 1 else None


def _chosen_lies(lies: Any, history: History, model: Any) -> tuple[list[Any], tuple[str, ...]]:
    """Return the lies to replay, and the names of known ones that need rows which the history does not have."""
    reduction = history.reduction
    if lies is None:
        offered, excluded = lies_for_reduction(reduction), lies_left_out(model, reduction)
        if history.tables is None:
            return [*offered], tuple(lie.name for lie in excluded)
        by_rows = [lie for lie in excluded if isinstance(lie, RowLie)]
        return [*offered, *by_rows], tuple(lie.name for lie in excluded if lie not in by_rows)
    selected: list[Any] = [lies] if isinstance(lies, Strategy) else list(lies)
    for lie in selected:
        if isinstance(lie, RowLie) and history.tables is not None and lie.suits_model(model):
            continue
        if not isinstance(lie, SummaryLie):
            raise ParameterError(f"{lie!r} needs rows, which past days do not have: try it in an audit instead")
        if not lie.suits_reduction(reduction):
            raise ParameterError(f"{lie.name!r} does not work on summaries of {type(reduction).__name__}")
    if not selected:
        raise ParameterError("there are no lies to replay")
    return selected, ()


def _models(candidate: Candidate, past: History, providers: int) -> Any:
    """Fit a candidate if necessary, and return one model or one per provider; all must have a reduction."""
    fitted: Any = candidate
    if not isinstance(candidate, Model | list | tuple) and callable(candidate):
        fitted = candidate(past)
    if isinstance(fitted, FittedPrior):
        fitted = fitted.model
    if isinstance(fitted, FittedProviders):
        fitted = fitted.models
    if isinstance(fitted, Mapping):
        fitted = [fitted[provider] for provider in past.providers]
    models = one_each(fitted, providers)
    for model in models:
        if not isinstance(model, HasReduction):
            raise MissingCapabilityError(
                f"{type(model).__name__} declares no reduction, so past summaries cannot be mapped to its statistics"
            )
    return fitted if isinstance(fitted, Model) else models
