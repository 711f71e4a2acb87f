"""Settle a round: a pure function from terms, reports and seed to payments, used to pay and to verify."""

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


_CHECKED_EXPLANATIONS = 10  # payments of a round whose explanations are compared with their shares


@dataclass(frozen=True, kw_only=True)
class Payment(Figures):
    """One provider's payment in a round, and the numbers behind it.

    Money is in minor units. The cap is rounded down; the deposit is what a bonded provider pays in beforehand.
    """

    provider: str
    rows: int
    cap: int
    payment: int
    deposit: int = 0


@dataclass(frozen=True)
class RoundSetup:
    """A round as the rule sees it, and the position of each provider in it.

    ``names`` lists the providers along the provider axis, including those who report only on the next day, and ``paid``
    the positions of those who are paid. ``index`` selects the round in the rule's arrays: ``(0,)`` for rules that
    compare days, whose arrays begin with a day axis, and otherwise ``()``.
    """

    rule: Rule
    round: Round
    names: list[str]
    paid: list[int]
    index: tuple[int, ...]

    def seeded(self, seed: str | None) -> Round:
        """Return the round with a fresh generator, which every evaluation needs."""
        return replace(self.round, rng=None if seed is None else generator(seed))


def set_up_round(campaign: Campaign, reports: Sequence[Report], following: Sequence[Report] | None) -> RoundSetup:
    """Arrange the reports of a round for the rule, with those of the following days that it compares."""
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
    paid = [position for position, name in enumerate(names) if name in today]
    if not campaign.waits:
        model = with_features(model, [today.get(name) for name in names])
    return RoundSetup(rule, Round(model, statistics, groups, rows), names, paid, (0,) if campaign.waits else ())


def with_features(model: Model | Sequence[Model], reports: Sequence[Report | None]) -> Model | list[Model]:
    """Return models that draw decoys from the likelihood itself for reports that come with features."""
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
    """Return the payments of a round, sorted by name.

    ``following`` are the reports of the next day or days if the rule compares them, and None on the last day.
    ``progress`` is called with the completed fraction while the rule draws.
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
        refusal.names = tuple(names[position] for position in responsible if position is not None)
        raise refusal from None
    caps = campaign.caps_for([setup.names[position] for position in setup.paid])
    rows = {report.provider: report.rows for report in reports}
    payments: list[Payment] = []
    for position, cap in zip(setup.paid, caps, strict=True):
        index = (*setup.index, position)
        figures = result.at(*index, empty_share=float(empty_shares[index]))
        if len(payments) < _CHECKED_EXPLANATIONS:
            _check_explanation(campaign.rule, figures)
        deposit = ceil(cap * deposit_shares[index])
        payments.append(
            Payment(
                **vars(figures),
                provider=setup.names[position],
                rows=rows[setup.names[position]],
                cap=int(cap),
                payment=max(portion(figures.share, cap), -deposit),
                deposit=deposit,
            )
        )
    return payments


def _check_explanation(rule: Rule, figures: Figures) -> None:
    """Reject a rule whose explanation contradicts its shares: providers would believe that their payments are wrong."""
    span = rule.share_shown(disclosed(rule, figures))
    if span is not None and not span.contains(figures.share):
        raise ParameterError(
            f"{rule.name} pays a share of {figures.share:.4f}, but the numbers that the provider is shown give {span}: "
            "override share_shown and steps, so that they agree with the share"
        )


def reject_single_provider(campaign: Campaign, count: int, prefix: str = "") -> None:
    """Reject a round of fewer than two providers, unless the rule needs the day for a comparison.

    Such a day pays its provider the empty share of a cap that depends on who is invited.
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
    """Try to pay all providers for the same report, empty by default, drawing once: what cannot be paid fails early."""
    model: Any = campaign.model
    seed = "sha256:" + "0" * 64 if campaign.draws else None
    report = Report("", None, 0, np.zeros(model.reduction.width)) if report is None else report
    today = [replace(report, provider=name) for name in providers]
    for following in (today, None) if campaign.waits else (None,):
        setup = set_up_round(campaign, today, following)
        rule = setup.rule.drawing(1)
        result = rule.evaluate(setup.seeded(seed))
        empty_shares = rule.evaluate_empty(setup.seeded(seed))
        first = (*setup.index, 0)
        _check_explanation(rule, result.at(*first, empty_share=float(empty_shares[first])))
