"""Around every request: headers that keep browsers strict, one line of log without secrets, errors as answers."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import OperationalError, TimeoutError  # noqa: A004
from starlette.exceptions import HTTPException

from troth.core.errors import TrothError
from troth.service.access import methods_at

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger("troth.service")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


class Guard:
    """Add headers to every answer that does not set its own, and log it: the route's pattern, never the address."""

    def __init__(self, app: ASGIApp, *, https: bool) -> None:
        self.app = app
        self.headers = dict(HEADERS)
        if https:
            self.headers["strict-transport-security"] = "max-age=31536000"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                there = {name.lower() for name, _ in message["headers"]}
                extra = [(k.encode(), v.encode()) for k, v in self.headers.items() if k.encode() not in there]
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        try:
            await self.app(scope, receive, sending)
        finally:
            route = scope.get("route")
            line = {
                "event": "request",
                "method": scope["method"],
                "route": getattr(route, "path", "unknown"),
                "status": status or 500,
                "milliseconds": round((time.perf_counter() - began) * 1000, 1),
            }
            logger.info(json.dumps(line))


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Spell a record out; what is no JSON object already becomes its message."""
        text = record.getMessage()
        try:
            plain = json.loads(text)
        except ValueError:
            plain = None
        said: dict[str, Any] = plain if isinstance(plain, dict) else {"event": "message", "message": text}
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {"time": f"{at}.{int(record.msecs):03d}Z", "level": record.levelname.lower(), **said}
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_to_stderr(level: str = "info") -> None:
    """Write the service's log, and the server's, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("troth.service", "uvicorn", "uvicorn.error"):
        target = logging.getLogger(name)
        target.handlers, target.propagate = [handler] if name != "uvicorn.error" else [], name == "uvicorn.error"
        target.setLevel(level.upper())


def answer_errors(app: FastAPI) -> None:
    """Turn errors into answers: JSON for programs, a page for people."""

    def answered(request: Request, status: int, message: str, problems: Any = ()) -> Response:
        if request.url.path.startswith("/api/"):
            headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
            return JSONResponse({"error": message, "problems": list(problems)}, status, headers)
        page = getattr(app.state, "error_page", None)
        if page is None:
            return JSONResponse({"error": message}, status)
        made: Response = page(request, status, message)
        return made

    @app.exception_handler(TrothError)
    def refused(request: Request, error: Exception) -> Response:
        return answered(request, getattr(error, "status", 422), str(error))

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101
        methods = methods_at(request.url.path)
        if methods and request.method not in methods:  # a plain address that also looks like one with an identifier
            return failed(request, HTTPException(405))
        problems = [
            {"field": ".".join(str(part) for part in one["loc"][1:]) or str(one["loc"][0]), "message": one["msg"]}
            for one in error.errors()
        ]
        said = "; ".join(f"{one['field']}: {one['message']}" for one in problems[:5])
        return answered(request, 422, said, problems)

    @app.exception_handler(HTTPException)
    def failed(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101
        words = {
            400: "the body cannot be read; send JSON in UTF-8",
            404: "there is no such page",
            405: "this address does not take that method",
        }
        made = answered(request, error.status_code, words.get(error.status_code, str(error.detail)))
        for name, value in (error.headers or {}).items():
            made.headers[name] = value
        if error.status_code == 405 and (methods := methods_at(request.url.path)):
            made.headers["Allow"] = ", ".join(methods)
        return made

    @app.exception_handler(TimeoutError)
    @app.exception_handler(OperationalError)
    def busy(request: Request, error: Exception) -> Response:
        logger.error(json.dumps({"event": "database", "error": type(error).__name__}))
        return answered(request, 503, "the database does not answer; try again in a moment")

    @app.exception_handler(Exception)
    def broken(request: Request, error: Exception) -> Response:
        logger.error("a request failed", exc_info=error)
        return answered(request, 500, "something went wrong on our side; it was logged")
