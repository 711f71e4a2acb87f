"""Rounds: open, close and pay, publish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Request, Response

from troth.service import campaigns, responses, rounds, settlement, views
from troth.service.api.answering import Somebody, after, answered, once, parse_moment, reply_of, router, store_of
from troth.service.openapi import refuses
from troth.service.requests import Closing, Deadline, Identifier, Key, NewRound, Number

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from troth.service.idempotency import Reply


@router.get("/campaigns/{campaign}/rounds", tags=["rounds"], response_model=list[responses.Round])
def list_rounds(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """List the rounds."""
    with store_of(request).read() as tx:
        return answered(views.list_rounds(tx, who, campaign))


@router.post(
    "/campaigns/{campaign}/rounds",
    tags=["rounds"],
    status_code=201,
    response_model=responses.OwnRound,
    responses=refuses(409),
)
def open_round(request: Request, campaign: Identifier, body: NewRound, who: Somebody, key: Key = None) -> Response:
    """Open the next round; with the first one, providers and terms are fixed."""

    def work(tx: Connection) -> Reply:
        number = rounds.open_round(tx, who, campaign, body.day, parse_moment(body.deadline))
        return reply_of(views.round_view(tx, who, campaign, number), 201)

    campaigns.prepare(store_of(request), who, campaign)
    return once(request, who, key, body, work)


@router.get("/campaigns/{campaign}/rounds/{number}", tags=["rounds"], response_model=responses.Round)
def show_round(request: Request, campaign: Identifier, number: Number, who: Somebody) -> Response:
    """Show a round."""
    with store_of(request).read() as tx:
        return answered(views.round_view(tx, who, campaign, number))


@router.post(
    "/campaigns/{campaign}/rounds/{number}/close",
    tags=["rounds"],
    response_model=responses.OwnRound,
    responses=refuses(409),
)
def close_round(
    request: Request, campaign: Identifier, number: Number, body: Closing, who: Somebody, key: Key = None
) -> Response:
    """Close a round and pay what has become payable; closing a closed round changes nothing."""
    return after(
        request,
        who,
        key,
        body,
        lambda: settlement.close_round(store_of(request), who, campaign, number, final=body.final),
        lambda tx: views.round_view(tx, who, campaign, number),
    )


@router.post(
    "/campaigns/{campaign}/finish", tags=["rounds"], response_model=responses.OwnCampaign, responses=refuses(409)
)
def finish(request: Request, campaign: Identifier, who: Somebody, key: Key = None) -> Response:
    """End a daily campaign: its last day is paid by its rule."""
    return after(
        request,
        who,
        key,
        None,
        lambda: settlement.finish(store_of(request), who, campaign),
        lambda tx: views.campaign_view(tx, who, campaign),
    )


@router.post(
    "/campaigns/{campaign}/rounds/{number}/reopen",
    tags=["rounds"],
    response_model=responses.OwnRound,
    responses=refuses(409),
)
def reopen(request: Request, campaign: Identifier, number: Number, body: Deadline, who: Somebody) -> Response:
    """Open a round again that was closed and could not be paid."""
    store = store_of(request)
    settlement.reopen(store, who, campaign, number, parse_moment(body.deadline))
    with store.read() as tx:
        return answered(views.round_view(tx, who, campaign, number))


@router.post(
    "/campaigns/{campaign}/rounds/{number}/publish",
    tags=["rounds"],
    response_model=responses.OwnRound,
    responses=refuses(409),
)
def publish(request: Request, campaign: Identifier, number: Number, who: Somebody) -> Response:
    """Show providers what they were paid, and why."""
    with store_of(request).write() as tx:
        rounds.publish(tx, who, campaign, number)
        return answered(views.round_view(tx, who, campaign, number))


@router.get("/campaigns/{campaign}/rounds/{number}/reports", tags=["rounds"], response_model=list[responses.Reporter])
def list_reports(request: Request, campaign: Identifier, number: Number, who: Somebody) -> Response:
    """List who has reported."""
    with store_of(request).read() as tx:
        campaigns.owned(tx, who, campaign)
        there = rounds.reporters(tx, rounds.find_round(tx, campaign, number).id)
        reported = [
            {"member": member.id, "provider": member.name, "confirmed": report.confirmed, "rows": report.rows}
            for member in campaigns.list_members(tx, campaign)
            if (report := there.get(member.id)) is not None
        ]
    return answered(reported)
