"""The client of a service. Amounts of money are decimal strings, times are in UTC."""

from __future__ import annotations

import json
import re
import secrets
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from troth.client.http import Body, Transport, parse_json
from troth.core.errors import DataError
from troth.operations import OPERATIONS, PREFIX, SCOPES, Content, Operation, names_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Client(Transport):
    """A connection to a service, and the account that uses it.

    Every operation of `troth.operations` is a method. Pass the values in its path by position, then the file if it
    takes one (bytes or a path), then the fields of the query and the body by keyword; ``/docs`` of a service describes
    them::

        client.open_round(campaign, deadline="2026-05-04T12:00:00Z")
        client.submit_file(campaign, 1, Path("may.csv"), name="may.csv")

    Methods return the service's response: plain data, or bytes if it is a file. Methods that send a file also take a
    function ``progress``, which is called with the number of bytes sent and the total. If the connection is lost, a
    request is repeated if that is safe.

    Parameters
    ----------
    server
        Its address, such as ``https://troth.example.org``.
    token
        From `sign_in`, or from the settings page.
    insecure
        Allow an http address of another machine: passwords and data are then sent unencrypted.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]:
            """Declare the methods that the table of operations adds."""

    def sign_in(
        self, name: str, password: str, *, label: str = "command line", scopes: Sequence[str] = SCOPES, days: int = 30
    ) -> dict[str, Any]:
        """Exchange a name and password for a token, use it from now on, and return it."""
        token: dict[str, Any] = self.create_token(
            name=name, password=password, label=label, scopes=list(scopes), days=days
        )
        self.token = token["token"]
        return token

    def find_campaign(self, text: str) -> dict[str, Any]:
        """Return the campaign with this identifier, or else the only one with this name."""
        campaigns: list[dict[str, Any]] = self.list_campaigns()
        matches = (
            [campaign for campaign in campaigns if campaign["id"] == text]
            or [campaign for campaign in campaigns if campaign["name"] == text]
            or [campaign for campaign in campaigns if campaign["name"].casefold() == text.casefold()]
        )
        if len(matches) == 1:
            return matches[0]
        if matches:
            identifiers = " or ".join(campaign["id"] for campaign in matches)
            raise DataError(f"{len(matches)} campaigns are called {text!r}: choose by identifier, {identifiers}")
        names = ", ".join(repr(campaign["name"]) for campaign in campaigns[:12])
        raise DataError(f"there is no campaign {text!r}; " + (f"yours are {names}" if names else "you have none yet"))


def _method(operation: Operation) -> Callable[..., Any]:
    names = names_in(operation.path)

    def method(self: Client, *values: Any, **fields: Any) -> Any:
        method.__signature__.bind(self, *values, **fields)  # type: ignore[attr-defined]
        path = PREFIX + operation.path.format(**dict(zip(names, values, strict=False)))
        query = {name: fields.pop(name) for name in operation.query}
        body = None
        if isinstance(operation.input, Content):
            body = Body(values[-1], operation.input.media_type, fields.get("progress"))
        elif operation.input is not None:
            body = Body(json.dumps(fields).encode(), "application/json")
        response = self.send(
            operation.method,
            f"{path}?{urlencode(query)}" if query else path,
            body,
            key=secrets.token_hex(16) if operation.keyed else None,
            repeat=operation.repeatable,
        )
        return parse_json(response) if isinstance(operation.output, str) else response

    file_argument = ("content",) if isinstance(operation.input, Content) else ()
    positional = [Parameter(name, Parameter.POSITIONAL_ONLY) for name in ("self", *names, *file_argument)]
    keywords = [Parameter(name, Parameter.KEYWORD_ONLY) for name in operation.query]
    if file_argument:
        keywords.append(Parameter("progress", Parameter.KEYWORD_ONLY, default=None))
    elif operation.input is not None:
        keywords.append(Parameter("fields", Parameter.VAR_KEYWORD))
    method.__signature__ = Signature([*positional, *keywords])  # type: ignore[attr-defined]
    method.__name__, method.__doc__ = operation.name, operation.summary
    method.__qualname__, method.__module__ = f"{Client.__qualname__}.{operation.name}", Client.__module__
    return method


for _operation in OPERATIONS:
    setattr(Client, _operation.name, _method(_operation))


def read_link(link: str) -> tuple[str, str, str]:
    """Return the service, the kind and the secret of a one-time link.

    Examples
    --------
    >>> read_link("https://troth.example.org/join/0123456789abcdefghij")
    ('https://troth.example.org', 'join', '0123456789abcdefghij')
    """
    parts = re.fullmatch("(https?://[^/]+)/(join|enter)/([A-Za-z0-9_-]{20,200})/?", link.strip())
    if parts is None:
        raise DataError("this is not a link of a Troth service, such as https://troth.example.org/join/…")
    return parts[1], parts[2], parts[3]
