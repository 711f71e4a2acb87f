"""How large a request may be and how long it may take to arrive."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from troth.operations import PREFIX, operation_at
from troth.service.responses import Refused

MAX_JSON_BYTES, SMALL_JSON_BYTES = 4 << 20, 1 << 16
_FORM = 1 << 20  # what a form has around a file
IDLE_SECONDS, FIRST_SECONDS, SLOWEST = 20.0, 30.0, 8192
"""Seconds between two parts of a body, seconds for a body of any size, and the bytes per second of a large one."""


class BodyLimits:
    """Reject request bodies that stall, arrive too slowly, or exceed their limit, declared or actual.

    Uploads have their own limit. Other API requests are limited to `SMALL_JSON_BYTES`, because parsing blocks everybody
    else, or to `MAX_JSON_BYTES` where the table of operations says so.
    """

    def __init__(self, app: ASGIApp, *, largest: int) -> None:
        self.app, self.largest = app, largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, count what is read of it, and wait no longer for it than a slow line needs."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        most = self._most(scope)
        message = f"the request is larger than {most or 0:,} bytes, the most that is accepted here"
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if most is not None and (not declared.isdigit() or len(declared) > 18 or int(declared) > most):
            refusal = JSONResponse(Refused(error=message).model_dump(), 413, {"connection": "close"})
            await refusal(scope, receive, send)
            return
        loop = asyncio.get_running_loop()
        began, count, complete = loop.time(), 0, False

        async def limited() -> Message:
            nonlocal count, complete
            if complete:
                return await receive()
            remaining = began + FIRST_SECONDS + count / SLOWEST - loop.time()
            try:
                part = await asyncio.wait_for(receive(), max(0.0, min(IDLE_SECONDS, remaining)))
            except TimeoutError:
                headers = {"connection": "close"}
                raise HTTPException(408, "the request arrived too slowly; send it again", headers) from None
            count += len(part.get("body", b""))
            complete = not part.get("more_body", False)
            if most is not None and count > most:
                raise HTTPException(413, message)
            return part

        await self.app(scope, limited, send)

    def _most(self, scope: Scope) -> int | None:
        """Return how many bytes a request may have; None for an upload to the API, which is counted as it is stored."""
        if not scope["path"].startswith(PREFIX):
            return self.largest + _FORM
        operation = operation_at(scope["method"], scope["path"])
        size = "small" if operation is None else operation.size
        return {"small": SMALL_JSON_BYTES, "large": MAX_JSON_BYTES, "upload": None}[size]
