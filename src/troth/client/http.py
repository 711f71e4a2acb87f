"""Requests to a service: encrypted, never redirected, and repeated only if that is safe."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from troth.core.errors import TrothError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_RETRY_DELAYS = (0.2, 1.0, 3.0)  # seconds before each new attempt
_BLOCK = 1 << 16
_LOCAL = ("localhost", "127.0.0.1", "::1")


class UnreachableError(TrothError):
    """The service does not respond."""


class RefusedError(TrothError):
    """The service refused a request; the message comes from the service.

    Attributes
    ----------
    status
        The status code of the HTTP response.
    """

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class Body(NamedTuple):
    """A request's body: bytes, or a file that is read while it is sent."""

    content: bytes | Path
    media_type: str
    progress: Callable[[int, int], None] | None = None

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return len(self.content) if isinstance(self.content, bytes) else self.content.stat().st_size

    def blocks(self) -> Iterator[bytes]:
        """Yield the content in blocks; a file that grows meanwhile is truncated to its earlier size."""
        if isinstance(self.content, bytes):
            yield self.content
            return
        sent, total = 0, self.size
        with self.content.open("rb") as file:
            while block := file.read(min(_BLOCK, total - sent)):
                yield block
                sent += len(block)
                if self.progress is not None:
                    self.progress(sent, total)


class Transport:
    """HTTP access to one service: https if its address has no scheme, http only on this machine."""

    def __init__(self, server: str, token: str | None = None, *, insecure: bool = False, timeout: float = 60.0) -> None:
        self.server, self.token, self.timeout = address(server, insecure=insecure), token, timeout
        self.retry_delays = _RETRY_DELAYS

    def send(
        self, method: str, path: str, body: Body | None = None, *, key: str | None = None, repeat: bool = False
    ) -> bytes:
        """Send a request and return the response's body; ``repeat`` the request if the connection is lost.

        The service executes requests with the same idempotency key only once.
        """
        headers = {"Accept": "*/*", "User-Agent": "troth"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if key is not None:
            headers["Idempotency-Key"] = key
        if body is not None:
            headers |= {"Content-Type": body.media_type, "Content-Length": str(body.size)}
        delays = list(self.retry_delays) if repeat else []
        was_lost = False
        while True:
            try:
                status, content = self._attempt(method, path, headers, body)
            except ssl.SSLCertVerificationError as error:
                raise UnreachableError(
                    f"{self.server}: its certificate is not trusted: {error.verify_message}"
                ) from None
            except ConnectionRefusedError as error:
                if not was_lost or not delays:  # a service that responded a moment ago may be restarting
                    raise UnreachableError(
                        f"cannot reach {self.server}: connection refused; is troth serve running?"
                    ) from error
            except (OSError, http.client.HTTPException) as error:
                if not delays or not isinstance(error, ConnectionError | http.client.HTTPException | TimeoutError):
                    raise UnreachableError(f"cannot reach {self.server}: {_reason(error)}") from error
                was_lost = True
            else:
                if status != 503 or not delays:
                    return _accepted(self.server, status, content)
            time.sleep(delays.pop(0))

    def _attempt(self, method: str, path: str, headers: dict[str, str], body: Body | None) -> tuple[int, bytes]:
        connection = self._connect()
        try:
            connection.connect()
            with suppress(
                BrokenPipeError, ConnectionResetError
            ):  # the service may refuse a body before its end, and respond
                connection.request(method, path, None if body is None else body.blocks(), headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.server)
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=self.timeout)
        context = ssl.create_default_context()
        proxy = urlsplit(getproxies().get("https", ""))
        if proxy.hostname is None or proxy_bypass(host):
            return http.client.HTTPSConnection(host, port, timeout=self.timeout, context=context)
        tunnel = http.client.HTTPSConnection(proxy.hostname, proxy.port, timeout=self.timeout, context=context)
        tunnel.set_tunnel(host, port or 443)
        return tunnel


def address(server: str, *, insecure: bool = False) -> str:
    """Return a service's address with its scheme and without a trailing slash.

    Examples
    --------
    >>> address("troth.example.org/"), address("http://localhost:8000")
    ('https://troth.example.org', 'http://localhost:8000')
    """
    text = server.strip()
    text = (text if "://" in text else f"https://{text}").rstrip("/")
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port)
    except ValueError:
        usable = False
    if not usable or parts.path or parts.query or parts.username is not None:
        raise UnreachableError(f"{server!r} is not the address of a service, such as https://troth.example.org")
    if parts.scheme == "http" and parts.hostname not in _LOCAL and not insecure:
        raise UnreachableError(f"{text}: passwords and data would travel unencrypted; use https://, or pass --insecure")
    return text


def _accepted(server: str, status: int, body: bytes) -> bytes:
    if 200 <= status < 300:
        return body
    if 300 <= status < 400:
        raise RefusedError(status, f"{server} redirects to another address; use that one")
    try:
        message = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        message = None
    if not isinstance(message, str) or not message:
        reason = http.client.responses.get(status, "an unknown status").lower()
        message = f"{server} responds with {status}, {reason}; is this a Troth service?"
    raise RefusedError(status, message)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it takes too long to respond"
    if isinstance(error, http.client.RemoteDisconnected | ConnectionError | http.client.IncompleteRead):
        return "the connection was lost"
    if isinstance(error, http.client.HTTPException):
        return "this is not a web server"
    return str(getattr(error, "strerror", None) or error).lower()


def parse_json(body: bytes) -> Any:
    """Parse the body of a response."""
    try:
        return json.loads(body)
    except ValueError:
        raise UnreachableError("the response is not JSON; is this a Troth service?") from None
