"""The service's pages are shown, all of them, in the light and in the dark."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_every_picture_of_the_service_is_shown_and_small() -> None:
    pictures = set(re.findall(r"images/service/([\w-]+\.png)", (DOCS / "service-pages.md").read_text()))
    sizes = {path.name: path.stat().st_size for path in (DOCS / "images" / "service").glob("*.png")}
    assert pictures == set(sizes)
    assert {name.removesuffix("-light.png") for name in sizes if "light" in name} == {
        name.removesuffix("-dark.png") for name in sizes if "dark" in name
    }
    assert max(sizes.values()) < 150_000
