"""Mechanism 2, corrected: a day's data against that day's peers and the next day's, bounded for every model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from troth.core.claims import Claim
from troth.core.contract import (
    Bounds,
    ComparedDesign,
    ComparesDays,
    Model,
    Models,
    SamplesStatistics,
    explains_target,
    has_independent_rows,
)
from troth.core.errors import DataError, MissingCapabilityError, UnequalSizesError
from troth.core.information import leave_one_out, log_pmi
from troth.mechanisms.bonded import Bonded
from troth.mechanisms.breakdown import Breakdown, Figures, Step, normalise
from troth.mechanisms.description import NO_LIE_GAINS
from troth.mechanisms.disclosure import Span
from troth.mechanisms.divergences import DIVERGENCE, Divergence, logistic, score_formula
from troth.mechanisms.options import Flag, Option, option
from troth.mechanisms.rule import Rule, delegated
from troth.mechanisms.settings import read_rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from troth.core.contract import Array
    from troth.core.settings import Section
    from troth.mechanisms.round import Round

_LEFT_OUT = (
    "its rows or features are not those of the next day, so this report is not among the peers of others for these two "
    "days; its own payment does not depend on that"
)
_ROUNDING = 1e-13  # of a number itself: rows, and weights of rows
_SUMMED = 1e-12  # of what was added up: the same features in another order add up to almost the same numbers
_NO_FEATURES = ComparedDesign(np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class LastDayOption(Option):
    """How the last day is paid: ``"equal"``, or a rule by its name or its table of settings."""

    def problem(self, value: Any) -> str:
        """Say that it must be equal, or a rule."""
        one_day = isinstance(value, Rule) and value.days == 1 and not isinstance(value, Bonded)
        return "" if value == "equal" or one_day else f'must be "equal" or a one-time rule, not {value!r}'

    def read(self, section: Section) -> Literal["equal"] | Rule:
        """Take the word, the name or the table."""
        last = section.take(self.key, self.default)
        if last == "equal":
            return "equal"
        rule = read_rule(section.inner(self.key, {"rule": last} if isinstance(last, str) else last))
        if self.problem(rule):
            raise section.fail(self.key, 'must be "equal", or a rule for a single day')
        return rule

    def write(self, value: Literal["equal"] | Rule) -> dict[str, Any] | None:
        """Return the word or the table."""
        last = "equal" if isinstance(value, str) else value.to_settings()
        return None if last is None else {self.key: last}


_LAST = LastDayOption(
    "last", "equal", "the last day has no next: everybody gets the cap; or the name of a rule", in_form=False
)
EXCHANGEABLE = Flag(
    "exchangeable",
    False,
    "true if numbers of rows or features vary from day to day and nobody can predict them",
    "Numbers of rows or features vary from day to day in a way nobody can predict",
)


class EqualShares(Rule):
    """Pay everybody the full cap: a last day that has no next one."""

    constant_empty_share = True
    pools_peers = True
    symmetric = True
    truthful_by = "equal payments"

    def breakdown(self, this_round: Round, /) -> Breakdown:
        """Score nothing."""
        return Breakdown(np.ones(this_round.own.shape[:-1]))

    def steps(self, figures: Figures, /) -> tuple[Step, ...]:
        """Say why nothing is scored."""
        del figures
        meaning = "The last day has no next one to be compared with, so everybody gets the full cap."
        return (Step("Nothing is scored", meaning=meaning),)

    def share_shown(self, figures: Figures, /) -> Span:
        """Pay everybody the same."""
        del figures
        return Span(1.0, 1.0)


@dataclass(frozen=True)
class MultiDay(Rule):
    """Score f′(1/PMI(own, next day's peers)) − f*(f′(1/PMI(own, same day's peers))), on the divergence's range.

    Days are independent draws of θ from the same prior, and peers must have the same design on both days: equally many
    rows and, in a regression, the same features. Otherwise a provider could distinguish the days and gain by faking
    (erratum E10). So somebody whose design changes from one day to the next, or who is absent on one of them, is left
    out of the others' peers on these two days, and is paid like everybody. Whoever has less than half of its peers left
    is paid as for an empty report: otherwise one who keeps its design could become everybody's only peer. If several
    report on both days and nobody's design stays the same, the round stops.

    Parameters
    ----------
    divergence
        One of `troth.divergences`.
    last
        How the last day, which has no next, is paid: ``"equal"``, the full cap to everybody, or a one-time rule.
    exchangeable
        Declare that numbers of rows, and features, vary from day to day in a way that providers cannot predict.

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

    divergence: Divergence = option(DIVERGENCE, logistic)
    last: Literal["equal"] | Rule = option(_LAST)
    exchangeable: bool = option(EXCHANGEABLE)

    purpose = "a campaign of days; pays a day once the next is in"
    days = 2
    pays_alone = True
    strict_when = "on all days but the last"
    summed_terms = ("next_day", "same_day")
    score_formula = r"\text{score} = " + score_formula("next day’s peers")

    individually_rational = delegated("last_rule", "individually_rational")
    constant_empty_share = delegated("last_rule", "constant_empty_share")
    needs_seed = delegated("last_rule", "needs_seed")
    needs_rows = delegated("last_rule", "needs_rows")
    needs_finite_data = delegated("last_rule", "needs_finite_data")
    pools_peers = delegated("last_rule", "pools_peers")
    peer_draws = delegated("last_rule", "peer_draws")
    symmetric = delegated("last_rule", "symmetric")
    feasible = delegated("last_rule", "feasible")
    refuses = delegated("last_rule", "refuses")
    strict = delegated("divergence", "strictly_convex")
    scale = delegated("divergence", "scale")

    @property
    def last_rule(self) -> Rule:
        """The rule of the last day."""
        return self.last if isinstance(self.last, Rule) else EqualShares()

    @property
    def term_labels(self) -> Mapping[str, str]:  # type: ignore[override]
        """Those of both days, and of the last day's rule."""
        return {
            **self.last_rule.term_labels,
            "next_day_log_pmi": "log PMI with the next day's peers",
            "next_day": "term of the next day's peers",
            "same_day": "term of the same day's peers",
        }

    @property
    def score_meaning(self) -> str:  # type: ignore[override]
        """What f is."""
        return "The next day's peers know nothing about this day. " + self.divergence.meaning

    def prepared(self, model: Models, rows: Sequence[int] | None, values: Bounds | None = None) -> Rule:
        """Prepare the last day's rule."""
        return replace(self, last=self.last.prepared(model, rows, values)) if isinstance(self.last, Rule) else self

    def drawing(self, most: int) -> Rule:
        """Let the last day's rule draw less often."""
        return replace(self, last=self.last.drawing(most)) if isinstance(self.last, Rule) else self

    def breakdown(self, this_round: Round, /) -> Breakdown:
        """Score every day but the last against the next."""
        if this_round.own.ndim < 3:
            raise DataError(f"statistics must have shape (..., day, provider, statistic), not {this_round.own.shape}")
        same, here, there, left_out = self._compared(this_round)
        other = log_pmi(this_round.evidence, this_round.own[..., :-1, :, :], there)
        f = self.divergence
        mismatched, matched = f.mismatched(other), f.matched(same[..., :-1, :])
        score = mismatched + matched
        contradict = [np.isneginf(this_round.evidence.log_evidence(side)) for side in (here, there)]
        unclear = contradict[0] | contradict[1]
        share = np.where(unclear, f.empty_share, normalise(score, f.low, f.high))
        score = np.where(unclear, np.nan, score)
        final = self._last_day(this_round)
        blank = np.full_like(final.share, np.nan)
        terms = {"next_day_log_pmi": other, "next_day": mismatched, "same_day": matched}
        days = score.shape[-2]
        before = np.full_like(score, np.nan)
        of_last_day = {key: np.concatenate([before, term], axis=-2) for key, term in final.terms.items()}
        return Breakdown(
            share=np.concatenate([share, final.share], axis=-2),
            log_pmi=same,
            score=np.concatenate([score, blank if final.score is None else final.score], axis=-2),
            low=np.array([f.low] * days + [final.low])[:, None],
            high=np.array([f.high] * days + [final.high])[:, None],
            terms={key: np.concatenate([term, blank], axis=-2) for key, term in terms.items()} | of_last_day,
            note=_LEFT_OUT if left_out.any() else "",
            noted=np.concatenate([left_out, np.zeros(final.share.shape, dtype=bool)], axis=-2),
        )

    def contradicted(self, this_round: Round, /) -> Any:
        """Return whose peers of the same day contradict each other, on the last day as its rule sees it."""
        contradicted = np.array(super().contradicted(this_round))
        contradicted[..., -1:, :] = self.last_rule.contradicted(self._of_last_day(this_round))
        return contradicted

    def evaluate_empty(self, this_round: Round, /) -> Array:
        """f(1) on the scale, and on the last day what its rule pays an empty report."""
        share = np.full(this_round.own.shape[:-1], self.divergence.empty_share)
        share[..., -1:, :] = self.last_rule.evaluate_empty(self._of_last_day(this_round))
        return share

    def steps(self, figures: Figures, /) -> tuple[Step, ...]:
        """Explain the last day by its own rule."""
        if "next_day" not in figures.terms:
            return self.last_rule.steps(figures)
        if figures.score is None:
            meaning = "Peers contradict each other, on this day or on the next: a report is paid as if it were empty."
            return (Step("Nothing is scored", meaning=meaning),)
        return super().steps(figures)

    def share_shown(self, figures: Figures, /) -> Span | None:
        """Compute the last day's share by its own rule."""
        return super().share_shown(figures) if "next_day" in figures.terms else self.last_rule.share_shown(figures)

    def truthful(self, model: Models, rows: Sequence[int], values: Bounds | None = None) -> Claim:
        """Every day is truthful against the next, and the last by its own rule."""
        designs = (
            "nobody can predict peers' designs, as is declared"
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

    def _last_day(self, this_round: Round) -> Breakdown:
        return self.last_rule.breakdown(self._of_last_day(this_round))

    def _of_last_day(self, this_round: Round) -> Round:
        rows = None if this_round.rows is None else this_round.count_rows()[..., -1:, :]
        day = replace(this_round, statistics=this_round.statistics[..., -1:, :, :], rows=rows)
        scored_as_reported = this_round.own is this_round.statistics
        return day if scored_as_reported else day.with_own(this_round.own[..., -1:, :, :])

    def _compared(self, this_round: Round) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
        """Return log PMI with the same day's peers, those peers, the next day's, and who is not among them.

        Where a provider's peers have another design on the next day (erratum E10), those whose own design changes are
        left out on both days. That depends on their reports alone, so nobody chooses what it is compared with. Where
        designs are exchangeable, somebody whose peers all report on one of the days alone has none.
        """
        peers, same = this_round.peers, this_round.log_pmi()
        nobody = np.zeros(this_round.own[..., :-1, :, 0].shape, dtype=bool)
        if self.exchangeable or this_round.own.shape[-3] < 2:
            here, there = peers[..., :-1, :, :], peers[..., 1:, :, :]
            on_both = np.asarray(here.any(axis=-1) & there.any(axis=-1))
            if not on_both.all():
                same = same.copy()
                same[..., :-1, :] = np.where(on_both, same[..., :-1, :], 0.0)
                here, there = (np.where(on_both[..., None], side, 0.0) for side in (here, there))
            return same, here, there, nobody
        own = _designs(this_round)
        rows = own.values[..., 0]
        pooled = isinstance(this_round.model, Model) and has_independent_rows(this_round.model)
        same_design = _unchanged(own)
        agree = nobody
        if pooled:
            agree = _unchanged(ComparedDesign(*(leave_one_out(part, this_round.groups) for part in own)))
        if agree.all() or same_design.all():
            return same, peers[..., :-1, :, :], peers[..., 1:, :, :], nobody
        reported = (this_round.statistics != 0).any(axis=-1)
        now, later = reported[..., :-1, :], reported[..., 1:, :]
        stopped = ((now & later).sum(axis=-1) > 1) & ~(same_design & later).any(axis=-1)
        if stopped.any():
            *leading, day = (int(i) for i in np.argwhere(stopped)[0])
            provider = int(np.argmin(same_design[(*leading, day)]))
            before, after = (float(rows[(*leading, day + k, provider)]) for k in (0, 1))
            raise UnequalSizesError(provider, day, (before, after))
        here, there = (
            np.where(agree[..., None], peers[..., days, :, :], leave_one_out(unchanged, this_round.groups))
            for days in (slice(None, -1), slice(1, None))
            for unchanged in [np.where(same_design[..., None], this_round.statistics[..., days, :, :], 0.0)]
        )
        lonely = few_left(this_round, now & later, same_design) & ~agree
        here, there = (np.where(lonely[..., None], 0.0, side) for side in (here, there))
        same = same.copy()
        possible = ~np.isneginf(this_round.evidence.log_evidence(here))
        same[..., :-1, :] = np.where(possible, log_pmi(this_round.evidence, this_round.own[..., :-1, :, :], here), 0.0)
        return same, here, there, ~same_design & ~agree.all(axis=-1, keepdims=True)


def _unchanged(designs: ComparedDesign) -> NDArray[np.bool_]:
    """Return whose design is the same on the next day, up to rounding."""
    values, rounding = designs
    before, after = values[..., :-1, :, :], values[..., 1:, :, :]
    room = _ROUNDING * np.maximum(np.abs(before), np.abs(after))
    room += _SUMMED * np.maximum(rounding[..., :-1, :, :], rounding[..., 1:, :, :])
    return np.asarray((np.abs(after - before) <= room).all(axis=-1))


def few_left(this_round: Round, reported: NDArray[np.bool_], stay: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return who has less than half of its peers left, of those who reported on all days compared.

    That depends on the peers' reports alone, so nobody chooses the empty share, or not to get it.
    """
    counts = np.stack([reported, reported & stay], axis=-1).astype(np.float64)
    of, left = np.moveaxis(leave_one_out(counts, this_round.groups), -1, 0)
    return np.asarray(2 * left < of)


def same_designs(this_round: Round) -> NDArray[np.bool_]:
    """Return whose design, rows and features, is the same on the next day: ``(..., day, provider)``."""
    return _unchanged(_designs(this_round))


def _designs(this_round: Round) -> ComparedDesign:
    """Return rows and, where there are features, what models compare these by: ``(..., provider, number)``.

    Audits and backtests bring reports that would be refused, and features that are drawn anew each day, which is as if
    they were exchangeable: there rows alone are compared.
    """
    rows = this_round.count_rows()[..., None]
    designs = [ComparedDesign(rows, np.zeros_like(rows))]
    for model, members in this_round.providers_by_model.items():
        compared = _NO_FEATURES if this_round.lenient else _features(model, this_round, members)
        if compared.values.size:
            everyone = np.zeros((2, *rows.shape[:-1], compared.values.shape[-1]))
            everyone[..., members, :] = compared
            designs.append(ComparedDesign(*everyone))
    return ComparedDesign(*(np.concatenate(parts, axis=-1) for parts in zip(*designs, strict=True)))


def _features(model: Model, this_round: Round, members: list[int]) -> ComparedDesign:
    """Return what a model compares days by beside rows: by its own account, or all of a design that has more."""
    statistics = this_round.statistics[..., members, :]
    if isinstance(model, ComparesDays):
        return model.compared_design(statistics)
    with_features = explains_target(model)
    if isinstance(model, SamplesStatistics):
        try:
            more_than_rows = model.design(np.zeros((1, statistics.shape[-1]))).shape[-1] > 1
        except MissingCapabilityError:
            more_than_rows = with_features
        design = model.design(statistics) if more_than_rows else np.zeros(0)
        return ComparedDesign(design, np.zeros_like(design))
    if with_features:
        raise MissingCapabilityError(
            f"{type(model).__name__} does not say by what features days are compared (erratum E10): give it a method "
            "compared_design, or declare exchangeable=True if providers cannot predict how features vary"
        )
    return _NO_FEATURES
