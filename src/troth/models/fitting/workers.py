"""Confusion matrices of workers from past tasks, each pooled with the others'; each task has a class.

Dawid and Skene's model with a Dirichlet population. Task t has class θ_t ~ p. Worker i answers label l on a task of
class θ with probability W_i[θ, l], and W_i[θ, ·] ~ Dirichlet(κ·π[θ, ·]). Workers are missing from most tasks, which
costs nothing: a task is a sum over whoever answered it. Expectation and maximisation take turns:

- p(θ_t | labels) ∝ p(θ_t) Π_i W_i[θ_t, l_i], or the gold answer where there is one;
- with expected counts N_i[θ, l], W_i = (N_i + κπ)/(Σ_l N_i + κ), the mean given these counts: a worker with few tasks
  is close to the population, and one with many to what it did;
- π raises the likelihood of all counts (Minka's fixed point for the Dirichlet-multinomial).

Expected counts differ less from worker to worker than real ones, so they would make κ too large. It is chosen by the
likelihood of a fifth of the tasks, which are held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, logsumexp

from troth.core.contract import Array, Indexes, Mask
from troth.core.errors import DataError
from troth.core.formats import number
from troth.models.finite import Finite
from troth.models.fitting.fitted import FittedProviders, terms_left_out

_PRIOR_TASKS = 0.5  # tasks that every class has before any is seen
_POOLINGS, _GUESS = (2.0, 5.0, 10.0, 20.0, 50.0, 200.0), 10.0  # κ that are tried, and where tasks are few
_MIN_TASKS = 50  # tasks, of which some can be held out
_STEPS, _CLOSE, _ROUGH_STEPS, _ROUGH = 300, 1e-7, 40, 1e-4
_FLOOR = 1e-4  # of the population's probabilities
_DIGITS = 9  # of probabilities in a campaign file


@dataclass(frozen=True)
class FittedWorkers(FittedProviders[Finite]):
    """Confusion matrices of workers that were learnt from past tasks: a model is p(class), and one of them."""

    pooling: float  # κ: how many tasks of a class the population is worth to each worker
    tasks: int
    known: int  # of the tasks have a gold answer
    posterior: Array = field(repr=False)  # the probability of each class, (task, class)
    seen: tuple[bool, ...] = ()  # labels that were answered or are gold; other classes are answered like these

    def caveats(self, labels: Sequence[str]) -> list[str]:
        """Warn of labels that nobody answered, and of labels that hardly depend on the class."""
        caveats, table = [], np.array(self.population.likelihood)
        if unseen := [repr(name) for name, seen in zip(labels, self.seen, strict=True) if not seen]:
            guess = "how it is answered is guessed from the other classes"
            caveats.append(f"nobody answered {', '.join(unseen)} in the past: {guess}")
        if np.abs(table - table.mean(axis=0)).max() < 0.01:
            caveats.append("labels hardly depend on the class: everybody will be paid the empty share")
        return caveats

    def accuracy(self) -> dict[str, float]:
        """Return how often each worker's label is the class; there must be a label for each class."""
        prior = np.array(self.population.prior)
        return {name: float(prior @ np.diag(np.array(model.likelihood))) for name, model in self.models.items()}

    def title_and_lines(self) -> tuple[str, list[str]]:
        """Return how many workers and tasks there are, how often classes occur, and what an unknown worker does."""
        prior = ", ".join(f"{p:.3f}" for p in self.population.prior)
        gold = f", {self.known:,} of them with a gold answer" if self.known else ""
        diagonal = ", ".join(f"{p:.3f}" for p in np.diag(np.array(self.population.likelihood)))
        title = (
            f"confusion matrices of {len(self.models):,} workers from {self.tasks:,} tasks{gold}, "
            f"log-likelihood {number(self.log_likelihood)} nats per task{terms_left_out(self.population)}"
        )
        return title, [
            f"classes: {prior}",
            f"an unknown worker is right with probability {diagonal}, by class",
            f"each worker's matrix is shrunk towards the unknown worker's as if by {self.pooling:.3g} tasks of each "
            "class: with fewer tasks of its own it is mostly the unknown worker's, with more mostly its own",
        ]


def fit_workers(
    task: Indexes,
    worker: Indexes,
    counts: Array,
    names: Sequence[str],
    gold: Indexes | None = None,
    *,
    pooling: float | None = None,
) -> FittedWorkers:
    """Learn the classes' frequencies and everybody's confusion matrix from past answers.

    A report is of a task and a worker, numbers from 0, and ``counts`` how often each label was answered; there is a
    class for each label. ``gold`` is the class of each task that is known, −1 for the others, and ``pooling`` κ.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(2, size=400)
    >>> task, worker = np.divmod(np.arange(1200), 3)
    >>> right = rng.random(1200) < np.array([0.95, 0.8, 0.6])[worker]
    >>> learned = fit_workers(task, worker, np.eye(2)[np.where(right, truth[task], 1 - truth[task])], ["a", "b", "c"])
    >>> {name: round(accuracy, 1) for name, accuracy in learned.accuracy().items()}
    {'a': 0.9, 'b': 0.8, 'c': 0.6}
    """
    tasks = int(task.max(initial=-1)) + 1
    if tasks == 0:
        raise DataError("the past has no tasks")
    classes = np.full(tasks, -1, dtype=np.intp) if gold is None else np.asarray(gold, dtype=np.intp)
    answers = _Answers(task, worker, counts, classes, len(names))
    if pooling is None:
        pooling = _choose_pooling(answers) if tasks >= _MIN_TASKS else _GUESS
    estimate, posterior, now = _climb(answers, pooling, _STEPS, _CLOSE)
    prior, tables, population = estimate.prior, *(_fill_unseen(table, answers.seen) for table in estimate[1:])
    rounded_prior = [float(p) for p in _rounded(prior)]
    return FittedWorkers(
        models={
            name: Finite(rounded_prior, _rounded(table).tolist()) for name, table in zip(names, tables, strict=True)
        },
        population=Finite(rounded_prior, _rounded(population).tolist()),
        pooling=pooling,
        tasks=tasks,
        known=int((classes >= 0).sum()),
        log_likelihood=now,
        posterior=posterior,
        seen=tuple(answers.seen.tolist()),
    )


