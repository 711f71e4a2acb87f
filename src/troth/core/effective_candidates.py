"""The effective number of candidates that remain plausible given data: 1/Σ p(candidate|data)²."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from troth.core.support import Array

NEAR_ONE = 1.5
"""With fewer effective candidates than this, no more than about one candidate is left."""


@dataclass(frozen=True, eq=False)
class EffectiveCandidates:
    """The effective number of candidates, 1/Σ p(candidate|data)², given each report and given all reports.

    A small number is good news if you trust the candidates. But log PMI is then close to the log of their number, and
    the winner may be an incorrect candidate: if a *single report* leaves about one, the candidates are too coarse. If
    only all reports together leave about one, payments rely on θ being exactly that candidate.

    Attributes
    ----------
    by_report
        The effective number given each report alone.
    together
        The effective number given all reports; 0 if they rule out every candidate.
    of
        The number of candidates.
    """

    by_report: Array
    together: float
    of: int

    @property
    def near_one(self) -> bool:
        """Whether some report, or all reports together, leave about one candidate."""
        return self.coarse or self.together < NEAR_ONE

    @property
    def coarse(self) -> bool:
        """Whether some report alone leaves about one candidate."""
        return bool((self.by_report < NEAR_ONE).any())

    @property
    def warning(self) -> str:
        """Why too few candidates are left and what to do; empty if enough are left."""
        if not self.together:
            return (
                "together the reports rule out every candidate, because each gives some report probability 0: the "
                "candidates or a report are wrong"
            )
        if self.coarse:
            count = int((self.by_report < NEAR_ONE).sum())
            subject = "a report leaves" if count == 1 else f"{count} reports leave"
            return (
                f"{subject} only about one: the candidates are too coarse for this many rows. Add candidates near what "
                "past or public data suggest"
            )
        if self.near_one:
            return (
                "together the reports leave only about one: fine if θ is one of the candidates, otherwise add "
                "candidates between the likely ones"
            )
        return ""

    def __str__(self) -> str:
        spread = f"{self.by_report.min():.3g} to {self.by_report.max():.3g}"
        numbers = f"{spread} given each report alone, {self.together:.3g} given all reports"
        text = f"effective candidates out of {self.of}: {numbers}"
        return f"{text}; too few: {self.warning}" if self.near_one else text

    def to_dict(self, providers: Sequence[str]) -> dict[str, Any]:
        """Return plain data for JSON, with the numbers by provider."""
        by_report = dict(zip(providers, self.by_report.tolist(), strict=True))
        return {"of": self.of, "by_report": by_report, "together": self.together, "near_one": self.near_one}
