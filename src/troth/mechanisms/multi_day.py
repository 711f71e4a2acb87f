"""Mechanism 2, corrected: compare data with the same day's and the next day's peers; bounded for every model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from troth.core.claims import Claim
from troth.core.contract import Array, Bounds, ComparedDesign, Mask, Model, Models, has_independent_rows
from troth.core.delegation import delegates
from troth.core.errors import DataError
from troth.core.information import impossible, leave_one_out, log_pmi
from troth.mechanisms.bonded import Bonded
from troth.mechanisms.breakdown import Breakdown, Figures, Step, join_days, normalise
from troth.mechanisms.compared_days import EXCHANGEABLE, UnequalSizesError, daily_designs, has_too_few_peers, unchanged
from troth.mechanisms.description import NO_LIE_GAINS
from troth.mechanisms.disclosure import Span
from troth.mechanisms.divergences import DIVERGENCE, Divergence, logistic, score_formula
from troth.mechanisms.options import Option, option
from troth.mechanisms.rule import Rule
from troth.mechanisms.settings import read_rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.core.settings import Section
    from troth.mechanisms.round import Round

_LEFT_OUT = (
    "its rows or features are not those of the next day, so this report is not among the peers of others for these two "
    "days; its own payment does not depend on that"
)

_LAST_DAY = slice(-1, None)


@dataclass(frozen=True)
class LastDayOption(Option):
    """How the last day is paid: ``"equal"``, or a rule by name or as a table of settings."""

    def problem(self, value: Any) -> str:
        one_day = isinstance(value, Rule) and value.days == 1 and not isinstance(value, Bonded)
        return "" if value == "equal" or one_day else f'must be "equal" or a one-time rule, not {value!r}'

    def read(self, section: Section) -> Literal["equal"] | Rule:
        last = section.take(self.key, self.default)
        if last == "equal":
            return "equal"
        rule = read_rule(section.subsection(self.key, {"rule": last} if isinstance(last, str) else last))
        if self.problem(rule):
            raise section.error_at(self.key, 'must be "equal", or a rule for a single day')
        return rule

    def write(self, value: Literal["equal"] | Rule) -> dict[str, Any] | None:
        last = "equal" if isinstance(value, str) else value.to_settings()
        return None if last is None else {self.key: last}


_LAST = LastDayOption(
    "last", "equal", "the last day has no next day: everybody gets the cap; or the name of a rule", in_form=False
)


class EqualShares(Rule):
    """Pay every provider the full cap, on a last day that has no next one."""

    constant_empty_share = True
    pools_peers = True
    symmetric = True
    truthful_by = "equal payments"

    def breakdown(self, this_round: Round, /) -> Breakdown:
        return Breakdown(np.ones(this_round.own.shape[:-1]))

    def steps(self, figures: Figures, /) -> tuple[Step, ...]:
        meaning = "The last day has no next one to be compared with, so everybody gets the full cap."
        return (Step("Nothing is scored", meaning=meaning),)

    def share_shown(self, figures: Figures, /) -> Span:
        return Span(1.0, 1.0)


@delegates("last_rule", "individually_rational", "constant_empty_share", "symmetric", "feasible", "refuses")
@delegates("last_rule", "needs_seed", "needs_rows", "needs_finite_data", "pools_peers", "peer_draws")
@delegates("divergence", "scale", strict="strictly_convex")
@dataclass(frozen=True)
class MultiDay(Rule):
    """Score f′(1/PMI(own, next day's peers)) − f*(f′(1/PMI(own, same day's peers))), on the divergence's range.

    Days are independent draws of θ from the same prior, and peers must have the same design on both days: the same
    number of rows and, in a regression, the same features. Otherwise a provider could tell the days apart and gain by
    faking (erratum E10). So a provider whose design changes from one day to the next, or who is absent on one of them,
    is removed from the others' peers on these two days, but is paid as usual. A provider with fewer than half of its
    peers left is paid as for an empty report: otherwise a provider that keeps its design could become the only peer of
    all others. If several providers report on both days and all their designs change, the round stops.

    Parameters
    ----------
    divergence
        One of `troth.divergences`.
    last
        How the last day is paid, which has no next day: ``"equal"``, the full cap for all, or a one-time rule.
    exchangeable
        Declare that numbers of rows, and features, vary from day to day in a way that providers cannot predict.

    Notes
    -----
    Statistics have shape ``(..., day, provider, statistic)``, payments ``(..., day, provider)``; the budget is per
    day, one number or one for each.

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

    divergence: Divergence = option(DIVERGENCE, logistic)
    last: Literal["equal"] | Rule = option(_LAST)
    exchangeable: bool = option(EXCHANGEABLE)

    purpose = "a campaign of days; pays each day after the next one arrives"
    days = 2
    pays_alone = True
    strict_when = "on all days but the last"
    summed_terms = ("next_day", "same_day")
    score_formula = r"\text{score} = " + score_formula("next day’s peers")

    @property
    def last_rule(self) -> Rule:
        """The rule of the last day."""
        return self.last if isinstance(self.last, Rule) else EqualShares()

    @property
    def term_labels(self) -> Mapping[str, str]:  # type: ignore[override]
        """The labels of the terms of both days, and of the last day's rule."""
        return {
            **self.last_rule.term_labels,
            "next_day_log_pmi": "log PMI with the next day's peers",
            "next_day": "term of the next day's peers",
            "same_day": "term of the same day's peers",
        }

    @property
    def score_meaning(self) -> str:  # type: ignore[override]
        return "The next day's peers know nothing about this day. " + self.divergence.meaning

    def prepared(self, model: Models, rows: Sequence[int] | None, values: Bounds | None = None) -> Rule:
        return replace(self, last=self.last.prepared(model, rows, values)) if isinstance(self.last, Rule) else self

    def drawing(self, max_draws: int) -> Rule:
        return replace(self, last=self.last.drawing(max_draws)) if isinstance(self.last, Rule) else self

    def breakdown(self, this_round: Round, /) -> Breakdown:
        if this_round.own.ndim < 3:
            raise DataError(f"statistics must have shape (..., day, provider, statistic), not {this_round.own.shape}")
        same, peers_today, peers_next_day, left_out = self._compared(this_round)
        other = log_pmi(this_round.evidence, this_round.own[..., :-1, :, :], peers_next_day)
        f = self.divergence
        mismatched, matched = f.mismatched(other), f.matched(same[..., :-1, :])
        score = mismatched + matched
        contradictory = impossible(this_round.evidence, peers_today) | impossible(this_round.evidence, peers_next_day)
        share = np.where(contradictory, f.empty_share, normalise(score, f.low, f.high))
        score = np.where(contradictory, np.nan, score)
        terms = {"next_day_log_pmi": other, "next_day": mismatched, "same_day": matched}
        compared = Breakdown(share, score=score, low=f.low, high=f.high, terms=terms, noted=left_out)
        last = replace(self.last_rule.breakdown(this_round.on_days(_LAST_DAY)), noted=False)
        return replace(join_days([compared, last]), log_pmi=same, note=_LEFT_OUT if left_out.any() else "")

    def contradicted(self, this_round: Round, /) -> Any:
        """Return a mask of providers whose peers of the day contradict each other; the last day asks its rule."""
        contradicted = np.array(super().contradicted(this_round))
        contradicted[..., -1:, :] = self.last_rule.contradicted(this_round.on_days(_LAST_DAY))
        return contradicted

    def evaluate_empty(self, this_round: Round, /) -> Array:
        """Return f(1) on the scale and, for the last day, the empty share of its rule."""
        share = np.full(this_round.own.shape[:-1], self.divergence.empty_share)
        share[..., -1:, :] = self.last_rule.evaluate_empty(this_round.on_days(_LAST_DAY))
        return share

    def steps(self, figures: Figures, /) -> tuple[Step, ...]:
        if "next_day" not in figures.terms:
            return self.last_rule.steps(figures)
        if figures.score is None:
            meaning = "Peers contradict each other, on this day or on the next: a report is paid as if it were empty."
            return (Step("Nothing is scored", meaning=meaning),)
        return super().steps(figures)

    def share_shown(self, figures: Figures, /) -> Span | None:
        return super().share_shown(figures) if "next_day" in figures.terms else self.last_rule.share_shown(figures)

    def truthful(self, model: Models, rows: Sequence[int], values: Bounds | None = None) -> Claim:
        """Claim truthfulness of each day against the next, and of the last day by its own rule."""
        designs = (
            "peers' designs are declared unpredictable"
            if self.exchangeable
            else "peers are those with the same design, rows and features, on both days"
        )
        text = f"{NO_LIE_GAINS}, if days are independent draws and {designs}"
        claim = Claim("truthful", "proved", text, "Theorem on Mechanism 2, with E6, E7 and E10", 0.0)
        if self.last == "equal":
            return claim
        last = self.last_rule.truthful(model, rows, values)
        text, basis = f"{text}; on the last day {last.text}", f"{claim.basis}; {last.basis}"
        return replace(last, text=text, basis=basis) if last.verdict == "proved" else last

    def _compared(self, this_round: Round) -> tuple[Array, Array, Array, Mask]:
        """Return log PMI with the same day's peers, these peers, the next day's, and a mask of removed providers.

        If designs are exchangeable, a provider whose peers report on only one of the two days has no peers.
        """
        peers, same = this_round.peers, this_round.log_pmi()
        peers_today, peers_next_day = peers[..., :-1, :, :], peers[..., 1:, :, :]
        none_removed = np.zeros(this_round.own[..., :-1, :, 0].shape, dtype=bool)
        if self.exchangeable or this_round.own.shape[-3] < 2:
            on_both = np.asarray(peers_today.any(axis=-1) & peers_next_day.any(axis=-1))
            if not on_both.all():
                same = same.copy()
                same[..., :-1, :] = np.where(on_both, same[..., :-1, :], 0.0)
                peers_today, peers_next_day = (
                    np.where(on_both[..., None], side, 0.0) for side in (peers_today, peers_next_day)
                )
            return same, peers_today, peers_next_day, none_removed
        own = daily_designs(this_round)
        same_design, agree = unchanged(own), none_removed
        if isinstance(this_round.model, Model) and has_independent_rows(this_round.model):
            agree = unchanged(ComparedDesign(*(leave_one_out(part, this_round.groups) for part in own)))
        if agree.all() or same_design.all():
            return same, peers_today, peers_next_day, none_removed
        reported = (this_round.statistics != 0).any(axis=-1)
        now, later = reported[..., :-1, :], reported[..., 1:, :]
        stopped = ((now & later).sum(axis=-1) > 1) & ~(same_design & later).any(axis=-1)
        if stopped.any():
            *leading, day = (int(i) for i in np.argwhere(stopped)[0])
            provider = int(np.argmin(same_design[(*leading, day)]))
            before, after = (float(own.values[(*leading, day + k, provider, 0)]) for k in (0, 1))
            raise UnequalSizesError(provider, day, (before, after))
        too_few_peers = has_too_few_peers(this_round, now & later, same_design) & ~agree

        def compared(days: slice) -> Array:
            staying = np.where(same_design[..., None], this_round.statistics[..., days, :, :], 0.0)
            left = np.where(agree[..., None], peers[..., days, :, :], leave_one_out(staying, this_round.groups))
            return np.where(too_few_peers[..., None], 0.0, left)

        peers_today, peers_next_day = compared(slice(None, -1)), compared(slice(1, None))
        same = same.copy()
        score = log_pmi(this_round.evidence, this_round.own[..., :-1, :, :], peers_today)
        same[..., :-1, :] = np.where(impossible(this_round.evidence, peers_today), 0.0, score)
        return same, peers_today, peers_next_day, ~same_design & ~agree.all(axis=-1, keepdims=True)
