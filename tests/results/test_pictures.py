"""Pictures are SVG that carries text as text, keeps to its frame, and is a file of its own where that is asked for."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree.ElementTree import fromstring

import numpy as np
import pytest

import troth
from troth.campaigns.terms import Campaign
from troth.data.request import Report
from troth.mechanisms import Line
from troth.results.beliefs import Belief, beliefs_of
from troth.results.pictures import Bar, Picture, draw_bars, draw_belief, draw_budget, draw_lies, draw_score
from troth.results.pictures.payments import draw_days
from troth.results.pictures.scales import draw_line
from troth.results.pictures.workers import draw_workers

HOSTILE = "</svg><script>alert(1)</script>\x00\x1b[2J\u202e"
SVG = "{http://www.w3.org/2000/svg}"


def lie(gain: float, low: float, high: float) -> Any:
    verdict = "gains" if low > 0 else "loses" if high < 0 else "open"
    return SimpleNamespace(lie=HOSTILE, gain=gain, low=low, high=high, verdict=verdict)


def worker(share: float) -> Any:
    return SimpleNamespace(provider=HOSTILE, share=share, empty_share=0.25)


CURVE = Belief(HOSTILE, [0.0, 0.5, 1.0], [1.0, 1.0, 1.0], [0.1, 1.0, 0.1])
STATES = Belief("state", [HOSTILE, "b"], [0.5, 0.5], [0.9, 0.1], discrete=True)


def states(count: int) -> Campaign:
    model = {"family": "Finite", "columns": ["x"], "prior": [1 / count] * count, "likelihood": [[0.5, 0.5]] * count}
    return Campaign.from_dict({"campaign": {"name": "states", "budget": "1"}, "model": model})


PICTURES = {
    "bars": lambda: draw_bars("Bars", [Bar(HOSTILE, "1.00", 0.9, 0.5, 100), Bar("b", "-2.00", -0.2, 0.0, 50)]),
    "curve": lambda: draw_belief(CURVE),
    "prior alone": lambda: draw_belief(Belief("mean", [0.0, 1.0], [1.0, 1.0], [])),
    "states": lambda: draw_belief(STATES),
    "very many states": lambda: draw_belief(*beliefs_of(states(500), [])),
    "lies": lambda: draw_lies([lie(0.3, 0.1, 0.5), lie(-0.1, -0.2, -0.05), lie(0.0, -0.1, 0.1)]),
    "score": lambda: draw_score(0.4, -1.0, 1.0, 0.68),
    "score outside": lambda: draw_score(float("-inf"), -1.0, 1.0, 1.2),
    "budget": lambda: draw_budget(HOSTILE, paid=150, pending=10, budget=100),
    "workers": lambda: draw_workers([worker(0.5), worker(0.01), worker(1.0)], {HOSTILE: 0.1}),
    "no budget": lambda: draw_budget("nothing", paid=0, pending=0, budget=0),
}


@pytest.mark.parametrize(
    ("count", "summary"),
    [(16, ""), (17, "the other one has 5.88%"), (18, "the other 2 together have 11.11%")],
)
def test_states_that_are_not_drawn_are_counted(count: int, summary: str) -> None:
    (belief,) = beliefs_of(states(count), [])
    assert (len(belief.places), belief.summary) == (16, summary)


def test_states_that_are_not_drawn_have_what_is_left_of_the_posterior() -> None:
    """A row of 1 leaves the last of 17 equally probable states 0.2/(16·0.5 + 0.2), the least."""
    plain = states(17).plain
    model = {**plain["model"], "likelihood": [[0.5, 0.5]] * 16 + [[0.8, 0.2]]}
    (belief,) = beliefs_of(Campaign.from_dict({**plain, "model": model}), [Report("a", None, 1, np.array([0.0, 1.0]))])
    assert belief.places == [f"state {k}" for k in range(1, 17)]
    assert belief.summary == "the other one has 2.44%"


def test_the_states_of_day_types_are_called_day_types() -> None:
    model = troth.models.LatentClass([0.5, 0.5], "binary", [0.2, 0.8])
    terms = Campaign.from_dict(
        {"campaign": {"name": "x", "budget": "1"}, "model": model.to_dict() | {"columns": ["x"]}}
    )
    (belief,) = beliefs_of(terms, [])
    assert (belief.name, belief.places) == ("day types", ["day type 1", "day type 2"])


def days_of(count: int) -> troth.Result:
    rows = {"who": ["a", "b"] * count, "x": [0, 1] * count}
    rows["day"] = [f"2026-01-{1 + k // 2:02}" for k in range(2 * count)]
    return troth.pay(rows, troth.models.Bernoulli(1, 1), provider="who", day="day", budget="9.00", seed=1)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 9])
def test_days_are_named_above_their_columns(count: int) -> None:
    """Each day where there is room; otherwise the first and the last, at the ends."""
    root = fromstring(draw_days(days_of(count)).__html__())
    labels = [text for text in root.iter(f"{SVG}text") if (text.text or "").startswith("2026-")]
    middles = sorted(
        {
            float(rect.attrib["x"].rstrip("%")) + float(rect.attrib["width"].rstrip("%")) / 2
            for group in root.iter(f"{SVG}g")
            for rect in group.iter(f"{SVG}rect")
        }
    )
    assert len(middles) == count
    if count <= 4:
        assert {text.attrib["text-anchor"] for text in labels} == {"middle"}
        assert [float(text.attrib["x"].rstrip("%")) for text in labels] == pytest.approx(middles, abs=0.02)
    else:
        assert [text.text for text in labels] == ["2026-01-01", f"2026-01-{count:02}"]
        assert [text.attrib["text-anchor"] for text in labels] == ["start", "end"]


def sides(picture: Picture, kind: str, *names: str) -> list[tuple[str, ...]]:
    """Return attributes of the shapes of a class inside the picture's groups, in order."""
    groups = fromstring(picture.__html__()).iter(f"{SVG}g")
    return [tuple(each.attrib[name] for name in names) for g in groups for each in g if each.get("class") == kind]


