"""Lies that can be replayed on past days: each changes a provider's sums, not its rows, which may be long gone.

What a liar may use is what it would have known: its own report of the day, its own earlier reports, and everybody's
reports of other days. A lie is a small class with one method, ``tell(scene)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import ParameterError
from troth.core.reductions import Counts, Moments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from troth.core.contract import Array, Generator


@dataclass(frozen=True)
class Scene:
    """What a provider knows when it lies.

    Attributes
    ----------
    declared
        What the sums are.
    own
        Its true sums of the days that are replayed, ``(day, sum)``.
    yesterday
        Its own report before each of them, ``(day, sum)``; zeros if there was none.
    past
        Its own reports of the other days, ``(day, sum)``.
    population
        Everybody's reports of the other days, ``(report, sum)``.
    rng
        For lies that draw.
    """

    reduction: Any
    own: Array
    yesterday: Array
    past: Array
    population: Array
    rng: Generator

    @property
    def rows(self) -> Array:
        """Rows of its own reports, ``(day,)``."""
        return np.asarray(self.reduction.rows(self.own))

    @cached_property
    def mean(self) -> Array:
        """Frequencies of codes, or means of the columns, over its own past, ``(code or column,)``."""
        return np.asarray(rates(self.past.sum(axis=0)[None], self.reduction)[0])

    @cached_property
    def spread(self) -> Array:
        """Standard deviation of its own daily means, ``(code or column,)``."""
        return np.asarray(rates(self.past, self.reduction).std(axis=0))


@dataclass(frozen=True)
class PastLie:
    """A lie that is told in sums."""

    def tell(self, scene: Scene) -> Array:
        """Return the sums to report instead of ``scene.own``."""
        raise NotImplementedError

    def suits(self, reduction: Any) -> bool:  # noqa: ARG002
        """Tell whether the lie makes sense for such sums."""
        return True

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return str(self)


@dataclass(frozen=True)
class Replicate(PastLie):
    """Report every row several times."""

    times: int = 2

    def __str__(self) -> str:
        return f"replicate {self.times} times"

    def tell(self, scene: Scene) -> Array:
        """Multiply the sums."""
        return self.times * scene.own


@dataclass(frozen=True)
class Withhold(PastLie):
    """Keep a share of the rows back.

    Codes are thinned as rows drawn without replacement; a sum of counts binomially; other sums in proportion, which
    leaves the mean as it is.
    """

    share: float = 0.5

    def __str__(self) -> str:
        return f"withhold {self.share:.0%}"

    def tell(self, scene: Scene) -> Array:
        """Thin the sums."""
        kept = np.round(scene.rows * (1 - self.share))
        if isinstance(scene.reduction, Counts):
            return _draw_rows(scene.rng, scene.own, kept)
        if scene.reduction.squares:  # fewer rows than columns cannot have such products
            kept = np.maximum(kept, np.minimum(scene.rows, scene.reduction.columns + 1))
        ratio = np.divide(kept, scene.rows, out=np.zeros_like(kept), where=scene.rows > 0)
        reported = scene.own * ratio[:, None]
        if scene.reduction.support.integer and not any(scene.reduction.centre) and scene.reduction.columns == 1:
            reported[:, 1] = scene.rng.binomial(scene.own[:, 1].astype(np.int64), ratio)
        return reported


@dataclass(frozen=True)
class Nothing(PastLie):
    """Report no rows at all."""

    def __str__(self) -> str:
        return "report nothing"

    def tell(self, scene: Scene) -> Array:
        """Report zeros."""
        return np.zeros_like(scene.own)


@dataclass(frozen=True)
class ShrinkToMean(PastLie):
    """Move the day's mean towards one's own mean of other days; below zero, away from it."""

    amount: float = 0.5

    def __str__(self) -> str:
        if self.amount == 1:
            return "report the usual mean"
        return f"shrink {self.amount:.0%} to the mean" if self.amount > 0 else f"exaggerate by {-self.amount:.0%}"

    def suits(self, reduction: Any) -> bool:
        """Tell regressions apart, which have no mean to move to."""
        return isinstance(reduction, Counts) or reduction.linear

    def tell(self, scene: Scene) -> Array:
        """Keep the number of rows, and change their mean."""
        rate = rates(scene.own, scene.reduction)
        return with_rates(scene.own, rate + self.amount * (scene.mean - rate), scene.reduction)


@dataclass(frozen=True)
class Fabricate(PastLie):
    """Send a report of another day: one's own, or anybody's."""

    anybody: bool = False

    def __str__(self) -> str:
        return "fabricate from anybody's past" if self.anybody else "fabricate from own past"

    def tell(self, scene: Scene) -> Array:
        """Draw a report of another day."""
        reports = scene.population if self.anybody else scene.past
        return np.asarray(reports[scene.rng.integers(0, len(reports), len(scene.own))])


@dataclass(frozen=True)
class Yesterday(PastLie):
    """Send one's own previous report once more."""

    def __str__(self) -> str:
        return "send yesterday's report"

    def tell(self, scene: Scene) -> Array:
        """Repeat the report before."""
        return scene.yesterday


