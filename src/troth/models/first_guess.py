"""First guesses of a family's hyper-parameters from columns of data, for new campaign files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, floor, log10
from typing import Any, Protocol, runtime_checkable

import numpy as np

from troth.core.contract import Array
from troth.core.errors import DataError
from troth.core.formats import few_digits

_MAX_LABELS = 50
_MIN_DISPERSION, _MAX_DISPERSION = 0.8, 2.5  # variance over mean of plausible counts
_MIN_ROWS = 20  # with fewer rows, all integers are plausible counts
_MIN_STANDARD_ERRORS = 2.0  # by which a variance must be too low for counts
_MIN_EXPECTED_ZEROS = 4.0  # from which a column without zeros is implausible
_MAX_MEAN = 10.0  # from which counts are nearly normal


@dataclass(frozen=True)
class Column:
    """The values of a column, text or numbers, and the report of each value."""

    name: str
    values: Sequence[Any]
    reports: Sequence[Any]

    @cached_property
    def has_text(self) -> bool:
        """Whether any value is text."""
        return any(isinstance(value, str) for value in self.values)

    @cached_property
    def numbers(self) -> Array:
        """The values as numbers."""
        if self.has_text:
            raise DataError(f"column {self.name!r} has text, but numbers are needed")
        return np.asarray(self.values, dtype=np.float64)

    @cached_property
    def variance_within(self) -> float:
        """The pooled variance of values within reports; of all values if each report has one row."""
        _, codes = np.unique([str(report) for report in self.reports], return_inverse=True)
        counts = np.bincount(codes)
        deviations = self.numbers - (np.bincount(codes, self.numbers) / counts)[codes]
        freedom = len(codes) - len(counts)
        return float((deviations**2).sum() / freedom) if freedom else float(self.numbers.var())

    @cached_property
    def labels(self) -> tuple[str, ...] | None:
        """The distinct texts, sorted; None if the values are codes 0, 1, …."""
        if not self.has_text:
            return None
        labels = tuple(sorted({str(value).strip() for value in self.values}))
        self._reject_many_labels(len(labels))
        return labels

    @cached_property
    def codes(self) -> int:
        """The number of labels or codes, at least 2."""
        if self.labels is not None:
            return max(2, len(self.labels))
        codes = int(self.numbers.max()) + 1
        self._reject_many_labels(codes)
        return max(2, codes)

    def _reject_many_labels(self, codes: int) -> None:
        if codes > _MAX_LABELS:
            raise DataError(f"column {self.name!r} has {codes} different labels; is it the column that is paid for?")


@dataclass(frozen=True)
class FirstGuess:
    """Hyper-parameters that a column suggests.

    Attributes
    ----------
    labels
        The labels of codes 0, 1, …, if the column has text.
    from_data
        Whether the prior was guessed from the data, although it should come from elsewhere.
    meanings, advice
        Sentences that replace the declared meanings of some hyper-parameters; and how to get better values.
    scales, levels
        Public centre and scale of each numeric column, and the public labels of each other column, for families that
        explain a column by others.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    labels: tuple[str, ...] | None = None
    from_data: bool = False
    meanings: Mapping[str, str] = field(default_factory=dict)
    advice: str = ""
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@runtime_checkable
class GuessesFromColumn(Protocol):
    """A family that can be guessed from a column of data; the first in the registry that suits is chosen."""

    def suits(self, column: Column, /) -> bool:
        """Return whether a column looks like data of this family."""

    def first_guess(self, column: Column, /) -> FirstGuess:
        """Return hyper-parameters for a column of data of this family."""


@runtime_checkable
class GuessesFromColumns(Protocol):
    """A family that can be guessed from a target and the columns that explain it; the first that suits is chosen."""

    def suits_target(self, target: Column, /) -> bool:
        """Return whether a column looks like answers of this family."""

    def first_guess_of(self, columns: Sequence[Column], target: Column, /) -> FirstGuess:
        """Return hyper-parameters, and the public scales and levels of the columns."""


@runtime_checkable
class GuessesFromVectors(Protocol):
    """A family of vectors that can be guessed from their columns."""

    def first_guess_of_vectors(self, columns: Sequence[Column], /) -> FirstGuess:
        """Return hyper-parameters for the columns of a vector."""


@runtime_checkable
class GuessesFromLabels(Protocol):
    """A family of tasks with a class each, which needs only the labels for a first guess; the first one is chosen."""

    def first_guess_of_labels(self, labels: int, /) -> FirstGuess:
        """Return hyper-parameters for one class per label, independent of the data, and their meanings."""


def answers_of(column: Column) -> str:
    """Return the kind of answers in a column: ``"yes or no"``, ``"labels"``, ``"counts"`` or ``"numbers"``.

    Examples
    --------
    >>> [answers_of(Column("", x, [0] * len(x))) for x in (["a", "b", "c"], [0, 1, 1], [0, 3, 1, 2], [0.5, 17])]
    ['labels', 'yes or no', 'counts', 'numbers']
    """
    if column.has_text:
        return "yes or no" if len(column.labels or ()) <= 2 else "labels"
    if np.isin(column.numbers, (0.0, 1.0)).all():
        return "yes or no"
    return "counts" if looks_like_counts(column) else "numbers"


