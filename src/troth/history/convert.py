"""Sums over rows taken around one centre, as another model wants them: around its own.

A history is added up once; a model that is fitted later has another prior mean, and wants its sums around that. Sums
of z = x − c become sums of x − c′ without the rows, and so do the products of a regression's features and residuals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from troth.core.errors import DataError
from troth.core.reductions import Moments, Sums, Tally

if TYPE_CHECKING:
    from troth.core.contract import Array, Summable


def convert(sums: Array, given: Sums, wanted: Sums) -> Array:
    """Return sums ``(..., sum)`` that were taken as ``given`` says in the form that ``wanted`` asks for.

    Raises
    ------
    DataError
        If what is wanted was never added up, such as squares.

    Examples
    --------
    >>> convert(np.array([2.0, 30.0, 500.0]), Moments(squares=True), Moments(centre=(10.0,), squares=True))
    array([  2.,  10., 100.])
    """
    s = np.asarray(sums, dtype=np.float64)
    if isinstance(given, Tally) or isinstance(wanted, Tally):
        if given != wanted:
            raise DataError(f"the history has sums of {_words(given)}, but the model wants {_words(wanted)}")
        return s
    if given.columns != wanted.columns:
        raise DataError(f"the history has {given.columns} columns, but the model wants {wanted.columns}")
    centred = any(wanted.centre) or any(given.centre)
    if (wanted.linear or centred) and not given.linear:
        raise DataError("the history has no sums of the values, only their products: add them up with linear=True")
    if wanted.squares and not given.squares:
        raise DataError("the model wants squares, which the history does not have: add them up with squares=True")
    return _shifted(s, given, wanted)


def statistics_of(model: Summable, sums: Array, given: Sums) -> Array:
    """Return a model's statistics of sums that were taken as ``given`` says."""
    return np.asarray(model.from_summary(model.from_sums(convert(sums, given, model.sums))), dtype=np.float64)


def _shifted(s: Array, given: Moments, wanted: Moments) -> Array:
    d = given.columns
    shift = np.array(given.centre) - np.array(wanted.centre)
    n = s[..., :1]
    parts = [n]
    total = s[..., 1 : d + 1] if given.linear else np.zeros((*s.shape[:-1], d))
    if wanted.linear:
        parts.append(total + n * shift)
    if wanted.squares:
        matrix = s[..., 1 + d * given.linear :].reshape(*s.shape[:-1], d, d)
        cross = total[..., :, None] * shift
        matrix = matrix + cross + np.swapaxes(cross, -1, -2) + n[..., None] * np.outer(shift, shift)
        residual = np.eye(d)
        for sign, moments in ((1.0, given), (-1.0, wanted)):
            if moments.residual:
                residual[-1, :-1] += sign * np.array(moments.prediction)
        matrix = residual @ matrix @ residual.T
        parts.append(matrix.reshape(*s.shape[:-1], d * d))
    return np.concatenate(parts, axis=-1)


def _words(sums: Sums) -> str:
    return f"{sums.size} codes" if isinstance(sums, Tally) else f"{sums.columns} columns of numbers"
