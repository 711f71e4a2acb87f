"""How large a request may be: no more of it is read into memory than its route needs, whoever sends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_JSON = 4 << 20
_FORM = 1 << 20  # what a form has around a file


class SizeLimit:
    """Refuse bodies that are too large: by the length that they declare, and by the bytes that arrive.

    Parameters
    ----------
    largest
        The largest upload. Other requests to the API have at most `LARGEST_JSON` bytes.
    """

    def __init__(self, app: ASGIApp, *, largest: int) -> None:
        self.app, self.largest = app, largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count what is read of it."""
        if scope["type"] != "http" or scope["path"].endswith("/submissions/file"):  # which counts by itself
            await self.app(scope, receive, send)
            return
        count, most = 0, LARGEST_JSON if scope["path"].startswith("/api/") else self.largest + _FORM
        message = f"the request is larger than {most:,} bytes, the most that is accepted here"
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not declared.isdigit() or len(declared) > 18 or int(declared) > most:
            refusal = JSONResponse({"error": message, "problems": []}, 413, {"connection": "close"})
            await refusal(scope, receive, send)
            return

        async def counted() -> Message:
            nonlocal count
            part = await receive()
            count += len(part.get("body", b""))
            if count > most:
                raise HTTPException(413, message)
            return part

        await self.app(scope, counted, send)
