"""What a line-up pays in expectation over its decoys, where all that peers could report can be tried."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from troth.mechanisms.breakdown import Breakdown
from troth.mechanisms.line import limit_share
from troth.mechanisms.panels import mean_over_panels, split
from troth.mechanisms.rule import Rule, delegates
from troth.mechanisms.whole_lines import WholeLines

if TYPE_CHECKING:
    from troth.mechanisms.line_up import LineUp
    from troth.mechanisms.round import Round


@delegates("rule", "contradicted", "evaluate_empty")
@dataclass(frozen=True)
class ExpectedLineUp(Rule):
    """Pay E[share | reports] of a line-up over everything that could be drawn as decoys.

    The rank part is the chance to beat r independent decoys, whatever their number. Panels are split as by the rule.
    """

    rule: LineUp

    constant_empty_share = True
    symmetric = True
    not_offered = "is for audits of small worlds"

    def breakdown(self, this_round: Round, /) -> Breakdown:
        """Sum over all that peers could report."""
        rng = np.random.default_rng(0) if this_round.rng is None else this_round.rng
        panels = split(this_round, self.rule.panels, rng) if self.rule.panels > 1 else None
        lines = WholeLines(this_round, panels)
        strict, every = self.rule.strict, self.rule.decoys == inf
        better, worse, score = lines.stand_among_all(self.rule.rivals if strict and every else None)
        share = limit_share(better, worse, self.rule.rivals)
        if strict:
            score = score if every else lines.expected_spherical(int(self.rule.decoys))
            share = (1 - strict) * share + strict * score
        share = mean_over_panels(share, panels).reshape(this_round.own.shape[:-1])
        return Breakdown(np.clip(share, 0.0, 1.0), this_round.log_pmi())
