"""Mechanism 1, corrected: log PMI with the peers on a scale that was fixed beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from troth.mechanisms.rule import Breakdown, Round, Rule, normalise

if TYPE_CHECKING:
    from troth.core.contract import Array
    from troth.mechanisms.score_range import ScoreRange


@dataclass(frozen=True)
class OneTime(Rule):
    """Pay cap·(log PMI − low)/(high − low), and nothing where PMI = 0.

    Truthful if the range holds for every admissible report and, where PMI = 0 is possible, keeps one nat of margin
    (erratum E5): `exact_range` and `paper_range` see to both. With a `clipped_range` truthful up to its ε.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(1, 1)
    >>> rule = OneTime(troth.clipped_range(model, rows=[4] * 3))
    >>> t = np.stack([model.statistics(x) for x in ([1, 1, 1, 0], [1, 1, 0, 1], [0, 0, 0, 0])])
    >>> rule.pay(model, t, budget=90.0).round(2)
    array([25.4 , 25.4 , 18.65])
    """

    score_range: ScoreRange

    constant_empty_share = True
    pools_peers = True

    def breakdown(self, this_round: Round, /) -> Breakdown:
        """Put log PMI on the scale."""
        scale, log_pmi = self.score_range, this_round.log_pmi()
        floor = -np.inf if scale.source != "clipped" else scale.low
        score = np.maximum(log_pmi, floor)
        impossible = np.isneginf(score)
        possible = np.where(impossible, scale.low, score)
        share = np.where(impossible, 0.0, normalise(possible, scale.low, scale.high, this_round.lenient))
        note = "PMI is 0: the peers' data rule this report out"
        return Breakdown(share, log_pmi, score, scale.low, scale.high, note=note, noted=impossible)

    def empty_share_of(self, this_round: Round, /) -> Array:
        """Where 0 lies on the scale, because an empty report has log PMI 0."""
        share = normalise(np.zeros(1), self.score_range.low, self.score_range.high)[0]
        return np.full(this_round.own.shape[:-1], share)
