"""The laws of workers from past tasks, as a campaign file: `troth fit` for campaigns of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from troth.campaigns.past import paid_files, with_model
from troth.campaigns.task_data import read_public_tasks, read_task_reports, task_request
from troth.campaigns.task_file import reports_digest
from troth.core.errors import DataError, ParameterError
from troth.models.fitting.workers import FittedWorkers, fit_workers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from troth.campaigns.terms import Campaign
    from troth.data.tasks import TaskReports


class Learned(NamedTuple):
    """Everybody's law, the past reports that it was learnt from, and what a reader should know, in sentences."""

    workers: FittedWorkers
    reports: TaskReports
    notes: tuple[str, ...]


def fit_tasks(campaign: Campaign, past: Any, gold: Any = None) -> Learned:
    """Learn everybody's law from past tasks, with workers missing from most of them.

    Parameters
    ----------
    past
        Tasks that were paid for, or are public: any table with the campaign's columns. None of them can be paid later
        under the laws that were learnt.
    gold
        A table of tasks and their true labels; where it has a task, the class is known.
    """
    reduction: Any = task_request(campaign).reduction
    if reduction.labels is None:
        raise ParameterError("the laws of workers are learnt from labels; for values, write the model into the file")
    if both := paid_files(campaign, past):
        raise DataError(
            f"{both[0]}: these are the tasks that the campaign pays for ([data] source), and answers being paid must "
            "not influence the laws that pay them: learn from other tasks"
        )
    reports = read_task_reports(campaign, past)
    classes, answered = None, 0
    if gold is not None:
        answers = read_public_tasks(campaign, gold, "gold answers", rows=1)
        answered = len(answers)
        of_task = dict(zip((answers.tasks[t] for t in answers.task), answers.summaries.argmax(axis=1), strict=True))
        classes = np.array([of_task.get(name, -1) for name in reports.tasks], dtype=np.intp)
    learned = fit_workers(reports.task, reports.provider, reports.summaries, reports.providers, classes)
    return Learned(learned, reports, tuple(_notes(campaign, learned, answered)))


def _notes(campaign: Campaign, learned: FittedWorkers, gold: int) -> Iterator[str]:
    lost = gold - learned.known
    if lost and not learned.known:
        yield f"none of the {gold:,} gold answers is for a past task, so no class is known: compare the names"
    elif lost:
        yield f"{lost:,} of {gold:,} gold answers are for tasks that nobody answered in the past: not used"
    names = campaign.categories or [str(code) for code in range(len(learned.seen))]
    if unseen := [repr(name) for name, seen in zip(names, learned.seen, strict=True) if not seen]:
        yield f"nobody answered {', '.join(unseen)} in the past: how it is answered is a guess, by the other classes"
    if learned.uninformative:
        yield "labels hardly depend on the class: everybody will be paid the base share"


def fitted_task_text(campaign: Campaign, learned: FittedWorkers, reports: TaskReports, source: str | None) -> str:
    """Return the campaign file with the laws in it, and the digest of the past that they were learnt from."""
    past: dict[str, Any] = {} if source is None else {"source": source}
    past |= {"digest": f"sha256:{reports_digest(reports, None)}", "tasks": len(reports.tasks)}
    past |= {"providers": len(reports.providers)}
    head = "# Everybody's law was learnt from past tasks by `troth fit`; the rest is the campaign it is for.\n\n"
    return head + with_model(campaign, learned, past)
