"""The ledger: its entries, its head, checking it, and taking it home."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from troth.campaigns.toml import to_toml
from troth.results.page import render
from troth.service import campaigns, ledgers, views
from troth.service.access import identify
from troth.service.accounts import Who
from troth.service.api.answering import download
from troth.service.api.ledgers import verified
from troth.service.pages.forms import Sent
from troth.service.pages.frame import is_part, page, store_of
from troth.service.requests import Identifier

if TYPE_CHECKING:
    from troth.campaigns.ledger import Ledger
    from troth.campaigns.terms import Campaign

router = APIRouter(dependencies=[Depends(identify)], include_in_schema=False)
Somebody = Annotated[Who, Depends(identify)]
_LINES = 100
_REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


@router.get("/campaigns/{campaign}/ledger")
def ledger_page(
    request: Request, campaign: Identifier, who: Somebody, before: Annotated[int, Query(ge=0, le=10**9)] = 10**9
) -> Response:
    """Show the ledger, the last lines first."""
    return _ledger(request, who, campaign, before)


def _ledger(request: Request, who: Who, campaign: str, before: int, found: dict[str, Any] | None = None) -> Response:
    with store_of(request).read() as tx:
        view = views.campaign_view(tx, who, campaign)
        spec = campaigns.terms_of(campaigns.owned(tx, who, campaign))
        result = ledgers.load_result(tx, campaign)
    entries: list[dict[str, Any]] = []
    total = 0
    if result is not None:
        total = len(result.ledger.entries)
        entries = _shown(result.campaign, result.ledger, min(before, total))
    first = entries[-1]["number"] if entries else 1
    context: dict[str, Any] = {
        "view": view,
        "spec": spec,
        "entries": entries,
        "total": total,
        "found": found,
        "older": first - 1,
    }
    return page(request, who, "ledger.html", **context)


def _shown(spec: Campaign, ledger: Ledger, before: int) -> list[dict[str, Any]]:
    """Return some lines with a word of what they say, the last first."""
    some = range(before, max(0, before - _LINES), -1)
    return [
        {
            "number": number,
            "kind": ledger.entries[number - 1]["entry"],
            "what": _in_words(spec, ledger.entries[number - 1]),
            "line": ledger.lines[number - 1].decode(errors="replace"),
        }
        for number in some
    ]


def _in_words(spec: Campaign, entry: dict[str, Any]) -> str:
    day = "" if entry.get("day") is None else f", day {entry['day']}"
    if entry["entry"] == "payment":
        return f"{entry['provider']}: {entry['payment']} {spec.currency}".rstrip() + day
    if entry["entry"] == "report":
        return f"{entry['provider']}: {entry['rows']:,} rows{day}"
    if entry["entry"] == "round":
        return f"round {entry['number']}{day}, {entry['time']}"
    return spec.name if entry["entry"] == "campaign" else ""


@router.post("/campaigns/{campaign}/ledger/verify")
def verify(request: Request, campaign: Identifier, who: Somebody, form: Sent) -> Response:
    """Check every byte and recompute every payment."""
    del form
    found = verified(store_of(request), who, campaign)
    if is_part(request):
        return page(request, who, "part_verified.html", found=found)
    return _ledger(request, who, campaign, 10**9, found)


@router.get("/campaigns/{campaign}/campaign.toml")
def campaign_file(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Return the terms as a campaign file; providers get it without others' names."""
    with store_of(request).read() as tx:
        text = to_toml(views.campaign_view(tx, who, campaign)["terms"])
    return download(text.encode(), "application/toml", "campaign.toml")


@router.get("/campaigns/{campaign}/ledger.jsonl")
def ledger_file(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Return the ledger as a file that `troth verify` reads."""
    with store_of(request).read() as tx:
        raw = views.shared_result(tx, who, campaign).ledger.to_bytes()
    return download(raw, "application/jsonl", "ledger.jsonl")


@router.get("/campaigns/{campaign}/payments.csv")
def payments_file(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Return all payments as CSV."""
    with store_of(request).read() as tx:
        text = views.shared_result(tx, who, campaign).to_csv()
    return download(text.encode(), "text/csv", "payments.csv")


@router.get("/campaigns/{campaign}/report.html")
def report(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Show the report, in a sandbox: its scripts run without our cookies."""
    with store_of(request).read() as tx:
        result = views.shared_result(tx, who, campaign)
    return HTMLResponse(render(result), headers={"content-security-policy": _REPORT_POLICY})
