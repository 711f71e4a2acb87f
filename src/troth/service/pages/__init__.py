"""The pages: rendered here, working without JavaScript, nicer with it."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from starlette.staticfiles import StaticFiles

from troth.service.pages import account, analyst, explanation, home, ledger, new_campaign, provider, rounds
from troth.service.pages.frame import error_page

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.responses import Response


class Unchanged(StaticFiles):
    """Files that browsers keep and ask about: they are sent again only when they have changed."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        """Send a file, or say that it is as it was."""
        response = super().file_response(*arguments, **options)
        response.headers["cache-control"] = "no-cache"
        return response


def add_to(app: FastAPI) -> None:
    """Add the pages to the application."""
    for subject in (home, account, new_campaign, analyst, provider, rounds, explanation, ledger):
        app.include_router(subject.router)
    static = Unchanged(directory=str(files("troth.service") / "static"), packages=[("troth.results", "assets")])
    app.mount("/static", static, name="static")
    app.state.error_page = error_page
