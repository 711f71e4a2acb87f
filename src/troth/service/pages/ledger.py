"""The ledger: its entries and its head, its verification, and the page of payments."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.responses import HTMLResponse, Response

from troth.results.result import Result
from troth.service import ledgers, payment_views, views
from troth.service.pages.frame import Visit, is_part
from troth.service.responses import Verified

_PAGE_LINES, _MAX_LINE = 100, 10**9
Place = Annotated[int, Query(ge=0, le=_MAX_LINE)]
_REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def ledger_page(
    visit: Visit, campaign: str, before: Place = _MAX_LINE, *, verified: Verified | None = None
) -> Response:
    """Show the ledger, latest lines first."""
    with visit.store.read() as tx:
        view = views.own_campaign(tx, visit.user, campaign)
        result = ledgers.load_result(tx, campaign)
    total = 0 if result is None else len(result.ledger.entries)
    entries = [] if result is None else _entries(result, min(before, total))
    context: dict[str, Any] = {"entries": entries, "total": total, "verified": verified}
    return visit.page("ledger.html", view=view, older=entries[-1]["number"] - 1 if entries else 0, **context)


def _entries(result: Result, before: int) -> list[dict[str, Any]]:
    """Return a page of lines with short descriptions, latest first."""
    lines = []
    for number in range(before, max(0, before - _PAGE_LINES), -1):
        entry, line = result.ledger.entries[number - 1], result.ledger.lines[number - 1].decode(errors="replace")
        lines.append({"number": number, "kind": entry["entry"], "what": _describe(result, entry), "line": line})
    return lines


def _describe(result: Result, entry: dict[str, Any]) -> str:
    day = "" if entry.get("day") is None else f", day {entry['day']}"
    if entry["entry"] == "payment":
        return f"{entry['provider']}: {entry['payment']} {result.campaign.currency}".rstrip() + day
    if entry["entry"] == "report":
        return f"{entry['provider']}: {entry['rows']:,} rows{day}"
    if entry["entry"] == "round":
        return f"round {entry['number']}{day}, {entry['time']}"
    if entry["entry"] == "tasks":
        return f"{entry['tasks']:,} tasks, {entry['reports']:,} reports on them"
    return result.campaign.name if entry["entry"] == "campaign" else ""


def verify(visit: Visit, campaign: str) -> Response:
    """Check every byte and recompute every payment."""
    verified = payment_views.verified(visit.store, visit.user, campaign)
    if is_part(visit.request):
        return visit.page("part_verified.html", verified=verified)
    return ledger_page(visit, campaign, verified=verified)


def result_page(visit: Visit, campaign: str) -> Response:
    """Show the payments with their explanations in a sandbox, where scripts cannot use our cookies."""
    with visit.store.read() as tx:
        result = payment_views.shared_result(tx, visit.user, campaign)
    return HTMLResponse(result.to_html(), headers={"content-security-policy": _REPORT_POLICY})
