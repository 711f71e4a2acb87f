"""Who may do what: one table, with a line for every route. A route that is missing from it does not start."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request
from starlette.routing import Route

from troth.service import accounts
from troth.service.accounts import Who
from troth.service.errors import ForbiddenError, SignInNeededError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastapi import FastAPI
    from starlette.routing import BaseRoute

COOKIE = "troth_session"


class Access(NamedTuple):
    """Which roles may use a route, nobody in particular for all, and which scope a token needs for it."""

    roles: tuple[str, ...]
    scope: str | None = None


ANYONE = Access(())
_A, _P, _B = ("analyst",), ("provider",), ("analyst", "provider")
_READ, _SUBMIT, _MANAGE = Access(_B, "read"), Access(_P, "submit"), Access(_A, "manage")

_CAMPAIGN = "/api/v1/campaigns/{campaign}"
_ROUND = _CAMPAIGN + "/rounds/{number}"

API: dict[str, Access] = {
    "GET /api/v1/openapi.json": ANYONE,
    "GET /api/v1/health": ANYONE,
    "POST /api/v1/tokens": ANYONE,
    "POST /api/v1/invitations": ANYONE,
    "POST /api/v1/passwords": ANYONE,
    "GET /api/v1/me": _READ,
    "GET /api/v1/tokens": _READ,
    "DELETE /api/v1/tokens/{token}": Access(_B, "manage"),
    "GET /api/v1/campaigns": _READ,
    "POST /api/v1/campaigns": _MANAGE,
    f"GET {_CAMPAIGN}": _READ,
    f"PUT {_CAMPAIGN}/terms": _MANAGE,
    f"GET {_CAMPAIGN}/campaign.toml": _READ,
    f"GET {_CAMPAIGN}/providers": Access(_A, "read"),
    f"POST {_CAMPAIGN}/providers": _MANAGE,
    f"PUT {_CAMPAIGN}/providers/{{member}}/group": _MANAGE,
    f"POST {_CAMPAIGN}/providers/{{member}}/invitation": _MANAGE,
    f"DELETE {_CAMPAIGN}/providers/{{member}}": _MANAGE,
    f"GET {_CAMPAIGN}/rounds": _READ,
    f"POST {_CAMPAIGN}/rounds": _MANAGE,
    f"POST {_CAMPAIGN}/finish": _MANAGE,
    f"GET {_ROUND}": _READ,
    f"POST {_ROUND}/close": _MANAGE,
    f"POST {_ROUND}/reopen": _MANAGE,
    f"POST {_ROUND}/publish": _MANAGE,
    f"GET {_ROUND}/reports": Access(_A, "read"),
    f"GET {_ROUND}/submissions": Access(_P, "read"),
    f"POST {_ROUND}/submissions/file": _SUBMIT,
    f"POST {_ROUND}/submissions/statistics": _SUBMIT,
    f"GET {_ROUND}/submissions/{{submission}}": Access(_P, "read"),
    f"POST {_ROUND}/submissions/{{submission}}/confirm": _SUBMIT,
    f"GET {_ROUND}/payments": _READ,
    f"GET {_ROUND}/payments/{{member}}": Access(_A, "read"),
    f"GET {_CAMPAIGN}/ledger": _READ,
    f"GET {_CAMPAIGN}/payments.csv": Access(_A, "read"),
    f"GET {_CAMPAIGN}/report": Access(_A, "read"),
    f"POST {_CAMPAIGN}/verify": Access(_A, "read"),
}

_OF_BOTH, _OF_ANALYST, _OF_PROVIDER = Access(_B), Access(_A), Access(_P)
_CAMPAIGN_PAGE = "/campaigns/{campaign}"
_ROUND_PAGE = _CAMPAIGN_PAGE + "/rounds/{number}"
_MEMBER_PAGE = _CAMPAIGN_PAGE + "/providers/{member}"
_SUBMISSION_PAGE = _ROUND_PAGE + "/submissions/{submission}"

PAGES: dict[str, Access] = {
    "MOUNT /static": ANYONE,
    "GET /health": ANYONE,
    "GET /docs": ANYONE,
    "GET /assumed": ANYONE,
    "GET /sign-in": ANYONE,
    "POST /sign-in": ANYONE,
    "POST /sign-out": ANYONE,
    "GET /enter/{secret}": ANYONE,
    "POST /enter/{secret}": ANYONE,
    "GET /join/{secret}": ANYONE,
    "POST /join/{secret}": ANYONE,
    "GET /": _OF_BOTH,
    "GET /settings": _OF_BOTH,
    "POST /settings/password": _OF_BOTH,
    "POST /settings/tokens": _OF_BOTH,
    "POST /settings/tokens/{token}/revoke": _OF_BOTH,
    "GET /campaigns/new": _OF_ANALYST,
    "POST /campaigns/new": _OF_ANALYST,
    "POST /campaigns/new/fields": _OF_ANALYST,
    "POST /campaigns/new/preview": _OF_ANALYST,
    f"GET {_CAMPAIGN_PAGE}": _OF_BOTH,
    f"GET {_CAMPAIGN_PAGE}/campaign.toml": _OF_BOTH,
    f"GET {_CAMPAIGN_PAGE}/ledger": _OF_ANALYST,
    f"POST {_CAMPAIGN_PAGE}/ledger/verify": _OF_ANALYST,
    f"GET {_CAMPAIGN_PAGE}/ledger.jsonl": _OF_BOTH,
    f"GET {_CAMPAIGN_PAGE}/payments.csv": _OF_ANALYST,
    f"GET {_CAMPAIGN_PAGE}/report.html": _OF_ANALYST,
    f"POST {_CAMPAIGN_PAGE}/rounds": _OF_ANALYST,
    f"POST {_CAMPAIGN_PAGE}/finish": _OF_ANALYST,
    f"GET {_CAMPAIGN_PAGE}/terms": _OF_ANALYST,
    f"POST {_CAMPAIGN_PAGE}/terms": _OF_ANALYST,
    f"GET {_CAMPAIGN_PAGE}/providers": _OF_ANALYST,
    f"POST {_CAMPAIGN_PAGE}/providers": _OF_ANALYST,
    f"POST {_MEMBER_PAGE}/invitation": _OF_ANALYST,
    f"POST {_MEMBER_PAGE}/group": _OF_ANALYST,
    f"GET {_MEMBER_PAGE}/revoke": _OF_ANALYST,
    f"POST {_MEMBER_PAGE}/revoke": _OF_ANALYST,
    f"GET {_ROUND_PAGE}": _OF_BOTH,
    f"GET {_ROUND_PAGE}/close": _OF_ANALYST,
    f"POST {_ROUND_PAGE}/close": _OF_ANALYST,
    f"POST {_ROUND_PAGE}/publish": _OF_ANALYST,
    f"POST {_ROUND_PAGE}/reopen": _OF_ANALYST,
    f"GET {_ROUND_PAGE}/payments/{{member}}": _OF_ANALYST,
    f"GET {_ROUND_PAGE}/payment": _OF_PROVIDER,
    f"POST {_ROUND_PAGE}/submissions": _OF_PROVIDER,
    f"GET {_SUBMISSION_PAGE}": _OF_PROVIDER,
    f"POST {_SUBMISSION_PAGE}/confirm": _OF_PROVIDER,
    "GET /results": _OF_PROVIDER,
}

TABLE = API | PAGES


def identify(request: Request) -> Who | None:
    """Let a request through if the table allows it, and return who sent it."""
    route = request.scope["route"]
    access = TABLE[f"{request.method} {route.path}"]
    who = _who(request, api=route.path.startswith("/api/"))
    if not access.roles:
        return who
    if who is None:
        raise SignInNeededError("sign in first: the session or token is missing, unknown, expired or revoked")
    if who.role not in access.roles:
        raise ForbiddenError(
            f"this is for {access.roles[0]}s, and you are a{'n' if who.role == 'analyst' else ''} {who.role}"
        )
    if access.scope is not None and access.scope not in who.scopes:
        raise ForbiddenError(f"the token lacks the scope {access.scope!r}; create one that has it")
    return who


def _who(request: Request, *, api: bool) -> Who | None:
    """Return who a request is from: tokens open the API, cookies the pages, and neither the other."""
    store = request.app.state.store
    if api:
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        return accounts.who_has_token(store, secret.strip()) if kind.lower() == "bearer" and secret else None
    secret = request.cookies.get(COOKIE, "")
    if not secret:
        return None
    with store.read() as tx:
        return accounts.who_has_session(tx, secret)


def methods_at(path: str) -> list[str]:
    """Return the methods that an address takes; of two patterns that fit, the plainer one is meant."""
    fitting: dict[str, list[str]] = {}
    for line in TABLE:
        method, pattern = line.split(" ", 1)
        if re.fullmatch(re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(pattern)), path):
            fitting.setdefault(pattern, []).append(method)
    return sorted(fitting[min(fitting, key=lambda pattern: pattern.count("{"))]) if fitting else []


def routes_of(app: FastAPI) -> list[str]:
    """Return every route of an application as the table spells it."""
    return sorted(_spelled(app.routes))


def check_table(app: FastAPI) -> None:
    """Refuse to start with a route that the table does not have, or the other way round."""
    there, known = set(routes_of(app)), set(TABLE)
    if there != known:
        raise RuntimeError(f"access table: missing {sorted(there - known)}, surplus {sorted(known - there)}")


def _spelled(routes: Iterable[BaseRoute]) -> Iterable[str]:
    for route in routes:
        inner = getattr(route, "original_router", None)  # how FastAPI keeps a router that was included
        if inner is not None:
            yield from _spelled(inner.routes)
        elif isinstance(route, Route):
            yield from (f"{method} {route.path}" for method in (route.methods or ()) if method != "HEAD")
        else:
            yield f"{type(route).__name__.upper()} {getattr(route, 'path', route)}"
