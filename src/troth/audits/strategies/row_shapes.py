"""Access to the rows of a dataset along the axis that the model declares, and to their admissible values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.contract import Array, HasSupport, explains_target
from troth.core.declarations import declared

if TYPE_CHECKING:
    from collections.abc import Callable


def row_axis(model: Any) -> int:
    """Return the axis of rows: the last before the axes of a single row, which the model counts as ``row_axes``."""
    return -1 - declared(model).row_axes


def values_of(model: Any, data: Any) -> Array:
    """Return the values that a lie changes: the target of a regression, or all."""
    return np.asarray(data[1] if explains_target(model) else data)


def with_values(model: Any, data: Any, values: Array) -> Any:
    """Return the data with the values of `values_of` replaced."""
    return (data[0], values) if explains_target(model) else values


def count_rows(model: Any, data: Any) -> int:
    """Return how many rows a dataset has."""
    return int(values_of(model, data).shape[row_axis(model)])


def map_rows(model: Any, data: Any, change: Callable[[Any, int], Any]) -> Any:
    """Apply ``change(array, axis)`` to the rows of all arrays of a dataset."""
    return (change(data[0], -2), change(data[1], -1)) if explains_target(model) else change(data, row_axis(model))


def take_rows(model: Any, data: Any, start: int, stop: int) -> Any:
    """Return rows ``start`` to ``stop``."""
    return map_rows(model, data, lambda x, axis: x.take(range(start, stop), axis=axis))


def has_labels(model: Any) -> bool:
    """Whether rows are labels from a finite set."""
    return isinstance(model, HasSupport) and model.support.finite


def count_labels(model: Any) -> int:
    """Return the number of labels of a model whose rows are labels."""
    return int(model.support.high) + 1


def admissible(model: Any, values: Array) -> Array:
    """Move values into the support: counts are rounded, waiting times stay positive."""
    if not isinstance(model, HasSupport):
        return values
    support = model.support
    values = np.round(values) if support.integer else values
    low = np.nextafter(support.low, np.inf) if support.open else support.low
    return np.clip(values, low, support.high)
