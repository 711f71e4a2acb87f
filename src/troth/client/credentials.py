"""Tokens on this machine, one for each service: in a file that only its owner reads."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from troth.client.api import Client
from troth.client.http import address
from troth.core.errors import DataError


def credentials_path() -> Path:
    """Return where tokens are kept."""
    home = os.environ.get("XDG_CONFIG_HOME") or ""
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".config") / "troth" / "credentials.json"


def load() -> dict[str, Any]:
    """Return what is kept: the service that was signed in to last, and what is known of each."""
    path = credentials_path()
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"current": None, "servers": {}}
    except ValueError:
        kept = None
    if not isinstance(kept, dict) or not isinstance(kept.get("servers"), dict):
        raise DataError(f"{path}: cannot be read; remove it and sign in again")
    return kept


def keep(server: str, **known: Any) -> Path:
    """Keep a token, and make its service the one that is used by default."""
    kept = load()
    kept["current"] = server
    kept["servers"][server] = known
    return _write(kept)


def forget(server: str) -> dict[str, Any]:
    """Forget the token of a service, and return what was known of it."""
    kept = load()
    known: dict[str, Any] = kept["servers"].pop(server, None) or {}
    if kept["current"] == server:
        kept["current"] = next(iter(kept["servers"]), None)
    _write(kept)
    return known


def current(server: str | None = None) -> str:
    """Return the service that is meant: the one that is named, in the environment or else that of the last sign-in."""
    named = server or os.environ.get("TROTH_SERVER")
    if named:
        return address(named, insecure=True)
    kept: str | None = load()["current"]
    if kept is None:
        raise DataError("sign in first: troth login https://…")
    return kept


def connect(server: str | None = None) -> Client:
    """Return a client with the token of the environment, or the one that is kept."""
    chosen = current(server)
    known = load()["servers"].get(chosen, {})
    token = os.environ.get("TROTH_TOKEN") or known.get("token")
    if not token:
        raise DataError(f"sign in first: troth login {chosen}")
    insecure = bool(known.get("insecure")) or os.environ.get("TROTH_INSECURE") == "1"
    return Client(chosen, token, insecure=insecure)


def _write(kept: dict[str, Any]) -> Path:
    path = credentials_path()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.parent.chmod(0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(kept, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path
