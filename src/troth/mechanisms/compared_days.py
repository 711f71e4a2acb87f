"""Which providers have the same design, rows and features, on all days that are compared (erratum E10).

Peers with another design on another day would let a provider distinguish the days, and gain by faking. Whoever changes
its design is left out of everybody's peers. That depends on its own reports alone, so nobody chooses its own peers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from troth.core.contract import ComparedDesign, ComparesDays, Mask, Model, SamplesStatistics, explains_target
from troth.core.errors import MissingCapabilityError, TrothError
from troth.core.information import leave_one_out
from troth.mechanisms.options import Flag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.mechanisms.round import Round

_ROUNDING = 1e-13  # of a number itself: rows, and weights of rows
_SUMMED = 1e-12  # of what was added up: the same features in another order add up to almost the same numbers
_NO_FEATURES = ComparedDesign(np.zeros(0), np.zeros(0))

EXCHANGEABLE = Flag(
    "exchangeable",
    False,
    "true if numbers of rows or features vary from day to day and nobody can predict them",
    "Numbers of rows or features vary from day to day in a way nobody can predict",
)
"""The option of rules that compare days."""


class UnequalSizesError(TrothError, ValueError):
    """No provider has the same design, rows and features, on all days that are compared (erratum E10).

    Attributes
    ----------
    provider, day : int
        One whose design changes from this day to the next.
    rows : tuple of float
        How many rows it has on both days; if these are equal, its features differ.
    compared : range
        The days that are compared; by default these two.
    """

    def __init__(self, provider: int, day: int, rows: tuple[float, float], compared: range | None = None) -> None:
        self.provider, self.day, self.rows = provider, day, rows
        self.compared = range(day, day + 2) if compared is None else compared
        super().__init__(self._message(str(provider), range(self.compared.stop), "declare exchangeable=True"))

    def in_campaign(self, names: Sequence[str], days: Sequence[object] = ()) -> str:
        """Name the provider and the days."""
        remedy = "set exchangeable = true under [mechanism] before the first payment"
        return self._message(repr(names[self.provider]), days, remedy)

    def _message(self, name: str, days: Sequence[object], remedy: str) -> str:
        (before, after), first, last = self.rows, days[self.compared[0]], days[self.compared[-1]]
        features, change = ("", f"{after:g}") if before != after else (" and features", "with other features")
        many = len(self.compared) > 2
        span = f"every day from {first} to {last}" if many else f"day {first} and on day {last}"
        size = f"{before:g} rows" + (f" on day {days[self.day]}" if many else "")
        return (
            f"nobody has the same rows{features} on {span}, such as provider {name}: {size}, but {change} on day "
            f"{days[self.day + 1]}; unequal sizes make faking pay, so keep them equal for at least one provider, or "
            f"{remedy} if providers cannot predict them"
        )


def unchanged(designs: ComparedDesign) -> Mask:
    """Return whose design ``(..., day, provider, number)`` is the same on the next day, up to rounding."""
    values, rounding = designs
    before, after = values[..., :-1, :, :], values[..., 1:, :, :]
    room = _ROUNDING * np.maximum(np.abs(before), np.abs(after))
    room += _SUMMED * np.maximum(rounding[..., :-1, :, :], rounding[..., 1:, :, :])
    return np.asarray((np.abs(after - before) <= room).all(axis=-1))


def has_too_few_peers(this_round: Round, reported: Mask, constant: Mask) -> Mask:
    """Return for whom fewer than half of the peers that reported on all days compared have a constant design.

    That depends on the peers' reports alone, so no provider can choose whether it gets the empty share.
    """
    counts = np.stack([reported, reported & constant], axis=-1).astype(np.float64)
    peers, constant_peers = np.moveaxis(leave_one_out(counts, this_round.groups), -1, 0)
    return np.asarray(2 * constant_peers < peers)


def has_constant_design(this_round: Round, same: Mask, compared: range) -> Mask:
    """Return whose design is the same on all days compared; ``same`` marks days whose design is also the next day's."""
    same_here = same[..., compared[0] : compared[-1], :]
    constant = np.asarray(same_here.all(axis=-2))
    present = (this_round.count_rows()[..., compared[0] : compared[-1] + 1, :] > 0).all(axis=-2)
    nobody = np.argwhere(~constant.any(axis=-1) & (present.sum(axis=-1) > 1))
    if len(nobody):
        where = tuple(nobody[0])
        rows = this_round.count_rows()[where][compared[0] : compared[-1] + 1]
        other_rows = rows[1:] != rows[:-1]
        day, provider = np.argwhere(other_rows if other_rows.any() else ~same_here[where])[0]
        sizes = float(rows[day, provider]), float(rows[day + 1, provider])
        raise UnequalSizesError(int(provider), compared[0] + int(day), sizes, compared)
    return constant


def without_changing_peers(this_round: Round, constant: Mask) -> Round:
    """Remove providers whose design changes from everybody's peers; they themselves are scored as usual."""
    if constant.all():
        return this_round
    rows = None if this_round.rows is None else np.where(constant, this_round.count_rows(), 0.0)
    statistics = np.where(constant[..., None], this_round.statistics, 0.0)
    return replace(this_round, statistics=statistics, rows=rows).with_own(this_round.own)


def daily_designs(this_round: Round) -> ComparedDesign:
    """Return rows and, if there are features, what models compare of them: ``(..., day, provider, number)``.

    Audits and backtests bring reports that would be refused, and features that are drawn anew each day, which is as if
    they were exchangeable: there rows alone are compared.
    """
    rows = this_round.count_rows()[..., None]
    designs = [ComparedDesign(rows, np.zeros_like(rows))]
    for model, members in this_round.providers_by_model.items():
        features = _NO_FEATURES if this_round.lenient else _features(model, this_round, members)
        if features.values.size:
            designs.append(ComparedDesign(*(this_round.among_all(part, members) for part in features)))
    return ComparedDesign(*(np.concatenate(parts, axis=-1) for parts in zip(*designs, strict=True)))


def _features(model: Model, this_round: Round, members: list[int]) -> ComparedDesign:
    """Return what must be equal on two days besides rows: what the model declares, or else its whole design."""
    statistics = this_round.statistics[..., members, :]
    if isinstance(model, ComparesDays):
        return model.compared_design(statistics)
    with_features = explains_target(model)
    if isinstance(model, SamplesStatistics):
        try:
            more_than_rows = model.design(np.zeros((1, statistics.shape[-1]))).shape[-1] > 1
        except MissingCapabilityError:
            more_than_rows = with_features
        design = model.design(statistics) if more_than_rows else np.zeros(0)
        return ComparedDesign(design, np.zeros_like(design))
    if with_features:
        raise MissingCapabilityError(
            f"{type(model).__name__} does not say which features must agree between days (erratum E10): add a method "
            "compared_design, or declare exchangeable=True if providers cannot predict how features vary"
        )
    return _NO_FEATURES
