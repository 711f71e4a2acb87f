"""The page of tasks: workers by pay per task with uncertainty, who agrees on what, and the tasks nobody agrees on."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from troth.campaigns.task_checks import promises_of
from troth.core.reductions.reduction import counted_labels
from troth.results.pictures.svg import Picture, percent
from troth.results.templating import make_environment

if TYPE_CHECKING:
    from troth.campaigns.settle import Payment
    from troth.campaigns.terms import Campaign
    from troth.core.contract import Array
    from troth.results.tasks import TaskResult

_ASSUMED = (
    "given the truth about a task, workers answer independently: copies and shared instructions to err break this",
    "the prior and everybody's likelihood are right; a population's likelihood is right on average over workers",
    "nobody sees the others' answers to a task before it answers; related workers are declared as groups",
)
_FROM_ELSEWHERE = "the likelihoods come from other tasks: nothing that is paid here entered them"
_GUESSED = "the prior does no harm although it was guessed from the answers that are paid here"
_MOST_ROWS, _MOST_BARS, _WORST, _BUSIEST = 5000, 40, 20, 12

_environment = make_environment()


class Row(NamedTuple):
    """A worker's line: pay per task in minor units and its standard error, and whether it is above the empty share."""

    payment: Payment
    each: float
    error: float
    above: bool


class WorstTask(NamedTuple):
    """A task that workers do not agree on: how often two gave the same label, what was answered, and what it paid."""

    name: str
    agreement: float | None
    answers: str
    share: float


class Answers(NamedTuple):
    """The tasks, which of them each report is on, the labels, and how often each was given, ``(task, label)``.

    Where answers are values, there are no labels.
    """

    tasks: Any
    places: Any
    labels: list[str]
    counts: Array


def assumed_of(campaign: Campaign) -> tuple[str, ...]:
    """Return what is assumed of a campaign of tasks and not proved, in sentences."""
    return (*_ASSUMED, _GUESSED if campaign.guessed else _FROM_ELSEWHERE)


def render(result: TaskResult) -> str:
    """Return the page of a result as HTML."""
    rows, answers = worker_rows(result), answers_of(result)
    return _environment.get_template("results/tasks.html").render(
        result=result,
        campaign=result.campaign,
        entry=result.ledger.of("tasks")[0],
        head=result.ledger.of("tasks")[0] | result.ledger.of("round")[0],
        rows=rows[:_MOST_ROWS],
        picture=draw_workers(result, rows),
        agreement=label_agreement(answers) if answers.labels else None,
        pairs=worker_agreement(result, answers) if answers.labels else None,
        worst=worst_tasks(result, answers),
        empty=result.payments[0].empty_share,
        claims=promises_of(result.campaign, result.file),
        assumed=assumed_of(result.campaign),
    )


def worker_rows(result: TaskResult) -> list[Row]:
    """Return workers by pay per task, the best first."""
    unit = 10**result.campaign.decimals
    rows = []
    for payment in result.payments:
        cap = payment.cap / payment.rows / unit
        error = result.spread[payment.provider]
        above = payment.share - 2 * error > payment.empty_share
        rows.append(Row(payment, payment.payment / payment.rows / unit, error * cap, above))
    return sorted(rows, key=lambda row: (-row.payment.share, row.payment.provider))


