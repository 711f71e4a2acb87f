"""Arrow columns as NumPy arrays: numbers unchanged; names, labels and days as codes of their distinct values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from troth.core.support import Array

    Codes: TypeAlias = NDArray[np.intp]

_MAX_DENSE_RANGE = 1 << 20  # integers within a range of this length serve as their own codes


def as_numbers(array: Any) -> NDArray[Any] | None:
    """Return a column without nulls as a NumPy array of numbers, or None if it holds something else."""
    kind = array.type
    if pa.types.is_dictionary(kind) and not is_text(kind.value_type):
        array, kind = array.dictionary_decode(), kind.value_type
    if pa.types.is_boolean(kind):
        return np.asarray(array.cast(pa.uint8()).to_numpy(zero_copy_only=False))
    if pa.types.is_decimal(kind):
        array, kind = array.cast(pa.float64()), pa.float64()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        x = np.asarray(array.to_numpy(zero_copy_only=False))
        return x.astype(np.float64) if kind == pa.float16() or kind == pa.uint64() else x
    return None


def holds_numbers(kind: Any) -> bool:
    """Return whether columns of this type hold numbers."""
    if pa.types.is_dictionary(kind):
        return holds_numbers(kind.value_type)
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    return any(test(kind) for test in tests)


def encode(array: Any) -> tuple[Any, Codes]:
    """Return the distinct values of a column of names, and the index of each row's value, −1 if it is missing.

    The distinct values are a range or an Arrow array. Raises `TypeError` if the column's type cannot hold names.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind = array.type
    if pa.types.is_floating(kind):
        x = array.to_numpy(zero_copy_only=False)
        finite = x[np.isfinite(x)]
        if finite.size and not ((finite == np.floor(finite)).all() and np.abs(finite).max() < 2**53):
            raise TypeError(f"fractions (type {kind})")
        array = pa.array(np.nan_to_num(x), type=pa.int64(), mask=~np.isfinite(x), safe=False)
        kind = array.type
    if pa.types.is_integer(kind):
        dense = _dense(array)
        if dense is not None:
            return dense
    elif pa.types.is_null(kind):
        return range(0), np.full(len(array), -1, dtype=np.intp)
    elif not (is_text(kind) or pa.types.is_date32(kind) or pa.types.is_dictionary(kind)):
        raise TypeError(f"type {kind}")
    if str(kind) == "string_view":
        array = array.cast(pa.large_string())
    if not pa.types.is_dictionary(kind):
        array = array.dictionary_encode()
    elif not (is_text(kind.value_type) or pa.types.is_integer(kind.value_type)):
        raise TypeError(f"type {kind.value_type}")
    if str(array.dictionary.type) == "string_view":
        array = pa.DictionaryArray.from_arrays(array.indices, array.dictionary.cast(pa.large_string()))
    if array.dictionary.null_count or pc.count_distinct(array.dictionary).as_py() < len(array.dictionary):
        array = array.dictionary_decode().dictionary_encode()
    codes = array.indices.fill_null(-1) if array.indices.null_count else array.indices
    return array.dictionary, np.asarray(codes.to_numpy(zero_copy_only=False), dtype=np.intp)


def _dense(array: Any) -> tuple[Any, Codes] | None:
    """Encode integers within a short range as themselves; return None if the range is too long."""
    if array.null_count or len(array) == 0:
        return None
    x = array.to_numpy(zero_copy_only=False)
    low, high = int(x.min()), int(x.max())
    if high - low >= _MAX_DENSE_RANGE:
        return None
    if high < _MAX_DENSE_RANGE:
        low = min(low, 0)
    if x.dtype == np.uint64:
        return range(low, high + 1), (x - np.uint64(low)).astype(np.intp)
    codes = x.astype(np.intp)
    if low:
        codes -= low
    return range(low, high + 1), codes


def is_text(kind: Any) -> bool:
    """Return whether columns of this type hold text."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def parse_numbers(array: Any) -> Array:
    """Parse the numbers in a column of text, skipping everything else."""
    return np.array([float(entry) for entry in array.to_pylist() if is_number(entry)])


def is_number(entry: str | None) -> bool:
    """Return whether text can be parsed as a number."""
    try:
        float(entry or "")
    except ValueError:
        return False
    return True
