"""How a campaign stands, for its analyst: what was paid, what may still be, and what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from troth.service import campaigns, ledgers, views

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from troth.campaigns.terms import Campaign
    from troth.service.accounts import Who


@dataclass(frozen=True)
class Standing:
    """Money in minor units, and the rounds as the analyst sees them.

    Attributes
    ----------
    budget
        The most that can be spent in all, or None where each day has a budget and days are not counted.
    paid
        What was paid so far.
    pending
        The most that rounds which are open or wait can still cost.
    """

    spec: Campaign
    budget: int | None
    paid: int
    pending: int
    rounds: list[dict[str, Any]]

    @property
    def whole(self) -> int:
        """What the bar is drawn on."""
        return max(1, self.paid + self.pending if self.budget is None else self.budget)

    def percent(self, minor: int) -> float:
        """Return how long a part of the bar is."""
        return round(100 * max(0, minor) / self.whole, 2)


def standing_of(tx: Connection, who: Who, campaign: str) -> Standing:
    """Return how a campaign of one's own stands."""
    spec = campaigns.terms_of(campaigns.owned(tx, who, campaign))
    result = ledgers.load_result(tx, campaign)
    held = views.list_rounds(tx, who, campaign)
    waiting = sum(each["state"] in ("open", "closed") for each in held)
    days = spec.days if spec.per_day else 1
    budget = None if days is None else spec.budget * days
    return Standing(spec, budget, 0 if result is None else result.paid, waiting * spec.round_budget, held)