class _Answers(NamedTuple):
    """Past answers: task, worker, counts of labels, the class of each task or −1, and how many workers there are."""

    task: Indexes
    worker: Indexes
    counts: Array
    classes: Indexes
    workers: int

    def log_joint(self, estimate: _Estimate) -> Array:
        """Return ln p(class, labels) of each task, ``(task, class)``."""
        parts = np.einsum("rl,rkl->rk", self.counts, np.log(estimate.tables)[self.worker])
        return np.log(estimate.prior) + _sums(self.task, parts, len(self.classes))

    def expected_counts(self, posterior: Array) -> Array:
        """Return N[worker, class, label]."""
        weights = posterior[self.task].T
        return np.stack([_sums(self.worker, self.counts * weight[:, None], self.workers) for weight in weights], axis=1)

    @property
    def seen(self) -> Mask:
        """Which labels were answered, or are a gold answer: a class without either cannot be told from the others."""
        gold = np.bincount(self.classes[self.classes >= 0], minlength=self.counts.shape[1])
        return np.asarray((self.counts.sum(axis=0) > 0) | (gold > 0))

    def without(self, tasks: Mask) -> _Answers:
        """Leave out the answers to some tasks."""
        stay = ~tasks[self.task]
        return self._replace(task=self.task[stay], worker=self.worker[stay], counts=self.counts[stay])


class _Estimate(NamedTuple):
    """p(class), everybody's confusion matrix, ``(worker, class, label)``, and the population's."""

    prior: Array
    tables: Array
    population: Array


def _climb(answers: _Answers, pooling: float, steps: int, close: float) -> tuple[_Estimate, Array, float]:
    """Take turns until the likelihood per task hardly changes; return estimate, posteriors and likelihood."""
    labels, tasks = answers.counts.shape[1], len(answers.classes)
    gold = answers.classes[:, None] >= 0
    one_hot = np.eye(labels)[np.maximum(answers.classes, 0)]
    votes = _sums(answers.task, answers.counts, tasks) + 0.1
    votes[:, ~answers.seen] = 0.0
    posterior = np.where(gold, one_hot, votes / votes.sum(axis=1, keepdims=True))
    population = np.full((labels, labels), 1 / labels)
    before = now = -np.inf
    for _ in range(steps):
        expected = answers.expected_counts(posterior)
        population = _pooled(expected, pooling, population)
        tables = expected + pooling * population
        prior = (posterior.sum(axis=0) + _PRIOR_TASKS) / (tasks + _PRIOR_TASKS * labels)
        estimate = _Estimate(prior, tables / tables.sum(axis=2, keepdims=True), population)
        joint = np.where((gold & (one_hot == 0)) | ~answers.seen, -np.inf, answers.log_joint(estimate))
        evidence = logsumexp(joint, axis=1)
        posterior = np.exp(joint - evidence[:, None])
        before, now = now, float(evidence.mean())
        if abs(now - before) < close:
            break
    return estimate, posterior, now


def _fill_unseen(tables: Array, seen: Mask) -> Array:
    """Let classes that were never seen be answered correctly as often as the others are on average."""
    labels = tables.shape[-1]
    if seen.all() or labels < 2:
        return tables
    right = np.diagonal(tables, axis1=-2, axis2=-1)[..., seen].mean(axis=-1)[..., None, None]
    usual = (1 - right) / (labels - 1) + np.eye(labels) * (right - (1 - right) / (labels - 1))
    return np.where(seen[:, None], tables, usual)


def _choose_pooling(answers: _Answers) -> float:
    """Return κ under which tasks that were held out are most likely; ties go to more pooling."""
    out = np.random.default_rng(0).random(len(answers.classes)) < 0.2
    training = answers.without(out)
    best, best_pooling = -np.inf, _GUESS
    for pooling in _POOLINGS:
        estimate, _, _ = _climb(training, pooling, _ROUGH_STEPS, _ROUGH)
        score = float(logsumexp(answers.log_joint(estimate)[out], axis=1).sum())
        if score >= best:
            best, best_pooling = score, pooling
    return best_pooling


def _sums(groups: Indexes, entries: Array, size: int) -> Array:
    return np.stack([np.bincount(groups, column, size) for column in entries.T], axis=1)


def _pooled(expected: Array, pooling: float, population: Array) -> Array:
    """Take a few steps of Minka's fixed point for π, of Dirichlet-multinomial counts."""
    for _ in range(3):
        alpha = pooling * population
        population = population * (digamma(expected + alpha) - digamma(alpha)).sum(axis=0) + 1e-9
        population = np.maximum(population / population.sum(axis=1, keepdims=True), _FLOOR)
        population /= population.sum(axis=1, keepdims=True)
    return population


def _rounded(probabilities: Array) -> Array:
    """Round to a few digits, so that files stay small; what is left goes to the largest."""
    rounded = np.round(probabilities, _DIGITS)
    largest = rounded.argmax(axis=-1)[..., None]
    remainder = 1 - rounded.sum(axis=-1, keepdims=True)
    np.put_along_axis(rounded, largest, np.take_along_axis(rounded, largest, axis=-1) + remainder, axis=-1)
    return np.round(rounded, _DIGITS)
