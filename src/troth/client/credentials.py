"""Tokens on this machine, one for each service: in a file that only its owner can read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from troth.campaigns.private_files import replace_private
from troth.client.api import Client
from troth.client.http import address
from troth.core.errors import DataError


def credentials_path() -> Path:
    """Return where tokens are stored."""
    home = os.environ.get("XDG_CONFIG_HOME") or ""
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".config") / "troth" / "credentials.json"


def load() -> dict[str, Any]:
    """Return what is stored: the service of the last sign-in, and the account of each service."""
    path = credentials_path()
    try:
        credentials = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"current": None, "servers": {}}
    except ValueError:
        credentials = None
    if not isinstance(credentials, dict) or not isinstance(credentials.get("servers"), dict):
        raise DataError(f"{path}: cannot be read; remove it and sign in again")
    return credentials


def store(server: str, **account: Any) -> Path:
    """Store a token, and make its service the default."""
    credentials = load()
    credentials["current"] = server
    credentials["servers"][server] = account
    return write_private(credentials_path(), credentials)


def forget(server: str) -> None:
    """Remove the token of a service."""
    credentials = load()
    credentials["servers"].pop(server, None)
    if credentials["current"] == server:
        credentials["current"] = next(iter(credentials["servers"]), None)
    write_private(credentials_path(), credentials)


def current(server: str | None = None) -> str:
    """Return ``server``, or by default the service in the environment or of the last sign-in."""
    url = server or os.environ.get("TROTH_SERVER")
    if url:
        return address(url, insecure=True)
    last: str | None = load()["current"]
    if last is None:
        raise DataError("sign in first: troth login https://…")
    return last


def connect(server: str | None = None) -> Client:
    """Return a client with the token from the environment, or else the stored one."""
    url = current(server)
    account = load()["servers"].get(url, {})
    token = os.environ.get("TROTH_TOKEN") or account.get("token")
    if not token:
        raise DataError(f"sign in first: troth login {url}")
    insecure = bool(account.get("insecure")) or os.environ.get("TROTH_INSECURE") == "1"
    return Client(url, token, insecure=insecure)


def write_private(path: Path, plain: dict[str, Any]) -> Path:
    """Write plain data to a file that only its owner can read, in a folder that only its owner can open."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.parent.chmod(0o700)
    replace_private(path, json.dumps(plain, indent=1).encode())
    return path
