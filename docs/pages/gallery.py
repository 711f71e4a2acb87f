"""The gallery: a page for each script in examples/gallery, with its story, its picture and its code."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "examples" / "gallery"
IMAGES = ROOT / "docs" / "images" / "gallery"
PAGES = ROOT / "docs" / "gallery"


class Story(NamedTuple):
    """A script: its name, title, text, pictures and code."""

    name: str
    title: str
    text: str
    pictures: list[Path]
    code: str


def stories(scripts: Path = SCRIPTS, images: Path = IMAGES) -> list[Story]:
    """Read the scripts; the first line of a docstring is the title, the rest is the text."""
    found = []
    for path in sorted(scripts.glob("*.py")) if scripts.is_dir() else []:
        if path.name.startswith("_"):
            continue
        source = path.read_text(encoding="utf-8")
        story = ast.get_docstring(ast.parse(source)) or path.stem
        title, _, text = story.partition("\n")
        pictures = sorted(images.glob(f"{path.stem}.*")) + sorted(images.glob(f"{path.stem}_*"))
        shown = [picture for picture in pictures if picture.suffix in (".png", ".svg")]
        found.append(Story(path.stem, title.strip().rstrip("."), text.strip(), shown, source))
    return found


def write_pages(pages: Path = PAGES, scripts: Path = SCRIPTS, images: Path = IMAGES) -> list[Path]:
    """Write a page per script and return them; pages of scripts that are gone go too."""
    shutil.rmtree(pages, ignore_errors=True)
    found = stories(scripts, images)
    if found:
        pages.mkdir(parents=True)
    written = []
    for story in found:
        shown = "\n\n".join(f"![{story.title}](../images/gallery/{path.name})" for path in story.pictures)
        fence = "`" * 4
        code = story.code.rstrip()
        parts = [f"# {story.title}", story.text, shown, f"{fence}python\n{code}\n{fence}"]
        page = pages / f"{story.name}.md"
        page.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
        written.append(page)
    return written


def index() -> str:
    """Return the gallery's index: thumbnails that lead to the pages."""
    found = stories()
    if not found:
        return "The gallery is empty here: it shows what is in `examples/gallery`."
    blocks = []
    for story in found:
        picture = f"![](images/gallery/{story.pictures[0].name}){{.thumbnail}}\n" if story.pictures else ""
        first = story.text.split("\n\n")[0].replace("\n", " ")
        blocks.append(f"## [{story.title}](gallery/{story.name}.md)\n\n{picture}\n{first}")
    pages = "\n".join(f"gallery/{story.name}" for story in found)
    return "\n\n".join([*blocks, f"```{{toctree}}\n:hidden:\n\n{pages}\n```"])
