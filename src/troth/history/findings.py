"""The result of a backtest: what each lie would have gained, for each provider and overall, and a plain verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.audits.findings import VERDICT_IN_WORDS, Finding
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

_NAMED = 6  # a verdict names at most this many lies that gain
_FEW_DAYS = 90  # held-out days below which a pass means little
_UNSEEN = 0.02  # of the cap: a pass means little if a lie that gains more for everybody can go unnoticed,
_UNSEEN_ALONE = 0.1  # or one that gains more for one provider


@dataclass(frozen=True)
class PastFinding(Finding):
    """What one lie would have gained on past days, in units of the cap; without a provider, on average over all.

    Intervals are over days, each at the stated level by itself. A provider's gain is shrunk towards the mean over
    providers, the more so the more alike they are. A gain that is detectable would have been called significant with
    80% probability; one provider's, while nobody else gains, is harder to find than a gain of all. Refused are days on
    which the lie could not have been paid: impossible, or out of the declared range. The verdict is ``"gains"`` or
    ``"loses"`` if that is significant among all comparisons together, ``"unchanged"`` if no payment changes, else
    ``"open"``.
    """

    provider: Any = None
    days: int = 0


@dataclass(frozen=True, eq=False)
class Backtest:
    """What the known lies would have earned on past days; prints as a table and plots as a picture.

    Attributes
    ----------
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
    split
        How days were split, one of `troth.history.splits.SPLITS`.
    stretches
        What each stretch looked like, in order.
    ages
        What older fits of a rolling origin lose.
    trends
        Lies whose gain rises significantly over the days of a rolling origin; the false-alarm rate is one for all.
    gains, scores
        Daily gains ``(day, provider, lie)``, NaN where there was no report, and log probabilities ``(day,)``.
    measure
        The terms that log scores leave out: scores are comparable only if these agree, and never if it is None.
    family
        The family of the model, as `troth.fit` takes it.
    recent, ahead
        How many last days it was fitted to each time, None if to all, and for how many next ones if it drifts.
    left_out
        Known lies that could not be replayed, because the history has no rows or the reduction no such numbers.
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
        """Return the provider who gains most, by one lie or by any; a significant gain goes before others.

        Those who were never payable come last.
        """
        findings = [f for f in self.findings if lie is None or f.lie == lie]
        return max(findings, key=lambda f: (f.verdict == "gains", -np.inf if np.isnan(f.gain) else f.gain))

    def __getitem__(self, lie: str) -> PastFinding:
        return next(f for f in self.overall if f.lie == lie)

    def of(self, provider: Any, lie: str) -> PastFinding:
        """Return the finding of one provider and one lie."""
        return next(f for f in self.findings if f.provider == provider and f.lie == lie)

    def gaining(self) -> list[PastFinding]:
        """Return what gains significantly: lies on average over providers, and of single providers."""
        return [f for f in (*self.overall, *self.findings) if f.verdict == "gains"]

    def lies_that_gain(self) -> list[str]:
        """Return the lies by which all providers together, or a single one, gain significantly."""
        gaining = {f.lie for f in self.gaining()}
        return [lie for lie in self.lies if lie in gaining]

    def log_score_text(self, digits: int) -> str:
        """Return the log score for a table, or that it is not comparable with others."""
        return "not comparable" if self.measure is None else number(self.log_score, digits)

    @property
    def incentive(self) -> float:
        """How much of the cap a lie costs on average over lies and providers."""
        return -float(np.mean([f.gain for f in self.overall]))

    @property
    def detectable(self) -> float:
        """The gain on average over providers that would have been found with 80% probability.

        It is the largest over lies whose interval reaches above 0; of the others nothing is left to find.
        """
        return max(f.detectable for f in _open(self.overall))

    @property
    def detectable_alone(self) -> float:
        """The same for a lie by which one provider alone gains, whichever it is."""
        return max(f.detectable for f in _open(self.findings))

    @property
    def underpowered(self) -> bool:
        """Whether days are few, or a gain of 2% of the cap for all providers, or 10% for one, could go unnoticed."""
        noticeable = self.detectable <= _UNSEEN and self.detectable_alone <= _UNSEEN_ALONE
        return self.days < _FEW_DAYS or not noticeable

    @property
    def power(self) -> str:
        """What the backtest could have found, in a sentence or two."""
        if not self.detectable < 1:
            return f"{self.days} held-out days would reveal no gain of any size reliably."
        alone = f" ({100 * self.detectable_alone:.1f}% for one provider)" if self.detectable_alone < 1 else ""
        return (
            f"{self.days} held-out days would reveal, with 80% probability, a lie that gains "
            f"{100 * self.detectable:.1f}% of the cap on average over providers{alone}, and a smaller gain less often."
        )

    @property
    def caution(self) -> str:
        """The same of a pass, with a warning where it means little."""
        return f"{self.power} So this pass means little: wait for more days." if self.underpowered else self.power

    @property
    def verdict(self) -> str:
        """The result in a few sentences, with what could have been found."""
        return f"{self.outcome} {self.power if self.gaining() else self.caution}"

    @property
    def outcome(self) -> str:
        """Which lies gain, or that none does, in a sentence."""
        gaining = self.gaining()
        if not gaining:
            return f"No lie gains significantly under {self.name}{self.coverage}{self._most()}."
        gains = sorted(gaining, key=lambda f: (f.provider is not None, -f.gain))
        named = ((f, "all providers" if f.provider is None else f.provider) for f in gains[:_NAMED])
        listing = "; ".join(f"{true_minus(f.lie)} ({who}) {100 * f.gain:+.1f}% of the cap" for f, who in named)
        and_more = f"; and {len(gains) - _NAMED} more" if len(gains) > _NAMED else ""
        return f"Under {self.name} lies gain: {listing}{and_more}."

    def _most(self) -> str:
        """Return what the best lie did, where none gains significantly."""
        best = self.worst()
        if np.isnan(best.gain):
            return ""
        if best.gain > 0:
            provider = "all providers" if self._alike(best.lie) else best.provider
            return (
                f"; the most that any gained is {100 * best.gain:+.1f}% of the cap ({true_minus(best.lie)}, "
                f"{provider}), which is not significant"
            )
        idle = [true_minus(f.lie) for f in self.overall if f.verdict == "unchanged"]
        if best.gain < 0:
            return ", and every lie would have cost every provider"
        if idle:
            return f": {', '.join(idle)} would have changed nothing, and no other gained"
        return ", and no provider would have gained by any"

    def _alike(self, lie: str) -> bool:
        """Whether all providers have the same gain, because days do not tell them apart."""
        return not np.ptp([f.gain for f in self.findings if f.lie == lie]) > 0

    @property
    def score_note(self) -> str:
        """What log scores are and leave out, in a sentence; empty if they leave out nothing, or are not known."""
        if self.measure in (None, "nothing"):
            return ""
        return (
            f"log scores, in nats, are log probabilities of reports that leave out {self.measure}, for every row and "
            "under every model, so they can lie above 0"
        )

    @property
    def shelf_life(self) -> str:
        """How long a fit stays good, in a sentence; empty where nothing was fitted or log scores are not known."""
        return shelf_life(self.ages, max(stretch.days for stretch in self.stretches), len(self.providers))

    def __str__(self) -> str:
        ageing = [*filter(None, [self.shelf_life]), *map(str, self.trends)]
        return "\n".join([self.details, *ageing, *self.omissions, self.verdict, HONEST_PAST, INDEPENDENT_PAST])

    @property
    def details(self) -> str:
        """The tables of lies and of stretches, without the sentences that a comparison has too."""
        head = f"{'lie':<34} {'gain':>7} {'interval':>17} {'80% power':>9}  {'verdict':<16} worst provider"
        lines = [
            f"{self.name}, {type(self.rule).__name__}: {self.days} held-out days in {len(self.stretches)} stretches, "
            f"{len(self.providers)} providers; percent of the cap",
            f"{self.split}: {SPLITS[self.split]}",
            f"honest payoff {100 * self.truth:.1f}, log score {self.log_score_text(4)} per day; a gain of up to "
            f"{100 * self.negligible:g} is not counted",
            f"intervals hold with {1 - self.false_alarm:.0%} each; verdicts hold for all comparisons together",
            head,
            "-" * len(head),
        ]
        for f in self.overall:
            worst = self.worst(f.lie)
            interval = f"[{_percent(f.low)}, {_percent(f.high)}]"
            mark = f" {VERDICT_IN_WORDS[worst.verdict]}" if worst.verdict == "gains" else ""
            provider = "all" if self._alike(f.lie) else worst.provider
            lines.append(
                f"{true_minus(f.lie):<34} {_percent(f.gain):>7} {interval:>17} {100 * f.detectable:>9.2f}  "
                f"{VERDICT_IN_WORDS[f.verdict]:<16} {provider} {_percent(worst.gain)}{mark}"
            )
        return "\n".join([*lines, "", *self._drift_table(), *filter(None, [self.score_note])])

    @property
    def coverage(self) -> str:
        """How many of the known lies were replayed, in brackets; empty if none was left out."""
        offered = len(self.lies) + len(self.left_out)
        return f" ({len(self.lies)} of {offered} known lies could be replayed)" if self.left_out else ""

    @property
    def omissions(self) -> list[str]:
        """Return which known lies were not replayed, and why."""
        if not self.left_out:
            return []
        lies = true_minus(", ".join(self.left_out))
        return [
            f"not replayed, because they do not follow from the sums of past days: {lies}; troth audit simulates lies "
            "about rows"
        ]

    def _drift_table(self) -> list[str]:
        """Return the stretches as a table."""
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
        """Plain data, for JSON."""
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
        """Draw providers against lies; needs matplotlib (the extra ``plots``)."""
        rows = {str(provider): [self.of(provider, lie) for lie in self.lies] for provider in self.providers}
        title = f"{self.name}, {type(self.rule).__name__}: what a lie would have gained on {self.days} past days"
        return heat_map({"all providers": self.overall, **rows}, title, path)


def _percent(share: float) -> str:
    """Return a share of the cap in percent, with its sign."""
    return number(100 * share, 2, sign=True)


def _plain(finding: PastFinding | Stretch | Age | Trend) -> dict[str, Any]:
    """Return plain data, with None where there was nothing to measure."""
    return {key: _finite(value) for key, value in asdict(finding).items()}


def _open(findings: Sequence[PastFinding]) -> Sequence[PastFinding]:
    """Return the findings of which it is open whether they gain: whose interval reaches above 0; all if none does."""
    return [f for f in findings if not f.high < 0 and f.verdict != "unchanged"] or findings


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
