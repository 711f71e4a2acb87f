"""Lies that combine several changes of a summary, and a search for the best one on the public history."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from troth.audits.strategies.amounts import Nothing, Replicate, Withhold
from troth.audits.strategies.strategy import Knowledge, SummaryLie
from troth.audits.strategies.values import ScaleAnswers, Shift, ShrinkToMean, has_means

if TYPE_CHECKING:
    from troth.core.contract import Array
    from troth.core.reductions import Reduction


@dataclass(frozen=True)
class Distort(SummaryLie):
    """Scale around the liar's own mean, shift, withhold a share of the rows, and replicate the rest.

    Parameters
    ----------
    shift
        The shift of values, in standard deviations of the liar's daily means.
    scale
        The factor of answers, or of the distance from the liar's mean on other days; below 0 they are mirrored.
    share
        The share of rows that are withheld.
    times
        How often each row is sent.

    Examples
    --------
    >>> Distort(shift=-0.25, times=2).name
    'shift by -0.25 sd, replicate 2 times'
    """

    shift: float = 0.0
    scale: float = 1.0
    share: float = 0.0
    times: int = 1

    def __str__(self) -> str:
        parts = [
            f"scale by {self.scale:g}" * (self.scale != 1),
            f"shift by {self.shift:g} sd" * (self.shift != 0),
            f"withhold {self.share:.0%}" * (self.share > 0),
            f"replicate {self.times} times" * (self.times > 1),
        ]
        return ", ".join(filter(None, parts)) or "tell the truth"

    def suits_reduction(self, reduction: Reduction) -> bool:  # type: ignore[override]
        return all(change.suits_reduction(reduction) for change in self._changes(reduction))

    def change_summary(self, knowledge: Knowledge) -> Array:
        for change in self._changes(knowledge.reduction):
            knowledge = replace(knowledge, own=change.change_summary(knowledge))
        return knowledge.own

    def _changes(self, reduction: Reduction) -> list[SummaryLie]:
        """Return the changes of a summary in the order in which they apply."""
        changes: list[tuple[bool, SummaryLie]] = [
            (self.scale != 1, ShrinkToMean(1 - self.scale) if has_means(reduction) else ScaleAnswers(self.scale)),
            (self.shift != 0, Shift(self.shift)),
            (self.share > 0, Withhold(self.share) if self.share < 1 else Nothing()),
            (self.times > 1, Replicate(self.times)),
        ]
        return [change for applies, change in changes if applies]


_CHANGES: dict[str, tuple[float, ...]] = {
    "shift": (-1.0, -0.3, -0.1, 0.1, 0.3, 1.0),
    "scale": (0.5, 0.9, 1.1, 1.5),
    "share": (0.25, 0.5, 1.0),
    "times": (2, 3),
}


@dataclass(frozen=True)
class Searched(SummaryLie):
    """Use the `Distort` that would have earned most on the public history, under the model that will pay.

    Shifting, scaling, withholding and replicating are first tried separately. The best amounts are then combined
    greedily, in order of their gains.

    Parameters
    ----------
    days
        The number of recent public days to search on; by default, all of them. Fewer days reveal drift sooner.
    """

    days: int | None = None

    def __str__(self) -> str:
        return "searched on the past" if self.days is None else f"searched on the last {self.days} days"

    def change_summary(self, knowledge: Knowledge) -> Array:
        return self.search(knowledge).change_summary(knowledge)

    def search(self, knowledge: Knowledge) -> Distort:
        """Return the best lie on the public history, or the truth if no lie gains."""

        def earned(lie: Distort) -> float:
            shares = knowledge.rehearse(lie)[-self.days if self.days else None :]
            shares = shares[~np.isnan(shares)]
            return float(shares.mean()) if len(shares) else -np.inf

        best = Distort()
        best_share = earned(best)
        candidates = []
        for name, amounts in _CHANGES.items():
            lies = [(by, Distort(**{name: by})) for by in amounts]  # type: ignore[arg-type]
            gains = [(earned(lie), by) for by, lie in lies if lie.suits_reduction(knowledge.reduction)]
            if gains and max(gains)[0] > best_share:
                candidates.append((*max(gains), name))
        for _, by, name in sorted(candidates, key=lambda single: -single[0]):
            lie = replace(best, **{name: by})  # type: ignore[arg-type]
            if earned(lie) > best_share:
                best, best_share = lie, earned(lie)
        return best
