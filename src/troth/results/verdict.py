"""Before money moves: does the model fit, and who would have been better off sending nothing or less."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.contract import HasReduction
from troth.core.errors import TrothError
from troth.results.findings import FAILURES, check_campaign_fit
from troth.results.replays import last_scene

if TYPE_CHECKING:
    from troth.certificates import Fit
    from troth.results.result import Result

_LESS = {"a tenth": 0.1, "half": 0.5}
_SIMULATIONS = 800  # the fewest that can tell that a model does not fit
_CLEARLY = 0.01  # of the cap, by which less must have paid more


@dataclass(frozen=True)
class Verdict:
    """What a buyer should know before paying.

    Attributes
    ----------
    fit
        The check of the model, None if it cannot be checked.
    below_empty
        Providers that are paid less than an empty report, by name with the difference in shares of the cap.
    better_with_less
        Providers that a tenth or half of their rows with the same averages would have paid more, by name with the gain
        in shares of the cap; on the last round.
    """

    fit: Fit | None
    below_empty: dict[str, float] = field(default_factory=dict)
    better_with_less: dict[str, float] = field(default_factory=dict)
    unchecked: str = ""

    @property
    def stops(self) -> bool:
        """Whether nothing should be paid before somebody has looked."""
        return self.fit is not None and not self.fit.plausible

    @property
    def word(self) -> str:
        """One of "fits", "doubtful", "does not fit" and "not checked"."""
        return "not checked" if self.fit is None else self.fit.verdict

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "model": self.word,
            "p_value": None if self.fit is None else self.fit.p_value,
            "below_empty_report": self.below_empty,
            "better_with_less": self.better_with_less,
        }

    def __str__(self) -> str:
        p = "" if self.fit is None else f" (p = {self.fit.p_value:.3f})"
        lines = [f"model     {self.word}{p}{f': {self.unchecked}' if self.unchecked else ''}"]
        for label, names in (
            ("nothing", self.below_empty),
            ("less", self.better_with_less),
        ):
            listed = ", ".join(f"{name} ({share:+.1%} of the cap)" for name, share in list(names.items())[:6])
            more = f" and {len(names) - 6} more" if len(names) > 6 else ""
            lines.append(f"better off sending {label:<8} {listed + more if names else 'nobody'}")
        return "\n".join(lines)


def judge(result: Result) -> Verdict:
    """Check the model on the reports, and compare everybody's payment with that of nothing and of less."""
    below: dict[str, float] = {}
    for paid in result.rounds:
        for payment in paid.payments:
            gap = payment.empty_share - payment.share
            if gap > 0:
                below[payment.provider] = max(gap, below.get(payment.provider, 0.0))
    fit, why = None, ""
    try:
        with np.errstate(all="ignore"):
            fit = check_campaign_fit(result.campaign, result.reports, _SIMULATIONS).fit
    except FAILURES as error:
        why = str(error).split("\n")[0]
    return Verdict(fit, below, _better_with_less(result), why)


def _better_with_less(result: Result) -> dict[str, float]:
    if not isinstance(result.campaign.model, HasReduction) or not result.rounds:
        return {}
    campaign, stage, seed = last_scene(result)
    at: Any = (*stage.index, np.array(stage.paid))
    truth = stage.rule.evaluate(stage.fresh(seed)).share[at]
    summaries = {report.provider: report.summary for report in result.reports if report.day == result.rounds[-1].day}
    gains: dict[str, float] = {}
    for part in _LESS.values():
        own = stage.round.statistics.copy()
        for place, model in zip(stage.paid, (stage.models[place] for place in stage.paid), strict=True):
            name = stage.names[place]
            if name in summaries:
                own[(*stage.index, place)] = campaign.statistics(model, part * summaries[name])
        try:
            with np.errstate(all="ignore"):
                share = stage.rule.breakdown(stage.fresh(seed).with_own(own)).share[at]
        except (TrothError, ArithmeticError, ValueError):
            continue
        for place, gain in zip(stage.paid, share - truth, strict=True):
            if gain > _CLEARLY:
                name = stage.names[place]
                gains[name] = max(float(gain), gains.get(name, 0.0))
    return gains
