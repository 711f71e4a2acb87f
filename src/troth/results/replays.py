"""What lies would have been paid on the reports that were paid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.rounds import later_days
from troth.campaigns.settle import scene
from troth.core.contract import Model, SamplesStatistics, has_independent_rows
from troth.core.errors import TrothError
from troth.data.read import reports_by_day

if TYPE_CHECKING:
    from troth.campaigns.settle import Scene
    from troth.campaigns.terms import Campaign
    from troth.core.support import Array
    from troth.results.result import Result


@dataclass(frozen=True)
class Replay:
    """What one lie would have been paid, each provider lying alone: means over providers, in shares of the cap."""

    lie: str
    truth: float
    earned: float


def replay_lies(result: Result) -> list[Replay]:
    """Score, for each provider alone, another report against the same peers: only its own report changes."""
    campaign, stage, seed = last_scene(result)
    at: Any = (*stage.index, np.array(stage.paid))
    truth = stage.rule.evaluate(stage.fresh(seed)).share[at]
    replays = []
    lies = _other_reports(stage, np.random.default_rng(20201206))
    if (known := campaign.public.get(None)) is not None:
        copies = [campaign.statistics(model, known.summary) for model in stage.models]
        lies.append(("copy the public data", np.broadcast_to(np.array(copies), stage.round.statistics.shape)))
    for lie, own in lies:
        try:
            share = stage.rule.breakdown(stage.fresh(seed).with_own(own)).share[at]
        except TrothError:
            continue
        if np.isfinite(share).all():
            replays.append(Replay(lie, float(truth.mean()), float(share.mean())))
    return replays


def last_scene(result: Result) -> tuple[Campaign, Scene, str | None]:
    """Return the last round that was scored, as the rule saw it, with the campaign on that day."""
    campaign, by_day, heads = result.campaign, reports_by_day(result.reports), result.ledger.of("round")
    scored = [head for head in heads if not campaign.waits or head["next"] not in (None, [])] or heads
    head = scored[-1]
    following = [report for day in later_days(campaign, list(by_day), head["day"]) for report in by_day[day]] or None
    return campaign.on(head["day"]), scene(campaign, by_day[head["day"]], following), head["seed"]


def _other_reports(stage: Scene, rng: np.random.Generator) -> list[tuple[str, Array]]:
    """Return the lies that are made of statistics alone, without rows."""
    t = stage.round.statistics
    model: Any = stage.round.evidence
    lies = [("report nothing", np.zeros_like(t))]
    if has_independent_rows(model):
        lies.append(("replicate 2 times", 2 * t))
    if isinstance(model, SamplesStatistics) and isinstance(stage.round.model, Model):
        try:
            theta = model.draw_parameters(rng, t.shape[:-1])
            lies.append(("fabricate from prior", model.draw_statistics(rng, theta, model.design(t))))
        except (TrothError, TypeError):
            pass
    return lies
