"""What charts are drawn of: plain data that the page's script turns into pictures. The tables say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from troth.service.pages.frame import short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.campaigns.terms import Campaign
    from troth.service.responses import Amount, JoinedCampaign, Payment

_MOST_BARS = 60


def payments_chart(terms: Campaign, payments: Sequence[Payment]) -> dict[str, Any]:
    """Return payments beside caps and what an empty report would have got, the best paid first."""
    some = sorted(payments, key=lambda p: (-p.payment.minor, p.provider))[:_MOST_BARS]
    return {
        "kind": "payments",
        "unit": terms.currency,
        "names": [short(p.provider, 24) for p in some],
        "cut": max(0, len(payments) - _MOST_BARS),
        **_heights(some),
    }


def rounds_chart(view: JoinedCampaign, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one provider's payments over rounds, beside caps and what empty reports would have got."""
    return {
        "kind": "over_rounds",
        "unit": view.currency,
        "names": [str(line["round"].day or f"round {line['round'].number}") for line in lines],
        **_heights([line["payment"] for line in lines]),
    }


def _heights(payments: Sequence[Payment]) -> dict[str, list[float]]:
    return {
        "paid": [_height(p.payment) for p in payments],
        "caps": [_height(p.cap) for p in payments],
        "empty": [round(p.nothing * _height(p.cap), p.cap.decimals) for p in payments],
    }


def _height(amount: Amount) -> float:
    return float(amount.minor / 10**amount.decimals)
