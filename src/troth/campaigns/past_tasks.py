"""Confusion matrices of workers from past tasks, as a campaign file: `troth fit` for campaigns of tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from troth.campaigns.past import given_parameters, history_reduction, paid_files, with_model
from troth.campaigns.task_data import read_public_tasks, reports_digest, task_request
from troth.core.errors import DataError, ParameterError
from troth.core.past import PastTasks
from troth.data.tasks import read_tasks
from troth.models import FAMILIES, Family, named_family

if TYPE_CHECKING:
    from collections.abc import Iterator

    from troth.campaigns.terms import Campaign
    from troth.data.tasks import TaskReports
    from troth.models.fitting.fitted import Fitted


class Learned(NamedTuple):
    """What was learnt, the past reports that it was learnt from, how many of their tasks have a gold answer, and notes.

    Notes are what a reader should know, in sentences.
    """

    fitted: Fitted
    reports: TaskReports
    gold: int
    notes: tuple[str, ...]


def fit_tasks(campaign: Campaign, past: Any, gold: Any = None, family: str | None = None) -> Learned:
    """Learn the model from past tasks, with workers missing from most of them.

    Parameters
    ----------
    past
        Tasks that were paid for, or are public: any table with the campaign's columns. None of them can be paid later
        under what was learnt.
    gold
        A table of tasks and their true labels, for families that have a class for each task.
    family
        By default the campaign's own.
    """
    chosen: type[Any] = type(campaign.model) if family is None else named_family(family)
    if not issubclass(chosen, Family):
        raise ParameterError(f"{chosen.__name__} does not say how it is learnt from past tasks (fit_tasks)")
    if gold is not None and not chosen.uses_gold:
        users = ", ".join(name for name, each in FAMILIES.items() if each.uses_gold)
        raise ParameterError(f"{chosen.__name__} does not use gold answers; these families do: {users} (--family)")
    if both := paid_files(campaign, past):
        raise DataError(
            f"{both[0]}: these are the tasks that the campaign pays for ([data] source), and answers being paid must "
            "not influence the confusion matrices that pay them: learn from other tasks"
        )
    request = replace(task_request(campaign), reduction=history_reduction(campaign))
    reports = read_tasks(past, request, campaign.rows or 1)
    classes, answered = None, 0
    if gold is not None:
        answers = read_public_tasks(campaign, gold, "gold answers", rows=1)
        answered = len(answers)
        of_task = dict(zip((answers.tasks[t] for t in answers.task), answers.summaries.argmax(axis=1), strict=True))
        classes = np.array([of_task.get(name, -1) for name in reports.tasks], dtype=np.intp)
    tasks = PastTasks(reports.task, reports.provider, reports.summaries, reports.providers, request.reduction, classes)
    fitted = chosen.fit_tasks(tasks, **given_parameters(campaign, chosen))
    known = 0 if classes is None else int((classes >= 0).sum())
    labels = campaign.categories or [str(code) for code in range(request.reduction.labels or 0)]
    return Learned(fitted, reports, known, (*_notes(answered, known), *fitted.caveats(labels)))


def _notes(gold: int, known: int) -> Iterator[str]:
    if gold and not known:
        yield f"none of the {gold:,} gold answers is for a past task, so no class is known: compare the names"
    elif gold > known:
        yield f"{gold - known:,} of {gold:,} gold answers are for tasks that nobody answered in the past: not used"


def fitted_task_text(campaign: Campaign, learned: Fitted, reports: TaskReports, source: str | None) -> str:
    """Return the campaign file with what was learnt, and the digest of the past that it was learnt from."""
    past: dict[str, Any] = {} if source is None else {"source": source}
    past |= {"digest": f"sha256:{reports_digest(reports, None)}", "tasks": len(reports.tasks)}
    past |= {"providers": len(reports.providers)}
    head = "# The model was learnt from past tasks by `troth fit`; the rest is the campaign it was learnt for.\n\n"
    return head + with_model(campaign, learned, past)
