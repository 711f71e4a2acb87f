"""Forecasts for a new campaign, and beliefs before and after a round, computed for pages in bounded time.

Terms come from users, and draws, proofs and simulations can take long, so everything runs in the sandbox.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import numpy as np

from troth.audits.tasks import audit_tasks
from troth.campaigns.check import Setting, audit_campaign, certify_campaign, setting_of
from troth.campaigns.task_checks import likelihood_of_guess
from troth.campaigns.tasks import planned_tasks, rule_on_tasks
from troth.campaigns.terms import Campaign
from troth.certificates.tasks import certify_tasks
from troth.core.errors import TrothError, first_line
from troth.data.request import Report
from troth.results.beliefs import Belief, beliefs_of
from troth.service.sandbox import COMPUTING, Sandbox
from troth.service.worker_processes import Bounds

MAX_PROVIDERS, MAX_ROWS, SIMULATIONS = 8, 60, 600
FALSE_ALARM = 0.01  # of the verdict on a lie, with few simulations
_BOUNDS = Bounds(memory=1 << 30, seconds=8.0)
_FAILURES = (TrothError, ArithmeticError, ValueError, TypeError, LookupError)

SANDBOX = Sandbox(COMPUTING, places=1, patience=20.0)
"""The sandbox for all of this, one computation at a time."""


def make_preview(plain: dict[str, Any], providers: int, rows: int) -> dict[str, Any]:
    """Return a preview of valid terms: scale, prior, proofs and what lies earn, simulated with fewer providers."""
    preview: dict[str, Any] = {}
    for name, part, *arguments in (
        ("scale", _scale, providers, rows),
        ("prior", _beliefs, []),
        ("proofs", _proofs, providers, rows),
        ("lies", _lies, providers, rows),
    ):
        try:
            preview[name] = SANDBOX.run(_run, part, plain, *arguments, bounds=_BOUNDS)
        except TrothError as error:
            preview[name] = {"skipped": str(error)}
    if isinstance(preview["prior"], list):
        preview["prior"] = [Belief(**belief | {"posterior": []}) for belief in preview["prior"]]
    return preview


def learned(plain: dict[str, Any], reports: list[Report]) -> list[Belief]:
    """Return the prior and the posterior given all reports of a round, for parameters that can be drawn."""
    beliefs = SANDBOX.run(_run, _beliefs, plain, reports, bounds=_BOUNDS)
    return [Belief(**belief) for belief in beliefs] if isinstance(beliefs, list) else []


def _run(part: Callable[..., Any], plain: dict[str, Any], *arguments: Any) -> Any:
    """Compute a part for a campaign, in the child; if that fails, return the reason."""
    try:
        with np.errstate(all="ignore"):
            return part(Campaign.from_dict(plain), *arguments)
    except _FAILURES as error:
        return {"skipped": first_line(error)[:500]}


def _beliefs(campaign: Campaign, reports: list[Report]) -> list[dict[str, Any]]:
    """Return prior and posterior of each parameter, as plain data."""
    return [vars(belief) for belief in beliefs_of(campaign, reports)]


def _scale(campaign: Campaign, providers: int, rows: int) -> dict[str, Any]:
    """Return the scale of scores for the expected number of providers."""
    names = setting_of(campaign, [], providers, rows).names
    scale = campaign.rule_for(campaign.models_for(names), len(names)).scale
    return {"low": _finite(scale.low), "high": _finite(scale.high)}


def _proofs(campaign: Campaign, providers: int, rows: int) -> list[dict[str, Any]]:
    """Return the claims that are proved, refuted or undecided, for a smaller campaign."""
    small = _smaller(campaign, providers, rows)
    if campaign.task is None:
        certificate = certify_campaign(campaign, small)
    else:
        certificate = certify_tasks(planned_tasks(campaign, small.names), rule_on_tasks(campaign, small.names))
    return [
        {"name": claim.name, "verdict": claim.verdict, "text": claim.text, "basis": claim.basis}
        for claim in certificate.claims
    ]


def _lies(campaign: Campaign, providers: int, rows: int) -> dict[str, Any]:
    """Return what truth and lies earn in simulations of a smaller campaign."""
    small = _smaller(campaign, providers, rows)
    if campaign.task is None:
        audit = audit_campaign(campaign, small, simulations=SIMULATIONS, false_alarm=FALSE_ALARM)
    else:
        tasks, rule = planned_tasks(campaign, small.names), rule_on_tasks(campaign, small.names)
        guess = likelihood_of_guess(campaign)
        audit = audit_tasks(tasks, rule, public=guess, simulations=4 * SIMULATIONS, false_alarm=FALSE_ALARM)
    return {
        "providers": len(small.names),
        "rows": small.rows[0],
        "simulations": audit.simulations,
        "honest": _finite(audit.findings[0].truth if audit.findings else 0.0),
        "empty_share": _finite(audit.empty_share),
        "findings": [
            {"lie": f.lie, "earned": _finite(f.earned), "gain": _finite(f.gain), "verdict": f.verdict}
            for f in audit.findings
        ],
    }


def _smaller(campaign: Campaign, providers: int, rows: int) -> Setting:
    """Return a setting that is quick to simulate."""
    return setting_of(campaign, [], min(providers, MAX_PROVIDERS), min(rows, MAX_ROWS))


def _finite(value: Any) -> float:
    """Return a number that JSON can represent."""
    return float(value) if isfinite(value) else 1e308 if value > 0 else -1e308
