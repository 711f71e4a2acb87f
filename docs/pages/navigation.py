"""The list of pages beside each page, at a tenth of the usual cost."""

from __future__ import annotations

from typing import Any

from sphinx import addnodes


def titles_alone(contents: Any) -> Any:
    """Return a copy of a page's contents with its title and the pages below it."""
    copied = contents.deepcopy()
    for entry in copied.children:
        if len(entry) > 1:
            below = list(entry.findall(addnodes.toctree))
            entry[1:] = [entry[1].copy()] if below else []
            if below:
                entry[1].extend(below)
    return copied


def use_titles_alone(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Let the theme find the navigation in titles alone.

    It would copy everything that all pages describe, for each page anew, to drop all but the titles. Pages of source
    code in one folder are not in the list themselves: it is the same for all of them.
    """
    del template, doctree
    environment, navigation = app.env, context["toctree"]
    if not hasattr(app, "titles_of_pages"):
        app.titles_of_pages = {name: titles_alone(contents) for name, contents in environment.tocs.items()}
        app.navigation_of_sources = {}

    def titles_only(**options: Any) -> Any:
        key = (page.rpartition("/")[0], *sorted(options.items()))
        if key in app.navigation_of_sources:
            return app.navigation_of_sources[key]
        contents, environment.tocs = environment.tocs, app.titles_of_pages
        try:
            written = navigation(**options)
        finally:
            environment.tocs = contents
        if page.startswith("_modules/"):
            app.navigation_of_sources[key] = written
        return written

    def choose(**options: Any) -> Any:
        return (titles_only if options.get("titles_only") else navigation)(**options)

    context["toctree"] = choose
