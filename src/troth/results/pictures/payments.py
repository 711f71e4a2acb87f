"""Payments against caps: bars, a ranking if there are too many for bars, and a heat map of days."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from troth.core.formats import money, share, short
from troth.results.pictures.svg import Picture, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.campaigns.settle import Payment
    from troth.campaigns.terms import Campaign
    from troth.results.result import Result

_MAX_BARS, _MAX_PROVIDERS, _MAX_DAYS, _MAX_POINTS = 60, 40, 60, 400
_MAX_CHARACTERS = 40  # of day labels that fit above their columns on a phone


@dataclass(frozen=True)
class Bar:
    """A payment and its cap; shares are parts of the cap, and the caps of all bars have the same unit."""

    label: str
    amount: str
    share: float
    empty_share: float
    cap: float = 1.0


def draw_payments(result: Result) -> Picture:
    """Draw everything that a campaign paid: bars for one round, a heat map for several."""
    if len(result.rounds) > 1:
        return draw_days(result)
    return draw_round(result.campaign, result.rounds[0].payments if result.rounds else ())


def draw_round(campaign: Campaign, payments: Sequence[Payment]) -> Picture:
    """Draw the payments of a round, the best paid first."""
    ordered = sorted(payments, key=lambda payment: (-payment.payment, payment.provider))
    if len(ordered) > _MAX_BARS:
        return draw_ranking(ordered)
    bars = [Bar(p.provider, money(campaign.amount(p.payment)), p.share, p.empty_share, p.cap) for p in ordered]
    return draw_bars("Payments and caps, largest first", bars)


def draw_bars(title: str, bars: Sequence[Bar]) -> Picture:
    """Draw payments and their caps on one scale, each with a mark for an empty report."""
    row, top = 42, 32
    picture = Picture(title, height=top + row * len(bars), description="The table shows the same numbers.")
    picture.key(("bar", "paid"), ("track", "cap"), ("mark", "an empty report"))
    low = min((bar.share * bar.cap for bar in bars if bar.share < 0), default=0.0)
    span = max((bar.cap for bar in bars), default=1.0) - low

    def place(bar: Bar, part: float) -> float:
        return (part * bar.cap - low) / span

    for i, bar in enumerate(bars):
        y = top + row * i
        tip = f"{short(bar.label, 80)}: {share(bar.share)} of the cap; an empty report: {share(bar.empty_share)}"
        line = picture.group(tip)
        picture.add("text", short(bar.label, 36), inside=line, x=0, y=y + 12)
        picture.add("text", bar.amount, inside=line, x="100%", y=y + 12, text_anchor="end")
        start, end = sorted((place(bar, 0.0), place(bar, bar.share)))
        for kind, first, last in (("track", place(bar, 0.0), place(bar, 1.0)), ("bar", start, end)):
            sides = {"x": percent(first), "width": percent(last - first)}
            picture.add("rect", kind=kind, inside=line, y=y + 18, height=12, rx=3, **sides)
        x = percent(place(bar, bar.empty_share))
        picture.add("line", kind="mark", inside=line, x1=x, x2=x, y1=y + 15, y2=y + 33)
    return picture


def draw_ranking(payments: Sequence[Payment]) -> Picture:
    """Draw shares of the cap as a falling curve, for more providers than bars can show."""
    height, left = 180, 0.11
    shares = np.sort([payment.share for payment in payments])[::-1]
    low = min(0.0, float(shares[-1]))
    picture = Picture(f"Shares of the cap of {len(shares):,} providers, the best paid first", height=height + 40)

    def down(part: float) -> float:
        return 100 - 100 * (part - low) / (1 - low)

    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = 8 + height * down(part) / 100
        picture.add("line", kind="grid", x1=percent(left), x2="100%", y1=y, y2=y)
        picture.add("text", f"{part:.0%}", kind="note", x=percent(left - 0.02), y=y + 4, text_anchor="end")
    area = picture.stretched(x=percent(left), y=8, width=percent(1 - left), height=height)
    places = np.linspace(0, len(shares) - 1, min(_MAX_POINTS, len(shares))).astype(int)
    points = " ".join(f"{100 * i / (len(shares) - 1):.1f},{down(shares[i]):.1f}" for i in places)
    picture.add("polyline", kind="curve", inside=area, points=points)
    empty = down(payments[0].empty_share)
    picture.add("line", kind="mark dashed", inside=area, x1=0, x2=100, y1=empty, y2=empty)
    caption = f"{len(shares):,} providers, the best paid first; dashed: an empty report"
    picture.add("text", caption, kind="note", x="100%", y=height + 30, text_anchor="end")
    return picture


def draw_days(result: Result) -> Picture:
    """Draw shares of the cap by provider and day: the stronger the colour, the larger the share."""
    names, rounds = list(result.totals)[:_MAX_PROVIDERS], result.rounds[-_MAX_DAYS:]
    top, row, left = 24, 22, 0.3
    cut = len(names) < len(result.totals) or len(rounds) < len(result.rounds)
    picture = Picture("Shares of the cap by provider and day", height=top + row * len(names) + 34 + 22 * cut)
    for x, anchor, day in _day_labels([short(str(paid_round.day), 20) for paid_round in rounds], left):
        picture.add("text", day, kind="note", x=percent(x), y=14, text_anchor=anchor)
    column = picture.add("svg", width=percent(left - 0.02), height="100%")
    for i, name in enumerate(names):
        picture.add("text", short(name, 30), inside=column, x=0, y=top + row * i + 14)
    step = (1 - left) / len(rounds)
    for j, paid_round in enumerate(rounds):
        payments = {payment.provider: payment for payment in paid_round.payments}
        sides = {"x": percent(left + step * (j + 0.04)), "width": percent(0.92 * step)}
        for i, name in enumerate(names):
            kind, shade, caption = "missing", 1.0, "no report"
            if name in payments:
                payment = payments[name]
                caption = f"{share(payment.share)} of the cap, {result.campaign.show(payment.payment)}"
                kind, shade = "bar", _shade(payment.share)
            cell = picture.group(f"{short(str(paid_round.day), 20)}: {caption}")
            y = top + row * i
            picture.add("rect", kind=kind, inside=cell, y=y, height=row - 3, rx=2, fill_opacity=shade, **sides)
    y = top + row * len(names) + 24
    for k, part in enumerate((0.0, 0.25, 0.5, 0.75, 1.0)):
        picture.add("rect", kind="bar", x=26 + 16 * k, y=y - 11, width=14, height=14, fill_opacity=_shade(part))
    picture.add("text", "0%", kind="note", x=0, y=y)
    picture.add("text", "100% of the cap", kind="note", x=112, y=y)
    left_out = _left_out("the first", len(names), len(result.totals), "providers") + _left_out(
        "the last", len(rounds), len(result.rounds), "days"
    )
    if left_out:
        picture.add("text", "; ".join(left_out), kind="note", x=0, y=y + 22)
    return picture


def _day_labels(days: Sequence[str], left: float) -> list[tuple[float, str, str]]:
    """Return positions, anchors and texts of labels: only the first and the last if there is no room for all."""
    if sum(map(len, days)) > _MAX_CHARACTERS:
        return [(left, "start", days[0]), (1.0, "end", days[-1])]
    step = (1 - left) / len(days)
    return [(left + step * (j + 0.5), "middle", day) for j, day in enumerate(days)]


def _left_out(selection: str, shown: int, total: int, noun: str) -> list[str]:
    return [] if shown == total else [f"{selection} {shown:,} of {total:,} {noun}"]


def _shade(part: float) -> float:
    return min(1.0, max(0.08, part))
