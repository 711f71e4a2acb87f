"""The page of tasks: workers by pay per task with uncertainty, who agrees on what, and the tasks nobody agrees on."""

from __future__ import annotations

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


def assumed_of(campaign: Campaign) -> tuple[str, ...]:
    """Return what is assumed of a campaign of tasks and not proved, in sentences."""
    return (*_ASSUMED, _GUESSED if campaign.guessed else _FROM_ELSEWHERE)


def render(result: TaskResult) -> str:
    """Return the page of a result as HTML."""
    rows = worker_rows(result)
    return _environment.get_template("results/tasks.html").render(
        result=result,
        campaign=result.campaign,
        entry=result.ledger.of("tasks")[0],
        head=result.ledger.of("tasks")[0] | result.ledger.of("round")[0],
        rows=rows[:_MOST_ROWS],
        picture=draw_workers(result, rows),
        agreement=label_agreement(result),
        pairs=worker_agreement(result),
        worst=worst_tasks(result),
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


def _label_counts(result: TaskResult) -> tuple[list[str], Array, Any] | None:
    """Return the labels, counts of answers by task, ``(task, label)``, and which task each report is on."""
    reduction: Any = result.campaign.model.reduction  # type: ignore[attr-defined]
    labels = counted_labels(reduction)
    if labels is None:
        return None
    names = list(result.campaign.categories or map(str, range(labels)))
    summaries = result.summaries
    tasks = result.shares.column("task").combine_chunks().dictionary_encode()
    places = tasks.indices.to_numpy()
    counts = np.zeros((len(tasks.dictionary), summaries.shape[1]))
    np.add.at(counts, places, summaries)
    return names, counts, tasks


def label_agreement(result: TaskResult) -> tuple[list[str], list[list[float]]] | None:
    """Return, for each label, how often another worker on the same task answered each label."""
    given = _label_counts(result)
    if given is None:
        return None
    names, counts, _ = given
    together = counts.T @ counts - np.diag(counts.sum(axis=0))
    with np.errstate(invalid="ignore"):
        rates = together / together.sum(axis=1, keepdims=True)
    return names, np.nan_to_num(rates).tolist()


def worker_agreement(result: TaskResult) -> tuple[list[str], list[list[float | None]]] | None:
    """Return how often two of the busiest workers gave the same label, where they worked on the same tasks."""
    given = _label_counts(result)
    if given is None:
        return None
    busiest = sorted(result.payments, key=lambda payment: -payment.rows)[:_BUSIEST]
    names = sorted(payment.provider for payment in busiest)
    table, summaries, places = result.shares, result.summaries, given[2].indices.to_numpy()
    providers = table.column("provider").combine_chunks().dictionary_encode()
    number = {name: place for place, name in enumerate(providers.dictionary.to_pylist())}
    codes = providers.indices.to_numpy()
    answers = []
    for name in names:
        mine = codes == number[name]
        answers.append(dict(zip(places[mine].tolist(), summaries[mine].argmax(axis=1).tolist(), strict=True)))
    rates: list[list[float | None]] = []
    for one in answers:
        line: list[float | None] = []
        for other in answers:
            both = one.keys() & other.keys()
            line.append(sum(one[t] == other[t] for t in both) / len(both) if both and one is not other else None)
        rates.append(line)
    return names, rates


def worst_tasks(result: TaskResult) -> list[WorstTask]:
    """Return tasks whose workers disagree, the worst and those with more answers first; of values, those paid least."""
    given = _label_counts(result)
    tasks = result.shares.column("task").combine_chunks().dictionary_encode()
    places, shares = tasks.indices.to_numpy(), result.shares.column("share").to_numpy()
    answers = np.bincount(places, minlength=len(tasks.dictionary))
    mean = np.bincount(places, shares, len(answers)) / answers
    agreement = mean
    if given is not None:
        counts, answers = given[1], given[1].sum(axis=1)
        agreement = (np.einsum("tl,tl->t", counts, counts) - answers) / np.maximum(answers * (answers - 1), 1)
    unanimous = np.zeros(len(answers), dtype=bool) if given is None else agreement >= 1
    order = [t for t in np.lexsort((mean, -answers, agreement)) if answers[t] > 1 and not unanimous[t]][:_WORST]
    said = _said(result, given, places, order)
    worst = []
    for place, words in zip(order, said, strict=True):
        agrees = None if given is None else float(agreement[place])
        worst.append(WorstTask(tasks.dictionary[int(place)].as_py(), agrees, words, float(mean[place])))
    return worst


def _said(result: TaskResult, given: Any, places: Any, order: list[int]) -> list[str]:
    """Say what was answered on some tasks: how often each label, or every value."""
    if given is not None:
        names, counts, _ = given
        return [
            ", ".join(f"{int(n)} × {name}" for name, n in zip(names, counts[place], strict=True) if n)
            for place in order
        ]
    return [
        "; ".join(result.answer(result.summaries[row]) for row in np.flatnonzero(places == place)) for place in order
    ]
