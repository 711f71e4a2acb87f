"""Backtests of several candidate models, and a recommendation of the one to pay with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from troth.audits.plots import heat_map
from troth.core.errors import ParameterError, TrothError, first_line
from troth.core.formats import number, share, true_minus
from troth.history.backtest import Candidate, Payer, backtest
from troth.history.findings import HONEST_PAST, INDEPENDENT_PAST, Backtest
from troth.history.intervals import over_days
from troth.history.splits import SPLITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.core.past import History
    from troth.history.findings import PastFinding


_LINE_WIDTH = 120  # characters per line of a table
_MIN_INCENTIVE = 0.002  # mean cost of lies, as a share of the cap, below which honesty is not rewarded


@dataclass(frozen=True, eq=False)
class ModelComparison:
    """Backtests of several models on the same days with the same lies.

    The recommendation is a model under which no lie gains significantly. Models that predict held-out days
    significantly worse than another are excluded, because the distance between model and truth bounds the gain of lies,
    and the log score measures this distance. Of the rest, the model with the highest mean cost of lies, minus the gain
    of the best lie for any provider, is recommended. If lies gain under every model, the one with the smallest
    significant gain is named, with the advice not to pay with it.
    """

    backtests: Mapping[str, Backtest]
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def recommended(self) -> str:
        """The name of the model to pay with."""

        def order(name: str) -> tuple[float, bool, float, float]:
            replayed = self.backtests[name]
            worst = max((f.gain for f in replayed.gaining()), default=0.0)
            score = float("-inf") if replayed.measure is None else replayed.log_score
            best_lie = max(replayed.worst().gain, 0.0)
            return (-worst, not self.is_outperformed(name), round(replayed.incentive - best_lie, 3), score)

        return max(self.backtests, key=order)

    def is_outperformed(self, name: str) -> bool:
        """Whether another model, if possible one without gaining lies, predicts held-out days significantly better."""
        own = self.backtests[name]
        backtests = list(self.backtests.values())
        sound = [replayed for replayed in backtests if not replayed.gaining()] or backtests
        comparable = [other for other in sound if other.measure == own.measure and own.measure is not None]
        return any(over_days(other.scores - own.scores, own.false_alarm).low > 0 for other in comparable)

    @property
    def advisable(self) -> bool:
        """Whether no lie gains significantly under the recommended model, and lies cost something."""
        replayed = self.backtests[self.recommended]
        return not replayed.gaining() and replayed.incentive >= _MIN_INCENTIVE

    @property
    def verdict(self) -> str:
        """A few sentences on which model to pay with, and why."""
        name = self.recommended
        replayed = self.backtests[name]
        gaining = replayed.gaining()
        if gaining:
            worst = max(gaining, key=lambda f: f.gain)
            provider = "all providers" if worst.provider is None else worst.provider
            return (
                f"Lies gain under every model. The least bad is {name}, under which {true_minus(worst.lie)} "
                f"({provider}) gains {share(worst.gain, 1, sign=True)} of the cap: do not pay with it before it is "
                f"improved. {replayed.power}"
            )
        unsafe = [other for other in self.backtests if other != name and self.backtests[other].gaining()]
        warning = f" Lies gain under {', '.join(unsafe)}." if unsafe else ""
        if not self.advisable:
            cost = share(abs(replayed.incentive), 1)
            either = f"lies cost little either ({cost} of the cap on average)"
            if replayed.incentive < 0:
                either = f"on average over lies the liar is paid {cost} of the cap more"
            return (
                f"No lie gains significantly under {name}{replayed.coverage}, but {either}: these days hardly "
                f"distinguish providers' data, and honesty would not be rewarded: do not pay with it. "
                f"{replayed.caution}{warning}"
            )
        cost = (
            f"no lie gains significantly{replayed.coverage}, and a lie costs {share(replayed.incentive, 1)} of the "
            "cap on average"
        )
        advice = f"The model '{name}' passes: {cost}" if replayed.underpowered else f"Pay with {name}: {cost}"
        return f"{advice}. {replayed.caution}{warning}"

    def __str__(self) -> str:
        backtests = list(self.backtests.values())
        first = backtests[0]
        rows = [
            ("gain, percent of the cap", list(self.backtests)),
            *(
                (true_minus(lie), [f"{_percent(b[lie])} ({_percent(b.worst(lie))})" for b in backtests])
                for lie in first.lies
            ),
            ("a lie costs", [number(100 * b.incentive, 1) for b in backtests]),
            ("honest payoff", [f"{100 * b.truth:.1f}" for b in backtests]),
            ("log score of a held-out day", [b.log_score_text(3) for b in backtests]),
            ("detectable gain (80% power)", [f"{100 * b.detectable:.1f}" for b in backtests]),
            ("lies that gain", [f"{len(b.lies_that_gain())} of {len(b.lies)}" for b in backtests]),
        ]
        lines = [
            f"{type(first.rule).__name__}: {first.days} held-out days, {len(first.providers)} providers; * gains "
            "significantly, in brackets the worst provider",
            f"{first.split}: {SPLITS[first.split]}",
            *_table(rows),
        ]
        if len({b.measure for b in backtests}) > 1:
            lines.append("log scores of models that leave out different terms are not comparable with each other")
        lines += dict.fromkeys(filter(None, (b.score_note for b in backtests)))
        lines += [f"{name} could not be tested: {reason}" for name, reason in self.failed.items()]
        recommended = self.backtests[self.recommended]
        ageing = [*filter(None, [recommended.shelf_life]), *map(str, recommended.trends)]
        return "\n".join([*lines, self.verdict, *ageing, HONEST_PAST, INDEPENDENT_PAST])

    def __getitem__(self, name: str) -> Backtest:
        return self.backtests[name]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "recommended": self.recommended,
            "verdict": self.verdict,
            "failed": dict(self.failed),
            "models": {name: replayed.to_dict() for name, replayed in self.backtests.items()},
        }

    def plot(self, path: Any = None) -> Any:
        """Plot models against lies, averaged over providers; bold if any provider gains. Needs the extra ``plots``."""
        rows = {}
        for name, replayed in self.backtests.items():
            gaining = {f.lie for f in replayed.gaining()}
            rows[name] = [replace(f, verdict="gains") if f.lie in gaining else f for f in replayed.overall]
        return heat_map(rows, "What a lie would have gained on past days", path)


def compare_models(
    history: History, candidates: Mapping[str, Candidate], rule: Payer, lies: Any = None, **options: Any
) -> ModelComparison:
    """Backtest several models on the same days with the same lies, and recommend one.

    Parameters
    ----------
    candidates
        Models, or functions that fit them to past days, by their names in tables.
    history, rule, lies, options
        As for `backtest`; the false-alarm rate is shared among the candidates.
    """
    if not candidates:
        raise ParameterError("there are no models to compare")
    rate = options.pop("false_alarm", 0.05) / len(candidates)
    progress = options.pop("progress", None)
    backtests = {}
    failed: dict[str, str] = {}
    for index, (name, model) in enumerate(candidates.items()):

        def overall_progress(done: float, total: int, before: int = index) -> None:
            if progress is not None:
                progress(before * total + done, len(candidates) * total)

        try:
            backtests[name] = backtest(
                history, model, rule, lies, name=name, false_alarm=rate, progress=overall_progress, **options
            )
        except TrothError as error:
            failed[name] = first_line(error)
            reason = error
    if not backtests:
        raise reason
    return ModelComparison(backtests, failed)


def _percent(finding: PastFinding) -> str:
    return f"{number(100 * finding.gain, 1, sign=True)}{'*' if finding.verdict == 'gains' else ''}"


def _table(rows: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return lines of at most `_LINE_WIDTH` characters; models that do not fit continue in a table below."""
    min_widths = [max(map(len, column)) + 2 for column in zip(*(cells for _, cells in rows), strict=True)]
    label, widths = 36, [max(24, *min_widths)] * len(min_widths)
    if label + sum(widths) > _LINE_WIDTH:
        label, widths = max(len(name) for name, _ in rows), min_widths
    lines: list[str] = []
    start = 0
    while start < len(widths):
        stop = start + 1
        while stop < len(widths) and label + sum(widths[start : stop + 1]) <= _LINE_WIDTH:
            stop += 1
        head, *body = (
            f"{name:<{label}}" + "".join(f"{cells[k]:>{widths[k]}}" for k in range(start, stop)) for name, cells in rows
        )
        lines += [*([""] if start else []), head, "-" * len(head), *body]
        start = stop
    return lines
