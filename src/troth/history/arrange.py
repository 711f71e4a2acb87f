"""Histories from arrays of summaries, or from rows with their provider and day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import DataError
from troth.core.past import History, refuse_impossible
from troth.core.reductions import Counts, Moments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.reductions import Reduction


def from_summaries(
    reduction: Reduction, summaries: Any, providers: Sequence[Any] = (), days: Sequence[Any] = ()
) -> History:
    """Return the history of summaries ``(day, provider, entry)``; a report without rows counts as missing.

    Parameters
    ----------
    reduction
        How rows became summaries, such as `troth.core.reductions.Counts` or `troth.core.reductions.Moments`.
    providers, days
        Their names; numbers by default.

    Examples
    --------
    >>> past = from_summaries(Counts(2), [[[3, 1], [2, 2]], [[0, 0], [1, 4]]], providers=["A", "B"])
    >>> past.present.tolist()
    [[True, True], [False, True]]
    """
    array = np.array(summaries, dtype=np.float64)
    if array.ndim != 3 or array.shape[-1] != reduction.width:
        raise DataError(
            f"summaries must have shape (day, provider, {reduction.width}) for {reduction!r}, not {array.shape}"
        )
    names = tuple(str(name) for name in providers) or tuple(str(i) for i in range(array.shape[1]))
    labels = tuple(days) or tuple(range(array.shape[0]))
    present = reduction.rows(np.nan_to_num(array, nan=1.0)) > 0
    for day, provider in np.argwhere(present | (array != 0).any(axis=-1)):
        refuse_impossible(reduction, array[day, provider], labels[day], names[provider])
    return History(labels, names, array, np.asarray(present), reduction)


def from_rows(provider: Any, day: Any, values: Any, reduction: Reduction | None = None) -> History:
    """Add up rows: one provider, one day and one value, or several columns, per row.

    Parameters
    ----------
    reduction
        How rows become summaries. By default codes are counted if all values are whole numbers below 32, and otherwise
        moments are taken around the mean, squares included.

    Examples
    --------
    >>> past = from_rows(["A", "B", "A"], [1, 1, 2], [0, 1, 1])
    >>> past.summaries.tolist()
    [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 0.0]]]
    """
    table = np.asarray(values, dtype=np.float64)
    table = table[:, None] if table.ndim == 1 else table
    providers, who = np.unique(np.asarray(provider).astype(str), return_inverse=True)
    days, when = np.unique(np.asarray(day), return_inverse=True)
    if not len(table) == len(who) == len(when):
        raise DataError(f"{len(who)} providers, {len(when)} days and {len(table)} values: one of each per row")
    if reduction is None:
        codes = table.shape[1] == 1 and bool(((table >= 0) & (table < 32) & (table == np.floor(table))).all())
        centre = tuple(float(x) for x in table.mean(axis=0))
        reduction = Counts(max(2, int(table.max()) + 1)) if codes else Moments(centre, squares=True)
    summaries = np.zeros((len(days), len(providers), reduction.width))
    cell = when * len(providers) + who
    order = np.argsort(cell, kind="stable")
    edges = np.flatnonzero(np.diff(cell[order], prepend=-1))
    for part in np.split(order, edges[1:]):
        summaries[when[part[0]], who[part[0]]] = reduction.of_rows(table[part])
    return from_summaries(reduction, summaries, providers.tolist(), days.tolist())
