"""Tests whether statistics are possible: whether some data can have them, up to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from troth.core.contract import Array, Mask
from troth.core.reductions.sums import RANK_TOLERANCE, unit_diagonal
from troth.core.reductions.sums import SLACK as SLACK


def all_possible(statistics: Array) -> Mask:
    """Return True for every statistic."""
    return np.ones(statistics.shape[:-1], dtype=bool)


def none_negative(counts: Array) -> Mask:
    """Test that no count is negative; fractions are weights of rows.

    Examples
    --------
    >>> none_negative(np.array([[3.0, 0.0], [-1.0, 5.0], [1.5, 2.0]]))
    array([ True, False,  True])
    """
    if counts.min(initial=0.0) >= 0:
        return all_possible(counts)
    return np.asarray((counts >= 0).all(axis=-1))


def are_products(matrix: Array, rows: Array) -> Mask:
    """Test whether ``matrix`` = XᵀX for some X with ``rows`` rows: positive semi-definite, of rank at most ``rows``.

    Examples
    --------
    >>> are_products(np.array([[[4.0, 2.0], [2.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]], np.eye(2)]), np.array([1, 9, 1]))
    array([ True, False, False])
    """
    size = matrix.shape[-1]
    diagonal = np.diagonal(matrix, axis1=-2, axis2=-1)
    unit = unit_diagonal(matrix)[1]
    symmetric = (np.abs(unit - np.swapaxes(unit, -1, -2)) <= SLACK).all(axis=(-2, -1))
    valid = np.array((diagonal >= 0).all(axis=-1) & symmetric)
    margin = np.eye(size) * (SLACK * size)
    doubtful = valid & (rows < size)
    try:
        np.linalg.cholesky(np.where(valid[..., None, None], unit, 0.0) + margin)
    except np.linalg.LinAlgError:
        doubtful = valid
    if doubtful.any():
        values = np.linalg.eigvalsh(unit[doubtful])
        rank = (values > RANK_TOLERANCE).sum(axis=-1)
        valid[doubtful] = (values[..., 0] >= -SLACK * size) & (rank <= np.ceil(rows[doubtful]))
    return valid


def agree(statistics: Array, recomputed: Array) -> Mask:
    """Test whether statistics agree with recomputed ones, up to rounding relative to the largest entry."""
    largest = np.abs(recomputed).max(axis=-1, keepdims=True, initial=0.0)
    slack = SLACK * (1 + largest) + (1e-3 * SLACK * largest) ** 2
    return np.asarray((np.abs(statistics - recomputed) <= slack).all(axis=-1))


def none_above(statistics: Array, bound: Any = 0.0) -> Mask:
    """Test that no entry exceeds its bound; entries may be −∞."""
    finite = np.where(np.isneginf(statistics), 0.0, statistics)
    slack = SLACK * (1 + np.abs(finite).max(axis=-1, keepdims=True, initial=0.0))
    return np.asarray((statistics <= bound + slack).all(axis=-1))
