"""The sidebar of pages, ten times as fast as Sphinx builds it."""

from __future__ import annotations

from typing import Any

from sphinx import addnodes


def strip_to_titles(contents: Any) -> Any:
    """Return a copy of a page's table of contents with only its title and its subpages."""
    copied = contents.deepcopy()
    for entry in copied.children:
        if len(entry) > 1:
            subpages = list(entry.findall(addnodes.toctree))
            entry[1:] = [entry[1].copy()] if subpages else []
            if subpages:
                entry[1].extend(subpages)
    return copied


def use_titles_only(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Build the theme's navigation from page titles only.

    Otherwise Sphinx copies the whole table of contents, every documented object included, for each page, and then
    drops all but the titles. Pages of source code are not in the navigation, so those of one folder share it.
    """
    del template, doctree
    environment, navigation = app.env, context["toctree"]
    if not hasattr(app, "page_titles"):
        app.page_titles = {name: strip_to_titles(contents) for name, contents in environment.tocs.items()}
        app.source_navigation = {}

    def titles_only(**options: Any) -> Any:
        key = (page.rpartition("/")[0], *sorted(options.items()))
        if key in app.source_navigation:
            return app.source_navigation[key]
        contents, environment.tocs = environment.tocs, app.page_titles
        try:
            built = navigation(**options)
        finally:
            environment.tocs = contents
        if page.startswith("_modules/"):
            app.source_navigation[key] = built
        return built

    def choose(**options: Any) -> Any:
        return (titles_only if options.get("titles_only") else navigation)(**options)

    context["toctree"] = choose