@dataclass(frozen=True)
class Flip(PastLie):
    """Give a share of the rows the next code instead of their own."""

    share: float = 0.1

    def __str__(self) -> str:
        return f"flip {self.share:.0%}"

    def suits(self, reduction: Any) -> bool:
        """Only codes can be flipped."""
        return isinstance(reduction, Counts)

    def tell(self, scene: Scene) -> Array:
        """Move rows that are drawn without replacement to the next code, around the corner."""
        moved = _draw_rows(scene.rng, scene.own, np.round(self.share * scene.rows))
        return np.asarray(scene.own - moved + np.roll(moved, 1, axis=-1))


@dataclass(frozen=True)
class Shift(PastLie):
    """Move all values by some standard deviations of one's own daily means."""

    by: float = 1.0

    def __str__(self) -> str:
        return f"shift by {self.by:g} sd"

    def suits(self, reduction: Any) -> bool:
        """Only numbers can be shifted."""
        return isinstance(reduction, Moments) and reduction.linear

    def tell(self, scene: Scene) -> Array:
        """Add a constant to every value."""
        rate = rates(scene.own, scene.reduction)
        return with_rates(scene.own, rate + self.by * scene.spread, scene.reduction)


@dataclass(frozen=True)
class ScaleAnswers(PastLie):
    """Multiply the last column, the answers of a regression, by a factor."""

    factor: float = 1.5

    def __str__(self) -> str:
        return f"multiply answers by {self.factor:g}"

    def suits(self, reduction: Any) -> bool:
        """Tell whether there are products of several columns, around zero."""
        several = isinstance(reduction, Moments) and reduction.columns > 1 and reduction.squares
        return several and not any(reduction.centre)

    def tell(self, scene: Scene) -> Array:
        """Multiply the last sum, and the last row and column of the products."""
        assert isinstance(scene.reduction, Moments)  # noqa: S101 (it suits)
        d = scene.reduction.columns
        column = np.ones(d)
        column[-1] = self.factor
        summaries = [column] if scene.reduction.linear else []
        return np.asarray(scene.own * np.concatenate([np.ones(1), *summaries, np.outer(column, column).ravel()]))


def known_lies(reduction: Any) -> list[PastLie]:
    """Return the known lies of one provider that can be told in such sums.

    Examples
    --------
    >>> [lie.name for lie in known_lies(Counts(2))][:4]
    ['replicate 2 times', 'withhold 50%', 'report nothing', 'shrink 50% to the mean']
    """
    every: Sequence[PastLie] = (
        Replicate(),
        Withhold(),
        Nothing(),
        ShrinkToMean(0.5),
        ShrinkToMean(1.0),
        ShrinkToMean(-0.5),
        Fabricate(),
        Fabricate(anybody=True),
        Yesterday(),
        Flip(),
        Shift(),
        ScaleAnswers(),
    )
    return [lie for lie in every if lie.suits(reduction)]


