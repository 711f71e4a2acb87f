"""The result of an audit: numbers with their uncertainty, a table, a plot."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from troth.core.formats import number
from troth.core.notebook import html_table

if TYPE_CHECKING:
    from troth.core.contract import Array
    from troth.mechanisms.rule import Rule

LieVerdict = Literal["gains", "loses", "open", "unchanged"]
"""Whether a lie gains or loses significantly, neither, or changes no payment at all."""

_WORDS: dict[LieVerdict, str] = {
    "gains": "GAINS",
    "loses": "loses",
    "open": "not significant",
    "unchanged": "changes nothing",
}


def verdict_in_words(verdict: LieVerdict) -> str:
    """Return a verdict as tables and pages print it; a gain is in capitals."""
    return _WORDS[verdict]


@dataclass(frozen=True)
class Finding:
    """What one lie earns, in units of the cap of an honest provider.

    Attributes
    ----------
    lie
        What was done.
    truth, earned
        Expected payment of the honest report and of the lie.
    gain, low, high
        Their difference and its confidence interval, which misses the true gain with the false-alarm rate at most.
    detectable
        The smallest gain that the audit would have found with near certainty.
    refused
        Share of simulations in which the report fell outside the declared range, so that nothing was paid.
    """

    lie: str
    truth: float
    earned: float
    gain: float
    low: float
    high: float
    detectable: float
    refused: float = 0.0

    @property
    def verdict(self) -> LieVerdict:
        """Whether the lie gains, loses, or makes no difference that the audit can see."""
        return "gains" if self.low > 0 else "loses" if self.high < 0 else "open"


@dataclass(frozen=True)
class Audit:
    """The findings of an audit, which print as a table and plot."""

    rule: Rule
    simulations: int
    false_alarm: float
    empty_share: float
    findings: tuple[Finding, ...]

    @property
    def title(self) -> str:
        """What the honest and an empty report earn, in a line."""
        honest = self.findings[0].truth if self.findings else float("nan")
        return (
            f"{type(self.rule).__name__}: {self.simulations:,} simulations, in units of the cap; the honest earn "
            f"{number(honest, 3)}, an empty report {number(self.empty_share, 3)}"
        )

    def __str__(self) -> str:
        wide = max([33, *(len(f.lie) for f in self.findings)]) + 1
        head = f"{'lie':<{wide}} {'earns':>7} {'gain':>8} {'interval':>19} {'detectable':>11}  verdict"
        lines = [self.title, head, "-" * len(head)]
        for f in self.findings:
            refused = f", refused {f.refused:.0%}" if f.refused else ""
            gain, low, high = (number(each, sign=True) for each in (f.gain, f.low, f.high))
            interval = f"[{low}, {high}]"
            numbers = f"{number(f.earned, 3):>7} {gain:>8} {interval:>19} {f.detectable:>11.4f}"
            lines.append(f"{f.lie:<{wide}} {numbers}  {verdict_in_words(f.verdict)}{refused}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = ("lie", "earns", "gain", "low", "high", "detectable", "verdict")
        rows = [
            (
                f.lie,
                number(f.earned, 3),
                *(number(x, sign=True) for x in (f.gain, f.low, f.high)),
                f"{f.detectable:.4f}",
                verdict_in_words(f.verdict),
            )
            for f in self.findings
        ]
        return html_table(self.title, head, rows)

    def __getitem__(self, lie: str) -> Finding:
        return next(f for f in self.findings if f.lie == lie)

    def gaining(self) -> list[Finding]:
        """Return the lies that gain significantly."""
        return [f for f in self.findings if f.verdict == "gains"]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "rule": repr(self.rule),
            "simulations": self.simulations,
            "false_alarm": self.false_alarm,
            "empty_share": self.empty_share,
            "findings": [{**asdict(f), "verdict": f.verdict} for f in self.findings],
        }

    def plot(self, path: Any = None) -> Any:
        """Draw gains with their intervals; needs matplotlib (the extra ``plots``)."""
        from troth.audits.plots import plot_audit

        return plot_audit(self, path)


class Total:
    """Sums over simulations from which a finding is made."""

    def __init__(self) -> None:
        self.simulations = 0
        self.truth = self.earned = self.squares = self.refused = 0.0

    def add(self, truth: Array, earned: Array, refused: Any) -> None:
        """Add what truth and lie earned in some simulations, and in which the lie was refused."""
        gain = earned - truth
        self.simulations += len(gain)
        self.truth += float(truth.sum())
        self.earned += float(earned.sum())
        self.squares += float((gain * gain).sum())
        self.refused += float(refused.sum())

    def finding(self, name: str, rule: Rule, false_alarm: float, accounts: int) -> Finding:
        """Return the mean gain with its empirical Bernstein interval; unbounded rules are taken to reach 20 sd."""
        n = self.simulations
        gain = (self.earned - self.truth) / n
        variance = max(self.squares / n - gain * gain, 0.0) * n / max(n - 1, 1)
        odds = float(np.log(3 / false_alarm))
        reach = 1.0 + accounts if rule.individually_rational else np.sqrt(variance) * 20
        margin = float(np.sqrt(2 * variance * odds / n) + 3 * reach * odds / n)
        least, most = (-1.0, float(accounts)) if rule.individually_rational else (-np.inf, np.inf)  # of any gain
        low, high = max(gain - margin, least), min(gain + margin, most)
        return Finding(name, self.truth / n, self.earned / n, gain, low, high, 2 * margin, self.refused / n)
