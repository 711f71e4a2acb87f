"""Bonds against fake data: what is paid for nothing is held back, and can be lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.mechanisms.rule import Breakdown, Round, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.contract import Array, Generator, Model
    from troth.mechanisms.rule import Amount, Shares


@dataclass(frozen=True)
class Bonded(Rule):
    """Pay cap·(share − e)/(1 − e) of another rule, where e is the share that it pays for an empty report.

    Where e depends on what peers report, as under `Brier`, it is cap·(share − e): dividing by 1 − e would make some
    outcomes count more than others, and lies pay. Data that are independent of θ then earn at most nothing in
    expectation (up to the ε of a clipped range), honest data at least nothing given one's own data, and an empty report
    exactly nothing. Payments can be negative, down to a deposit that every provider must make: individually rational
    in expectation only, an option to be turned on knowingly.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(1, 1)
    >>> rule = Bonded(troth.OneTime(troth.clipped_range(model, rows=[4] * 4)))
    >>> t = np.array([[4.0, 0.0], [3.0, 1.0], [4.0, 0.0], [0.0, 0.0]])
    >>> rule.pay(model, t, budget=90.0).round(2)
    array([14.03,  2.4 , 14.03,  0.  ])
    """

    rule: Rule

    individually_rational = False

    @property
    def days(self) -> int:  # type: ignore[override]
        """As many as the rule behind it."""
        return self.rule.days

    @property
    def pools_peers(self) -> bool:  # type: ignore[override]
        """As the rule behind it."""
        return self.rule.pools_peers

    def breakdown(self, this_round: Round, /) -> Breakdown:
        """Measure shares from what an empty report earns."""
        inner = self.rule.breakdown(this_round)
        nothing = self.rule.empty_share_of(this_round)
        room = self._room(nothing)
        terms = {**inner.terms, "share before the bond": inner.share, "share paid for nothing": nothing}
        share = (inner.share - nothing) / room
        return Breakdown(share, inner.log_pmi, inner.score, inner.low, inner.high, terms, inner.note)

    def deposit(
        self,
        model: Model | Sequence[Model],
        statistics: Array,
        *,
        budget: Amount,
        weights: Shares | None = None,
        groups: Sequence[Any] | None = None,
        rows: Any = None,
        rng: Generator | None = None,
    ) -> Array:
        """Return the most that each provider can lose, to be deposited beforehand: cap·e/(1 − e), or the cap."""
        nothing = self.rule.empty_share(model, statistics, groups=groups, rows=rows, rng=rng)
        caps = self.cap(np.shape(statistics)[-2], budget=budget, weights=weights)
        if not self.rule.constant_empty_share:
            return caps * np.ones_like(nothing)
        return caps * np.where(nothing < 1, nothing / self._room(nothing), 0.0)

    def _room(self, nothing: Array) -> Array:
        """Return what lies between nothing and the cap, if that is fixed beforehand."""
        return np.where((nothing < 1) & self.rule.constant_empty_share, 1 - nothing, 1.0)
