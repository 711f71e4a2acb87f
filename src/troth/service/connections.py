"""Connections from clients: a client with unfinished or endless headers delays nobody else.

The server reads requests in one thread, so what is slow to read holds up everybody. A request therefore has few header
lines, a body of a length that it declares (one in chunks can have a million of them), and follows the answer to the one
before it.
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
"""The most lines and bytes that the headers of one request may have."""
_IN_CHUNKS = re.compile(rb"\ntransfer-encoding[ \t]*:", re.IGNORECASE)
_waiting: dict[Connection, asyncio.TimerHandle] = {}  # whose headers are not complete, the oldest first


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection whose headers arrive in time, each request's anew.

    Of those whose headers are not complete there are at most `MAX_WAITING` in a process. One more ends the oldest:
    a client that sends its headers at once is never the oldest for long.
    """

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for headers."""
        self._head, self._left = bytearray(), 0  # headers so far, and how much of a body is to come
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Pass a body on as it comes, and headers once they are complete."""
        if self._left and data:
            body, data = data[: self._left], data[self._left :]
            self._left -= len(body)
            super().data_received(body)
        if not data:
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self._hang_up()  # another request before the answer to this one: no browser and no proxy does that
            return
        if self not in _waiting:
            self._wait()
        searched = max(0, len(self._head) - 2)
        self._head += data if self._head else data.lstrip(b"\r\n")
        ends = [place + len(end) for end in (b"\n\r\n", b"\n\n") if (place := self._head.find(end, searched)) >= 0]
        size = min(ends, default=len(self._head))
        if size > MAX_BYTES or self._head.count(b"\n", 0, size) > MAX_LINES:
            self._refuse(431, "the request has too many headers, or too long ones")
        elif ends:
            self._begin(bytes(self._head[:size]), bytes(self._head[size:]))

    def _begin(self, head: bytes, body: bytes) -> None:
        """Pass complete headers on, and then what has come of the body."""
        if _IN_CHUNKS.search(head):
            self._refuse(411, "send the body in one piece, with its Content-Length")
            return
        self._stop_waiting()
        self._head.clear()
        before = self.cycle
        super().data_received(head)
        if self.cycle is not before:  # otherwise they were refused
            self._left = int(dict(self.headers).get(b"content-length", b"0"))
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
        about = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *map(": ".join, (HEADERS | about).items()), "", ""]
        self._stop_waiting()
        self.transport.write("\r\n".join(lines).encode() + body)
        self.transport.close()

    def _hang_up(self) -> None:
        self._stop_waiting()
        self.transport.abort()


def allow_many_files() -> None:
    """Raise the number of files and connections that this process may have open to what the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1 << 16) if hard > soft else soft, hard))
