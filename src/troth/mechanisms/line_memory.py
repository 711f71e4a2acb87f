"""Log PMI of reports with decoys, remembered between evaluations of a round: its truth and its lies face the same ones.

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

_MOST_NUMBERS = 1 << 24  # scores that are remembered


class LineMemory:
    """What reports scored with decoys."""

    def __init__(self) -> None:
        self._scores: dict[bytes, Array] = {}
        self._numbers = 0

    def score(self, model: Model, own: Array, decoys: Array) -> Array:
        """Return log PMI, ``(decoy, line)``, of reports ``(line, statistic)`` with ``(decoy, line, statistic)``."""
        lines = np.moveaxis(np.concatenate([own[None], decoys]), 1, 0)
        names = [sha256(line.tobytes()).digest() for line in lines]
        new = {name: line for line, name in reversed(list(enumerate(names))) if name not in self._scores}
        known = self._scores
        if new:
            at = list(new.values())
            computed = second_difference(model, own[at], decoys[:, at])
            known = known | dict(zip(new, computed.T.copy(), strict=True))
            if self._numbers + computed.size <= _MOST_NUMBERS:
                self._scores, self._numbers = known, self._numbers + computed.size
        return np.stack([known[name] for name in names], axis=1)
