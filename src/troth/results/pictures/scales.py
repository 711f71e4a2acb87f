"""Pictures of one number on a scale: a score, a place in a line, or the paid part of a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from troth.core.formats import number
from troth.results.pictures.svg import Picture, percent

if TYPE_CHECKING:
    from troth.mechanisms import Line

_MAX_DOTS = 100


def draw_score(score: float, low: float, high: float, empty_share: float) -> Picture:
    """Draw a score on its scale, with a mark for an empty report."""
    part = (score - low) / (high - low)
    title = f"The score {number(score)} on the scale from {number(low)} to {number(high)}"
    picture = Picture(title, height=78, description=f"An empty report would be at {empty_share:.0%} of the scale.")
    picture.key(("bar", f"this report: {number(score)}"), ("mark", "an empty report"))
    picture.add("rect", kind="track", y=32, width="100%", height=16, rx=8)
    picture.add("rect", kind="bar soft", y=32, width=percent(part), height=16, rx=8)
    x = percent(empty_share)
    picture.add("line", kind="mark", x1=x, x2=x, y1=26, y2=54)
    picture.add("circle", kind="bar", cx=percent(min(0.98, max(0.02, part))), cy=40, r=8)
    picture.add("text", f"lowest: {number(low)}", kind="note", x=0, y=70)
    picture.add("text", f"highest: {number(high)}", kind="note", x="100%", y=70, text_anchor="end")
    return picture


def draw_line(line: Line) -> Picture:
    """Draw the place of the real peers in a line, from the best fit on the left to the worst.

    A dot stands for one of the others, for several if there are many, or for 1% if they have probabilities.
    """
    dots = 100 if line.count is None else min(line.count, _MAX_DOTS)
    if line.count is None:
        legend = ", a dot for 1%"
    else:
        legend = "" if dots == line.count else f", a dot for {line.count / dots:,.0f}"
    description = f"{line.drawn[:1].upper()}{line.drawn[1:]}, in the order in which they fit the report."
    picture = Picture(line.title, height=70, description=description)
    picture.key(("mark", line.real), ("track", f"{line.drawn}{legend}"))
    for dot in range(dots):
        picture.add("circle", kind="track", cx=percent(0.01 + 0.98 * (dot + 0.5) / dots), cy=38, r=3)
    x = percent(0.01 + 0.98 * (line.above + line.tied / 2) / (line.count or 1))
    picture.add("line", kind="mark", x1=x, x2=x, y1=26, y2=50)
    picture.add("text", "fit best", kind="note", x=0, y=66)
    picture.add("text", "fit worst", kind="note", x="100%", y=66, text_anchor="end")
    return picture


def draw_budget(title: str, *, paid: int, pending: int, budget: int) -> Picture:
    """Draw the paid part of a budget and, in a lighter colour, the part that is pending."""
    picture = Picture(title, height=12)
    picture.add("rect", kind="track", width="100%", height=12, rx=6)
    for kind, amount in (("bar soft", paid + pending), ("bar", paid)):
        picture.add("rect", kind=kind, width=percent(amount / max(1, budget)), height=12, rx=6)
    return picture
