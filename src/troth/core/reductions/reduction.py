"""The contract of a reduction: what an engine needs from it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from troth.core.support import Array, Bounds, Support


@runtime_checkable
class Reduction(Protocol):
    """What is done to rows: how to add a batch, check a summary, count its rows and push the work down to SQL."""

    @property
    def columns(self) -> int:
        """How many columns a row has."""

    @property
    def width(self) -> int:
        """How many numbers a summary has."""

    @property
    def support(self) -> Support:
        """The values that an entry of a row may take."""

    @property
    def labels(self) -> int | None:
        """How many different codes a column holds, or None if it holds numbers."""

    @property
    def batch_columns(self) -> int:
        """How many columns of a batch are multiplied with each other, 1 where they are only counted or added."""

    def of_rows(self, table: Array, /) -> Array:
        """Reduce a table ``(row, column)`` to a summary, and simulated ones ``(..., row, column)`` at once."""

    def add(self, columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], size: int, /) -> Array:
        """Reduce a batch by code: ``(size, width)`` summaries of rows that belong to codes 0 … size−1."""

    def rows(self, summary: Array, /) -> Array:
        """Count the rows behind a summary."""

    def magnitudes(self, summary: Array, /) -> Array:
        """Return the entries that show whether any value was not finite, or too large to add up."""

    def check(self, summary: Array, values: Bounds | None = None, constant: Collection[int] = (), /) -> None:
        """Refuse a summary that no data can have; declared values bound all columns but constant ones, which are 1."""

    def expressions(self, columns: Sequence[Any], labels: Sequence[Any] | None = None, /) -> dict[str, Any]:
        """Return Ibis aggregates of columns, by name; ``labels`` are what the codes 0, 1, … are called in the table."""

    def collect(self, rows: float, aggregates: Mapping[str, Any], /) -> Array:
        """Return the summary of ``rows`` rows from the values of those aggregates."""

    def convert(self, summary: Array, wanted: Reduction, /) -> Array:
        """Return what ``wanted`` would have made of the same rows.

        Raises `DataError` if it cannot be known, such as squares that were never added up.
        """


@runtime_checkable
class AddsInParts(Protocol):
    """A reduction with summaries so wide that those of a batch are better made and added a few at a time."""

    def add_in_parts(
        self, columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], size: int, /
    ) -> Iterator[tuple[NDArray[np.intp], Array]]:
        """Yield codes that have rows, and the summaries that `Reduction.add` has for them."""


class SummaryWords(NamedTuple):
    """What a summary is called and how large it is, such as "rate" and "57%"; ``plural`` says that it takes "are"."""

    noun: str
    value: str
    plural: bool = False


@runtime_checkable
class DescribesSummary(Protocol):
    """A reduction that can say in words what a summary is."""

    def in_words(self, summary: Array, labels: Sequence[str] | None = None, /) -> SummaryWords | None:
        """Return what a summary is called and how large it is, or None if there is nothing to say."""


@runtime_checkable
class FitsCoefficients(Protocol):
    """A reduction of features and answers whose sums tell which coefficients fit the rows."""

    def rows(self, summary: Array, /) -> Array:
        """Return n."""

    @property
    def predicts(self) -> str:
        """What a linear predictor is, such as "log-odds of {}" with the answer's name; empty if there are several."""

    def coefficients(self, summary: Array, /) -> Array:
        """Return the coefficients that fit best, or nearly, without any prior; NaN if the rows do not tell them all."""


@runtime_checkable
class TakesFewerRows(Protocol):
    """A reduction whose summaries of whole labels or whole numbers cannot be scaled down to fewer rows."""

    def fewer(self, summary: Array, rows: int, rng: np.random.Generator, /) -> Array:
        """Return a summary of fewer rows that could be sent, with the same averages in expectation."""


def counted_labels(reduction: Reduction) -> int | None:
    """Return how many labels a summary counts, or None if it adds up numbers, or what explains a label."""
    return None if isinstance(reduction, HasTarget) else reduction.labels


@runtime_checkable
class ThinsRows(Protocol):
    """A reduction that knows what a summary would be if rows were withheld."""

    def thinned(self, summaries: Array, rows: Array, rng: np.random.Generator, /) -> Array:
        """Return summaries ``(report, entry)`` of ``rows`` of their rows, ``(report,)``, picked at random."""


@runtime_checkable
class ChangesMeans(Protocol):
    """A reduction whose summaries tell frequencies of codes or means of columns, and what other ones would be."""

    @property
    def has_means(self) -> bool:
        """Whether this one tells them."""

    def means(self, summaries: Array, /) -> Array:
        """Return the frequencies or means, ``(..., code or column)``."""

    def with_means(self, summaries: Array, wanted: Array, /) -> Array:
        """Return summaries ``(report, entry)`` of as many rows with other means, as close as the support allows."""

    def shifted(self, summaries: Array, by: Array, rng: np.random.Generator, /) -> Array:
        """Return summaries whose values are larger ``by`` a number, ``(code or column,)``."""


@runtime_checkable
class ChangesLabels(Protocol):
    """A reduction that counts labels."""

    def relabelled(self, summaries: Array, rows: Array, rng: np.random.Generator, /) -> Array:
        """Return summaries ``(report, entry)`` in which ``rows`` rows have the next label."""


@runtime_checkable
class ScalesAnswers(Protocol):
    """A reduction of rows whose last column is an answer to the others."""

    @property
    def has_answers(self) -> bool:
        """Whether this one has such rows."""

    def with_scaled_answers(self, summaries: Array, factor: float, /) -> Array:
        """Return the summaries of the same rows with their answers multiplied."""


@runtime_checkable
class HasHistoryReduction(Protocol):
    """A reduction that adds up more of past days than a payment needs, so that more can be learnt from them."""

    def of_history(self) -> Reduction:
        """Return the reduction of past days."""


@runtime_checkable
class HasTarget(Protocol):
    """A reduction whose last column, the answer, has values of its own, which may be labels."""

    @property
    def target_support(self) -> Support:
        """The values of an answer."""
