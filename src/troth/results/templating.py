"""The templates of the page, and the environment in which the service renders its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined

from troth.results import formats, pictures

if TYPE_CHECKING:
    from jinja2 import BaseLoader


def make_environment(*loaders: BaseLoader) -> Environment:
    """Return an environment that escapes everything; the page's templates are under ``results/``."""
    environment = Environment(
        loader=ChoiceLoader([*loaders, PrefixLoader({"results": PackageLoader("troth.results")})]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {name: getattr(formats, name) for name in ("number", "counted", "brief", "share", "short")}
    environment.globals |= {"pictures": pictures}
    return environment
