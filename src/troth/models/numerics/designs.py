"""What must be the same, beside numbers of rows, on two days whose peers are compared."""

from __future__ import annotations

import numpy as np

from troth.core.contract import Array, ComparedDesign


def compare_products(products: Array) -> ComparedDesign:
    """Return products of features, ``(..., d, d)``, as what days are compared by.

    Σzᵢzⱼ adds up numbers as large as √(Σzᵢ²·Σzⱼ²), in any order, however small it is itself.

    Examples
    --------
    >>> compare_products(np.array([[4.0, 0.0], [0.0, 9.0]])).rounding
    array([4., 6., 6., 9.])
    """
    length = np.sqrt(np.maximum(np.diagonal(products, axis1=-2, axis2=-1), 0.0))
    sizes = length[..., :, None] * length[..., None, :]
    return ComparedDesign(*(each.reshape(*each.shape[:-2], -1) for each in (products, sizes)))


def compare_rows_alone(statistics: Array) -> ComparedDesign:
    """Return that there is nothing to compare beside the number of rows."""
    nothing = np.zeros((*np.shape(statistics)[:-1], 0))
    return ComparedDesign(nothing, nothing)