def test_bars_and_marks_stand_where_their_numbers_are() -> None:
    bars = draw_bars("Bars", [Bar("a", "8.00", 0.8, 0.2, 10.0), Bar("b", "1.00", 0.25, 0.5, 4.0)])
    assert sides(bars, "track", "x", "width") == [("0%", "100%"), ("0%", "40%")]
    assert sides(bars, "bar", "x", "width") == [("0%", "80%"), ("0%", "10%")]
    assert sides(bars, "mark", "x1", "x2") == [("20%", "20%"), ("20%", "20%")]
    owing = draw_bars("Bars", [Bar("a", "5.00", 0.5, 0.0, 6.0), Bar("b", "-4.00", -1.0, 0.0, 4.0)])
    assert sides(owing, "bar", "x", "width") == [("40%", "30%"), ("0%", "40%")]
    assert sides(owing, "mark", "x1") == [("40%",), ("40%",)]


def test_a_place_in_a_line_is_in_the_middle_of_those_that_tie() -> None:
    for line, place in (
        (Line(10, 0, 0), "1%"),
        (Line(10, 10, 0), "99%"),
        (Line(10, 2, 4), "40.2%"),
        (Line(None, 0.25, 0.5), "50%"),
    ):
        picture = fromstring(draw_line(line).__html__())
        assert [each.attrib["x1"] for each in picture.iter(f"{SVG}line")] == [place]
        assert len([*picture.iter(f"{SVG}circle")]) == (line.count or 100)


def test_lies_are_drawn_with_their_intervals() -> None:
    lies = fromstring(draw_lies([lie(0.3, 0.1, 0.5), lie(-0.1, -0.3, 0.2)]).__html__())
    lines = [each for each in lies.iter(f"{SVG}line") if each.get("class") in ("gain", "neither")]
    assert [(each.attrib["x1"], each.attrib["x2"]) for each in lines] == [("20.6%", "69.6%"), ("59.8%", "99%")]
    assert [each.attrib["cx"] for each in lies.iter(f"{SVG}circle")] == ["40.2%", "79.4%"]


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_safe_and_keep_to_their_frame(name: str) -> None:
    picture = PICTURES[name]()
    text = picture.__html__()
    assert "<script" not in text
    assert "style" not in text
    root = fromstring(picture.standalone())
    assert root.attrib["role"] == "img"
    assert root.findtext(f"{SVG}title")
    assert len(text) < 30_000
    for place in re.findall(r'"([-\d.e+]+)%"', text):
        assert 0 <= float(place) <= 100
    assert "nan" not in text
    assert "inf" not in text.replace("−∞", "")


