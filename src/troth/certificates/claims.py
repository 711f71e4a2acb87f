"""What is proved about a concrete campaign: one claim each, with verdict, margin, witness and basis."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.certificates.witnesses import extreme_round
from troth.core.claims import STRENGTH, Claim, Verdict
from troth.core.contract import HasFiniteStates, HasScoreRange, Model
from troth.core.declarations import declared
from troth.core.errors import MissingCapabilityError, ParameterError, ScoreOutOfRangeError, UnboundedRangeError
from troth.core.provider_models import one_each
from troth.core.sensitivity import HasSensitivity, Sensitivity, unproved
from troth.mechanisms import default_rule
from troth.mechanisms.round import empty_round
from troth.mechanisms.score_range import situations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.contract import Bounds, Models
    from troth.mechanisms import Rule

_RAREST = 1e-4  # losses go with the square or the cube of a state's probability, and doubles have 16 digits
_RIGHT_MODEL = Claim(
    "right model",
    "undecided",
    "the other claims assume the model, and no model can be proved right: test it on reports and on past days",
    "check_fit and backtest",
)


@dataclass(frozen=True)
class Certificate:
    """All claims about a campaign; prints as a list."""

    claims: tuple[Claim, ...]

    def __getitem__(self, name: str) -> Claim:
        for claim in self.claims:
            if claim.name == name:
                return claim
        raise KeyError(f"nothing is claimed about {name!r}; {self.claims[0].text if self.claims else ''}")

    def __str__(self) -> str:
        sign = {"proved": "✓", "refuted": "✗", "undecided": "?"}
        lines = []
        for claim in self.claims:
            basis = f" [{claim.basis}]" if claim.basis else ""
            lines.append(f"{sign[claim.verdict]} {claim.name} ({claim.verdict}): {claim.text}{basis}")
            if claim.witness is not None:
                lines.append(f"    witness: {claim.witness}")
        return "\n".join(lines)

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain data, for JSON."""
        return [asdict(claim) for claim in self.claims]


def certify(
    model: Models,
    rows: Sequence[int],
    rule: Rule | None = None,
    values: Bounds | None = None,
    *,
    groups: Sequence[Any] | None = None,
    min_rows: Sequence[int] | None = None,
    drawn: Models | None = None,
) -> Certificate:
    """Return what is proved about a campaign, what is refuted, and what is undecided.

    Everything holds for all numbers of rows that providers may report: more of a peer's data never hide a lie, so what
    is proved for the fewest rows of the peers holds for more. If the rule cannot pay the model, the only claim is
    that it cannot, with the reason.

    Parameters
    ----------
    model
        One model, or one per provider.
    rows
        The most rows that each provider may report.
    rule
        The default rule, if none is given.
    values
        Declared bounds on values, for ranges.
    groups
        One label per provider; members of a group are never each other's peers.
    min_rows
        The fewest rows that each provider reports. If they are not given, claims that depend on them say how many
        suffice (``min_rows``), and are refuted only if the most do not suffice either.
    drawn
        The models that peers are drawn from, where they know more than the model: the features of providers' rows.

    Examples
    --------
    >>> import troth
    >>> certificate = certify(troth.models.Bernoulli(1, 1), [2, 1], troth.SyntheticPeers())
    >>> certificate["sensitive"].verdict, certificate["sensitive"].witness
    ('refuted', ((0, 0), (1, 1)))
    >>> certify(troth.models.Bernoulli(1, 1), [9, 9], troth.SyntheticPeers())["sensitive"].min_rows
    2
    """
    rule = default_rule() if rule is None else rule
    situations(model, rows, groups, min_rows)  # checks them
    max_rows = [int(n) for n in rows]
    if min_rows is not None and any(few > many for few, many in zip(min_rows, max_rows, strict=True)):
        raise ParameterError(f"min_rows must not exceed rows, but {list(min_rows)!r} do exceed {max_rows!r}")
    try:
        rule = rule.prepared(model, rows, values)
        rule.check_payable(model, max_rows, groups)
    except (MissingCapabilityError, UnboundedRangeError, ScoreOutOfRangeError) as error:
        return Certificate((Claim("payable", "refuted", f"{rule.name} cannot pay this model: {error}", "its needs"),))
    claims = [_with_witness(claim, rule, model, max_rows, groups) for claim in rule.claims(model, rows, values)]
    exactly = any(claim.name == "truthful" and claim.verdict == "proved" and not claim.margin for claim in claims)
    weakest, few, needed = _fewest(model, max_rows, groups, min_rows, rule.panels)
    cases = situations(model, max_rows, groups, few)
    paid = situations(model, max_rows, groups)
    dependent = [_sensitive(rule, weakest, exactly), *_price(rule, cases, paid, exactly), *_k_rank(cases)]
    peers = model if drawn is None else drawn
    proofs = [*claims, *(_with_min_rows(claim, needed) for claim in dependent)]
    limited = (claim.in_the_limit(peers, draws=rule.needs_seed) for claim in proofs)
    return Certificate((*limited, *_approximate(peers), _RIGHT_MODEL))


