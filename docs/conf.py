"""Sphinx configuration: Markdown pages, some of which are generated from the code.

The site is self-contained: neither building nor reading it downloads anything.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import troth  # noqa: E402
from pages import command_line, families, gallery, modules, navigation, paper, public_names  # noqa: E402

project = "Troth"
author = "The Troth authors"
copyright = author  # noqa: A001
version = release = troth.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["pages"]
myst_enable_extensions = ["attrs_inline", "attrs_block"]
myst_heading_anchors = 3
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "mixed"
maximum_signature_line_length = 88
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False
suppress_warnings = ["ref.python"]  # several classes may have an attribute of the same name
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"
pygments_style, pygments_dark_style = "friendly", "github-dark"

html_theme = "furo"
html_title = "Troth"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

GENERATED: dict[str, Callable[[], str]] = {
    "<!-- written from the code: command line -->": command_line.reference,
    "<!-- written from the code: families -->": families.table,
    "<!-- written from the code: modules -->": modules.table,
    "<!-- written from the code: the paper -->": paper.table,
    "<!-- written from the code: gallery -->": gallery.index,
    "<!-- written from the code: all names -->": public_names.index,
    **{f"<!-- written from the code: {page} -->": partial(public_names.section, page) for page in public_names.PAGES},
}


def insert_generated(app: Any, page: str, source: list[str]) -> None:
    """Replace each marker of a page by what is generated from the code."""
    del app, page
    for marker, generate in GENERATED.items():
        if marker in source[0]:
            source[0] = source[0].replace(marker, generate())


def adapt_docstring(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Escape vertical bars, and join lists of attribute names.

    reStructuredText would read the bars of |Θ| as a substitution, and the first of several attributes that share a
    description as a type.
    """
    del app, what, name, value, options
    for number, line in enumerate(lines):
        parts = re.split("(``.*?``)", line)
        parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
        if line.startswith(":ivar "):
            parts[0] = re.sub(r",\s+(?=[^:]*:)", ",", parts[0])
        lines[number] = line if line.lstrip().startswith((">>>", "...")) else "".join(parts)


def setup(app: Any) -> None:
    """Write the gallery's pages first, and fill in the markers of each page as it is read."""
    app.connect("builder-inited", lambda _: gallery.write_pages())
    app.connect("source-read", insert_generated)
    app.connect("autodoc-process-docstring", adapt_docstring)
    app.connect("html-page-context", navigation.use_titles_only, priority=1)  # before the theme's own handler
