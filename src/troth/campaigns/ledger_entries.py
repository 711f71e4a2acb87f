"""The entries of a ledger: how reports and payments are written, and how they are read back.

A ledger names its format in its first line, and a reader is chosen by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from troth.campaigns.canonical_json import as_number, digest
from troth.campaigns.ledger import LedgerError
from troth.campaigns.money import to_minor
from troth.campaigns.settle import Payment
from troth.data.request import Day, Report

if TYPE_CHECKING:
    from collections.abc import Callable

    from troth.campaigns.ledger import Ledger
    from troth.campaigns.terms import Campaign

FORMAT = 2
"""The format that is written."""

_MONEY = ("cap", "payment", "deposit")


class Reader(NamedTuple):
    """How the entries of one format are read."""

    report: Callable[[dict[str, Any]], Report]
    payment: Callable[[Campaign, dict[str, Any]], Payment]


def reader_of(ledger: Ledger, place: str = "ledger") -> Reader:
    """Return the reader of a ledger's format."""
    first = ledger.entries[0] if ledger.entries else {}
    if first.get("entry") != "campaign":
        raise LedgerError(f"{place}, line 1: this is no ledger of a campaign")
    number = first.get("format")
    if isinstance(number, bool) or number not in READERS:
        known = " or ".join(map(str, READERS))
        raise LedgerError(f"{place}, line 1: the ledger has format {number!r}, and this version reads {known}")
    return READERS[number]


def recorded_reports(ledger: Ledger) -> list[Report]:
    """Read all reports back from the ledger: payments are made of what was recorded."""
    entries = ledger.of("report")
    return [reader_of(ledger).report(entry) for entry in entries] if entries else []


def recorded_public(ledger: Ledger) -> dict[Day, Report]:
    """Read the days' public data back from the ledger."""
    return {entry["day"]: reader_of(ledger).report(entry) for entry in ledger.of("public")}


def report_entry(report: Report, kind: str = "report") -> dict[str, Any]:
    """Return a report, or a day's public data, as the ledger has it: the summary of its rows, and a digest."""
    core = {
        "provider": report.provider,
        "day": report.day,
        "rows": report.rows,
        "summary": [float(value) for value in report.summary],
    }
    own: dict[str, Any] = {} if report.data_digest is None else {"data_digest": report.data_digest}
    if report.dropped:
        own["dropped"] = report.dropped
    return {"entry": kind, **core, "digest": digest(core), "source": report.source, **own}


def payment_entry(campaign: Campaign, day: Day, payment: Payment) -> dict[str, Any]:
    """Return a payment as the ledger has it, money as decimal strings."""
    plain = dict(vars(payment))
    for key in _MONEY:
        plain[key] = campaign.text(plain[key])
    if not payment.deposit:
        del plain["deposit"]
    return {"entry": "payment", "day": day, **plain}


def _read_report(entry: dict[str, Any]) -> Report:
    summary = np.array([float(value) for value in entry["summary"]])
    return Report(
        entry["provider"],
        entry["day"],
        entry["rows"],
        summary,
        entry.get("source", ""),
        entry.get("data_digest"),
        entry.get("dropped", 0),
    )


def _read_payment(campaign: Campaign, entry: dict[str, Any]) -> Payment:
    """Read a payment, money as minor units."""

    def minor(text: str) -> int:
        sign = -1 if text.startswith("-") else 1
        return sign * to_minor(text.lstrip("-"), campaign.decimals)

    numbers: dict[str, Any] = {name: as_number(entry[name]) for name in ("log_pmi", "score", "low", "high")}
    return Payment(
        provider=entry["provider"],
        rows=entry["rows"],
        **numbers,
        terms={term: float(value) for term, value in entry["terms"].items()},
        share=float(entry["share"]),
        empty_share=float(entry["empty_share"]),
        cap=minor(entry["cap"]),
        payment=minor(entry["payment"]),
        deposit=minor(entry.get("deposit", "0")),
        note=entry["note"],
    )


READERS = {FORMAT: Reader(_read_report, _read_payment)}
"""Readers by format."""
