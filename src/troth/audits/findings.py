"""The result of an audit: estimates with their uncertainty, as a table and a plot."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from troth.audits.plots import heat_map, plot_audit
from troth.core.formats import html_table, number

if TYPE_CHECKING:
    from troth.core.contract import Array
    from troth.mechanisms.rule import Rule

LieVerdict = Literal["gains", "loses", "open", "unchanged"]
"""Whether a lie gains or loses significantly, does neither, or changes no payment."""

VERDICT_LABELS: dict[LieVerdict, str] = {
    "gains": "GAINS",
    "loses": "loses",
    "open": "not significant",
    "unchanged": "changes nothing",
}
"""Verdicts as tables and pages print them."""


@dataclass(frozen=True)
class Finding:
    """What one lie earns, in units of the cap of an honest provider.

    Attributes
    ----------
    lie
        The name of the lie.
    truth, earned
        Expected payment of the honest report and of the lie.
    gain, low, high
        Their difference and its confidence interval, which misses the true gain with a probability of at most the
        false-alarm rate.
    detectable
        The smallest gain that the audit would almost certainly have detected.
    refused
        Share of simulations in which the report was refused and nothing was paid.
    verdict
        Whether the lie gains, loses, or makes no significant difference.
    """

    lie: str
    truth: float
    earned: float
    gain: float
    low: float
    high: float
    detectable: float
    refused: float = 0.0
    verdict: LieVerdict = "open"


@dataclass(frozen=True)
class Audit:
    """The findings of an audit; they print as a table and can be plotted."""

    rule: Rule
    simulations: int
    false_alarm: float
    empty_share: float
    findings: tuple[Finding, ...]

    @property
    def title(self) -> str:
        """One line about the rule, and what an honest and an empty report earn."""
        honest = self.findings[0].truth if self.findings else float("nan")
        return (
            f"{type(self.rule).__name__}: {self.simulations:,} simulations, in units of the cap; honest providers earn "
            f"{number(honest, 3)}, an empty report {number(self.empty_share, 3)}"
        )

    def __str__(self) -> str:
        width = max([33, *(len(f.lie) for f in self.findings)]) + 1
        head = f"{'lie':<{width}} {'earns':>7} {'gain':>8} {'interval':>19} {'detectable':>11}  verdict"
        lines = [self.title, head, "-" * len(head)]
        for f in self.findings:
            refused = f", refused {f.refused:.0%}" if f.refused else ""
            gain, low, high = (number(value, sign=True) for value in (f.gain, f.low, f.high))
            interval = f"[{low}, {high}]"
            numbers = f"{number(f.earned, 3):>7} {gain:>8} {interval:>19} {f.detectable:>11.4f}"
            lines.append(f"{f.lie:<{width}} {numbers}  {VERDICT_LABELS[f.verdict]}{refused}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = ("lie", "earns", "gain", "low", "high", "detectable", "verdict")
        rows = [
            (
                f.lie,
                number(f.earned, 3),
                *(number(x, sign=True) for x in (f.gain, f.low, f.high)),
                f"{f.detectable:.4f}",
                VERDICT_LABELS[f.verdict],
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
        """Return plain data for JSON."""
        return {
            "rule": repr(self.rule),
            "simulations": self.simulations,
            "false_alarm": self.false_alarm,
            "empty_share": self.empty_share,
            "findings": [asdict(f) for f in self.findings],
        }

    def plot(self, path: Any = None) -> Any:
        """Plot gains with their intervals; needs matplotlib (the extra ``plots``)."""
        return plot_audit(self, path)


@dataclass(frozen=True)
class Comparison:
    """Audits of several rules with the same lies."""

    audits: dict[str, Audit]
    lies: tuple[str, ...]

    def __str__(self) -> str:
        width = max((len(name) for name in self.audits), default=0) + 2
        short = (lie if len(lie) <= 21 else f"{lie[:10]}…{lie[-10:]}" for lie in self.lies)
        head = " " * width + "".join(f"{lie:>22}" for lie in short)
        lines = ["gain of each lie in percent of the cap; * gains significantly", head]
        for name, audited in self.audits.items():
            findings = [audited[lie] for lie in self.lies]
            cells = (f"{number(100 * f.gain, 1, sign=True)}{'*' if f.low > 0 else ' '}" for f in findings)
            lines.append(f"{name:<{width}}" + "".join(f"{cell:>22}" for cell in cells))
        return "\n".join(lines)

    def plot(self, path: Any = None) -> Any:
        """Plot rules against lies; needs matplotlib (the extra ``plots``)."""
        rows = {name: [audited[lie] for lie in self.lies] for name, audited in self.audits.items()}
        return heat_map(rows, "What a lie gains over the truth", path)


def finding_of(name: str, sums: Array, simulations: int, rule: Rule, false_alarm: float, accounts: int) -> Finding:
    """Return the mean gain with its empirical Bernstein interval; unbounded gains are assumed to lie within 20 sd.

    ``sums`` are over simulations: earnings of truth and lie, squared gains, and refusals of the lie.
    """
    truth, earned, squares, refused = map(float, sums)
    gain = (earned - truth) / simulations
    variance = max(squares / simulations - gain * gain, 0.0) * simulations / max(simulations - 1, 1)
    odds = float(np.log(3 / false_alarm))
    bounded = rule.individually_rational
    radius = 1.0 + accounts if bounded else np.sqrt(variance) * 20
    margin = float(np.sqrt(2 * variance * odds / simulations) + 3 * radius * odds / simulations)
    limits = (-1.0, float(accounts)) if bounded else (-np.inf, np.inf)
    return with_margin(name, truth / simulations, earned / simulations, gain, margin, limits, refused / simulations)


def with_margin(
    name: str,
    truth: float,
    earned: float,
    gain: float,
    margin: float,
    limits: tuple[float, float] = (-np.inf, np.inf),
    refused: float = 0.0,
) -> Finding:
    """Return a finding with the interval gain ± margin, clipped to the limits of all gains."""
    low, high = max(gain - margin, limits[0]), min(gain + margin, limits[1])
    verdict: LieVerdict = "gains" if low > 0 else "loses" if high < 0 else "open"
    return Finding(name, truth, earned, gain, low, high, 2 * margin, refused, verdict)
