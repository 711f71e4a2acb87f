"""Lies about the values of rows, which keep the number of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.audits.strategies.amounts import check_share
from troth.audits.strategies.row_shapes import (
    admissible,
    count_labels,
    count_rows,
    has_labels,
    row_axis,
    values_of,
    with_values,
)
from troth.audits.strategies.strategy import Knowledge, RoundKnowledge, RowLie, SummaryLie
from troth.core.contract import explains_target
from troth.core.errors import ParameterError
from troth.core.reductions.reduction import ChangesLabels, ChangesMeans, ScalesAnswers

if TYPE_CHECKING:
    from troth.core.contract import Array, Generator
    from troth.core.reductions import Reduction


def has_means(reduction: Reduction) -> bool:
    """Whether summaries contain means, or frequencies of labels."""
    return isinstance(reduction, ChangesMeans) and reduction.has_means


def has_answers(reduction: Reduction) -> bool:
    """Whether the last column is an answer that can be changed in a summary."""
    return isinstance(reduction, ScalesAnswers) and reduction.has_answers


@dataclass(frozen=True)
class Flip(RowLie, SummaryLie):
    """Replace a share of the labels by the next label, and the last label by the first."""

    share: float = 0.1

    label = "flip {share:.0%}"
    suits_model = staticmethod(has_labels)
    suits_reduction = staticmethod(lambda reduction: isinstance(reduction, ChangesLabels))

    def __post_init__(self) -> None:
        check_share(self)

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        flipped = round(self.share * count_rows(model, data))
        reported = np.array(values_of(model, data))
        reported[..., :flipped] = (reported[..., :flipped] + 1) % count_labels(model)
        return with_values(model, data, reported)

    def change_summary(self, knowledge: RoundKnowledge) -> Array:
        flipped = np.round(self.share * knowledge.rows)
        return np.asarray(knowledge.reduction.relabelled(knowledge.own, flipped, knowledge.rng))


@dataclass(frozen=True)
class Perturb(RowLie):
    """Add noise: to numbers, ``amount`` times their standard deviation; of labels, redraw that share."""

    amount: float = 0.5

    label = "perturb by {amount:g}"

    def __post_init__(self) -> None:
        if not self.amount > 0:
            raise ParameterError(f"Perturb: amount must be above 0, not {self.amount!r}")

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        values = values_of(model, data)
        if has_labels(model):
            redrawn = rng.random(values.shape) < min(self.amount, 1.0)
            labels = np.where(redrawn, rng.integers(0, count_labels(model), values.shape), values)
            return with_values(model, data, labels)
        noise = self.amount * values.std(axis=row_axis(model), keepdims=True) * rng.standard_normal(values.shape)
        return with_values(model, data, admissible(model, values + noise))


@dataclass(frozen=True)
class Shift(RowLie, SummaryLie):
    """Shift all values, or answers, by a number of standard deviations: of the rows, or of the liar's daily means.

    In counts of labels, the share of the last label shifts, by standard deviations of the liar's daily shares.
    """

    by: float = 1.0

    label = "shift by {by:g} sd"
    suits_model = staticmethod(lambda model: not has_labels(model))
    suits_reduction = staticmethod(has_means)

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        values = values_of(model, data)
        moved = values + self.by * values.std(axis=row_axis(model), keepdims=True)
        return with_values(model, data, admissible(model, moved))

    def change_summary(self, knowledge: Knowledge) -> Array:
        return np.asarray(knowledge.reduction.shifted(knowledge.own, self.by * knowledge.spread, knowledge.rng))


@dataclass(frozen=True)
class ShrinkToMean(SummaryLie):
    """Move the day's mean towards the liar's mean of other days; an amount below zero moves it away."""

    amount: float = 0.5

    suits_reduction = staticmethod(has_means)  # regressions have no mean

    def __str__(self) -> str:
        if self.amount == 1:
            return "report the usual mean"
        return f"shrink {self.amount:.0%} to the mean" if self.amount > 0 else f"exaggerate by {-self.amount:.0%}"

    def change_summary(self, knowledge: Knowledge) -> Array:
        mean = knowledge.reduction.means(knowledge.own)
        return np.asarray(knowledge.reduction.with_means(knowledge.own, mean + self.amount * (knowledge.mean - mean)))


@dataclass(frozen=True)
class ScaleAnswers(RowLie, SummaryLie):
    """Multiply the last column, the answers of a regression, by a factor."""

    factor: float = 1.5

    label = "multiply answers by {factor:g}"
    suits_model = staticmethod(lambda model: explains_target(model) and not has_labels(model))
    suits_reduction = staticmethod(has_answers)

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        z, y = data
        return z, admissible(model, self.factor * y)

    def change_summary(self, knowledge: RoundKnowledge) -> Array:
        return np.asarray(knowledge.reduction.with_scaled_answers(knowledge.own, self.factor))


@dataclass(frozen=True)
class ShuffleLabels(RowLie):
    """Pair each row's features with another row's answer."""

    label = "shuffle labels"
    suits_model = staticmethod(explains_target)

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        z, y = data
        return z, rng.permuted(y, axis=-1)


@dataclass(frozen=True)
class ReportTypical(RowLie):
    """Report the most typical value in every row: the majority label, the mean, or the fitted values."""

    label = "report what is typical"

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Any:
        if explains_target(model):
            z, y = data
            gram = np.swapaxes(z, -1, -2) @ z + 1e-9 * np.eye(z.shape[-1])
            fit = np.linalg.solve(gram, np.swapaxes(z, -1, -2) @ y[..., None])
            return z, admissible(model, (z @ fit)[..., 0])
        if has_labels(model):
            counts = np.stack([(data == k).sum(axis=-1) for k in range(count_labels(model))], axis=-1)
            return np.broadcast_to(counts.argmax(axis=-1)[..., None].astype(np.float64), data.shape)
        mean = data.mean(axis=row_axis(model), keepdims=True)
        return np.broadcast_to(admissible(model, mean), data.shape)


@dataclass(frozen=True)
class OtherValue(RowLie):
    """Report usual + weight·(x − usual) + (shift + noise·ε)·sd in place of x, with ε standard normal.

    Attributes
    ----------
    usual, spread
        Mean and standard deviation of values under the prior, one entry per column.
    """

    description: str
    weight: float
    shift: float
    noise: float
    usual: tuple[float, ...]
    spread: tuple[float, ...]

    label = "{description}"

    def change_rows(self, rng: Generator, model: Any, data: Any) -> Array:
        """Change every value, and move it into the support."""
        x, usual, spread = (np.asarray(values, dtype=np.float64) for values in (data, self.usual, self.spread))
        moved = usual + self.weight * (x - usual) + (self.shift + self.noise * rng.standard_normal(x.shape)) * spread
        return admissible(model, moved)
