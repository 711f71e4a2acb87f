"""The seed of rules that draw: unknown to providers while they report, and checkable by them afterwards.

A secret s is hashed N times, and H^N(s) is published before anybody reports. Round k uses and then reveals H^(N−k)(s),
whose hash is what was revealed before: each round's seed is fixed from the start, and none reveals the next.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from troth.core.errors import DataError, ParameterError

if TYPE_CHECKING:
    from pathlib import Path

_PREFIX = "sha256:"


@dataclass(frozen=True)
class Secret:
    """A secret and how many rounds it serves.

    Examples
    --------
    >>> secret = Secret("00" * 32, rounds=2)
    >>> follows(secret.seed(1), secret.commitment), follows(secret.seed(2), secret.seed(1))
    (True, True)
    """

    hexadecimal: str
    rounds: int = 1

    def __post_init__(self) -> None:
        try:
            raw = bytes.fromhex(self.hexadecimal)
        except (ValueError, TypeError):
            raise ParameterError("a secret is 64 hexadecimal digits") from None
        if len(raw) != 32 or self.rounds < 1:
            raise ParameterError("a secret is 64 hexadecimal digits and serves at least one round")

    @property
    def commitment(self) -> str:
        """What is published before anybody reports."""
        return self.seed(0)

    def seed(self, number: int) -> str:
        """Return the seed of a round, counted from 1; number 0 is the commitment."""
        if number > self.rounds:
            raise DataError(f"the secret serves {self.rounds} rounds, and this is round {number}: commit to a new one")
        value = bytes.fromhex(self.hexadecimal)
        for _ in range(self.rounds - number):
            value = sha256(value).digest()
        return _PREFIX + value.hex()


def draw_secret(rounds: int = 1) -> Secret:
    """Draw a secret from the system's randomness."""
    return Secret(secrets.token_hex(32), rounds)


def follows(seed: str, before: str) -> bool:
    """Say whether a revealed seed is the one that was fixed before it was revealed."""
    return sha256(bytes.fromhex(seed.removeprefix(_PREFIX))).hexdigest() == before.removeprefix(_PREFIX)


def generator(seed: str) -> np.random.Generator:
    """Return the generator of a round's draws."""
    return np.random.default_rng(int(seed.removeprefix(_PREFIX), 16))


def secret_path(campaign: Path) -> Path:
    """Return where a campaign's secret is kept."""
    return campaign.with_suffix(".secret")


def save_secret(secret: Secret, path: Path) -> None:
    """Write a secret that nobody else may read, and never over another one."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise DataError(
            f"{path.name}: there is a secret already; a commitment that was published must not be replaced"
        ) from None
    with os.fdopen(handle, "w") as file:
        json.dump({"secret": secret.hexadecimal, "rounds": secret.rounds}, file)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def load_secret(path: Path) -> Secret:
    """Read a secret."""
    try:
        plain = json.loads(path.read_text())
        return Secret(plain["secret"], plain["rounds"])
    except FileNotFoundError:
        raise DataError(
            f"{path.name}: the secret that the campaign is committed to is missing; put it back beside it"
        ) from None
    except (ValueError, KeyError, TypeError, ParameterError) as error:
        raise DataError(f"{path.name}: this is no secret as `troth commit` writes it: {error}") from None
