"""Features of the rows of each report, all rows or a random sample; decoys are drawn with them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from troth.core.support import Array

MAX_VALUES_PER_REPORT = 1 << 16
"""The most values that are kept per report, as long as `MIN_SAMPLED_ROWS` rows fit."""

MIN_SAMPLED_ROWS = 512
"""How many rows of a report may be kept regardless of the number of features, within `MAX_VALUES`."""

MAX_VALUES = 1 << 22
"""The most values that are kept of all reports together."""

_MIN_ROWS_PER_FEATURE = 2  # smaller samples say too little about the other rows


class FeatureSampler:
    """Samples the features of reports, numbered 0, 1, …, in bounded memory.

    A row has a rank of at least r with probability 2⁻ʳ. If a report has too many rows, only rows whose rank reaches the
    report's level are kept, and the level is as low as possible. So the sample does not depend on how the rows are
    divided into parts.
    """

    def __init__(self, features: int) -> None:
        self._features = features
        self._levels = np.zeros(0, dtype=np.int64)
        self._batches: list[tuple[Array, NDArray[np.integer], NDArray[np.intp]]] = []

    def add(self, reports: NDArray[np.intp], columns: Sequence[NDArray[Any]], numbers: NDArray[np.integer]) -> None:
        """Add rows, given the report of each row, the features by column, and each row's number in its file."""
        self._make_room(int(reports.max()) + 1)
        ranks = row_ranks(numbers)
        sampled = np.flatnonzero(ranks >= self._levels[reports])
        values = np.empty((len(columns), len(sampled)))
        for row, column in zip(values, columns, strict=True):
            row[:] = column[sampled] if len(sampled) < len(column) else column
        self._batches.append((values, ranks[sampled], reports[sampled]))
        if sum(part[0].size for part in self._batches) > 2 * MAX_VALUES:
            self.thin()

    def join(self, other: FeatureSampler, indices: NDArray[np.intp]) -> None:
        """Add the sample of another part of the data; ``indices`` are the numbers of its reports here."""
        self._make_room(int(indices.max(initial=-1)) + 1)
        self._levels[indices] = np.maximum(self._levels[indices], other._levels)
        self._batches += [(values, ranks, indices[reports]) for values, ranks, reports in other._batches]
        if sum(part[0].size for part in self._batches) > 2 * MAX_VALUES:
            self.thin()

    def thin(self) -> None:
        """Keep the rows with the highest ranks of each report, at most `max_rows`."""
        if not self._batches:
            return
        limit = max_rows(self._features, len(self._levels))
        values, ranks, reports = (np.concatenate(parts, axis=-1) for parts in zip(*self._batches, strict=True))
        order = np.lexsort((-ranks, reports))
        ranks, reports = ranks[order], reports[order]
        starts = np.searchsorted(reports, np.arange(len(self._levels) + 1))
        crowded = np.flatnonzero(np.diff(starts) > limit)
        self._levels[crowded] = np.maximum(self._levels[crowded], ranks[starts[crowded] + limit] + 1)
        kept = ranks >= self._levels[reports]
        self._batches = [(values[:, order[kept]], ranks[kept], reports[kept])]

    def features(self, rows: Sequence[int]) -> list[Array | None]:
        """Return the sorted features of each report, given its number of rows; None if too few rows could be kept."""
        self.thin()
        values, _, reports = self._batches[0] if self._batches else np.zeros((3, 0))
        ends = np.searchsorted(reports, np.arange(len(rows) + 1)).tolist()
        samples = [values[:, slice(*pair)].T for pair in pairwise(ends)]
        return [
            np.ascontiguousarray(z[np.lexsort(z.T[::-1])])
            if len(z) >= min(n, _MIN_ROWS_PER_FEATURE * self._features)
            else None
            for z, n in zip(samples, rows, strict=True)
        ]

    def _make_room(self, reports: int) -> None:
        self._levels = np.pad(self._levels, (0, max(0, reports - len(self._levels))))


def row_ranks(numbers: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the ranks of rows: the number of trailing zeros in a hash of each row's number.

    Examples
    --------
    >>> ranks = row_ranks(np.arange(4096))
    >>> [round(float((ranks >= level).mean()), 1) for level in range(3)]
    [1.0, 0.5, 0.2]
    """
    x = np.asarray(numbers).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    x ^= x >> np.uint64(31)
    return np.bitwise_count(~x & (x - np.uint64(1))).astype(np.int64)


def max_rows(features: int, reports: int) -> int:
    """Return the most rows that are kept per report, given the number of reports."""
    features = max(1, features)
    return min(max(MAX_VALUES_PER_REPORT // features, MIN_SAMPLED_ROWS), MAX_VALUES // max(1, reports) // features)
