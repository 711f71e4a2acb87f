"""Find the providers with the same design (rows and features) on all compared days (erratum E10).

If peers had different designs on different days, a provider could tell the days apart and gain by faking. So providers
whose design changes are removed from the others' peers. This depends only on their own reports, so no provider can
choose its peers.
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

_ROUNDING = 1e-13  # relative to a number itself, such as a number or a weight of rows
_SUM_ROUNDING = 1e-12  # relative to the terms of a sum: features in another order have almost the same sum
_NO_FEATURES = ComparedDesign(np.zeros(0), np.zeros(0))

EXCHANGEABLE = Flag(
    "exchangeable",
    False,
    "true if numbers of rows or features vary from day to day and nobody can predict them",
    "Numbers of rows or features vary unpredictably from day to day",
)
"""The option of rules that compare days."""


class UnequalSizesError(TrothError, ValueError):
    """No provider has the same design (rows and features) on all compared days (erratum E10).

    Attributes
    ----------
    provider, day : int
        A provider whose design changes from this day to the next.
    rows : tuple of float
        Its numbers of rows on the two days; if they are equal, its features differ.
    compared : range
        The compared days; by default these two.
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
        features, change = ("", f"{after:g}") if before != after else (" and features", "other features")
        several = len(self.compared) > 2
        span = f"every day from {first} to {last}" if several else f"day {first} and on day {last}"
        size = f"{before:g} rows" + (f" on day {days[self.day]}" if several else "")
        return (
            f"no provider has the same rows{features} on {span}: for example, provider {name} has {size}, but {change} "
            f"on day {days[self.day + 1]}; unequal sizes make faking pay, so keep them equal for at least one provider"
            f", or {remedy} if providers cannot predict them"
        )


def unchanged(designs: ComparedDesign) -> Mask:
    """Return a mask of designs ``(..., day, provider, number)`` that are the same on the next day, up to rounding."""
    values, rounding = designs
    before, after = values[..., :-1, :, :], values[..., 1:, :, :]
    tolerance = _ROUNDING * np.maximum(np.abs(before), np.abs(after))
    tolerance += _SUM_ROUNDING * np.maximum(rounding[..., :-1, :, :], rounding[..., 1:, :, :])
    return np.asarray((np.abs(after - before) <= tolerance).all(axis=-1))


def has_too_few_peers(this_round: Round, reported: Mask, constant: Mask) -> Mask:
    """Return a mask of providers for whom fewer than half of the peers in ``reported`` are in ``constant``.

    This depends only on the peers' reports, so no provider can choose whether it gets the empty share.
    """
    counts = np.stack([reported, reported & constant], axis=-1).astype(np.float64)
    peers, constant_peers = np.moveaxis(leave_one_out(counts, this_round.groups), -1, 0)
    return np.asarray(2 * constant_peers < peers)


def has_constant_design(this_round: Round, same: Mask, compared: range) -> Mask:
    """Return a mask of providers with one design on all compared days; ``same`` is the mask of `unchanged` ones."""
    same_compared = same[..., compared[0] : compared[-1], :]
    constant = np.asarray(same_compared.all(axis=-2))
    present = (this_round.count_rows()[..., compared[0] : compared[-1] + 1, :] > 0).all(axis=-2)
    stopped = np.argwhere(~constant.any(axis=-1) & (present.sum(axis=-1) > 1))
    if len(stopped):
        where = tuple(stopped[0])
        rows = this_round.count_rows()[where][compared[0] : compared[-1] + 1]
        rows_change = rows[1:] != rows[:-1]
        day, provider = np.argwhere(rows_change if rows_change.any() else ~same_compared[where])[0]
        sizes = float(rows[day, provider]), float(rows[day + 1, provider])
        raise UnequalSizesError(int(provider), compared[0] + int(day), sizes, compared)
    return constant


def without_changing_peers(this_round: Round, constant: Mask) -> Round:
    """Remove providers with a changing design from the others' peers; they are scored as usual."""
    if constant.all():
        return this_round
    rows = None if this_round.rows is None else np.where(constant, this_round.count_rows(), 0.0)
    statistics = np.where(constant[..., None], this_round.statistics, 0.0)
    return replace(this_round, statistics=statistics, rows=rows).with_own(this_round.own)


def daily_designs(this_round: Round) -> ComparedDesign:
    """Return the numbers that must agree between days, of rows and features: ``(..., day, provider, number)``.

    Audits and backtests pay reports that campaigns reject, and draw new features every day, as if features were
    exchangeable. For them only rows are compared.
    """
    rows = this_round.count_rows()[..., None]
    designs = [ComparedDesign(rows, np.zeros_like(rows))]
    for model, members in this_round.providers_by_model.items():
        features = _NO_FEATURES if this_round.lenient else _features(model, this_round, members)
        if features.values.size:
            designs.append(ComparedDesign(*(this_round.scatter(part, members) for part in features)))
    return ComparedDesign(*(np.concatenate(parts, axis=-1) for parts in zip(*designs, strict=True)))


def _features(model: Model, this_round: Round, members: list[int]) -> ComparedDesign:
    """Return the features that must agree between days: those that the model declares, or its entire design."""
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
