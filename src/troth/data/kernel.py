"""One function from a batch of rows to summaries by provider and day; every row file and frame goes through it.

Values are validated in the same pass: whatever could corrupt a sum shows in the sums or in the minimum and maximum,
and only a batch with such a value is searched for the rows at fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from troth.core.errors import DataError
from troth.core.limits import MAX_SUM
from troth.core.reductions.reduction import AddsInParts
from troth.data.arrow_columns import as_numbers, encode, is_number, is_text, parse_numbers
from troth.data.features import FeatureSampler
from troth.data.request import NO_VALUE, Day, Key, Part, Problem, Request, listed, parse_day

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from troth.core.support import Array, Support

    Codes: TypeAlias = NDArray[np.intp]

_MAX_LISTED_DAYS = 64  # distinct days that are parsed without checking which of them occur
_BLOCK = 1 << 18  # numbers that are added in one step
_MAX_RESERVED = 1 << 24  # numbers that are allocated ahead for expected sums
_MAX_CACHED = 1 << 22  # indices of totals, by name and day, that are cached
_NAMES_REMEDY = "; providers' names are text or whole numbers"
MISSING, NOT_A_NUMBER, INFINITE = "missing", "not a number (NaN)", "infinite"
NO_LABEL = 'empty or marked as missing; [data] missing = "drop" leaves such rows out'


class Totals:
    """Summaries by key, added up in one array that grows."""

    def __init__(self, width: int) -> None:
        self.indices: dict[Key, int] = {}
        self.array = np.zeros((16, width))

    def index(self, key: Key, expected: int = 0) -> int:
        """Return the index of the total of a key; a new key may make room for all keys that are expected."""
        index = self.indices.setdefault(key, len(self.indices))
        if index == len(self.array):
            width = self.array.shape[1]
            room = min(expected, _MAX_RESERVED // width)  # pages that are never written cost nothing
            grown = np.zeros((max(2 * index, room), width))
            grown[:index] = self.array
            self.array = grown
        return index

    def add(self, indices: Codes, summaries: Array) -> None:
        """Add summaries to totals in blocks, since allocating large arrays costs more than the sums."""
        if len(indices) and indices[-1] - indices[0] == len(indices) - 1 and (np.diff(indices) == 1).all():
            self.array[indices[0] : indices[0] + len(indices)] += summaries
            return
        step = max(1, _BLOCK // self.array.shape[-1])
        for first in range(0, len(indices), step):
            self.array[indices[first : first + step]] += summaries[first : first + step]


class Adder:
    """Adds batches of rows to summaries by (provider, day), and collects problems."""

    def __init__(self, request: Request, place: str, provider: str | None = None, *, text: bool = False) -> None:
        self.request, self.place, self.provider, self.text = request, place, provider, text
        self._totals = Totals(request.reduction.width)
        self._expected = 0  # the most reports that the current batch can have
        self.problems: list[Problem] = []
        self._names = _SpellingCache(str)
        self._labels = _SpellingCache(lambda value: str(value).strip())
        self._known: tuple[Any, Any, Codes] = (None, None, np.zeros(0, dtype=np.intp))
        self.dropped: dict[Key, int] = {}
        self._sampler = FeatureSampler(request.kept_columns) if request.features else None
        self._row_numbers = np.zeros(0, dtype=np.intp)  # of the current batch
        self._owners: tuple[Sequence[str] | None, Codes] = (None, np.zeros(0, dtype=np.intp))  # of its rows

    def add_all(self, batches: Iterable[Any], first_row: int = 0) -> Part:
        """Add record batches, and return their sums."""
        for batch in batches:
            self.add(batch, first_row)
            first_row += batch.num_rows
        keys = list(self._totals.indices)
        if self._sampler is not None:
            self._sampler.thin()
        return Part(keys, self._totals.array[: len(keys)], self.problems, self.place, self.dropped, self._sampler)

    def add(self, batch: Any, first_row: int = 0) -> None:
        """Add a record batch that begins at row ``first_row`` of its file or table, counted from 0."""
        batch, numbers = self.drop(batch, first_row)
        rows = batch.num_rows
        if rows == 0:
            return
        problems_before = len(self.problems)
        names, days, codes, columns = self.code(batch, numbers)
        if len(self.problems) > problems_before:
            return
        size = len(names) * len(days)
        keys: Codes | None = None
        if size > max(rows, 1 << 12):
            keys, codes = np.unique(codes, return_inverse=True)
            size = len(keys)
        self._expected = size
        with np.errstate(over="ignore", invalid="ignore"):
            for present, summaries in self._summaries(columns, codes, size):
                too_large = ~(np.abs(self.request.reduction.magnitudes(summaries)) <= MAX_SUM)
                if too_large.any():
                    self._owners = [names[k // len(days)] for k in (range(size) if keys is None else keys)], codes
                    self._report_overflow(columns, int(present[np.argmax(too_large.any(axis=1))]))
                    return
                indices = self._indices(names, days, present if keys is None else keys[present])
                self._totals.add(indices, summaries)
        if self._sampler is not None:
            present = np.flatnonzero(np.bincount(codes, minlength=size))
            report_of_code = np.zeros(size, dtype=np.intp)
            report_of_code[present] = self._indices(names, days, present if keys is None else keys[present])
            self._sampler.add(report_of_code[codes], columns[: self.request.kept_columns], numbers)

    def drop(self, batch: Any, first_row: int = 0) -> tuple[Any, Codes]:
        """Count the rows to leave out, and return the others with their numbers."""
        numbers = np.arange(first_row, first_row + batch.num_rows)
        if self.request.missing == "drop":
            absent = self._without_value(batch) | (self._names_of(batch)[1] < 0)
            if absent.any():
                self._count_dropped(batch.filter(pa.array(absent)), numbers[absent])
                batch, numbers = batch.filter(pa.array(~absent)), numbers[~absent]
        return batch, numbers

    def code(self, batch: Any, numbers: Codes) -> tuple[Sequence[str], list[Day], Codes, list[NDArray[Any]]]:
        """Return names, days, the code of each row (name times days plus day) and the columns of the model."""
        self._row_numbers = numbers
        names, codes = self._owners = self._names_of(batch)
        if codes.min() < 0:
            self._report("without a provider's name", str(self.request.provider), codes < 0)
        days, day_codes = self._days(batch)
        return names, days, codes * len(days) + day_codes if len(days) > 1 else codes, self._read(batch)

    def _summaries(self, columns: list[NDArray[Any]], codes: Codes, size: int) -> Iterator[tuple[Codes, Array]]:
        """Yield the codes that have rows, and their summaries, in one or several parts."""
        reduction = self.request.reduction
        if isinstance(reduction, AddsInParts):
            yield from reduction.add_in_parts(columns, codes, size)
            return
        summaries = reduction.add(columns, codes, size)
        present = np.flatnonzero(reduction.rows(summaries))
        yield present, summaries if len(present) == size else summaries[present]

    def _without_value(self, batch: Any) -> NDArray[np.bool_]:
        """Return a mask of the rows without a value in a column of the model."""
        absent = np.zeros(batch.num_rows, dtype=bool)
        for name in self.request.columns:
            if name is None:
                continue
            array = batch.column(name)
            floating = pa.types.is_floating(array.type)
            absent |= pc.is_null(array, nan_is_null=floating).to_numpy(zero_copy_only=False)
            if is_text(array.type):
                values, codes = self._encode(array, name, ", not labels")
                codes_of_labels = self.request.codes(name)
                blank = [
                    v
                    for v, text in enumerate(self._labels(values))
                    if text.lower() in NO_VALUE - codes_of_labels.keys()
                ]
                absent |= np.isin(codes, blank)
        return absent

    def _count_dropped(self, batch: Any, numbers: Codes) -> None:
        """Count rows by provider and day; those without a name count for an empty name."""
        self._row_numbers = numbers
        names, codes = self._owners = self._names_of(batch)
        days, day_codes = self._days(batch)
        if self.problems:
            return
        keys = codes * len(days) + (day_codes if len(days) > 1 else 0)
        for key, count in zip(*(part.tolist() for part in np.unique(keys, return_counts=True)), strict=True):
            code, day = divmod(key, len(days))
            owner = "" if code < 0 else names[code], days[day]
            self.dropped[owner] = self.dropped.get(owner, 0) + count

    def read(self, batch: Any) -> tuple[Any, Codes, list[NDArray[Any]]]:
        """Return the rows with a value, their numbers from 0, and the columns of the model; problems are collected."""
        numbers = np.arange(batch.num_rows)
        if self.request.missing == "drop" and (absent := self._without_value(batch)).any():
            batch, numbers = batch.filter(pa.array(~absent)), numbers[~absent]
        self._row_numbers, self._owners = numbers, (None, np.zeros(batch.num_rows, dtype=np.intp))
        columns = self._read(batch) if batch.num_rows else [np.zeros(0)] * len(self.request.entries)
        return batch, numbers, columns

    def _read(self, batch: Any) -> list[NDArray[Any]]:
        columns: list[NDArray[Any]] = []
        for index, name in enumerate(self.request.columns):
            if name is None:
                columns.append(np.ones(batch.num_rows))
            elif name in self.request.levels:
                codes = self._values(batch.column(name), name)
                columns += [(codes == level).astype(np.float64) for level in range(1, len(self.request.levels[name]))]
            else:
                columns.append(self.request.scaled(index, self._values(batch.column(name), name)))
        return columns

    def _indices(self, names: Sequence[str], days: list[Day], keys: Codes) -> Codes:
        """Return the indices of the totals of keys (name times days plus day), cached for batches of the same names."""

        def index(key: int) -> int:
            return self._totals.index((names[key // len(days)], days[key % len(days)]), self._expected)

        if len(names) * len(days) > _MAX_CACHED:
            return np.array([index(key) for key in keys.tolist()])
        if self._known[0] is not names or self._known[1] != days:
            self._known = names, days, np.full(len(names) * len(days), -1, dtype=np.intp)
        known = self._known[2]
        for key in keys[known[keys] < 0].tolist():
            known[key] = index(key)
        return known[keys]

    def _encode(self, array: Any, column: str, remedy: str) -> tuple[Any, Codes]:
        try:
            return encode(array)
        except TypeError as error:
            raise DataError.at(self.place, f"column {column!r} has {error}{remedy}") from None

    def _names_of(self, batch: Any) -> tuple[Sequence[str], Codes]:
        """Return providers' names, and the index of each row's name, −1 if it is missing."""
        column = self.request.provider
        if column is None:
            return [self.provider or ""], np.zeros(batch.num_rows, dtype=np.intp)
        values, codes = self._encode(batch.column(column), column, _NAMES_REMEDY)
        names = self._names(values)
        if not isinstance(values, range):
            blank = [code for code, name in enumerate(names) if name.strip() in self.request.no_name]
            codes = np.where(np.isin(codes, blank), -1, codes) if blank else codes
        return names, codes

    def _days(self, batch: Any) -> tuple[list[Day], Codes]:
        column = self.request.day
        if column is None:
            return [None], self._owners[1]
        array = batch.column(column)
        if pa.types.is_timestamp(array.type):
            array = array.cast(pa.timestamp(array.type.unit))  # times with a zone are dated in UTC
        if pa.types.is_timestamp(array.type) or pa.types.is_date64(array.type):
            array = pc.cast(array, pa.date32(), safe=False)
        values, day_codes = self._encode(array, column, "; days are dates (YYYY-MM-DD) or whole numbers")
        if len(values) > _MAX_LISTED_DAYS:
            present, day_codes = np.unique(day_codes, return_inverse=True)
            has_missing = int(present[0]) < 0
            values = [values[int(code)] for code in present[has_missing:]]
            day_codes = day_codes - has_missing
        days: list[Day] = []
        for value in values:
            try:
                days.append(parse_day(value.as_py() if isinstance(value, pa.Scalar) else value))
            except ValueError:
                self._report("not a date (YYYY-MM-DD) or whole number", column, day_codes == len(days), array)
                days.append(None)
        self._report(MISSING, column, day_codes < 0)
        unique = list(dict.fromkeys(days))
        if len(unique) < len(days):
            day_codes = np.array([unique.index(day) for day in days], dtype=np.intp)[day_codes]
        return unique, day_codes

    def _values(self, array: Any, name: str) -> NDArray[Any]:
        if array.null_count:
            self._report(MISSING, name, pc.is_null(array).to_numpy(zero_copy_only=False))
            return np.zeros(len(array))
        if (labels := self.request.labels_of(name)) is not None:
            return self._as_codes(array, name, labels)
        x = as_numbers(array)
        if x is None:
            return self._values_of_text(array, name)
        limits = self.request.values_of(name)
        within_limits = limits is None or (x.min() >= limits[0] and x.max() <= limits[1])
        if not (within_limits and _all_within(x, self.request.support_of(name))):
            self._report_unusable(x, name)
        return x

    def _as_codes(self, array: Any, name: str, categories: tuple[str, ...]) -> Codes:
        code_of = self.request.codes(name)
        if pa.types.is_boolean(array.type):
            array = array.cast(pa.string())
        values, indices = self._encode(array, name, ", not labels")
        texts = self._labels(values)
        labels = [code_of.get(label, code_of.get(label.casefold(), -1)) for label in texts]
        blank = [code < 0 and label.lower() in NO_VALUE for code, label in zip(labels, texts, strict=True)]
        known = np.array([*labels, -1], dtype=np.intp)
        codes, empty = known[indices], np.array([*blank, True])[indices]  # index −1 stands for a missing label
        self._report(NO_LABEL, name, empty, array)
        self._report(f"not among the categories {listed(categories, 8)}", name, (codes < 0) & ~empty, array)
        return codes

    def _values_of_text(self, array: Any, name: str) -> Array:
        """Parse a column of text as numbers; report invalid values, and numbers that a typed file stores as text."""
        if not is_text(array.type):
            remedy = "; write every entry of a list to its own column" if pa.types.is_nested(array.type) else ""
            raise DataError.at(self.place, f"column {name!r} has type {array.type}, not numbers{remedy}")
        invalid = np.array([not is_number(entry) for entry in array.cast(pa.large_string()).to_pylist()])
        if invalid.any():
            labels = self.request.reduction.labels is not None and not self.request.columns[1:]
            remedy = "name the labels, in the order of the model's codes, as [model] categories"
            if self.request.own_file:
                expected = self.request.values_in_words(name)
                remedy = f"send {expected}, or ask the analyst to name the labels as [model] categories"
            self._report("not a number" + f"; {remedy}" * labels, name, invalid, array)
        elif self.text or self.request.missing == "drop":
            return parse_numbers(array)
        else:
            self._report("number stored as text; convert the column to numbers", name, ~invalid, array)
        return np.zeros(len(array))

    def _report_unusable(self, values: NDArray[Any], name: str) -> None:
        """Report the values of a column that are infinite, missing or outside its support or limits."""
        x = values.astype(np.float64)
        support, limits = self.request.support_of(name), self.request.values_of(name)
        possible = support.contains(x)
        self._report_infinite(x, name)
        self._report(f"not {support}", name, np.isfinite(x) & ~possible, x)
        if limits is not None:
            low, high = limits
            outside = np.isfinite(x) & possible & ((x < low) | (x > high))
            self._report(f"outside the declared values {low:g} to {high:g}", name, outside, x)

    def _report_infinite(self, x: Array, name: str) -> None:
        self._report(NOT_A_NUMBER, name, np.isnan(x), x)
        self._report(INFINITE, name, np.isinf(x), x)

    def _report_overflow(self, columns: Sequence[NDArray[Any]], code: int) -> None:
        """Report values that are not finite or, if there are none, the largest of a code whose sum is too large."""
        problems_before = len(self.problems)
        labels = [entry or "(intercept)" for entry in self.request.entries]
        for label, values in zip(labels, columns, strict=True):
            self._report_infinite(values.astype(np.float64), label)
        if len(self.problems) == problems_before:
            in_sum = self._owners[1] == code
            sizes = [np.where(in_sum, np.abs(values.astype(np.float64)), -1.0) for values in columns]
            k = int(np.argmax([size.max() for size in sizes]))
            problem = f"too large to add up: a sum would exceed {MAX_SUM:g}; rescale them"
            self._report(problem, labels[k], sizes[k] == sizes[k].max(), columns[k])

    def _report(self, problem: str, column: str, mask: NDArray[np.bool_], values: Any = None) -> None:
        """Report the rows of a mask, if any, as one problem per provider."""
        names, owners = self._owners
        rows = np.flatnonzero(mask)
        for owner in dict.fromkeys(owners[rows].tolist()):
            owned = rows[owners[rows] == owner]
            first = int(owned[0])
            value: Any = None if values is None else values[first]
            value = value.as_py() if isinstance(value, pa.Scalar) else value.item() if hasattr(value, "item") else value
            provider = None if names is None or owner < 0 else names[owner].strip()
            row = int(self._row_numbers[first]) + 1
            self.problems.append(Problem(problem, provider, column, len(owned), self.place, row, value))


def _all_within(x: NDArray[Any], support: Support) -> bool:
    """Return quickly whether all values are in the support; without bounds, the sums reveal invalid values."""
    if np.isinf(support.low) and np.isinf(support.high) and not support.integer:
        return True
    low, high = x.min(), x.max()
    if not ((low > support.low if support.open else low >= support.low) and high <= support.high and high < np.inf):
        return False
    return not (support.integer and x.dtype.kind == "f") or bool((x == np.floor(x)).all())


class _SpellingCache:
    """Converts distinct values to names, once for consecutive batches that share them."""

    def __init__(self, spell: Callable[[Any], str]) -> None:
        self.spell = spell
        self.values: Any = None
        self.names: Sequence[str] = ()

    def __call__(self, values: Any) -> Sequence[str]:
        if not _equal(values, self.values):
            self.values = values
            numbers = isinstance(values, range)
            self.names = _IntegerNames(values) if numbers else [self.spell(value) for value in values.to_pylist()]
        return self.names


class _IntegerNames(Sequence[str]):
    """Integers as names, converted on access."""

    def __init__(self, numbers: range) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: Any) -> Any:
        return str(self.numbers[index])


def _equal(first: Any, second: Any) -> bool:
    return type(first) is type(second) and bool(first == second if isinstance(first, range) else first.equals(second))
