"""What charts are drawn of: plain data that the page's script turns into pictures. The tables say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from troth.service.pages.frame import short

if TYPE_CHECKING:
    from troth.campaigns.terms import Campaign

_MOST_BARS = 60


def payments_chart(spec: Campaign, payments: list[dict[str, Any]]) -> dict[str, Any]:
    """Return payments beside caps and what an empty report would have got, the best paid first."""
    some = sorted(payments, key=lambda p: (-float(p["payment"]), p["provider"]))[:_MOST_BARS]
    return {
        "kind": "payments",
        "unit": spec.currency,
        "names": [short(p["provider"], 24) for p in some],
        "paid": [float(p["payment"]) for p in some],
        "caps": [float(p["cap"]) for p in some],
        "empty": [round(p["empty_share"] * float(p["cap"]), spec.decimals) for p in some],
        "cut": max(0, len(payments) - _MOST_BARS),
    }


def rounds_chart(view: dict[str, Any], lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one provider's payments over rounds, beside caps and what empty reports would have got."""
    return {
        "kind": "over_rounds",
        "unit": view["currency"],
        "names": [str(line["round"]["day"] or f"round {line['round']['number']}") for line in lines],
        "paid": [float(line["payment"]["payment"]) for line in lines],
        "caps": [float(line["payment"]["cap"]) for line in lines],
        "empty": [float(line["payment"]["empty_share"]) * float(line["payment"]["cap"]) for line in lines],
    }
