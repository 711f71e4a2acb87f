"""How far providers may differ: a grid of spreads, from none at all to more than anybody would believe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from troth.core.contract import Array, Generator
from troth.models.family import Family
from troth.models.numerics.log_sum_exp import log_sum_exp
from troth.models.parameters import Word, parameter

if TYPE_CHECKING:
    from troth.core.sensitivity import Peers

ALIKE = 0.2
"""Prior probability that providers do not differ at all."""

_NODES = 40
_WORDS = {"little": 0.1, "some": 0.3}  # the largest relative spread; "any" is up to the family


def how_far(most: str) -> Any:
    """Return the metadata of the parameter ``differ``, with what the largest spread is in words."""
    return parameter(f"how far honest providers may differ; any means {most}", Word("little", "some", "any"), "any")


@dataclass(frozen=True)
class VaryingProviders(Family):
    """A family in which each provider has its own parameter around a common one, with an unknown spread.

    The spread τ is 0 with probability 0.2, and otherwise one of forty values, equally likely and equally far apart on a
    log scale. Everything is integrated over it, so a round learns it from its own reports.
    """

    independent_rows: ClassVar[bool] = False
    smallest_spread: ClassVar[float]
    largest_spread: ClassVar[float]

    @property
    def _spreads(self) -> Array:
        """The spreads that are possible, 0 first."""
        largest = _WORDS.get(getattr(self, "differ"), self.largest_spread)  # noqa: B009 (each family declares it last)
        return np.concatenate([[0.0], np.geomspace(self.smallest_spread, largest, _NODES)])

    def _evidence_by_spread(self, statistics: Array, /) -> Array:
        """Log evidence given each spread, ``(..., spread)``, the prior of the spread included."""
        raise NotImplementedError

    def log_evidence(self, statistics: Array, /) -> Array:
        """Ln Σ p(spread) · evidence given the spread."""
        return log_sum_exp(self._evidence_by_spread(np.asarray(statistics, dtype=np.float64)))

    def statistics(self, data: Any, /) -> Array:
        """Numbers that add over providers, of the rows along the last axis."""
        return self.from_summary(self.summary(data))

    def expected_log_evidence(self, _: Array, /) -> None:
        """No exact sum: two providers' rows are not one provider's, so designs do not add."""
        return

    def _draw_spread(self, rng: Generator, shape: tuple[int, ...]) -> Array:
        return rng.choice(self._spreads, p=np.exp(LOG_PRIOR), size=shape)

    def _draw_spread_index(self, rng: Generator, statistics: Array) -> Any:
        """Draw the place of a spread given statistics."""
        weights = self._evidence_by_spread(statistics)
        chances = np.exp(weights - log_sum_exp(weights)[..., None])
        below = np.cumsum(chances, axis=-1) < rng.random((*chances.shape[:-1], 1)) * chances.sum(axis=-1, keepdims=True)
        return below.sum(axis=-1)


LOG_PRIOR: Array = np.log(np.concatenate([[ALIKE], np.full(_NODES, (1 - ALIKE) / _NODES)]))
