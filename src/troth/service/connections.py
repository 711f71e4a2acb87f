"""Connections from clients: whoever does not finish its headers is hung up on, and keeps nobody else out."""

from __future__ import annotations

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEADER_SECONDS = 10.0
MOST_WAITING = 256
_waiting: dict[Connection, asyncio.TimerHandle] = {}  # whose headers are not complete, the oldest first


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection whose headers arrive in time, each request's anew.

    Of those whose headers are not complete there are at most `MOST_WAITING` in a process. One more ends the oldest:
    a client that sends its headers at once is never the oldest for long.
    """

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for headers."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait on until the headers are complete."""
        super().data_received(data)
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._stop_waiting()
        elif self not in _waiting:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        while len(_waiting) >= MOST_WAITING:
            next(iter(_waiting))._hang_up()
        _waiting[self] = self.loop.call_later(HEADER_SECONDS, self._hang_up)

    def _stop_waiting(self) -> None:
        timer = _waiting.pop(self, None)
        if timer is not None:
            timer.cancel()

    def _hang_up(self) -> None:
        self._stop_waiting()
        self.transport.abort()


def allow_many_files() -> None:
    """Raise the number of files and connections that this process may have open to what the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1 << 16) if hard > soft else soft, hard))
