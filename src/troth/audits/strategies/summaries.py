"""How a summary is changed so that rows could have it: other frequencies or means, and some of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.reductions import Counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from troth.core.contract import Array, Generator


def rates(summary: Array, reduction: Any) -> Array:
    """Frequencies of codes, or means of columns, ``(..., code or column)``; those of an empty report are 0."""
    n = reduction.rows(summary)[..., None]
    part = summary if isinstance(reduction, Counts) else summary[..., 1 : reduction.columns + 1]
    mean = np.divide(part, n, out=np.zeros_like(part), where=n > 0)
    return mean if isinstance(reduction, Counts) else np.asarray(mean + np.array(reduction.centre))


def with_rates(summary: Array, wanted: Array, reduction: Any) -> Array:
    """Return summaries of as many rows with other frequencies or means, as close as the support allows.

    Codes stay whole numbers. Numbers move by one constant per day, so that their scatter stays as it is.
    """
    n = reduction.rows(summary)
    if isinstance(reduction, Counts):
        return whole_counts(np.maximum(wanted, 0.0), n)
    d, centre = reduction.columns, np.array(reduction.centre)
    target = np.clip(wanted, reduction.support.low, reduction.support.high)
    total = n[:, None] * target
    if reduction.support.integer:
        total = np.round(total)
    move = np.where(n[:, None] > 0, total - n[:, None] * rates(summary, reduction), 0.0)
    changed = summary.copy()
    changed[:, 1 : d + 1] = np.where(n[:, None] > 0, total - n[:, None] * centre, 0.0)
    if reduction.squares:
        delta = np.divide(move, n[:, None], out=np.zeros_like(move), where=n[:, None] > 0)
        cross = summary[:, 1 : d + 1, None] * delta[:, None, :]
        added = cross + np.swapaxes(cross, -1, -2) + n[:, None, None] * delta[:, :, None] * delta[:, None, :]
        changed[:, d + 1 :] += added.reshape(len(summary), d * d)
    return changed


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
