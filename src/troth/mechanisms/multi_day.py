"""Mechanism 2, corrected: a day's data against that day's peers and the next day's, bounded for every model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from troth.core.contract import Model, has_independent_rows
from troth.core.errors import DataError, ParameterError, UnequalSizesError
from troth.core.information import leave_one_out, log_pmi
from troth.mechanisms.divergences import Divergence, logistic
from troth.mechanisms.rule import Breakdown, Round, Rule, normalise

if TYPE_CHECKING:
    from troth.core.contract import Array


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
    constant_empty_share = True
    pools_peers = True

    def __post_init__(self) -> None:
        if self.last != "equal" and not isinstance(self.last, Rule):
            raise ParameterError(f'MultiDay: last must be "equal" or a one-time rule, not {self.last!r}')

    @property
    def individually_rational(self) -> bool:  # type: ignore[override]
        """Unless the last day's rule can pay less than nothing."""
        return not isinstance(self.last, Rule) or self.last.individually_rational

    def breakdown(self, this_round: Round, /) -> Breakdown:
        """Score every day but the last against the next."""
        if this_round.own.ndim < 3:
            raise DataError(f"statistics must have shape (..., day, provider, statistic), not {this_round.own.shape}")
        if not self.exchangeable:
            self._check_sizes(this_round)
        same = this_round.log_pmi()
        earlier, later = np.s_[..., :-1, :, :], np.s_[..., 1:, :, :]
        other = log_pmi(this_round.evidence, this_round.own[earlier], this_round.peers[later])
        f = self.divergence
        mismatched, matched = f.mismatched(other), f.matched(same[..., :-1, :])
        score = mismatched + matched
        share = np.where(this_round.peers_contradict[..., 1:, :], f.empty_share, normalise(score, f.low, f.high))
        final = self._last_day(this_round)
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

    def empty_share_of(self, this_round: Round, /) -> Array:
        """f(1) on the scale, and on the last day what its rule pays for nothing."""
        share = np.full(this_round.own.shape[:-1], self.divergence.empty_share)
        share[..., -1:, :] = self._last_day(this_round.with_nothing()).share
        return share

    def _last_day(self, this_round: Round) -> Breakdown:
        own = this_round.own[..., -1:, :, :]
        if isinstance(self.last, str):
            return Breakdown(np.ones(own.shape[:-1]))
        rows = (
            None
            if this_round.rows is None
            else np.broadcast_to(this_round.rows, this_round.own.shape[:-1])[..., -1:, :]
        )
        reports = this_round.statistics[..., -1:, :, :]
        day = Round(
            this_round.model, reports, this_round.groups, rows, this_round.rng, this_round.test, this_round.lenient
        )
        return self.last.breakdown(day if this_round.own is this_round.statistics else day.with_own(own))

    def _check_sizes(self, this_round: Round) -> None:
        if this_round.own.shape[-3] < 2:
            return
        rows = this_round.count_rows()
        pooled = isinstance(this_round.model, Model) and has_independent_rows(this_round.model)
        sizes = leave_one_out(rows[..., None], this_round.groups)[..., 0] if pooled else rows
        unequal = ~np.isclose(sizes[..., 1:, :], sizes[..., :-1, :], rtol=1e-9)
        if unequal.any():
            *leading, day, provider = (int(i) for i in np.argwhere(unequal)[0])
            before, after = (sizes[(*leading, day + k, provider)] for k in (0, 1))
            whose = f"peers of provider {provider}" if pooled else f"provider {provider}"
            raise UnequalSizesError(
                f"{whose}: {before:g} rows on day {day} but {after:g} on day {day + 1}; unequal sizes make faking pay, "
                "so take equally many rows, or declare exchangeable=True if providers cannot foresee the sizes"
            )
