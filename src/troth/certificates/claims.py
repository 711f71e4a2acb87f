"""What is proved about a concrete campaign: one claim each, with verdict, margin, witness and basis."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from troth import models
from troth.certificates.sensitivity import (
    Sensitivity,
    Verdict,
    exact_linear_price,
    kruskal_condition,
    sensitivity,
    squared_singular_value,
)
from troth.errors import UnboundedRangeError
from troth.mechanisms.bonded import Bonded
from troth.mechanisms.brier import Brier
from troth.mechanisms.log_pmi_rule import LogPmiRule
from troth.mechanisms.multi_day import MultiDay
from troth.mechanisms.one_time import OneTime
from troth.mechanisms.score_range import exact_range, situations
from troth.mechanisms.synthetic_peers import SyntheticPeers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.mechanisms.rule import Rule
    from troth.model import Model


@dataclass(frozen=True)
class Claim:
    """One statement about a campaign.

    Attributes
    ----------
    name
        Such as ``"truthful"``.
    verdict
        ``"proved"``, ``"refuted"`` or ``"undecided"``.
    text
        The statement in words, with what it assumes.
    basis
        The theorem or erratum that it rests on.
    margin
        How far from failing, or how much can be lost, in the unit that the text names.
    witness
        An example that refutes it.
    """

    name: str
    verdict: Verdict
    text: str
    basis: str
    margin: float | None = None
    witness: Any = None


@dataclass(frozen=True)
class Certificate:
    """All claims about a campaign; prints as a list."""

    claims: tuple[Claim, ...]

    def __getitem__(self, name: str) -> Claim:
        return next(claim for claim in self.claims if claim.name == name)

    def __str__(self) -> str:
        sign = {"proved": "✓", "refuted": "✗", "undecided": "?"}
        lines = []
        for claim in self.claims:
            lines.append(f"{sign[claim.verdict]} {claim.name} ({claim.verdict}): {claim.text} [{claim.basis}]")
            if claim.witness is not None:
                lines.append(f"    witness: {claim.witness}")
        return "\n".join(lines)

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain data, for JSON."""
        return [asdict(claim) for claim in self.claims]


def certify(
    model: Model | Sequence[Model],
    rows: Sequence[int],
    rule: Rule | None = None,
    values: tuple[float, float] | None = None,
) -> Certificate:
    """Say what is proved about a campaign, what is refuted, and what is not known.

    Parameters
    ----------
    model
        One model, or one per provider.
    rows
        The most rows that each provider may report; peers are taken to have all of theirs.
    rule
        `SyntheticPeers()` by default.
    values
        Declared bounds on values, for ranges.

    Examples
    --------
    >>> import troth
    >>> found = certify(troth.models.Bernoulli(1, 1), rows=[2, 1])
    >>> found["sensitive"].verdict, found["sensitive"].witness
    ('refuted', ((0, 0), (1, 1)))
    """
    rule = SyntheticPeers() if rule is None else rule
    inner = rule.rule if isinstance(rule, Bonded) else rule
    cases = situations(model, rows)
    weakest = _weakest([(own, limit, peers, sensitivity(own, limit, peers)) for own, limit, peers in cases])
    claims = [
        _truthful(inner, model, rows, values),
        *_feasible(rule),
        _symmetric(model, inner),
        _sensitive(inner, weakest),
    ]
    claims += _price(inner, cases)
    if all(isinstance(own, models.Finite) for own, _, _ in cases):
        met = all(kruskal_condition(peers, len(own.prior)) for own, _, peers in cases)  # type: ignore[attr-defined]
        text = "the paper's k-rank condition " + ("holds" if met else "does not hold; the exact rank decides")
        claims.append(Claim("k-rank condition", "proved" if met else "undecided", text, "the paper's Corollary"))
    return Certificate(tuple(claims))


def _truthful(rule: Rule, model: Any, rows: Sequence[int], values: tuple[float, float] | None) -> Claim:
    under = "under the model no report has a higher expected payment than the truth"
    if isinstance(rule, OneTime):
        scale = rule.score_range
        if scale.source == "clipped":
            text = f"no lie gains more than ε = {scale.epsilon:.3g} nats, {scale.epsilon_share:.3g} of the cap"
            return Claim("truthful", "proved", text, "clipped log score", scale.epsilon_share)
        if scale.source in ("exact", "paper"):
            return Claim("truthful", "proved", under, "Theorem on Mechanism 1, with E5 and E9", 0.0)
        return _declared_range(rule, model, rows, values, under)
    if isinstance(rule, MultiDay):
        sizes = "sizes are declared exchangeable" if rule.exchangeable else "peers have equally many rows on both days"
        text = f"{under}, if days are independent draws and {sizes}"
        return Claim("truthful", "proved", text, "Theorem on Mechanism 2, with E6, E7 and E10", 0.0)
    if isinstance(rule, SyntheticPeers):
        text = f"{under}, in expectation over draws whose seed providers do not know"
        return Claim("truthful", "proved", text, "Lemma 1 of Nguyen et al., linear in the drawn peers", 0.0)
    if isinstance(rule, Brier):
        return Claim("truthful", "proved", under, "Theorem on Mechanism 3, with E12", 0.0)
    if isinstance(rule, LogPmiRule):
        return Claim("truthful", "proved", under, "log score (Kong and Schoenebeck)", 0.0)
    text = f"nothing is known about {type(rule).__name__}; best_response decides it in small worlds"
    return Claim("truthful", "undecided", text, "none")


