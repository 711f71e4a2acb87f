"""Claims about a concrete campaign, each with its verdict, margin, witness and basis."""

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
from troth.core.provider_models import model_per_provider
from troth.core.sensitivity import HasSensitivity, Sensitivity, unproved
from troth.mechanisms import default_rule
from troth.mechanisms.round import empty_round
from troth.mechanisms.score_range import situations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.contract import Bounds, Models
    from troth.mechanisms import Rule

_MIN_PROBABILITY = 1e-4  # of a state: losses scale with its square or cube, and doubles have 16 digits
_MODEL_IS_CORRECT = Claim(
    "right model",
    "undecided",
    "the other claims assume the model, and no model can be proved right: test it on reports and on past days",
    "check_fit and backtest",
)


@dataclass(frozen=True)
class Certificate:
    """All claims about a campaign, printed as a list."""

    claims: tuple[Claim, ...]

    def __getitem__(self, name: str) -> Claim:
        for claim in self.claims:
            if claim.name == name:
                return claim
        raise KeyError(f"there is no claim about {name!r}; {self.claims[0].text if self.claims else ''}")

    def __str__(self) -> str:
        symbols = {"proved": "✓", "refuted": "✗", "undecided": "?"}
        lines = []
        for claim in self.claims:
            basis = f" [{claim.basis}]" if claim.basis else ""
            lines.append(f"{symbols[claim.verdict]} {claim.name} ({claim.verdict}): {claim.text}{basis}")
            if claim.witness is not None:
                lines.append(f"    witness: {claim.witness}")
        return "\n".join(lines)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return plain data for JSON."""
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
    """Return what is proved, refuted or undecided about a campaign.

    All claims hold for any admissible numbers of rows: more data of the peers never hide a lie, so a proof for the
    minimum numbers of rows holds for larger ones. If the rule cannot pay the model, the only claim says so, with the
    reason.

    Parameters
    ----------
    model
        One model, or one per provider.
    rows
        The maximum number of rows of each provider.
    rule
        The rule of the campaign; by default, the default rule.
    values
        Declared bounds on values, for ranges.
    groups
        One label per provider; providers with the same label are never each other's peers.
    min_rows
        The minimum number of rows of each provider. By default, claims that depend on it state how many rows suffice
        (``min_rows``), and are refuted only if the maximum does not suffice.
    drawn
        The models that peers are drawn from, if they differ from ``model`` because they know the features of rows.

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
    situations(model, rows, groups, min_rows)  # validates the arguments
    max_rows = [int(n) for n in rows]
    if min_rows is not None and any(low > high for low, high in zip(min_rows, max_rows, strict=True)):
        raise ParameterError(f"min_rows must not exceed rows, but {list(min_rows)!r} do exceed {max_rows!r}")
    try:
        rule = rule.prepared(model, rows, values)
        rule.check_payable(model, max_rows, groups)
    except (MissingCapabilityError, UnboundedRangeError, ScoreOutOfRangeError) as error:
        return Certificate((Claim("payable", "refuted", f"{rule.name} cannot pay this model: {error}", "its needs"),))
    claims = [_with_witness(claim, rule, model, max_rows, groups) for claim in rule.claims(model, rows, values)]
    exact = any(claim.name == "truthful" and claim.verdict == "proved" and not claim.margin for claim in claims)
    sensitivity, peer_rows, sufficient = _weakest_sensitivity(model, max_rows, groups, min_rows, rule.panels)
    smallest = situations(model, max_rows, groups, peer_rows)
    largest = situations(model, max_rows, groups)
    claims_on_rows = [_sensitive(rule, sensitivity, exact), *_price(rule, smallest, largest, exact), *_k_rank(smallest)]
    peers = model if drawn is None else drawn
    claims += [_with_min_rows(claim, sufficient) for claim in claims_on_rows]
    limited = (claim.in_the_limit(peers, draws=rule.needs_seed) for claim in claims)
    return Certificate((*limited, *_claims_about_model(peers), _MODEL_IS_CORRECT))


