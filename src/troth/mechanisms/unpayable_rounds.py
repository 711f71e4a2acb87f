"""Find the reports that make a round unpayable: those beyond the limits of their model, and those to leave out."""

from __future__ import annotations

import copy
import dataclasses
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from troth.core.contract import Array, ChecksStatistics, CountsRows, Model
from troth.core.declarations import declared
from troth.core.errors import DataError, MissingCapabilityError, ReportError, ScoreOutOfRangeError, UnpayableRoundError
from troth.core.limits import MAX_SUM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from troth.mechanisms.breakdown import Breakdown
    from troth.mechanisms.round import Round

_MAX_TRIED = 256  # providers up to which a round is tried without each of them
_MIN_DISTANCE = 1e-4  # relative to the largest distance from the others: nearer reports are not named


@np.errstate(all="ignore")
def reject_oversized(this_round: Round) -> None:
    """Reject statistics that are NaN, too large or impossible, and reports with invalid numbers of rows."""
    t = this_round.statistics
    within_limits = t.size == 0 or (t.min() >= -MAX_SUM and t.max() <= MAX_SUM)  # two passes without temporary arrays
    # −∞ is allowed: it rules a state out
    oversized = np.array(False) if within_limits else ~(np.abs(t) <= MAX_SUM) & ~np.isneginf(t)
    if oversized.any():
        *_, provider, entry = where = tuple(int(i) for i in np.argwhere(oversized)[0])
        problem = (
            f"statistic {entry} is {t[where]:.6g}, beyond ±{MAX_SUM:g}: rescale the values, or leave the report out"
        )
        raise ReportError(provider, problem)
    for model, members in this_round.providers_by_model.items():
        reports = t if len(members) == this_round.providers else t[..., members, :]
        max_rows = declared(model).max_rows
        for rows in _rows(this_round, model, members, reports):
            empty = rows == 0
            if empty.any():
                empty &= (reports != 0).any(axis=-1)
            invalid = (rows < 0) | (np.isfinite(rows) & (rows > max_rows)) | empty
            if invalid.any():
                where = tuple(int(i) for i in np.argwhere(invalid)[0])
                problem = f"{rows[where]:.17g} rows, not from 0 to {max_rows:,}"
                if empty[where]:
                    problem = "it has sums but no rows"
                raise ReportError(members[where[-1]], f"{problem}: leave this report out")
        if isinstance(model, ChecksStatistics) and not (possible := model.possible(reports)).all():
            provider = members[int(np.argwhere(~possible)[0][-1])]
            raise ReportError(provider, f"no data have these statistics, because {model.possible_statistics}")


def _rows(this_round: Round, model: Model, members: list[int], reports: Array) -> Iterator[Array]:
    """Yield numbers of rows, both as given and as counted by the model."""
    if this_round.rows is not None:
        yield this_round.count_rows()[..., members]
    if isinstance(model, CountsRows) and not declared(model).recovers_rows:
        with suppress(MissingCapabilityError):
            yield model.rows(reports)


def may_be_due_to_reports(error: Exception) -> bool:
    """Return whether a report may be the cause, rather than the model, the rule or their arguments."""
    if isinstance(error, ReportError):
        return isinstance(error, ScoreOutOfRangeError)
    return isinstance(error, np.linalg.LinAlgError | ArithmeticError) or type(error) in (DataError, ValueError)


def name_reports(error: Exception, this_round: Round, evaluate: Callable[[Round], Breakdown]) -> Exception:
    """Return an error that names the reports without which the round is payable, or the given error if there are none.

    The round is evaluated again without each provider. If no single report is to blame, or there are many providers,
    the reports farthest from the others' are left out, as few as possible.
    """

    def fails_without(left_out: Sequence[int]) -> bool:
        """Return whether some provider cannot be paid even if these reports are empty."""
        providers = list(left_out)
        statistics = this_round.statistics.copy()
        statistics[..., providers, :] = 0.0
        rows = None if this_round.rows is None else this_round.count_rows().copy()
        if rows is not None:
            rows[..., providers] = 0.0
        other = dataclasses.replace(
            this_round, statistics=statistics, rows=rows, rng=copy.deepcopy(this_round.rng), lenient=True
        )
        try:
            with np.errstate(all="ignore"):
                return not np.isfinite(evaluate(other).share).all()
        except (DataError, ValueError, ArithmeticError, np.linalg.LinAlgError):
            return True

    if fails_without(range(this_round.providers)):
        return error
    culprits = _reports_to_leave_out(fails_without, _distance_from_others(this_round.statistics))
    if not culprits or (isinstance(error, ScoreOutOfRangeError) and error.provider in culprits):
        return error
    return UnpayableRoundError(culprits, str(error), together=fails_without(culprits[:1]))


def _reports_to_leave_out(fails_without: Callable[[Sequence[int]], bool], distance: Array) -> list[int]:
    """Return the reports any one of which can be left out; otherwise reports that stop the round together.

    A report that is larger than all others by orders of magnitude can make each of them unpayable, so that leaving out
    any of these would help as well. Then only the large report is named.
    """
    order = [int(j) for j in np.argsort(-distance, kind="stable")]
    if len(order) <= _MAX_TRIED:
        alone = [j for j in sorted(order) if not fails_without([j])]
        if alone:
            return [j for j in alone if distance[j] >= _MIN_DISTANCE * distance[alone].max()]
    low, high = 0, (len(order) + 1) // 2
    if fails_without(order[:high]):
        return []
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fails_without(order[:middle]) else (low, middle)
    together = order[:high]
    for j in together[:_MAX_TRIED]:
        remaining = [k for k in together if k != j]
        together = together if fails_without(remaining) else remaining
    return sorted(together)


def _distance_from_others(statistics: Array) -> Array:
    """Return the distance of each provider's reports from the median report, relative to the median distance."""
    t = np.clip(np.nan_to_num(statistics, nan=MAX_SUM), -MAX_SUM, MAX_SUM)
    distance = np.abs(t - np.median(t, axis=-2, keepdims=True))
    usual = np.median(distance, axis=-2, keepdims=True)
    relative = distance / (usual + 1e-9 * (1 + np.abs(t).min(axis=-2, keepdims=True)))
    return np.asarray(relative.max(axis=(*range(relative.ndim - 2), -1)))
