"""What a wrong label costs on a task, exactly, by trying everything that peers could answer."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from troth.core.errors import MissingCapabilityError
from troth.mechanisms.task_lines import MOST_OUTCOMES, labels_of
from troth.mechanisms.tasks import Tasks
from troth.models import Finite

if TYPE_CHECKING:
    from troth.core.contract import Array
    from troth.mechanisms import Rule


def expected_shares(rule: Rule, prior: Array, own: Array, peers: Array) -> Array:
    """Return E[share | true label, reported label] on a task with these laws, exactly, ``(label, label)``.

    Parameters
    ----------
    prior, own, peers
        p(class), a law ``(class, label)``, and laws of peers ``(peer, class, label)``.

    Examples
    --------
    >>> import troth
    >>> good, poor = np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[0.6, 0.4], [0.4, 0.6]])
    >>> expected_shares(troth.LineUp(decoys=float("inf")), np.array([0.5, 0.5]), good, np.stack([good, poor])).round(3)
    array([[0.326, 0.074],
           [0.074, 0.326]])
    """
    size, count = own.shape[1], len(peers)
    answers = np.array(list(product(range(size), repeat=count)))
    every = np.concatenate([np.repeat(np.arange(size), len(answers))[:, None], np.tile(answers, (size, 1))], axis=1)
    task, worker = np.divmod(np.arange(every.size), count + 1)
    laws = tuple(Finite(prior.tolist(), law.tolist()) for law in (own, *peers))
    places = np.arange(count + 1)
    tasks = Tasks(task, worker, np.eye(size)[every.ravel()], laws, places, places)
    share = rule.evaluate_tasks(tasks).share.reshape(size, len(answers), count + 1)[:, :, 0]
    given = own.T * prior
    given = given / given.sum(axis=1, keepdims=True)
    chance = given @ np.prod([law[:, answers[:, place]] for place, law in enumerate(peers)], axis=0)
    return np.asarray(chance @ share.T)


def least_loss(tasks: Tasks, rule: Rule, kinds: int = 40) -> tuple[float, int]:
    """Return the least that a wrong label costs on some kinds of tasks, exactly, and how many kinds were tried."""
    laws = labels_of(tasks)
    if laws is None:
        raise MissingCapabilityError("losses are enumerated for labels with finitely many classes")
    size = laws.tables.shape[2]
    rng = np.random.default_rng(0)
    worst, tried = np.inf, 0
    for report in rng.permutation(len(tasks)):
        on_task = np.flatnonzero(tasks.task == tasks.task[report])
        group = tasks.group[tasks.provider]
        peers = [other for other in on_task if group[other] != group[report]]
        if not peers or size ** (len(peers) + 1) > MOST_OUTCOMES:
            continue
        law = tasks.law[tasks.provider]
        expected = expected_shares(rule, laws.prior, laws.tables[law[report]], laws.tables[law[peers]])
        loss = np.diag(expected)[:, None] - expected
        worst, tried = min(worst, float(loss[~np.eye(size, dtype=bool)].min())), tried + 1
        if tried == kinds:
            break
    return worst, tried
