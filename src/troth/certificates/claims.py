"""What is proved about a concrete campaign: one claim each, with verdict, margin, witness and basis."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import UnboundedRangeError
from troth.core.sensitivity import HasSensitivity, Price, Sensitivity, Verdict, unproved
from troth.mechanisms.bonded import Bonded
from troth.mechanisms.brier import Brier
from troth.mechanisms.log_pmi_rule import LogPmiRule
from troth.mechanisms.multi_day import MultiDay
from troth.mechanisms.one_time import OneTime
from troth.mechanisms.score_range import exact_range, situations
from troth.mechanisms.synthetic_peers import SyntheticPeers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.contract import Model
    from troth.mechanisms.rule import Rule


_RIGHT_MODEL = (
    "all this holds under the model, which cannot be proved: check_fit asks whether reports could come from it, and "
    "backtest whether known lies would have gained on past days"
)


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
    cases = situations(model, rows)
    weakest = _weakest([_sensitivity(own, limit, peers) for own, limit, peers in cases])
    truthful = _truthful(rule, model, rows, values)
    exactly = truthful.verdict == "proved" and not truthful.margin
    claims = [truthful, *_feasible(rule), _symmetric(model, rule), _sensitive(rule, weakest, exactly)]
    claims += _price(_inner(rule), cases, exactly)
    claims.append(Claim("right model", "undecided", _RIGHT_MODEL, "check_fit and backtest"))
    conditions = [own.k_rank_condition(peers) if isinstance(own, HasSensitivity) else None for own, _, peers in cases]
    if None not in conditions:
        met = all(conditions)
        text = "the paper's k-rank condition " + ("holds" if met else "does not hold; the exact rank decides")
        claims.append(Claim("k-rank condition", "proved" if met else "undecided", text, "the paper's Corollary"))
    return Certificate(tuple(claims))


def _inner(rule: Rule) -> Rule:
    return _inner(rule.rule) if isinstance(rule, Bonded) else rule


def _weaker(one: Claim, two: Claim) -> Claim:
    order = {"refuted": 0, "undecided": 1, "proved": 2}
    return two if order[two.verdict] < order[one.verdict] else one


def _truthful(rule: Rule, model: Any, rows: Sequence[int], values: tuple[float, float] | None) -> Claim:
    under = "under the model no report has a higher expected payment than the truth"
    if isinstance(rule, Bonded):
        return _truthful(rule.rule, model, rows, values)
    if isinstance(rule, OneTime):
        return _range_holds(rule, model, rows, values, under)
    if isinstance(rule, MultiDay):
        sizes = "sizes are declared exchangeable" if rule.exchangeable else "peers have equally many rows on both days"
        text = f"{under}, if days are independent draws and {sizes}"
        found = Claim("truthful", "proved", text, "Theorem on Mechanism 2, with E6, E7 and E10", 0.0)
        return found if isinstance(rule.last, str) else _weaker(found, _truthful(rule.last, model, rows, values))
    if isinstance(rule, SyntheticPeers):
        text = f"{under}, in expectation over draws whose seed providers do not know"
        return Claim("truthful", "proved", text, "Lemma 1 of Nguyen et al., linear in the drawn peers", 0.0)
    if isinstance(rule, Brier):
        return Claim("truthful", "proved", under, "Theorem on Mechanism 3, with E12", 0.0)
    if isinstance(rule, LogPmiRule):
        return Claim("truthful", "proved", under, "log score (Kong and Schoenebeck)", 0.0)
    text = f"nothing is known about {type(rule).__name__}; best_response decides it in small worlds"
    return Claim("truthful", "undecided", text, "none")


def _range_holds(
    rule: OneTime, model: Any, rows: Sequence[int], values: tuple[float, float] | None, under: str
) -> Claim:
    """Compare the rule's range with the exact one of this very campaign, wherever the former comes from."""
    scale = rule.score_range
    clipped = scale.source == "clipped"
    try:
        exact = exact_range(model, rows, values)
    except UnboundedRangeError as error:
        return Claim("truthful", "undecided", f"the range cannot be checked: {error}", "E9")
    room = scale.high - exact.high if clipped else min(exact.low - scale.low, scale.high - exact.high)
    if room < -1e-9:
        text = f"the range is {-room:.3g} nats too short for these rows; a score outside it stops the round"
        return Claim("truthful", "undecided", text, "E5 and E9")
    if clipped:
        text = f"no lie gains more than ε = {scale.epsilon:.3g} nats, {scale.epsilon_share:.3g} of the cap"
        return Claim("truthful", "proved", text, "clipped log score", scale.epsilon_share)
    return Claim(
        "truthful", "proved", f"{under}: the range holds for all reports", "Theorem on Mechanism 1, E5, E9", 0.0
    )


