"""Whether the answers to many small tasks are plausible under the model, and whether other answers would pay more.

First, the frequency of each label is compared with what the prior and the confusion matrices predict, since constant
answers exploit any difference. Second, every label is replayed as every other one. Under the model no answer has a
higher expected share than the true one, so replacing an honest label a by a label b must not earn more on average over
tasks. A significant gain refutes the confusion matrices, or the workers' honesty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtr

from troth.audits.label_frequencies import label_frequencies
from troth.audits.tasks import draw_world, mean_over_tasks, sample_tasks
from troth.certificates.fit import Fit
from troth.core.errors import MissingCapabilityError
from troth.core.formats import probability, share
from troth.mechanisms.task_labels import labels_of
from troth.mechanisms.tasks import count_peers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.audits.label_frequencies import Frequency
    from troth.mechanisms import Rule
    from troth.mechanisms.tasks import Tasks

_TASKS, _LEVEL = 5000, 0.01
MIN_ANSWERS = 10
"""The minimum number of answers of a label for it to be replayed as others."""
MAX_LABELS = 12
"""The maximum number of labels for any of them to be replayed."""


@dataclass(frozen=True)
class TaskFit(Fit):
    """The frequencies of labels, and the mean gains of other labels in their place, as shares of the price.

    Labels in ``not_replayed`` were answered too rarely, or there are too many labels.
    """

    frequencies: tuple[Frequency, ...] = ()
    not_replayed: tuple[str, ...] = ()

    @property
    def oddest(self) -> Frequency:
        """The label with the most surprising frequency; if others are similar, one that is too frequent."""
        threshold = 10 * min(frequency.p_value for frequency in self.frequencies)
        return min(
            self.frequencies,
            key=lambda frequency: (
                frequency.p_value > threshold,
                frequency.expected > frequency.observed,
                frequency.p_value,
            ),
        )

    @property
    def contradicts_prior(self) -> bool:
        """Whether the frequencies of labels are at least doubtful under the model."""
        return 2 * _combined_p_value([frequency.p_value for frequency in self.frequencies]) < 5 * self.level

    @property
    def contradiction(self) -> str:
        """A description of the strongest evidence against the model."""
        if self.contradicts_prior or not self.observed:
            odd = self.oddest
            return (
                f"{odd.observed:.0%} of the labels are {odd.label!r}, but the prior and the confusion matrices expect "
                f"{odd.expected:.0%}"
            )
        return f"{max(self.observed, key=self.observed.__getitem__)} would have earned more"

    def __str__(self) -> str:
        lines = [
            f"the model {self.verdict}: p = {probability(self.p_value, 4, self.level)} ({self.simulations:,} tasks)"
        ]
        for frequency in self.frequencies:
            part = f"{frequency.observed:8.1%} of the answers, expected {frequency.expected:.1%}"
            lines.append(f"  {frequency.label:<38} {part}   p = {frequency.p_value:.4f}")
        for name in sorted(self.observed, key=lambda label: -self.observed[label]):
            gain, expected = (share(gains[name], 1, sign=True) for gains in (self.observed, self.expected))
            lines.append(f"  {name:<38} {gain:>8} of the price, under the model {expected}")
        return "\n".join(lines)


def _p_value(gain: float, error: float, tasks: int) -> float:
    """Return the p-value of a mean gain over tasks under the hypothesis that there is none."""
    if error <= 0:
        return float(gain <= 0)
    return float(stdtr(tasks - 1, -gain / error * np.sqrt((tasks - 1) / tasks)))


def _combined_p_value(p_values: Sequence[float]) -> float:
    """Return the smallest of several p-values, corrected for their number; with two labels, one implies the other."""
    return min(1.0, (len(p_values) if len(p_values) > 2 else 1) * min(p_values))


def check_task_fit(tasks: Tasks, rule: Rule, names: Sequence[str], *, past: int | None = None) -> TaskFit:
    """Compare frequencies of labels with those predicted, and replay every label as every other one.

    Each check raises a false alarm with probability 0.5%. ``names`` are the names of the labels; ``past`` is the number
    of past tasks that the prior and the confusion matrices were learnt from, if any.

    Examples
    --------
    >>> import troth
    >>> from troth.mechanisms.tasks import Tasks
    >>> model = troth.models.Finite([0.5, 0.5], [[0.8, 0.2], [0.2, 0.8]])
    >>> task, worker = np.divmod(np.arange(300), 3)
    >>> for labels in (task % 2, 0 * task):
    ...     tasks = Tasks(task, worker, np.eye(2)[labels], (model,), np.zeros(3, dtype=int), np.arange(3))
    ...     print(check_task_fit(tasks, troth.LineUp(decoys=float("inf")), ["no", "yes"]).verdict)
    fits
    does not fit
    """
    sample = sample_tasks(tasks, _TASKS)
    labels = labels_of(sample)
    if labels is None or sample.summaries.sum(axis=1).max(initial=0.0) > 1:
        raise MissingCapabilityError("only one label per task, of finitely many classes, can be checked")
    frequencies = label_frequencies(sample, labels, names, past=past)
    counts = sample.summaries.sum(axis=0)
    replayed = (counts >= MIN_ANSWERS) & (len(names) <= MAX_LABELS)
    observed, expected = {}, {}
    if replayed.any():
        simulated, _ = draw_world(np.random.default_rng(0), sample, labels)
        observed, expected = (_replayed_gains(world, rule, names) for world in (sample, simulated))
    p_values = {name: _p_value(*gain) for name, gain in observed.items()}
    alone = min([1.0, *(len(p_values) * p for p in p_values.values())])
    fit = TaskFit(
        min(1.0, 2 * alone, 2 * _combined_p_value([frequency.p_value for frequency in frequencies])),
        p_values,
        {name: gain for name, (gain, *_) in observed.items()},
        {name: expected.get(name, (0.0,))[0] for name in observed},
        _LEVEL,
        int(sample.task[-1]) + 1,
        frequencies,
        tuple(name for name, left_out in zip(names, (counts > 0) & ~replayed, strict=True) if left_out),
    )
    if fit.verdict == "fits" and not count_peers(sample).any():
        raise MissingCapabilityError("no answer has a peer on its task, so every answer earns the empty share")
    if not p_values and fit.verdict == "fits":
        reason = f"there are more than {MAX_LABELS} labels" if len(names) > MAX_LABELS else ""
        raise MissingCapabilityError(
            "labels are as frequent as the prior and the confusion matrices expect, but none was replayed as "
            "another: " + (reason or f"none was given {MIN_ANSWERS} times")
        )
    return fit


def _replayed_gains(tasks: Tasks, rule: Rule, names: Sequence[str]) -> dict[str, tuple[float, float, int]]:
    """Replay every frequent label as every other one; return mean gains, standard errors, and numbers of tasks."""
    label, truth = tasks.summaries.argmax(axis=1), rule.evaluate_tasks(tasks, np.random.default_rng(0)).share
    gains = {}
    for other, as_name in enumerate(names):
        own = np.eye(len(names))[np.full(len(tasks), other)]
        share = rule.evaluate_tasks(tasks.with_own(own), np.random.default_rng(0)).share
        for reported, name in enumerate(names):
            same_label = label == reported
            if reported != other and same_label.sum() >= MIN_ANSWERS:
                gain, error = mean_over_tasks(tasks.task[same_label], (share - truth)[same_label])
                gains[f"{name} as {as_name}"] = gain, error, len(np.unique(tasks.task[same_label]))
    return gains
