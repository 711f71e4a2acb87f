"""The contract of a reduction, and its optional capabilities."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from troth.core.support import Array, Bounds, Support


@runtime_checkable
class Reduction(Protocol):
    """A reduction: how to add a batch of rows, check a summary, count its rows and push the work down to SQL."""

    @property
    def columns(self) -> int:
        """The number of columns of a row."""

    @property
    def width(self) -> int:
        """The length of a summary."""

    @property
    def support(self) -> Support:
        """The possible values of an entry of a row."""

    @property
    def labels(self) -> int | None:
        """The number of different codes in a column, or None if it holds numbers."""

    @property
    def batch_columns(self) -> int:
        """The number of columns of a batch that are multiplied with each other; 1 if they are only added up."""

    def of_rows(self, table: Array, /) -> Array:
        """Return the summary of a table ``(row, column)``, or of a batch of simulated tables ``(..., row, column)``."""

    def add(self, columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], size: int, /) -> Array:
        """Return the summaries of a batch by code, ``(size, width)``, given the code 0 … size−1 of each row."""

    def rows(self, summary: Array, /) -> Array:
        """Return the number of rows behind a summary."""

    def magnitudes(self, summary: Array, /) -> Array:
        """Return the entries that reveal whether a value was not finite, or too large to add up."""

    def check(self, summary: Array, values: Bounds | None = None, constant: Collection[int] = (), /) -> None:
        """Raise an error for a summary that no data can have.

        ``values`` are declared bounds for all columns but the ``constant`` ones, which are 1.
        """

    def expressions(self, columns: Sequence[Any], labels: Sequence[Any] | None = None, /) -> dict[str, Any]:
        """Return Ibis aggregates of columns, by name; ``labels`` are the values of the codes 0, 1, … in the table."""

    def collect(self, rows: float, aggregates: Mapping[str, Any], /) -> Array:
        """Return the summary of ``rows`` rows from the values of these aggregates."""

    def convert(self, summary: Array, target: Reduction, /) -> Array:
        """Return the summary of the same rows by the reduction ``target``.

        Raises `DataError` if the summary does not determine it, for example if squares were never added up.
        """


@runtime_checkable
class AddsInParts(Protocol):
    """A reduction with wide summaries, of which it makes and adds only a few at a time."""

    def add_in_parts(
        self, columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], size: int, /
    ) -> Iterator[tuple[NDArray[np.intp], Array]]:
        """Yield the codes that have rows, and their summaries as in `Reduction.add`; a code may occur repeatedly."""


class SummaryDescription(NamedTuple):
    """A short description of a summary, such as "rate" and "57%"; if ``plural``, the noun takes "are"."""

    noun: str
    value: str
    plural: bool = False


@runtime_checkable
class DescribesSummary(Protocol):
    """A reduction that can describe a summary."""

    def describe(self, summary: Array, labels: Sequence[str] | None = None, /) -> SummaryDescription | None:
        """Describe a summary; return None if there is nothing to say."""


@runtime_checkable
class FitsCoefficients(Protocol):
    """A reduction of features and answers whose summary determines the best coefficients."""

    def rows(self, summary: Array, /) -> Array:
        """Return the number of rows."""

    @property
    def predicts(self) -> str:
        """What a linear predictor predicts, such as "log-odds of {}", with {} for the answer; empty if several."""

    def coefficients(self, summary: Array, /) -> Array:
        """Return coefficients that fit best, or nearly, without a prior; NaN if the rows do not determine them all."""


@runtime_checkable
class TakesFewerRows(Protocol):
    """A reduction whose summaries contain integers, so that they cannot simply be scaled down to fewer rows."""

    def with_fewer_rows(self, summary: Array, rows: int, rng: np.random.Generator, /) -> Array:
        """Return a valid summary of fewer rows, with the same means in expectation."""


def counted_labels(reduction: Reduction) -> int | None:
    """Return the number of labels that a summary counts, or None if it is not made of counts of labels."""
    return None if isinstance(reduction, HasTarget) else reduction.labels


@runtime_checkable
class ThinsRows(Protocol):
    """A reduction that can withhold rows from a summary."""

    def thinned(self, summaries: Array, rows: Array, rng: np.random.Generator, /) -> Array:
        """Return summaries ``(report, entry)`` of random samples of ``rows`` rows, ``(report,)``."""


@runtime_checkable
class ChangesMeans(Protocol):
    """A reduction whose summaries determine frequencies of codes or means of columns, which it can change."""

    @property
    def has_means(self) -> bool:
        """Whether summaries determine them."""

    def means(self, summaries: Array, /) -> Array:
        """Return the frequencies or means, ``(..., code or column)``."""

    def with_means(self, summaries: Array, target: Array, /) -> Array:
        """Return summaries ``(report, entry)`` with these means, or as close as the support allows."""

    def shifted(self, summaries: Array, by: Array, rng: np.random.Generator, /) -> Array:
        """Return summaries with means or frequencies increased ``by`` a number, ``(code or column,)``."""


@runtime_checkable
class ChangesLabels(Protocol):
    """A reduction that counts labels."""

    def relabelled(self, summaries: Array, rows: Array, rng: np.random.Generator, /) -> Array:
        """Return summaries ``(report, entry)`` in which ``rows`` rows, ``(report,)``, have the next label."""


@runtime_checkable
class ScalesAnswers(Protocol):
    """A reduction of rows whose last column is an answer to the others."""

    @property
    def has_answers(self) -> bool:
        """Whether the last column is an answer."""

    def with_scaled_answers(self, summaries: Array, factor: float, /) -> Array:
        """Return the summaries of the same rows with their answers multiplied by a factor."""


@runtime_checkable
class HasHistoryReduction(Protocol):
    """A reduction with an extended version for histories, because fits need more than payments do."""

    def for_history(self) -> Reduction:
        """Return the reduction for past days."""


@runtime_checkable
class HasTarget(Protocol):
    """A reduction whose last column, the answer, has its own support and may hold labels."""

    @property
    def target_support(self) -> Support:
        """The possible answers."""
