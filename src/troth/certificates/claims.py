"""What is proved about a concrete campaign: one claim each, with verdict, margin, witness and basis."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from troth.core.claims import STRENGTH, Claim, Verdict
from troth.core.sensitivity import HasSensitivity, Price, Sensitivity, unproved
from troth.mechanisms import default_rule
from troth.mechanisms.score_range import situations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.contract import Bounds, Model, Models
    from troth.mechanisms import Rule

_RIGHT_MODEL = (
    "all this holds under the model, which cannot be proved: check_fit asks whether reports could come from it, and "
    "backtest whether known lies would have gained on past days"
)


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


def certify(model: Models, rows: Sequence[int], rule: Rule | None = None, values: Bounds | None = None) -> Certificate:
    """Say what is proved about a campaign, what is refuted, and what is not known.

    Parameters
    ----------
    model
        One model, or one per provider.
    rows
        The most rows that each provider may report; peers are taken to have all of theirs.
    rule
        The default rule, if none is given.
    values
        Declared bounds on values, for ranges.

    Examples
    --------
    >>> import troth
    >>> certificate = certify(troth.models.Bernoulli(1, 1), rows=[2, 1])
    >>> certificate["sensitive"].verdict, certificate["sensitive"].witness
    ('refuted', ((0, 0), (1, 1)))
    """
    rule = (default_rule() if rule is None else rule).prepared(model, rows, values)
    cases = situations(model, rows)
    weakest = min(
        (_sensitivity(*case) for case in cases), key=lambda case: (STRENGTH[case.verdict], case.margin or 0.0)
    )
    claims = rule.claims(model, rows, values)
    exactly = any(claim.name == "truthful" and claim.verdict == "proved" and not claim.margin for claim in claims)
    claims.append(_sensitive(rule, weakest, exactly))
    claims += _price(rule, cases, exactly)
    claims.append(Claim("right model", "undecided", _RIGHT_MODEL, "check_fit and backtest"))
    conditions = [own.k_rank_condition(peers) if isinstance(own, HasSensitivity) else None for own, _, peers in cases]
    if None not in conditions:
        met = all(conditions)
        text = "the paper's k-rank condition " + ("holds" if met else "does not hold; the exact rank decides")
        claims.append(Claim("k-rank condition", "proved" if met else "undecided", text, "the paper's Corollary"))
    return Certificate(tuple(claims))


def _sensitivity(model: Model, rows: int, peers: Any) -> Sensitivity:
    return model.sensitivity(rows, peers) if isinstance(model, HasSensitivity) else unproved(model)


def _prices(cases: list[Any], low: float) -> list[Price] | None:
    """Return what a lie of each provider costs at least, or None where it is not known for all."""
    prices = [own.price_of_lying(limit, peers, low) for own, limit, peers in cases if isinstance(own, HasSensitivity)]
    known = [price for price in prices if price is not None]
    return known if len(known) == len(cases) else None


def _sensitive(rule: Rule, weakest: Sensitivity, exactly: bool) -> Claim:
    verdict, reason = weakest.verdict, weakest.reason
    if verdict == "proved" and not (rule.strict and exactly):
        free = rule.free_lies or "some lie may be free"
        text = f"peers distinguish all posteriors, but the rule is not strictly truthful, so {free}"
        return Claim("sensitive", "undecided", text, "strict properness", weakest.margin)
    if verdict == "proved" and rule.strict_when:
        reason += f", {rule.strict_when}"
    words = {
        "proved": "every report with another posterior earns strictly less",
        "refuted": "some lie is free",
        "undecided": "it is not known whether some lie is free",
    }
    basis = "Theorems on sensitivity, E3, E15"
    return Claim("sensitive", verdict, f"{words[verdict]}: {reason}", basis, weakest.margin, weakest.witness)


def _price(rule: Rule, cases: list[Any], exactly: bool) -> list[Claim]:
    """Say what a lie costs at least: in nats of log score, or in shares of the cap."""
    scale = rule.price_scale(exactly)
    prices = _prices(cases, -inf if scale is None else scale.low)
    if prices is None or scale is None:
        where = "here" if prices is None else "under this range"
        return [Claim("price of lying", "undecided", f"what lies cost {where} is measured by audit", "none")]
    squared = min(price.quadratic for price in prices)
    verdict: Verdict = "proved" if squared > 0 else "undecided"
    text = f"a lie that moves the posterior by Δ loses at least {squared / scale.width:.3g}·‖Δ‖² of {scale.unit}"
    claims = [Claim("price of lying", verdict, text, "E4", squared / scale.width)]
    linear = [price.linear for price in prices if price.linear is not None]
    if len(linear) == len(prices):
        least = min(linear) / scale.width
        verdict = "proved" if least > 0 else "undecided"
        text = f"over all admissible reports a lie loses at least {least:.3g}·‖Δ‖ of {scale.unit}"
        claims.append(Claim("linear price of lying", verdict, text, "E4, enumeration", least))
    return claims
