"""Confusion matrices of workers from past tasks, with partial pooling.

This is Dawid and Skene's model with a Dirichlet population. Task t has class θ_t ~ p. Worker i answers label l on a
task of class θ with probability W_i[θ, l], and W_i[θ, ·] ~ Dirichlet(κ·π[θ, ·]). A task is a sum over the workers who
answered it, so missing answers cost nothing. EM alternates these updates:

- p(θ_t | labels) ∝ p(θ_t) Π_i W_i[θ_t, l_i], or the gold answer if available;
- with expected counts N_i[θ, l], W_i = (N_i + κπ)/(Σ_l N_i + κ), the posterior mean: a worker with few tasks is close
  to the population, one with many tasks to its own frequencies;
- π by Minka's fixed point for the Dirichlet-multinomial, which raises the likelihood of all counts.

Expected counts differ less between workers than real counts do, and would bias κ upwards. So κ maximises the
likelihood of a held-out fifth of the tasks.
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

_PRIOR_TASKS = 0.5  # pseudo-count of tasks per class
_POOLINGS = (2.0, 5.0, 10.0, 20.0, 50.0, 200.0)  # candidates for κ
_DEFAULT_POOLING = 10.0  # κ if tasks are too few to hold some out
_MIN_TASKS = 50  # with fewer, no tasks are held out
_STEPS, _TOLERANCE = 300, 1e-7
_COARSE_STEPS, _COARSE_TOLERANCE = 40, 1e-4  # while κ is chosen
_MIN_PROBABILITY = 1e-4  # in the population
_DECIMALS = 9  # of probabilities in a campaign file


@dataclass(frozen=True)
class FittedWorkers(FittedProviders[Finite]):
    """Confusion matrices of workers learnt from past tasks; a worker's model is p(class) and its matrix."""

    pooling: float  # κ: weight of the population in each worker's matrix, in tasks per class
    tasks: int
    known: int  # number of tasks with a gold answer
    posterior: Array = field(repr=False)  # probability of each class, (task, class)
    seen: tuple[bool, ...] = ()  # for each label, whether it is among the answers, gold ones included

    def caveats(self, labels: Sequence[str]) -> list[str]:
        """Warn if some labels were never answered, or if labels hardly depend on the class."""
        caveats, table = [], np.array(self.population.likelihood)
        if unseen := [repr(name) for name, seen in zip(labels, self.seen, strict=True) if not seen]:
            guess = "its row of the confusion matrix is guessed from the other classes"
            caveats.append(f"nobody answered {', '.join(unseen)} in the past: {guess}")
        if np.abs(table - table.mean(axis=0)).max() < 0.01:
            caveats.append("labels hardly depend on the class: all workers will be paid the empty share")
        return caveats

    def accuracy(self) -> dict[str, float]:
        """Return the probability that each worker's label is the class; there must be a label for each class."""
        prior = np.array(self.population.prior)
        return {name: float(prior @ np.diag(np.array(model.likelihood))) for name, model in self.models.items()}

    def title_and_lines(self) -> tuple[str, list[str]]:
        """Return the numbers of workers and tasks, the frequencies of classes, and an unknown worker's accuracy."""
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
            f"each worker's matrix is shrunk towards the unknown worker's, which counts as {self.pooling:.3g} tasks of "
            "each class: with fewer tasks a worker's matrix is mostly the unknown worker's, with more mostly its own",
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
    """Fit the frequencies of classes and each worker's confusion matrix to past answers.

    Each report has a ``task`` and a ``worker``, numbered from 0, and ``counts`` of the answers to each label. Every
    label is a class. ``gold`` contains the known class of each task, or −1; ``pooling`` is κ.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(2, size=400)
    >>> task, worker = np.divmod(np.arange(1200), 3)
    >>> correct = rng.random(1200) < np.array([0.95, 0.8, 0.6])[worker]
    >>> labels = np.where(correct, truth[task], 1 - truth[task])
    >>> fitted = fit_workers(task, worker, np.eye(2)[labels], ["a", "b", "c"])
    >>> {name: round(accuracy, 1) for name, accuracy in fitted.accuracy().items()}
    {'a': 0.9, 'b': 0.8, 'c': 0.6}
    """
    tasks = int(task.max(initial=-1)) + 1
    if tasks == 0:
        raise DataError("the past has no tasks")
    classes = np.full(tasks, -1, dtype=np.intp) if gold is None else np.asarray(gold, dtype=np.intp)
    answers = _Answers(task, worker, counts, classes, len(names))
    if pooling is None:
        pooling = _choose_pooling(answers) if tasks >= _MIN_TASKS else _DEFAULT_POOLING
    estimate, posterior, log_likelihood = _maximise(answers, pooling, _STEPS, _TOLERANCE)
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
        log_likelihood=log_likelihood,
        posterior=posterior,
        seen=tuple(answers.seen.tolist()),
    )


