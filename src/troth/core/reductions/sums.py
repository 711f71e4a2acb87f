"""Properties of all sums over rows: which are impossible, and which coefficients products determine."""

from __future__ import annotations

import numpy as np

from troth.core.errors import DataError
from troth.core.limits import MAX_SUM
from troth.core.support import Array

SLACK = 1e-9
"""How far, relatively, rounding may push honest sums beyond what data can have."""

SEEN = 1e-6
"""An eigenvalue of a matrix with a diagonal of 1 above which it counts for the rank."""


def checked_rows(summary: Array) -> float:
    """Return the number of rows, which comes first, or refuse it."""
    n = float(summary[0])
    if n < 0 or n != np.floor(n):
        raise DataError(f"the number of rows is {n:.12g}, not a whole number of at least 0")
    if n == 0 and np.any(summary):
        raise DataError("there are sums but no rows")
    return n


def unit_diagonal(matrices: Array) -> tuple[Array, Array]:
    """Return the lengths of the columns of X, 1 instead of 0, and XᵀX with columns of length 1, for given XᵀX.

    Columns of very different sizes are then compared alike, and keep their digits.
    """
    squares = np.diagonal(matrices, axis1=-2, axis2=-1)
    length = np.sqrt(np.where(squares > 0, squares, 1.0))
    return length, matrices / length[..., :, None] / length[..., None, :]


def check_products(matrices: Array, n: float, what: str, problem: str = "") -> None:
    """Refuse symmetric matrices ``(..., d, d)``, of ``what``, that are not XᵀX for any X with n rows.

    ``problem`` says in plain words what a negative eigenvalue means for a matrix of this kind.
    """
    squares = np.diagonal(matrices, axis1=-2, axis2=-1)
    if (squares < 0).any():
        raise DataError(f"a sum of squares is {squares.min():.9g}, below 0")
    eigenvalues = np.linalg.eigvalsh(unit_diagonal(matrices)[1])
    if (least := eigenvalues.min()) < -SLACK * matrices.shape[-1]:
        problem = problem or f"the matrix of {what} is not positive semi-definite"
        raise DataError(f"{problem}: no data have such sums (least eigenvalue {least:.3g})")
    rank = int((eigenvalues > SEEN).sum(axis=-1).max())
    if rank > n:
        raise DataError(f"{n:.0f} rows cannot have {what} of rank {rank}")


def within_limits(summary: Array) -> Array:
    """Return a summary, or refuse sums that are too large to compute with, or none at all."""
    if not (np.abs(summary) <= MAX_SUM).all():
        raise DataError(f"the values are too large to add up: a sum exceeds {MAX_SUM:g}; rescale them")
    return summary


def solved(matrix: Array, product: Array) -> Array:
    """Solve the normal equations; NaN where rows do not determine all coefficients.

    Examples
    --------
    >>> solved(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([1.0, 2.0])), solved(np.zeros((1, 1)), np.zeros(1))
    (array([0.5, 0.5]), array([nan]))
    """
    scale = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    if not scale.all() or np.linalg.matrix_rank(matrix / np.outer(scale, scale), hermitian=True) < len(matrix):
        return np.full(len(matrix), np.nan)
    return np.asarray(np.linalg.solve(matrix / np.outer(scale, scale), product / scale) / scale)
