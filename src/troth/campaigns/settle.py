"""What everybody earns in a round: a pure function of terms, reports and seed, used to pay and to verify."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.money import portion
from troth.campaigns.seed import generator
from troth.core.contract import Model
from troth.core.errors import DataError, TrothError
from troth.mechanisms import Bonded, MultiDay, Round, SyntheticPeers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.campaigns.terms import Campaign
    from troth.core.contract import Array
    from troth.data import Report
    from troth.mechanisms import Breakdown, Rule


@dataclass(frozen=True)
class Payment:
    """What one provider earns in a round, and all numbers that it came from.

    Attributes
    ----------
    log_pmi
        Log PMI of the report with its peers', in nats.
    score, low, high
        What is put on a scale, and the scale; None where nothing is scored.
    share
        Share of the cap that is paid.
    nothing
        Share of the cap that an empty report would have been paid.
    cap
        The most that the provider could earn, in minor units, rounded down.
    payment
        In minor units.
    deposit
        What a bonded provider deposits beforehand, in minor units.
    """

    provider: str
    rows: int
    log_pmi: float | None
    score: float | None
    low: float | None
    high: float | None
    terms: dict[str, float]
    share: float
    nothing: float
    cap: int
    payment: int
    deposit: int = 0
    note: str = ""


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
        rng = None if seed is None else generator(seed)
        r = self.round
        return Round(r.model, r.statistics, r.groups, r.rows, rng)


def scene(campaign: Campaign, reports: Sequence[Report], following: Sequence[Report] | None) -> Scene:
    """Arrange reports for the rule: the round's, and the next day's where the rule waits for it."""
    today = {report.provider: report for report in reports}
    tomorrow = {report.provider: report for report in following or ()}
    names = sorted({*today, *tomorrow})
    if len(today) < 2:
        raise DataError(
            f"a round needs the reports of at least two providers, not {len(today)}: each is paid by what its data and "
            "the others' say about each other"
        )
    model = campaign.models_for(names)
    parts = [_statistics(model, names, today)]
    counts = [[today[name].rows if name in today else 0 for name in names]]
    if following is not None:
        parts.append(_statistics(model, names, tomorrow))
        counts.append([tomorrow[name].rows if name in tomorrow else 0 for name in names])
    several = campaign.waits
    statistics = np.stack(parts) if several else parts[0]
    rows = np.array(counts if several else counts[0], dtype=np.float64)
    labels = [campaign.group_of(name) for name in names]
    places: dict[tuple[str, str], int] = {}
    groups = [places.setdefault(label, len(places)) for label in labels] if campaign.groups else None
    rule = campaign.rule_for(
        model, max(len(campaign.providers), len(names)) if isinstance(model, Model) else len(names)
    )
    paid = [place for place, name in enumerate(names) if name in today]
    return Scene(rule, Round(model, statistics, groups, rows), names, paid, (0,) if several else ())


def settle(
    campaign: Campaign, reports: Sequence[Report], following: Sequence[Report] | None = None, seed: str | None = None
) -> list[Payment]:
    """Return everybody's payment for a round, in the order of names.

    Parameters
    ----------
    reports
        The round's reports.
    following
        The next day's reports, where the rule waits for them; None on the last day.
    seed
        For rules that draw.
    """
    names: list[str] = []
    try:
        stage = scene(campaign, reports, following)
        names = stage.names
        result = stage.rule.evaluate(stage.fresh(seed))
        nothing = stage.rule.empty_share_of(stage.fresh(seed))
    except TrothError as error:
        days = [some[0].day for some in (reports, following) if some]
        raise DataError(_with_names(str(error), names or sorted(r.provider for r in reports), days)) from None
    caps = campaign.caps_for([names[place] for place in stage.paid])
    rows = {report.provider: report.rows for report in reports}
    deposits = _deposits(stage, caps)
    found = []
    for place, cap, deposit in zip(stage.paid, caps, deposits, strict=True):
        where = (*stage.index, place)
        share = float(result.share[where])
        amount = max(portion(share, cap), -deposit)
        found.append(_payment(result, where, names[place], rows, cap, amount, deposit, float(nothing[where])))
    return found


def rehearse(campaign: Campaign, providers: Sequence[str]) -> None:
    """Pay empty reports, drawing once: a rule that cannot be made for the model fails now, not when reports are in."""
    from troth.data import Report

    model: Any = campaign.model
    seed = "sha256:" + "0" * 64 if campaign.draws else None
    today = [Report(name, None, 0, np.zeros(model.reduction.width)) for name in providers]
    for following in (today, None) if campaign.waits else (None,):
        stage = scene(campaign, today, following)
        _drawing_once(stage.rule).evaluate(stage.fresh(seed))


def _drawing_once(rule: Rule) -> Rule:
    if isinstance(rule, SyntheticPeers):
        return replace(rule, draws=1)
    if isinstance(rule, Bonded):
        return Bonded(_drawing_once(rule.rule))
    if isinstance(rule, MultiDay) and not isinstance(rule.last, str):
        return replace(rule, last=_drawing_once(rule.last))
    return rule


def statistics_of(model: Any, summary: Array) -> Array:
    """Return the statistics that a model makes of a summary; a custom model without one reports its statistics."""
    return np.asarray(model.from_summary(summary) if hasattr(model, "from_summary") else summary, dtype=np.float64)


def _statistics(model: Model | list[Model], names: list[str], reports: dict[str, Report]) -> Array:
    empty = np.zeros_like(next(iter(reports.values())).summary)
    summaries = [reports[name].summary if name in reports else empty for name in names]
    if isinstance(model, Model):
        return statistics_of(model, np.array(summaries))
    return np.array([statistics_of(own, each) for own, each in zip(model, summaries, strict=True)])


def _deposits(stage: Scene, caps: list[Fraction]) -> list[int]:
    rule = stage.rule
    if not isinstance(rule, Bonded):
        return [0] * len(caps)
    inner = rule.rule.empty_share_of(stage.round) if rule.rule.constant_empty_share else None
    found = []
    for place, cap in zip(stage.paid, caps, strict=True):
        share = None if inner is None else Fraction(float(inner[(*stage.index, place)]))
        found.append(ceil(cap if share is None or share >= 1 else cap * share / (1 - share)))
    return found


def _payment(
    result: Breakdown,
    where: tuple[int, ...],
    name: str,
    rows: dict[str, int],
    cap: Fraction,
    amount: int,
    deposit: int,
    nothing: float,
) -> Payment:
    def at(array: Any) -> float | None:
        if array is None:
            return None
        value = float(np.broadcast_to(array, np.shape(result.share))[where])
        return None if np.isnan(value) else value

    score = at(result.score)
    noted = result.note and bool(np.broadcast_to(result.noted, np.shape(result.share))[where])
    terms = {term: value for term, array in result.terms.items() if (value := at(array)) is not None}
    return Payment(
        provider=name,
        rows=rows[name],
        log_pmi=at(result.log_pmi),
        score=score,
        low=None if score is None else at(result.low),
        high=None if score is None else at(result.high),
        terms=terms,
        share=float(result.share[where]),
        nothing=nothing,
        cap=int(cap),
        payment=amount,
        deposit=deposit,
        note=result.note if noted else "",
    )


def _with_names(message: str, names: Sequence[str], days: Sequence[Any] = ()) -> str:
    """Put names where a rule, which knows only places, says "provider 3" or "day 0"."""

    def name(match: re.Match[str]) -> str:
        place = int(match.group(1))
        return f"provider {names[place]!r}" if place < len(names) else match.group(0)

    for place, day in enumerate(days):
        message = re.sub(rf"\bday {place}\b", f"day {day}", message, count=1)
    message = message.replace(
        "declare exchangeable=True if providers",
        "set exchangeable = true under [mechanism] before the first payment if providers",
    )
    return re.sub(r"\bprovider (\d+)\b", name, message)
