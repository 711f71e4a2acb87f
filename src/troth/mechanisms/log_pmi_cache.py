"""A cache of log PMI with decoys, for replays of a round with lies, in which reports face the same decoys again.

If log evidence is an integral, it dominates the cost of a line. A lie is often another provider's truth, and providers
with equal designs have equal decoys, so most of this cost is paid once. For a new lie with the same decoys, only their
joint evidence has to be computed.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from troth.core.information import second_difference

if TYPE_CHECKING:
    from collections.abc import Callable

    from troth.core.contract import Array, Model

_MAX_CACHED = 1 << 24  # numbers


class LogPmiCache:
    """Log PMI of reports with their decoys, and the log evidence of decoys, keyed by digest."""

    def __init__(self) -> None:
        self._known: dict[bytes, Array] = {}
        self._size = 0

    def score(self, model: Model, own: Array, decoys: Array) -> Array:
        """Return log PMI, ``(decoy, line)``, of reports ``(line, statistic)`` with ``(decoy, line, statistic)``."""
        lines = np.ascontiguousarray(np.moveaxis(decoys, 1, 0))
        digests = [sha256(line.tobytes()) for line in lines]
        decoy_keys = [digest.digest() for digest in digests]
        for digest, report in zip(digests, own, strict=True):
            digest.update(np.ascontiguousarray(report).tobytes())

        def scores(new: list[int]) -> Array:
            faced, keys = decoys[:, new], [decoy_keys[line] for line in new]
            decoy_evidence = self._look_up(keys, lambda chosen: np.asarray(model.log_evidence(faced[:, chosen])))
            return second_difference(model, own[new], faced, peer_evidence=decoy_evidence)

        return self._look_up([digest.digest() for digest in digests], scores)

    def _look_up(self, keys: list[bytes], compute: Callable[[list[int]], Array]) -> Array:
        """Return columns by key; missing ones are computed from their indexes, each key once."""
        new = {key: column for column, key in reversed(list(enumerate(keys))) if key not in self._known}
        known = self._known
        if new:
            computed = compute(list(new.values()))
            known = self._known | dict(zip(new, computed.T.copy(), strict=True))  # `compute` may have cached other keys
            if self._size + computed.size <= _MAX_CACHED:
                self._known, self._size = known, self._size + computed.size
        return np.stack([known[key] for key in keys], axis=1)
