"""What a buyer should know beside the payments: posterior, proofs, lies, fit, near duplicates. None stops payment."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from troth.campaigns.check import Setting, audit_campaign, certify_campaign, reduced, setting_of
from troth.campaigns.past import backtest_campaign, campaign_history, read_history
from troth.campaigns.settle import scene, statistics_of
from troth.certificates import Certificate, Fit, check_fit, find_near_duplicates
from troth.core.contract import (
    HasFiniteStates,
    Model,
    NamesParameters,
    SamplesData,
    SamplesPosterior,
    SamplesStatistics,
    has_independent_rows,
)
from troth.core.errors import DataError, TrothError
from troth.history import History

if TYPE_CHECKING:
    from collections.abc import Callable

    from troth.audits import Audit
    from troth.campaigns.settle import Scene
    from troth.campaigns.terms import Campaign
    from troth.core.support import Array
    from troth.data import Report
    from troth.history import ModelComparison
    from troth.results.result import Result

T = TypeVar("T")
_NUMBERS = 20_000_000  # that a check may draw
_MOST_PROVIDERS = 200


@dataclass(frozen=True)
class Replay:
    """What one lie would have been paid on these very reports, each provider lying alone; shares of the cap."""

    lie: str
    truth: float
    earned: float


@dataclass(frozen=True)
class Belief:
    """Prior and posterior of one parameter: bars for finite states, curves otherwise."""

    name: str
    places: list[Any]
    prior: Array
    posterior: Array
    discrete: bool = False
    summary: str = ""


@dataclass
class Findings:
    """All that was found; what could not be done is in ``skipped``, with the reason."""

    setting: Setting | None = None
    certificate: Certificate | None = None
    audit: Audit | None = None
    replays: list[Replay] = field(default_factory=list)
    fit: Fit | None = None
    fit_of: str = ""
    near_duplicates: list[tuple[Any, str, str, str]] = field(default_factory=list)
    beliefs: list[Belief] = field(default_factory=list)
    belief_day: Any = None
    backtest: ModelComparison | None = None
    skipped: dict[str, str] = field(default_factory=dict)


def find(
    result: Result,
    *,
    rounds: int = 4000,
    history: Any = None,
    watch: Callable[[str, int, int], None] | None = None,
) -> Findings:
    """Find out everything about a paid campaign."""
    found = Findings()
    campaign, reports = result.campaign, result.reports
    if not result.rounds:
        return found
    day = result.rounds[-1].day
    today = [report for report in reports if report.day == day]

    def attempt(what: str, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except (TrothError, ArithmeticError, ValueError, TypeError, LookupError, MemoryError) as error:
            found.skipped[what] = str(error).split("\n")[0]
            return None

    stages: dict[str, Callable[[], None]] = {}
    found.setting = setting_of(campaign, today)
    small = reduced(found.setting)

    def certificate() -> None:
        found.certificate = attempt(
            "proofs", lambda: certify_campaign(campaign, small if small.reduced else setting_of(campaign, today))
        )

    def lies() -> None:
        found.audit = attempt("lies", lambda: audit_campaign(campaign, small, rounds=rounds, show_progress=False))
        found.replays = attempt("replays", lambda: _replays(result)) or []

    def fit() -> None:
        found.fit = attempt("fit", lambda: _fit(campaign, reports, found))

    def near_duplicates() -> None:
        found.near_duplicates = attempt("near duplicates", lambda: _near_duplicates(campaign, reports)) or []

    def beliefs() -> None:
        found.belief_day = day
        found.beliefs = attempt("posterior", lambda: beliefs_of(campaign, today)) or []

    def past() -> None:
        found.backtest = attempt("backtest", lambda: _backtest(campaign, history))

    stages = {
        "backtest": past,
        "proofs": certificate,
        "lies": lies,
        "fit": fit,
        "near duplicates": near_duplicates,
        "posterior": beliefs,
    }
    for done, stage in enumerate(stages.values(), 1):
        with np.errstate(all="ignore"):  # extreme values are told in words
            stage()
        if watch is not None:
            watch("report", done, len(stages))
    return found


def _backtest(campaign: Campaign, history: Any) -> ModelComparison | None:
    """Replay the known lies on the past days that the campaign names, or that are given."""
    past = campaign_history(campaign) if history is None else history
    if past is None:
        return None
    past = past if isinstance(past, History) else read_history(campaign, past)
    return backtest_campaign(campaign, past)


def _last_scene(result: Result) -> tuple[Scene, str | None]:
    """Return the last round that was scored, as the rule saw it."""
    campaign = result.campaign
    by_day: dict[Any, list[Report]] = {}
    for report in result.reports:
        by_day.setdefault(report.day, []).append(report)
    heads = result.ledger.of("round")
    scored = [head for head in heads if not campaign.waits or head["next"] is not None] or heads
    head = scored[-1]
    following = by_day.get(head["next"]) if head["next"] is not None else None
    return scene(campaign, by_day[head["day"]], following), head["seed"]


def _replays(result: Result) -> list[Replay]:
    """Score, for each provider alone, another report against the same peers: only one's own report changes."""
    stage, seed = _last_scene(result)
    round_ = stage.fresh(seed)
    places = np.array(stage.paid)
    at: Any = (*stage.index, places)
    truth = stage.rule.evaluate(round_).share[at]
    found = []
    rng = np.random.default_rng(20201206)
    for lie, own in _other_reports(stage, rng):
        try:
            share = stage.rule.breakdown(stage.fresh(seed).with_own(own)).share[at]
        except TrothError:
            continue
        if np.isfinite(share).all():
            found.append(Replay(lie, float(truth.mean()), float(share.mean())))
    return found


