"""Checks of sums over rows, and least squares from their products."""

from __future__ import annotations

import numpy as np

from troth.core.errors import DataError
from troth.core.limits import MAX_SUM
from troth.core.support import Array

SLACK = 1e-9
"""The relative tolerance of checks, for rounding errors of honest sums."""

RANK_TOLERANCE = 1e-6
"""Eigenvalues of matrices with a unit diagonal count for the rank if they are above this tolerance."""


def checked_rows(summary: Array) -> float:
    """Return the number of rows, the first entry of a summary, or raise an error if it is impossible."""
    n = float(summary[0])
    if n < 0 or n != np.floor(n):
        raise DataError(f"the number of rows is {n:.12g}, not a whole number of at least 0")
    if n == 0 and np.any(summary):
        raise DataError("there are sums but no rows")
    return n


def unit_diagonal(matrices: Array) -> tuple[Array, Array]:
    """Return, given XᵀX, the norms of the columns of X (1 instead of 0), and XᵀX of the normalised columns.

    Normalisation preserves precision if columns have very different scales.
    """
    squares = np.diagonal(matrices, axis1=-2, axis2=-1)
    length = np.sqrt(np.where(squares > 0, squares, 1.0))
    return length, matrices / length[..., :, None] / length[..., None, :]


def check_products(matrices: Array, n: float, what: str, problem: str = "") -> None:
    """Raise an error for symmetric matrices ``(..., d, d)`` that are not XᵀX for any X with n rows.

    ``what`` names their entries, and ``problem`` the cause of a negative eigenvalue.
    """
    squares = np.diagonal(matrices, axis1=-2, axis2=-1)
    if (squares < 0).any():
        raise DataError(f"a sum of squares is {squares.min():.9g}, below 0")
    eigenvalues = np.linalg.eigvalsh(unit_diagonal(matrices)[1])
    if (smallest := eigenvalues.min()) < -SLACK * matrices.shape[-1]:
        problem = problem or f"the matrix of {what} is not positive semi-definite"
        raise DataError(f"{problem}: no data have such sums (smallest eigenvalue {smallest:.3g})")
    rank = int((eigenvalues > RANK_TOLERANCE).sum(axis=-1).max())
    if rank > n:
        raise DataError(f"{n:.0f} rows cannot have {what} of rank {rank}")


def within_limits(summary: Array) -> Array:
    """Return a summary, or raise an error if a sum is too large to compute with, or NaN."""
    if not (np.abs(summary) <= MAX_SUM).all():
        raise DataError(f"the values are too large to add up: a sum exceeds {MAX_SUM:g}; rescale them")
    return summary


def solve_normal_equations(matrix: Array, product: Array) -> Array:
    """Solve the normal equations; return NaN if the rows do not determine all coefficients.

    Examples
    --------
    >>> solve_normal_equations(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([1.0, 2.0]))
    array([0.5, 0.5])
    >>> solve_normal_equations(np.zeros((1, 1)), np.zeros(1))
    array([nan])
    """
    scale = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    if not scale.all() or np.linalg.matrix_rank(matrix / np.outer(scale, scale), hermitian=True) < len(matrix):
        return np.full(len(matrix), np.nan)
    return np.asarray(np.linalg.solve(matrix / np.outer(scale, scale), product / scale) / scale)
