"""Bonds against fake data: pay the share minus the empty share, which can be negative."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.claims import Claim
from troth.core.delegation import delegates
from troth.core.formats import share_in_full
from troth.mechanisms.breakdown import Breakdown, Figures, Step
from troth.mechanisms.disclosure import Span, rounded_from
from troth.mechanisms.round import Round, empty_round
from troth.mechanisms.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.core.contract import Array, Bounds, Models
    from troth.mechanisms.rule import Amount, Shares


_BEFORE, _EMPTY = "share_before_bond", "empty_share_before_bond"


@delegates("rule", "days", "exchangeable", "pays_alone", "needs_seed", "needs_rows", "needs_finite_data", "refuses")
@delegates("rule", "peer_draws", "pools_peers", "panels", "empty_share_holds", "scale", "log_pmi_first")
@delegates("rule", "strict", "strict_when", "free_lies", "symmetry", "price_scale", "check_payable")
@dataclass(frozen=True)
class Bonded(Rule):
    """Pay cap·(share − e)/(1 − e) for the share and the empty share e of another rule.

    A bond is affine in the share, so it is as truthful as the underlying rule.

    If e depends on peers' reports, as under `Brier`, the payment is cap·(share − e): dividing by 1 − e would weight
    outcomes unequally and make lies profitable. Data that are independent of θ earn at most 0 in expectation (up to the
    ε of a clipped range), honest data at least 0 in expectation given the data, and an empty report exactly 0. Payments
    can be negative, down to minus the deposit of each provider: the rule is individually rational only in expectation.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(1, 1)
    >>> rule = Bonded(troth.OneTime(troth.clipped_range(model, rows=[4] * 4)))
    >>> t = np.array([[4.0, 0.0], [3.0, 1.0], [4.0, 0.0], [0.0, 0.0]])
    >>> rule.pay(model, t, budget=90.0).round(2)
    array([14.03,  2.4 , 14.03,  0.  ])
    """

    rule: Rule

    individually_rational = False
    constant_empty_share = True

    @property
    def term_labels(self) -> Mapping[str, str]:  # type: ignore[override]
        """The labels of the underlying rule's terms, and of the two shares that the bond subtracts."""
        return {**self.rule.term_labels, _BEFORE: "share before the bond", _EMPTY: "empty share before the bond"}

    @property
    def name(self) -> str:
        return f"Bonded {self.rule.name}"

    def breakdown(self, this_round: Round, /) -> Breakdown:
        inner = self.rule._evaluate(this_round)
        empty = self.rule.evaluate_empty(this_round)
        terms = {**inner.terms, _BEFORE: inner.share, _EMPTY: empty}
        return replace(inner, share=(inner.share - empty) / self._divisor(empty), terms=terms)

    def contradicted(self, this_round: Round, /) -> Any:
        """Return an all-false mask: the underlying rule handles contradictions."""
        return np.zeros(this_round.own.shape[:-1], dtype=bool)

    def deposit(
        self, model: Models, statistics: Array, *, budget: Amount, weights: Shares | None = None, **reports: Any
    ) -> Array:
        """Return each provider's deposit, its maximum loss: cap·e/(1 − e), or the cap if e depends on peers."""
        shares = self.deposit_shares(Round(model, statistics, **reports))
        return self.cap(np.shape(statistics)[-2], budget=budget, weights=weights) * np.asarray(shares, dtype=np.float64)

    def deposit_shares(self, this_round: Round, /) -> Any:
        """Return e/(1 − e), or 1 if e depends on peers."""
        if not self.rule.constant_empty_share:
            return np.full(this_round.statistics.shape[:-1], Fraction(1), dtype=object)
        empty = self.rule.evaluate_empty(this_round)
        distinct, inverse = np.unique(empty, return_inverse=True)
        return np.array([_deposit_share(float(share)) for share in distinct], dtype=object)[inverse].reshape(
            empty.shape
        )

    def to_settings(self) -> dict[str, Any] | None:
        inner = self.rule.to_settings()
        return None if inner is None else {**inner, "bonded": True}

    def prepared(self, model: Models, rows: Sequence[int] | None, values: Bounds | None = None) -> Rule:
        return Bonded(self.rule.prepared(model, rows, values))

    def drawing(self, max_draws: int) -> Rule:
        return Bonded(self.rule.drawing(max_draws))

    def in_expectation(self) -> Rule:
        return Bonded(self.rule.in_expectation())

    def steps(self, figures: Figures, /) -> tuple[Step, ...]:
        before, empty = figures.terms[_BEFORE], figures.terms[_EMPTY]
        terms = {key: value for key, value in figures.terms.items() if key not in (_BEFORE, _EMPTY)}
        inner = self.rule.steps(replace(figures, terms=terms, share=before, empty_share=empty))
        formula, calculation = r"\text{before} - \text{empty}", f"{before:.4f} − {empty:.4f}"
        if self.rule.constant_empty_share and empty < 1:
            formula = rf"\frac{{{formula}}}{{1 - \text{{empty}}}}"
            calculation = f"({calculation}) / (1 − {empty:.4f})"
        bond = Step(
            "The bond",
            formula=rf"\text{{share}} = {formula}",
            terms=((self.term_labels[_BEFORE], before), (self.term_labels[_EMPTY], empty)),
            symbol="share",
            value=share_in_full(figures.share),
            calculation=calculation,
            meaning="The rule is bonded: the empty share is subtracted. A share can be negative, down to the deposit.",
        )
        return (*inner, bond)

    def share_shown(self, figures: Figures, /) -> Span | None:
        before = self.rule.share_shown(figures)
        if before is None or _EMPTY not in figures.terms:
            return None
        fixed = self.rule.fixed_empty_share
        empty = rounded_from(figures.terms[_EMPTY]) if fixed is None else Span(fixed, fixed)
        if self.rule.constant_empty_share and fixed is None and empty.high >= 1:
            return None  # a rounded e near 1 does not determine 1/(1 − e)
        ends = ((share, np.asarray(e)) for share, e in zip(before, reversed(empty), strict=True))
        return Span(*(float((share - e) / self._divisor(e)) for share, e in ends))

    def truthful(self, model: Models, rows: Sequence[int], values: Bounds | None = None) -> Claim:
        """Divide the margin of the underlying rule's claim by 1 − e, like shares."""
        claim = self.rule.truthful(model, rows, values)
        if not claim.margin:
            return claim
        empty = self.rule.evaluate_empty(empty_round(model, len(rows), self.rule.days))
        margin = claim.margin / float(self._divisor(empty).min())
        return replace(claim, text=f"{claim.text}, which the bond stretches to {margin:.3g}", margin=margin)

    def more_claims(self) -> list[Claim]:
        """Return the claims of the underlying rule, which are about shares before the bond."""
        before = "shares before the bond subtracts the empty share"
        return [replace(claim, text=f"{claim.text} ({before})") for claim in self.rule.more_claims()]

    def feasible(self) -> list[Claim]:
        text = "a payment can be negative, down to the deposit"
        return [Claim("individually rational", "refuted", text, "definition of bonds"), self.rule.feasible()[1]]

    def _divisor(self, empty: Array) -> Array:
        """Return 1 − e, or 1 if e depends on peers or equals 1."""
        return np.where((empty < 1) & self.rule.constant_empty_share, 1 - empty, 1.0)


def _deposit_share(empty_share: float) -> Fraction:
    """Return e/(1 − e) for the simplest fraction e that rounds to the empty share, such as 1/5 for 0.2."""
    exact = Fraction(empty_share)
    simple = exact.limit_denominator(10**6)
    exact = simple if float(simple) == empty_share else exact
    return exact / (1 - exact) if exact < 1 else Fraction(0)
