"""SVG without scripts or colours, which the style sheet `pictures.css` adapts to light mode, dark mode and paper."""

from __future__ import annotations

from copy import deepcopy
from importlib.resources import files
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, tostring

from troth.campaigns.records.ledger import write_atomic
from troth.core.errors import ParameterError
from troth.core.formats import printable

_WIDTH = 640  # of a picture outside a page, in pixels


class Picture:
    """A picture that fills the available width, with text of constant size.

    Horizontal positions are percentages (see `percent`), vertical positions are pixels. Screen readers read the title
    and the description.

    Examples
    --------
    >>> picture = Picture("A bar", height=12)
    >>> _ = picture.add("rect", kind="bar", width=percent(0.25), height=12)
    >>> print(picture.__html__())
    <svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" width="100%" height="12"><title>A
    bar</title><rect class="bar" width="25%" height="12" /></svg>
    """

    def __init__(self, title: str, *, height: float, description: str = "") -> None:
        shape = {"width": "100%", "height": f"{height:g}"}
        self._root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "picture", "role": "img"} | shape)
        self.add("title", title)
        if description:
            self.add("desc", description)

    def add(
        self, tag: str, text: str = "", *, kind: str = "", inside: Element | None = None, **attributes: str | float
    ) -> Element:
        """Add a shape or text with the class ``kind``; underscores in names of attributes become hyphens."""
        all_attributes = {"class": kind} if kind else {}
        for name, value in attributes.items():
            all_attributes[name.replace("_", "-")] = value if isinstance(value, str) else f"{value:.4g}"
        element = SubElement(self._root if inside is None else inside, tag, all_attributes)
        element.text = printable(text) or None
        return element

    def group(self, title: str) -> Element:
        """Add a group with a tooltip."""
        element = self.add("g")
        self.add("title", title, inside=element)
        return element

    def stretched(self, *, x: str, y: float, width: str, height: float) -> Element:
        """Add a square of 100 units, for curves, that is stretched over a part of the picture."""
        return self.add("svg", x=x, y=y, width=width, height=height, viewBox="0 0 100 100", preserveAspectRatio="none")

    def key(self, *entries: tuple[str, str]) -> None:
        """Add a legend at the top: pairs of a class and its label."""
        x, y = 0.0, 14
        for kind, word in entries:
            self.add("rect", kind=kind, x=x, y=y - 10, width=3 if kind == "mark" else 12, height=12)
            self.add("text", word, kind="note", x=x + (8 if kind == "mark" else 18), y=y)
            x += 7 * len(word) + 36

    def __html__(self) -> str:
        return tostring(self._root, encoding="unicode")

    def standalone(self) -> str:
        """Return the picture with its style sheet inside, for notebooks and files."""
        root = deepcopy(self._root)
        root.set("width", str(_WIDTH))
        style = Element("style")
        style.text = (files("troth.results") / "assets" / "pictures.css").read_text(encoding="utf-8")
        root.insert(0, style)
        return tostring(root, encoding="unicode")

    def _repr_svg_(self) -> str:
        return self.standalone()

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file whose name ends in ``.svg``."""
        path = Path(path)
        if path.suffix.lower() != ".svg":
            raise ParameterError(f"{path.name}: pictures of payments are SVG; name a file that ends in .svg")
        return write_atomic(path, self.standalone().encode())


def percent(part: float) -> str:
    """Format a part of the width, between 0 and 1, as a percentage.

    Examples
    --------
    >>> percent(0.25), percent(1 / 3), percent(-0.5)
    ('25%', '33.33%', '0%')
    """
    return f"{100 * min(1.0, max(0.0, part)):.4g}%"
