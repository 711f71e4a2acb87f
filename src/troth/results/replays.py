"""What lies would have been paid on the reports that were paid."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.rounds import later_days
from troth.campaigns.settle import scene
from troth.core.contract import HasReduction, Model, SamplesStatistics, has_independent_rows
from troth.core.errors import TrothError
from troth.data.read import reports_by_day

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from troth.campaigns.settle import Scene
    from troth.campaigns.terms import Campaign
    from troth.core.support import Array
    from troth.data import Report
    from troth.results.result import Result


NOTHING, LESS, TWICE = "report nothing", {"send a tenth": 0.1, "send half": 0.5}, "replicate 2 times"


@dataclass(frozen=True)
class Replay:
    """What one lie would have been paid, each provider lying alone, in shares of the cap.

    Attributes
    ----------
    truth, earned
        Means over providers: of what was paid, and of what the lie would have been paid.
    gains
        By name, what the lie would have added.
    """

    lie: str
    truth: float
    earned: float
    gains: Mapping[str, float] = field(default_factory=dict)

    @property
    def gain(self) -> float:
        """What the lie would have added, on average over providers."""
        return self.earned - self.truth


def replay_lies(result: Result, lies: Collection[str] | None = None, decoys: int | None = None) -> list[Replay]:
    """Score, for each provider alone, another report against the same peers: only its own report changes.

    Parameters
    ----------
    lies
        Some of the lies, by name; by default all.
    decoys
        Draw peers at most this often, which changes no expected payment.
    """
    campaign, stage, seed, today = _last_scene(result)
    rule = stage.rule if decoys is None else stage.rule.drawing(decoys)
    at: Any = (*stage.index, np.array(stage.paid))
    truth = rule.evaluate(stage.fresh(seed)).share[at]
    names = [stage.names[place] for place in stage.paid]
    replays = []
    for lie, own in _other_reports(campaign, stage, today).items():
        if lies is not None and lie not in lies:
            continue
        try:
            share = rule.evaluate(stage.fresh(seed).with_own(own)).share[at]
        except (TrothError, ArithmeticError, ValueError):
            continue
        if np.isfinite(share).all():
            gains = dict(zip(names, (share - truth).tolist(), strict=True))
            replays.append(Replay(lie, float(truth.mean()), float(share.mean()), gains))
    return replays


def _last_scene(result: Result) -> tuple[Campaign, Scene, str | None, list[Report]]:
    """Return the last round that was scored, as the rule saw it, with the campaign and the reports on that day."""
    campaign, by_day, heads = result.campaign, reports_by_day(result.reports), result.ledger.of("round")
    scored = [head for head in heads if not campaign.waits or head["next"] not in (None, [])] or heads
    head = scored[-1]
    following = [report for day in later_days(campaign, list(by_day), head["day"]) for report in by_day[day]] or None
    today = by_day[head["day"]]
    return campaign.on(head["day"]), scene(campaign, today, following), head["seed"], today


def _other_reports(campaign: Campaign, stage: Scene, today: list[Report]) -> dict[str, Array]:
    """Return the lies that are made of sums alone, without rows."""
    t, rng = stage.round.statistics, np.random.default_rng(20201206)
    model: Any = stage.round.evidence
    lies = {NOTHING: np.zeros_like(t)}
    for lie, times in {**LESS, TWICE: 2.0}.items():
        own = _times(times, campaign, stage, today)
        if own is not None:
            lies[lie] = own
    if isinstance(model, SamplesStatistics):
        try:
            theta = model.draw_parameters(rng, t.shape[:-1])
            lies["fabricate from prior"] = _drawn(stage, theta, rng)
        except (TrothError, TypeError):
            pass
    if (known := campaign.public.get(None)) is not None:
        copies = [campaign.statistics(model, known.summary) for model in stage.models]
        lies["copy the public data"] = np.broadcast_to(np.array(copies), t.shape)
    return lies


def _drawn(stage: Scene, theta: Array, rng: np.random.Generator) -> Array:
    """Draw everybody's statistics given θ, with their own sizes and features."""
    t, model = stage.round.statistics, stage.round.model
    if isinstance(model, Model):
        one: Any = model
        return np.asarray(one.draw_statistics(rng, theta, one.design(t)))
    each: list[Any] = list(model)
    drawn = [m.draw_statistics(rng, theta[..., i, :], m.design(t[..., i, :])) for i, m in enumerate(each)]
    return np.stack(drawn, axis=-2)


def _times(times: float, campaign: Campaign, stage: Scene, today: list[Report]) -> Array | None:
    """Return reports with the same averages and ``times`` as many rows, or None if sums of rows are not known."""
    t = stage.round.statistics
    if not isinstance(stage.round.evidence, HasReduction):
        return times * t if has_independent_rows(stage.round.evidence) else None
    summaries = {report.provider: report.summary for report in today}
    own = t.copy()
    for model, places in stage.paid_by_model:
        sums = np.array([summaries[stage.names[place]] for place in places])
        at: Any = (*stage.index, places)
        own[at] = campaign.statistics(model, times * sums)
    return own
