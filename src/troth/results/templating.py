"""The Jinja environment for the templates of the page and of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined

from troth.audits.findings import VERDICT_LABELS
from troth.core import formats
from troth.results import pictures

if TYPE_CHECKING:
    from jinja2 import BaseLoader


def make_environment(*loaders: BaseLoader) -> Environment:
    """Return an environment with autoescaping; the page's templates and assets are under ``results/``."""
    page_files = ChoiceLoader([PackageLoader("troth.results"), PackageLoader("troth.results", "assets")])
    environment = Environment(
        loader=ChoiceLoader([*loaders, PrefixLoader({"results": page_files})]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = ("number", "counted", "left_out", "brief", "share", "short", "probability", "money", "true_minus")
    environment.filters |= {name: getattr(formats, name) for name in filters}
    environment.filters["verdict_label"] = VERDICT_LABELS.__getitem__
    environment.globals |= {"pictures": pictures}
    return environment
