"""Whose report stops a round: reports beyond the limits of their model, and those without which a round is payable."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from troth.core.contract import CountsRows
from troth.core.errors import DataError, MissingCapabilityError, ReportError, ScoreOutOfRangeError, UnpayableRoundError
from troth.core.limits import LARGEST_SUM, most_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from troth.core.contract import Array, Model
    from troth.mechanisms.breakdown import Breakdown
    from troth.mechanisms.round import Round

_ALL = 256  # rounds of up to this many providers are tried without each of them
_MOST = 4  # reports that may stop a round together and are still found


def refuse_oversized(this_round: Round) -> None:
    """Refuse statistics that are too large to compute with, reports of too many rows, and sums without rows."""
    t = this_round.statistics
    beyond = np.isfinite(t) & (np.abs(t) > LARGEST_SUM)
    if beyond.any():
        *_, provider, entry = where = tuple(int(i) for i in np.argwhere(beyond)[0])
        problem = f"statistic {entry} is {t[where]:.6g}, beyond ±{LARGEST_SUM:g}: rescale the values, or refuse it"
        raise ReportError(provider, problem)
    for model, members in this_round.providers_by_model.items():
        rows = _rows(this_round, model, members)
        if rows is None:
            continue
        most = most_rows(model)
        sums = (rows == 0) & (t[..., members, :] != 0).any(axis=-1)
        wrong = (rows < 0) | (np.isfinite(rows) & (rows > most)) | sums
        if wrong.any():
            where = tuple(int(i) for i in np.argwhere(wrong)[0])
            problem = "sums without rows" if sums[where] else f"{rows[where]:.17g} rows, not from 0 to {most:,}"
            raise ReportError(members[where[-1]], f"{problem}: refuse the report")


def _rows(this_round: Round, model: Model, members: list[int]) -> Array | None:
    if this_round.rows is not None:
        return this_round.count_rows()[..., members]
    if not isinstance(model, CountsRows) or getattr(model, "recovers_rows", False):
        return None
    try:
        return model.rows(this_round.statistics[..., members, :])
    except MissingCapabilityError:
        return None


def is_blamable(error: Exception) -> bool:
    """Return whether a report may be the reason, rather than the model, the rule or what they were given."""
    if isinstance(error, ReportError):
        return isinstance(error, ScoreOutOfRangeError)
    return isinstance(error, np.linalg.LinAlgError | ArithmeticError) or type(error) in (DataError, ValueError)


def blame(error: Exception, this_round: Round, evaluate: Callable[[Round], Breakdown]) -> Exception:
    """Return the error that names the reports without which the round is payable, or the given one if there are none.

    The round is evaluated again without each provider; of many providers, without halves of them.
    """

    def unpaid(left_out: Sequence[int]) -> int:
        """How many cannot be paid if these reports are empty: all, where the round stops."""
        places = list(left_out)
        statistics = this_round.statistics.copy()
        statistics[..., places, :] = 0.0
        rows = None if this_round.rows is None else this_round.count_rows().copy()
        if rows is not None:
            rows[..., places] = 0.0
        other = dataclasses.replace(
            this_round, statistics=statistics, rows=rows, rng=copy.deepcopy(this_round.rng), lenient=True
        )
        try:
            with np.errstate(all="ignore"):
                return int((~np.isfinite(evaluate(other).share)).sum())
        except (DataError, ValueError, ArithmeticError, np.linalg.LinAlgError):
            return this_round.statistics[..., 0].size + 1

    providers = this_round.providers
    if unpaid(range(providers)):
        return error
    guilty = _search(unpaid, providers) if providers <= _ALL else _halved(unpaid, providers)
    if not guilty or (isinstance(error, ScoreOutOfRangeError) and error.provider in guilty):
        return error
    return UnpayableRoundError(guilty, str(error))


def _search(unpaid: Callable[[Sequence[int]], int], providers: int) -> list[int]:
    """Leave out one more report at a time, that with which fewest stay unpaid; name all if several do equally well."""
    out: list[int] = []
    while len(out) < min(_MOST, providers - 1):
        left = {j: unpaid([*out, j]) for j in range(providers) if j not in out}
        least = min(left.values())
        if least == 0:
            return [*out, *(j for j, count in left.items() if count == 0)]
        out.append(min(left, key=lambda j: left[j]))
    return []


def _halved(unpaid: Callable[[Sequence[int]], int], providers: int) -> list[int]:
    """Find one report by halving, from either end."""
    for order in (range(providers), range(providers - 1, -1, -1)):
        low, high = 0, providers
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if unpaid(order[:middle]) else (low, middle)
        if not unpaid([order[high - 1]]):
            return [order[high - 1]]
    return []
