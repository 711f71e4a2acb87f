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
    from collections.abc import Callable, Iterable, Iterator

    from troth.core.contract import Array, Model

_MOST_NUMBERS = 1 << 24  # of decoys, and of scores, that are remembered


class LineMemory:
    """Decoys that were drawn with one seed, and what reports scored with them."""

    def __init__(self) -> None:
        self._blocks: list[Array] = []
        self._keys: list[list[bytes]] = []
        self._scores: dict[tuple[bytes, bytes], Array] = {}
        self._numbers = 0

    def decoys(self, draw: Callable[[], Iterable[Array]], numbers: int) -> Iterator[tuple[Array, list[bytes]]]:
        """Yield blocks ``(decoy, line, statistic)`` of ``numbers`` numbers in all, each with a key for every line."""
        if self._blocks:
            yield from zip(self._blocks, self._keys, strict=True)
            return
        for block in draw():
            keys = [sha256(column.tobytes()).digest() for column in np.moveaxis(block, 1, 0)]
            if numbers <= _MOST_NUMBERS:
                self._blocks.append(block)
                self._keys.append(keys)
            yield block, keys

    def score(self, model: Model, own: Array, block: Array, keys: list[bytes]) -> Array:
        """Return log PMI of reports ``(line, statistic)`` with their lines, ``(decoy, line)``."""
        names = [(key, report.tobytes()) for key, report in zip(keys, own, strict=True)]
        new = {name: line for line, name in reversed(list(enumerate(names))) if name not in self._scores}
        known = self._scores
        if new:
            lines = list(new.values())
            computed = second_difference(model, own[lines], block[:, lines])
            known = known | dict(zip(new, computed.T.copy(), strict=True))
            if self._numbers + computed.size <= _MOST_NUMBERS:
                self._scores, self._numbers = known, self._numbers + computed.size
        return np.stack([known[name] for name in names], axis=1)
