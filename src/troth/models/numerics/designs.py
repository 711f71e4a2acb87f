"""What must be the same on two days whose peers are compared, with the size of its rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from troth.core.contract import ComparedDesign

if TYPE_CHECKING:
    from troth.core.contract import Array


def compare_products(rows: Array, products: Array) -> ComparedDesign:
    """Return numbers of rows, and products of features ``(..., d, d)``, as what days are compared by.

    Σzᵢzⱼ adds up numbers as large as √(Σzᵢ²·Σzⱼ²), in any order, however small it is itself.

    Examples
    --------
    >>> compare_products(np.array(2.0), np.array([[4.0, 0.0], [0.0, 9.0]])).rounding
    array([0., 4., 6., 6., 9.])
    """
    length = np.sqrt(np.maximum(np.diagonal(products, axis1=-2, axis2=-1), 0.0))
    sizes = length[..., :, None] * length[..., None, :]
    flat = [np.concatenate([part[..., None], each.reshape(*rows.shape, -1)], axis=-1)
            for part, each in ((rows, products), (np.zeros_like(rows), sizes))]  # fmt: skip
    return ComparedDesign(*flat)
