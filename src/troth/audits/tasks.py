"""Expected payments of lazy and dishonest answers to many small tasks, simulated with the real assignment of tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from troth.audits.findings import Audit, with_margin
from troth.audits.simulate import audit
from troth.audits.strategies import FabricateFromPrior, Nothing, lies_for_model
from troth.audits.strategies.row_shapes import has_labels
from troth.audits.strategies.values import OtherValue
from troth.core.contract import SamplesData
from troth.core.errors import DataError, MissingCapabilityError
from troth.mechanisms.task_labels import Labels, labels_of
from troth.models.numerics.dispersed import draw_codes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from troth.audits.strategies import Strategy
    from troth.core.contract import Array, Generator, Indexes
    from troth.mechanisms import Rule
    from troth.mechanisms.tasks import Tasks


_TASKS = 20_000
_DRAWS, _SAMPLE = 8, 4000
_LIES_ABOUT_VALUES = (
    ("always the usual value", 0.0, 0.0, 0.0),
    ("halfway to the usual value", 0.5, 0.0, 0.0),
    ("twice as far from the usual value", 2.0, 0.0, 0.0),
    ("higher by half a standard deviation", 1.0, 0.5, 0.0),
    ("with a standard deviation of noise", 1.0, 0.0, 1.0),
)


def audit_tasks(
    tasks: Tasks,
    rule: Rule,
    *,
    public: Array | None = None,
    simulations: int = _TASKS,
    false_alarm: float = 0.01,
    seed: int = 0,
) -> Audit:
    """Simulate what one worker at a time earns by lying while its peers are honest, on the tasks as they were assigned.

    Classes and labels are drawn from the model; the given reports only determine who answers which task. Each worker
    lies in turn, and earnings are means over all reports, with standard errors over tasks. ``public`` is the confusion
    matrix ``(class, label)`` of a public guess. For models of values, see `audit_task_values`.

    Examples
    --------
    >>> import troth
    >>> from troth.mechanisms.tasks import Tasks
    >>> model = troth.models.Finite([0.5, 0.5], [[0.8, 0.2], [0.2, 0.8]])
    >>> task, worker = np.divmod(np.arange(30), 3)
    >>> tasks = Tasks(task, worker, np.eye(2)[np.zeros(30, dtype=int)], (model,), np.zeros(3, dtype=int), np.arange(3))
    >>> audit_tasks(tasks, troth.LineUp(decoys=float("inf")), simulations=2000).gaining()
    []
    """
    labels = labels_of(tasks)
    if labels is None:
        return audit_task_values(tasks, rule, simulations=simulations, false_alarm=false_alarm, seed=seed)
    rng = np.random.default_rng(seed)
    world, classes = draw_world(rng, sample_tasks(tasks, max(1, simulations), repeat=True), labels)
    size = labels.tables.shape[2]
    tables, label = labels.tables[world.likelihood_of[world.provider]], world.summaries.argmax(axis=1)
    prior, guess = np.broadcast_to(labels.prior, tables.shape[:2]), None
    if public is not None:
        by_class = np.asarray(public, dtype=np.float64)
        by_guess, guesses = by_class.T, draw_codes(rng, by_class[classes], 1)[:, 0].astype(np.intp)
        with np.errstate(divide="ignore"):
            world = replace(world, known=np.log(by_guess)[guesses])
        guess = guesses[world.task]
        prior = prior * by_guess[guess]
    honest = rule.evaluate_tasks(world, np.random.default_rng(seed))
    findings = []
    level = float(ndtri(1 - false_alarm / 2))
    for name, answers in _lies(rng, labels, tables, label, guess, prior):
        sent = np.where(answers >= 0, answers, 0)
        share = rule.evaluate_tasks(world.with_own(np.eye(size)[sent]), np.random.default_rng(seed)).share
        share = np.where(answers >= 0, share, 0.0)
        gain, error = mean_over_tasks(world.task, share - honest.share)
        findings.append(with_margin(name, float(honest.share.mean()), float(share.mean()), gain, level * error))
    return Audit(rule, int(world.task[-1]) + 1, false_alarm, float(honest.empty_share.mean()), tuple(findings))


def _lies(
    rng: Generator, labels: Labels, tables: Array, label: Indexes, guess: Indexes | None, prior: Array
) -> Iterator[tuple[str, Indexes]]:
    """Yield lies and their answers, −1 for no answer.

    A task is easy for a worker who is certain of its class, given its label and what everybody knows (``prior``).
    """
    size = labels.tables.shape[2]
    made_up = rng.integers(size, size=(2, len(label)))
    likely = np.einsum("k,rkl->rl", labels.prior, tables).argmax(axis=1)
    yield "always the most frequent label", likely
    yield "answer at random", made_up[0]
    if guess is not None:
        yield "copy the public guess", guess
        unsure = rng.random(len(label)) < 0.5
        yield "copy the public guess half the time", np.where(unsure, guess, label)
    posterior = prior * tables[np.arange(len(label)), :, label]
    sure = (posterior / posterior.sum(axis=1, keepdims=True)).max(axis=1)
    sure += 1e-9 * rng.random(len(label))  # random tie-breaking
    easy = sure >= np.median(sure)
    yield "answer only easy tasks", np.where(easy, label, -1)
    yield "easy tasks, the rest at random", np.where(easy, label, made_up[1])
    yield "easy tasks, the rest by the most frequent", np.where(easy, label, likely)
    if labels.tables.shape[1] == size:
        yield "the most likely class instead of the label", posterior.argmax(axis=1)
    yield "the next label", (label + 1) % size


def draw_world(rng: Generator, tasks: Tasks, labels: Labels) -> tuple[Tasks, Indexes]:
    """Draw a class for each task and a label for each report; return the tasks with these labels, and the classes."""
    classes = rng.choice(len(labels.prior), p=labels.prior, size=int(tasks.task[-1]) + 1)
    tables = labels.tables[tasks.likelihood_of[tasks.provider]]
    label = draw_codes(rng, tables[np.arange(len(tasks)), classes[tasks.task]], 1)[:, 0].astype(np.intp)
    return replace(tasks, summaries=np.eye(labels.tables.shape[2])[label], known=None), classes


def sample_tasks(tasks: Tasks, target: int, *, repeat: bool = False) -> Tasks:
    """Return about ``target`` tasks, evenly spaced; if there are fewer, all of them, with ``repeat`` several times."""
    count = int(tasks.task[-1]) + 1
    if count > target:
        sample = np.unique(np.linspace(0, count - 1, target).astype(np.intp))
        kept = np.isin(tasks.task, sample)
        numbers = np.searchsorted(sample, tasks.task[kept])
        known = None if tasks.known is None else tasks.known[sample]
        return replace(tasks, task=numbers, provider=tasks.provider[kept], summaries=tasks.summaries[kept], known=known)
    if not repeat:
        return tasks
    times = -(-target // count)
    task = np.concatenate([tasks.task + turn * count for turn in range(times)])
    provider, summaries = np.tile(tasks.provider, times), np.tile(tasks.summaries, (times, 1))
    return replace(tasks, task=task, provider=provider, summaries=summaries, known=None)


def mean_over_tasks(task: Indexes, entries: Array) -> tuple[float, float]:
    """Return the mean over reports, and the standard error of this ratio of sums over tasks."""
    sums, sizes = np.bincount(task, entries), np.bincount(task)
    mean = float(sums.sum() / sizes.sum())
    residual = sums - mean * sizes
    return mean, float(np.sqrt((residual**2).sum()) / sizes.sum())


def audit_task_values(tasks: Tasks, rule: Rule, *, simulations: int, false_alarm: float, seed: int) -> Audit:
    """Simulate what one worker earns by lying to honest peers, on a task with the most common number of reports.

    For models of values, whose reports are drawn like those of any round. Likelihoods and rows are those of the first
    such task, public knowledge about tasks is not drawn, and decoys are few, which changes no expected payment.
    """
    sizes = np.bincount(tasks.task)
    if sizes.max(initial=0) < 2:
        raise DataError("no task has two reports: nobody has a peer, and there is nothing to audit")
    common = 2 + int(np.bincount(sizes[sizes >= 2] - 2).argmax())
    reports = np.flatnonzero(tasks.task == np.flatnonzero(sizes == common)[0])
    models = [tasks.likelihoods[number] for number in tasks.likelihood_of[tasks.provider[reports]]]
    rows = np.asarray(models[0].reduction.rows(tasks.summaries[reports])).astype(int).tolist()
    model: Any = models[0] if len(set(map(id, models))) == 1 else models
    quick, lies = rule.prepared(model, rows, None).drawing(_DRAWS), lies_about_values(models[0])
    rng = np.random.default_rng(seed)
    return audit(model, quick, lies, rows, simulations=simulations, rng=rng, false_alarm=false_alarm)


def lies_about_values(model: Any) -> list[Strategy]:
    """Return lies for workers with one row, which do not depend on the spread of rows."""
    if has_labels(model):
        return lies_for_model(model)
    if not isinstance(model, SamplesData):
        raise MissingCapabilityError(f"{type(model).__name__} cannot draw data, so it cannot be audited")
    rng = np.random.default_rng(0)
    values = np.asarray(model.draw_data(rng, model.draw_parameters(rng, (_SAMPLE,)), 1)).reshape(_SAMPLE, -1)
    mean, spread = (tuple(moment.tolist()) for moment in (values.mean(axis=0), values.std(axis=0)))
    return [*(OtherValue(*lie, mean, spread) for lie in _LIES_ABOUT_VALUES), FabricateFromPrior(), Nothing()]