def check_lies(lies: Any, reduction: Any) -> list[PastLie]:
    """Return lies that can be told in such sums, or say which cannot."""
    if lies is None:
        return known_lies(reduction)
    chosen = [lies] if isinstance(lies, PastLie) else list(lies)
    for lie in chosen:
        if not isinstance(lie, PastLie):
            raise ParameterError(f"{lie!r} is no lie that can be told in sums: use those of troth.history.lies")
        if not lie.suits(reduction):
            raise ParameterError(f"{lie.name!r} cannot be told in sums of {type(reduction).__name__}")
    if not chosen:
        raise ParameterError("there are no lies to replay")
    return chosen


def rates(summaries: Array, reduction: Any) -> Array:
    """Frequencies of codes, or means of columns, ``(..., code or column)``; those of an empty report are 0."""
    n = reduction.rows(summaries)[..., None]
    part = summaries if isinstance(reduction, Counts) else summaries[..., 1 : reduction.columns + 1]
    mean = np.divide(part, n, out=np.zeros_like(part), where=n > 0)
    return mean if isinstance(reduction, Counts) else np.asarray(mean + np.array(reduction.centre))


def with_rates(summaries: Array, wanted: Array, reduction: Any) -> Array:
    """Return sums of as many rows with other frequencies or means, as close as the support allows.

    Codes stay whole numbers. Numbers move by one constant per day, so that their scatter stays as it is.
    """
    n = reduction.rows(summaries)
    if isinstance(reduction, Counts):
        return whole_counts(np.maximum(wanted, 0.0), n)
    d, centre = reduction.columns, np.array(reduction.centre)
    target = np.clip(wanted, reduction.support.low, reduction.support.high)
    total = n[:, None] * target
    if reduction.support.integer:
        total = np.round(total)
    move = np.where(n[:, None] > 0, total - n[:, None] * rates(summaries, reduction), 0.0)
    reported = summaries.copy()
    reported[:, 1 : d + 1] = np.where(n[:, None] > 0, total - n[:, None] * centre, 0.0)
    if reduction.squares:
        delta = np.divide(move, n[:, None], out=np.zeros_like(move), where=n[:, None] > 0)
        cross = summaries[:, 1 : d + 1, None] * delta[:, None, :]
        added = cross + np.swapaxes(cross, -1, -2) + n[:, None, None] * delta[:, :, None] * delta[:, None, :]
        reported[:, d + 1 :] += added.reshape(len(summaries), d * d)
    return reported


def whole_counts(weights: Array, rows: Array) -> Array:
    """Share rows out over codes by weight, in whole numbers, largest remainders first.

    Examples
    --------
    >>> whole_counts(np.array([[0.25, 0.75]]), np.array([5.0]))
    array([[1., 4.]])
    """
    total = weights.sum(axis=-1, keepdims=True)
    exact = np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1 / weights.shape[-1]) * rows[:, None]
    counts = np.floor(exact + 1e-9)
    left = np.round(rows - counts.sum(axis=-1))
    rank = np.argsort(np.argsort(counts - exact, axis=-1, kind="stable"), axis=-1, kind="stable")
    return np.asarray(counts + (rank < left[:, None]))


def _draw_rows(rng: Generator, counts: Array, kept: Array) -> Array:
    """Draw so many of the counted rows without replacement."""
    left, wanted = counts.astype(np.int64), kept.astype(np.int64)
    drawn = np.zeros_like(left)
    remaining = left.sum(axis=-1)
    for code in range(left.shape[-1]):
        others: NDArray[np.int64] = remaining - left[:, code]
        drawn[:, code] = rng.hypergeometric(left[:, code], others, wanted)
        wanted, remaining = wanted - drawn[:, code], others
    return drawn.astype(np.float64)
