"""Replays of lies against the reports of a paid round."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from troth.audits.strategies import CopyPublic, FabricateFromPrior, Nothing, Replicate, SendPart
from troth.audits.strategies.strategy import RoundKnowledge
from troth.campaigns.rounds import following_reports
from troth.campaigns.settle import set_up_round
from troth.core.contract import HasReduction, Model, has_independent_rows
from troth.core.errors import TrothError
from troth.data.read import reports_by_day

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.campaigns.settle import RoundSetup
    from troth.campaigns.terms import Campaign
    from troth.core.support import Array
    from troth.data import Report
    from troth.results.result import Result

RoundLie: TypeAlias = SendPart | Nothing | Replicate | FabricateFromPrior | CopyPublic
"""A lie that can be replayed on the reports of one round, without rows."""

LESS: tuple[RoundLie, ...] = (SendPart(10), SendPart(2))
LIES: tuple[RoundLie, ...] = (*LESS, Nothing(), Replicate(2), FabricateFromPrior(), CopyPublic())
DRAWS = 499  # draws of peers in a quick replay
_SAMPLES = 4  # random samples of fewer rows, over which payments are averaged


@dataclass(frozen=True)
class Replay:
    """What one lie would have earned if each provider had lied alone, in shares of the cap.

    ``truth`` and ``earned`` are means over providers of the shares of the truth and the lie, with the same draws.
    ``gains`` are the differences by provider, without those who have too few rows for the lie.
    """

    lie: str
    truth: float
    earned: float
    gains: Mapping[str, float] = field(default_factory=dict)

    @property
    def gain(self) -> float:
        """The mean gain of the lie over providers."""
        return self.earned - self.truth


def replay_lies(result: Result, lies: Sequence[RoundLie] = LIES, draws: int | None = None) -> list[Replay]:
    """Score each provider's lie against the same peers, one provider lying at a time.

    Lies that need another model or public data are left out. Peers are drawn at most ``draws`` times, which changes no
    expected payment. The truth is scored with the same draws as the lie, so that their common noise cancels.
    """
    campaign, setup, seed, today = _last_round_setup(result)
    replays = []
    for lie in lies:
        try:
            reports, indices = _reports_with_lie(lie, campaign, setup, today)
            if not indices:
                continue
            liars: Any = (*setup.index, np.array(indices))
            rule, seeds = setup.rule, [seed] * len(reports)
            if draws is not None and seed is not None:
                rule = rule.drawing(max(1, draws // len(reports)))
                seeds = [sha256(f"{seed} {number}".encode()).hexdigest() for number in range(len(reports))]
            truths = {round_seed: rule.evaluate(setup.seeded(round_seed)).share[liars] for round_seed in set(seeds)}
            scored = [
                (truths[round_seed], rule.evaluate(setup.seeded(round_seed).with_own(own)).share[liars])
                for own, round_seed in zip(reports, seeds, strict=True)
            ]
            truth, earned = np.mean(scored, axis=0)
        except (TrothError, ArithmeticError, ValueError, TypeError):
            continue
        if np.isfinite(earned - truth).all():
            gains = zip((setup.names[index] for index in indices), (earned - truth).tolist(), strict=True)
            replays.append(Replay(lie.name, float(truth.mean()), float(earned.mean()), dict(gains)))
    return replays


def last_scored(result: Result) -> dict[str, Any]:
    """Return the ledger's entry of the last scored round, in which lies are replayed."""
    heads = result.ledger.of("round")
    scored = [head for head in heads if not result.campaign.waits or head["next"] not in (None, [])] or heads
    return scored[-1]


def _last_round_setup(result: Result) -> tuple[Campaign, RoundSetup, str | None, list[Report]]:
    """Return the campaign, setup, seed and reports of the last scored round."""
    campaign, by_day, head = result.campaign, reports_by_day(result.reports), last_scored(result)
    today, following = by_day[head["day"]], following_reports(campaign, by_day, head["day"])
    return campaign.on(head["day"]), set_up_round(campaign, today, following), head["seed"], today


def _reports_with_lie(
    lie: RoundLie, campaign: Campaign, setup: RoundSetup, today: list[Report]
) -> tuple[list[Array], list[int]]:
    """Return samples of all providers' statistics under a lie, and the indices of providers who can tell it."""
    rng, model, evidence = np.random.default_rng(20201206), campaign.model, setup.round.evidence
    reduction = model.reduction if isinstance(model, HasReduction) and isinstance(evidence, HasReduction) else None
    match lie:  # the statistics may not determine those of fewer or more rows
        case FabricateFromPrior():
            return [lie.change_statistics(rng, setup.round)], setup.paid
        case SendPart():
            count = 0 if reduction is None else _SAMPLES
        case Replicate():
            count = int(reduction is not None or has_independent_rows(evidence))
        case _:
            count = 1
    if count == 0:
        return [], []
    public = public_report.summary if (public_report := campaign.public.get(None)) is not None else None
    choices: list[dict[str, Array]] = [{} for _ in range(count)]
    for choice, report in product(choices, today):
        with suppress(TrothError):  # too few rows
            knowledge = RoundKnowledge(reduction, report.summary[None], rng, public=public)
            choice[report.provider] = lie.change_summary(knowledge)[0]
    eligible = [index for index in setup.paid if all(setup.names[index] in choice for choice in choices)]
    return [_replaced(campaign, setup, choice) for choice in choices], eligible


def _replaced(campaign: Campaign, setup: RoundSetup, summaries: Mapping[str, Array]) -> Array:
    """Return all providers' statistics, replacing some by the statistics of other summaries."""
    own, model = setup.round.statistics.copy(), setup.round.model
    replacements = {index: summaries[name] for index, name in enumerate(setup.names) if name in summaries}
    if replacements:
        models = model if isinstance(model, Model) else [model[index] for index in replacements]
        replaced: Any = (*setup.index, list(replacements))
        own[replaced] = campaign.statistics_of(models, list(replacements.values()))
    return own