def widths(picture: Picture, kind: str) -> list[float]:
    root = fromstring(picture.__html__())
    bars = [bar for bar in root.iter(f"{SVG}rect") if bar.get("class") == kind and bar.get("width", "").endswith("%")]
    return [float(bar.attrib["width"].rstrip("%")) for bar in bars]


def test_bars_have_one_scale_and_negative_ones_reach_below_zero() -> None:
    picture = draw_bars("Bars", [Bar("a", "80.00", 0.8, 0.5, 100), Bar("b", "10.00", 0.2, 0.5, 50)])
    assert widths(picture, "track") == [100, 50]
    assert widths(picture, "bar") == [80, 10]
    below = draw_bars("Bars", [Bar("a", "75.00", 0.75, 0.0, 75), Bar("b", "-25.00", -0.5, 0.0, 50)])
    assert widths(below, "track") == [75, 50]
    assert widths(below, "bar") == [56.25, 25]


def test_workers_have_two_standard_errors_to_each_side() -> None:
    picture = draw_workers([worker(0.5), worker(0.95)], {HOSTILE: 0.05})
    assert widths(picture, "bar") == [37.5, 71.25]  # of three quarters of the width
    assert widths(picture, "mark") == [15, 11.25]  # at most to a share of 1


def test_lies_that_gain_are_told_from_those_that_lose() -> None:
    root = fromstring(draw_lies([lie(0.3, 0.1, 0.5), lie(-0.1, -0.2, -0.05), lie(0, -0.1, 0.1)]).__html__())
    dots = {dot.get("class"): float(dot.attrib["cx"].rstrip("%")) for dot in root.iter(f"{SVG}circle")}
    assert dots["loss"] < 50 == dots["neither"] < dots["gain"]


def test_a_picture_is_a_file_of_its_own(tmp_path: Path) -> None:
    frame = {"who": ["a"] * 9 + ["<b>"] * 9 + ["c"] * 9, "x": [1, 1, 0] * 6 + [0, 0, 1] * 3}
    result = troth.pay(frame, troth.models.Bernoulli(1, 1), provider="who", budget="900.00", seed=1)
    picture = result.plot(tmp_path / "p.svg")
    root = fromstring((tmp_path / "p.svg").read_bytes())
    assert root.findtext(f"{SVG}style", "").startswith(".picture {")
    assert {"a", "<b>", "c"} <= {text.text for text in root.iter(f"{SVG}text")}
    assert picture._repr_svg_() in result._repr_html_()
    with pytest.raises(troth.ParameterError, match=r"p.png: .* ends in .svg"):
        picture.save(tmp_path / "p.png")


@pytest.mark.parametrize(
    ("providers", "days", "shape", "kind"), [(70, 1, "polyline", "curve"), (3, 4, "rect", "missing")]
)
def test_many_providers_are_a_curve_and_days_a_heat_map(providers: int, days: int, shape: str, kind: str) -> None:
    rows = [(f"p{i}", day, i % 2) for i in range(providers) for day in range(days) if (i, day) != (2, 2)]
    who, day, x = zip(*rows, strict=True)
    frame = {"who": who, "x": x} | ({"day": day} if days > 1 else {})
    model, rule = troth.models.Bernoulli(1, 1), troth.SyntheticPeers(draws=4)
    result = troth.pay(frame, model, rule, provider="who", day="day" if days > 1 else None, budget="900", seed=1)
    root = fromstring(result.plot().__html__())
    assert [element.get("class") for element in root.iter(SVG + shape)].count(kind) == 1
    if days > 1:
        titles = [title.text or "" for title in root.iter(f"{SVG}title")]
        assert sum(title.startswith("2: ") for title in titles) == 3
        assert "2: no report" in titles
