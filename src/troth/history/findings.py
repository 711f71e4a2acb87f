"""The result of a backtest: what each lie would have gained, for each provider and overall, and a plain verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.history.intervals import holm, over_days

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.contract import Array
    from troth.mechanisms.rule import Rule

HONEST_PAST = (
    "The past reports are taken as honest: what a lie gains is measured against them, and a provider that lied then "
    "passes for its own truth."
)
INDEPENDENT_PAST = (
    "The history must be public or already paid for: it must not depend on the reports of the round it is used for, "
    "or a provider could lie today to be paid by a better model tomorrow."
)

_NAMED = 6  # a verdict names at most this many lies that gain


@dataclass(frozen=True)
class PastFinding:
    """What one lie would have gained on past days, in units of the cap.

    Attributes
    ----------
    lie
        What was done.
    provider
        Who did it, or None for the average over providers.
    truth, earned
        Mean payment of what was reported, and of the lie.
    gain, low, high
        Their difference and its confidence interval over days, each at the stated level by itself.
    verdict
        ``"GAINS"`` or ``"loses"`` if that is significant among all comparisons together, else
        ``"no difference found"``.
    days
        On how many days.
    refused
        Share of days on which the lie could not have been paid: impossible, or out of the declared range.
    """

    lie: str
    provider: Any
    truth: float
    earned: float
    gain: float
    low: float
    high: float
    verdict: str
    days: int
    refused: float = 0.0


@dataclass(frozen=True, eq=False)
class Backtest:
    """What the known lies would have earned on past days; prints as a table and plots as a picture.

    Attributes
    ----------
    name
        What the model is called.
    rule
        The payment rule.
    overall
        One finding per lie, averaged over the providers of each day.
    findings
        One finding per lie and provider.
    false_alarm
        Largest probability that any lie is said to gain, of any provider, although none does.
    negligible
        Gains up to this share of the cap are not counted as gains.
    log_score
        Mean log probability of a held-out day under the fitted model, up to what ``measure`` says; NaN if the model
        knows it only up to terms that depend on its parameters.
    gains
        Daily gains ``(day, provider, lie)``, NaN where there was no report.
    scores
        Log probability of each held-out day, ``(day,)``.
    measure
        What log scores leave out: only those that leave out the same are comparable, and none where it is None.
    family
        The family of the model, as `troth.fit` takes it.
    """

    name: str
    rule: Rule
    providers: tuple[Any, ...]
    lies: tuple[str, ...]
    days: int
    folds: int
    false_alarm: float
    negligible: float
    truth: float
    log_score: float
    overall: tuple[PastFinding, ...]
    findings: tuple[PastFinding, ...]
    gains: Array = field(repr=False)
    scores: Array = field(repr=False)
    measure: str | None = None
    family: str = ""

    def worst(self, lie: str | None = None) -> PastFinding:
        """Return the provider who gains most, by a lie or by any; who was never payable comes last."""
        findings = [f for f in self.findings if lie is None or f.lie == lie]
        return max(findings, key=lambda f: -np.inf if np.isnan(f.gain) else f.gain)

    def __getitem__(self, lie: str) -> PastFinding:
        return next(f for f in self.overall if f.lie == lie)

    def of(self, provider: Any, lie: str) -> PastFinding:
        """Return the finding of one provider and one lie."""
        return next(f for f in self.findings if f.provider == provider and f.lie == lie)

    def gaining(self) -> list[PastFinding]:
        """Return what gains significantly: lies on average over providers, and of single providers."""
        return [f for f in (*self.overall, *self.findings) if f.verdict == "GAINS"]

    def log_score_text(self, digits: int) -> str:
        """Return the log score for a table, or that it is not comparable with others."""
        return "not comparable" if self.measure is None else f"{self.log_score:.{digits}f}"

    @property
    def incentive(self) -> float:
        """How much of the cap a lie costs on average over lies and providers."""
        return -float(np.mean([f.gain for f in self.overall]))

    @property
    def verdict(self) -> str:
        """The result in a sentence or two."""
        gaining = self.gaining()
        if not gaining:
            worst = self.worst()
            if worst.gain <= 0:
                return f"No lie gains under {self.name}: every one would have cost every provider."
            return (
                f"No lie gains significantly under {self.name}; the most that any gained is {100 * worst.gain:+.1f}% "
                f"of the cap ({worst.lie}, {worst.provider}), which chance explains."
            )
        named = sorted(gaining, key=lambda f: (f.provider is not None, -f.gain))
        listing = "; ".join(
            f"{f.lie} ({'all providers' if f.provider is None else f.provider}) {100 * f.gain:+.1f}% of the cap"
            for f in named[:_NAMED]
        )
        more = f"; and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        return f"Under {self.name} lies gain: {listing}{more}."

    def __str__(self) -> str:
        head = f"{'lie':<30} {'gain':>7} {'interval':>17}  {'verdict':<20} worst provider"
        lines = [
            f"{self.name}, {type(self.rule).__name__}: {self.days} held-out days in {self.folds} blocks, "
            f"{len(self.providers)} providers; percent of the cap",
            f"honest payoff {100 * self.truth:.1f}, log score {self.log_score_text(4)} per day; a gain of up to "
            f"{100 * self.negligible:g} is not counted",
            head,
            "-" * len(head),
        ]
        for f in self.overall:
            worst = self.worst(f.lie)
            interval = f"[{100 * f.low:+.2f}, {100 * f.high:+.2f}]"
            mark = " GAINS" if worst.verdict == "GAINS" else ""
            lines.append(
                f"{f.lie:<30} {100 * f.gain:>+7.2f} {interval:>17}  {f.verdict:<20} "
                f"{worst.provider} {100 * worst.gain:+.2f}{mark}"
            )
        return "\n".join([*lines, self.verdict, HONEST_PAST, INDEPENDENT_PAST])

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "model": self.name,
            "rule": repr(self.rule),
            "providers": list(self.providers),
            "days": self.days,
            "folds": self.folds,
            "false_alarm": self.false_alarm,
            "negligible": self.negligible,
            "truth": self.truth,
            "log_score": None if self.measure is None else self.log_score,
            "incentive": self.incentive,
            "verdict": self.verdict,
            "assumes": [HONEST_PAST, INDEPENDENT_PAST],
            "overall": [_plain(f) for f in self.overall],
            "findings": [_plain(f) for f in self.findings],
        }

    def plot(self, path: Any = None) -> Any:
        """Draw providers against lies; needs matplotlib (``pip install troth[plots]``)."""
        from troth.history.plots import plot_backtest

        return plot_backtest(self, path)


def _plain(finding: PastFinding) -> dict[str, Any]:
    """Return plain data, with None where there was nothing to measure."""
    return {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in asdict(finding).items()}


def findings_of(
    lies: Sequence[str],
    providers: Sequence[Any],
    truth: Array,
    gains: Array,
    refused: Array,
    false_alarm: float,
    negligible: float,
) -> tuple[tuple[PastFinding, ...], tuple[PastFinding, ...]]:
    """Return findings overall and by provider from daily numbers ``(day, provider[, lie])``.

    Significance is by Holm's method over all lies, overall and of every provider, one-sided for gains and for losses.
    """
    columns: list[tuple[str, Any, Array, Array, Array]] = [
        (lie, None, _daily(truth), _daily(gains[..., k]), _daily(refused[..., k])) for k, lie in enumerate(lies)
    ]
    for k, lie in enumerate(lies):
        for i, provider in enumerate(providers):
            columns.append((lie, provider, truth[:, i], gains[:, i, k], refused[:, i, k]))
    intervals = [over_days(gain, false_alarm, negligible) for _, _, _, gain, _ in columns]
    above = holm(np.array([interval.above for interval in intervals]), false_alarm)
    below = holm(np.array([interval.below for interval in intervals]), false_alarm)
    findings = []
    for (lie, provider, honest, _, out), interval, gains_, loses in zip(columns, intervals, above, below, strict=True):
        verdict = "GAINS" if gains_ else "loses" if loses else "no difference found"
        mean, gain = _mean(honest), interval.mean
        numbers = mean, mean + gain, gain, interval.low, interval.high
        findings.append(PastFinding(lie, provider, *numbers, verdict, interval.days, _mean(out)))
    return tuple(findings[: len(lies)]), tuple(findings[len(lies) :])


def _daily(numbers: Array) -> Array:
    """Mean over the providers who reported, for each day; NaN if nobody did."""
    count = (~np.isnan(numbers)).sum(axis=1)
    return np.where(count > 0, np.nansum(numbers, axis=1) / np.maximum(count, 1), np.nan)


def _mean(numbers: Array) -> float:
    measured = numbers[~np.isnan(numbers)]
    return float(measured.mean()) if len(measured) else float("nan")
