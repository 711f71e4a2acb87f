"""What lies about values of many small tasks, such as ratings, would earn: one row of one worker on one task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.audits.simulate import audit
from troth.audits.strategies import FabricateFromPrior, Nothing, lies_for_model
from troth.audits.strategies.row_shapes import admissible, has_labels
from troth.audits.strategies.strategy import RowLie
from troth.core.contract import SamplesData
from troth.core.errors import DataError, MissingCapabilityError

if TYPE_CHECKING:
    from troth.audits.findings import Audit
    from troth.audits.strategies import Strategy
    from troth.core.contract import Array, Generator
    from troth.mechanisms import Rule
    from troth.mechanisms.tasks import Tasks

_DRAWS, _SAMPLE = 8, 4000
_LIES = (
    ("always the usual value", 0.0, 0.0, 0.0),
    ("halfway to the usual value", 0.5, 0.0, 0.0),
    ("twice as far from the usual value", 2.0, 0.0, 0.0),
    ("higher by half a standard deviation", 1.0, 0.5, 0.0),
    ("with a standard deviation of noise", 1.0, 0.0, 1.0),
)


@dataclass(frozen=True)
class OtherValue(RowLie):
    """Report usual + weight·(x − usual) + (shift + noise·ε)·sd in place of x, with ε standard normal.

    Attributes
    ----------
    usual, spread
        Mean and standard deviation of values under the prior, one entry, or one for each column.
    """

    what: str
    weight: float
    shift: float
    noise: float
    usual: tuple[float, ...]
    spread: tuple[float, ...]

    label = "{what}"

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Array:
        """Change every value, and keep to those that may occur."""
        x, usual, spread = (np.asarray(values, dtype=np.float64) for values in (data, self.usual, self.spread))
        moved = usual + self.weight * (x - usual) + (self.shift + self.noise * rng.standard_normal(x.shape)) * spread
        return admissible(model, moved)


def audit_task_values(tasks: Tasks, rule: Rule, *, simulations: int, false_alarm: float, seed: int) -> Audit:
    """Simulate what lies of one worker earn on a task with as many reports as most tasks have, its peers being honest.

    For models of values, whose reports are drawn like those of any round. Likelihoods and rows are those of the first
    such task, what everybody knows is not drawn, and decoys are few, which changes no expected payment.
    """
    sizes = np.bincount(tasks.task)
    if sizes.max(initial=0) < 2:
        raise DataError("no task has two reports: nobody has a peer, and there is nothing to audit")
    usual = 2 + int(np.bincount(sizes[sizes >= 2] - 2).argmax())
    some = np.flatnonzero(tasks.task == np.flatnonzero(sizes == usual)[0])
    models = [tasks.likelihoods[number] for number in tasks.likelihood_of[tasks.provider[some]]]
    rows = np.asarray(models[0].reduction.rows(tasks.summaries[some])).astype(int).tolist()
    one: Any = models[0] if len(set(map(id, models))) == 1 else models
    few = rule.prepared(one, rows, None).drawing(_DRAWS)
    rng = np.random.default_rng(seed)
    return audit(
        one, few, lies_about_values(models[0]), rows, simulations=simulations, rng=rng, false_alarm=false_alarm
    )


def lies_about_values(model: Any) -> list[Strategy]:
    """Return lies that a worker with one row can tell, whatever the row's own spread."""
    if has_labels(model):
        return lies_for_model(model)
    if not isinstance(model, SamplesData):
        raise MissingCapabilityError(f"{type(model).__name__} cannot draw data, so it cannot be audited")
    rng = np.random.default_rng(0)
    drawn = np.asarray(model.draw_data(rng, model.draw_parameters(rng, (_SAMPLE,)), 1))
    values = drawn.reshape(_SAMPLE, -1)
    usual, spread = (tuple(each.tolist()) for each in (values.mean(axis=0), values.std(axis=0)))
    return [*(OtherValue(*lie, usual, spread) for lie in _LIES), FabricateFromPrior(), Nothing()]
