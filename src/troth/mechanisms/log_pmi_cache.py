"""A cache of log PMI with decoys: when a round is replayed with lies, its reports face the same decoys again.

Where log evidence is an integral, it is most of the work of a line. A lie is often another provider's truth, and
providers with equal designs have equal decoys, so most of that work was done before.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from troth.core.information import second_difference

if TYPE_CHECKING:
    from troth.core.contract import Array, Model

_MOST_NUMBERS = 1 << 24  # that are cached


class LogPmiCache:
    """Log PMI of reports with their decoys, by the digest of both."""

    def __init__(self) -> None:
        self._scores: dict[bytes, Array] = {}
        self._numbers = 0

    def score(self, model: Model, own: Array, decoys: Array) -> Array:
        """Return log PMI, ``(decoy, line)``, of reports ``(line, statistic)`` with ``(decoy, line, statistic)``."""
        lines = np.moveaxis(np.concatenate([own[None], decoys]), 1, 0)
        keys = [sha256(line.tobytes()).digest() for line in lines]
        new = {key: line for line, key in reversed(list(enumerate(keys))) if key not in self._scores}
        scores = self._scores
        if new:
            lines_to_score = list(new.values())
            computed = second_difference(model, own[lines_to_score], decoys[:, lines_to_score])
            scores = scores | dict(zip(new, computed.T.copy(), strict=True))
            if self._numbers + computed.size <= _MOST_NUMBERS:
                self._scores, self._numbers = scores, self._numbers + computed.size
        return np.stack([scores[key] for key in keys], axis=1)
