"""Did the answers to many small tasks pay best as they are? Every label is replayed as every other one.

Under the model no answer has a higher expected share than the true one. So where honest workers answered a, a label b
must not earn more on average over tasks; a gain that chance does not explain refutes the laws, or the workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from troth.audits.tasks import draw_world, mean_over_tasks, some_tasks
from troth.certificates.fit import Fit
from troth.core.errors import MissingCapabilityError
from troth.mechanisms.task_lines import labels_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.mechanisms import Rule
    from troth.mechanisms.tasks import Tasks

_TASKS = 5000
_FEWEST = 10  # answers of a label, from which other labels are tried in its place
_MOST_LABELS = 12


@dataclass(frozen=True)
class TaskFit(Fit):
    """What other labels would have earned in place of the reported ones, in shares of the price, on average."""

    def __str__(self) -> str:
        verdict = {
            "fits": "no other label would have earned more than the reported one",
            "doubtful": "another label would have earned a little more than the reported one, perhaps by chance",
            "does not fit": "ANOTHER LABEL WOULD HAVE EARNED MORE than the reported one",
        }[self.verdict]
        lines = [f"{verdict}: p = {self.p_value:.4f} ({self.simulations:,} tasks)"]
        for name in sorted(self.observed, key=lambda each: -self.observed[each]):
            gain, expected = self.observed[name], self.expected[name]
            lines.append(f"  {name:<38} {gain:+8.1%} of the price, under the model {expected:+.1%}")
        return "\n".join(lines)


def _chance(gain: float, error: float) -> float:
    """Return the chance of such a gain where there is none in truth."""
    return float(ndtr(-gain / error)) if error > 0 else float(gain <= 0)


def check_task_fit(tasks: Tasks, rule: Rule, names: Sequence[str], *, level: float = 0.01, seed: int = 0) -> TaskFit:
    """Replay every label as every other one, on the tasks as they were answered.

    Parameters
    ----------
    names
        What the labels are called.

    Examples
    --------
    >>> import troth
    >>> from troth.mechanisms.tasks import Tasks
    >>> model = troth.models.Finite([0.5, 0.5], [[0.8, 0.2], [0.2, 0.8]])
    >>> task, worker = np.divmod(np.arange(300), 3)
    >>> same = np.eye(2)[task % 2]
    >>> tasks = Tasks(task, worker, same, (model,), np.zeros(3, dtype=int), np.arange(3))
    >>> check_task_fit(tasks, troth.LineUp(decoys=float("inf")), ["no", "yes"]).verdict
    'fits'
    """
    some = some_tasks(tasks, _TASKS)
    laws = labels_of(some)
    if laws is None or some.summaries.sum(axis=1).max(initial=0.0) > 1:
        raise MissingCapabilityError("answers are replayed for one label per task, with finitely many classes")
    size = laws.tables.shape[2]
    if size > _MOST_LABELS:
        raise MissingCapabilityError(f"answers are replayed for up to {_MOST_LABELS} labels, and there are {size}")
    drawn, _ = draw_world(np.random.default_rng(seed), some, laws)
    gains: list[dict[str, tuple[float, float]]] = []
    for world in (some, drawn):
        rng = np.random.default_rng(seed)
        label, truth = world.summaries.argmax(axis=1), rule.evaluate_tasks(world, rng).share
        by_label = {}
        for other in range(size):
            own = np.eye(size)[np.full(len(world), other)]
            share = rule.evaluate_tasks(world.with_own(own), np.random.default_rng(seed)).share
            for reported in range(size):
                places = label == reported
                if reported != other and places.sum() >= _FEWEST:
                    gain = mean_over_tasks(world.task[places], (share - truth)[places])
                    by_label[f"{names[reported]} as {names[other]}"] = gain
        gains.append(by_label)
    if not gains[0]:
        raise MissingCapabilityError(f"no label was given {_FEWEST} times, too seldom to replay it as another one")
    tried = {name: _chance(*gain) for name, gain in gains[0].items()}
    worst = min([1.0, *(len(tried) * p for p in tried.values())])
    expected = {name: gains[1].get(name, (0.0, 0.0))[0] for name in tried}
    observed = {name: gain for name, (gain, _) in gains[0].items()}
    return TaskFit(worst, tried, observed, expected, level, int(some.task[-1]) + 1)