def weakest(certificates: Sequence[Certificate]) -> Certificate:
    """Return the weakest form of every claim over several campaigns, such as days with other rows."""
    refused = next((certificate for certificate in certificates if certificate.claims[0].name == "payable"), None)
    if refused is not None or len(certificates) == 1:
        return refused or certificates[0]

    def strength(claim: Claim) -> tuple[int, float]:
        margin = claim.margin or 0.0
        return STRENGTH[claim.verdict], -margin if claim.name == "truthful" else margin

    by_name = [{claim.name: claim for claim in certificate.claims} for certificate in certificates]
    shared = [name for name in by_name[0] if all(name in claims for claims in by_name)]
    return Certificate(tuple(min((claims[name] for claims in by_name), key=strength) for name in shared))


def _approximate(model: Models) -> list[Claim]:
    """Return what is not exact about a model's evidence and draws, and what it assumes about θ."""
    models, source = one_each(model), "the family's own declaration"
    counts = Counter(declared(model).approximation for model in models)
    assumptions = dict.fromkeys(declared(model).assumption for model in models)
    claims = []
    for text, count in counts.items():
        prefix = "" if len(counts) == 1 else f"{count} of {len(models)} providers: "
        if text:
            claims.append(Claim("exact likelihood", "refuted", prefix + text, source))
    return claims + [Claim("one of the states", "undecided", text, source) for text in assumptions if text]


def _with_witness(claim: Claim, rule: Rule, model: Models, rows: Sequence[int], groups: Sequence[Any] | None) -> Claim:
    """Add the round that shows what a rule does not promise, without which it is not refuted."""
    lowest = claim.name == "individually rational"
    if claim.verdict != "refuted" or claim.witness is not None or not (lowest or claim.name == "budget feasible"):
        return claim
    extreme = extreme_round(rule, model, rows, groups, lowest=lowest)
    largest = 1.0 if np.isfinite(rule.cap(len(rows), budget=1.0)).all() else 0.0  # without caps, any payment
    if extreme is not None and (extreme[0] < 0 if lowest else extreme[0] > largest):
        return replace(claim, margin=extreme[0], witness=extreme[1])
    return replace(claim, verdict="undecided", text=f"{claim.text}; no such round was drawn here")


