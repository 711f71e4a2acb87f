"""What charts are drawn of: plain data that the page's script turns into pictures. The tables say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from troth.service.pages.frame import short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.campaigns.findings import Belief
    from troth.campaigns.spec import Campaign

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
        "empty": [round(p["nothing"] * float(p["cap"]), spec.decimals) for p in some],
        "cut": max(0, len(payments) - _MOST_BARS),
    }


def belief_charts(beliefs: Sequence[Belief]) -> list[dict[str, Any]]:
    """Return prior and posterior of each parameter."""
    return [
        {
            "kind": "belief",
            "name": belief.name,
            "summary": belief.summary,
            "discrete": belief.discrete,
            "places": [place if belief.discrete else float(f"{place:.5g}") for place in belief.places],
            "prior": [round(float(value), 4) for value in belief.prior],
            "posterior": [round(float(value), 4) for value in belief.posterior],
        }
        for belief in beliefs
    ]
