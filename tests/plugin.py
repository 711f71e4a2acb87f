"""A family and a rule that Troth does not know, registered when this module is imported, as an add-on would do it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import troth
from rayleigh import Rayleigh
from troth import mechanisms, models
from troth.mechanisms import Breakdown, Rule
from troth.mechanisms.options import Number, option


@dataclass(frozen=True)
class Agreement(Rule):
    """Pay cap·PMIᵏ/(1 + PMIᵏ): bounded, and not truthful."""

    slope: float = option(Number("slope", 1.0, "how steep it is", "Slope", above=0, wanted="a number above 0"))

    purpose = "agreement with the peers"
    symmetric = True
    constant_empty_share = True
    term_labels: ClassVar[Mapping[str, str]] = {"odds": "odds that data and peers belong together"}
    score_formula = r"\text{score} = \text{PMI}^k / (1 + \text{PMI}^k)"
    score_meaning = "Data that agree with the peers score high."

    def breakdown(self, this_round: troth.Round, /) -> Breakdown:
        """Squash log PMI."""
        log_pmi = this_round.log_pmi()
        share = 1 / (1 + np.exp(-self.slope * log_pmi))
        return Breakdown(share, log_pmi, share, 0.0, 1.0, {"odds": np.exp(self.slope * log_pmi)})


models.register(Rayleigh)
mechanisms.register(Agreement)
