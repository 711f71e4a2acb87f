"""Forms: read within limits, and accepted only from our own pages.

Every form carries a token, which is a digest of a secret cookie: the session's or, before signing in, a random one of
the visit. Another site can make a browser send the cookie, but cannot know the digest.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import Response

from troth.service.access import COOKIE
from troth.service.accounts import SESSION_DAYS, User
from troth.service.errors import ForbiddenError, InvalidError
from troth.service.uploads import UploadError

VISIT, DEVICE = "troth_visit", "troth_device"
_MAX_BYTES = 2 << 20
_FORM_OVERHEAD = 1 << 16  # bytes of a form besides its file


class Fields:
    """The fields of a form: texts and files."""

    def __init__(self, data: FormData) -> None:
        self.data = data

    def text(self, name: str, default: str = "") -> str:
        """Return a text without surrounding spaces."""
        value = self.data.get(name)
        return value.strip() if isinstance(value, str) and value.strip() else default

    def secret(self, name: str) -> str:
        """Return a text as it was typed."""
        value = self.data.get(name)
        return value if isinstance(value, str) else ""

    def all(self, name: str) -> list[str]:
        """Return all texts with a name."""
        return [value for value in self.data.getlist(name) if isinstance(value, str)]

    def has(self, name: str) -> bool:
        """Return whether a box is ticked or a button was pressed."""
        return name in self.data

    def deadline(self) -> str:
        """Return the deadline, which is in UTC."""
        text = self.text("deadline")
        return f"{text}Z" if text and text[-1].isdigit() and "+" not in text else text

    def file(self, name: str) -> UploadFile | None:
        """Return a file, if one was chosen."""
        value = self.data.get(name)
        return value if isinstance(value, UploadFile) and value.filename else None


@asynccontextmanager
async def received(request: Request, user: User | None, *, with_file: bool) -> AsyncIterator[Fields]:
    """Read a form, check that it is one of ours, and close its files afterwards."""
    check_origin(request)
    data = await _parsed(request, request.app.state.settings.limits.bytes + _FORM_OVERHEAD if with_file else _MAX_BYTES)
    try:
        fields = Fields(data)
        if not hmac.compare_digest(fields.secret("csrf").encode(), _token(_secret(request, user)).encode()):
            raise ForbiddenError("this form has expired, or did not come from this service; load the page again")
        yield fields
    finally:
        await data.close()


async def _parsed(request: Request, max_bytes: int) -> FormData:
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit():
        _check_size(int(length), max_bytes)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    parsers: dict[str, Any] = {"multipart/form-data": MultiPartParser, "application/x-www-form-urlencoded": FormParser}
    if kind not in parsers:
        raise InvalidError("send a form")
    parser = parsers[kind](request.headers, _counted(request, max_bytes))
    try:
        data: FormData = await parser.parse()
    except BaseException as error:
        for file in getattr(parser, "_files_to_close_on_error", ()):
            file.close()
        if isinstance(error, MultiPartException | KeyError | UnicodeError):
            raise InvalidError(f"the form cannot be read: {error}") from None
        raise
    return data


async def _counted(request: Request, max_bytes: int) -> AsyncIterator[bytes]:
    total = 0
    async for block in request.stream():
        total += len(block)
        _check_size(total, max_bytes)
        yield block


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise UploadError(413, f"the form has more than {max_bytes:,} bytes; send statistics instead of rows")


def check_origin(request: Request) -> None:
    """Reject a form that, according to the browser, comes from another site. Otherwise the token alone decides.

    Under no-referrer, browsers report every origin as null, and on plain HTTP they do not send ``Sec-Fetch-Site``.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    own_origins = {_origin(request.app.state.settings.url), _origin(str(request.url))}
    if site not in (None, "same-origin", "none") or origin not in (None, "null", *own_origins):
        raise ForbiddenError("this form came from another site")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def token_for(request: Request, user: User | None) -> tuple[str, str | None]:
    """Return the token for the forms of a page, and a new visit's secret if there is none yet."""
    secret = _secret(request, user)
    new_secret = None if secret else secrets.token_urlsafe(32)
    return _token(new_secret or secret), new_secret


def _secret(request: Request, user: User | None) -> str:
    return request.cookies.get(VISIT if user is None else COOKIE, "")


def _token(secret: str) -> str:
    """Return the digest of a secret; without a secret, of a random one that nobody knows."""
    return sha256(f"csrf:{secret or secrets.token_hex(32)}".encode()).hexdigest()


def set_cookie(request: Request, response: Response, name: str, value: str, days: int | None = None) -> None:
    """Set a cookie that scripts cannot read and other sites' forms do not send."""
    response.set_cookie(
        name,
        value,
        max_age=None if days is None else days * 86_400,
        path="/",
        secure=request.app.state.settings.url.startswith("https:"),
        httponly=True,
        samesite="lax",
    )


def sign_in(request: Request, response: Response, session: str) -> Response:
    """Set the cookie of a session."""
    set_cookie(request, response, COOKIE, session, SESSION_DAYS)
    response.delete_cookie(VISIT, path="/")
    return response
