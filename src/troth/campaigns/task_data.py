"""Reads tables of tasks: who reported what on which task, and what everybody knows about each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.public import Guesses, describe_guesses
from troth.campaigns.terms import beside
from troth.core.contract import HasReduction
from troth.core.errors import DataError
from troth.data.public import PUBLIC
from troth.data.read import task_name
from troth.data.tasks import TaskReports, read_tasks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from troth.campaigns.terms import Campaign
    from troth.data.request import Request


def task_request(campaign: Campaign, provider: str | None = None) -> Request:
    """Return what is asked of a table of tasks; tasks are named where days would be."""
    if not isinstance(campaign.model, HasReduction):
        raise DataError(f"{type(campaign.model).__name__} does not say how to reduce rows, so it cannot settle tasks")
    owner = campaign.provider if provider is None else provider or None
    return replace(campaign.request, provider=owner, day=campaign.task, features=False)


def read_task_reports(campaign: Campaign, data: Any) -> TaskReports:
    """Read reports on tasks; a worker that reports on a task twice is an error unless [limits] rows allows it."""
    return read_tasks(data, task_request(campaign), campaign.rows or 1)


def read_public_tasks(campaign: Campaign, data: Any, what: str = PUBLIC, rows: int | None = None) -> TaskReports:
    """Read what everybody knows about each task, such as the guess of a language model.

    ``what`` it is opens messages; each task has one row, or with ``[limits] rows`` any number unless ``rows`` says.
    """
    most = rows or (None if (campaign.rows or 1) > 1 else 1)
    try:
        public = read_tasks(data, replace(task_request(campaign, ""), values=None), most)
    except DataError as error:
        raise DataError(f"{what}: {error}") from None
    return replace(public, providers=(PUBLIC,))


def public_tasks(campaign: Campaign) -> TaskReports | None:
    """Return what the terms themselves say about tasks, if they do."""
    if campaign.guesses is None:
        return None
    each = np.arange(len(campaign.guesses.tasks))
    return TaskReports(campaign.guesses.tasks, (PUBLIC,), each, np.zeros_like(each), campaign.guesses.summaries)


def describe_public_tasks(campaign: Campaign) -> dict[str, Any]:
    """Read the public data of tasks that a campaign file names, and return them as the table [public]."""
    source: Any = campaign.public_source
    public = read_public_tasks(campaign, beside(campaign, source))
    return describe_guesses(Guesses(public.tasks, public.summaries, source if isinstance(source, str) else "", None))


def refuse_past_tasks(campaign: Campaign, reports: TaskReports) -> None:
    """Refuse past items that confusion matrices were learnt from: a label must not change the matrix that pays it."""
    if campaign.history_source is None:
        return
    named = campaign.history or {}
    request = replace(
        task_request(campaign, named.get("provider") or campaign.provider), day=named.get("day") or campaign.task
    )
    if both := same_tasks(reports.tasks, read_tasks(beside(campaign, campaign.history_source), request, None).tasks):
        raise DataError(
            f"task {both[0]!r} is among the past tasks that the confusion matrices were learnt from, so that answers "
            f"being paid would influence the matrices that pay them ({len(both):,} such tasks): remove them"
        )


def same_tasks(names: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return the tasks that are among others, however these were spelled."""
    there = set(map(task_name, others))
    return [name for name in names if task_name(name) in there]
