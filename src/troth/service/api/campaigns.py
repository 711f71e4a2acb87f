"""Campaigns, their terms and their providers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from troth.campaigns.toml import to_toml
from troth.service import campaigns, views
from troth.service.api.calls import reads
from troth.service.responses import Invited

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from troth.service.api.calls import Call
    from troth.service.idempotency import Reply
    from troth.service.requests import Group, NewCampaign, NewProvider, Terms
    from troth.service.responses import Campaign, Provider


list_campaigns = reads(views.list_campaigns)
show_campaign = reads(views.campaign_view)
list_providers = reads(views.list_providers)


def create_campaign(call: Call, body: NewCampaign) -> Reply:
    def create(tx: Connection) -> Campaign:
        campaign = campaigns.create_campaign(
            tx, call.user, body.terms, publish_at_once=body.publish_at_once, share_ledger=body.share_ledger
        )
        return views.campaign_view(tx, call.user, campaign)

    return call.once(create)


def change_terms(call: Call, campaign: str, body: Terms) -> Campaign:
    with call.store.write() as tx:
        campaigns.change_terms(tx, call.user, campaign, body.terms)
        return views.campaign_view(tx, call.user, campaign)


def campaign_file(call: Call, campaign: str) -> bytes:
    with call.store.read() as tx:
        return to_toml(views.campaign_view(tx, call.user, campaign).terms).encode()


def add_provider(call: Call, campaign: str, body: NewProvider) -> Invited:
    with call.store.write() as tx:
        member = campaigns.add_member(tx, call.user, campaign, body.name, body.identity, body.group)
        return _invited(call, tx, campaign, member)


def change_group(call: Call, campaign: str, member: str, body: Group) -> Provider:
    with call.store.write() as tx:
        campaigns.change_group(tx, call.user, campaign, member, body.group)
        return views.provider_view(campaigns.find_member(tx, campaign, member))


def invite_again(call: Call, campaign: str, member: str) -> Invited:
    with call.store.write() as tx:
        return _invited(call, tx, campaign, member)


def revoke_provider(call: Call, campaign: str, member: str) -> None:
    with call.store.write() as tx:
        campaigns.revoke(tx, call.user, campaign, member)


def _invited(call: Call, tx: Connection, campaign: str, member: str) -> Invited:
    secret = campaigns.invite(tx, call.user, campaign, member)
    provider = views.provider_view(campaigns.find_member(tx, campaign, member))
    return Invited(**dict(provider), invitation=secret, link=f"{call.settings.url}/join/{secret}")