def _other_reports(stage: Scene, rng: np.random.Generator) -> list[tuple[str, Array]]:
    """Return lies that statistics alone can tell: they need no rows."""
    t = stage.round.statistics
    model: Any = stage.round.evidence
    found = [("report nothing", np.zeros_like(t))]
    if has_independent_rows(model):
        found.append(("replicate 2 times", 2 * t))
    if isinstance(model, SamplesStatistics) and isinstance(stage.round.model, Model):
        try:
            theta = model.draw_parameters(rng, t.shape[:-1])
            found.append(("fabricate from prior", model.draw_statistics(rng, theta, model.design(t))))
        except (TrothError, TypeError):
            pass
    return found


def _fit(campaign: Campaign, reports: list[Report], found: Findings) -> Fit:
    """Check the model's fit on the days on which the same providers reported, as many as can be simulated."""
    by_day: dict[Any, dict[str, Report]] = {}
    for report in reports:
        by_day.setdefault(report.day, {})[report.provider] = report
    common = Counter(tuple(sorted(day)) for day in by_day.values()).most_common(1)[0][0]
    width = len(np.atleast_1d(next(iter(by_day.values()))[common[0]].summary))
    most = max(3, min(_MOST_PROVIDERS, _NUMBERS // (800 * max(1, width))))
    names = list(common[:: max(1, -(-len(common) // most))])
    days = [day for day in by_day.values() if tuple(sorted(day)) == common]
    days = days[-max(1, min(len(days), _NUMBERS // (800 * width * len(names)))) :]
    model: Any = campaign.models_for(names)
    t = np.array([_statistics(model, [day[name] for name in names]) for day in days])
    rows = np.array([[day[name].rows for name in names] for day in days], dtype=np.float64)
    found.fit_of = (
        f"{len(names)} of {len(common)} providers" if len(names) < len(common) else f"{len(common)} providers"
    )
    found.fit_of += "" if not campaign.daily else f" on {len(days)} days"
    rounds = int(np.clip(_NUMBERS // (t.size or 1), 800, 2000))
    return check_fit(model, t if campaign.daily else t[0], rows=rows if campaign.daily else rows[0], rounds=rounds)


def _statistics(model: Any, reports: list[Report]) -> Array:
    models = [model] * len(reports) if isinstance(model, Model) else model
    return np.array([statistics_of(m, report.summary) for m, report in zip(models, reports, strict=True)])


def _near_duplicates(campaign: Campaign, reports: list[Report]) -> list[tuple[Any, str, str, str]]:
    by_day: dict[Any, list[Report]] = {}
    for report in reports:
        by_day.setdefault(report.day, []).append(report)
    found = []
    for day, some in list(by_day.items())[-30:]:
        names = [report.provider for report in some]
        model = campaign.models_for(names)
        t = _statistics(model, some)
        draws = int(np.clip(_NUMBERS // t.shape[-1], 1000, 20_000))
        for pair in find_near_duplicates(model, t, rows=[report.rows for report in some], draws=draws):
            one, two = (names[place] for place in pair.providers)
            found.append((day, one, two, pair.why))
    return found


def beliefs_of(campaign: Campaign, reports: list[Report]) -> list[Belief]:
    """Prior and posterior of the parameters, from all reports of a day together; of none, the prior twice."""
    models = campaign.models_for([report.provider for report in reports])
    model: Any = models if isinstance(models, Model) else models[0]
    nothing = statistics_of(model, np.zeros(model.reduction.width)) if not reports else None
    total = _statistics(models, reports).sum(axis=0) if nothing is None else nothing
    if isinstance(model, HasFiniteStates):
        prior, posterior = (model.posterior_probabilities(t) for t in (np.zeros_like(total), total))
        states = [f"state {k + 1}" for k in range(len(posterior))]
        return [Belief("state of the world", states, prior, posterior, discrete=True)]
    if not (isinstance(model, SamplesPosterior) and isinstance(model, SamplesData)):
        return []
    rng = np.random.default_rng(20201206)
    prior = np.asarray(model.draw_parameters(rng, (20_000,)))
    posterior = np.asarray(model.draw_posterior(rng, np.broadcast_to(total, (20_000, len(total)))))
    names = model.parameter_names(campaign.columns, campaign.categories) if isinstance(model, NamesParameters) else []
    names = names or [f"parameter {k + 1}" for k in range(prior.shape[-1])]
    return [_belief(name, prior[:, k], posterior[:, k]) for k, name in enumerate(names[:6])]


def _belief(name: str, prior: Array, posterior: Array) -> Belief:
    if not (np.isfinite(prior).all() and np.isfinite(posterior).all()):
        raise DataError(f"{name} is too large to draw")
    low, high = np.percentile(prior, [1, 99])
    centre, spread = float(posterior.mean()), float(posterior.std())
    if spread < (high - low) / 40:
        low, high = max(low, centre - 12 * spread), min(high, centre + 12 * spread)
    low, high = min(low, np.percentile(posterior, 0.5)), max(high, np.percentile(posterior, 99.5))
    if not high > low:
        raise DataError(f"{name} is known too well to draw")
    edges = np.linspace(low, high, 161)
    curves = [_density(draws, edges) for draws in (prior, posterior)]
    least, most = np.percentile(posterior, [2.5, 97.5])
    summary = f"{centre:.4g} (95%: {least:.4g} to {most:.4g})"
    return Belief(name, ((edges[1:] + edges[:-1]) / 2).tolist(), curves[0], curves[1], summary=summary)


def _density(draws: Array, edges: Array) -> Array:
    """Return a smoothed histogram, as high as 1 at most."""
    counts, _ = np.histogram(draws, edges)
    width = max(1.0, float(draws.std()) / (edges[1] - edges[0]) * 0.25)
    reach = int(min(60, np.ceil(3 * width)))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    padded = np.concatenate([counts[:reach][::-1], counts, counts[-reach:][::-1]]).astype(float)
    smooth = np.convolve(padded, kernel / kernel.sum(), mode="same")[reach:-reach]
    return np.asarray(smooth / max(smooth.max(), 1e-300))
