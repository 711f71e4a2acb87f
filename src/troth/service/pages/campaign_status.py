"""A campaign's status, for its analyst: what was paid, what may still be paid, and its rounds."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from troth.campaigns.terms import Campaign
from troth.results.pictures import Picture, draw_budget
from troth.service import campaigns, rounds, views
from troth.service.accounts import User
from troth.service.responses import OwnRound


@dataclass(frozen=True)
class CampaignStatus:
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

    terms: Campaign
    budget: int | None
    paid: int
    pending: int
    rounds: list[OwnRound]

    @property
    def bar(self) -> Picture:
        """What was paid of the budget, drawn."""
        show = self.terms.show
        title = f"{show(self.paid)} paid" + (f", up to {show(self.pending)} pending" if self.pending else "")
        budget = self.paid + self.pending if self.budget is None else self.budget
        return draw_budget(title, paid=self.paid, pending=self.pending, budget=budget)


def campaign_status(tx: Connection, user: User, campaign: str) -> CampaignStatus:
    """Return the status of one of the analyst's campaigns."""
    terms = campaigns.terms_of(campaigns.owned(tx, user, campaign))
    shown = views.own_rounds(tx, terms, rounds.list_rounds(tx, campaign))
    waiting = sum(each.state in ("open", "closed") for each in shown)
    days = terms.days if terms.per_day else 1
    budget = None if days is None else terms.budget * days
    paid = sum(each.amount.minor for each in shown if each.amount is not None)
    return CampaignStatus(terms, budget, paid, waiting * terms.round_budget, shown)
