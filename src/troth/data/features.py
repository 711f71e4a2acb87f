"""The features of each report's rows, all or a random sample of them, with which decoys are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from troth.core.support import Array
    from troth.data.request import Key

MOST_NUMBERS = 1 << 16
"""The most numbers that are kept of one report, if `ENOUGH_ROWS` rows fit."""

ENOUGH_ROWS = 512
"""How many rows of a report are kept however many features they have, within `MOST_IN_ALL`."""

MOST_IN_ALL = 1 << 22
"""The most numbers that are kept of all reports together."""

_FEWEST = 2  # rows of a sample for each feature, below which it says too little of the rest


@dataclass(frozen=True)
class Sample:
    """The features of rows whose rank is at least ``level``: every row has rank r or more with a chance of 2⁻ʳ."""

    rows: Array
    ranks: NDArray[np.integer]
    level: int = 0

    def thinned(self, most: int) -> Sample:
        """Return the sample with at most ``most`` rows."""
        level = self.level
        while (self.ranks >= level).sum() > most:
            level += 1
        return self.from_level(level)

    def from_level(self, level: int) -> Sample:
        """Return the rows of this rank or more."""
        stay = self.ranks >= level
        return Sample(self.rows[stay], self.ranks[stay], level)

    def join(self, other: Sample) -> Sample:
        """Return both samples together, at the higher level."""
        level = max(self.level, other.level)
        both = self.from_level(level), other.from_level(level)
        rows, ranks = np.concatenate([s.rows for s in both]), np.concatenate([s.ranks for s in both])
        return Sample(rows, ranks, level)


class FeatureSampler:
    """Samples the features of reports, numbered 0, 1, …, in bounded memory."""

    def __init__(self, features: int) -> None:
        self._features = features
        self._levels = np.zeros(16, dtype=np.int64)
        self._reports = 0
        self._batches: list[tuple[Array, NDArray[np.integer], NDArray[np.intp]]] = []

    def add(self, reports: NDArray[np.intp], columns: Sequence[NDArray[Any]], numbers: NDArray[np.integer]) -> None:
        """Add rows: the report of each, its features by column, and its number in its file."""
        self._reports = max(self._reports, int(reports.max()) + 1)
        while self._reports > len(self._levels):
            self._levels = np.concatenate([self._levels, np.zeros_like(self._levels)])
        ranks = row_ranks(numbers)
        sampled = np.flatnonzero(ranks >= self._levels[reports])
        values = np.empty((len(columns), len(sampled)))
        for row, column in zip(values, columns, strict=True):
            row[:] = column[sampled] if len(sampled) < len(column) else column
        self._batches.append((values, ranks[sampled], reports[sampled]))
        if sum(part[0].size for part in self._batches) > 2 * MOST_IN_ALL:
            self._thin()

    def _thin(self) -> None:
        """Keep the rows of the highest rank of each report, as many as that number of reports allows."""
        most = most_rows(self._features, self._reports)
        values, ranks, reports = (np.concatenate(parts, axis=-1) for parts in zip(*self._batches, strict=True))
        order = np.lexsort((-ranks, reports))
        ranks, reports = ranks[order], reports[order]
        starts = np.searchsorted(reports, np.arange(self._reports + 1))
        crowded = np.flatnonzero(np.diff(starts) > most)
        self._levels[crowded] = ranks[starts[crowded] + most] + 1
        stay = ranks >= self._levels[reports]
        self._batches = [(values[:, order[stay]], ranks[stay], reports[stay])]

    def samples(self) -> dict[int, Sample]:
        """Return the sample of each report."""
        if not self._batches:
            return {}
        self._thin()
        values, ranks, reports = self._batches[0]
        ends = np.searchsorted(reports, np.arange(self._reports + 1)).tolist()
        parts = [slice(*pair) for pair in pairwise(ends)]
        return {k: Sample(values[:, part].T, ranks[part], int(self._levels[k])) for k, part in enumerate(parts)}


def row_ranks(numbers: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the rank of rows by their number: how many zeros a mixture of its bits ends in.

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


def most_rows(features: int, reports: int) -> int:
    """Return how many rows of each report are kept, given the number of reports."""
    features = max(1, features)
    return min(max(MOST_NUMBERS // features, ENOUGH_ROWS), MOST_IN_ALL // max(1, reports) // features)


def join_samples(known: dict[Key, Sample], more: Mapping[Key, Sample]) -> None:
    """Add the samples of another part of the data."""
    for key, sample in more.items():
        joined = sample if key not in known else known[key].join(sample)
        known[key] = joined.thinned(most_rows(sample.rows.shape[1], 1))


def kept_features(sample: Sample | None, rows: int, reports: int) -> Array | None:
    """Return the features of a report with ``rows`` rows, sorted; None where too few of them could be kept."""
    if sample is None:
        return None
    features = sample.rows.shape[1]
    z = sample.thinned(most_rows(features, reports)).rows
    if len(z) < min(rows, _FEWEST * features):
        return None
    return np.ascontiguousarray(z[np.lexsort(z.T[::-1])])
