"""Client connections: unfinished or endless headers of one client delay no other.

The server reads requests in one thread, so whatever is slow to read delays everybody. A request must therefore have few
header lines, declare the length of its body (a chunked one can have a million chunks), and follow the response to the
previous request.
"""

from __future__ import annotations

import asyncio
import re
import resource
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from troth.service.responses import Refused
from troth.service.web import HEADERS

HEADER_SECONDS = 10.0
MAX_WAITING = 256
MAX_LINES, MAX_BYTES = 128, 1 << 15
"""The maximum number of lines and bytes in the headers of one request."""
_CHUNKED = re.compile(rb"\ntransfer-encoding[ \t]*:", re.IGNORECASE)
_waiting: dict[Connection, asyncio.TimerHandle] = {}  # connections with incomplete headers, oldest first


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection that has `HEADER_SECONDS` for the headers of each request.

    At most `MAX_WAITING` connections of a process may have incomplete headers. One more ends the oldest: a client that
    sends its headers in one go is never the oldest for long.
    """

    def connection_made(self, transport: Any) -> None:
        """Start waiting for headers."""
        self._head, self._body_left = bytearray(), 0  # headers so far; bytes of the body still to come
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Forward a body as it arrives, and headers once they are complete."""
        if self._body_left and data:
            body, data = data[: self._body_left], data[self._body_left :]
            self._body_left -= len(body)
            super().data_received(body)
        if not data:
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self._hang_up()  # a second request before the first response: no browser or proxy does that
            return
        if self not in _waiting:
            self._wait()
        start = max(0, len(self._head) - 2)
        self._head += data if self._head else data.lstrip(b"\r\n")
        ends = [place + len(end) for end in (b"\n\r\n", b"\n\n") if (place := self._head.find(end, start)) >= 0]
        size = min(ends, default=len(self._head))
        if size > MAX_BYTES or self._head.count(b"\n", 0, size) > MAX_LINES:
            self._refuse(431, "the request has too many headers, or too long ones")
        elif ends:
            self._begin(bytes(self._head[:size]), bytes(self._head[size:]))

    def _begin(self, head: bytes, body: bytes) -> None:
        """Forward complete headers, and then the part of the body that has arrived."""
        if _CHUNKED.search(head):
            self._refuse(411, "send the body in one piece, with its Content-Length")
            return
        self._stop_waiting()
        self._head.clear()
        previous = self.cycle
        super().data_received(head)
        if self.cycle is not previous:  # otherwise the headers were refused
            self._body_left = int(dict(self.headers).get(b"content-length", b"0"))
            self.data_received(body)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        while len(_waiting) >= MAX_WAITING:
            next(iter(_waiting))._hang_up()
        _waiting[self] = self.loop.call_later(HEADER_SECONDS, self._hang_up)

    def _stop_waiting(self) -> None:
        timer = _waiting.pop(self, None)
        if timer is not None:
            timer.cancel()

    def _refuse(self, status: int, message: str) -> None:
        body = Refused(error=message).model_dump_json().encode()
        fields = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *map(": ".join, (HEADERS | fields).items()), "", ""]
        self._stop_waiting()
        self.transport.write("\r\n".join(lines).encode() + body)
        self.transport.close()

    def _hang_up(self) -> None:
        self._stop_waiting()
        self.transport.abort()


def allow_many_files() -> None:
    """Raise the number of files and connections that this process may have open, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1 << 16) if hard > soft else soft, hard))
