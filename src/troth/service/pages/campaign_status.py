"""How a campaign stands, for its analyst: what was paid, what may still be, and what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from troth.results.pictures import Picture, draw_budget
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
    def bar(self) -> Picture:
        """What was paid of the budget, drawn."""
        show = self.spec.show
        title = f"{show(self.paid)} paid" + (f", up to {show(self.pending)} pending" if self.pending else "")
        budget = self.paid + self.pending if self.budget is None else self.budget
        return draw_budget(title, paid=self.paid, pending=self.pending, budget=budget)


def standing_of(tx: Connection, who: Who, campaign: str) -> Standing:
    """Return how a campaign of one's own stands."""
    spec = campaigns.terms_of(campaigns.owned(tx, who, campaign))
    result = ledgers.load_result(tx, campaign)
    held = views.list_rounds(tx, who, campaign)
    waiting = sum(each["state"] in ("open", "closed") for each in held)
    days = spec.days if spec.per_day else 1
    budget = None if days is None else spec.budget * days
    return Standing(spec, budget, 0 if result is None else result.paid, waiting * spec.round_budget, held)