def _feasible(rule: Rule) -> list[Claim]:
    inner = _inner(rule)
    if isinstance(inner, LogPmiRule):
        text = "payments are log PMI itself, unbounded on both sides"
        return [
            Claim(name, "refuted", text, "definition of the rule")
            for name in ("individually rational", "budget feasible")
        ]
    if isinstance(inner, MultiDay) and not isinstance(inner.last, str):
        rational, feasible = _feasible(inner.last)
    elif isinstance(inner, OneTime | MultiDay | SyntheticPeers | Brier) or inner.individually_rational:
        why = "shares lie in [0, 1], or the round stops"
        rational = Claim("individually rational", "proved", "no payment is negative, whatever is reported", why)
        feasible = Claim("budget feasible", "proved", "payments never exceed the budget in all", why)
    else:
        text = f"{type(inner).__name__} does not promise shares between 0 and 1"
        rational, feasible = (
            Claim(name, "undecided", text, "none") for name in ("individually rational", "budget feasible")
        )
    if isinstance(rule, Bonded):
        text = "a payment can be negative, down to the deposit"
        rational = Claim("individually rational", "refuted", text, "definition of bonds")
    return [rational, feasible]


def _symmetric(model: Any, rule: Rule) -> Claim:
    rule = _inner(rule)
    last = rule.last if isinstance(rule, MultiDay) and not isinstance(rule.last, str) else rule
    known = OneTime | MultiDay | SyntheticPeers | Brier | LogPmiRule
    if not (isinstance(rule, known) and isinstance(_inner(last), known)):
        return Claim("symmetric", "undecided", f"nothing is known about {type(rule).__name__}", "none")
    different = not hasattr(model, "statistics") and len(set(model)) > 1
    whom = "providers of the same model and weight" if different else "providers of equal weight"
    return Claim("symmetric", "proved", f"permuting {whom} permutes payments, to the bit", "E13, exact sums", 0.0)


def _sensitivity(model: Model, rows: int, peers: Any) -> Sensitivity:
    return model.sensitivity(rows, peers) if isinstance(model, HasSensitivity) else unproved(model)


def _prices(cases: list[Any], low: float) -> list[Price] | None:
    """Return what a lie of each provider costs at least, or None where it is not known of all."""
    prices = [own.price_of_lying(limit, peers, low) for own, limit, peers in cases if isinstance(own, HasSensitivity)]
    known = [price for price in prices if price is not None]
    return known if len(known) == len(cases) else None


def _weakest(found: list[Sensitivity]) -> Sensitivity:
    order = {"refuted": 0, "undecided": 1, "proved": 2}
    return min(found, key=lambda s: (order[s.verdict], s.margin or 0.0))


def _sensitive(rule: Rule, found: Sensitivity, exactly: bool) -> Claim:
    inner = _inner(rule)
    strict = isinstance(inner, LogPmiRule | Brier | OneTime)
    if isinstance(inner, MultiDay | SyntheticPeers):
        strict = inner.divergence.strictly_convex
    if found.verdict == "proved" and not (strict and exactly):
        text = "peers tell all posteriors apart, but the rule is not strictly truthful, so some lie may be free"
        return Claim("sensitive", "undecided", text, "strict properness", found.margin)
    if isinstance(inner, MultiDay) and found.verdict == "proved":
        found = Sensitivity(found.verdict, found.reason + ", on all days but the last", found.margin, found.witness)
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


def _price(rule: Rule, cases: list[Any], exactly: bool) -> list[Claim]:
    """Say what a lie costs at least: in nats of log score, or under OneTime in shares of the cap."""
    low, width, unit = -np.inf, 1.0, "nats of log score"
    if isinstance(rule, OneTime) and exactly:
        low, width, unit = rule.score_range.low, rule.score_range.high - rule.score_range.low, "the cap"
    prices = _prices(cases, low)
    if prices is None:
        return [Claim("price of lying", "undecided", "what lies cost here is measured by audit", "none")]
    if isinstance(rule, OneTime) and not exactly:
        return [Claim("price of lying", "undecided", "what lies cost under this range is measured by audit", "none")]
    squared = min(price.quadratic for price in prices)
    verdict: Verdict = "proved" if squared > 0 else "undecided"
    text = f"a lie that moves the posterior by Δ loses at least {squared / width:.3g}·‖Δ‖² of {unit}"
    claims = [Claim("price of lying", verdict, text, "E4", squared / width)]
    linear = [price.linear for price in prices if price.linear is not None]
    if len(linear) == len(prices):
        least = min(linear) / width
        text = f"over all admissible reports a lie loses at least {least:.3g}·‖Δ‖ of {unit}"
        claims.append(
            Claim("linear price of lying", "proved" if least > 0 else "undecided", text, "E4, enumeration", least)
        )
    return claims