class _Answers(NamedTuple):
    """Past answers: task, worker, counts of labels, the class of each task or −1, and the number of workers."""

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
        """Mask of the labels that were answered or are a gold answer; other classes cannot be identified."""
        gold = np.bincount(self.classes[self.classes >= 0], minlength=self.counts.shape[1])
        return np.asarray((self.counts.sum(axis=0) > 0) | (gold > 0))

    def without(self, tasks: Mask) -> _Answers:
        """Return the answers without those to some tasks."""
        kept = ~tasks[self.task]
        return self._replace(task=self.task[kept], worker=self.worker[kept], counts=self.counts[kept])


class _Estimate(NamedTuple):
    """p(class), workers' confusion matrices, ``(worker, class, label)``, and the population's."""

    prior: Array
    tables: Array
    population: Array


def _maximise(answers: _Answers, pooling: float, steps: int, tolerance: float) -> tuple[_Estimate, Array, float]:
    """Run EM until the log-likelihood per task converges; return the estimate, the posteriors and that value."""
    labels, tasks = answers.counts.shape[1], len(answers.classes)
    gold = answers.classes[:, None] >= 0
    one_hot = np.eye(labels)[np.maximum(answers.classes, 0)]
    votes = _sums(answers.task, answers.counts, tasks) + 0.1
    votes[:, ~answers.seen] = 0.0
    posterior = np.where(gold, one_hot, votes / votes.sum(axis=1, keepdims=True))
    population = np.full((labels, labels), 1 / labels)
    previous = current = -np.inf
    for _ in range(steps):
        expected = answers.expected_counts(posterior)
        population = _pooled(expected, pooling, population)
        tables = expected + pooling * population
        prior = (posterior.sum(axis=0) + _PRIOR_TASKS) / (tasks + _PRIOR_TASKS * labels)
        estimate = _Estimate(prior, tables / tables.sum(axis=2, keepdims=True), population)
        joint = np.where((gold & (one_hot == 0)) | ~answers.seen, -np.inf, answers.log_joint(estimate))
        evidence = logsumexp(joint, axis=1)
        posterior = np.exp(joint - evidence[:, None])
        previous, current = current, float(evidence.mean())
        if abs(current - previous) < tolerance:
            break
    return estimate, posterior, current


def _fill_unseen(tables: Array, seen: Mask) -> Array:
    """Give unseen classes the average accuracy of the others, with errors spread evenly over the other labels."""
    labels = tables.shape[-1]
    if seen.all() or labels < 2:
        return tables
    accuracy = np.diagonal(tables, axis1=-2, axis2=-1)[..., seen].mean(axis=-1)[..., None, None]
    error = (1 - accuracy) / (labels - 1)
    return np.where(seen[:, None], tables, error + np.eye(labels) * (accuracy - error))


def _choose_pooling(answers: _Answers) -> float:
    """Return the κ that maximises the likelihood of held-out tasks; ties go to the larger κ."""
    held_out = np.random.default_rng(0).random(len(answers.classes)) < 0.2
    training = answers.without(held_out)
    best, best_pooling = -np.inf, _DEFAULT_POOLING
    for pooling in _POOLINGS:
        estimate, _, _ = _maximise(training, pooling, _COARSE_STEPS, _COARSE_TOLERANCE)
        score = float(logsumexp(answers.log_joint(estimate)[held_out], axis=1).sum())
        if score >= best:
            best, best_pooling = score, pooling
    return best_pooling


def _sums(groups: Indexes, entries: Array, size: int) -> Array:
    return np.stack([np.bincount(groups, column, size) for column in entries.T], axis=1)


def _pooled(expected: Array, pooling: float, population: Array) -> Array:
    """Update π by a few steps of Minka's fixed point for Dirichlet-multinomial counts."""
    for _ in range(3):
        alpha = pooling * population
        population = population * (digamma(expected + alpha) - digamma(alpha)).sum(axis=0) + 1e-9
        population = np.maximum(population / population.sum(axis=1, keepdims=True), _MIN_PROBABILITY)
        population /= population.sum(axis=1, keepdims=True)
    return population


def _rounded(probabilities: Array) -> Array:
    """Round probabilities, so that files stay small; the largest one absorbs the remainder."""
    rounded = np.round(probabilities, _DECIMALS)
    largest = rounded.argmax(axis=-1)[..., None]
    remainder = 1 - rounded.sum(axis=-1, keepdims=True)
    np.put_along_axis(rounded, largest, np.take_along_axis(rounded, largest, axis=-1) + remainder, axis=-1)
    return np.round(rounded, _DECIMALS)