def weakest(certificates: Sequence[Certificate]) -> Certificate:
    """Return the weakest form of every claim over several campaigns, such as days with different rows."""
    unpayable = next((certificate for certificate in certificates if certificate.claims[0].name == "payable"), None)
    if unpayable is not None or len(certificates) == 1:
        return unpayable or certificates[0]

    def strength(claim: Claim) -> tuple[int, float]:
        margin = claim.margin or 0.0
        return STRENGTH[claim.verdict], -margin if claim.name == "truthful" else margin

    by_name = [{claim.name: claim for claim in certificate.claims} for certificate in certificates]
    shared = [name for name in by_name[0] if all(name in claims for claims in by_name)]
    return Certificate(tuple(min((claims[name] for claims in by_name), key=strength) for name in shared))


def _claims_about_model(model: Models) -> list[Claim]:
    """Return claims about approximations of the models and about their assumptions on θ."""
    models, source = model_per_provider(model), "the family's own declaration"
    counts = Counter(declared(model).approximation for model in models)
    assumptions = dict.fromkeys(declared(model).assumption for model in models)
    claims = []
    for text, count in counts.items():
        prefix = "" if len(counts) == 1 else f"{count} of {len(models)} providers: "
        if text:
            claims.append(Claim("exact likelihood", "refuted", prefix + text, source))
    return claims + [Claim("one of the states", "undecided", text, source) for text in assumptions if text]


def _with_witness(claim: Claim, rule: Rule, model: Models, rows: Sequence[int], groups: Sequence[Any] | None) -> Claim:
    """Add a round as the witness of a refuted claim about payments; without one, the claim is undecided."""
    lowest = claim.name == "individually rational"
    if claim.verdict != "refuted" or claim.witness is not None or not (lowest or claim.name == "budget feasible"):
        return claim
    extreme = extreme_round(rule, model, rows, groups, lowest=lowest)
    limit = 1.0 if np.isfinite(rule.cap(len(rows), budget=1.0)).all() else 0.0  # without caps, any payment
    if extreme is not None and (extreme[0] < 0 if lowest else extreme[0] > limit):
        return replace(claim, margin=extreme[0], witness=extreme[1])
    return replace(claim, verdict="undecided", text=f"{claim.text}; no such round was drawn here")


