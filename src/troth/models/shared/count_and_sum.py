"""The base class of families of counts and positive numbers, whose statistic is (n, Σx)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from troth.core.contract import Array, Extremes, Generator, Mask
from troth.core.sensitivity import Peers
from troth.models.family import CompleteEvidence, ReducesRows
from troth.models.numerics.extremes import count_ladder, ray_extremes
from troth.models.numerics.possible_statistics import none_negative


@dataclass(frozen=True)
class CountAndSum(CompleteEvidence, ReducesRows):
    """A family whose statistic is (n, Σx), and whose log PMI is extreme at the bounds of the values."""

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI in a form that is accurate at any number of rows."""
        raise NotImplementedError

    def peer_order(self, statistics: Array, /) -> Array:
        """Return the sum."""
        return np.asarray(statistics, dtype=np.float64)[..., 1]

    possible_statistics: ClassVar[str] = "values of at least 0 have no sum below 0"

    def possible(self, statistics: Array, /) -> Mask:
        """Test that neither rows nor sum are negative."""
        return none_negative(np.asarray(statistics))

    def log_pmi_extremes(self, rows: int, peers: Peers, values: tuple[float, float] | None = None, /) -> Extremes:
        """Extremes over every report of up to ``rows`` rows within the declared values."""
        peer_rows = sum(count for _, count in self._in_one_space(peers))
        ends = self._declared(values)
        return Extremes(*ray_extremes(self.log_pmi, (count_ladder(rows), *ends), (count_ladder(peer_rows), *ends)))


def draw_poisson(rng: Generator, mean: Array) -> Array:
    """Draw from Poisson distributions; for means above 1e15, by the normal limit."""
    large = mean > 1e15
    small = np.asarray(rng.poisson(np.where(large, 0.0, mean)), dtype=np.float64)
    if not large.any():
        return small
    return np.where(large, np.floor(mean + np.sqrt(mean) * rng.standard_normal(np.shape(mean))), small)