def draw_workers(result: TaskResult, rows: list[Row]) -> Picture:
    """Draw mean shares with two standard errors to each side, of the best and the worst workers."""
    shown = rows if len(rows) <= _MOST_BARS else [*rows[: _MOST_BARS // 2], *rows[-_MOST_BARS // 2 :]]
    step, empty = 20, result.payments[0].empty_share
    picture = Picture("Pay per task, as a share of the price", height=step * len(shown) + 30)
    for place, row in enumerate(shown):
        error = 2 * result.spread[row.payment.provider]
        low, high = max(0.0, row.payment.share - error), min(1.0, row.payment.share + error)
        tip = picture.group(f"{row.payment.provider}: {row.payment.share:.1%} ± {error:.1%}")
        y = step * place
        width = percent(0.75 * row.payment.share)
        picture.add("rect", kind="bar", inside=tip, x=percent(0.25), y=y + 4, width=width, height=10)
        span = {"x": percent(0.25 + 0.75 * low), "width": percent(0.75 * max(high - low, 0.002))}
        picture.add("rect", kind="mark", inside=tip, y=y + 8, height=2, **span)
        picture.add("text", row.payment.provider[:18], kind="note", inside=tip, x=0, y=y + 13)
    picture.add("rect", kind="mark", x=percent(0.25 + 0.75 * empty), y=0, width=1, height=step * len(shown))
    picture.add(
        "text", f"empty share {empty:.0%}", kind="note", x=percent(0.25 + 0.75 * empty), y=step * len(shown) + 16
    )
    return picture


def answers_of(result: TaskResult) -> Answers:
    """Count the answers to each task."""
    tasks = result.shares.column("task").combine_chunks().dictionary_encode()
    known = counted_labels(result.campaign.model.reduction)  # type: ignore[attr-defined]
    labels = [] if known is None else result.campaign.label_names(known)
    answers = Answers(
        tasks.dictionary, tasks.indices.to_numpy(), labels, np.zeros((len(tasks.dictionary), len(labels)))
    )
    if labels:
        np.add.at(answers.counts, answers.places, result.summaries)
    return answers


def label_agreement(answers: Answers) -> tuple[list[str], list[list[float]]]:
    """Return, for each label, how often another worker on the same task answered each label."""
    together = answers.counts.T @ answers.counts - np.diag(answers.counts.sum(axis=0))
    with np.errstate(invalid="ignore"):
        rates = together / together.sum(axis=1, keepdims=True)
    return answers.labels, np.nan_to_num(rates).tolist()


def worker_agreement(result: TaskResult, answers: Answers) -> tuple[list[str], list[list[float | None]]]:
    """Return how often two of the busiest workers gave the same label, where they worked on the same tasks."""
    import pyarrow.compute as pc

    busiest = sorted(result.payments, key=lambda payment: -payment.rows)[:_BUSIEST]
    names = sorted(payment.provider for payment in busiest)
    given = np.full((len(names), len(answers.tasks)), -1)
    for own, name in zip(given, names, strict=True):
        mine = pc.equal(result.shares.column("provider"), name).to_numpy()
        own[answers.places[mine]] = result.summaries[mine].argmax(axis=1)
    rates: list[list[float | None]] = [[None] * len(names) for _ in names]
    for i, j in permutations(range(len(names)), 2):
        both = (given[i] >= 0) & (given[j] >= 0)
        rates[i][j] = float((given[i] == given[j])[both].mean()) if both.any() else None
    return names, rates


def worst_tasks(result: TaskResult, answers: Answers) -> list[WorstTask]:
    """Return tasks whose workers disagree, the worst and those with more answers first; of values, those paid least."""
    count = np.bincount(answers.places, minlength=len(answers.tasks))
    mean = np.bincount(answers.places, result.shares.column("share").to_numpy(), len(count)) / count
    agreement, disputed = mean, count > 1
    if answers.labels:
        counts, count = answers.counts, answers.counts.sum(axis=1)
        agreement = (np.einsum("tl,tl->t", counts, counts) - count) / np.maximum(count * (count - 1), 1)
        disputed = (count > 1) & (agreement < 1)
    order = [task for task in np.lexsort((mean, -count, agreement)) if disputed[task]][:_WORST]
    worst = []
    for task in order:
        agrees = float(agreement[task]) if answers.labels else None
        name = answers.tasks[int(task)].as_py()
        worst.append(WorstTask(name, agrees, _said(result, answers, task), float(mean[task])))
    return worst


def _said(result: TaskResult, answers: Answers, task: int) -> str:
    """Say what was answered on a task: how often each label, or every value."""
    if answers.labels:
        counts = zip(answers.labels, answers.counts[task], strict=True)
        return ", ".join(f"{int(count)} × {label}" for label, count in counts if count)
    rows = np.flatnonzero(answers.places == task)
    return "; ".join(result.answer(result.summaries[row]) for row in rows)
