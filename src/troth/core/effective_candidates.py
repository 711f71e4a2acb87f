"""How many candidates remain plausible given data: 1/Σ p(candidate|data)²."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from troth.core.support import Array

NEAR_ONE = 1.5
"""Fewer effective candidates than this leave next to nothing to learn."""


@dataclass(frozen=True, eq=False)
class EffectiveCandidates:
    """How many candidates data leave, 1/Σ p(candidate|data)²: each report alone, and all together.

    Few are good news if you trust the candidates. But log PMI is then near the log of how few they were, and one
    wrong candidate that wins says nothing: where a *single report* leaves about one, the candidates are too coarse.
    Where all together leave about one, payments rest on θ being exactly that candidate.
    """

    by_report: Array
    together: float
    of: int

    @property
    def near_one(self) -> bool:
        """Whether some report, or all together, leave about one candidate."""
        return self.coarse or self.together < NEAR_ONE

    @property
    def coarse(self) -> bool:
        """Whether some report alone leaves about one candidate, so that the candidates are too coarse for it."""
        return bool((self.by_report < NEAR_ONE).any())

    @property
    def warning(self) -> str:
        """What to do about too few, or nothing."""
        if not self.together:
            return (
                "all together leave none: every candidate gives some report probability 0, so the candidates or a "
                "report are wrong"
            )
        if self.coarse:
            count = int((self.by_report < NEAR_ONE).sum())
            subject = "a report leaves" if count == 1 else f"{count} reports leave"
            return (
                f"{subject} about one alone: the candidates are too coarse for this many rows. Take more, near what "
                "past or public data say"
            )
        if self.near_one:
            return (
                "all together leave about one: right if θ is one of the candidates, otherwise take more between the "
                "likely ones"
            )
        return ""

    def __str__(self) -> str:
        spread = f"{self.by_report.min():.3g} to {self.by_report.max():.3g}"
        text = f"of {self.of} candidates a report leaves {spread} effective ones, all together {self.together:.3g}"
        return f"{text}; near one: {self.warning}" if self.near_one else text

    def to_dict(self, providers: Sequence[str]) -> dict[str, Any]:
        """Plain data for JSON, with the number that each provider's report leaves by name."""
        by_report = dict(zip(providers, self.by_report.tolist(), strict=True))
        return {"of": self.of, "by_report": by_report, "together": self.together, "near_one": self.near_one}
