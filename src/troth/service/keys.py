"""Data that the service stores outside its database: its signing key, the secrets of rounds, and signed heads.

Reading, changing or rolling back the database does not affect them. `Keys` keeps them in a folder that only its owner
reads; a subclass can override the public methods to use a key service instead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection

from troth.campaigns.private_files import create_private
from troth.campaigns.records.ledger import locked
from troth.campaigns.records.statements import public_key, sign
from troth.campaigns.seed import Secret, load_secret, record_use, save_secret
from troth.core.errors import DataError

OPTION = "troth_keys"


def keys_of(tx: Connection) -> Keys:
    """Return the keys that belong to a transaction's database."""
    keys: Keys = tx.get_execution_options()[OPTION]
    return keys


class Keys:
    """Keys in a folder that only its owner reads, created on first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key: Ed25519PrivateKey | None = None

    @property
    def public(self) -> str:
        """The public half of the signing key, in hexadecimal."""
        return public_key(self._signing_key())

    def sign(self, statement: Mapping[str, Any]) -> dict[str, Any]:
        """Return a statement with the public key and a signature."""
        return sign(self._signing_key(), statement)

    def keep(self, secret: Secret) -> None:
        """Keep a secret, durably, before its commitment is published."""
        path = self._secret_path(secret.commitment)
        if not path.exists():
            save_secret(secret, path)

    def secret(self, commitment: str) -> Secret:
        """Return the secret behind a commitment."""
        return load_secret(self._secret_path(commitment))

    def record_use(self, commitment: str, seeds: Mapping[int, str]) -> None:
        """Record, durably, the seeds that rounds make from a secret; reject any that differ from earlier records."""
        with locked(self._existing_folder()):
            record_use(self._secret_path(commitment), seeds)

    def heads(self, campaign: str) -> list[dict[str, Any]]:
        """Return the signed heads of a campaign, in order."""
        try:
            lines = self._head_path(campaign).read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        try:
            return [json.loads(line) for line in lines if line.endswith(b"\n")]  # a partial line was never published
        except ValueError:
            raise DataError(f"{self._head_path(campaign)}: this is not a list of heads") from None

    def add_head(self, campaign: str, head: Mapping[str, Any]) -> None:
        """Record a head, durably, unless this one or a later one is recorded."""
        path = self._head_path(campaign)
        with locked(self._existing_folder()):
            last = self.heads(campaign)[-1:]
            if last and (last[0]["epoch"], last[0]["lines"]) >= (head["epoch"], head["lines"]):
                return  # another process was faster
            if not path.exists():
                create_private(path, b"")
            with path.open("r+b") as file:
                file.truncate(file.read().rfind(b"\n") + 1)  # drops a partial line
                file.seek(0, os.SEEK_END)
                file.write(json.dumps(dict(head)).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())

    def _signing_key(self) -> Ed25519PrivateKey:
        if self._key is None:
            path = self._existing_folder() / "signing.key"
            if not path.exists():
                with suppress(FileExistsError):  # another process was first
                    create_private(path, Ed25519PrivateKey.generate().private_bytes_raw().hex().encode() + b"\n")
            try:
                self._key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text().strip()))
            except ValueError:
                raise DataError(f"{path}: this is not a signing key") from None
        return self._key

    def _secret_path(self, commitment: str) -> Path:
        return self._existing_folder() / f"{commitment.removeprefix('sha256:')}.secret"

    def _head_path(self, campaign: str) -> Path:
        return self._existing_folder() / f"{campaign}.heads.jsonl"

    def _existing_folder(self) -> Path:
        if not self.folder.is_dir():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.folder