def _declared_range(
    rule: OneTime, model: Any, rows: Sequence[int], values: tuple[float, float] | None, under: str
) -> Claim:
    scale = rule.score_range
    try:
        exact = exact_range(model, rows, values)
    except UnboundedRangeError as error:
        return Claim("truthful", "undecided", f"the declared range cannot be checked: {error}", "E9")
    margin = min(exact.low - scale.low, scale.high - exact.high)
    if margin >= 0:
        return Claim(
            "truthful", "proved", f"{under}: the range encloses the exact one", "Theorem on Mechanism 1", margin
        )
    text = f"the declared range is {-margin:.3g} nats too short; a score outside it stops the round"
    return Claim("truthful", "undecided", text, "E5 and E9", margin)


def _feasible(rule: Rule) -> list[Claim]:
    if isinstance(rule, LogPmiRule):
        text = "payments are log PMI itself, unbounded on both sides"
        return [
            Claim(name, "refuted", text, "definition of the rule")
            for name in ("individually rational", "budget feasible")
        ]
    rational = (
        Claim(
            "individually rational", "refuted", "a payment can be negative, down to the deposit", "definition of bonds"
        )
        if isinstance(rule, Bonded)
        else Claim(
            "individually rational", "proved", "no payment is negative, whatever is reported", "shares lie in [0, 1]"
        )
    )
    feasible = Claim(
        "budget feasible", "proved", "payments never exceed the budget in all", "shares are at most 1 of caps"
    )
    return [rational, feasible]


def _symmetric(model: Any, rule: Rule) -> Claim:
    known = isinstance(rule, OneTime | MultiDay | SyntheticPeers | Brier | LogPmiRule)
    if not known:
        return Claim("symmetric", "undecided", f"nothing is known about {type(rule).__name__}", "none")
    different = not hasattr(model, "statistics") and len(set(model)) > 1
    whom = "providers of the same model and weight" if different else "providers of equal weight"
    return Claim("symmetric", "proved", f"permuting {whom} permutes payments, to the bit", "E13, exact sums", 0.0)


def _weakest(found: list[tuple[Any, int, Any, Sensitivity]]) -> Sensitivity:
    order = {"refuted": 0, "undecided": 1, "proved": 2}
    return min((s for *_, s in found), key=lambda s: (order[s.verdict], s.margin or 0.0))


def _sensitive(rule: Rule, found: Sensitivity) -> Claim:
    strict = isinstance(rule, LogPmiRule | Brier) or (
        isinstance(rule, OneTime) and rule.score_range.source != "clipped"
    )
    if isinstance(rule, MultiDay | SyntheticPeers):
        strict = rule.divergence.strictly_convex
    if found.verdict == "proved" and not strict:
        text = "peers tell all posteriors apart, but this rule is not strict everywhere, so some lie may be free"
        return Claim("sensitive", "undecided", text, "strict convexity", found.margin)
    words = {
        "proved": "every report with another posterior earns strictly less",
        "refuted": "some lie is free",
        "undecided": "it is not known whether some lie is free",
    }
    return Claim(
        "sensitive",
        found.verdict,
        f"{words[found.verdict]}: {found.reason}",
        "Theorems on sensitivity, E3, E15",
        found.margin,
        found.witness,
    )


def _price(rule: Rule, cases: list[Any]) -> list[Claim]:
    """Say what a lie costs at least, for finite models under log scores."""
    if not isinstance(rule, OneTime) or not all(isinstance(own, models.Finite) for own, _, _ in cases):
        text = "what lies cost here is measured by audit"
        return [Claim("price of lying", "undecided", text, "none")]
    width = rule.score_range.high - rule.score_range.low
    if rule.score_range.source == "clipped":
        return [Claim("price of lying", "undecided", "clipped scores: what lies cost is measured by audit", "none")]
    squared = min(squared_singular_value(peers, len(own.prior)) for own, _, peers in cases)
    linear = [exact_linear_price(own, limit, peers) for own, limit, peers in cases]
    text = f"a lie that moves the posterior by Δ loses at least {squared / width:.3g}·‖Δ‖² of the cap"
    if all(price is not None for price in linear):
        text += f"; over all admissible reports at least {min(p for p in linear if p is not None) / width:.3g}·‖Δ‖"
    verdict: Verdict = "proved" if squared > 0 else "undecided"
    return [Claim("price of lying", verdict, text, "E4", float(np.float64(squared / width)))]
