"""Counts of codes that are changed so that rows could have them: other frequencies, and some of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    from troth.core.support import Array


def whole_counts(weights: Array, rows: Array) -> Array:
    """Share rows out over codes by weight, in whole numbers, largest remainders first.

    Examples
    --------
    >>> whole_counts(np.array([[0.25, 0.75]]), np.array([5.0]))
    array([[1., 4.]])
    """
    total = weights.sum(axis=-1, keepdims=True)
    exact = np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1 / weights.shape[-1]) * rows[:, None]
    counts = np.floor(exact + 1e-9)
    left = np.round(rows - counts.sum(axis=-1))
    rank = np.argsort(np.argsort(counts - exact, axis=-1, kind="stable"), axis=-1, kind="stable")
    return np.asarray(counts + (rank < left[:, None]))


def draw_rows(rng: Generator, counts: Array, wanted: Array) -> Array:
    """Draw ``wanted`` of the counted rows of each day, ``(day, code)``, without replacement."""
    left, missing = counts.astype(np.int64), wanted.astype(np.int64)
    drawn = np.zeros_like(left)
    remaining = left.sum(axis=-1)
    for code in range(left.shape[-1]):
        later_codes: NDArray[np.int64] = remaining - left[:, code]
        drawn[:, code] = rng.hypergeometric(left[:, code], later_codes, missing)
        missing, remaining = missing - drawn[:, code], later_codes
    return drawn.astype(np.float64)


def move_to_last(rng: Generator, counts: Array, share: float) -> Array:
    """Give a share of all rows of each day the last label instead of another, or, below 0, another instead of it.

    Whole rows move: where the share is not a whole number of them, one more moves by lot.
    """
    n, last = counts.sum(axis=-1), counts[:, -1]
    wanted = np.floor(abs(share) * n + rng.random(len(n)))
    others = counts[:, :-1]
    if share >= 0:
        moved = np.minimum(wanted, n - last)
        return np.column_stack([others - draw_rows(rng, others, moved), last + moved])
    moved = np.minimum(wanted, last)
    weights = np.where(others.sum(axis=-1, keepdims=True) > 0, others, 1.0)
    return np.column_stack([others + whole_counts(weights, moved), last - moved])
