"""Checks of a campaign of tasks: audits, certificates, and the fit of its labels."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.audits.task_fit import check_task_fit
from troth.audits.tasks import audit_tasks
from troth.campaigns.task_data import read_public_tasks, read_task_reports
from troth.campaigns.tasks import arrange, rule_on_tasks
from troth.campaigns.terms import beside
from troth.certificates.tasks import certify_tasks, promises
from troth.core.errors import MissingCapabilityError
from troth.data.public import PUBLIC
from troth.mechanisms.task_labels import labels_of

if TYPE_CHECKING:
    from troth.audits import Audit
    from troth.audits.task_fit import TaskFit
    from troth.campaigns.terms import Campaign
    from troth.certificates import Certificate
    from troth.core.claims import Claim
    from troth.core.contract import Array
    from troth.data.tasks import TaskReports

_SAMPLE = 200  # tasks from which a page derives what is proved


@dataclass(frozen=True)
class TaskAudit:
    """What lies would earn under a campaign's prior and likelihoods, and whether its labels contradict these.

    The simulation of lies does not read the labels. ``prior`` is the probability of each class in the simulation, by
    the name of its label; it is empty for values. ``fit`` is None if the labels cannot be checked.
    """

    lies: Audit
    prior: dict[str, float]
    fit: TaskFit | None

    @property
    def contradiction(self) -> str | None:
        """How the labels contradict the prior or the confusion matrices, or None if they fit."""
        return self.fit.contradiction if self.fit is not None and self.fit.verdict != "fits" else None


def likelihood_of_guess(campaign: Campaign) -> Array | None:
    """Return the confusion matrix of the public guess, or None without a guess."""
    if campaign.public_source is None and campaign.guesses is None:
        return None
    return np.array(campaign.model_of(PUBLIC).to_dict()["likelihood"])  # type: ignore[attr-defined]


def known_tasks(campaign: Campaign, public: Any = None) -> TaskReports | None:
    """Return the public data about tasks: those given, or else those of the campaign."""
    if public is None and campaign.public_source is not None:
        public = beside(campaign, campaign.public_source)
    return campaign.guesses if public is None else read_public_tasks(campaign, public)


def audit_task_campaign(campaign: Campaign, data: Any, **options: Any) -> TaskAudit:
    """Simulate what lies would earn on the tasks of a campaign, with its public guess if it has one."""
    reports = read_task_reports(campaign, data)
    tasks = arrange(campaign, reports, None)
    lies = audit_tasks(
        tasks, rule_on_tasks(campaign, reports.providers), public=likelihood_of_guess(campaign), **options
    )
    labels, fit = labels_of(tasks), None
    prior: dict[str, float] = {}
    if labels is not None:
        names = campaign.label_names(labels.tables.shape[2])
        square = len(labels.prior) == len(names)
        prior = dict(zip(names if square else map(str, range(len(labels.prior))), labels.prior.tolist(), strict=True))
        with suppress(MissingCapabilityError):
            fit = check_reports(campaign, reports, known_tasks(campaign))
    return TaskAudit(lies, prior, fit)


def certify_task_campaign(campaign: Campaign, data: Any) -> Certificate:
    """Return what is proved about the tasks of a campaign."""
    reports = read_task_reports(campaign, data)
    return certify_tasks(
        arrange(campaign, reports, known_tasks(campaign)),
        rule_on_tasks(campaign, reports.providers),
        guessed=campaign.guessed,
    )


def promises_of(campaign: Campaign, reports: TaskReports, public: TaskReports | None) -> tuple[Claim, ...]:
    """Return what the rule promises about tasks, derived from the first of them."""
    first = slice(0, int(np.searchsorted(reports.task, _SAMPLE)))
    sample = replace(reports, **{name: getattr(reports, name)[first] for name in ("task", "provider", "summaries")})
    return promises(arrange(campaign, sample, public), rule_on_tasks(campaign, reports.providers))


def check_reports(campaign: Campaign, reports: TaskReports, public: TaskReports | None) -> TaskFit:
    """Compare the frequencies of labels with the expected ones, and replay each label as every other one."""
    names = campaign.label_names(reports.summaries.shape[1])
    past = (campaign.history or {}).get("tasks")
    return check_task_fit(
        arrange(campaign, reports, public), rule_on_tasks(campaign, reports.providers), names, past=past
    )
