"""Mechanism 2, corrected: a day's data against that day's peers and the next day's, bounded for every model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from troth.errors import DataError, ParameterError, UnequalSizesError
from troth.information import leave_one_out, log_pmi
from troth.mechanisms.divergences import Divergence, logistic
from troth.mechanisms.rule import Breakdown, Round, Rule, normalise
from troth.model import Model, has_independent_rows

if TYPE_CHECKING:
    from troth.model import Array


@dataclass(frozen=True)
class MultiDay(Rule):
    """Score f′(1/PMI(own, next day's peers)) − f*(f′(1/PMI(own, same day's peers))), on the divergence's range.

    Days are independent draws of θ from the same prior, and peers must have equally many rows on both days (erratum
    E10), or one could tell them apart and gain by faking.

    Parameters
    ----------
    divergence
        One of `troth.divergences`.
    last
        How the last day, which has no next, is paid: ``"equal"``, the whole cap to everybody, or a one-time rule.
    exchangeable
        Declare that numbers of rows vary from day to day in a way that providers cannot foresee.

    Notes
    -----
    Statistics have shape ``(..., day, provider, statistic)``, payments ``(..., day, provider)``; the budget is each
    day's, one number or one per day.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(1, 1)
    >>> days = [[[1, 1, 1], [1, 1, 0], [0, 1, 1]], [[0, 0, 1], [0, 0, 0], [1, 0, 0]]]
    >>> t = np.array([[model.statistics(x) for x in day] for day in days])
    >>> MultiDay().pay(model, t, budget=30.0).round(2)
    array([[ 9.29,  7.24,  8.17],
           [10.  , 10.  , 10.  ]])
    """

    divergence: Divergence = logistic
    last: Literal["equal"] | Rule = "equal"
    exchangeable: bool = False

    days = 2
    constant_for_nothing = True
    pools_peers = True

    def __post_init__(self) -> None:
        if self.last != "equal" and not isinstance(self.last, Rule):
            raise ParameterError(f'MultiDay: last must be "equal" or a one-time rule, not {self.last!r}')

    @property
    def individually_rational(self) -> bool:  # type: ignore[override]
        """Unless the last day's rule can pay less than nothing."""
        return not isinstance(self.last, Rule) or self.last.individually_rational

    def breakdown(self, round: Round, /) -> Breakdown:  # noqa: A002
        """Score every day but the last against the next."""
        if round.own.ndim < 3:
            raise DataError(f"statistics must have shape (..., day, provider, statistic), not {round.own.shape}")
        if not self.exchangeable:
            self._check_sizes(round)
        same = round.log_pmi()
        earlier, later = np.s_[..., :-1, :, :], np.s_[..., 1:, :, :]
        other = log_pmi(round.evidence, round.own[earlier], round.peers[later])
        f = self.divergence
        mismatched, matched = f.mismatched(other), f.matched(same[..., :-1, :])
        score = mismatched + matched
        share = np.where(round.peers_contradict[..., 1:, :], f.empty_share, normalise(score, f.low, f.high))
        final = self._last_day(round)
        blank = np.full_like(final.share, np.nan)
        lasting = blank if final.score is None else final.score
        low, high = (
            np.array([end] * score.shape[-2] + [last])[:, None]
            for end, last in ((f.low, final.low), (f.high, final.high))
        )
        return Breakdown(
            share=np.concatenate([share, final.share], axis=-2),
            log_pmi=same,
            score=np.concatenate([score, lasting], axis=-2),
            low=low,
            high=high,
            terms={
                "log PMI with the next day's peers": np.concatenate([other, blank], axis=-2),
                "term of the next day's peers": np.concatenate([mismatched, blank], axis=-2),
                "term of the same day's peers": np.concatenate([matched, blank], axis=-2),
            },
        )

    def share_for_nothing(self, round: Round, /) -> Array:  # noqa: A002
        """f(1) on the scale, and on the last day what its rule pays for nothing."""
        share = np.full(round.own.shape[:-1], self.divergence.empty_share)
        share[..., -1:, :] = self._last_day(round.with_nothing()).share
        return share

    def _last_day(self, round: Round) -> Breakdown:  # noqa: A002
        own = round.own[..., -1:, :, :]
        if isinstance(self.last, str):
            return Breakdown(np.ones(own.shape[:-1]))
        rows = None if round.rows is None else np.broadcast_to(round.rows, round.own.shape[:-1])[..., -1:, :]
        reports = round.statistics[..., -1:, :, :]
        day = Round(round.model, reports, round.groups, rows, round.rng, round.test, round.lenient)
        return self.last.breakdown(day if round.own is round.statistics else day.with_own(own))

    def _check_sizes(self, round: Round) -> None:  # noqa: A002
        if round.own.shape[-3] < 2:
            return
        rows = round.count_rows()
        pooled = isinstance(round.model, Model) and has_independent_rows(round.model)
        sizes = leave_one_out(rows[..., None], round.groups)[..., 0] if pooled else rows
        unequal = ~np.isclose(sizes[..., 1:, :], sizes[..., :-1, :], rtol=1e-9)
        if unequal.any():
            *leading, day, provider = (int(i) for i in np.argwhere(unequal)[0])
            before, after = (sizes[(*leading, day + k, provider)] for k in (0, 1))
            whose = f"peers of provider {provider}" if pooled else f"provider {provider}"
            raise UnequalSizesError(
                f"{whose}: {before:g} rows on day {day} but {after:g} on day {day + 1}; unequal sizes make faking pay, "
                "so take equally many rows, or declare exchangeable=True if providers cannot foresee the sizes"
            )
