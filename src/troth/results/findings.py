"""Findings for the analyst that do not affect payments: posterior, proofs, lies, fit, near duplicates."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.check import audit_campaign, certify_campaign, evidence_cost, reduced, setting_of
from troth.campaigns.past import backtest_campaign, campaign_history, read_history
from troth.campaigns.settle import with_features
from troth.certificates import Certificate, Fit, check_fit, find_near_duplicates
from troth.core.errors import TrothError, first_line
from troth.core.formats import left_out, printable
from troth.data.read import reports_by_day
from troth.history import History
from troth.results.beliefs import Belief, beliefs_of
from troth.results.replays import DRAWS, Replay, replay_lies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from troth.audits import Audit
    from troth.campaigns.terms import Campaign
    from troth.data import Day, Report
    from troth.history import ModelComparison
    from troth.results.result import Result

_MAX_DRAWN = 20_000_000  # the most numbers that a check may draw
_MAX_DAYS = 30
_MAX_NAMES = 6  # of providers whose rows were left out
_SIMULATIONS, _SCORES, _MIN_PROVIDERS = 400, 400_000, 20  # limits of the check of the fit
FAILURES = (TrothError, ArithmeticError, ValueError, TypeError, LookupError, MemoryError)


@dataclass(frozen=True)
class NearDuplicates:
    """Two providers whose reports on a day are near duplicates, and why."""

    day: Day
    first: str
    second: str
    why: str


@dataclass
class Findings:
    """The results of all checks; ``skipped`` maps attributes to the reasons why their checks failed."""

    backtest: ModelComparison | None = None
    certificate: Certificate | None = None
    audit: Audit | None = None
    replays: list[Replay] = field(default_factory=list)
    near_duplicates: list[NearDuplicates] = field(default_factory=list)
    beliefs: list[Belief] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


def check_result(
    result: Result,
    *,
    simulations: int = 4000,
    history: Any = None,
    progress: Callable[[str, float, int], None] | None = None,
) -> Findings:
    """Check a paid campaign, mostly on its last day with several reports.

    Parameters
    ----------
    simulations
        The number of simulations in the audit.
    history
        Past days (a `troth.History`, or any table) on which the known lies are replayed; by default, those in
        ``[history]`` of the campaign file.
    progress
        Called with the name of the current step, the amount that is done, and the total.
    """
    findings = Findings()
    if not result.rounds:
        return findings
    campaign, reports = result.campaign, result.reports
    by_day = reports_by_day(reports)
    paid_days = [paid_round.day for paid_round in result.rounds]
    last = next((day for day in reversed(paid_days) if len(by_day[day]) > 1), paid_days[-1])
    on_day, today = campaign.on(last), by_day[last]
    small = reduced(setting_of(campaign, today, max(2, len(today))))
    stages: dict[str, Callable[[], Any]] = {
        "backtest": lambda: _backtest(campaign, history, progress),
        "certificate": lambda: certify_campaign(on_day, small, today),
        "audit": lambda: audit_campaign(on_day, small, today, simulations=simulations),
        "replays": lambda: replay_lies(
            result, draws=DRAWS if evidence_cost(on_day.models_for(small.names)) > 1 else None
        ),
        "near_duplicates": lambda: _near_duplicates(campaign, reports),
        "beliefs": lambda: beliefs_of(campaign, today),
    }
    for done, (name, stage) in enumerate(stages.items(), 1):
        try:
            with np.errstate(all="ignore"):  # the page explains infinite and undefined numbers
                setattr(findings, name, stage())
        except FAILURES as error:
            findings.skipped[name] = first_line(error)
        if progress is not None:
            progress("page", done, len(stages))
    return findings


def _backtest(
    campaign: Campaign, history: Any, progress: Callable[[str, float, int], None] | None
) -> ModelComparison | None:
    """Replay the known lies on ``history``, or by default on the past days that the campaign names."""
    past = campaign_history(campaign) if history is None else history
    if past is None:
        return None
    past = past if isinstance(past, History) else read_history(campaign, past)
    return backtest_campaign(campaign, past, progress=None if progress is None else partial(progress, "replaying"))


def check_campaign_fit(campaign: Campaign, reports: list[Report]) -> tuple[Fit, str]:
    """Check the model's fit on days with the same providers, as many as can be simulated within seconds.

    Return the check, and a description of the reports that were checked. Reports are simulated with the features that
    were kept, which are those of one day.
    """
    by_day = [{report.provider: report for report in day} for day in reports_by_day(reports).values()]
    common = Counter(tuple(sorted(day)) for day in by_day).most_common(1)[0][0]
    days = [day for day in by_day if tuple(sorted(day)) == common]
    has_features = not campaign.waits and any(report.features is not None for report in days[-1].values())
    if campaign.public_by_day or has_features:
        days = days[-1:]
    campaign = campaign.on(days[-1][common[0]].day)
    last = [days[-1][name] for name in common]
    models = with_features(campaign.models_for(common), last) if has_features else campaign.models_for(common)
    cost = evidence_cost(models) + len(last[0].summary) / 8
    max_reports = max(_MIN_PROVIDERS, int(_SCORES / (_SIMULATIONS * cost)))
    names = list(common[:: -(-len(common) // max_reports)])
    days = days[-max(1, max_reports // len(names)) :]
    model: Any = campaign.models_for(names)
    t = np.array([campaign.statistics_of(model, [day[name].summary for name in names]) for day in days])
    model = with_features(model, [days[-1][name] for name in names]) if has_features else model
    rows = np.array([[day[name].rows for name in names] for day in days], dtype=np.float64)
    sampled = f"{len(names)} of " if len(names) < len(common) else ""
    checked = f"{sampled}{len(common)} providers" + (f" on {len(days)} days" if campaign.daily else "")
    if not campaign.daily:
        t, rows = t[0], rows[0]
    return check_fit(model, t, rows=rows, simulations=_SIMULATIONS), checked


def rows_left_out(reports: Sequence[Report]) -> list[str]:
    """Return sentences that say how many rows were left out, without a value (and whose) or without a provider."""
    dropped: Counter[str] = Counter()
    for report in reports:
        dropped[report.provider] += report.dropped
    affected = +dropped
    notes = []
    if affected:
        listing = [f"{printable(name)} {count:,}" for name, count in affected.most_common(_MAX_NAMES)]
        unlisted = f", and {len(affected) - _MAX_NAMES:,} others" if len(affected) > _MAX_NAMES else ""
        notes.append(f"{left_out(affected.total(), 'value')}: {', '.join(listing)}{unlisted}")
    if unnamed := sum(report.unnamed for report in reports):
        notes.append(left_out(unnamed, "provider"))
    return notes


def _near_duplicates(campaign: Campaign, reports: list[Report]) -> list[NearDuplicates]:
    pairs = []
    for day, reports_of_day in list(reports_by_day(reports).items())[-_MAX_DAYS:]:
        names = [report.provider for report in reports_of_day]
        on_day = campaign.on(day)
        model = on_day.models_for(names)
        t = on_day.statistics_of(model, [report.summary for report in reports_of_day])
        draws = int(np.clip(_MAX_DRAWN // t.shape[-1], 1000, 20_000))
        for pair in find_near_duplicates(model, t, rows=[report.rows for report in reports_of_day], draws=draws):
            first, second = (names[index] for index in pair.providers)
            pairs.append(NearDuplicates(day, first, second, pair.why))
    return pairs
