"""The gallery: a page for each script in examples/gallery with its docstring, pictures and code."""

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
    """The contents of a script's page."""

    name: str
    title: str
    text: str
    pictures: list[Path]
    code: str


def stories(scripts: Path = SCRIPTS, images: Path = IMAGES) -> list[Story]:
    """Read the scripts. The first line of a docstring is the title, the rest is the text."""
    gallery = []
    for path in sorted(scripts.glob("*.py")) if scripts.is_dir() else []:
        if path.name.startswith("_"):
            continue
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        docstring = ast.get_docstring(tree)
        title, _, text = (docstring or path.stem).partition("\n")
        docstring_end = tree.body[0].end_lineno or 0 if docstring else 0
        pictures = sorted(images.glob(f"{path.stem}.*")) + sorted(images.glob(f"{path.stem}_*"))
        pictures = [picture for picture in pictures if picture.suffix in (".png", ".svg")]
        code = "\n".join(source.splitlines()[docstring_end:]).strip()
        gallery.append(Story(path.stem, title.strip().rstrip("."), text.strip(), pictures, code))
    return gallery


def write_pages(pages: Path = PAGES, scripts: Path = SCRIPTS, images: Path = IMAGES) -> list[Path]:
    """Write a page for each script, delete the pages of removed scripts, and return the pages written."""
    shutil.rmtree(pages, ignore_errors=True)
    gallery = stories(scripts, images)
    if gallery:
        pages.mkdir(parents=True)
    written = []
    for story in gallery:
        pictures = "\n\n".join(f"![{story.title}](../images/gallery/{path.name})" for path in story.pictures)
        fence = "`" * 4
        parts = [f"# {story.title}", story.text, pictures, f"{fence}python\n{story.code}\n{fence}"]
        page = pages / f"{story.name}.md"
        page.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
        written.append(page)
    return written


def index() -> str:
    """Return the gallery's index as Markdown: thumbnails that link to the pages."""
    gallery = stories()
    if not gallery:
        return "The gallery is empty here: it shows what is in `examples/gallery`."
    cards = []
    for story in gallery:
        picture = f"![](images/gallery/{story.pictures[0].name})<br>" if story.pictures else ""
        cards.append(f"- [{picture}{story.title}](gallery/{story.name}.md)")
    pages = "\n".join(f"gallery/{story.name}" for story in gallery)
    links = "\n".join(cards)
    return "\n\n".join([f"{{.gallery}}\n{links}", f"```{{toctree}}\n:hidden:\n\n{pages}\n```"])