def _weakest_sensitivity(
    model: Models, max_rows: list[int], groups: Sequence[Any] | None, min_rows: Sequence[int] | None, panels: int
) -> tuple[Sensitivity, list[int], int | None]:
    """Return the weakest sensitivity of any provider, the rows of peers, and how many rows of every provider suffice.

    Peers with more rows distinguish at least as much, because the smaller dataset is a part of the larger one. So the
    minimum number of rows for a proof is found by doubling and bisection.
    """

    def sensitivity(rows: Sequence[int]) -> Sensitivity:
        cases = list(zip(*(situations(model, max_rows, groups, rows, split) for split in (1, panels)), strict=True))
        liars = [case for case in cases if case[0][1]] or cases
        sensitivities = [
            _sensitivity(*all_peers) if panels == 1 else _in_a_panel(all_peers, panel) for all_peers, panel in liars
        ]
        return min(sensitivities, key=lambda case: (STRENGTH[case.verdict], case.margin or 0.0))

    if min_rows is not None:
        return sensitivity(min_rows), [int(n) for n in min_rows], None
    best, low, high = sensitivity(max_rows), 0, max(max_rows)
    if best.verdict != "proved":
        return best, max_rows, None
    while high - low > 1:
        middle = max(1, min(2 * low, (low + high) // 2))  # small numbers are fast to decide
        trial = sensitivity([min(n, middle) for n in max_rows])
        if trial.verdict != "proved":
            low = middle
        else:
            best, high = trial, middle
    return best, [min(n, high) for n in max_rows], high


def _with_min_rows(claim: Claim, rows: int | None) -> Claim:
    """Add to a proved claim the number of rows that it needs from every provider."""
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
        smallest = float(model.posterior_probabilities(empty_round(model, 1).own).min())
        if smallest < _MIN_PROBABILITY:
            reason = f"a state has a probability of {smallest:.1g}, and the cost of lies about it is lost in rounding"
            return replace(proved, verdict="undecided", reason=reason)
    return proved


def _in_a_panel(all_peers: Any, panel: Any) -> Sensitivity:
    """Return the sensitivity of a mean over panels.

    The mean over panels distinguishes everything that the largest panel distinguishes, and no panel distinguishes more
    than all peers together.
    """
    in_panel = _sensitivity(*panel)
    if in_panel.verdict == "proved":
        return replace(in_panel, reason=f"{in_panel.reason}, in the largest panel")
    together = _sensitivity(*all_peers)
    if together.verdict == "refuted":
        return together
    reason = f"one panel of the peers alone may not distinguish all posteriors ({in_panel.reason})"
    return Sensitivity("undecided", reason)


def _sensitive(rule: Rule, sensitivity: Sensitivity, exact: bool) -> Claim:
    verdict, reason = sensitivity.verdict, sensitivity.reason
    if verdict == "proved" and not (rule.strict and exact):
        free = rule.free_lies or "some lie may be free"
        text = f"peers distinguish all posteriors, but the rule is not strictly truthful, so {free}"
        return Claim("sensitive", "undecided", text, "strict properness", sensitivity.margin)
    if verdict == "proved" and rule.strict_when:
        reason += f", {rule.strict_when}"
    statements = {
        "proved": "every report with another posterior earns strictly less",
        "refuted": "some lie is free",
        "undecided": "it is not known whether some lie is free",
    }
    text, basis = f"{statements[verdict]}: {reason}", "Theorems on sensitivity, E3, E15"
    return Claim("sensitive", verdict, text, basis, sensitivity.margin, sensitivity.witness)


def _remaining_fraction(cases: list[Any], low: float) -> float:
    """Return the fraction of a quadratic price that remains if PMI = 0 is paid as a score of ``low`` instead of −∞.

    Proof. Let q be the truth's forecast of the peers, p the report's, z the mass of q where p is 0, and let M ≥ 1 be
    the minimum by which other scores exceed ``low``. Where p is positive, the lie loses (1 − z)(KL(q'‖p) + ln(1 − z))
    nats, with q' the rest of q normalised to mass 1; elsewhere it loses at least zM. As (1 − z)ln(1 − z) ≥ −z + z²/2,
    and by Pinsker's inequality, the total is at least (M − ½)z² + 2(1 − z)T², with T the total variation between q' and
    p. The total variation between q and p is at most z + (1 − z)T. By Cauchy-Schwarz, its square is at most
    1/(M − ½) + ½ times the loss; without zeros it is at most ½ times the loss. ∎
    """
    extremes = [own.log_pmi_extremes(limit, peers) for own, limit, peers in cases if isinstance(own, HasScoreRange)]
    above = min((bounds.low - low for bounds in extremes if bounds.impossible), default=inf)
    return 1.0 if above == inf else (above - 0.5) / (above + 1.5)


def _price(rule: Rule, smallest: list[Any], largest: list[Any], exact: bool) -> list[Claim]:
    """Return claims about the minimum cost of a lie, in nats of log score or in shares of the cap.

    In the cases ``smallest`` and ``largest``, peers have their minimum and maximum rows. More rows never decrease a
    Kullback-Leibler divergence, but they may decrease a loss if PMI = 0 is paid as the low end of a range: a linear
    price is then stated only if rows are fixed.
    """
    scale = rule.price_scale(exact)
    low = -inf if scale is None else scale.low
    able = [case for case in smallest if isinstance(case[0], HasSensitivity)]
    possible = [own.price_of_lying(limit, peers, low) for own, limit, peers in able]
    prices = [price for price in possible if price is not None]
    if scale is None or len(prices) < len(smallest):
        condition = "under this range" if len(prices) == len(smallest) else "here"
        return [Claim("price of lying", "undecided", f"the cost of lies {condition} is measured by audit", "")]
    fraction = 1.0 if low == -inf else _remaining_fraction(largest, low)
    quadratic = fraction * min(price.quadratic for price in prices)
    verdict: Verdict = "proved" if quadratic > 0 else "undecided"
    text = f"a lie that moves the posterior by Δ loses at least {quadratic / scale.width:.3g}·‖Δ‖² of {scale.unit}"
    claims = [Claim("price of lying", verdict, text, "E4", quadratic / scale.width)]
    slopes = [price.linear for price in prices if price.linear is not None]
    if len(slopes) == len(prices) and (fraction == 1 or smallest == largest):
        slope = min(slopes) / scale.width
        verdict = "proved" if slope > 0 else "undecided"
        text = f"over all admissible reports a lie loses at least {slope:.3g}·‖Δ‖ of {scale.unit}"
        claims.append(Claim("linear price of lying", verdict, text, "E4, enumeration", slope))
    return claims
