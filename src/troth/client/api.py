"""What a service's API offers, as methods. Money is decimal strings, times are UTC."""

from __future__ import annotations

import json
import re
import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from troth.client.http import Sent, Transport, plain_of
from troth.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_ROOT = "/api/v1"
SCOPES = ("read", "submit", "manage")


class Client:
    """A service, and who one is there.

    Parameters
    ----------
    server
        Its address, such as ``https://troth.example.org``.
    token
        From `sign_in`, or from the page of settings.
    insecure
        Send passwords and data unencrypted, to an http address that is not this machine's.
    """

    def __init__(self, server: str, token: str | None = None, *, insecure: bool = False, seconds: float = 60.0) -> None:
        self.transport = Transport(server, token, insecure=insecure, seconds=seconds)

    @property
    def server(self) -> str:
        """The service's address."""
        return self.transport.server

    def sign_in(
        self, name: str, password: str, *, label: str = "command line", scopes: Sequence[str] = SCOPES, days: int = 30
    ) -> dict[str, Any]:
        """Exchange a name and password for a token, use it from now on, and return it."""
        asked = {"name": name, "password": password, "label": label, "scopes": list(scopes), "days": days}
        made: dict[str, Any] = self._write("POST", "/tokens", asked)
        self.transport.token = made["token"]
        return made

    def me(self) -> dict[str, Any]:
        """Tell who the token belongs to."""
        found: dict[str, Any] = self._read("/me")
        return found

    def revoke_token(self, token: str) -> None:
        """End one of one's tokens, by its identifier."""
        self.transport.send("DELETE", f"{_ROOT}/tokens/{token}", again=True)

    def join(self, invitation: str, name: str | None = None, password: str | None = None) -> dict[str, Any]:
        """Accept an invitation: with a new account, or with the one that is signed in."""
        asked = {"invitation": invitation, "name": name, "password": password}
        made: dict[str, Any] = self._write("POST", "/invitations", asked)
        return made

    def choose_password(self, link: str, password: str) -> dict[str, Any]:
        """Use the secret of a link to sign in up, to choose a password."""
        made: dict[str, Any] = self._write("POST", "/passwords", {"link": link, "password": password})
        return made

    def campaigns(self) -> list[dict[str, Any]]:
        """List one's campaigns."""
        found: list[dict[str, Any]] = self._read("/campaigns")
        return found

    def find_campaign(self, text: str) -> dict[str, Any]:
        """Return the campaign of an identifier, or the only one of a name."""
        mine = self.campaigns()
        found = [one for one in mine if one["id"] == text] or [one for one in mine if one["name"] == text]
        found = found or [one for one in mine if one["name"].casefold() == text.casefold()]
        if len(found) == 1:
            return found[0]
        if found:
            raise DataError(f"there are {len(found)} campaigns {text!r}: say {' or '.join(one['id'] for one in found)}")
        some = ", ".join(repr(one["name"]) for one in mine[:12])
        raise DataError(f"there is no campaign {text!r}; " + (f"yours are {some}" if mine else "you have none yet"))

    def create_campaign(
        self, terms: dict[str, Any], *, publish_at_once: bool = False, share_ledger: bool = False
    ) -> dict[str, Any]:
        """Create a campaign from the tables of a campaign file."""
        asked = {"terms": terms, "publish_at_once": publish_at_once, "share_ledger": share_ledger}
        made: dict[str, Any] = self._write("POST", "/campaigns", asked, once=True)
        return made

    def providers(self, campaign: str) -> list[dict[str, Any]]:
        """List a campaign's providers."""
        found: list[dict[str, Any]] = self._read(f"/campaigns/{campaign}/providers")
        return found

    def add_provider(self, campaign: str, name: str, identity: str, group: str | None = None) -> dict[str, Any]:
        """Add a provider and return its one-time invitation."""
        asked = {"name": name, "identity": identity, "group": group}
        made: dict[str, Any] = self._write("POST", f"/campaigns/{campaign}/providers", asked)
        return made

    def invite_again(self, campaign: str, member: str) -> dict[str, Any]:
        """Return a new invitation for a provider who has not joined; an earlier one ends."""
        made: dict[str, Any] = self._write("POST", f"/campaigns/{campaign}/providers/{member}/invitation")
        return made

    def rounds(self, campaign: str) -> list[dict[str, Any]]:
        """List a campaign's rounds."""
        found: list[dict[str, Any]] = self._read(f"/campaigns/{campaign}/rounds")
        return found

    def open_round(self, campaign: str, day: str | int | None = None, deadline: str | None = None) -> dict[str, Any]:
        """Open the next round."""
        asked = {"day": day, "deadline": deadline}
        made: dict[str, Any] = self._write("POST", f"/campaigns/{campaign}/rounds", asked, once=True)
        return made

    def close_round(self, campaign: str, number: int, *, final: bool = False) -> dict[str, Any]:
        """Close a round and pay what has become payable."""
        made: dict[str, Any] = self._write("POST", _round(campaign, number) + "/close", {"final": final}, once=True)
        return made

    def reopen_round(self, campaign: str, number: int, deadline: str | None = None) -> dict[str, Any]:
        """Open a round again that was closed and could not be paid."""
        made: dict[str, Any] = self._write("POST", _round(campaign, number) + "/reopen", {"deadline": deadline})
        return made

    def publish_round(self, campaign: str, number: int) -> dict[str, Any]:
        """Show providers what they were paid, and why."""
        made: dict[str, Any] = self._write("POST", _round(campaign, number) + "/publish", again=True)
        return made

    def finish(self, campaign: str) -> dict[str, Any]:
        """End a daily campaign: its last day is paid by its rule."""
        made: dict[str, Any] = self._write("POST", f"/campaigns/{campaign}/finish", once=True)
        return made

    def submit(
        self,
        campaign: str,
        number: int,
        content: bytes | Path,
        name: str,
        *,
        watch: Callable[[int, int], None] | None = None,
    ) -> dict[str, Any]:
        """Send a file of rows or statistics; it counts once it is confirmed.

        Parameters
        ----------
        name
            The file's name, whose ending tells the format.
        watch
            Called with bytes sent and bytes in all.
        """
        path = f"{_ROOT}{_round(campaign, number)}/submissions/file?name={quote(name, safe='')}"
        sent = Sent(content, "application/octet-stream", watch)
        made: dict[str, Any] = plain_of(self.transport.send("POST", path, sent, key=_key()))
        return made

    def confirm(self, campaign: str, number: int, submission: str, replaces: str | None = None) -> dict[str, Any]:
        """Make a submission one's report, and return the receipt."""
        path = f"{_round(campaign, number)}/submissions/{submission}/confirm"
        made: dict[str, Any] = self._write("POST", path, {"replaces": replaces}, once=True)
        return made

    def payments(self, campaign: str, number: int) -> dict[str, Any]:
        """Return payments and the reasons for them: all, or one's own once the round is published."""
        found: dict[str, Any] = self._read(_round(campaign, number) + "/payments")
        return found

    def download(self, campaign: str, what: str) -> bytes:
        """Return ``ledger``, ``payments.csv``, ``report`` or ``campaign.toml`` as a file has it."""
        return self.transport.send("GET", f"{_ROOT}/campaigns/{campaign}/{what}", again=True)

    def _read(self, path: str) -> Any:
        return plain_of(self.transport.send("GET", _ROOT + path, again=True))

    def _write(self, method: str, path: str, plain: Any = None, *, once: bool = False, again: bool = False) -> Any:
        sent = None if plain is None else Sent(json.dumps(plain).encode(), "application/json")
        key = _key() if once else None
        return plain_of(self.transport.send(method, _ROOT + path, sent, key=key, again=again))


def read_link(link: str) -> tuple[str, str, str]:
    """Return the service, the kind and the secret of a one-time link.

    Examples
    --------
    >>> read_link("https://troth.example.org/join/0123456789abcdefghij")
    ('https://troth.example.org', 'join', '0123456789abcdefghij')
    """
    found = re.fullmatch("(https?://[^/]+)/(join|enter)/([A-Za-z0-9_-]{20,200})/?", link.strip())
    if found is None:
        raise DataError("this is no link of a Troth service, such as https://troth.example.org/join/…")
    return found[1], found[2], found[3]


def _round(campaign: str, number: int) -> str:
    return f"/campaigns/{campaign}/rounds/{number}"


def _key() -> str:
    return secrets.token_hex(16)
