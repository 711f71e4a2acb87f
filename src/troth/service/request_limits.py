"""Limits on the size of requests, and on the time that they take to arrive."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from troth.operations import PREFIX, operation_at
from troth.service.responses import Refused

MAX_JSON_BYTES, SMALL_JSON_BYTES = 4 << 20, 1 << 16
_FORM_OVERHEAD = 1 << 20  # bytes of a form besides its file
IDLE_SECONDS, FIRST_SECONDS, MIN_RATE = 20.0, 30.0, 8192
"""Seconds that may pass between two parts of a body, seconds granted to any body, and bytes per second beyond these."""


class BodyLimits:
    """Reject request bodies that stall, arrive too slowly, or exceed their limit, declared or actual.

    Uploads have their own limit. Other API requests are limited to `SMALL_JSON_BYTES`, because parsing blocks all other
    requests, or to `MAX_JSON_BYTES` if the operation allows large ones.
    """

    def __init__(self, app: ASGIApp, *, largest: int) -> None:
        self.app, self.largest = app, largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, counting its bytes as they are read and giving up if they arrive too slowly."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        max_bytes = self._max_bytes(scope)
        message = f"the request is larger than {max_bytes or 0:,} bytes, the maximum"
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if max_bytes is not None and (not declared.isdigit() or len(declared) > 18 or int(declared) > max_bytes):
            refusal = JSONResponse(Refused(error=message).model_dump(), 413, {"connection": "close"})
            await refusal(scope, receive, send)
            return
        loop = asyncio.get_running_loop()
        began, count, complete = loop.time(), 0, False

        async def limited() -> Message:
            nonlocal count, complete
            if complete:
                return await receive()
            remaining = began + FIRST_SECONDS + count / MIN_RATE - loop.time()
            try:
                part = await asyncio.wait_for(receive(), max(0.0, min(IDLE_SECONDS, remaining)))
            except TimeoutError:
                headers = {"connection": "close"}
                raise HTTPException(408, "the request arrived too slowly; send it again", headers) from None
            count += len(part.get("body", b""))
            complete = not part.get("more_body", False)
            if max_bytes is not None and count > max_bytes:
                raise HTTPException(413, message)
            return part

        await self.app(scope, limited, send)

    def _max_bytes(self, scope: Scope) -> int | None:
        """Return the maximum size of a body; None for uploads to the API, which are counted while they are stored."""
        if not scope["path"].startswith(PREFIX):
            return self.largest + _FORM_OVERHEAD
        operation = operation_at(scope["method"], scope["path"])
        size = "small" if operation is None else operation.size
        return {"small": SMALL_JSON_BYTES, "large": MAX_JSON_BYTES, "upload": None}[size]
