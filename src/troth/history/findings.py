"""The result of a backtest: what each lie would have gained, by provider and overall, and a verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.audits.findings import VERDICT_LABELS, Finding
from troth.audits.plots import heat_map
from troth.core.formats import number, true_minus
from troth.history.drift import shelf_life
from troth.history.splits import SPLITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.contract import Array
    from troth.history.drift import Age, Stretch, Trend
    from troth.mechanisms.rule import Rule

HONEST_PAST = (
    "Past reports are assumed honest: gains are measured against them, and a lie that was told then counts as the "
    "truth."
)
INDEPENDENT_PAST = (
    "The history must be public or already paid for: it must not depend on the reports of the round it is used for, "
    "or a provider could lie today to be paid under a better model tomorrow."
)

_MAX_NAMED = 6  # a verdict names at most this many lies that gain
_MIN_DAYS = 90  # with fewer held-out days a pass means little
_MAX_DETECTABLE = 0.02  # a pass means little if a larger mean gain, as a share of the cap, can go unnoticed,
_MAX_DETECTABLE_ALONE = 0.1  # or a larger gain of a single provider


@dataclass(frozen=True)
class PastFinding(Finding):
    """What one lie would have gained on past days, in units of the cap; averaged over providers if none is named.

    Intervals are over days, and each holds separately. A provider's gain is shrunk towards the mean over providers,
    more strongly if providers are alike. A detectable gain would have been significant with 80% probability; the gain
    of a single provider is harder to detect than a gain of all. ``refused`` is the share of days on which the lie could
    not have been paid, because it is impossible or out of the score range. The verdict is ``"gains"`` or ``"loses"`` if
    this is significant after correction for all comparisons, ``"unchanged"`` if no payment changes, else ``"open"``.
    """

    provider: Any = None
    days: int = 0


@dataclass(frozen=True, eq=False)
class Backtest:
    """What the known lies would have earned on past days; it prints as a table and can be plotted.

    Attributes
    ----------
    overall
        One finding per lie, averaged over the providers of each day.
    findings
        One finding per lie and provider.
    false_alarm
        The maximum probability that any lie of any provider is reported to gain although none does.
    negligible
        Gains up to this share of the cap are not counted as gains.
    log_score
        The mean log probability of a held-out day under the fitted model, without the terms in ``measure``; NaN if the
        model knows it only up to terms that depend on its parameters.
    split
        How days were split, one of `troth.history.splits.SPLITS`.
    stretches
        Summaries of the stretches, in order.
    ages
        The losses of older fits, for a rolling origin.
    trends
        Lies whose gain rises significantly over the days of a rolling origin; the false-alarm rate holds for all.
    gains, scores
        Daily gains ``(day, provider, lie)``, NaN without a report, and daily log probabilities ``(day,)``.
    measure
        The terms that log scores leave out. Scores are comparable only if these agree, and never if it is None.
    family
        The name of the model's family, as `troth.fit` takes it.
    recent, ahead
        The number of recent days of each fit, None for all days, and of days ahead if the model drifts.
    left_out
        Known lies that could not be replayed, because they do not follow from the sums that the history has.
    """

    name: str
    rule: Rule
    providers: tuple[Any, ...]
    lies: tuple[str, ...]
    days: int
    split: str
    false_alarm: float
    negligible: float
    truth: float
    log_score: float
    overall: tuple[PastFinding, ...]
    findings: tuple[PastFinding, ...]
    stretches: tuple[Stretch, ...]
    ages: tuple[Age, ...]
    trends: tuple[Trend, ...]
    gains: Array = field(repr=False)
    scores: Array = field(repr=False)
    measure: str | None = None
    family: str = ""
    recent: int | None = None
    ahead: int | None = None
    left_out: tuple[str, ...] = ()

    def worst(self, lie: str | None = None) -> PastFinding:
        """Return the finding of the provider who gains most, by one lie or by any; significant gains come first.

        Providers who were never payable come last.
        """
        findings = [f for f in self.findings if lie is None or f.lie == lie]
        return max(findings, key=lambda f: (f.verdict == "gains", -np.inf if np.isnan(f.gain) else f.gain))

    def __getitem__(self, lie: str) -> PastFinding:
        return next(f for f in self.overall if f.lie == lie)

    def of(self, provider: Any, lie: str) -> PastFinding:
        """Return the finding of one provider and one lie."""
        return next(f for f in self.findings if f.provider == provider and f.lie == lie)

    def gaining(self) -> list[PastFinding]:
        """Return the significant gains, both of means over providers and of single providers."""
        return [f for f in (*self.overall, *self.findings) if f.verdict == "gains"]

    def lies_that_gain(self) -> list[str]:
        """Return the lies by which providers on average, or a single one, gain significantly."""
        gaining = {f.lie for f in self.gaining()}
        return [lie for lie in self.lies if lie in gaining]

    def log_score_text(self, digits: int) -> str:
        """Return the log score as text for a table, or "not comparable"."""
        return "not comparable" if self.measure is None else number(self.log_score, digits)

    @property
    def incentive(self) -> float:
        """The mean cost of a lie over lies and providers, as a share of the cap."""
        return -float(np.mean([f.gain for f in self.overall]))

    @property
    def detectable(self) -> float:
        """The mean gain over providers that would have been detected with 80% probability.

        It is the largest over lies whose interval reaches above 0; the others certainly do not gain.
        """
        return max(f.detectable for f in _open(self.overall))

    @property
    def detectable_alone(self) -> float:
        """Like `detectable`, for a lie by which a single provider gains."""
        return max(f.detectable for f in _open(self.findings))

    @property
    def underpowered(self) -> bool:
        """Whether days are few, or a gain of 2% of the cap for all providers, or 10% for one, could go unnoticed."""
        noticeable = self.detectable <= _MAX_DETECTABLE and self.detectable_alone <= _MAX_DETECTABLE_ALONE
        return self.days < _MIN_DAYS or not noticeable

    @property
    def power(self) -> str:
        """A sentence on the gains that the backtest could have detected."""
        if not self.detectable < 1:
            return f"{self.days} held-out days would reveal no gain of any size reliably."
        alone = f" ({100 * self.detectable_alone:.1f}% for one provider)" if self.detectable_alone < 1 else ""
        return (
            f"{self.days} held-out days would reveal, with 80% probability, a lie that gains "
            f"{100 * self.detectable:.1f}% of the cap on average over providers{alone}, and a smaller gain less often."
        )

    @property
    def caution(self) -> str:
        """Like `power`, with a warning if a pass means little."""
        return f"{self.power} So this pass means little: wait for more days." if self.underpowered else self.power

    @property
    def verdict(self) -> str:
        """The outcome, and the gains that could have been detected."""
        return f"{self.outcome} {self.power if self.gaining() else self.caution}"

    @property
    def outcome(self) -> str:
        """A sentence on which lies gain, if any."""
        gaining = self.gaining()
        if not gaining:
            return f"No lie gains significantly under {self.name}{self.coverage}{self._best_lie()}."
        gains = sorted(gaining, key=lambda f: (f.provider is not None, -f.gain))
        named = ((f, "all providers" if f.provider is None else f.provider) for f in gains[:_MAX_NAMED])
        listing = "; ".join(f"{true_minus(f.lie)} ({name}) {100 * f.gain:+.1f}% of the cap" for f, name in named)
        and_more = f"; and {len(gains) - _MAX_NAMED} more" if len(gains) > _MAX_NAMED else ""
        return f"Under {self.name} lies gain: {listing}{and_more}."

    def _best_lie(self) -> str:
        """Describe the best lie if none gains significantly."""
        best = self.worst()
        if np.isnan(best.gain):
            return ""
        if best.gain > 0:
            provider = "all providers" if self._same_for_all(best.lie) else best.provider
            return (
                f"; the most that any gained is {100 * best.gain:+.1f}% of the cap ({true_minus(best.lie)}, "
                f"{provider}), which is not significant"
            )
        unchanged = [true_minus(f.lie) for f in self.overall if f.verdict == "unchanged"]
        if best.gain < 0:
            return ", and every lie would have cost every provider"
        if unchanged:
            return f": {', '.join(unchanged)} would have changed nothing, and no other gained"
        return ", and no provider would have gained by any"

    def _same_for_all(self, lie: str) -> bool:
        """Whether all providers have the same gain from a lie."""
        return not np.ptp([f.gain for f in self.findings if f.lie == lie]) > 0

    @property
    def score_note(self) -> str:
        """A sentence on what log scores leave out; empty if they leave out nothing or are unknown."""
        if self.measure in (None, "nothing"):
            return ""
        return (
            f"log scores, in nats, are log probabilities of reports that leave out {self.measure}, for every row and "
            "under every model, so they can lie above 0"
        )

    @property
    def shelf_life(self) -> str:
        """A sentence on how long a fit stays good; empty if nothing was fitted or log scores are unknown."""
        return shelf_life(self.ages, max(stretch.days for stretch in self.stretches), len(self.providers))

    def __str__(self) -> str:
        ageing = [*filter(None, [self.shelf_life]), *map(str, self.trends)]
        return "\n".join([self.details, *ageing, *self.omissions, self.verdict, HONEST_PAST, INDEPENDENT_PAST])

    @property
    def details(self) -> str:
        """The tables of lies and of stretches, without the sentences that a comparison repeats."""
        head = f"{'lie':<34} {'gain':>7} {'interval':>17} {'80% power':>9}  {'verdict':<16} worst provider"
        lines = [
            f"{self.name}, {type(self.rule).__name__}: {self.days} held-out days in {len(self.stretches)} stretches, "
            f"{len(self.providers)} providers; percent of the cap",
            f"{self.split}: {SPLITS[self.split]}",
            f"honest payoff {100 * self.truth:.1f}, log score {self.log_score_text(4)} per day; a gain of up to "
            f"{100 * self.negligible:g} is not counted",
            f"intervals have {1 - self.false_alarm:.0%} confidence each; verdicts hold for all comparisons together",
            head,
            "-" * len(head),
        ]
        for f in self.overall:
            worst = self.worst(f.lie)
            interval = f"[{_percent(f.low)}, {_percent(f.high)}]"
            mark = f" {VERDICT_LABELS[worst.verdict]}" if worst.verdict == "gains" else ""
            provider = "all" if self._same_for_all(f.lie) else worst.provider
            lines.append(
                f"{true_minus(f.lie):<34} {_percent(f.gain):>7} {interval:>17} {100 * f.detectable:>9.2f}  "
                f"{VERDICT_LABELS[f.verdict]:<16} {provider} {_percent(worst.gain)}{mark}"
            )
        return "\n".join([*lines, "", *self._drift_table(), *filter(None, [self.score_note])])

    @property
    def coverage(self) -> str:
        """How many of the known lies were replayed, in parentheses; empty if none was left out."""
        offered = len(self.lies) + len(self.left_out)
        return f" ({len(self.lies)} of {offered} known lies could be replayed)" if self.left_out else ""

    @property
    def omissions(self) -> list[str]:
        """The known lies that were not replayed, and why."""
        if not self.left_out:
            return []
        lies = true_minus(", ".join(self.left_out))
        return [
            f"not replayed, because they do not follow from the sums of past days: {lies}; troth audit simulates lies "
            "about rows"
        ]

    def _drift_table(self) -> list[str]:
        """Return the lines of a table of stretches."""
        scored = self.measure is not None
        columns = f"{'log score':>10} {'first fit':>10}  " if scored else ""
        lines = [f"{'stretch':<28} {'fitted on':>9} {'honest':>7} {columns}the lie that gained most"]
        for stretch in self.stretches:
            span = f"{stretch.first} to {stretch.last}"
            scores = f"{number(stretch.log_score, 2):>10} {number(stretch.oldest_score, 2):>10}  " if scored else ""
            lie = f"{true_minus(stretch.lie)} {_percent(stretch.gain)}"
            lines.append(f"{span:<28} {stretch.fitted_days:>9} {100 * stretch.truth:>7.1f} {scores}{lie}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "model": self.name,
            "rule": repr(self.rule),
            "providers": list(self.providers),
            "days": self.days,
            "split": self.split,
            "split_means": SPLITS[self.split],
            "folds": len(self.stretches),
            "recent": self.recent,
            "ahead": self.ahead,
            "false_alarm": self.false_alarm,
            "negligible": self.negligible,
            "truth": self.truth,
            "log_score": None if self.measure is None else self.log_score,
            "incentive": self.incentive,
            "verdict": self.verdict,
            "detectable": _finite(self.detectable),
            "detectable_alone": _finite(self.detectable_alone),
            "underpowered": self.underpowered,
            "shelf_life": self.shelf_life,
            "stretches": [_plain(stretch) for stretch in self.stretches],
            "ages": [_plain(age) for age in self.ages],
            "trends": [_plain(trend) for trend in self.trends],
            "assumes": [HONEST_PAST, INDEPENDENT_PAST],
            "overall": [_plain(f) for f in self.overall],
            "findings": [_plain(f) for f in self.findings],
            "left_out": list(self.left_out),
        }

    def plot(self, path: Any = None) -> Any:
        """Plot providers against lies; needs matplotlib (the extra ``plots``)."""
        rows = {str(provider): [self.of(provider, lie) for lie in self.lies] for provider in self.providers}
        title = f"{self.name}, {type(self.rule).__name__}: what a lie would have gained on {self.days} past days"
        return heat_map({"all providers": self.overall, **rows}, title, path)


def _percent(share: float) -> str:
    """Return a share of the cap in percent, with its sign."""
    return number(100 * share, 2, sign=True)


def _plain(finding: PastFinding | Stretch | Age | Trend) -> dict[str, Any]:
    """Return plain data, with None for numbers that are not finite."""
    return {key: _finite(value) for key, value in asdict(finding).items()}


def _open(findings: Sequence[PastFinding]) -> Sequence[PastFinding]:
    """Return the findings that may gain, whose interval reaches above 0; all findings if there are none."""
    return [f for f in findings if not f.high < 0 and f.verdict != "unchanged"] or findings


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
