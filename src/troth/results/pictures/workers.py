"""Workers by pay per task, with standard errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from troth.results.pictures.svg import Picture, percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.campaigns.settle import Payment

_MAX_BARS = 40


def draw_workers(payments: Sequence[Payment], errors: Mapping[str, float]) -> Picture:
    """Draw mean shares ± two standard errors, the best first; of many workers, only the best and the worst."""
    half = _MAX_BARS // 2
    bars = payments if len(payments) <= _MAX_BARS else [*payments[:half], *payments[-half:]]
    step, empty = 20, payments[0].empty_share
    picture = Picture("Pay per task, as a share of the price", height=step * len(bars) + 30)
    for place, payment in enumerate(bars):
        error = 2 * errors[payment.provider]
        low, high = max(0.0, payment.share - error), min(1.0, payment.share + error)
        tip = picture.group(f"{payment.provider}: {payment.share:.1%} ± {error:.1%}")
        y = step * place
        width = percent(0.75 * payment.share)
        picture.add("rect", kind="bar", inside=tip, x=percent(0.25), y=y + 4, width=width, height=10)
        span = {"x": percent(0.25 + 0.75 * low), "width": percent(0.75 * max(high - low, 0.002))}
        picture.add("rect", kind="mark", inside=tip, y=y + 8, height=2, **span)
        picture.add("text", payment.provider[:18], kind="note", inside=tip, x=0, y=y + 13)
    middle, bottom = percent(0.25 + 0.75 * empty), step * len(bars)
    picture.add("rect", kind="mark", x=middle, y=0, width=1, height=bottom)
    picture.add("text", f"empty share {empty:.0%}", kind="note", x=middle, y=bottom + 16)
    return picture
