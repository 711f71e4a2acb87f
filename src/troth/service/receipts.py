"""Receipts: what a provider confirmed, signed with a key that is not in the database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from troth.campaigns.records.statements import RECEIPT, StatementError, check_signature
from troth.campaigns.terms import Campaign
from troth.core.errors import DataError
from troth.service.campaigns import digest_of_terms
from troth.service.keys import Keys


def statement(commitment: str | None, report: Any) -> dict[str, Any]:
    """Return the receipt of a confirmed report, before it is signed.

    ``report`` is an upload with its provider and round, as `troth.service.rounds` loads it; ``created`` is the time
    when it was received.
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
    """Return the signed receipt of a report, or None if it is not confirmed."""
    if report.receipt is None:
        return None
    return {**statement(commitment, report), "key": keys.public, "signature": report.receipt}


def check_receipts(keys: Keys, terms: Campaign, reports: Iterable[Any]) -> None:
    """Raise if a report or the terms differ from those in a signed receipt."""
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
