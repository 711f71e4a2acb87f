"""What lies would have been paid on the reports that were paid."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.rounds import following_reports
from troth.campaigns.settle import scene
from troth.core.contract import HasReduction, Model, SamplesStatistics, has_independent_rows
from troth.core.errors import TrothError
from troth.core.reductions.reduction import TakesFewerRows
from troth.data.read import reports_by_day

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from troth.campaigns.settle import Scene
    from troth.campaigns.terms import Campaign
    from troth.core.reductions import Reduction
    from troth.core.support import Array
    from troth.data import Report
    from troth.results.result import Result


NOTHING, LESS, TWICE = "report nothing", {"send a tenth": 10, "send half": 2}, "replicate 2 times"
_CHOICES = 4  # of fewer rows, over which pay is averaged


@dataclass(frozen=True)
class _Lie:
    """What everybody would report instead, each time another choice, and the places of those who can."""

    reports: list[Array]
    places: list[int]


@dataclass(frozen=True)
class Replay:
    """What one lie would have been paid, each provider lying alone, in shares of the cap.

    ``truth`` and ``earned`` are means over providers, of what was paid and of what the lie would have been paid.
    ``gains`` has what it would have added by name, without those who have too few rows for it.
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

    By default all lies are tried. Peers are drawn at most as often as ``decoys`` says, which changes no expected
    payment. The truth is then scored with the same draws as the lie, so that what they gain or lose by chance cancels.
    """
    campaign, stage, seed, today = _last_scene(result)
    day = last_scored(result)["day"]
    shares = {each.provider: each.share for paid in result.rounds if paid.day == day for each in paid.payments}
    replays = []
    for lie, other in _other_reports(campaign, stage, today).items():
        if (lies is not None and lie not in lies) or not other.places:
            continue
        at: Any = (*stage.index, np.array(other.places))
        rule, seeds = stage.rule, [seed] * len(other.reports)
        if decoys is not None and seed is not None:
            rule = rule.drawing(max(1, decoys // len(other.reports)))
            seeds = [sha256(f"{seed} {number}".encode()).hexdigest() for number in range(len(other.reports))]
        try:
            truths = {each: rule.evaluate(stage.fresh(each)).share[at] for each in set(seeds)}
            pairs = zip(other.reports, seeds, strict=True)
            gain = np.mean(
                [rule.evaluate(stage.fresh(each).with_own(own)).share[at] - truths[each] for own, each in pairs], axis=0
            )
        except (TrothError, ArithmeticError, ValueError):
            continue
        if np.isfinite(gain).all():
            names = [stage.names[place] for place in other.places]
            truth = float(np.mean([shares[name] for name in names]))
            gains = dict(zip(names, gain.tolist(), strict=True))
            replays.append(Replay(lie, truth, truth + float(gain.mean()), gains))
    return replays


def last_scored(result: Result) -> dict[str, Any]:
    """Return the ledger's entry on the last round that was scored, the one in which lies are replayed."""
    heads = result.ledger.of("round")
    scored = [head for head in heads if not result.campaign.waits or head["next"] not in (None, [])] or heads
    return scored[-1]


def _last_scene(result: Result) -> tuple[Campaign, Scene, str | None, list[Report]]:
    """Return the last round that was scored, as the rule saw it, with the campaign and the reports on that day."""
    campaign, by_day, head = result.campaign, reports_by_day(result.reports), last_scored(result)
    today, following = by_day[head["day"]], following_reports(campaign, by_day, head["day"])
    return campaign.on(head["day"]), scene(campaign, today, following), head["seed"], today


def _other_reports(campaign: Campaign, stage: Scene, today: list[Report]) -> dict[str, _Lie]:
    """Return the lies that are made of sums alone, without rows."""
    t, rng = stage.round.statistics, np.random.default_rng(20201206)
    model: Any = stage.round.evidence
    lies = {NOTHING: np.zeros_like(t)}
    if isinstance(model, HasReduction) or has_independent_rows(model):
        twice = {report.provider: 2 * report.summary for report in today}
        lies[TWICE] = _replaced(campaign, stage, twice) if isinstance(model, HasReduction) else 2 * t
    if isinstance(model, SamplesStatistics):
        try:
            theta = model.draw_parameters(rng, t.shape[:-1])
            lies["fabricate from prior"] = _drawn(stage, theta, rng)
        except (TrothError, TypeError):
            pass
    if (known := campaign.public.get(None)) is not None:
        copies = [campaign.statistics(model, known.summary) for model in stage.models]
        lies["copy the public data"] = np.broadcast_to(np.array(copies), t.shape)
    fewer = {lie: _fewer(parts, campaign, stage, today) for lie, parts in LESS.items()}
    return fewer | {lie: _Lie([own], stage.paid) for lie, own in lies.items()}


def _drawn(stage: Scene, theta: Array, rng: np.random.Generator) -> Array:
    """Draw everybody's statistics given θ, with their own sizes and features."""
    t, model = stage.round.statistics, stage.round.model
    if isinstance(model, Model):
        one: Any = model
        return np.asarray(one.draw_statistics(rng, theta, one.design(t)))
    each: list[Any] = list(model)
    drawn = [m.draw_statistics(rng, theta[..., i, :], m.design(t[..., i, :])) for i, m in enumerate(each)]
    return np.stack(drawn, axis=-2)


def _fewer(parts: int, campaign: Campaign, stage: Scene, today: list[Report]) -> _Lie:
    """Return choices of one row in `parts`, by those who have that many rows.

    Labels are drawn from those reported. Numbers keep their averages.
    """
    rng, model = np.random.default_rng(20201206), campaign.model
    if not isinstance(model, HasReduction) or not isinstance(stage.round.evidence, HasReduction):
        return _Lie([], [])
    choices = [
        {report.provider: _some_rows(model.reduction, report, report.rows // parts, rng) for report in today}
        for _ in range(_CHOICES)
    ]
    able = [place for place in stage.paid if all(choice[stage.names[place]] is not None for choice in choices)]
    return _Lie([_replaced(campaign, stage, choice) for choice in choices], able)


def _some_rows(reduction: Reduction, report: Report, rows: int, rng: np.random.Generator) -> Array | None:
    """Return a summary of some rows of a report, drawn or averaged, or None if no `rows` rows can have it."""
    if rows < max(1, reduction.columns - 1):
        return None
    scaled = report.summary * rows / report.rows
    summary = reduction.fewer(report.summary, rows, rng) if isinstance(reduction, TakesFewerRows) else scaled
    try:
        reduction.check(summary)
    except TrothError:
        return None
    return summary


def _replaced(campaign: Campaign, stage: Scene, summaries: Mapping[str, Array | None]) -> Array:
    """Return everybody's statistics, those of some replaced by the statistics of other summaries."""
    own, model = stage.round.statistics.copy(), stage.round.model
    others = {place: other for place in stage.paid if (other := summaries[stage.names[place]]) is not None}
    if others:
        models = model if isinstance(model, Model) else [model[place] for place in others]
        at: Any = (*stage.index, list(others))
        own[at] = campaign.statistics_of(models, list(others.values()))
    return own
