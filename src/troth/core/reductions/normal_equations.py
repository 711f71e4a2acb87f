"""Coefficients that fit rows best, from sums of products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from troth.core.support import Array


def solved(matrix: Array, product: Array) -> Array:
    """Solve the normal equations; NaN where rows do not tell all coefficients.

    Examples
    --------
    >>> solved(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([1.0, 2.0])), solved(np.zeros((1, 1)), np.zeros(1))
    (array([0.5, 0.5]), array([nan]))
    """
    scale = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    if not scale.all() or np.linalg.matrix_rank(matrix / np.outer(scale, scale), hermitian=True) < len(matrix):
        return np.full(len(matrix), np.nan)
    return np.asarray(np.linalg.solve(matrix / np.outer(scale, scale), product / scale) / scale)
