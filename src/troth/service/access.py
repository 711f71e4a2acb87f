"""Access control: one table has an entry for every route; the application does not start if one is missing."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from troth.operations import ANYONE, OPERATIONS, PREFIX, Access, Pool, matching
from troth.service import accounts, threads
from troth.service.accounts import User
from troth.service.errors import ForbiddenError, SignInRequiredError
from troth.service.store import Store

if TYPE_CHECKING:
    from troth.service.app import Settings  # which imports this module

COOKIE = "troth_session"
Table = Mapping[str, Access]
"""Access by route, such as ``GET /health``."""

DOCUMENT = f"{PREFIX}/openapi.json"
API: Table = {f"GET {DOCUMENT}": ANYONE} | {operation.route: operation.access for operation in OPERATIONS}
HEALTH = {operation.route for operation in OPERATIONS if operation.pool == "health"}
"""Routes that respond even while everything else waits."""


class AuthenticatedRoute(APIRoute):
    """A route that authenticates the sender before it reads the body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""
        handler = super().get_route_handler()

        async def authenticated(request: Request) -> Response:
            request.state.visitor = await identify(request)
            return await handler(request)

        return authenticated


async def identify(request: Request) -> User | None:
    """Authenticate a request, check the access table, and return the user, or None for an anonymous visitor."""
    route = request.scope["route"]
    entry = f"{request.method} {route.path}"
    access: Access = request.app.state.access[entry]
    pool: Pool = "health" if entry in request.app.state.health else "reads"
    user = await threads.run(pool, _authenticate, request, api=route.path.startswith(PREFIX))
    if not access.roles:
        return user
    if user is None:
        raise SignInRequiredError("sign in first: the session or token is missing, unknown, expired or revoked")
    if user.role not in access.roles:
        raise ForbiddenError(f"not permitted: only {access.roles[0]}s can do this; you are signed in as {user.role}")
    if access.scope is not None and access.scope not in user.scopes:
        raise ForbiddenError(f"the token lacks the scope {access.scope!r}; create one that has it")
    return user


@dataclass(frozen=True)
class AuthenticatedRequest:
    """A request and its sender."""

    request: Request

    @property
    def visitor(self) -> User | None:
        """The user, or None if nobody is signed in."""
        visitor: User | None = self.request.state.visitor
        return visitor

    @property
    def store(self) -> Store:
        """The database."""
        store: Store = self.request.app.state.store
        return store

    @property
    def settings(self) -> Settings:
        """The settings of the service."""
        settings: Settings = self.request.app.state.settings
        return settings

    @property
    def user(self) -> User:
        """The user, on routes that require one."""
        assert self.visitor is not None  # noqa: S101
        return self.visitor

    @property
    def source(self) -> str:
        """The address of the client."""
        return self.request.client.host if self.request.client is not None else ""


def _authenticate(request: Request, *, api: bool) -> User | None:
    """Return the sender of a request: the API accepts only tokens, the pages only cookies."""
    store = request.app.state.store
    if api:
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        return accounts.user_of_token(store, secret.strip()) if kind.lower() == "bearer" and secret else None
    secret = request.cookies.get(COOKIE, "")
    if not secret:
        return None
    with store.read() as tx:
        return accounts.user_of_session(tx, secret)


def allowed_methods(path: str, table: Table) -> list[str]:
    """Return the HTTP methods that a path allows."""
    routes = [route.split(" ", 1) for route in table]
    matched = matching(path, [pattern for _, pattern in routes])
    return sorted(method for method, pattern in routes if pattern == matched)


def routes_of(app: FastAPI) -> list[str]:
    """List the routes of an application as the table writes them; routes without methods have their type instead."""
    routes = []
    for route in app.routes:
        if isinstance(route, Route):
            routes += [f"{method} {route.path}" for method in (route.methods or ()) if method != "HEAD"]
        else:
            routes.append(f"{type(route).__name__.upper()} {getattr(route, 'path', route)}")
    return sorted(routes)


def check_table(app: FastAPI, table: Table) -> None:
    """Raise if the table and the routes of the application differ."""
    routes, entries = set(routes_of(app)), set(table)
    if routes != entries:
        raise RuntimeError(f"access table: missing {sorted(routes - entries)}, surplus {sorted(entries - routes)}")
