"""Pictures of backtests: who would have gained by which lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from troth.audits.plots import heat_map

if TYPE_CHECKING:
    from troth.history.comparison import ModelComparison
    from troth.history.findings import Backtest


def plot_backtest(backtest: Backtest, path: Any = None) -> Any:
    """Draw providers (rows, the average first) against lies."""
    rows = ["all providers", *(str(provider) for provider in backtest.providers)]
    findings = [
        [backtest[lie] for lie in backtest.lies],
        *([backtest.of(provider, lie) for lie in backtest.lies] for provider in backtest.providers),
    ]
    gains = [[finding.gain for finding in row] for row in findings]
    significant = [[finding.verdict == "GAINS" for finding in row] for row in findings]
    rule = type(backtest.rule).__name__
    title = f"{backtest.name}, {rule}: what a lie would have gained on {backtest.days} past days"
    return heat_map(rows, backtest.lies, gains, significant, title, path)


def plot_models(comparison: ModelComparison, path: Any = None) -> Any:
    """Draw models (rows) against lies (columns), averaged over providers; bold where any provider gains."""
    names = list(comparison.backtests)
    lies = comparison[names[0]].lies
    gains = [[comparison[name][lie].gain for lie in lies] for name in names]
    significant = [[any(f.lie == lie for f in comparison[name].gaining()) for lie in lies] for name in names]
    return heat_map(names, lies, gains, significant, "What a lie would have gained on past days", path)
