"""Lies that involve more than one report: copying a peer, colluding, and splitting over accounts."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.audits.strategies.fabrications import FabricateFromPrior
from troth.audits.strategies.row_shapes import count_rows, take_rows
from troth.audits.strategies.strategy import Play, RowLie, Strategy, one_report, statistics_of
from troth.core.errors import ParameterError

if TYPE_CHECKING:
    from troth.core.contract import Array, Generator, Model


@dataclass(frozen=True)
class Copy(Strategy):
    """Report a peer's data instead of the true data."""

    label = "copy a peer"

    def play(self, rng: Generator, model: Model, data: Any, honest: Array, liar: int) -> Play:
        """Send the next provider's report, as if it had the liar's number of rows."""
        return one_report(honest, liar, honest[..., (liar + 1) % honest.shape[-2], :], count_rows(model, data))


@dataclass(frozen=True)
class Collude(Strategy):
    """Several providers send the same report: the first one's data, changed by the lie ``fake``."""

    members: int = 2
    fake: RowLie = field(default_factory=FabricateFromPrior)

    label = "{members} collude: {fake.name}"

    @property
    def needed_accounts(self) -> int:
        return self.members

    def play(self, rng: Generator, model: Model, data: Any, honest: Array, liar: int) -> Play:
        if not 2 <= self.members <= honest.shape[-2]:
            raise ParameterError(
                f"Collude: {self.members} members need as many providers, but there are {honest.shape[-2]}"
            )
        accounts = tuple((liar + k) % honest.shape[-2] for k in range(self.members))
        rows = self.fake.reported_rows(rng, model, data)
        reported = honest.copy()
        reported[..., list(accounts), :] = statistics_of(model, rows)[..., None, :]
        return Play(reported, accounts, (count_rows(model, rows),) * self.members)


@dataclass(frozen=True)
class Split(Strategy):
    """Open several accounts and give each a part of the rows; every account has its own, smaller cap."""

    accounts: int = 2

    label = "split over {accounts} accounts"

    @property
    def needed_accounts(self) -> int:
        return self.accounts

    def play(self, rng: Generator, model: Model, data: Any, honest: Array, liar: int) -> Play:
        """Append accounts for all parts but the first."""
        edges = [int(edge) for edge in np.linspace(0, count_rows(model, data), self.accounts + 1).round()]
        parts = [model.statistics(take_rows(model, data, low, high)) for low, high in pairwise(edges)]
        first, sizes = honest.shape[-2], tuple(high - low for low, high in pairwise(edges))
        reported = one_report(honest, liar, parts[0], sizes[0]).statistics
        reported = np.concatenate([reported, *(part[..., None, :] for part in parts[1:])], axis=-2)
        return Play(reported, (liar, *range(first, first + self.accounts - 1)), sizes)
