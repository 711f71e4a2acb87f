"""Before money moves: does the model fit, and who would have been better off sending nothing or less."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.audits.task_fit import MAX_LABELS, MIN_ANSWERS, TaskFit
from troth.campaigns.check import setting_of, truthful_claim
from troth.certificates.fit import why_unchecked
from troth.core.contract import HasReduction, explains_target
from troth.core.declarations import declared
from troth.core.errors import first_line
from troth.core.reductions.reduction import counted_labels
from troth.results.findings import FAILURES, check_campaign_fit
from troth.results.replays import DRAWS, LESS, last_scored, replay_lies
from troth.results.verdict_lines import lines_of, listed, model_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from troth.campaigns.terms import Campaign
    from troth.certificates import Fit
    from troth.core.claims import Claim
    from troth.data import Day
    from troth.results.result import Result

_CLEARLY = 0.02  # of the cap, by which less must have paid more
_SHOWN = 6  # labels
_MAX_ODD, _MIN_REMAINING = 2, 3  # reports
_MEANING = {
    "fits": "the reports are plausible under the model; {truthful}",
    "doubtful": "under the right model one round in 25 is called doubtful: see the page before you rely on it",
    "does not fit": "under a model that does not fit, lying may pay",
    "not checked": "without a check nobody knows whether telling the truth pays best",
}


@dataclass(frozen=True)
class Verdict:
    """What an analyst should know before paying.

    ``print`` shows it, ``word`` is the verdict on the model ("fits", …), and ``to_dict`` has everything as the JSON of
    ``troth pay --json`` does, the word under ``"model"``.

    Attributes
    ----------
    fit, checked
        The check of the model, and on whose reports; None if it cannot be checked, and ``unchecked`` says why.
    below_empty
        Providers that are paid less than an empty report, on average over days, by name with the difference in shares
        of the cap.
    better_with_less
        Providers that a tenth or half of their rows would have paid clearly more in the last round, by name with the
        gain in shares of the cap.
    gain_of_less
        What sending a tenth or half would have added in the last round, on average over the providers that have enough
        rows for it; nothing where nobody has, or where the sums of fewer rows are not known.
    tried
        The number of providers in that average.
    untried
        Why sending less was not tried, if it was not.
    days, last_day
        How many days were paid, and the last one that was scored; 0 and None without days.
    odd
        If the model does not fit: one or two providers without whose reports it would fit, if there are any.
    most_gained
        The most that a lie is proved to gain in expectation under the model, as a share of the cap: 0 if telling the
        truth pays best. None if nothing is proved about the rule in this campaign.
    limit
        The limit in which telling the truth is proved to pay best, in words, where it is proved there alone.
    advice
        What else to try if a model of this kind does not fit.
    """

    fit: Fit | None
    unchecked: str = ""
    checked: str = ""
    providers: int = 0
    below_empty: Mapping[str, float] = field(default_factory=dict)
    better_with_less: Mapping[str, float] = field(default_factory=dict)
    gain_of_less: Mapping[str, float] = field(default_factory=dict)
    odd: tuple[str, ...] = ()
    tried: Mapping[str, int] = field(default_factory=dict)
    untried: str = ""
    days: int = 0
    last_day: Day = None
    most_gained: float | None = 0.0
    limit: str = ""
    advice: str = ""

    @property
    def warning(self) -> str:
        """Why the model is poor for these reports, whether they fit it or not; empty if no reason is known."""
        return "" if self.fit is None else self.fit.warning

    @property
    def word(self) -> str:
        """One of "fits", "doubtful", "does not fit" and "not checked"."""
        return "not checked" if self.fit is None else self.fit.verdict

    @property
    def meaning(self) -> str:
        """What the word means, in a sentence."""
        meaning = _MEANING[self.word].format(truthful=self._truthful)
        return f"{self.unchecked}; {meaning}" if self.unchecked else meaning

    @property
    def _truthful(self) -> str:
        if self.limit:
            return (
                f"if it is right, telling the truth pays best in the limit of {self.limit}; how far these data "
                "are from that is not proved: measure lies with troth audit"
            )
        if self.most_gained is None:
            return "this rule is not proved truthful here: measure lies with troth audit"
        if self.most_gained > 0:
            return f"if it is right, a lie may gain up to {100 * self.most_gained:.2g}% of the cap in expectation"
        truthful = "if it is right, telling the truth pays best"
        if not self.less_pays_more:
            return truthful
        period = f"on day {self.last_day}" if self.days > 1 else "in this round"
        return (
            f"{truthful} in expectation, but {period} sending less would have paid more on average: chance, or a sign "
            "that the model is wrong"
        )

    @property
    def less_pays_more(self) -> bool:
        """Whether a tenth or half would have paid more by over 2% of the cap in the last round, on average."""
        return max(self.gain_of_less.values(), default=0.0) > _CLEARLY

    @property
    def remedy(self) -> str:
        """What to do if the model does not fit."""
        look = "check the reports: some may be wrong"
        if self.odd:
            look = f"without the data of {' and '.join(self.odd)} it fits, so check these first"
        return f"{look}; {self.advice}or learn the model from past days with troth fit"

    @property
    def supports(self) -> bool:
        """Whether the fit, what is proved about the rule, and this round support that telling the truth pays best."""
        return self.word == "fits" and self.most_gained == 0 and not self.warning and not self.less_pays_more

    @property
    def stops(self) -> bool:
        """Whether nothing should be paid before somebody has looked."""
        return self.word == "does not fit"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "model": self.word,
            "stops": self.stops,
            "unchecked": self.unchecked or None,
            "p_value": None if self.fit is None else self.fit.p_value,
            "below_empty_report": dict(self.below_empty),
            "better_with_less": dict(self.better_with_less),
            "gain_of_less": dict(self.gain_of_less),
            "tried_with_less": dict(self.tried),
            "days": self.days,
            "last_day": self.last_day,
            "odd_reports": list(self.odd),
            "most_gained": self.most_gained,
            "limit": self.limit or None,
            "warning": self.warning or None,
        }

    @property
    def _plain(self) -> dict[str, Any]:
        return {**self.to_dict(), "meaning": self.meaning}

    def __str__(self) -> str:
        return "\n".join(lines_of(self._plain, self.providers, self.checked, self.untried))


@dataclass(frozen=True)
class TaskVerdict(Verdict):
    """What an analyst should know before paying for tasks; ``below_empty`` are those clearly below the empty share.

    ``mean`` is the mean share of the price over all answers, ``empty`` that of answers which say nothing, and ``below``
    how many workers are below the empty share, clearly or by chance.
    """

    fit: TaskFit | None
    mean: float = 0.0
    empty: float = 0.0
    below: int = 0

    @property
    def meaning(self) -> str:
        """What was tested and found, in a sentence."""
        fit = self.fit
        if fit is None:
            return f"{self.unchecked}; whether another answer would have earned more is not known"
        basis = (
            "a constant answer may gain"
            if fit.contradicts_prior
            else "the confusion matrices are wrong, or many answers are"
        )
        meaning = {
            "fits": "labels are as frequent as the prior and the confusion matrices expect, and on these answers no "
            "other label would have earned more than the reported one",
            "doubtful": f"{fit.contradiction}, perhaps by chance",
            "does not fit": f"{fit.contradiction}: {basis}",
        }
        return meaning[self.word] + self._left_out

    @property
    def remedy(self) -> str:
        """What to do if the model does not expect these labels, or another label would have earned more."""
        if self.fit is not None and self.fit.contradicts_prior:
            return (
                f"{self.fit.contradiction}. Set [model] prior and likelihood to what you expected before anybody "
                "answered, or learn both from other tasks with troth fit. Do not estimate them from these labels, "
                "which would then decide their own pay"
            )
        return (
            "see on the page which labels and workers agree; correct the prior and the confusion matrices with what "
            "you knew before these answers, or learn them from past tasks with troth fit, and gold answers if you "
            "have any"
        )

    @property
    def _left_out(self) -> str:
        if self.fit is None or not self.fit.not_replayed:
            return ""
        names = self.fit.not_replayed
        some = ", ".join(repr(name) for name in names[:_SHOWN])
        and_more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        many = len(self.fit.frequencies) > MAX_LABELS
        reason = f"there are more than {MAX_LABELS} labels" if many else f"answered fewer than {MIN_ANSWERS} times"
        return f". Not checked: what other labels would have earned in place of {some}{and_more}, {reason}"

    def __str__(self) -> str:
        return "\n".join(
            [
                model_line(self._plain),
                f"on average                 {self.mean:.1%} of the price, and {self.empty:.1%} for an empty answer",
                f"below the empty share      {self._below}",
            ]
        )

    @property
    def _below(self) -> str:
        if self.below == 0:
            return "nobody"
        if not self.below_empty:
            return f"{self.below} of {self.providers}, none by two standard errors on 10 or more tasks"
        by_chance = self.below - len(self.below_empty)
        and_chance = f"; and {by_chance} perhaps by chance" if by_chance else ""
        return f"clearly {listed(self.below_empty, self.providers)}{and_chance}"


@lru_cache(maxsize=64)
def unchecked_before(campaign: Campaign) -> str:
    """Return why the model of a campaign cannot be checked on any reports; empty if that is not known before."""
    reduction = campaign.request.reduction
    if campaign.task is not None:
        values = "only labels are checked, one per task, and these answers are values"
        return values if counted_labels(reduction) is None else ""
    for model in (campaign.model, *campaign.provider_models.values()):
        try:
            width = campaign.statistics(model, np.zeros(reduction.width)).shape[-1]
            if reason := why_unchecked(model, width):
                return reason
        except FAILURES:
            continue
    return ""


def judge(result: Result) -> Verdict:
    """Check the model on the reports, and compare what everybody is paid with the pay of nothing and of less."""
    below = {}
    for name, payments in result.by_provider.items():
        gap = float(np.mean([payment.empty_share - payment.share for _, payment in payments]))
        if gap > 0:
            below[name] = gap
    fit, checked, reason = None, "", ""
    with np.errstate(all="ignore"):
        try:
            fit, checked = check_campaign_fit(result.campaign, result.reports)
        except FAILURES as error:
            reason = first_line(error)
        replays = replay_lies(result, LESS, DRAWS) if result.rounds else []
    better: dict[str, float] = {}
    for replay in replays:
        for name, gain in replay.gains.items():
            if gain > max(_CLEARLY, better.get(name, 0.0)):
                better[name] = gain
    odd = _odd_reports(result) if fit is not None and not fit.plausible else ()
    days = len(result.rounds) if result.campaign.daily else 0
    claim = _truthful_claim(result)
    return Verdict(
        fit,
        reason,
        checked,
        providers=len(result.totals),
        below_empty=below,
        better_with_less=better,
        gain_of_less={replay.lie: replay.gain for replay in replays},
        odd=odd,
        tried={replay.lie: len(replay.gains) for replay in replays},
        untried="" if replays or not result.rounds else _why_untried(result),
        days=days,
        last_day=last_scored(result)["day"] if days else None,
        most_gained=claim.margin if claim is not None and claim.verdict == "proved" else None,
        limit="" if claim is None else claim.limit,
        advice=_advice(result.campaign),
    )


def _advice(campaign: Campaign) -> str:
    """Return what helps if the model does not fit: providers that may differ, or values that are not extreme."""
    if all(declared(model).independent_rows for model in (campaign.model, *campaign.provider_models.values())):
        if not explains_target(campaign.model) and campaign.reading.reduction.columns > 1:
            return "pay for each column in a campaign of its own, with a family whose providers may differ; "
        return "choose a family whose providers may differ, as troth init does; "
    if not isinstance(campaign.model, HasReduction) or counted_labels(campaign.model.reduction) is not None:
        return ""
    return "if a few values are extreme, declare [limits] values or pay for logarithms; "


def _truthful_claim(result: Result) -> Claim | None:
    """Return what is proved about lies under the rule, for the providers and rows of all reports."""
    try:
        return truthful_claim(result.campaign, setting_of(result.campaign, result.reports), result.reports)
    except FAILURES:
        return None


def _why_untried(result: Result) -> str:
    if isinstance(result.campaign.model, HasReduction):
        return "not tried: half of the rows, or a tenth, are too few for a report"
    return "not tried: the sums of this model do not determine the pay of fewer rows"


def _odd_reports(result: Result) -> tuple[str, ...]:
    """Return the providers that agree least with their peers, if the model fits without the first or the first two."""
    scored = [
        (p.log_pmi, p.provider) for paid_round in result.rounds for p in paid_round.payments if p.log_pmi is not None
    ]
    least = list(dict.fromkeys(name for _, name in sorted(scored)))
    for count in range(1, min(_MAX_ODD, len(least) - _MIN_REMAINING) + 1):
        odd = least[:count]
        remaining = [report for report in result.reports if report.provider not in odd]
        try:
            with np.errstate(all="ignore"):
                if check_campaign_fit(result.campaign, remaining)[0].plausible:
                    return tuple(odd)
        except FAILURES:
            return ()
    return ()
