"""Prior and posterior of one parameter: bars for states, curves for numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from troth.core.formats import short
from troth.results.pictures.svg import Picture, percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.results.beliefs import Belief

_TOP, _HEIGHT, _MAX_LABELS = 28, 120, 8


def draw_belief(belief: Belief) -> Picture:
    """Draw the prior in grey and, if there is one, the posterior in blue."""
    updated = len(belief.posterior) > 0
    title = f"{'Prior and posterior' if updated else 'Prior'} of {short(belief.name, 80)}"
    picture = Picture(title, height=_TOP + _HEIGHT + 22, description=belief.summary)
    picture.key(("prior", "prior"), *([("bar", "posterior")] if updated else []))
    curves = {"prior": belief.prior} | ({"bar": belief.posterior} if updated else {})
    (_draw_states if belief.discrete else _draw_curves)(picture, belief.places, curves)
    picture.add("line", kind="axis", x1=0, x2="100%", y1=_TOP + _HEIGHT, y2=_TOP + _HEIGHT)
    return picture


def _draw_states(picture: Picture, states: Sequence[str], curves: Mapping[str, Sequence[float]]) -> None:
    """Draw bars side by side."""
    step = 1 / len(states)
    width = 0.8 * step / len(curves)
    for k, name in enumerate(states):
        x = step * (k + 0.1)
        state = picture.group(", ".join([short(name), *(f"{values[k]:.1%}" for values in curves.values())]))
        for shift, (kind, values) in enumerate(curves.items()):
            height = _HEIGHT * values[k]
            sides = {"x": percent(x + shift * width), "width": percent(0.95 * width)}
            picture.add("rect", kind=kind, inside=state, y=_TOP + _HEIGHT - height, height=height, **sides)
        if len(states) <= _MAX_LABELS:
            middle = percent(step * (k + 0.5))
            picture.add("text", short(name, 12), kind="note", x=middle, y=_TOP + _HEIGHT + 18, text_anchor="middle")


def _draw_curves(picture: Picture, places: Sequence[float], curves: Mapping[str, Sequence[float]]) -> None:
    low, high = places[0], places[-1]
    area = picture.stretched(x="0%", y=_TOP, width="100%", height=_HEIGHT)
    for kind, heights in curves.items():
        outline = [(100 * (x - low) / (high - low), 100 - 98 * y) for x, y in zip(places, heights, strict=True)]
        outline = [(-2, 102), (-2, outline[0][1]), *outline, (102, outline[-1][1]), (102, 102)]  # sides are cut off
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in outline)
        picture.add("polygon", kind=f"{kind} area", inside=area, points=points)
    for part, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        value = f"{low + part * (high - low):.3g}".replace("-", "−")
        picture.add("text", value, kind="note", x=percent(part), y=_TOP + _HEIGHT + 18, text_anchor=anchor)
