"""What everybody earns in a round: a pure function of terms, reports and seed, used to pay and to verify."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.money import portion
from troth.campaigns.seed import generator
from troth.core.contract import DrawsAnswers, Model
from troth.core.errors import DataError, ParameterError, TrothError, UnpayableRoundError
from troth.core.provider_models import one_each
from troth.data.request import Report
from troth.mechanisms import Figures, Round, disclosed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from troth.campaigns.terms import Campaign
    from troth.mechanisms import Rule


_COMPARED = 10  # payments of a round that are compared with what their providers are shown


@dataclass(frozen=True, kw_only=True)
class Payment(Figures):
    """What one provider earns in a round, and all numbers that it came from.

    Money is in minor units. The cap is rounded down; the deposit is what a bonded provider pays in beforehand.
    """

    provider: str
    rows: int
    cap: int
    payment: int
    deposit: int = 0


@dataclass(frozen=True)
class RoundSetup:
    """A round as the rule sees it, and the place of each provider in it.

    ``names`` has everybody with a place in the arrays, also those who report on the next day only, and ``paid`` the
    places of those who are paid. ``index`` comes before these in the rule's arrays: the day, for rules that look at
    several.
    """

    rule: Rule
    round: Round
    names: list[str]
    paid: list[int]
    index: tuple[int, ...]

    def seeded(self, seed: str | None) -> Round:
        """Return the round with its generator at the start, as every evaluation needs it."""
        return replace(self.round, rng=None if seed is None else generator(seed))


def set_up_round(campaign: Campaign, reports: Sequence[Report], following: Sequence[Report] | None) -> RoundSetup:
    """Arrange reports for the rule: the round's, and those of the next days where the rule waits for them."""
    today = {report.provider: report for report in reports}
    later: dict[Any, dict[str, Report]] = {}
    for report in following or ():
        later.setdefault(report.day, {})[report.provider] = report
    names = _names(reports, following)
    reject_single_provider(campaign, len(today))
    campaign = campaign.on(reports[0].day)
    model = campaign.models_for(names)
    days = [today, *later.values()]
    empty = np.zeros_like(reports[0].summary)
    summaries = [[day[name].summary if name in day else empty for name in names] for day in days]
    statistics = np.stack([campaign.statistics_of(model, of_day) for of_day in summaries])
    rows = np.array([[day[name].rows if name in day else 0 for name in names] for day in days], dtype=np.float64)
    if not campaign.waits:
        statistics, rows = statistics[0], rows[0]
    groups = campaign.group_numbers(names) if campaign.groups else None
    providers = max(len(campaign.providers), len(names)) if isinstance(model, Model) else len(names)
    rule = campaign.rule_for(model, providers)
    paid = [place for place, name in enumerate(names) if name in today]
    if not campaign.waits:
        model = with_features(model, [today.get(name) for name in names])
    return RoundSetup(rule, Round(model, statistics, groups, rows), names, paid, (0,) if campaign.waits else ())


def with_features(model: Model | Sequence[Model], reports: Sequence[Report | None]) -> Model | list[Model]:
    """Return models whose decoys are drawn from the likelihood itself where a report comes with its features."""
    if all(report is None or report.features is None for report in reports):
        return model if isinstance(model, Model) else list(model)
    models = one_each(model, len(reports))
    return [
        model_of_report.with_features(report.features, report.rows)
        if report is not None and report.features is not None and isinstance(model_of_report, DrawsAnswers)
        else model_of_report
        for model_of_report, report in zip(models, reports, strict=True)
    ]


def settle(
    campaign: Campaign,
    reports: Sequence[Report],
    following: Sequence[Report] | None = None,
    seed: str | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[Payment]:
    """Return everybody's payment for a round, in the order of names.

    ``following`` are the reports of the next day, or days, where the rule waits for them; None on the last day.
    ``progress`` is called with the part that is done, from 0 to 1, while the rule draws.
    """
    try:
        setup = set_up_round(campaign, reports, following)
        result = setup.rule.evaluate(replace(setup.seeded(seed), progress=progress))
        empty_shares = setup.rule.evaluate_empty(setup.seeded(seed))
        deposit_shares = setup.rule.deposit_shares(setup.seeded(seed))
    except TrothError as error:
        days = list(dict.fromkeys(report.day for report in (*reports, *(following or ()))))
        names = _names(reports, following)
        refusal = DataError(error.in_campaign(names, days))
        responsible = error.providers if isinstance(error, UnpayableRoundError) else (getattr(error, "provider", None),)
        refusal.names = tuple(names[place] for place in responsible if place is not None)
        raise refusal from None
    caps = campaign.caps_for([setup.names[place] for place in setup.paid])
    rows = {report.provider: report.rows for report in reports}
    payments: list[Payment] = []
    for place, cap in zip(setup.paid, caps, strict=True):
        index = (*setup.index, place)
        figures = result.at(*index, empty_share=float(empty_shares[index]))
        if len(payments) < _COMPARED:
            _check_explanation(campaign.rule, figures)
        deposit = ceil(cap * deposit_shares[index])
        payments.append(
            Payment(
                **vars(figures),
                provider=setup.names[place],
                rows=rows[setup.names[place]],
                cap=int(cap),
                payment=max(portion(figures.share, cap), -deposit),
                deposit=deposit,
            )
        )
    return payments


def _check_explanation(rule: Rule, figures: Figures) -> None:
    """Refuse a rule whose explanation its shares contradict: providers would take their payments for wrong."""
    span = rule.share_shown(disclosed(rule, figures))
    if span is not None and not span.contains(figures.share):
        raise ParameterError(
            f"{rule.name} pays a share of {figures.share:.4f}, but the numbers that the provider is shown give {span}: "
            "override share_shown and steps, so that they agree with the share"
        )


def reject_single_provider(campaign: Campaign, count: int, prefix: str = "") -> None:
    """Refuse a round of fewer than two providers, unless it is a day that others need for their comparison.

    Such a day pays its provider as for an empty report, a part of the budget that depends on who is invited.
    """
    if count > 1 or (campaign.rule.pays_alone and len(campaign.providers) > 1):
        return
    invited = "; list everybody who is invited in [data] providers, and this report is paid like an empty one"
    raise DataError(
        f"{prefix}a round needs the reports of at least two providers, not {count}: each is paid for what its data say "
        f"about the others'{invited if campaign.rule.pays_alone else ''}"
    )


def _names(reports: Sequence[Report], following: Sequence[Report] | None) -> list[str]:
    return sorted({report.provider for report in (*reports, *(following or ()))})


def rehearse(campaign: Campaign, providers: Sequence[str], report: Report | None = None) -> None:
    """Pay empty reports, or everybody for the same report, drawing once: what cannot be paid fails now, not later."""
    model: Any = campaign.model
    seed = "sha256:" + "0" * 64 if campaign.draws else None
    same = Report("", None, 0, np.zeros(model.reduction.width)) if report is None else report
    today = [replace(same, provider=name) for name in providers]
    for following in (today, None) if campaign.waits else (None,):
        setup = set_up_round(campaign, today, following)
        rule = setup.rule.drawing(1)
        result = rule.evaluate(setup.seeded(seed))
        empty_shares = rule.evaluate_empty(setup.seeded(seed))
        first = (*setup.index, 0)
        _check_explanation(rule, result.at(*first, empty_share=float(empty_shares[first])))
