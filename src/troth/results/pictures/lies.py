"""The gain of each lie over the truth, with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from troth.audits.findings import VERDICT_LABELS
from troth.core.formats import share, short, true_minus
from troth.results.pictures.svg import Picture, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.audits.findings import Finding, LieVerdict

_KINDS: dict[LieVerdict, str] = {"gains": "gain", "loses": "loss"}


def draw_lies(findings: Sequence[Finding]) -> Picture:
    """Draw the gain of each lie as a dot on its interval: orange if it gains, blue if it loses, grey if neither."""
    row, top = 42, 4
    bottom = top + row * len(findings)
    limit = max(0.05, *(max(abs(finding.low), abs(finding.high)) for finding in findings))
    picture = Picture("Gain of each lie over the truth, with its interval", height=bottom + 26)

    def place(gain: float) -> str:
        return percent(0.5 + 0.49 * gain / limit)

    for i, finding in enumerate(sorted(findings, key=lambda finding: finding.gain)):
        y, kind = top + row * i, _KINDS.get(finding.verdict, "neither")
        lie = true_minus(finding.lie)
        tip = f"{lie}: {VERDICT_LABELS[finding.verdict]}, {share(finding.low)} to {share(finding.high)}"
        line = picture.group(tip)
        picture.add("text", short(lie, 36), inside=line, x=0, y=y + 12)
        picture.add("text", share(finding.gain, 1, sign=True), inside=line, x="100%", y=y + 12, text_anchor="end")
        picture.add("rect", kind="track", inside=line, width="100%", y=y + 20, height=8, rx=4)
        picture.add("line", kind="axis", inside=line, x1="50%", x2="50%", y1=y + 17, y2=y + 31)
        middle = y + 24
        ends = {"x1": place(finding.low), "x2": place(finding.high)}
        picture.add("line", kind=kind, inside=line, y1=middle, y2=middle, **ends)
        picture.add("circle", kind=kind, inside=line, cx=place(finding.gain), cy=middle, r=5.5)
    for x, anchor, value in (("0%", "start", -limit), ("50%", "middle", 0.0), ("100%", "end", limit)):
        label = share(value, 0, sign=True) if value else "0: the truth"
        picture.add("text", label, kind="note", x=x, y=bottom + 18, text_anchor=anchor)
    return picture
