"""A cache of log PMI with decoys: when a round is replayed with lies, its reports face the same decoys again.

Where log evidence is an integral, it is most of the work of a line. A lie is often another provider's truth, and
providers with equal designs have equal decoys, so most of that work was done before. Of a new lie about the same decoys
only their evidence together with the lie is new.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from troth.core.information import second_difference

if TYPE_CHECKING:
    from collections.abc import Callable

    from troth.core.contract import Array, Model

_MAX_NUMBERS = 1 << 24  # that are cached


class LogPmiCache:
    """Log PMI of reports with their decoys, and the log evidence of decoys, by the digests of these."""

    def __init__(self) -> None:
        self._known: dict[bytes, Array] = {}
        self._numbers = 0

    def score(self, model: Model, own: Array, decoys: Array) -> Array:
        """Return log PMI, ``(decoy, line)``, of reports ``(line, statistic)`` with ``(decoy, line, statistic)``."""
        lines = np.ascontiguousarray(np.moveaxis(decoys, 1, 0))
        digests = [sha256(line.tobytes()) for line in lines]
        keys_of_decoys = [digest.digest() for digest in digests]
        for digest, report in zip(digests, own, strict=True):
            digest.update(np.ascontiguousarray(report).tobytes())

        def scores(new: list[int]) -> Array:
            faced, keys = decoys[:, new], [keys_of_decoys[line] for line in new]
            of_decoys = self._look_up(keys, lambda chosen: np.asarray(model.log_evidence(faced[:, chosen])))
            return second_difference(model, own[new], faced, peer_evidence=of_decoys)

        return self._look_up([digest.digest() for digest in digests], scores)

    def _look_up(self, keys: list[bytes], compute: Callable[[list[int]], Array]) -> Array:
        """Return columns by their keys; those that are new are computed by their numbers, each key once."""
        new = {key: column for column, key in reversed(list(enumerate(keys))) if key not in self._known}
        known = self._known
        if new:
            computed = compute(list(new.values()))
            known = self._known | dict(zip(new, computed.T.copy(), strict=True))  # what it looked up is known by now
            if self._numbers + computed.size <= _MAX_NUMBERS:
                self._known, self._numbers = known, self._numbers + computed.size
        return np.stack([known[key] for key in keys], axis=1)
