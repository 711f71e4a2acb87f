"""Around every request: security headers, a log line without secrets, and errors as responses."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Sequence

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import OperationalError, TimeoutError  # noqa: A004
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from troth.core.errors import TrothError
from troth.operations import PREFIX
from troth.service.access import allowed_methods
from troth.service.errors import status_of
from troth.service.pages.frame import error_page
from troth.service.responses import Problem, Refused

logger = logging.getLogger("troth.service")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_MAX_PROBLEMS = 50  # that are listed for one request
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


class ResponseGuard:
    """Add the headers that a response does not set itself, and log it with the route's pattern, never the address."""

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
        names = {name for name, value in scope["headers"] if value != b"0"}
        unread = not names.isdisjoint((b"content-length", b"transfer-encoding"))

        async def receiving() -> Message:
            nonlocal unread
            message = await receive()
            unread = unread and bool(message.get("more_body", False))
            return message

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name.lower() for name, _ in message["headers"]}
                extra = [(k.encode(), v.encode()) for k, v in self.headers.items() if k.encode() not in present]
                if unread and b"connection" not in present:  # the rest of the body will not be read
                    extra.append((b"connection", b"close"))
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        try:
            await self.app(scope, receiving, sending)
        finally:
            line = {
                "event": "request",
                "method": scope["method"],
                "route": getattr(scope.get("route"), "path", "unknown"),
                "status": status or 500,
                "milliseconds": round((time.perf_counter() - began) * 1000, 1),
            }
            logger.info(line)


class JsonLines(logging.Formatter):
    """Formats log records as JSON objects, one per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record: the fields of an event, or a text as its message."""
        event = record.msg if isinstance(record.msg, dict) else {"event": "message", "message": record.getMessage()}
        second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {"time": f"{second}.{int(record.msecs):03d}Z", "level": record.levelname.lower(), **event}
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_to_stderr() -> None:
    """Write the service's log, and the server's, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("troth.service", "uvicorn", "uvicorn.error"):
        target = logging.getLogger(name)
        target.handlers, target.propagate = [handler] if name != "uvicorn.error" else [], name == "uvicorn.error"
        target.setLevel("INFO")


def answer_errors(app: FastAPI) -> None:
    """Turn errors into responses: JSON for programs, a page for people."""

    def response(request: Request, status: int, message: str, problems: Sequence[Problem] = ()) -> Response:
        if not request.url.path.startswith(PREFIX):
            return error_page(request, status, message)
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        return JSONResponse(Refused(error=message, problems=list(problems)).model_dump(), status, headers)

    @app.exception_handler(TrothError)
    def refused(request: Request, error: TrothError) -> Response:
        return response(request, status_of(error), str(error))

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        methods = allowed_methods(request.url.path, app.state.access)
        if methods and request.method not in methods:  # a fixed path that also matches a pattern
            return failed(request, HTTPException(405))
        problems = [
            Problem(
                field=".".join(str(part) for part in problem["loc"][1:]) or str(problem["loc"][0]),
                message=problem["msg"],
            )
            for problem in error.errors()[:_MAX_PROBLEMS]
        ]
        message = "; ".join(f"{problem.field}: {problem.message}" for problem in problems[:5])
        return response(request, 422, message, problems)

    @app.exception_handler(HTTPException)
    def failed(request: Request, error: HTTPException) -> Response:
        messages = {
            400: "the body cannot be read; send JSON in UTF-8",
            404: "there is no such page",
            405: "this address does not support that method",
        }
        refusal = response(request, error.status_code, messages.get(error.status_code, str(error.detail)))
        for name, value in (error.headers or {}).items():
            refusal.headers[name] = value
        if error.status_code == 405 and (methods := allowed_methods(request.url.path, app.state.access)):
            refusal.headers["Allow"] = ", ".join(methods)
        return refusal

    @app.exception_handler(TimeoutError)
    @app.exception_handler(OperationalError)
    def busy(request: Request, error: Exception) -> Response:
        logger.error({"event": "database", "error": type(error).__name__})
        return response(request, 503, "the database does not respond; try again in a moment")

    @app.exception_handler(Exception)
    def broken(request: Request, error: Exception) -> Response:
        logger.error("a request failed", exc_info=error)
        refusal = response(request, 500, "something went wrong in the service; it was logged")
        for name, value in HEADERS.items():  # this handler is called outside of ResponseGuard
            refusal.headers.setdefault(name, value)
        return refusal
