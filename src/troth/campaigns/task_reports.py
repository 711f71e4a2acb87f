"""Tasks that providers report on by themselves, each with a file of its own: settled together once all are in."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.public import check_task_summaries
from troth.campaigns.task_data import public_tasks
from troth.campaigns.tasks import arrange, pay_tasks, settle_tasks
from troth.core.settings import CampaignError
from troth.data.own_tasks import OwnTasks, join_tasks
from troth.data.request import Report
from troth.data.tasks import TaskReports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.campaigns.ledger import Ledger
    from troth.campaigns.terms import Campaign
    from troth.mechanisms.tasks import Tasks

FILE_NAME = "ledger.tasks.parquet"
"""The file of shares, beside the ledger."""

MOST_REHEARSED = 2_000
"""The most tasks of a report that are tried out."""


@dataclass(frozen=True, eq=False)
class TaskReport(Report):
    """One provider's reports on tasks: ``content`` is its `troth.data.own_tasks.OwnTasks`, as bytes."""

    content: bytes = b""


def pay_task_reports(campaign: Campaign, reports: Sequence[TaskReport], ledger: Ledger, **options: Any) -> bytes:
    """Settle all tasks, write the ledger with everybody's receipt, and return the file of shares."""
    own = {report.provider: OwnTasks.from_bytes(report.content) for report in reports}
    receipts = sorted(reports, key=lambda report: report.provider)
    named: Any = {"file_name": FILE_NAME, "receipts": receipts, **options}
    return pay_tasks(campaign, join_tasks(own), public_tasks(campaign), ledger, **named).file


def check_own_tasks(campaign: Campaign, provider: str, own: OwnTasks) -> None:
    """Refuse reports on tasks that no data can have, or that cannot occur under the provider's likelihood."""
    campaign.check_task_counts([provider], [len(own.names)])
    check_task_summaries(own.names, own.summaries, campaign.model_of(provider), campaign.columns, campaign.values)


def rehearse_tasks(campaign: Campaign, providers: Sequence[str], content: bytes | None = None) -> None:
    """Settle one task that nobody says anything about, or the same reports of everybody: what cannot be paid fails.

    Tasks are settled one by one, so of many reports those with the largest summaries are tried.
    """
    model: Any = campaign.model
    empty = OwnTasks(("",), np.zeros((1, model.reduction.width)))
    own = empty if content is None else OwnTasks.from_bytes(content)
    if len(own.names) > MOST_REHEARSED:
        some = np.sort(np.argsort(-np.abs(own.summaries).max(axis=1), kind="stable")[:MOST_REHEARSED])
        own = OwnTasks(tuple(own.names[place] for place in some), own.summaries[some])
    seed = "sha256:" + "0" * 64 if campaign.draws else None
    settle_tasks(campaign, join_tasks(dict.fromkeys(providers, own)), public_tasks(campaign), seed)


def planned_tasks(campaign: Campaign, providers: Sequence[str]) -> Tasks:
    """Return tasks as they may be given out, a few providers on each, to try rules on before anybody reports."""
    model: Any = campaign.model
    names, each = sorted(providers), min(3, len(providers))
    task, place = np.divmod(np.arange(len(names) * each), each)
    first = np.zeros((len(task), model.reduction.width))
    first[:, 0] = 1.0
    order = np.lexsort(((task + place) % len(names), task))
    provider = ((task + place) % len(names))[order]
    return arrange(campaign, TaskReports(tuple(map(str, range(len(names)))), tuple(names), task, provider, first), None)


def check_worst_case(campaign: Campaign) -> None:
    """Refuse terms under which everybody together could earn more than the budget."""
    if campaign.price is None or campaign.most_tasks is None:
        return
    most = campaign.price * campaign.most_tasks * len(campaign.providers)
    if most > campaign.budget:
        raise CampaignError(
            f"[campaign] budget: {len(campaign.providers):,} providers with {campaign.most_tasks:,} tasks each may "
            f"earn {campaign.show(ceil(most))}, more than the budget of {campaign.show(campaign.budget)}: raise it, "
            "or lower [limits] tasks",
            section="campaign",
            key="budget",
        )
