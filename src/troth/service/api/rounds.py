"""Rounds: open, close and pay, publish."""

from __future__ import annotations

from sqlalchemy import Connection

from troth.service import campaigns, rounds, settlement, views
from troth.service.api.calls import Call, reads, writes
from troth.service.idempotency import Reply
from troth.service.requests import Closing, Deadline, DryClosing, NewRound
from troth.service.responses import DryRun, Round
from troth.service.store import parse_deadline

list_rounds = reads(views.list_rounds)
show_round = reads(views.round_view)
list_reports = reads(views.list_reports)


def open_round(call: Call, campaign: str, body: NewRound) -> Reply:
    def open_next(tx: Connection) -> Round:
        number = rounds.open_round(tx, call.user, campaign, body.day, parse_deadline(body.deadline))
        return views.round_view(tx, call.user, campaign, number)

    campaigns.prepare(call.store, call.user, campaign)
    return call.once(open_next)


def close_round(call: Call, campaign: str, number: int, body: Closing) -> Reply:
    settlement.close_round(
        call.store, call.user, campaign, number, final=body.final, beacon=body.beacon, anyway=body.anyway
    )
    return call.once(lambda tx: views.round_view(tx, call.user, campaign, number))


def dry_run(call: Call, campaign: str, number: int, body: DryClosing) -> DryRun:
    return views.dry_run_view(settlement.dry_run(call.store, call.user, campaign, number, final=body.final))


@writes
def reopen_round(tx: Connection, call: Call, campaign: str, number: int, body: Deadline) -> Round:
    settlement.reopen(tx, call.user, campaign, number, parse_deadline(body.deadline))
    return views.round_view(tx, call.user, campaign, number)


def set_round_aside(call: Call, campaign: str, number: int) -> Reply:
    settlement.set_aside(call.store, call.user, campaign, number)
    return call.once(lambda tx: views.round_view(tx, call.user, campaign, number))


@writes
def publish_round(tx: Connection, call: Call, campaign: str, number: int) -> Round:
    rounds.publish(tx, call.user, campaign, number)
    return views.round_view(tx, call.user, campaign, number)


def finish_campaign(call: Call, campaign: str) -> Reply:
    settlement.finish(call.store, call.user, campaign)
    return call.once(lambda tx: views.campaign_view(tx, call.user, campaign))
