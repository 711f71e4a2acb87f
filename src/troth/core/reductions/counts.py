"""The reduction that counts labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from troth.core.errors import DataError
from troth.core.reductions.reduction import Reduction, SummaryDescription
from troth.core.support import Array, Bounds, Support

_MAX_SHOWN = 6  # labels whose shares are described
_MAX_WITHOUT_REPLACEMENT = 1_000_000_000  # rows; the limit of NumPy


@dataclass(frozen=True)
class Counts:
    """Reduction of one column of codes 0 … size−1 to their counts: z is the one-hot vector of a code.

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
        """The possible codes."""
        return Support(0, self.size - 1, integer=True)

    @property
    def width(self) -> int:
        """The length of a summary, and the number of labels: one for each code."""
        return self.size

    labels = width

    def rows(self, summary: Array, /) -> Array:
        """Return the number of rows: the sum of the counts."""
        return np.asarray(np.sum(summary, axis=-1), dtype=np.float64)

    def describe(self, summary: Array, labels: Sequence[str] | None = None, /) -> SummaryDescription | None:
        """Describe the rate of ones or the shares of labels; only the most frequent ones if there are many."""
        total = float(np.sum(summary))
        if total == 0:
            return None
        if self.size == 2:
            return SummaryDescription("rate" if labels is None else f"rate of {labels[1]}", f"{summary[1] / total:.0%}")
        names = range(self.size) if labels is None else labels
        codes = range(self.size) if self.size <= _MAX_SHOWN else np.argsort(-summary, kind="stable")[: _MAX_SHOWN // 2]
        noun = "label shares" if self.size <= _MAX_SHOWN else "most frequent labels"
        shares = ", ".join(f"{names[code]} ({summary[code] / total:.0%})" for code in codes)
        return SummaryDescription(noun, shares, plural=True)

    def magnitudes(self, summary: Array, /) -> Array:
        """Return no entries, because counts are always finite."""
        return summary[..., :0]

    def of_rows(self, table: Array, /) -> Array:
        """Count tables ``(..., row, 1)`` of codes."""
        *leading, rows, _ = table.shape
        tables = prod(leading)
        bins = table.reshape(tables, rows).astype(np.intp) + np.arange(tables)[:, None] * self.size
        counts = np.bincount(bins.ravel(), minlength=tables * self.size)
        return counts.reshape(*leading, self.size).astype(np.float64)

    def add(self, columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], size: int, /) -> Array:
        """Count a batch in one pass."""
        bins = codes * self.size
        bins += columns[0].astype(bins.dtype, copy=False)
        return np.bincount(bins, minlength=size * self.size).reshape(size, self.size).astype(np.float64)

    def with_fewer_rows(self, summary: Array, rows: int, rng: np.random.Generator, /) -> Array:
        """Return the counts of a random sample without replacement, or with replacement if there are 10⁹ rows or more.

        Examples
        --------
        >>> Counts(2).with_fewer_rows(np.array([7.0, 0.0]), 3, np.random.default_rng(1))
        array([3., 0.])
        """
        if summary.sum() >= _MAX_WITHOUT_REPLACEMENT:
            return rng.multinomial(rows, summary / summary.sum()).astype(np.float64)
        return rng.multivariate_hypergeometric(summary.astype(np.int64), rows, method="marginals").astype(np.float64)

    has_means = True

    def means(self, summaries: Array, /) -> Array:
        """Return the frequencies of the codes; 0 if there are no rows."""
        n = self.rows(summaries)[..., None]
        return np.asarray(np.divide(summaries, n, out=np.zeros_like(summaries), where=n > 0))

    def with_means(self, summaries: Array, target: Array, /) -> Array:
        """Return integer counts of the same number of rows, with frequencies as close to these as possible."""
        return apportion(np.maximum(target, 0.0), self.rows(summaries))

    def shifted(self, summaries: Array, by: Array, rng: np.random.Generator, /) -> Array:
        """Change the share of the last code by the last entry of ``by``.

        The number of rows that change is rounded up or down at random.
        """
        n, last, counts = self.rows(summaries), summaries[:, -1], summaries[:, :-1]
        moved = np.floor(abs(by[-1]) * n + rng.random(len(n)))
        if by[-1] >= 0:
            moved = np.minimum(moved, n - last)
            return np.column_stack([counts - self.thinned(counts, moved, rng), last + moved])
        moved = np.minimum(moved, last)
        weights = np.where(counts.sum(axis=-1, keepdims=True) > 0, counts, 1.0)
        return np.column_stack([counts + apportion(weights, moved), last - moved])

    def relabelled(self, summaries: Array, rows: Array, rng: np.random.Generator, /) -> Array:
        """Give ``rows`` rows, drawn without replacement, the next code; the first follows the last."""
        moved = self.thinned(summaries, rows, rng)
        return np.asarray(summaries - moved + np.roll(moved, 1, axis=-1))

    def thinned(self, summaries: Array, rows: Array, rng: np.random.Generator, /) -> Array:
        """Draw ``rows`` rows of each summary without replacement."""
        counts, missing = summaries.astype(np.int64), rows.astype(np.int64)
        drawn = np.zeros_like(counts)
        remaining = counts.sum(axis=-1)
        for code in range(counts.shape[-1]):
            later_codes: NDArray[np.int64] = remaining - counts[:, code]
            drawn[:, code] = rng.hypergeometric(counts[:, code], later_codes, missing)
            missing, remaining = missing - drawn[:, code], later_codes
        return drawn.astype(np.float64)

    def check(self, summary: Array, values: Bounds | None = None, constant: Collection[int] = (), /) -> None:
        """Raise an error for counts that are negative or not integers."""
        invalid = (summary < 0) | (summary != np.floor(summary))
        if invalid.any():
            code = int(np.argmax(invalid))
            raise DataError(f"the count of code {code} is {summary[code]:.12g}, not a whole number of at least 0")

    def expressions(self, columns: Sequence[Any], labels: Sequence[Any] | None = None, /) -> dict[str, Any]:
        """Count each label."""
        names = range(self.size) if labels is None else labels
        return {f"count_{code}": (columns[0] == label).sum().cast("float64") for code, label in enumerate(names)}

    def collect(self, rows: float, aggregates: Mapping[str, Any], /) -> Array:
        """Return the counts, which must add up to the number of rows."""
        counts = np.array([float(aggregates[f"count_{code}"] or 0) for code in range(self.size)])
        if counts.sum() != rows:
            raise DataError("some values are not codes of the model")
        return counts

    def convert(self, summary: Array, target: Reduction, /) -> Array:
        """Return the counts themselves, if ``target`` is the same reduction."""
        if target != self:
            raise DataError(f"the history has counts of {self.size} codes, but the model needs {target!r}")
        return np.asarray(summary, dtype=np.float64)


def apportion(weights: Array, rows: Array) -> Array:
    """Apportion rows to codes by weight, in integers, by the largest remainders.

    Examples
    --------
    >>> apportion(np.array([[0.25, 0.75]]), np.array([5.0]))
    array([[1., 4.]])
    """
    total = weights.sum(axis=-1, keepdims=True)
    exact = np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1 / weights.shape[-1]) * rows[:, None]
    counts = np.floor(exact + 1e-9)
    missing = np.round(rows - counts.sum(axis=-1))
    rank = np.argsort(np.argsort(counts - exact, axis=-1, kind="stable"), axis=-1, kind="stable")
    return np.asarray(counts + (rank < missing[:, None]))
