"""The verdict before payment: whether the model fits, and who would have earned more by sending nothing or less."""

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

_MIN_GAIN = 0.02  # share of the cap that sending less must gain to be reported
_SHOWN = 6  # the most labels that a message lists
_MAX_ODD, _MIN_REMAINING = 2, 3  # numbers of providers
_MEANING = {
    "fits": "the reports are plausible under the model; {truthful}",
    "doubtful": "under the right model one round in 25 is called doubtful: see the page before you rely on it",
    "does not fit": "under a model that does not fit, lying may pay",
    "not checked": "without a check nobody knows whether telling the truth pays best",
}


@dataclass(frozen=True)
class Verdict:
    """What an analyst should know before paying.

    ``print`` shows it, ``word`` is the verdict on the model ("fits", …), and ``to_dict`` returns the plain data of
    ``troth pay --json``, with the word under ``"model"``.

    Attributes
    ----------
    fit, checked
        The check of the model, and whose reports were checked. ``fit`` is None if the model cannot be checked;
        ``unchecked`` is the reason.
    below_empty
        Providers who earn less than an empty report on average over days, with the difference as a share of the cap.
    better_with_less
        Providers who would have earned clearly more in the last round with half or a tenth of their rows, with the gain
        as a share of the cap.
    gain_of_less
        The mean gains of sending half or a tenth in the last round, over the providers with enough rows; empty if there
        are none, or if the sums of fewer rows are unknown.
    tried
        The numbers of providers in these means.
    untried
        The reason why sending less was not tried, if so.
    days, last_day
        The number of paid days, and the last one that was scored; 0 and None without days.
    odd
        If the model does not fit: one or two providers without whose reports it would fit, if any.
    most_gained
        The proved bound on the expected gain of a lie under the model, as a share of the cap: 0 if telling the truth
        pays best, None if nothing is proved about the rule in this campaign.
    limit
        The limit in which telling the truth is proved to pay best, if it is proved only in a limit.
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
        """Why the model is poor for these reports, even if it fits; empty if no reason is known."""
        return "" if self.fit is None else self.fit.warning

    @property
    def word(self) -> str:
        """One of "fits", "doubtful", "does not fit" and "not checked"."""
        return "not checked" if self.fit is None else self.fit.verdict

    @property
    def meaning(self) -> str:
        """The meaning of the word."""
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
        """Whether sending half or a tenth would have gained over 2% of the cap on average in the last round."""
        return max(self.gain_of_less.values(), default=0.0) > _MIN_GAIN

    @property
    def remedy(self) -> str:
        """What to do if the model does not fit."""
        checks = "check the reports: some may be wrong"
        if self.odd:
            checks = f"without the data of {' and '.join(self.odd)} it fits, so check these first"
        return f"{checks}; {self.advice}or learn the model from past days with troth fit"

    @property
    def supports(self) -> bool:
        """Whether the fit, the proofs and this round all support that telling the truth pays best."""
        return self.word == "fits" and self.most_gained == 0 and not self.warning and not self.less_pays_more

    @property
    def stops(self) -> bool:
        """Whether payment should stop until somebody has looked at the reports."""
        return self.word == "does not fit"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
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
    """What an analyst should know before paying for tasks; ``below_empty`` has workers clearly below the empty share.

    ``mean`` is the mean share of the price over all answers, ``empty`` that of uninformative answers, and ``below`` the
    number of workers below the empty share, clearly or by chance.
    """

    fit: TaskFit | None
    mean: float = 0.0
    empty: float = 0.0
    below: int = 0

    @property
    def meaning(self) -> str:
        """The result of the check."""
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
        """What to do if labels are not as frequent as expected, or other labels would have earned more."""
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
        listing = ", ".join(repr(name) for name in names[:_SHOWN])
        and_more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        too_many = len(self.fit.frequencies) > MAX_LABELS
        reason = f"there are more than {MAX_LABELS} labels" if too_many else f"answered fewer than {MIN_ANSWERS} times"
        return f". Not checked: what other labels would have earned in place of {listing}{and_more}, {reason}"

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
    """Return why the model of a campaign cannot be checked on any reports; empty if this is not known beforehand."""
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
    """Check the model on the reports, and compare payments with those of sending nothing or less."""
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
            if gain > max(_MIN_GAIN, better.get(name, 0.0)):
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
    """Return what may help if the model does not fit: varying providers, or less extreme values."""
    if all(declared(model).independent_rows for model in (campaign.model, *campaign.provider_models.values())):
        if not explains_target(campaign.model) and campaign.reading.reduction.columns > 1:
            return "pay for each column in a campaign of its own, with a family whose providers may differ; "
        return "choose a family whose providers may differ, as troth init does; "
    if not isinstance(campaign.model, HasReduction) or counted_labels(campaign.model.reduction) is not None:
        return ""
    return "if a few values are extreme, declare [limits] values or pay for logarithms; "


def _truthful_claim(result: Result) -> Claim | None:
    """Return the claim about truthfulness under the rule, for the providers and rows of all reports."""
    try:
        return truthful_claim(result.campaign, setting_of(result.campaign, result.reports), result.reports)
    except FAILURES:
        return None


def _why_untried(result: Result) -> str:
    if isinstance(result.campaign.model, HasReduction):
        return "not tried: half of the rows, or a tenth, are too few for a report"
    return "not tried: the sums of this model do not determine the pay of fewer rows"


def _odd_reports(result: Result) -> tuple[str, ...]:
    """Return one or two providers who agree least with their peers, if the model fits without them."""
    scored = [
        (p.log_pmi, p.provider) for paid_round in result.rounds for p in paid_round.payments if p.log_pmi is not None
    ]
    by_agreement = list(dict.fromkeys(name for _, name in sorted(scored)))
    for count in range(1, min(_MAX_ODD, len(by_agreement) - _MIN_REMAINING) + 1):
        odd = by_agreement[:count]
        remaining = [report for report in result.reports if report.provider not in odd]
        try:
            with np.errstate(all="ignore"):
                if check_campaign_fit(result.campaign, remaining)[0].plausible:
                    return tuple(odd)
        except FAILURES:
            return ()
    return ()
