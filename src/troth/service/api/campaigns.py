"""Campaigns, their terms and their providers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import Request, Response

from troth.campaigns.toml import to_toml
from troth.service import campaigns, responses, views
from troth.service.api.answering import Somebody, a_file, answered, download, once, reply_of, router, sent, store_of
from troth.service.openapi import refuses
from troth.service.requests import Group, Identifier, Key, NewCampaign, NewProvider, Terms

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from troth.service.accounts import Who
    from troth.service.idempotency import Reply


@router.get("/campaigns", tags=["campaigns"], response_model=list[responses.Campaign])
def list_campaigns(request: Request, who: Somebody) -> Response:
    """List the campaigns that one owns or provides data to."""
    with store_of(request).read() as tx:
        return answered([views.campaign_view(tx, who, row.id) for row in campaigns.list_campaigns(tx, who)])


@router.post(
    "/campaigns", tags=["campaigns"], status_code=201, response_model=responses.OwnCampaign, responses=refuses(409)
)
def create_campaign(request: Request, body: NewCampaign, who: Somebody, key: Key = None) -> Response:
    """Create a campaign from the tables of a campaign file; the seed is drawn and committed to."""

    def work(tx: Connection) -> Reply:
        made = campaigns.create_campaign(
            tx, who, body.terms, publish_at_once=body.publish_at_once, share_ledger=body.share_ledger
        )
        return reply_of(views.campaign_view(tx, who, made), 201)

    return once(request, who, key, body, work)


@router.get("/campaigns/{campaign}", tags=["campaigns"], response_model=responses.Campaign)
def show_campaign(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Show a campaign."""
    with store_of(request).read() as tx:
        return answered(views.campaign_view(tx, who, campaign))


@router.put(
    "/campaigns/{campaign}/terms", tags=["campaigns"], response_model=responses.OwnCampaign, responses=refuses(409)
)
def change_terms(request: Request, campaign: Identifier, body: Terms, who: Somebody) -> Response:
    """Replace the terms, until the first round opens."""
    with store_of(request).write() as tx:
        campaigns.change_terms(tx, who, campaign, body.terms)
        return answered(views.campaign_view(tx, who, campaign))


@router.get("/campaigns/{campaign}/campaign.toml", tags=["campaigns"], **a_file("application/toml"))
def campaign_file(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Return the terms as a campaign file, for the command line; providers get it without others' names."""
    with store_of(request).read() as tx:
        text = to_toml(views.campaign_view(tx, who, campaign)["terms"])
    return download(text.encode(), "application/toml", "campaign.toml")


@router.get("/campaigns/{campaign}/providers", tags=["providers"], response_model=list[responses.Provider])
def list_providers(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """List the providers."""
    with store_of(request).read() as tx:
        campaigns.owned(tx, who, campaign)
        return answered([_provider(member._asdict()) for member in campaigns.list_members(tx, campaign)])


@router.post(
    "/campaigns/{campaign}/providers",
    tags=["providers"],
    status_code=201,
    response_model=responses.Invited,
    responses=refuses(409),
)
def add_provider(request: Request, campaign: Identifier, body: NewProvider, who: Somebody) -> Response:
    """Add a provider whose identity was verified, and return a one-time invitation for it.

    There is no key to send it again with, because responses under keys are kept, and invitations are not: the name is
    taken then, and a new invitation can be asked for.
    """
    with store_of(request).write() as tx:
        member = campaigns.add_member(tx, who, campaign, body.name, body.identity, body.group)
        reply = reply_of(_invited(request, tx, who, campaign, member), 201)
    return sent(reply)


@router.put(
    "/campaigns/{campaign}/providers/{member}/group",
    tags=["providers"],
    response_model=responses.Provider,
    responses=refuses(409),
)
def relate(request: Request, campaign: Identifier, member: Identifier, body: Group, who: Somebody) -> Response:
    """Put a provider into a group of related ones, or take it out, until the first round opens."""
    with store_of(request).write() as tx:
        campaigns.relate(tx, who, campaign, member, body.group)
        return answered(_provider(campaigns.find_member(tx, campaign, member)._asdict()))


@router.post(
    "/campaigns/{campaign}/providers/{member}/invitation",
    tags=["providers"],
    status_code=201,
    response_model=responses.Invited,
    responses=refuses(409),
)
def invite(request: Request, campaign: Identifier, member: Identifier, who: Somebody) -> Response:
    """Return a new one-time invitation; an earlier one ends."""
    with store_of(request).write() as tx:
        return answered(_invited(request, tx, who, campaign, member), 201)


@router.delete("/campaigns/{campaign}/providers/{member}", tags=["providers"], status_code=204)
def revoke(request: Request, campaign: Identifier, member: Identifier, who: Somebody) -> None:
    """Let a provider send no more data; what stands in closed rounds stands."""
    with store_of(request).write() as tx:
        campaigns.revoke(tx, who, campaign, member)


def _invited(request: Request, tx: Connection, who: Who, campaign: str, member: str) -> dict[str, Any]:
    secret = campaigns.invite(tx, who, campaign, member)
    link = f"{request.app.state.settings.url}/join/{secret}"
    return {**_provider(campaigns.find_member(tx, campaign, member)._asdict()), "invitation": secret, "link": link}


def _provider(row: dict[str, Any]) -> dict[str, Any]:
    kept = {key: row[key] for key in ("id", "name", "identity", "joined", "revoked")}
    return {**kept, "group": row["related"]}
