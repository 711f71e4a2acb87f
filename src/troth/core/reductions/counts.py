"""Labels are counted."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import DataError
from troth.core.reductions.reduction import SummaryWords
from troth.core.reductions.whole_rows import draw_rows, move_to_last, whole_counts
from troth.core.support import Array, Bounds, Support

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from troth.core.reductions.reduction import Reduction

_SHOWN = 6  # labels whose shares are said in words
_MOST_DRAWN_WITHOUT_REPLACEMENT = 1_000_000_000  # rows, which NumPy allows


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
        """One number for each code."""
        return self.size

    @property
    def labels(self) -> int | None:
        """One label for each code."""
        return self.size

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
        what = "label shares" if self.size <= _SHOWN else "most frequent labels"
        shares = ", ".join(f"{names[code]} ({summary[code] / total:.0%})" for code in codes)
        return SummaryWords(what, shares, plural=True)

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
        """Return the counts of some of the rows, drawn without replacement, or with it from a thousand million.

        Examples
        --------
        >>> Counts(2).fewer(np.array([7.0, 0.0]), 3, np.random.default_rng(1))
        array([3., 0.])
        """
        if summary.sum() >= _MOST_DRAWN_WITHOUT_REPLACEMENT:
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
        """Change the share of the last code by the last of ``by``."""
        return move_to_last(rng, summaries, by[-1])

    def relabelled(self, summaries: Array, rows: Array, rng: np.random.Generator, /) -> Array:
        """Give ``rows`` rows, drawn without replacement, the next code; after the last comes the first."""
        moved = draw_rows(rng, summaries, rows)
        return np.asarray(summaries - moved + np.roll(moved, 1, axis=-1))

    def thinned(self, summaries: Array, rows: Array, rng: np.random.Generator, /) -> Array:
        """Draw ``rows`` rows of each summary without replacement."""
        return draw_rows(rng, summaries, rows)

    def check(
        self,
        summary: Array,
        values: Bounds | None = None,  # noqa: ARG002
        constant: Collection[int] = (),  # noqa: ARG002
        /,
    ) -> None:
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
            raise DataError(f"the history has counts of {self.size} codes, but the model wants {wanted!r}")
        return np.asarray(summary, dtype=np.float64)
