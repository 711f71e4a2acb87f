"""Claims about a line-up that hold without any model: attitudes to risk, and uninformed reports."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from troth.core.claims import Claim
from troth.core.formats import share

if TYPE_CHECKING:
    from troth.mechanisms.line_up import LineUp


def line_claims(rule: LineUp) -> list[Claim]:
    """Return the claims that need no model, about attitudes to risk and uninformed reports."""
    return [*_risk_claims(rule), _uninformed(rule)]


def _risk_claims(rule: LineUp) -> list[Claim]:
    """Claim truthfulness for a round's payment or, if days share decoys and lies may hedge, for each day's."""
    name, by_itself = "truthful for every attitude to risk", _risk_claim_for_one_line(rule)
    if rule.source == "model" or by_itself.verdict != "proved":
        return [by_itself]
    text = (
        "nothing is proved about the total over days: the peers of one day are decoys of another, so a lie can "
        "make the total steadier, and a risk-averse provider may prefer it; in expectation no lie gains"
    )
    return [Claim(name, "undecided", text, ""), replace(by_itself, name=f"{name}, each day by itself")]


def _risk_claim_for_one_line(rule: LineUp) -> Claim:
    name, basis = "truthful for every attitude to risk", "rearrangement inequality for each event “place ≤ m”"
    best = "under the truth the place of the real peers is stochastically best"
    if rule.ties == "average":
        text = (
            f"{best} among reports that do not tie, but ties are averaged: a very risk-averse provider with little "
            f"data may prefer the sure {share(rule.line_empty_share)} of the cap for an empty report"
        )
        if not rule.strict and rule.panels == 1:
            text += '; ties="lot" prevents it'
        return Claim(name, "undecided", text, basis)
    if rule.strict or rule.panels > 1:
        part = f"the strict part, {rule.strict:g} of a share," if rule.strict else "the mean over panels"
        return Claim(name, "undecided", f"{best} in every line; {part} is truthful in expectation", basis)
    preference = "more money to less" if rule.source == "model" else "more money on a day to less"
    return Claim(name, "proved", f"{best}, so truth is best for all who prefer {preference}", basis, 0.0)


def _uninformed(rule: LineUp) -> Claim:
    amount = "exactly"
    text = (
        f"made-up, stale or empty reports earn {rule.line_empty_share:.4g} of the cap in expectation, if the real "
        "peers and the decoys are exchangeable given the report; nothing else is assumed, and log PMI may be wrong"
    )
    if rule.strict:
        amount, fewer = "at most", " (more on days with fewer decoys)" if rule.source == "days" else ""
        text = (
            f"empty reports earn {rule.line_empty_share:.4g} of the cap{fewer}, and made-up or stale reports at "
            "most that in expectation, if the real peers and the decoys are exchangeable given the report; "
            "nothing else is assumed, and log PMI may be wrong"
        )
    name = f"uninformed reports earn {amount} the empty share"
    return Claim(name, "proved", text, "exchangeability", 0.0, rests_on="draws")
