"""Receipts: what a provider confirmed, signed by the service with a key that its database does not have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from troth.campaigns.records.statements import RECEIPT, StatementError, check_signature
from troth.campaigns.terms import Campaign
from troth.core.errors import DataError
from troth.service.campaigns import digest_of_terms
from troth.service.keys import Keys


def statement(commitment: str | None, report: Any) -> dict[str, Any]:
    """Return what the receipt of a confirmed report says.

    ``report`` is an upload with its provider and round, as `troth.service.rounds` loads it: it was ``created`` when it
    was received.
    """
    return {
        "kind": RECEIPT,
        "campaign": report.campaign,
        "round": report.number,
        "day": report.day,
        "provider": report.provider,
        "rows": report.rows,
        "summary": report.summary,
        "sha256": report.sha256,
        "data_digest": report.data_digest,
        "nonce": report.nonce,
        "own_nonce": report.own_nonce or "",
        "received": report.created,
        "confirmed": report.confirmed,
        "commitment": commitment,
        "terms": report.terms,
        **({} if report.tasks is None else {"tasks": report.tasks}),
    }


def signed_receipt(keys: Keys, commitment: str | None, report: Any) -> dict[str, Any] | None:
    """Return the receipt of a report as it was signed; None for what is not confirmed."""
    if report.receipt is None:
        return None
    return {**statement(commitment, report), "key": keys.public, "signature": report.receipt}


def check_receipts(keys: Keys, terms: Campaign, reports: Iterable[Any]) -> None:
    """Raise if a report, or the terms, are not those that a receipt was signed for."""
    for report in reports:
        receipt = signed_receipt(keys, terms.commitment, report)
        try:
            check_signature(receipt or {}, RECEIPT, keys.public)
        except StatementError:
            raise DataError(
                f"the report of {report.provider!r} does not match its signed receipt: the database was edited. "
                "Reopen the round and let the provider report again"
            ) from None
        if report.terms != digest_of_terms(terms, report.provider):
            raise DataError(
                f"the terms differ from those under which {report.provider!r} reported: the database was edited. "
                "Restore the terms, or set the round aside"
            )
