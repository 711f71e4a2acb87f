"""A model's statistics of past summaries.

A history is added up once. A model that is fitted later has another prior mean, and wants its moments around that: a
reduction converts summaries without the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from troth.core.contract import Array, HasReduction
    from troth.core.reductions import Reduction


def statistics_of(model: HasReduction, summaries: Array, given: Reduction) -> Array:
    """Return a model's statistics of summaries that ``given`` has made."""
    return np.asarray(model.from_summary(given.convert(summaries, model.reduction)), dtype=np.float64)
