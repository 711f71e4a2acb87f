"""The documentation site: Markdown pages, and pages that are written from the code when the site is built.

Nothing is fetched from elsewhere, neither to build nor to read: fonts are the reader's, scripts and styles are local.
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
suppress_warnings = ["ref.python"]  # a name in a docstring may be that of several attributes
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

WRITTEN: dict[str, Callable[[], str]] = {
    "<!-- written from the code: command line -->": command_line.reference,
    "<!-- written from the code: families -->": families.table,
    "<!-- written from the code: modules -->": modules.table,
    "<!-- written from the code: the paper -->": paper.table,
    "<!-- written from the code: gallery -->": gallery.index,
    "<!-- written from the code: all names -->": public_names.index,
    **{f"<!-- written from the code: {page} -->": partial(public_names.section, page) for page in public_names.PAGES},
}


def write_from_code(app: Any, page: str, source: list[str]) -> None:
    """Put what is written from the code in its place."""
    del app, page
    for mark, write in WRITTEN.items():
        if mark in source[0]:
            source[0] = source[0].replace(mark, write())


def adapt_docstring(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Keep bars and lists of names.

    Docstrings write |Θ| and mean bars, where reStructuredText would look for a substitution, and describe several
    attributes together, where it would take the first for a type.
    """
    del app, what, name, value, options
    for number, line in enumerate(lines):
        parts = re.split("(``.*?``)", line)
        parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
        if line.startswith(":ivar "):
            parts[0] = re.sub(r",\s+(?=[^:]*:)", ",", parts[0])
        lines[number] = line if line.lstrip().startswith((">>>", "...")) else "".join(parts)


def setup(app: Any) -> None:
    """Write a page for each script of the gallery, then let pages be completed as they are read."""
    app.connect("builder-inited", lambda _: gallery.write_pages())
    app.connect("source-read", write_from_code)
    app.connect("autodoc-process-docstring", adapt_docstring)
    app.connect("html-page-context", navigation.use_titles_alone, priority=1)  # before the theme asks
