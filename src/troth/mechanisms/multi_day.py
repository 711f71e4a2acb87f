"""Mechanism 2, corrected: a day's data against that day's peers and the next day's, bounded for every model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from troth.core.claims import Claim, weaker
from troth.core.contract import Bounds, Model, Models, has_independent_rows
from troth.core.errors import DataError, UnequalSizesError
from troth.core.information import leave_one_out, log_pmi
from troth.mechanisms.bonded import Bonded
from troth.mechanisms.breakdown import Breakdown, Figures, Step, normalise
from troth.mechanisms.description import NO_LIE_GAINS
from troth.mechanisms.divergences import DIVERGENCE, Divergence, logistic, score_formula
from troth.mechanisms.options import Flag, Option, option
from troth.mechanisms.rule import Rule, delegated
from troth.mechanisms.settings import read_rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.core.contract import Array
    from troth.core.settings import Section
    from troth.mechanisms.round import Round


@dataclass(frozen=True)
class LastDayOption(Option):
    """How the last day is paid: ``"equal"``, or a rule by its name or its table of settings."""

    def problem(self, value: Any) -> str:
        """Say that it must be equal, or a rule."""
        valid = value == "equal" or isinstance(value, Rule)
        return "" if valid else f'must be "equal" or a one-time rule, not {value!r}'

    def read(self, section: Section) -> Literal["equal"] | Rule:
        """Take the word, the name or the table."""
        last = section.take(self.key, self.default)
        if last == "equal":
            return "equal"
        rule = read_rule(section.inner(self.key, {"rule": last} if isinstance(last, str) else last))
        if rule.days > 1 or isinstance(rule, Bonded):
            raise section.fail(self.key, "must be equal, or a rule that looks at one day")
        return rule

    def write(self, value: Literal["equal"] | Rule) -> dict[str, Any] | None:
        """Return the word or the table."""
        last = "equal" if isinstance(value, str) else value.to_settings()
        return None if last is None else {self.key: last}


_LAST = LastDayOption(
    "last", "equal", "the last day has no next: everybody gets the cap; or the name of a rule", in_form=False
)
_EXCHANGEABLE = Flag(
    "exchangeable",
    False,
    "true if numbers of rows vary from day to day and nobody can foresee them",
    "Numbers of rows vary from day to day in a way nobody can foresee",
)


class EqualShares(Rule):
    """Pay everybody the full cap: a last day that has no next one."""

    constant_empty_share = True
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


@dataclass(frozen=True)
class MultiDay(Rule):
    """Score f′(1/PMI(own, next day's peers)) − f*(f′(1/PMI(own, same day's peers))), on the divergence's range.

    Days are independent draws of θ from the same prior, and peers must have equally many rows on both days (erratum
    E10), or a provider could distinguish the days and gain by faking. Where they have not, those who do not are no
    peers: whoever is absent on the next day, or reports more or fewer rows, keeps nobody else from being paid. If
    nobody at all has equally many rows on both days, nothing is paid.

    Parameters
    ----------
    divergence
        One of `troth.divergences`.
    last
        How the last day, which has no next, is paid: ``"equal"``, the full cap to everybody, or a one-time rule.
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

    divergence: Divergence = option(DIVERGENCE, logistic)
    last: Literal["equal"] | Rule = option(_LAST)
    exchangeable: bool = option(_EXCHANGEABLE)

    purpose = "a campaign of days; pays a day once the next is in"
    days = 2
    pools_peers = True
    strict_when = "on all days but the last"
    term_labels: ClassVar[Mapping[str, str]] = {
        "next_day_log_pmi": "log PMI with the next day's peers",
        "next_day": "term of the next day's peers",
        "same_day": "term of the same day's peers",
    }
    summed_terms = ("next_day", "same_day")
    score_formula = r"\text{score} = " + score_formula("next day’s peers")

    individually_rational = delegated("last_rule", "individually_rational")
    constant_empty_share = delegated("last_rule", "constant_empty_share")
    needs_seed = delegated("last_rule", "needs_seed")
    needs_rows = delegated("last_rule", "needs_rows")
    peer_draws = delegated("last_rule", "peer_draws")
    symmetric = delegated("last_rule", "symmetric")
    feasible = delegated("last_rule", "feasible")
    strict = delegated("divergence", "strictly_convex")
    scale = delegated("divergence", "scale")

    @property
    def last_rule(self) -> Rule:
        """The rule of the last day."""
        return self.last if isinstance(self.last, Rule) else EqualShares()

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
        same = this_round.log_pmi()
        other = log_pmi(this_round.evidence, this_round.own[..., :-1, :, :], this_round.peers[..., 1:, :, :])
        contradict = this_round.peers_contradict[..., 1:, :]
        unequal = None if self.exchangeable else self._unequal_peers(this_round)
        if unequal is not None and unequal.any():
            compared = self._compare_equal_sizes(this_round)
            same[..., :-1, :], other, contradict = (
                np.where(unequal, mine, all_peers)
                for mine, all_peers in zip(compared, (same[..., :-1, :], other, contradict), strict=True)
            )
        f = self.divergence
        mismatched, matched = f.mismatched(other), f.matched(same[..., :-1, :])
        score = mismatched + matched
        share = np.where(contradict, f.empty_share, normalise(score, f.low, f.high))
        final = self._last_day(this_round)
        blank = np.full_like(final.share, np.nan)
        terms = {"next_day_log_pmi": other, "next_day": mismatched, "same_day": matched}
        days = score.shape[-2]
        return Breakdown(
            share=np.concatenate([share, final.share], axis=-2),
            log_pmi=same,
            score=np.concatenate([score, blank if final.score is None else final.score], axis=-2),
            low=np.array([f.low] * days + [final.low])[:, None],
            high=np.array([f.high] * days + [final.high])[:, None],
            terms={key: np.concatenate([term, blank], axis=-2) for key, term in terms.items()},
        )

    def evaluate_empty(self, this_round: Round, /) -> Array:
        """f(1) on the scale, and on the last day what its rule pays an empty report."""
        share = np.full(this_round.own.shape[:-1], self.divergence.empty_share)
        share[..., -1:, :] = self._last_day(this_round.with_empty_reports()).share
        return share

    def steps(self, figures: Figures, /) -> tuple[Step, ...]:
        """Explain the last day by its own rule."""
        return super().steps(figures) if "next_day" in figures.terms else self.last_rule.steps(figures)

    def truthful(self, model: Models, rows: Sequence[int], values: Bounds | None = None) -> Claim:
        """Every day is truthful against the next, and the last by its own rule."""
        sizes = "sizes are declared exchangeable" if self.exchangeable else "peers have equally many rows on both days"
        text = f"{NO_LIE_GAINS}, if days are independent draws and {sizes}"
        claim = Claim("truthful", "proved", text, "Theorem on Mechanism 2, with E6, E7 and E10", 0.0)
        return weaker(claim, self.last_rule.truthful(model, rows, values))

    def _last_day(self, this_round: Round) -> Breakdown:
        rows = None if this_round.rows is None else this_round.count_rows()[..., -1:, :]
        day = replace(this_round, statistics=this_round.statistics[..., -1:, :, :], rows=rows)
        scored_as_reported = this_round.own is this_round.statistics
        return self.last_rule.breakdown(day if scored_as_reported else day.with_own(this_round.own[..., -1:, :, :]))

    def _unequal_peers(self, this_round: Round) -> Any:
        """Return whose peers have other numbers of rows on the next day, all of them together where they are pooled."""
        rows = this_round.count_rows()
        pooled = isinstance(this_round.model, Model) and has_independent_rows(this_round.model)
        if pooled:
            return _changed(leave_one_out(rows[..., None], this_round.groups)[..., 0])
        return leave_one_out(_changed(rows)[..., None].astype(np.float64), this_round.groups)[..., 0] > 0

    def _compare_equal_sizes(self, this_round: Round) -> tuple[Array, Array, Any]:
        """Compare with those peers alone who have equally many rows on both days: whoever is absent is no peer.

        Who they are does not depend on the provider's own report, and the days look alike, as the theorem needs. With
        no such peer log PMI is 0, and the share that of an empty report.
        """
        rows = this_round.count_rows()
        changed, present = _changed(rows), (rows[..., 1:, :] > 0) & (rows[..., :-1, :] > 0)
        hopeless = present & ~(present & ~changed).any(-1, keepdims=True)
        if hopeless.any():
            *leading, day, provider = (int(i) for i in np.argwhere(hopeless)[0])
            before, after = (rows[(*leading, day + k, provider)] for k in (0, 1))
            raise UnequalSizesError(provider, day, (float(before), float(after)))
        own, evidence = this_round.own[..., :-1, :, :], this_round.evidence
        kept = [
            leave_one_out(np.where(changed[..., None], 0.0, day), this_round.groups)
            for day in (this_round.statistics[..., :-1, :, :], this_round.statistics[..., 1:, :, :])
        ]
        against = [np.isneginf(evidence.log_evidence(peers)) for peers in kept]
        today, tomorrow = (log_pmi(evidence, own, peers) for peers in kept)
        return np.where(against[0], 0.0, today), tomorrow, against[1]


def _changed(rows: Array) -> Any:
    """Return where numbers of rows differ from those of the next day."""
    return ~np.isclose(rows[..., 1:, :], rows[..., :-1, :], rtol=1e-9)
