"""Payments and the reasons for them; the ledger, exported and verified."""

from __future__ import annotations

from typing import TYPE_CHECKING

from troth.results.page import render
from troth.service import views
from troth.service.api.calls import reads

if TYPE_CHECKING:
    from troth.service.api.calls import Call
    from troth.service.responses import Verified


list_payments = reads(views.payments_view)
show_payment = reads(views.payment_of)


def ledger_file(call: Call, campaign: str) -> bytes:
    with call.store.read() as tx:
        return views.shared_result(tx, call.user, campaign).ledger.to_bytes()


def payments_file(call: Call, campaign: str) -> bytes:
    with call.store.read() as tx:
        return views.shared_result(tx, call.user, campaign).to_csv().encode()


def report_file(call: Call, campaign: str) -> bytes:
    with call.store.read() as tx:
        result = views.shared_result(tx, call.user, campaign)
    return render(result).encode()


def verify_ledger(call: Call, campaign: str) -> Verified:
    return views.verified(call.store, call.user, campaign)
