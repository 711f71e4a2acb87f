"""The reduction of features and an answer with the log-likelihood expanded at several points."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from troth.core.errors import DataError
from troth.core.reductions.answer_likelihoods import Answer
from troth.core.reductions.expansion import AddsAnswers, Expansion
from troth.core.reductions.reduction import Reduction, SummaryDescription
from troth.core.reductions.sorted_columns import Block
from troth.core.reductions.sums import SLACK
from troth.core.support import Array, Bounds


@dataclass(frozen=True)
class Expansions(AddsAnswers):
    """Reduction of rows (z, y) to n and, for each point, ℓ = Σ log-likelihood, s = Σ z(y − μ) and halves of H = Σ zzᵀW.

    Attributes
    ----------
    answer
        The likelihood of an answer given its linear predictors.
    points
        The coefficients of each point.

    Examples
    --------
    >>> from troth.core.reductions.answer_likelihoods import YesNo
    >>> Expansions(YesNo(), ((0.0,), (1.0,))).of_rows(np.array([[2.0, 1.0], [1.0, 0.0]])).round(3)
    array([ 2.   , -1.386,  0.5  ,  1.25 , -1.44 , -0.493,  0.617])
    """

    answer: Answer
    points: tuple[tuple[float, ...], ...]

    @cached_property
    def expansions(self) -> tuple[Expansion, ...]:
        """The expansion at each point."""
        return tuple(Expansion(self.answer, point) for point in self.points)

    def describe(self, summary: Array, labels: Sequence[str] | None = None, /) -> SummaryDescription | None:
        """Describe the candidate that explains the rows best, with the average probability of their labels."""
        if summary[0] == 0:
            return None
        best = int(np.argmax(self.by_point(np.asarray(summary, dtype=np.float64))[:, 0]))
        fit = self.expansions[best].describe(self._parts(summary)[best], labels)
        probability = "" if fit is None else f", with label probability {fit.value}"
        return SummaryDescription("best candidate", f"number {best + 1}{probability}")

    def by_point(self, summary: Array, /) -> Array:
        """Return ℓ, the slope and halves of H at each point, ``(..., point, number)``."""
        return np.asarray(summary[..., 1:]).reshape(*summary.shape[:-1], len(self.points), -1)

    def _parts(self, summary: Array) -> list[Array]:
        """Return the summary of each expansion."""
        parts = self.by_point(np.asarray(summary, dtype=np.float64))
        return [np.concatenate([summary[..., :1], parts[..., k, :]], axis=-1) for k in range(len(self.points))]

    def _joined(self, parts: Sequence[Array]) -> Array:
        return np.concatenate([parts[0][..., :1], *(part[..., 1:] for part in parts)], axis=-1)

    def magnitudes(self, summary: Array, /) -> Array:
        """Return the magnitudes of each expansion."""
        parts = zip(self.expansions, self._parts(summary), strict=True)
        return np.concatenate([expansion.magnitudes(part) for expansion, part in parts], axis=-1)

    def summaries(self, block: Block) -> Array:
        """Return the summary of each code."""
        return self._joined([expansion.summaries(block._replace(z=block.z.copy())) for expansion in self.expansions])

    def of_datasets(self, z: Array, y: Array, /) -> Array:
        """Reduce datasets ``(..., row, feature)`` with answers ``(..., row)``."""
        return self._joined([expansion.of_datasets(z, y) for expansion in self.expansions])

    def check(self, summary: Array, values: Bounds | None = None, constant: Collection[int] = (), /) -> None:
        """Raise an error for a summary that no data can have.

        Each expansion must be possible. As the log-likelihood is concave, its value at one point cannot lie above the
        tangent at another.
        """
        for expansion, part in zip(self.expansions, self._parts(summary), strict=True):
            expansion.check(part, values, constant)
        likelihood, points = self.by_point(summary), np.array(self.points)
        t, slope = likelihood[:, 0], likelihood[:, 1 : 1 + points.shape[1]]
        above = t[None] - (t[:, None] + slope @ points.T - (slope * points).sum(axis=1)[:, None])
        slack = SLACK * (1 + np.abs(t).max() + np.abs(slope).max() * np.abs(points).max())
        if above.max() > slack:
            point, other = np.unravel_index(int(above.argmax()), above.shape)[::-1]
            raise DataError(
                f"the log-likelihood under candidate {point + 1} lies above the tangent at candidate {other + 1}: "
                "no data have such sums"
            )

    def expressions(self, columns: Sequence[Any], labels: Sequence[Any] | None = None, /) -> dict[str, Any]:
        """Return the aggregates of each expansion, with the point in their names."""
        return {
            f"{name}_at_{k}": sums
            for k, expansion in enumerate(self.expansions)
            for name, sums in expansion.expressions(columns, labels).items()
        }

    def collect(self, rows: float, aggregates: Mapping[str, Any], /) -> Array:
        """Return the summary from the aggregates of all expansions."""
        parts = [expansion.collect(rows, _select(aggregates, k)) for k, expansion in enumerate(self.expansions)]
        return self._joined(parts)

    def convert(self, summary: Array, target: Reduction, /) -> Array:
        """Return the summary itself, if ``target`` is the same reduction."""
        if target != self:
            raise DataError("the history was read for other candidates: read its rows again")
        return np.asarray(summary, dtype=np.float64)


def _select(aggregates: Mapping[str, Any], point: int) -> dict[str, Any]:
    """Return the aggregates of one point, without the point in their names."""
    suffix = f"_at_{point}"
    return {name.removesuffix(suffix): value for name, value in aggregates.items() if name.endswith(suffix)}
