"""The entries of a ledger: how reports and payments are written and read back.

The first line of a ledger names its format.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import fields
from decimal import Context, Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from troth.campaigns.money import to_minor
from troth.campaigns.records.canonical_json import canonical, digest
from troth.campaigns.records.ledger import LedgerError
from troth.campaigns.records.merkle import leaf, root
from troth.campaigns.seed import derive_seed
from troth.campaigns.settle import Payment
from troth.data.request import Day, Report
from troth.mechanisms import Figures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.campaigns.records.ledger import Ledger
    from troth.campaigns.terms import Campaign
    from troth.core.contract import Array


class LedgerFormat(NamedTuple):
    """How a format of ledgers records rounds.

    Attributes
    ----------
    link
        The key of the secret's link; if it is ``"seed"``, the link itself is the seed, which does not depend on the
        reports.
    seals_payments
        Whether the round records the number of reports and the root over their payments.
    budget
        The entry that records the budget of tasks: providers see the round, but not the tasks.
    """

    link: str = "link"
    seals_payments: bool = True
    budget: str = "tasks"


LATEST = 4
"""The format of new ledgers; a ledger in an older format is continued in that format."""

FORMATS = {
    2: LedgerFormat(link="seed", seals_payments=False, budget="round"),
    3: LedgerFormat(seals_payments=False, budget="round"),
    LATEST: LedgerFormat(),
}
"""The supported formats."""

_SEVEN_DIGITS = Context(prec=7)
_OPTIONAL_FIELDS = ("data_digest", "nonce", "tasks", "dropped", "unnamed")
_MONEY = ("cap", "payment", "deposit")
_NUMBERS = ("log_pmi", "score", "low", "high", "share", "empty_share")


def format_of(ledger: Ledger, place: str = "ledger") -> LedgerFormat:
    """Return the format of a ledger; raise if it is not supported."""
    first = ledger.entries[0] if ledger.entries else {}
    if first.get("entry") != "campaign":
        raise LedgerError(f"{place}, line 1: this is not a campaign ledger")
    number = first.get("format")
    if type(number) is not int or number not in FORMATS:
        formats = ", ".join(map(str, FORMATS))
        raise LedgerError(f"{place}, line 1: the ledger has format {number!r}, but this version reads {formats}")
    return FORMATS[number]


def recorded_reports(ledger: Ledger) -> list[Report]:
    """Read all reports back from the ledger, which payments are computed from."""
    return [_read_report(entry) for entry in ledger.of("report")]


def recorded_public(ledger: Ledger) -> dict[Day, Report]:
    """Read each day's public data back from the ledger."""
    return {entry["day"]: _read_report(entry) for entry in ledger.of("public")}


def report_entry(report: Report, kind: str = "report") -> dict[str, Any]:
    """Return the entry of a report, or of a day's public data: the summary of its rows, and a digest."""
    core = {
        "provider": report.provider,
        "day": report.day,
        "rows": report.rows,
        "summary": [float(value) for value in report.summary],
    }
    optional = {key: value for key in _OPTIONAL_FIELDS if (value := getattr(report, key))}
    if report.features is not None:
        optional["features"] = _write_features(report.features)
    return {"entry": kind, **core, "digest": digest(core), "source": report.source, **optional}


def report_leaf(report: Report) -> str:
    """Return the leaf of a report in its round's tree.

    The nonce of the receipt keeps others from guessing the report from its leaf. The leaf does not contain the
    provider's name, so payments do not depend on names: equal reports are paid alike.
    """
    extra = {"tasks": report.tasks}
    if report.features is not None:
        extra["features"] = digest(_write_features(report.features))
    return leaf_of(report.day, report.rows, report.summary.tolist(), report.nonce, **extra)


def leaf_of(day: Day, rows: int, summary: Sequence[float], nonce: str | None, **more: str | None) -> str:
    """Return the leaf of a report's contents.

    The summary is rounded to about eight digits of its largest number, because engines that add the same rows differ in
    the last digits, and seeds must not. In every format, the key of the summary is "sums".

    Examples
    --------
    >>> leaf_of(None, 3, [0.1 + 0.2, 3.0], None) == leaf_of(None, 3, [0.3, 3.0], None)
    True
    """
    largest = max((abs(value) for value in summary if isfinite(value)), default=0.0)
    scale = float(Decimal(1).scaleb(_SEVEN_DIGITS.create_decimal_from_float(largest).adjusted())) or 1.0
    rounded = [round(value / scale, 8) + 0.0 if isfinite(value) else value for value in summary]
    extra = {name: value for name, value in more.items() if value is not None}
    return leaf(canonical({"day": day, "rows": rows, "scale": scale, "sums": rounded, "nonce": nonce, **extra}))


