"""The rule of Kong and Schoenebeck, which pays log PMI itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.claims import Claim
from troth.mechanisms.breakdown import Breakdown
from troth.mechanisms.round import Round
from troth.mechanisms.rule import Rule

if TYPE_CHECKING:
    from troth.core.contract import Array, Models
    from troth.mechanisms.rule import Amount, Shares


@dataclass(frozen=True)
class LogPmiRule(Rule):
    """Pay log PMI, in nats: truthful, but unbounded, and negative for data that do not fit. The reference rule.

    It has no budget and no caps: ``budget`` and ``weights`` are ignored.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(1, 1)
    >>> LogPmiRule().pay(model, np.array([[3.0, 0.0], [2.0, 1.0]])).round(4)
    array([0.1335, 0.1335])
    """

    not_offered = "has no budget and pays negative amounts"
    individually_rational = False
    constant_empty_share = True
    pools_peers = True
    truthful_by = "log score (Kong and Schoenebeck)"
    symmetric = True
    strict = True
    score_formula = r"\text{score} = \log \text{PMI}"
    score_meaning = "The score is the log PMI itself. Its expectation is highest for the truth."

    def breakdown(self, this_round: Round, /) -> Breakdown:
        log_pmi = this_round.log_pmi()
        return Breakdown(log_pmi, log_pmi, log_pmi, -np.inf, np.inf)

    def cap(self, providers: int, *, budget: Amount = 1.0, weights: Shares | None = None) -> Array:
        return np.full(providers, np.inf)

    def pay(
        self,
        model: Models,
        statistics: Array,
        *,
        budget: Amount = 1.0,
        weights: Shares | None = None,
        **reports: Any,
    ) -> Array:
        return self.breakdown(Round(model, statistics, **reports)).share

    def feasible(self) -> list[Claim]:
        text = "payments are log PMI itself, unbounded on both sides"
        names = ("individually rational", "budget feasible")
        return [Claim(name, "refuted", text, "definition of the rule") for name in names]
