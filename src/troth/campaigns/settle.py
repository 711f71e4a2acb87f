"""What everybody earns in a round: a pure function of terms, reports and seed, used to pay and to verify."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.money import portion
from troth.campaigns.seed import generator
from troth.core.contract import Model
from troth.core.errors import DataError, TrothError, UnpayableRoundError
from troth.mechanisms import Figures, Round

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.campaigns.terms import Campaign
    from troth.core.contract import Array
    from troth.data import Report
    from troth.mechanisms import Rule


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
class Scene:
    """A round as the rule sees it, and where everybody is in it.

    Attributes
    ----------
    names
        Everybody who has a place in the arrays, also those who report on the next day only.
    paid
        Places of those who are paid.
    index
        What comes before the provider's place in the rule's arrays: the day, for rules that look at several.
    """

    rule: Rule
    round: Round
    names: list[str]
    paid: list[int]
    index: tuple[int, ...]

    def fresh(self, seed: str | None) -> Round:
        """Return the round with its generator at the start, as every evaluation needs it."""
        return replace(self.round, rng=None if seed is None else generator(seed))


def scene(campaign: Campaign, reports: Sequence[Report], following: Sequence[Report] | None) -> Scene:
    """Arrange reports for the rule: the round's, and the next day's where the rule waits for it."""
    today = {report.provider: report for report in reports}
    tomorrow = {report.provider: report for report in following or ()}
    names = _names(reports, following)
    refuse_one_provider(len(today))
    model = campaign.models_for(names)
    days = [today] if following is None else [today, tomorrow]
    statistics = np.stack([_statistics(model, names, day) for day in days])
    rows = np.array([[day[name].rows if name in day else 0 for name in names] for day in days], dtype=np.float64)
    if not campaign.waits:
        statistics, rows = statistics[0], rows[0]
    places: dict[tuple[str, str], int] = {}
    labels = [campaign.group_of(name) for name in names]
    groups = [places.setdefault(label, len(places)) for label in labels] if campaign.groups else None
    providers = max(len(campaign.providers), len(names)) if isinstance(model, Model) else len(names)
    rule = campaign.rule_for(model, providers)
    paid = [place for place, name in enumerate(names) if name in today]
    return Scene(rule, Round(model, statistics, groups, rows), names, paid, (0,) if campaign.waits else ())


def settle(
    campaign: Campaign, reports: Sequence[Report], following: Sequence[Report] | None = None, seed: str | None = None
) -> list[Payment]:
    """Return everybody's payment for a round, in the order of names.

    ``following`` are the next day's reports, where the rule waits for them; None on the last day.
    """
    try:
        stage = scene(campaign, reports, following)
        result = stage.rule.evaluate(stage.fresh(seed))
        empty_shares = stage.rule.evaluate_empty(stage.fresh(seed))
        deposit_shares = stage.rule.deposit_shares(stage.fresh(seed))
    except TrothError as error:
        days = [day_reports[0].day for day_reports in (reports, following) if day_reports]
        names = _names(reports, following)
        refusal = DataError(error.in_campaign(names, days))
        guilty = error.providers if isinstance(error, UnpayableRoundError) else (getattr(error, "provider", None),)
        refusal.names = tuple(names[place] for place in guilty if place is not None)
        raise refusal from None
    caps = campaign.caps_for([stage.names[place] for place in stage.paid])
    rows = {report.provider: report.rows for report in reports}
    payments = []
    for place, cap in zip(stage.paid, caps, strict=True):
        where = (*stage.index, place)
        figures = result.at(*where, empty_share=float(empty_shares[where]))
        deposit = ceil(cap * deposit_shares[where])
        payments.append(
            Payment(
                **vars(figures),
                provider=stage.names[place],
                rows=rows[stage.names[place]],
                cap=int(cap),
                payment=max(portion(figures.share, cap), -deposit),
                deposit=deposit,
            )
        )
    return payments


def refuse_one_provider(count: int, when: str = "") -> None:
    """Refuse a round of fewer than two providers."""
    if count < 2:
        raise DataError(
            f"{when}a round needs the reports of at least two providers, not {count}: each is paid by what its data "
            "and the others' say about each other"
        )


def _names(reports: Sequence[Report], following: Sequence[Report] | None) -> list[str]:
    return sorted({report.provider for report in (*reports, *(following or ()))})


def rehearse(campaign: Campaign, providers: Sequence[str]) -> None:
    """Pay empty reports, drawing once: a rule that cannot pay the model fails now, not when reports are in."""
    from troth.data import Report

    model: Any = campaign.model
    seed = "sha256:" + "0" * 64 if campaign.draws else None
    today = [Report(name, None, 0, np.zeros(model.reduction.width)) for name in providers]
    for following in (today, None) if campaign.waits else (None,):
        stage = scene(campaign, today, following)
        stage.rule.drawing(1).evaluate(stage.fresh(seed))


def statistics_of(model: Any, summary: Array) -> Array:
    """Return the statistics that a model makes of a summary; a custom model without one reports its statistics."""
    return np.asarray(model.from_summary(summary) if hasattr(model, "from_summary") else summary, dtype=np.float64)


def _statistics(model: Model | list[Model], names: list[str], reports: dict[str, Report]) -> Array:
    empty = np.zeros_like(next(iter(reports.values())).summary)
    summaries = [reports[name].summary if name in reports else empty for name in names]
    if isinstance(model, Model):
        return statistics_of(model, np.array(summaries))
    return np.array([statistics_of(own, each) for own, each in zip(model, summaries, strict=True)])