def report_leaves(reports: Sequence[Report]) -> list[str]:
    """Return the leaves of a round's tree, sorted by hash."""
    return sorted(map(report_leaf, reports))


def report_root(reports: Sequence[Report]) -> str:
    """Return the root over the reports of a round."""
    return root(report_leaves(reports))


def payment_leaf(rows: int, cap: str, payment: str, nonce: str | None) -> str:
    """Return the leaf of a payment; the nonce of its report keeps others from guessing it."""
    return leaf(canonical({"rows": rows, "cap": cap, "payment": payment, "nonce": nonce}))


def payment_leaves(campaign: Campaign, reports: Sequence[Report], payments: Sequence[Payment]) -> list[str]:
    """Return the leaves of a round's payments, in the order of its reports' leaves."""
    by_provider = {payment.provider: payment for payment in payments}
    pairs = [(by_provider[report.provider], report.nonce) for report in sorted(reports, key=report_leaf)]
    return [
        payment_leaf(payment.rows, campaign.text(payment.cap), campaign.text(payment.payment), nonce)
        for payment, nonce in pairs
    ]


def payment_entry(campaign: Campaign, day: Day, payment: Payment) -> dict[str, Any]:
    """Return the entry of a payment, with money as decimal strings."""
    plain = dict(vars(payment))
    for key in _MONEY:
        plain[key] = campaign.text(plain[key])
    if not payment.deposit:
        del plain["deposit"]
    return {"entry": "payment", "day": day, **plain}


def _read_report(entry: dict[str, Any]) -> Report:
    summary = np.array([float(value) for value in entry["summary"]])
    optional = {key: entry[key] for key in ("source", *_OPTIONAL_FIELDS) if key in entry}
    optional |= {key: read_count(entry, key) for key in ("dropped", "unnamed") if key in entry}
    if "features" in entry:
        optional["features"] = _read_features(entry["features"])
    return Report(entry["provider"], entry["day"], entry["rows"], summary, **optional)


def read_count(entry: dict[str, Any], key: str) -> int:
    """Return a number of rows that were left out, 0 by default; payments do not depend on it."""
    count = entry.get(key, 0)
    if type(count) is not int or count < 0:
        raise LedgerError(f"{entry['entry']}: {key} must be a whole number of rows, not {count!r}")
    return count


def _write_features(features: Array) -> dict[str, Any]:
    """Return features row by row as little-endian 64-bit floats in base 64."""
    return {"columns": features.shape[1], "values": b64encode(features.astype("<f8").tobytes()).decode()}


def _read_features(plain: dict[str, Any]) -> Array:
    values = np.frombuffer(b64decode(plain["values"], validate=True), dtype="<f8").astype(np.float64)
    return values.reshape(-1, plain["columns"])


def read_payment(campaign: Campaign, entry: dict[str, Any]) -> Payment:
    """Read a payment back from the ledger, with money in minor units."""

    def minor(text: str) -> int:
        sign = -1 if text.startswith("-") else 1
        return sign * to_minor(text.lstrip("-"), campaign.decimals)

    return Payment(
        **vars(read_figures(entry)),
        provider=entry["provider"],
        rows=entry["rows"],
        cap=minor(entry["cap"]),
        payment=minor(entry["payment"]),
        deposit=minor(entry.get("deposit", "0")),
    )


def read_figures(payment: Mapping[str, Any]) -> Figures:
    """Read the numbers behind a share; non-finite ones are written as strings."""
    plain = {field.name: payment[field.name] for field in fields(Figures)}
    plain |= {name: float(plain[name]) for name in _NUMBERS if plain[name] is not None}
    return Figures(**plain | {"terms": {term: float(value) for term, value in plain["terms"].items()}})


def seal(ledger: Ledger, link: str | None, roots: list[str], beacon: str | None) -> dict[str, Any]:
    """Return the fields of a round that determine its seed: the root over its reports, the link and the beacon.

    ``roots`` are those of the round and of the days that it is compared with. Without a link nothing is drawn.
    """
    if format_of(ledger).link == "seed":
        return {"seed": link}
    drawn = {} if link is None else {"link": link} | ({} if beacon is None else {"beacon": beacon})
    return {"root": roots[0], **drawn, "seed": None if link is None else derive_seed(link, roots, beacon)}


def revealed_link(ledger: Ledger, head: dict[str, Any]) -> str | None:
    """Return the link of a round's seed, as the ledger records it."""
    return head.get(format_of(ledger).link)


def seal_payments(
    ledger: Ledger, campaign: Campaign, reports: Sequence[Report], payments: Sequence[Payment]
) -> dict[str, Any]:
    """Return the fields of a round that tie payments to reports: their number, and the root over the payments."""
    if not format_of(ledger).seals_payments:
        return {}
    return {"reports": len(reports), "payments": root(payment_leaves(campaign, reports, payments))}
