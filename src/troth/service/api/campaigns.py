"""Campaigns, their terms and their providers."""

from __future__ import annotations

from sqlalchemy import Connection

from troth.campaigns.toml import to_toml
from troth.service import campaigns, views
from troth.service.accounts import User
from troth.service.api.calls import Call, reads, writes
from troth.service.requests import Group, NewCampaign, NewProvider, Terms
from troth.service.responses import Campaign, Invited, Provider

list_campaigns = reads(views.list_campaigns)
show_campaign = reads(views.campaign_view)
list_providers = reads(views.list_providers)


@reads
def campaign_file(tx: Connection, user: User, campaign: str) -> bytes:
    return to_toml(views.campaign_view(tx, user, campaign).terms).encode()


@writes
def create_campaign(tx: Connection, call: Call, body: NewCampaign) -> Campaign:
    options = {"publish_at_once": body.publish_at_once, "share_ledger": body.share_ledger}
    return views.campaign_view(tx, call.user, campaigns.create_campaign(tx, call.user, body.terms, **options))


@writes
def change_terms(tx: Connection, call: Call, campaign: str, body: Terms) -> Campaign:
    campaigns.change_terms(tx, call.user, campaign, body.terms)
    return views.campaign_view(tx, call.user, campaign)


@writes
def add_provider(tx: Connection, call: Call, campaign: str, body: NewProvider) -> Invited:
    member = campaigns.add_member(tx, call.user, campaign, body.name, body.identity, body.group)
    return _invited(tx, call, campaign, member)


@writes
def change_group(tx: Connection, call: Call, campaign: str, member: str, body: Group) -> Provider:
    campaigns.change_group(tx, call.user, campaign, member, body.group)
    return views.provider_view(campaigns.find_member(tx, campaign, member))


def _invited(tx: Connection, call: Call, campaign: str, member: str) -> Invited:
    secret = campaigns.invite(tx, call.user, campaign, member)
    provider = views.provider_view(campaigns.find_member(tx, campaign, member))
    return Invited(**dict(provider), invitation=secret, link=f"{call.settings.url}/join/{secret}")


invite_again = writes(_invited)


@writes
def revoke_provider(tx: Connection, call: Call, campaign: str, member: str) -> None:
    campaigns.revoke(tx, call.user, campaign, member)