def looks_like_counts(column: Column) -> bool:
    """Return whether values are non-negative integers with a small mean and a similar variance within reports.

    Values are not counts if their variance is clearly below their mean, or if there are no zeros although counts would
    have some, as on a scale from 1 to 5. Hourly wages of 22 ± 5 vary like counts but are not, and counts with a mean of
    10 or more are nearly normal: a family of values fits both.

    Examples
    --------
    >>> columns = ([1, 2, 3, 4, 5], [0, 0, 1, 2, 4], [18, 25, 31, 20, 26])
    >>> [looks_like_counts(Column("", x * 40, [0] * 200)) for x in columns]
    [False, True, False]
    """
    return is_whole(column) and bool(column.numbers.mean() < _MAX_MEAN) and not unlike_counts(column)


def is_whole(column: Column) -> bool:
    """Return whether all values are non-negative integers."""
    return not column.has_text and bool(((column.numbers >= 0) & (column.numbers % 1 == 0)).all())


def unlike_counts(column: Column) -> str:
    """Return why non-negative integers cannot be counts; an empty string if they can.

    Examples
    --------
    >>> unlike_counts(Column("", [0, 0, 0, 0, 15] * 40, [0] * 200))
    'vary far more than counts would (variance 36.2, mean 3)'
    """
    rows, mean = len(column.numbers), max(float(column.numbers.mean()), 1e-9)
    ratio = column.variance_within / mean
    too_regular = ratio < _MIN_DISPERSION and ratio < 1 - _MIN_STANDARD_ERRORS * np.sqrt(2 / rows)
    expected_zeros = rows * np.exp(-mean)
    no_zeros = column.numbers.min() > 0 and expected_zeros > _MIN_EXPECTED_ZEROS
    if rows < _MIN_ROWS or not (too_regular or no_zeros or ratio > _MAX_DISPERSION):
        return ""
    if no_zeros:
        return f"are never 0, as about {expected_zeros:.0f} of {rows:,} counts with this mean would be"
    comparison = "less" if too_regular else "far more"
    variance = few_digits(column.variance_within, 3)
    return f"vary {comparison} than counts would (variance {variance}, mean {few_digits(mean, 3)})"


def log_shares(column: Column) -> list[float]:
    """Return the log of each label's share, less their mean, to one decimal place."""
    labels: Sequence[Any] = column.labels or range(column.codes)
    values = [value.strip() if isinstance(value, str) else value for value in column.values]
    logs = np.log([values.count(label) + 0.5 for label in labels])
    return [float(np.round(x, 1)) + 0.0 for x in logs - logs.mean()]


def log_odds(column: Column) -> float:
    """Return the log odds of the last label, or of 1, to one decimal place."""
    if column.labels is None:
        share = column.numbers.mean()
    else:
        share = np.mean([str(value).strip() == column.labels[-1] for value in column.values])
    odds = (share * len(column.values) + 0.5) / ((1 - share) * len(column.values) + 0.5)
    return float(np.round(np.log(odds), 1)) + 0.0


def log_mean(column: Column) -> float:
    """Return the log of the mean, to one decimal place."""
    return float(np.round(np.log(max(float(column.numbers.mean()), 0.01)), 1)) + 0.0


def standardised(columns: Sequence[Column]) -> tuple[Array, dict[str, tuple[float, float]], dict[str, tuple[str, ...]]]:
    """Return features ``(row, feature)``, a constant first, with the scales of numbers and the levels of labels.

    The first level of a column is its most frequent label, which has no feature.
    """
    features, scales, levels = [np.ones(len(columns[0].values) if columns else 0)], {}, {}
    for column in columns:
        if column.has_text:
            if (count := len(set(column.values))) > _MAX_LABELS:
                raise DataError(
                    f"column {column.name!r} has {count} different labels, and each would need its own coefficient: "
                    "leave the column out (name the others with --column), or merge labels"
                )
            texts = np.array([str(value).strip() for value in column.values])
            counts = {label: int((texts == label).sum()) for label in column.labels or ()}
            first = max(counts, key=lambda label: counts[label])
            levels[column.name] = (first, *(label for label in counts if label != first))
            features += [(texts == label).astype(np.float64) for label in levels[column.name][1:]]
        else:
            scales[column.name] = centre, scale = rounded_scale(column.numbers)
            features.append((column.numbers - centre) / scale)
    return np.column_stack(features), scales, levels


def rounded_scale(x: Array) -> tuple[float, float]:
    """Return a centre and a scale of values, with few digits.

    Examples
    --------
    >>> rounded_scale(np.array([101.3, 148.0, 210.5]))
    (150.0, 50.0)
    """
    scale = round_up(float(x.std())) or 1.0
    unit = 10.0 ** floor(log10(scale))
    return float(f"{round(float(x.mean()) / unit) * unit:.12g}"), scale


def round_up(x: float) -> float:
    """Round up to one significant digit; numbers below 0 become 0.

    Examples
    --------
    >>> round_up(0.0432), round_up(17.0), round_up(0.0)
    (0.05, 20.0, 0.0)
    """
    if x <= 0:
        return 0.0
    power = floor(log10(x))
    return float(f"{ceil(x / 10.0**power) * 10.0**power:.1g}")
