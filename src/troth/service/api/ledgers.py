"""Payments and the reasons for them; the ledger, exported and verified."""

from __future__ import annotations

from sqlalchemy import Connection

from troth.results.tasks import TaskResult
from troth.service import payouts, task_pay, views
from troth.service.accounts import User
from troth.service.api.calls import Call, reads, writes
from troth.service.errors import ConflictError
from troth.service.requests import Voiding
from troth.service.responses import Batch, Payouts, Verified

list_payments = reads(views.payments_view)
show_payment = reads(views.payment_of)
show_tasks = reads(task_pay.own_tasks)
show_head = reads(views.head_view)
list_payouts = reads(payouts.list_payouts)
show_payouts = reads(payouts.batch_view)
payouts_file = reads(payouts.batch_file)


@writes
def export_payouts(tx: Connection, call: Call, campaign: str) -> Batch:
    return payouts.export(tx, call.user, campaign)


@writes
def void_payout(tx: Connection, call: Call, campaign: str, payout: str, body: Voiding) -> Payouts:
    payouts.void(tx, call.user, campaign, payout, body.reason)
    return payouts.list_payouts(tx, call.user, campaign)


@reads
def ledger_file(tx: Connection, user: User, campaign: str) -> bytes:
    return views.shared_result(tx, user, campaign).ledger.to_bytes()


@reads
def shares_file(tx: Connection, user: User, campaign: str) -> bytes:
    result = views.shared_result(tx, user, campaign)
    if not isinstance(result, TaskResult):
        raise ConflictError("this campaign has no tasks")
    return result.file


@reads
def payments_file(tx: Connection, user: User, campaign: str) -> bytes:
    return views.shared_result(tx, user, campaign).to_csv().encode()


def page_file(call: Call, campaign: str) -> bytes:
    with call.store.read() as tx:
        result = views.shared_result(tx, call.user, campaign)
    return result.to_html().encode()


def verify_ledger(call: Call, campaign: str) -> Verified:
    return views.verified(call.store, call.user, campaign)
