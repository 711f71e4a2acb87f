"""What a wrong label costs on a task, exactly, by trying everything that peers could answer."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import MissingCapabilityError
from troth.core.posterior import posterior
from troth.mechanisms.task_lines import MOST_OUTCOMES, labels_of
from troth.mechanisms.tasks import Tasks, count_peers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.contract import Array
    from troth.mechanisms import Rule

_KINDS = 40  # of tasks, on which losses are computed
_LABELS = "losses are enumerated for labels with finitely many classes"


def expected_shares(rule: Rule, own: Any, peers: Sequence[Any]) -> Array:
    """Return E[share | true label, reported label] on a task of a provider and its peers, exactly, ``(label, label)``.

    Parameters
    ----------
    own, peers
        Models of labels with finitely many classes, in one space of statistics.

    Examples
    --------
    >>> import troth
    >>> good, poor = (troth.models.Finite([0.5, 0.5], [[p, 1 - p], [1 - p, p]]) for p in (0.9, 0.6))
    >>> expected_shares(troth.LineUp(decoys=float("inf")), good, [good, poor]).round(3)
    array([[0.326, 0.074],
           [0.074, 0.326]])
    """
    size, count = own.reduction.labels, len(peers)
    answers = np.array(list(product(range(size), repeat=count)))
    every = np.concatenate([np.repeat(np.arange(size), len(answers))[:, None], np.tile(answers, (size, 1))], axis=1)
    task, worker = np.divmod(np.arange(every.size), count + 1)
    places = np.arange(count + 1)
    tasks = Tasks(task, worker, np.eye(size)[every.ravel()], (own, *peers), places, places)
    share = rule.evaluate_tasks(tasks).share.reshape(size, len(answers), count + 1)[:, :, 0]
    labels = labels_of(tasks)
    if labels is None:
        raise MissingCapabilityError(_LABELS)
    given = labels.tables[0].T * labels.prior
    given = given / given.sum(axis=1, keepdims=True)
    chance = given @ np.prod([table[:, answers[:, place]] for place, table in enumerate(labels.tables[1:])], axis=0)
    return np.asarray(chance @ share.T)


def least_loss(tasks: Tasks, rule: Rule) -> tuple[float, int, tuple[int, int]]:
    """Return the least that a wrong label costs on some kinds of tasks, exactly, how many were tried, and which labels.

    The labels are the true one and the one that is reported instead.
    """
    labels = labels_of(tasks)
    if labels is None:
        raise MissingCapabilityError(_LABELS)
    size = labels.tables.shape[2]
    group, which = tasks.group[tasks.provider], tasks.likelihood_of[tasks.provider]
    count = count_peers(tasks)
    few = np.flatnonzero((count > 0) & (size ** (count + 1.0) <= MOST_OUTCOMES))
    worst, labels_of_worst = np.inf, (0, 0)
    chosen = np.random.default_rng(0).permutation(few)[:_KINDS]
    for report in chosen:
        on_task = np.arange(*np.searchsorted(tasks.task, tasks.task[report] + np.arange(2)))
        peers = on_task[group[on_task] != group[report]]
        models: Any = [tasks.likelihoods[number] for number in which[[report, *peers]]]
        if tasks.known is not None:
            models = posterior(models, tasks.known[tasks.task[report]])
        own, *others = models
        expected = expected_shares(rule, own, others)
        loss = np.diag(expected)[:, None] - expected + np.where(np.eye(size, dtype=bool), np.inf, 0.0)
        if loss.min() < worst:
            worst, (true, told) = float(loss.min()), np.unravel_index(int(loss.argmin()), loss.shape)
            labels_of_worst = int(true), int(told)
    return worst, len(chosen), labels_of_worst
