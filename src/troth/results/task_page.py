"""The page of a campaign of tasks: workers by pay per task, agreement on labels, and disputed tasks."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from troth.campaigns.task_checks import promises_of
from troth.results.pictures.workers import draw_workers
from troth.results.templating import make_environment

if TYPE_CHECKING:
    from troth.campaigns.settle import Payment
    from troth.campaigns.terms import Campaign
    from troth.core.contract import Array
    from troth.results.tasks import TaskResult

_ASSUMED = (
    "given the truth about a task, workers answer independently: copies and shared errors break this",
    "the prior and everybody's likelihood are right; a population's likelihood is right on average over workers",
    "nobody sees the others' answers to a task before answering; related workers are declared as groups",
)
_FROM_ELSEWHERE = "the likelihoods come from other tasks: nothing that is paid here influenced them"
_GUESSED = "the prior does no harm although it was guessed from the answers that are paid here"
_MAX_ROWS, _WORST, _BUSIEST = 5000, 20, 12

_environment = make_environment()


class Row(NamedTuple):
    """A worker's row: pay per task in the currency, its standard error, and whether it exceeds the empty share."""

    payment: Payment
    per_task: float
    error: float
    above: bool


class WorstTask(NamedTuple):
    """A disputed task: how often two workers gave the same label, the answers, and the mean share."""

    name: str
    agreement: float | None
    answers: str
    share: float


def assumed_of(campaign: Campaign) -> tuple[str, ...]:
    """Return the assumptions about a campaign of tasks that are not proved."""
    return (*_ASSUMED, _GUESSED if campaign.guessed else _FROM_ELSEWHERE)


def render(result: TaskResult) -> str:
    """Return the page of a result as HTML."""
    rows, labels = worker_rows(result), result.labels
    return _environment.get_template("results/tasks.html").render(
        result=result,
        campaign=result.campaign,
        entry=result.ledger.of("tasks")[0],
        head=result.ledger.of("tasks")[0] | result.ledger.of("round")[0],
        rows=rows[:_MAX_ROWS],
        picture=draw_workers([row.payment for row in rows], result.spread),
        agreement=label_agreement(result) if labels else None,
        pairs=worker_agreement(result) if labels else None,
        worst=worst_tasks(result),
        empty=result.payments[0].empty_share,
        claims=promises_of(result.campaign, result.recorded.reports, result.recorded.public),
        assumed=assumed_of(result.campaign),
    )


def worker_rows(result: TaskResult) -> list[Row]:
    """Return workers by pay per task, highest first."""
    unit = 10**result.campaign.decimals
    rows = []
    for payment in result.payments:
        cap = payment.cap / payment.rows / unit
        error = result.spread[payment.provider]
        above = payment.share - 2 * error > payment.empty_share
        rows.append(Row(payment, payment.payment / payment.rows / unit, error * cap, above))
    return sorted(rows, key=lambda row: (-row.payment.share, row.payment.provider))


def label_counts(result: TaskResult) -> Array:
    """Count how often each label was given on each task, ``(task, label)``."""
    reports = result.recorded.reports
    counts = np.zeros((len(reports.tasks), reports.summaries.shape[1]))
    np.add.at(counts, reports.task, reports.summaries)
    return counts


def label_agreement(result: TaskResult) -> tuple[list[str], list[list[float]]]:
    """Return, for each label, how often another worker on the same task gave each label."""
    counts = label_counts(result)
    together = counts.T @ counts - np.diag(counts.sum(axis=0))
    with np.errstate(invalid="ignore"):
        rates = together / together.sum(axis=1, keepdims=True)
    return result.labels, np.nan_to_num(rates).tolist()


def worker_agreement(result: TaskResult) -> tuple[list[str], list[list[float | None]]]:
    """Return how often each pair of the busiest workers gave the same label on common tasks."""
    busiest = sorted(result.payments, key=lambda payment: -payment.rows)[:_BUSIEST]
    names, reports = sorted(payment.provider for payment in busiest), result.recorded.reports
    labels = np.full((len(names), len(reports.tasks)), -1)
    for own, name in zip(labels, names, strict=True):
        indices = result.report_indices(name)
        own[reports.task[indices]] = reports.summaries[indices].argmax(axis=1)
    rates: list[list[float | None]] = [[None] * len(names) for _ in names]
    for i, j in permutations(range(len(names)), 2):
        answered = (labels[i] >= 0) & (labels[j] >= 0)
        rates[i][j] = float((labels[i] == labels[j])[answered].mean()) if answered.any() else None
    return names, rates


def worst_tasks(result: TaskResult) -> list[WorstTask]:
    """Return the most disputed tasks, those with more answers first; for values, the tasks that paid least."""
    reports, labels, counts = result.recorded.reports, result.labels, label_counts(result)
    count = np.bincount(reports.task)
    mean = np.bincount(reports.task, result.recorded.share) / count
    agreement, disputed = mean, count > 1
    if labels:
        count = counts.sum(axis=1)
        agreement = (np.einsum("tl,tl->t", counts, counts) - count) / np.maximum(count * (count - 1), 1)
        disputed = (count > 1) & (agreement < 1)
    order = [task for task in np.lexsort((mean, -count, agreement)) if disputed[task]][:_WORST]
    worst = []
    for task in order:
        if labels:
            answers = ", ".join(f"{int(n)} × {label}" for label, n in zip(labels, counts[task], strict=True) if n)
        else:
            answers = "; ".join(result.answer(summary) for summary in reports.summaries[reports.task == task])
        agrees = float(agreement[task]) if labels else None
        worst.append(WorstTask(reports.tasks[task], agrees, answers, float(mean[task])))
    return worst
