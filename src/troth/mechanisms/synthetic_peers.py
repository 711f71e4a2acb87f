"""A bounded one-time rule for any model, which draws the peers of another day from the model.

Mechanism 2 compares with a second day. Its expectation over that day is the same for peers drawn from the prior
predictive with the real peers' numbers of rows and features. The score is linear in that term, so the rule is exactly
truthful for any number of draws. This answers the paper's question about a one-time mechanism for every model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from troth.core.delegation import delegates
from troth.core.information import log_pmi
from troth.mechanisms.breakdown import Breakdown, normalise
from troth.mechanisms.divergences import DIVERGENCE, Divergence, logistic, score_formula
from troth.mechanisms.drawn_peers import draw_peers
from troth.mechanisms.multi_day import MultiDay
from troth.mechanisms.options import Integer, option
from troth.mechanisms.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from troth.core.contract import Array
    from troth.mechanisms.round import Round

_MEANING = "how many times peers are drawn; more draws make payments less random"


@delegates("divergence", "scale", strict="strictly_convex")
@dataclass(frozen=True)
class SyntheticPeers(Rule):
    """Score the mean of f′(1/PMI(own, drawn peers)) − f*(f′(1/PMI(own, peers))), on the divergence's range.

    Providers must not know the generator's seed when they report. Equal reports get equal payments: the draws for a
    provider depend only on its peers' design, not on the order of providers.

    Parameters
    ----------
    draws
        The number of times that peers are drawn. More draws make payments less random, not more truthful.
    divergence
        One of `troth.divergences`.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(1, 1)
    >>> t = np.stack([model.statistics(x) for x in ([1, 1, 1, 0], [1, 1, 0, 1], [0, 0, 0, 0])])
    >>> pay = SyntheticPeers(draws=256).pay(model, t, budget=90.0, rng=np.random.default_rng(7))
    >>> bool(pay[0] == pay[1] > pay[2])
    True
    """

    draws: int = option(Integer("draws", 64, _MEANING, "Draws", minimum=1, maximum=1_000_000))
    divergence: Divergence = option(DIVERGENCE, logistic)

    purpose = "one round, any model; draws with a committed seed"
    needs_seed = True
    constant_empty_share = True
    pools_peers = True
    truthful_by = "Lemma 1 of Nguyen et al.; a mean over draws keeps the expectation"
    truthful_if = ", in expectation over draws whose seed providers do not know"
    symmetric = True
    term_labels: ClassVar[Mapping[str, str]] = {"drawn_peers": "term of the drawn peers", "peers": "term of the peers"}
    summed_terms = ("drawn_peers", "peers")
    score_formula = r"\text{score} = \underset{\text{draws}}{\text{mean}} \; " + score_formula("drawn peers")

    @property
    def peer_draws(self) -> int:  # type: ignore[override]
        return self.draws

    @property
    def score_meaning(self) -> str:  # type: ignore[override]
        return (
            f"The drawn peers are made-up ones, drawn {self.draws:,} times from the model with the seed of the round. "
            + self.divergence.meaning
        )

    def drawing(self, max_draws: int) -> Rule:
        return replace(self, draws=min(int(self.draws), max_draws))

    def in_expectation(self) -> Rule:
        """Compare with the peers of a second day, which are distributed like the drawn ones."""
        return MultiDay(self.divergence)

    def breakdown(self, this_round: Round, /) -> Breakdown:
        f = self.divergence
        log_pmi_with_peers = this_round.log_pmi()
        mismatched = np.zeros(this_round.own.shape[:-1])
        for fresh in draw_peers(this_round, self.draws):
            mismatched += f.mismatched(log_pmi(this_round.evidence, this_round.own, fresh)).sum(axis=0)
        mismatched /= self.draws
        matched = f.matched(log_pmi_with_peers)
        score = mismatched + matched
        terms = {"drawn_peers": mismatched, "peers": matched}
        return Breakdown(normalise(score, f.low, f.high), log_pmi_with_peers, score, f.low, f.high, terms)

    def evaluate_empty(self, this_round: Round, /) -> Array:
        """Return f(1) on the scale: an empty report has log PMI 0 with any peers."""
        return np.full(this_round.own.shape[:-1], self.divergence.empty_share)
