"""Tasks about labels: a task has one of finitely many classes, and its reports consist of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from troth.core.contract import Array, HasFiniteStates, HasReduction, Indexes, has_independent_rows
from troth.core.reductions.reduction import counted_labels

if TYPE_CHECKING:
    from troth.mechanisms.tasks import Tasks

MAX_OUTCOMES = 1024
"""The maximum number of joint answers in one line; peers with more of them are split into panels."""


class Labels(NamedTuple):
    """p(θ), and p(label | θ) of each likelihood, ``(likelihood, θ, label)``."""

    prior: Array
    tables: Array


def labels_of(tasks: Tasks) -> Labels | None:
    """Return the likelihoods of a label, or None if tasks are not about labels with finitely many classes."""
    first = tasks.likelihoods[0]
    if not (isinstance(first, HasFiniteStates) and isinstance(first, HasReduction)):
        return None
    labels = counted_labels(first.reduction)
    if labels is None or labels > MAX_OUTCOMES:
        return None
    rows = tasks.summaries.sum(axis=1).max(initial=0.0)
    if rows > 1 and not all(map(has_independent_rows, tasks.likelihoods)):
        return None
    tables = np.stack([np.exp(model.from_summary(np.eye(labels))).T for model in tasks.likelihoods])
    if not np.allclose(tables.sum(axis=2), 1.0, rtol=0, atol=1e-6):
        return None  # known only up to a factor
    return Labels(first.posterior_probabilities(np.zeros(tables.shape[1])), tables)


def priors_of(tasks: Tasks, labels: Labels) -> tuple[Array, Indexes]:
    """Return the distinct p(θ | public data), and the index of each task's."""
    count = int(tasks.task.max(initial=-1)) + 1
    if tasks.known is None:
        return labels.prior[None], np.zeros(count, dtype=np.intp)
    distinct, inverse = np.unique(tasks.known, axis=0, return_inverse=True)
    joint = labels.prior * np.exp(distinct - distinct.max(axis=1, keepdims=True))
    return joint / joint.sum(axis=1, keepdims=True), inverse.ravel()
