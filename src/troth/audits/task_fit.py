"""Whether the answers to many small tasks are plausible under the model, and whether other answers would pay more.

How often each label occurs is compared with what the prior and the confusion matrices expect: constant answers gain by
a difference. And every label is replayed as every other one. Under the model no answer has a higher expected share than
the true one. So where honest workers answered a, a label b must not earn more on average over tasks; a gain that chance
does not explain refutes the confusion matrices, or the workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtr

from troth.audits.label_frequencies import label_frequencies
from troth.audits.tasks import draw_world, mean_over_tasks, some_tasks
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
"""Answers of a label, from which other labels are tried in its place."""
MAX_LABELS = 12
"""Up to how many each is replayed as another."""


@dataclass(frozen=True)
class TaskFit(Fit):
    """How frequent labels are, and what others would have earned in their place, in shares of the price, on average.

    In the place of labels that are ``not_replayed`` no other was tried: they were answered too rarely, or labels are
    too many.
    """

    frequencies: tuple[Frequency, ...] = ()
    not_replayed: tuple[str, ...] = ()

    @property
    def oddest(self) -> Frequency:
        """The label whose frequency is least expected; one that is too frequent, if another is not much odder."""
        odd = 10 * min(frequency.p_value for frequency in self.frequencies)
        return min(
            self.frequencies,
            key=lambda frequency: (frequency.p_value > odd, frequency.expected > frequency.observed, frequency.p_value),
        )

    @property
    def contradicts_prior(self) -> bool:
        """Whether the frequencies of labels alone are doubtful under the model, or refute it."""
        return 2 * _corrected([frequency.p_value for frequency in self.frequencies]) < 5 * self.level

    @property
    def contradiction(self) -> str:
        """What speaks most against the model, in words."""
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


def _chance(gain: float, error: float, tasks: int) -> float:
    """Return the chance of such a mean gain over tasks where there is none in truth."""
    if error <= 0:
        return float(gain <= 0)
    return float(stdtr(tasks - 1, -gain / error * np.sqrt((tasks - 1) / tasks)))


def _corrected(chances: Sequence[float]) -> float:
    """Return the chance that one of several is as small as the smallest here; of two labels one says all."""
    return min(1.0, (len(chances) if len(chances) > 2 else 1) * min(chances))


def check_task_fit(tasks: Tasks, rule: Rule, names: Sequence[str], *, past: int | None = None) -> TaskFit:
    """Compare frequencies of labels with those expected, and replay every label as every other one.

    Either check raises a false alarm with a probability of half a percent. ``names`` are those of the labels, and
    ``past`` says how many past tasks the prior and the confusion matrices were learnt from, if they were.

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
    sample = some_tasks(tasks, _TASKS)
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
    chances = {name: _chance(*gain) for name, gain in observed.items()}
    alone = min([1.0, *(len(chances) * p for p in chances.values())])
    fit = TaskFit(
        min(1.0, 2 * alone, 2 * _corrected([frequency.p_value for frequency in frequencies])),
        chances,
        {name: gain for name, (gain, *_) in observed.items()},
        {name: expected.get(name, (0.0,))[0] for name in observed},
        _LEVEL,
        int(sample.task[-1]) + 1,
        frequencies,
        tuple(name for name, left_out in zip(names, (counts > 0) & ~replayed, strict=True) if left_out),
    )
    if fit.verdict == "fits" and not count_peers(sample).any():
        raise MissingCapabilityError("no answer has a peer on its task, so every answer earns the empty share")
    if not chances and fit.verdict == "fits":
        many = f"there are more than {MAX_LABELS} labels" if len(names) > MAX_LABELS else ""
        raise MissingCapabilityError(
            "labels are as frequent as the prior and the confusion matrices expect, but none was replayed as "
            "another: " + (many or f"none was given {MIN_ANSWERS} times")
        )
    return fit


def _replayed_gains(tasks: Tasks, rule: Rule, names: Sequence[str]) -> dict[str, tuple[float, float, int]]:
    """Replay every frequent label as every other one; return mean gains, their errors, and on how many tasks."""
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
