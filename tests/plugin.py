"""A plug-in family and rule that importing this module registers, as an add-on would.

The family has its own reduction; the rule draws with a seed and has two options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

import troth
from pareto import Pareto
from troth import mechanisms, models
from troth.core.information import log_pmi
from troth.mechanisms import Breakdown, Rule
from troth.mechanisms.drawn_peers import draw_peers
from troth.mechanisms.options import Choice, Integer, option

TIES = {"half": "a tie counts half", "nothing": "a tie counts nothing"}


@dataclass(frozen=True)
class DrawnPlace(Rule):
    """Pay the fraction of drawn groups of peers with a lower log PMI than the real peers."""

    groups: int = option(Integer("groups", 20, "how many groups of peers are drawn", "Groups", minimum=2, maximum=500))
    ties: str = option(Choice("ties", "half", "what a tie counts", "Ties", choices=TIES))

    purpose = "place among drawn peers"
    needs_seed = True
    symmetric = True
    term_labels: ClassVar[Mapping[str, str]] = {"below": "drawn groups that agree less"}
    score_formula = r"\text{score} = b / k"
    score_meaning = "How many of the drawn groups agree less with your data than your peers do."

    @property
    def peer_draws(self) -> int:  # type: ignore[override]
        """The number of groups to draw."""
        return self.groups

    def drawing(self, maximum: int) -> Rule:
        """Draw fewer groups."""
        return replace(self, groups=max(2, min(self.groups, maximum)))

    def breakdown(self, this_round: troth.Round, /) -> Breakdown:
        """Count the drawn groups with a lower log PMI."""
        real = this_round.log_pmi()
        below = np.zeros(real.shape)
        for peers in draw_peers(this_round, self.groups):
            drawn = log_pmi(this_round.evidence, this_round.own, peers)
            below += (drawn < real).sum(axis=0) + (0.5 if self.ties == "half" else 0.0) * (drawn == real).sum(axis=0)
        share = below / self.groups
        return Breakdown(share, real, share, 0.0, 1.0, {"below": below})


models.register(Pareto)
mechanisms.register(DrawnPlace)
