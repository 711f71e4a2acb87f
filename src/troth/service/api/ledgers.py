"""Payments and the reasons for them; the ledger, exported and verified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import Request, Response

from troth.core.errors import TrothError
from troth.results.page import render
from troth.results.pay import verify as verify_ledger
from troth.service import ledgers, responses, rounds, views
from troth.service.api.answering import Somebody, a_file, answered, download, router, store_of
from troth.service.errors import RefusedError
from troth.service.openapi import refuses
from troth.service.requests import Identifier, Number

if TYPE_CHECKING:
    from troth.service.accounts import Who
    from troth.service.store import Store


@router.get(
    "/campaigns/{campaign}/rounds/{number}/payments",
    tags=["payments"],
    response_model=responses.Payments,
    responses=refuses(409),
)
def payments(request: Request, campaign: Identifier, number: Number, who: Somebody) -> Response:
    """Show payments and the reasons for them: all, or one's own once the round is published."""
    with store_of(request).read() as tx:
        return answered(views.payments_view(tx, who, campaign, number))


@router.get(
    "/campaigns/{campaign}/rounds/{number}/payments/{member}",
    tags=["payments"],
    response_model=responses.Payments,
    responses=refuses(409),
)
def payment(request: Request, campaign: Identifier, number: Number, member: Identifier, who: Somebody) -> Response:
    """Show one provider's payment and the reasons for it."""
    with store_of(request).read() as tx:
        return answered(views.payment_of(tx, who, campaign, number, member))


@router.get("/campaigns/{campaign}/ledger", tags=["ledger"], **a_file("application/jsonl", 409))
def ledger(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Return the ledger as a file that `troth verify` reads."""
    with store_of(request).read() as tx:
        raw = views.shared_result(tx, who, campaign).ledger.to_bytes()
    return download(raw, "application/jsonl", "ledger.jsonl")


@router.get("/campaigns/{campaign}/payments.csv", tags=["ledger"], **a_file("text/csv", 409))
def payments_csv(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Return all payments as CSV."""
    with store_of(request).read() as tx:
        text = views.shared_result(tx, who, campaign).to_csv()
    return download(text.encode(), "text/csv", "payments.csv")


@router.get("/campaigns/{campaign}/report", tags=["ledger"], **a_file("text/html", 409))
def report(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Return the report: one HTML file that needs no network."""
    with store_of(request).read() as tx:
        result = views.shared_result(tx, who, campaign)
    return download(render(result).encode(), "text/html", "report.html")


@router.post("/campaigns/{campaign}/verify", tags=["ledger"], response_model=responses.Verified, responses=refuses(409))
def verify(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Check every byte of the ledger and recompute every payment."""
    return answered(verified(store_of(request), who, campaign))


def verified(store: Store, who: Who, campaign: str) -> dict[str, Any]:
    """Check a ledger as the database has it, its head against what was noted when its last round was paid."""
    try:
        with store.read() as tx:
            views.shared_result(tx, who, campaign)
            book = ledgers.load_ledger(tx, campaign)
            noted = [row.head for row in rounds.list_rounds(tx, campaign) if row.head is not None]
        result = verify_ledger(book, head=noted[-1] if noted else None)
    except RefusedError:
        raise
    except TrothError as error:
        nothing = dict.fromkeys(("head", "lines", "rounds", "paid"))
        return {"right": False, "problem": str(error), **nothing}
    return {
        "right": True,
        "problem": None,
        "head": result.ledger.head,
        "lines": len(result.ledger.lines),
        "rounds": len(result.rounds),
        "paid": result.campaign.text(result.paid),
    }
