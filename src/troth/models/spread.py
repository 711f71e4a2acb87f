"""Providers that differ by an unknown amount: what the families have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from troth.core.contract import Array, Generator
from troth.models.family import ReducesRows
from troth.models.numerics.possible import agree, everywhere
from troth.models.numerics.spread_grid import ALIKE
from troth.models.parameters import Word, parameter

_LARGEST = {"little": 0.1, "some": 0.3}  # "any" is up to the family


def how_far(most: str) -> Any:
    """Return the metadata of the parameter ``differ``, with what the largest spread is in words."""
    meaning = f"how far honest providers may differ: little, some or any; any means {most}"
    return parameter(meaning, Word(*_LARGEST, "any"), "any")


@dataclass(frozen=True)
class VaryingProviders(ReducesRows):
    """A family in which each provider has its own parameter around a common one, with an unknown spread.

    θ is the common parameter and the spread. The spread is 0 with probability 0.1; otherwise it lies anywhere between
    the smallest that is told from 0 and the largest that ``differ`` allows, each factor being equally likely. Λ
    integrates over it, so that a round learns it from its own reports. A subclass says what adds over providers.

    Ten providers with a hundred rows leave a spread open by a third. A prior that expects spreads far below what
    real providers show takes honest differences for luck and pays too much for large reports: sending every row twice
    then gains. So the smallest is not much below what matters, and 0 stands for everything under it.
    """

    independent_rows: ClassVar[bool] = False
    evidence_cost: ClassVar[int] = 60
    smallest_spread: ClassVar[float]
    largest_spread: ClassVar[float]

    @property
    def differ(self) -> str:
        """How far providers may differ, "little", "some" or "any": a parameter of each family, after its others."""
        raise NotImplementedError

    @property
    def _spreads(self) -> tuple[float, float]:
        """The smallest and the largest spread."""
        largest = _LARGEST.get(self.differ, self.largest_spread)
        return min(self.smallest_spread, largest / 10), largest

    possible_statistics: ClassVar[str] = "statistics are what the model makes of the sums that they begin with"

    def possible(self, statistics: Array, /) -> NDArray[np.bool_]:
        """Return where a statistic is that of the sums which it carries, and these are possible."""
        t = np.asarray(statistics, dtype=np.float64)
        with np.errstate(all="ignore"):
            recomputed, valid = self._recomputed(t)
            return valid & agree(t, recomputed)

    def _recomputed(self, statistics: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return statistics computed anew from the sums that they carry, and where data can have such sums."""
        return statistics, everywhere(statistics)

    def expected_log_evidence(self, _: Array, /) -> None:
        """No exact sum: two providers' rows are not one provider's, so designs do not add."""
        return

    def _draw_spread(self, rng: Generator, shape: tuple[int, ...]) -> Array:
        low, high = np.log(self._spreads)
        uniform, alike = rng.random(shape), rng.random(shape) < ALIKE
        return np.where(alike, 0.0, np.exp(low + (high - low) * uniform))
