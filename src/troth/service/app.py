"""The application: the API and the pages on one database."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from fastapi import FastAPI
from pydantic import TypeAdapter
from starlette.middleware.trustedhost import TrustedHostMiddleware

from troth import __version__
from troth.service import accounts, api, confinement, heads, incoming, pages, settlement, upload_queue
from troth.service.access import API, DOCUMENT, HEALTH, check_table
from troth.service.migrate import migrate
from troth.service.request_limits import BodyLimits
from troth.service.sandbox import COMPUTING, READING
from troth.service.store import Store
from troth.service.uploads import Limits
from troth.service.web import ResponseGuard, answer_errors, log_to_stderr, logger

SETTINGS = "TROTH_SERVICE"


@dataclass(frozen=True)
class Settings:
    """The settings of a service."""

    database: str  # a PostgreSQL URL, or the path of an SQLite file
    url: str = "http://127.0.0.1:8000"  # the public address: links begin with it, and cookies are valid only there
    limits: Limits = field(default_factory=Limits)
    tick: float = 2.0  # seconds between checks of deadlines; 0 turns them off
    require_sandbox: bool = False  # refuse to start if the process that reads uploads cannot be confined
    hosts: tuple[str, ...] = ()  # host names besides that of the URL, localhost and 127.0.0.1


AS_JSON = TypeAdapter(Settings)
"""Passes the settings to worker processes."""


def create_app(settings: Settings, store: Store | None = None) -> FastAPI:
    """Migrate the database and return the application."""
    store = store or Store(settings.database)
    migrate(store)
    for waiting in (READING, COMPUTING):
        waiting.private |= store.private

    def watch_deadlines() -> None:  # every worker tries to close a round, and one succeeds
        settlement.close_due(store)
        accounts.write_uses(store)

    background: dict[str, Callable[[], None]] = {
        "closing rounds at their deadlines failed": watch_deadlines,
        "the database takes no changes": store.try_writing,
        "reading uploads that nobody waits for failed": lambda: upload_queue.read_all(store, settings.limits),
    }

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        stopped = threading.Event()
        incoming.remove_leftovers(store.spool)
        heads.catch_up(store)
        for waiting in (READING, COMPUTING):
            waiting.start()  # before the first upload needs it
        threads = [
            threading.Thread(target=_repeat, args=(work, failure, settings.tick, stopped), daemon=True)
            for failure, work in background.items()
            if settings.tick
        ]
        for thread in threads:
            thread.start()
        yield
        stopped.set()
        for waiting in (READING, COMPUTING):
            waiting.close()
        for thread in threads:
            thread.join(5.0)  # unfinished work is repeated after the next start
        store.close()

    app = FastAPI(
        title="Troth",
        version=__version__,
        description="Pays for data so that telling the truth pays best.",
        lifespan=lifespan,
        openapi_url=DOCUMENT,
        docs_url=None,
        redoc_url=None,
    )
    app.state.store, app.state.settings = store, settings
    app.state.access, app.state.health = {**API, **pages.ACCESS}, HEALTH | pages.HEALTH
    app.router.routes.extend(api.mounted().routes)  # with include_router, each request would be matched twice
    pages.add_to(app)
    answer_errors(app)
    check_table(app, app.state.access)
    app.add_middleware(BodyLimits, largest=settings.limits.bytes)
    host = urlsplit(settings.url).hostname or "localhost"
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[host, "localhost", "127.0.0.1", *settings.hosts])
    app.add_middleware(ResponseGuard, https=settings.url.startswith("https:"))
    return app


def from_environment() -> FastAPI:
    """Return the application, in a worker process."""
    log_to_stderr()
    confinement.hide_memory()
    return create_app(AS_JSON.validate_json(os.environ[SETTINGS]))


def _repeat(work: Callable[[], None], failure: str, seconds: float, stopped: threading.Event) -> None:
    """Call a function repeatedly, in a thread of its own."""
    while not stopped.wait(seconds):
        try:
            work()
        except Exception:
            logger.exception("%s; trying again", failure)
