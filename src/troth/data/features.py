"""Features of providers' rows, all or a random sample of them: what decoys are drawn with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from troth.core.support import Array
    from troth.data.request import Key

MOST_NUMBERS = 1 << 16
"""The most numbers that are kept of one report."""

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
        """Return the sample with at most so many rows."""
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
        one, two = self.from_level(level), other.from_level(level)
        return Sample(np.concatenate([one.rows, two.rows]), np.concatenate([one.ranks, two.ranks]), level)


class Keeper:
    """Keeps the features of reports, numbered 0, 1, …, within bounded memory."""

    def __init__(self, features: int) -> None:
        self.most = most_rows(features, 1)
        self.samples: dict[int, Sample] = {}
        self._levels = np.zeros(16, dtype=np.int64)

    def add(self, reports: NDArray[np.intp], columns: Sequence[NDArray[Any]], numbers: NDArray[np.integer]) -> None:
        """Add rows: the report of each, its features by column, and its number in its file."""
        while reports.max() >= len(self._levels):
            self._levels = np.concatenate([self._levels, np.zeros_like(self._levels)])
        ranks = row_ranks(numbers)
        some = np.flatnonzero(ranks >= self._levels[reports])
        some = some[np.argsort(reports[some], kind="stable")]
        rows = np.column_stack([column[some] for column in columns]).astype(np.float64)
        starts = np.flatnonzero(np.diff(reports[some], prepend=-1))
        for start, stop in zip(starts, [*starts[1:], len(some)], strict=True):
            report = int(reports[some[start]])
            fresh = Sample(rows[start:stop], ranks[some[start:stop]], int(self._levels[report]))
            known = self.samples.get(report)
            self.samples[report] = (fresh if known is None else known.join(fresh)).thinned(self.most)
            self._levels[report] = self.samples[report].level


def row_ranks(numbers: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the rank of rows by their number: how many zeros a mixture of its bits ends in.

    Examples
    --------
    >>> ranks = row_ranks(np.arange(4096))
    >>> [int((ranks >= level).sum()) // 100 for level in range(4)]
    [40, 20, 10, 5]
    """
    x = np.asarray(numbers).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    x ^= x >> np.uint64(31)
    return np.bitwise_count(~x & (x - np.uint64(1))).astype(np.int64)


def most_rows(features: int, reports: int) -> int:
    """Return how many rows are kept of each of so many reports."""
    return min(MOST_NUMBERS, MOST_IN_ALL // max(1, reports)) // max(1, features)


def join_samples(known: dict[Key, Sample], more: Mapping[Key, Sample]) -> None:
    """Add the samples of another part of the data."""
    for key, sample in more.items():
        joined = sample if key not in known else known[key].join(sample)
        known[key] = joined.thinned(most_rows(sample.rows.shape[1], 1))


def kept_features(sample: Sample | None, rows: int, reports: int) -> Array | None:
    """Return the features of a report of so many rows, sorted; None where too few of them could be kept."""
    if sample is None:
        return None
    features = sample.rows.shape[1]
    z = sample.thinned(most_rows(features, reports)).rows
    if len(z) < min(rows, _FEWEST * features):
        return None
    return np.ascontiguousarray(z[np.lexsort(z.T[::-1])])
