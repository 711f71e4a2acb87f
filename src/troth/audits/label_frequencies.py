"""A test of whether labels are as frequent as the prior and the workers' confusion matrices predict.

The number of answers with a label is a sum over tasks, which are independent; the answers to one task are not, because
they share its class. Its generating function under the model is

    E[exp(s·count)] = Π_tasks Σ_θ p(θ) Π_answers (1 − W[θ, label] + W[θ, label]·exp(s)),

from which a saddlepoint approximation gives the tails, even for rare labels and few tasks (Lugannani and Rice 1980,
with Daniels' continuity correction, 1987).
"""

from __future__ import annotations

from math import exp, pi, sinh, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr

from troth.mechanisms.task_labels import priors_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.contract import Array
    from troth.mechanisms.task_labels import Labels
    from troth.mechanisms.tasks import Tasks

TOLERATED = 0.02
"""A difference of frequencies that is tolerated for any number of tasks, since little can be gained by it."""
_MAX_SADDLEPOINT = 50.0  # end of the interval that is searched


class Frequency(NamedTuple):
    """The observed and the expected frequency of a label among all answers, and the p-value of the difference."""

    label: str
    observed: float
    expected: float
    p_value: float


def label_frequencies(
    tasks: Tasks, labels: Labels, names: Sequence[str], *, past: int | None = None
) -> tuple[Frequency, ...]:
    """Compare the frequency of each label with what the prior and the confusion matrices predict.

    P-values are two-sided and for a difference beyond `TOLERATED`. A prior and confusion matrices that were learnt from
    ``past`` tasks are as uncertain as a sample of that size.

    Examples
    --------
    >>> import troth
    >>> from troth.mechanisms.task_labels import labels_of
    >>> from troth.mechanisms.tasks import Tasks
    >>> model = troth.models.Finite([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]])
    >>> task, worker = np.divmod(np.arange(120), 3)
    >>> tasks = Tasks(task, worker, np.eye(2)[np.ones(120, dtype=int)], (model,), np.zeros(3, dtype=int), np.arange(3))
    >>> all_yes = label_frequencies(tasks, labels_of(tasks), ["no", "yes"])[1]
    >>> f"{all_yes.observed:.0%}, expected {all_yes.expected:.0%}", all_yes.p_value < 1e-10
    ('100%, expected 50%', True)
    """
    prior, prior_of = priors_of(tasks, labels)
    log_prior = np.full((int(tasks.task[-1]) + 1, prior.shape[1]), -np.inf)
    np.log(prior[prior_of], out=log_prior, where=prior[prior_of] > 0)
    counts = tasks.summaries.sum(axis=0)
    wider = 1.0 if past is None else sqrt(1 + len(log_prior) / past)
    result = []
    for code, name in enumerate(names):
        count = _Count(tasks, labels.tables[:, :, code], log_prior)
        _, mean, _ = count.cumulants(0.0)
        beyond = max(0.0, abs(counts[code] - mean) - TOLERATED * len(tasks)) / wider
        p = min(1.0, 2 * count.tail(mean, beyond if counts[code] >= mean else -beyond)) if beyond else 1.0
        result.append(Frequency(name, float(counts[code]) / len(tasks), mean / len(tasks), p))
    return tuple(result)


class _Count:
    """The number of answers with one label, under the model."""

    def __init__(self, tasks: Tasks, chances: Array, log_prior: Array) -> None:
        kinds, self.kind = np.unique(tasks.likelihood_of[tasks.provider], return_inverse=True)
        self.chances, self.log_prior = chances[kinds], log_prior  # (likelihood, θ), (task, θ)
        self.starts = np.flatnonzero(np.diff(tasks.task, prepend=-1))

    def cumulants(self, s: float) -> tuple[float, float, float]:
        """Return ln E[exp(s·count)] and its first two derivatives."""
        scaled = self.chances * exp(s)
        total = 1 - self.chances + scaled
        rate = scaled / np.where(total > 0, total, 1.0)
        with np.errstate(divide="ignore"):
            parts = np.log(total), rate, rate * (1 - rate)
        logs, first, second = (np.add.reduceat(part[self.kind], self.starts, axis=0) for part in parts)
        joint = self.log_prior + logs
        total_log = logsumexp(joint, axis=1, keepdims=True)
        weight = np.exp(joint - total_log)
        mean = (weight * first).sum(axis=1)
        spread = (weight * (second + first**2)).sum(axis=1) - mean**2
        return float(total_log.sum()), float(mean.sum()), float(spread.sum())

    def tail(self, mean: float, beyond: float) -> float:
        """Return P(count − mean ≥ beyond), or P(count − mean ≤ beyond) if ``beyond`` is negative."""
        from scipy.optimize import brentq  # slow to import

        side = 1.0 if beyond > 0 else -1.0
        edge = mean + beyond - side * 0.5
        if side * (edge - mean) <= 0:
            return 0.5
        if side * (self.cumulants(side * _MAX_SADDLEPOINT)[1] - edge) < 0:
            return 0.0  # beyond every count that the model makes likely
        s = brentq(lambda s: self.cumulants(s)[1] - edge, 0.0, side * _MAX_SADDLEPOINT, xtol=1e-9)
        if abs(s) < 1e-4:
            return 0.5
        value, _, curve = self.cumulants(s)
        w = sqrt(max(2 * (s * edge - value), 0.0))
        v = 2 * sinh(abs(s) / 2) * sqrt(curve)
        if w < 1e-4 or v <= 0:
            return 0.5
        return float(np.clip(ndtr(-w) + exp(-w * w / 2) / sqrt(2 * pi) * (1 / v - 1 / w), 0.0, 0.5))
