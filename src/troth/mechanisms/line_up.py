"""The line-up: a report is paid by the place of its real peers among decoys, not by the size of log PMI."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from troth.core.contract import Array, Generator, HasReduction, HasSupport, Model, Models, explains_target
from troth.core.errors import DataError
from troth.core.reductions.reduction import counted_labels
from troth.mechanisms.breakdown import Breakdown, Figures, Step, join_days
from troth.mechanisms.compared_days import (
    EXCHANGEABLE,
    daily_designs,
    has_constant_design,
    has_too_few_peers,
    unchanged,
    without_changing_peers,
)
from troth.mechanisms.decoys import Lines
from troth.mechanisms.exhaustive_lines import ExhaustiveLines, infinite_reports_message, reject_unenumerable
from troth.mechanisms.line import limit_share, rank_share
from troth.mechanisms.line_claims import line_claims
from troth.mechanisms.line_explanation import explain_place, share_at_place
from troth.mechanisms.line_options import DECOYS, PANELS, RIVALS, SOURCE, STRICT, TIES
from troth.mechanisms.options import option
from troth.mechanisms.panels import mean_over_panels, split
from troth.mechanisms.rule import Rule
from troth.mechanisms.task_labels import labels_of
from troth.mechanisms.task_lines import share_by_enumeration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.core.claims import Claim
    from troth.mechanisms.description import PriceScale
    from troth.mechanisms.disclosure import Span
    from troth.mechanisms.round import Round
    from troth.mechanisms.tasks import Tasks, TaskShares

_FEW_REPORTS = 100  # with which 4,999 decoys take only seconds
_TOO_FEW_PEERS = (
    "fewer than half of the peers have the same rows and features on all days compared, so this report is paid as an "
    "empty one, whatever it says"
)


class _Score(NamedTuple):
    """The scores of lines: shares by rank, strict scores, and the terms that explain both."""

    share: Array
    strict_score: Any
    terms: dict[str, Array]


@dataclass(frozen=True)
class LineUp(Rule):
    """Pay the probability that the real peers fit a report better than all of r decoys picked at random.

    The real peers stand in a line with K decoys, which are drawn from the peers' marginal distribution: θ from the
    prior, then data with the peers' own sizes and features. A report orders the line by log PMI. If j decoys come
    before the real peers, the share is

        φ(j) = C(K − j, r) / C(K, r),

    averaged over the places that members with equal log PMI share. An empty report ties with all decoys, and is paid
    1/(r + 1) whatever peers report.

    *Truthful for every K.* Given the data d and the members of the line, but not which of them is real, the probability
    that a member b is real is proportional to PMI(d, b), because only p(b|d)/p(b) depends on the member. The expected
    share is Σ_b P(b is real)·φ(place of b). By the rearrangement inequality no order has a higher one than the order by
    PMI(d, ·). Its expectation over decoys does not depend on K. ∎

    Only the order counts, so lies that keep the order are free: with a single parameter, such as a rate, sending every
    row twice hardly changes the order. ``strict`` adds a score under which such lies cost something.

    Parameters
    ----------
    rivals
        r. With fewer rivals an empty report is paid more, and payments vary less.
    decoys
        K, at least r. With more decoys payments depend less on the seed; the rule is truthful with any number.
        ``"all"``, or ``math.inf``, makes the line exhaustive: it contains everything that peers could report, weighted
        by probability. Nothing is drawn, and there must be finitely many possible datasets.
    strict
        The weight λ of a strictly proper score in a share: the spherical score q₀/‖q‖ of the softmax q of the line. An
        empty report is then paid (1 − λ)/(r + 1) + λ/√(K + 1). In an exhaustive line the score is
        `exhaustive_line_score`, and an empty report is paid 1/(r + 1). That score is scaled by the minimum probability
        of a state: if a state is rare, it hardly changes a share.
    panels
        The number of panels into which each provider's peers are split at random; with fewer peers, each is a panel.
        The share is the mean over a line-up with each panel, and no other provider can change it by more than 1/panels,
        or 1/peers if there are fewer (with more than about ten providers: on average over the seed). A panel whose
        members contradict each other, as they can under a model with zeros, pays as for an empty report; the others
        pay as usual.
    ties
        ``"average"``, or ``"lot"``: priorities from the seed, the same for all providers, break ties at random.
    source
        ``"model"``, or ``"days"``: decoys are the same peers' reports on up to ``decoys`` later days. Days with fewer
        than r later days take decoys from the model.
    exchangeable
        For later days: declare that designs vary from day to day in a way that providers cannot predict.

    Notes
    -----
    Under ``source="days"`` statistics have shape ``(..., day, provider, statistic)``.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(1, 1)
    >>> t = np.stack([model.statistics(x) for x in ([1, 1, 1, 0], [1, 1, 0, 1], [0, 0, 0, 0], [])])
    >>> pay = LineUp(decoys=99).pay(model, t, budget=4.0, rng=np.random.default_rng(7))
    >>> bool(pay[0] == pay[1] > pay[2]), pay[3].round(6)
    (True, np.float64(0.2))
    """

    rivals: int = option(RIVALS)
    decoys: int | float = option(DECOYS)
    strict: float = option(STRICT)  # type: ignore[assignment]
    panels: int = option(PANELS)
    ties: Literal["average", "lot"] = option(TIES)
    source: Literal["model", "days"] = option(SOURCE)
    exchangeable: bool = option(EXCHANGEABLE)

    purpose = "one round, any model; uses only the order of log PMI, pays little for an empty report"
    constant_empty_share = True
    symmetric = True
    free_lies = (
        "lies that keep the order of the line are free, such as sending every row twice if there is one parameter"
    )
    term_labels: ClassVar[Mapping[str, str]] = {
        "decoys": "decoys in the line",
        "above": "decoys that fit better than the real peers",
        "tied": "decoys that fit equally well",
        "later_days": "later days that are decoys",
        "strict_score": "spherical score of the line",
        "contradicting": "fraction of panels whose members contradict each other",
    }
    log_pmi_first = False
    _expected: ClassVar[bool] = False

    @property
    def empty_share_holds(self) -> str:
        return "on average over random ties, whatever peers report" if self.ties == "lot" else "whatever peers report"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.decoys, str):
            object.__setattr__(self, "decoys", inf)
        if self.decoys < self.rivals:
            raise self.option_error("decoys", f"must be at least rivals ({self.rivals}), not {self.decoys}")
        if self.decoys == inf and self.source == "days":
            raise self.option_error(
                "decoys", 'must be a number if later days are decoys; choose source "model" for "all"'
            )

    def refuses(self, model: Model) -> tuple[str, str] | None:
        """Reject exhaustive lines if peers have infinitely many possible reports."""
        if self.decoys < inf or not isinstance(model, HasSupport):
            return None
        if model.support.finite and not explains_target(model):
            return None
        return "decoys", infinite_reports_message(model)

    @property
    def needs_seed(self) -> bool:  # type: ignore[override]
        return self.decoys < inf or self.ties == "lot" or self.panels > 1

    @property
    def days(self) -> int:  # type: ignore[override]
        return 1 + int(self.decoys) if self.source == "days" else 1

    @property
    def pays_alone(self) -> bool:  # type: ignore[override]
        """Whether decoys are the same peers on later days: if only one provider reports on a day, no peers remain."""
        return self.source == "days" and not self.exchangeable

    @property
    def peer_draws(self) -> int:  # type: ignore[override]
        return 1 if self.decoys == inf else int(self.decoys) * self.panels

    @property
    def pools_peers(self) -> bool:  # type: ignore[override]
        return self.panels == 1

    @property
    def line_empty_share(self) -> float:
        """The share of an empty report, which ties with all decoys of a line."""
        rank = 1 / (self.rivals + 1)
        if not self.strict or self.decoys == inf:
            return rank
        return (1 - self.strict) * rank + self.strict / sqrt(self.decoys + 1)

    @property
    def fixed_empty_share(self) -> float | None:  # type: ignore[override]
        """The empty share, unless it depends on the number of a day's decoys."""
        return None if self.strict and self.source == "days" else self.line_empty_share

    @property
    def score_formula(self) -> str:  # type: ignore[override]
        """φ or, in an exhaustive line, its average over ties, given the probabilities b and w of other fits."""
        if self.decoys == inf:
            return r"\text{share} = \allowbreak \frac{(1 - b)^{r + 1} - w^{r + 1}}{(r + 1)(1 - b - w)}"
        return r"\text{share} = \frac{\binom{K - j}{r}}{\binom{K}{r}}"

    @property
    def strict_when(self) -> str:  # type: ignore[override]
        """The effect of rare states on the score of an exhaustive line; empty without one."""
        if not self.strict or self.decoys < inf:
            return ""
        return "by a score scaled by the minimum probability of a state or report, which is small if a state is rare"

    @property
    def truthful_by(self) -> str:  # type: ignore[override]
        """One theorem for the order, and another for the strict part."""
        order, score = "rearrangement inequality", "the spherical score is proper, by Cauchy and Schwarz"
        parts = [order] * (self.strict < 1) + [score] * (self.strict > 0)
        return "; ".join(parts) + ", for every number of decoys"

    @property
    def truthful_if(self) -> str:  # type: ignore[override]
        """The secrecy of the seed, or the independence of days."""
        if self.source == "days":
            designs = "are declared exchangeable" if self.exchangeable else "are the same on all days compared"
            return f", if days are independent draws and the peers' designs {designs}"
        if self.decoys == inf:
            return ""
        return ", for every number of decoys, in expectation over decoys whose seed providers do not know"

    def check_payable(self, model: Models, rows: Sequence[int], groups: Sequence[Any] | None = None) -> None:
        """Also reject models whose possible reports cannot be enumerated, if the line is exhaustive."""
        super().check_payable(model, rows, groups)
        if self.decoys == inf:
            reject_unenumerable(model, rows, groups, self.panels)

    def drawing(self, max_draws: int) -> Rule:
        """Draw fewer decoys, but at least ``rivals``: the expected share is the same for every number."""
        if self.strict or self.decoys == inf or self.source == "days":
            return self
        return replace(self, decoys=max(self.rivals, min(int(self.decoys), max_draws)))

    def in_expectation(self) -> Rule:
        """Use exhaustive lines."""
        return ExpectedLineUp(self.rivals, self.decoys, self.strict, self.panels)

    def breakdown(self, this_round: Round, /) -> Breakdown:
        rng = np.random.default_rng(0) if this_round.rng is None else this_round.rng  # unused if nothing is drawn
        if self.source == "days":
            return self._over_days(this_round, rng)
        return self._one_day(this_round, rng)

    @classmethod
    def task_defaults(cls, model: Model, rows: int = 1) -> dict[str, Any]:
        """Use an exhaustive line with some strict score for labels; otherwise draw decoys."""
        labels = counted_labels(model.reduction) if isinstance(model, HasReduction) else None
        if labels is None:
            return {"decoys": 49}
        return {"decoys": "all" if rows == 1 else 99, "strict": 0.1}

    @classmethod
    def first_defaults(cls, reports: int) -> dict[str, Any]:
        """Return more decoys for few reports, so that payments vary with the seed by about 1% of the cap, not 2%."""
        return {"decoys": 4999} if reports <= _FEW_REPORTS else {}

    def evaluate_tasks(self, tasks: Tasks, rng: Generator | None = None, /) -> TaskShares:
        """Enumerate everything that peers could answer, if tasks are about labels and nothing is drawn."""
        labels = None if self.needs_seed else labels_of(tasks)
        if labels is None:
            return super().evaluate_tasks(tasks, rng)
        return share_by_enumeration(tasks, labels, self.rivals, self.strict)

    @property
    def task_meaning(self) -> str:  # type: ignore[override]
        rivals = "another one" if self.rivals == 1 else f"{self.rivals} others"
        strict = " It includes a score under which every wrong answer costs something." if self.strict else ""
        return (
            "Your answer ranks all that your peers could have answered. A share is how often their real answers come "
            f"before {rivals}, picked at random.{strict}"
        )

    def contradicted(self, this_round: Round, /) -> Any:
        """Return an all-false mask for panels: a panel whose members contradict each other counts as a tie."""
        contradicted = super().contradicted(this_round)
        return contradicted if self.panels == 1 else np.zeros_like(contradicted)

    def evaluate_empty(self, this_round: Round, /) -> Array:
        """Return 1/(r + 1), with the strict part; if ties are broken at random, this is an expectation."""
        share = np.full(this_round.own.shape[:-1], self.line_empty_share)
        if self.source == "days" and this_round.own.ndim > 2:
            for day, count in enumerate(self._later_days(this_round.own.shape[-3])):
                share[..., day, :] = replace(self, decoys=count or self.decoys).line_empty_share
        return share

    def _one_day(self, this_round: Round, rng: Generator, decoys: Array | None = None) -> Breakdown:
        """Pay rounds with decoys from the model, or from later days if given, ``(decoy, ..., provider, statistic)``."""
        panels = split(this_round, self.panels, rng) if self.panels > 1 else None
        count = self.decoys if decoys is None else len(decoys)
        empty = replace(self, decoys=count).line_empty_share
        lines: Lines | ExhaustiveLines
        if count == inf or self._expected:
            lines = ExhaustiveLines(this_round, panels)
            share, strict_score, terms = self._score_among_all(lines, count, rng)
        else:
            lines = Lines(this_round, panels)
            share, strict_score, terms = self._score_among_decoys(lines, int(count), decoys, rng)
        if self.strict:
            terms["strict_score"] = strict_score
            share = (1 - self.strict) * share + self.strict * strict_score
            if self.ties == "average":
                share = np.where(terms["tied"] == count, empty, share)  # exactly the share of an empty report
        contradict = lines.contradict.reshape(share.shape)

        def mean(entries: Array) -> Array:
            return mean_over_panels(entries, panels).reshape(this_round.own.shape[:-1])

        terms = {key: mean(term) for key, term in terms.items()}
        share = np.clip(mean(np.where(contradict, empty, share)), 0.0, 1.0)
        log_pmi = self._log_pmi(this_round)
        undefined = np.isnan(log_pmi)
        if panels is not None:
            undefined = mean(np.isnan(lines.log_pmi()).astype(np.float64)) > 0
            if contradict.any():
                part = mean(contradict.astype(np.float64))
                terms["contradicting"] = np.where(part > 0, part, np.nan)
        return Breakdown(np.where(undefined, np.nan, share), log_pmi, share, 0.0, 1.0, terms)

    def _log_pmi(self, this_round: Round) -> Array:
        """Return log PMI with all peers; with panels, NaN where peers contradict each other."""
        log_pmi = this_round.log_pmi()
        return log_pmi if self.panels == 1 else np.where(this_round.peers_contradict, np.nan, log_pmi)

    def _score_among_all(self, lines: ExhaustiveLines, count: float, rng: Generator) -> _Score:
        """Score an exhaustive line or, in expectation, a line of drawn decoys."""
        above, below, strict_score = lines.place_among_all(self.rivals if self.strict and count == inf else None)
        if self.strict and count < inf:
            strict_score = lines.expected_spherical(int(count))
        share = self._share_among_all(above, below, rng)
        return _Score(share, strict_score, {"above": above, "tied": 1 - above - below})

    def _score_among_decoys(self, lines: Lines, count: int, decoys: Array | None, rng: Generator) -> _Score:
        """Score a line with decoys that are drawn from the model, or given."""
        priorities = rng.random((1 + count, lines.rounds))  # random tie-breaking puts the lower first
        ahead = (priorities[1:] < priorities[0]).astype(np.float64)
        if decoys is None:
            places = lines.place_among_drawn(ahead, bool(self.strict), rng)
        else:
            line = np.stack([lines.sum_peers(day) for day in decoys])
            places = lines.place_among([line], ahead, bool(self.strict))
        above, tied = places.above, places.tied
        place = (above, tied) if self.ties == "average" else (above + places.ahead, np.zeros_like(tied))
        share = rank_share(*place, count, self.rivals)
        terms = {"decoys": np.full(share.shape, float(count)), "above": above, "tied": tied}
        return _Score(share, 1 / np.sqrt(1 + places.squares), terms)

    def _share_among_all(self, above: Array, below: Array, rng: Generator) -> Array:
        if self.ties == "average":
            return limit_share(above, below, self.rivals)
        place = above + rng.random((len(above), 1)) * (1 - above - below)
        return np.asarray((1 - np.clip(place, 0.0, 1.0)) ** self.rivals)

    def _later_days(self, days: int) -> list[int]:
        """Return the number of later days that are each day's decoys: 0 if fewer than rivals."""
        counts = (min(int(self.decoys), days - 1 - day) for day in range(days))
        return [count if count >= self.rivals else 0 for count in counts]

    def _over_days(self, this_round: Round, rng: Generator) -> Breakdown:
        """Pay each day with later days as decoys, and days with too few of these with decoys from the model."""
        if this_round.own.ndim < 3:
            raise DataError(f"statistics must have shape (..., day, provider, statistic), not {this_round.own.shape}")
        days = this_round.own.shape[-3]
        same = None if self.exchangeable or days == 1 else unchanged(daily_designs(this_round))
        parts = []
        for day, count in enumerate(self._later_days(days)):
            today = this_round.on_days(slice(day, day + 1))
            if not count:
                parts.append(self._one_day(today, rng))
                continue
            later = np.moveaxis(this_round.statistics[..., day + 1 : day + 1 + count, :, :], -3, 0)
            too_few_peers = np.zeros(today.own.shape[:-1], dtype=bool)
            if same is not None:
                constant = has_constant_design(this_round, same, range(day, day + count + 1))
                reported = (this_round.statistics[..., day : day + count + 1, :, :] != 0).any(axis=-1).all(axis=-2)
                too_few_peers = has_too_few_peers(this_round, reported, constant)[..., None, :]
                today = without_changing_peers(today, constant[..., None, :])
                later = np.where(constant[..., None], later, 0.0)
            part = self._one_day(today, rng, later)
            share = np.where(too_few_peers, replace(self, decoys=count).line_empty_share, part.share)
            terms = {**part.terms, "later_days": np.full(share.shape, float(count))}
            parts.append(replace(part, share=share, noted=too_few_peers, terms=terms))
        joined = join_days(parts)
        terms = dict(sorted(joined.terms.items()))
        log_pmi = self._log_pmi(this_round)
        return replace(joined, log_pmi=log_pmi, score=joined.share, terms=terms, note=_TOO_FEW_PEERS)

    def steps(self, figures: Figures, /) -> tuple[Step, ...]:
        return explain_place(self, figures)

    def share_shown(self, figures: Figures, /) -> Span | None:
        if figures.note or "above" not in figures.terms:
            return super().share_shown(figures)
        return share_at_place(self, figures.terms)

    def more_claims(self) -> list[Claim]:
        """Return the claims that need no model, about attitudes to risk and uninformed reports."""
        return line_claims(self)

    def price_scale(self, exactly_truthful: bool) -> PriceScale | None:
        """Return None: the price of a lie can only be measured."""
        return None


class ExpectedLineUp(LineUp):
    """Pay E[share | reports] of a line-up, over decoys and random tie-breaking.

    The rank part is the probability of beating r independent decoys, whatever K. Panels are split as in the line-up.
    """

    not_offered = "is for exact audits"
    needs_seed = False
    _expected = True
