"""Labels are counted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from troth.core.errors import DataError
from troth.core.reductions.reduction import Reduction, SummaryWords
from troth.core.support import Array, Bounds, Support

_SHOWN = 6  # labels whose shares are said in words
_MAX_WITHOUT_REPLACEMENT = 1_000_000_000  # rows, which NumPy allows


@dataclass(frozen=True)
class Counts:
    """One column of codes 0 … size−1 is counted by code: z is its one-hot vector.

    Examples
    --------
    >>> Counts(3).of_rows(np.array([[0.0], [2.0], [2.0]]))
    array([1., 0., 2.])
    """

    size: int

    columns = 1
    batch_columns = 1

    @property
    def support(self) -> Support:
        """The codes."""
        return Support(0, self.size - 1, integer=True)

    @property
    def width(self) -> int:
        """One number, and one label, for each code."""
        return self.size

    labels = width

    def rows(self, summary: Array, /) -> Array:
        """Count the rows: the sum of the counts."""
        return np.asarray(np.sum(summary, axis=-1), dtype=np.float64)

    def in_words(self, summary: Array, labels: Sequence[str] | None = None, /) -> SummaryWords | None:
        """Return the rate of ones, or the shares of labels, of many labels the most frequent ones."""
        total = float(np.sum(summary))
        if total == 0:
            return None
        if self.size == 2:
            return SummaryWords("rate" if labels is None else f"rate of {labels[1]}", f"{summary[1] / total:.0%}")
        names = range(self.size) if labels is None else labels
        codes = range(self.size) if self.size <= _SHOWN else np.argsort(-summary, kind="stable")[: _SHOWN // 2]
        noun = "label shares" if self.size <= _SHOWN else "most frequent labels"
        shares = ", ".join(f"{names[code]} ({summary[code] / total:.0%})" for code in codes)
        return SummaryWords(noun, shares, plural=True)

    def magnitudes(self, summary: Array, /) -> Array:
        """Return nothing: no value can spoil a count."""
        return summary[..., :0]

    def of_rows(self, table: Array, /) -> Array:
        """Count tables ``(..., row, 1)`` of codes."""
        *leading, rows, _ = table.shape
        tables = prod(leading)
        places = table.reshape(tables, rows).astype(np.intp) + np.arange(tables)[:, None] * self.size
        counts = np.bincount(places.ravel(), minlength=tables * self.size)
        return counts.reshape(*leading, self.size).astype(np.float64)

    def add(self, columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], size: int, /) -> Array:
        """Count a batch in one pass."""
        cell = codes * self.size
        cell += columns[0].astype(cell.dtype, copy=False)
        return np.bincount(cell, minlength=size * self.size).reshape(size, self.size).astype(np.float64)

    def fewer(self, summary: Array, rows: int, rng: np.random.Generator, /) -> Array:
        """Return the counts of some of the rows, drawn without replacement, or with replacement from 10⁹ rows on.

        Examples
        --------
        >>> Counts(2).fewer(np.array([7.0, 0.0]), 3, np.random.default_rng(1))
        array([3., 0.])
        """
        if summary.sum() >= _MAX_WITHOUT_REPLACEMENT:
            return rng.multinomial(rows, summary / summary.sum()).astype(np.float64)
        return rng.multivariate_hypergeometric(summary.astype(np.int64), rows, method="marginals").astype(np.float64)

    has_means = True

    def means(self, summaries: Array, /) -> Array:
        """Return the frequencies of the codes, 0 where there are no rows."""
        n = self.rows(summaries)[..., None]
        return np.asarray(np.divide(summaries, n, out=np.zeros_like(summaries), where=n > 0))

    def with_means(self, summaries: Array, wanted: Array, /) -> Array:
        """Return whole counts of as many rows with these frequencies, or close to them."""
        return whole_counts(np.maximum(wanted, 0.0), self.rows(summaries))

    def shifted(self, summaries: Array, by: Array, rng: np.random.Generator, /) -> Array:
        """Change the share of the last code by the last of ``by``: above 0 rows get it, below 0 rows lose it.

        Whole rows change: where the share is not a whole number of them, one more changes by lot.
        """
        n, last, counts = self.rows(summaries), summaries[:, -1], summaries[:, :-1]
        wanted = np.floor(abs(by[-1]) * n + rng.random(len(n)))
        if by[-1] >= 0:
            moved = np.minimum(wanted, n - last)
            return np.column_stack([counts - self.thinned(counts, moved, rng), last + moved])
        moved = np.minimum(wanted, last)
        weights = np.where(counts.sum(axis=-1, keepdims=True) > 0, counts, 1.0)
        return np.column_stack([counts + whole_counts(weights, moved), last - moved])

    def relabelled(self, summaries: Array, rows: Array, rng: np.random.Generator, /) -> Array:
        """Give ``rows`` rows, drawn without replacement, the next code; after the last comes the first."""
        moved = self.thinned(summaries, rows, rng)
        return np.asarray(summaries - moved + np.roll(moved, 1, axis=-1))

    def thinned(self, summaries: Array, rows: Array, rng: np.random.Generator, /) -> Array:
        """Draw ``rows`` rows of each summary without replacement."""
        left, missing = summaries.astype(np.int64), rows.astype(np.int64)
        drawn = np.zeros_like(left)
        remaining = left.sum(axis=-1)
        for code in range(left.shape[-1]):
            later_codes: NDArray[np.int64] = remaining - left[:, code]
            drawn[:, code] = rng.hypergeometric(left[:, code], later_codes, missing)
            missing, remaining = missing - drawn[:, code], later_codes
        return drawn.astype(np.float64)

    def check(self, summary: Array, values: Bounds | None = None, constant: Collection[int] = (), /) -> None:
        """Refuse counts that are negative or no whole numbers."""
        wrong = (summary < 0) | (summary != np.floor(summary))
        if wrong.any():
            code = int(np.argmax(wrong))
            raise DataError(f"the count of code {code} is {summary[code]:.12g}, not a whole number of at least 0")

    def expressions(self, columns: Sequence[Any], labels: Sequence[Any] | None = None, /) -> dict[str, Any]:
        """Count each label."""
        names = range(self.size) if labels is None else labels
        return {f"count_{code}": (columns[0] == label).sum().cast("float64") for code, label in enumerate(names)}

    def collect(self, rows: float, aggregates: Mapping[str, Any], /) -> Array:
        """Gather the counts, which must account for every row."""
        counts = np.array([float(aggregates[f"count_{code}"] or 0) for code in range(self.size)])
        if counts.sum() != rows:
            raise DataError("some values are not codes of the model")
        return counts

    def convert(self, summary: Array, wanted: Reduction, /) -> Array:
        """Return the counts, if those are wanted."""
        if wanted != self:
            raise DataError(f"the history has counts of {self.size} codes, but the model needs {wanted!r}")
        return np.asarray(summary, dtype=np.float64)


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
    missing = np.round(rows - counts.sum(axis=-1))
    rank = np.argsort(np.argsort(counts - exact, axis=-1, kind="stable"), axis=-1, kind="stable")
    return np.asarray(counts + (rank < missing[:, None]))