def _fewest(
    model: Models, max_rows: list[int], groups: Sequence[Any] | None, min_rows: Sequence[int] | None, panels: int
) -> tuple[Sensitivity, list[int], int | None]:
    """Return the weakest sensitivity, for which rows of peers, and how many of everybody's rows that needs.

    What some rows of peers distinguish more rows distinguish too: the smaller dataset is a part of the larger. So the
    fewest rows for which it is proved are found by doubling and halving.
    """

    def weakest(rows: Sequence[int]) -> Sensitivity:
        cases = list(zip(*(situations(model, max_rows, groups, rows, split) for split in (1, panels)), strict=True))
        liars = [case for case in cases if case[0][1]] or cases
        sensitivities = [
            _sensitivity(*all_peers) if panels == 1 else _in_a_panel(all_peers, panel) for all_peers, panel in liars
        ]
        return min(sensitivities, key=lambda case: (STRENGTH[case.verdict], case.margin or 0.0))

    if min_rows is not None:
        return weakest(min_rows), [int(n) for n in min_rows], None
    best, low, high = weakest(max_rows), 0, max(max_rows)
    if best.verdict != "proved":
        return best, max_rows, None
    while high - low > 1:
        middle = max(1, min(2 * low, (low + high) // 2))  # few rows are quick to decide
        trial = weakest([min(n, middle) for n in max_rows])
        if trial.verdict != "proved":
            low = middle
        else:
            best, high = trial, middle
    return best, [min(n, high) for n in max_rows], high


def _with_min_rows(claim: Claim, rows: int | None) -> Claim:
    """State a claim with the rows that it needs of everybody."""
    if rows is None or claim.verdict != "proved":
        return claim
    condition = f", if every provider reports at least {rows} row{'s' if rows > 1 else ''}"
    return replace(claim, text=claim.text + condition, min_rows=rows)


def _k_rank(cases: list[Any]) -> list[Claim]:
    conditions = [own.k_rank_condition(peers) if isinstance(own, HasSensitivity) else None for own, _, peers in cases]
    if None in conditions:
        return []
    met = all(conditions)
    text = "the paper's k-rank condition " + ("holds" if met else "does not hold; the exact rank decides")
    return [Claim("k-rank condition", "proved" if met else "undecided", text, "the paper's Corollary")]


def _sensitivity(model: Model, rows: int, peers: Any) -> Sensitivity:
    proved = model.sensitivity(rows, peers) if isinstance(model, HasSensitivity) else unproved(model)
    if proved.verdict == "proved" and isinstance(model, HasFiniteStates):
        rarest = float(model.posterior_probabilities(empty_round(model, 1).own).min())
        if rarest < _RAREST:
            reason = f"a state has a probability of {rarest:.1g}, and the cost of lies about it is lost in rounding"
            return replace(proved, verdict="undecided", reason=reason)
    return proved


def _in_a_panel(case: Any, panel: Any) -> Sensitivity:
    """Return the sensitivity of a mean over panels.

    What the largest panel distinguishes the mean does, and what all peers together do not distinguish no panel does.
    """
    among = _sensitivity(*panel)
    if among.verdict == "proved":
        return replace(among, reason=f"{among.reason}, in the largest panel")
    together = _sensitivity(*case)
    if together.verdict == "refuted":
        return together
    return Sensitivity("undecided", f"one panel of the peers alone may not distinguish all posteriors ({among.reason})")


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


def _remaining_part(paid: list[Any], low: float) -> float:
    """Return the part of a quadratic price that is left where PMI = 0 is paid as a score of ``low``, not of −∞.

    Proof. Let q be the truth's forecast of the peers, p the report's, z the mass of q where p is 0, and M ≥ 1 the least
    by which other scores exceed ``low``. The lie loses (1 − z)(KL(q'‖p) + ln(1 − z)) nats where p is positive, with q'
    the rest of q scaled to mass 1, and at least zM elsewhere. As (1 − z)ln(1 − z) ≥ −z + z²/2, and by Pinsker's
    inequality, that is at least (M − ½)z² + 2(1 − z)T², T the total variation between q' and p. That between q and p is
    at most z + (1 − z)T, and its square, by Cauchy and Schwarz, at most 1/(M − ½) + ½ times the loss; without zeros it
    is at most ½ times. ∎
    """
    extremes = [own.log_pmi_extremes(limit, peers) for own, limit, peers in paid if isinstance(own, HasScoreRange)]
    above = min((bounds.low - low for bounds in extremes if bounds.impossible), default=inf)
    return 1.0 if above == inf else (above - 0.5) / (above + 1.5)


def _price(rule: Rule, cases: list[Any], paid: list[Any], exactly: bool) -> list[Claim]:
    """Return what a lie costs at least: in nats of log score, or in shares of the cap.

    ``cases`` have the fewest rows of peers, and ``paid`` the most. More rows never lower a Kullback-Leibler divergence,
    but they may lower a loss where PMI = 0 is paid as the low end of a range: a linear price is then stated only if
    rows are fixed.
    """
    scale = rule.price_scale(exactly)
    low = -inf if scale is None else scale.low
    possible = [own.price_of_lying(limit, peers, low) for own, limit, peers in cases if isinstance(own, HasSensitivity)]
    prices = [price for price in possible if price is not None]
    if scale is None or len(prices) < len(cases):
        condition = "under this range" if len(prices) == len(cases) else "here"
        return [Claim("price of lying", "undecided", f"the cost of lies {condition} is measured by audit", "")]
    part = 1.0 if low == -inf else _remaining_part(paid, low)
    squared = part * min(price.quadratic for price in prices)
    verdict: Verdict = "proved" if squared > 0 else "undecided"
    text = f"a lie that moves the posterior by Δ loses at least {squared / scale.width:.3g}·‖Δ‖² of {scale.unit}"
    claims = [Claim("price of lying", verdict, text, "E4", squared / scale.width)]
    linear = [price.linear for price in prices if price.linear is not None]
    if len(linear) == len(prices) and (part == 1 or cases == paid):
        slope = min(linear) / scale.width
        verdict = "proved" if slope > 0 else "undecided"
        text = f"over all admissible reports a lie loses at least {slope:.3g}·‖Δ‖ of {scale.unit}"
        claims.append(Claim("linear price of lying", verdict, text, "E4, enumeration", slope))
    return claims
