"""The options of a line-up, for its constructor, campaign files and forms."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from troth.mechanisms.options import Choice, Integer, Number

_ALL = "all"  # in campaign files and forms


@dataclass(frozen=True)
class DecoysOption(Integer):
    """The number of decoys in a line: an integer, or ``"all"``, which the rule stores as ``math.inf``."""

    def problem(self, value: Any) -> str:
        if isinstance(value, str | float) and value in (_ALL, inf):
            return ""
        return super().problem(value).replace("must be", f'must be "{_ALL}" or')

    def write(self, value: Any) -> dict[str, Any] | None:
        return {self.key: _ALL} if value == inf else super().write(value)

    def parse(self, text: str) -> Any:
        if text.strip().lower() in (_ALL, "inf"):
            return inf
        try:
            return super().parse(text)
        except ValueError:
            raise ValueError(f"{text!r} is neither a whole number nor {_ALL}") from None


RIVALS = Integer(
    "rivals",
    4,
    "an empty report is paid 1/(rivals + 1) of the cap",
    "Rivals of the real peers",
    minimum=1,
    maximum=1000,
)
DECOYS = DecoysOption(
    "decoys",
    999,
    'the number of decoys to draw, or "all" for everything that peers could report; more make payments less random',
    "Decoys",
    minimum=1,
    maximum=1_000_000,
)
STRICT = Number(
    "strict",
    0.0,
    "from 0 to 1: the weight of a strict score in a share; with it no lie is free",
    "Weight of the strict score",
    above=np.nextafter(0.0, -1.0),
    below=np.nextafter(1.0, 2.0),
    expected="a number from 0 to 1",
)
PANELS = Integer(
    "panels",
    1,
    "split peers into panels: another provider moves a share by at most 1/panels on average (1/peers if fewer)",
    "Panels",
    minimum=1,
    maximum=1_000_000,
)
TIES = Choice(
    "ties",
    "average",
    "or lot: ties are ordered at random, and the truth is best for every attitude to risk",
    "Ties",
    choices={"average": "averaged", "lot": "in random order"},
)
SOURCE = Choice(
    "source",
    "model",
    "or days: decoys are the same peers on later days",
    "Decoys come from",
    choices={"model": "the model", "days": "later days"},
)
