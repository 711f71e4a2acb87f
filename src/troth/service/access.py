"""Who may do what: every route of the application has a line in one table, or the application does not start."""

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
    """A route that does nothing, and reads no body, until its sender is let through."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""
        answer = super().get_route_handler()

        async def checked(request: Request) -> Response:
            request.state.visitor = await identify(request)
            return await answer(request)

        return checked


async def identify(request: Request) -> User | None:
    """Let a request through if the table allows it, and return who sent it."""
    route = request.scope["route"]
    line = f"{request.method} {route.path}"
    access: Access = request.app.state.access[line]
    pool: Pool = "health" if line in request.app.state.health else "reads"
    user = await threads.run(pool, _sender, request, api=route.path.startswith(PREFIX))
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
    """A request, and who sent it."""

    request: Request

    @property
    def visitor(self) -> User | None:
        """Who asks, if anybody is signed in."""
        visitor: User | None = self.request.state.visitor
        return visitor

    @property
    def store(self) -> Store:
        """The database."""
        store: Store = self.request.app.state.store
        return store

    @property
    def settings(self) -> Settings:
        """How the service runs."""
        settings: Settings = self.request.app.state.settings
        return settings

    @property
    def user(self) -> User:
        """Who asks, where the access table lets only those in who are signed in."""
        assert self.visitor is not None  # noqa: S101
        return self.visitor

    @property
    def source(self) -> str:
        """The address that it comes from."""
        return self.request.client.host if self.request.client is not None else ""


def _sender(request: Request, *, api: bool) -> User | None:
    """Return who sent a request: the API takes tokens alone, the pages take cookies alone."""
    store = request.app.state.store
    if api:
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        return accounts.user_of_token(store, secret.strip()) if kind.lower() == "bearer" and secret else None
    secret = request.cookies.get(COOKIE, "")
    if not secret:
        return None
    with store.read() as tx:
        return accounts.user_of_session(tx, secret)


def methods_at(path: str, table: Table) -> list[str]:
    """Return the methods that an address takes."""
    lines = [line.split(" ", 1) for line in table]
    address = matching(path, [pattern for _, pattern in lines])
    return sorted(method for method, pattern in lines if pattern == address)


def routes_of(app: FastAPI) -> list[str]:
    """Return every route of an application as the table writes it; what is no plain route, by its kind."""
    routes = []
    for route in app.routes:
        if isinstance(route, Route):
            routes += [f"{method} {route.path}" for method in (route.methods or ()) if method != "HEAD"]
        else:
            routes.append(f"{type(route).__name__.upper()} {getattr(route, 'path', route)}")
    return sorted(routes)


def check_table(app: FastAPI, table: Table) -> None:
    """Refuse to start with a route that the table does not have, or the other way round."""
    routes, lines = set(routes_of(app)), set(table)
    if routes != lines:
        raise RuntimeError(f"access table: missing {sorted(routes - lines)}, surplus {sorted(lines - routes)}")
