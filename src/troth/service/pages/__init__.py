"""The pages: rendered here, working without JavaScript, nicer with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI


def add_to(app: FastAPI) -> None:
    """Add the pages to the application."""
    del app
