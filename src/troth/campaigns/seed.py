"""The seed of rules that draw: unpredictable while reports come in, and verifiable by everybody afterwards.

A secret s is hashed N times, and H^N(s) is published before anybody reports. Round k uses and then reveals the link
H^(N−k)(s), whose hash is the previous link. The seed of round k is the hash of its link, of the root over all of its
reports, and of a public beacon's value if the terms name one. So whoever chose the secret does not know the seed before
the last report is in, and providers do not know the link.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from troth.campaigns.private_files import create_private, replace_private
from troth.campaigns.records.canonical_json import digest
from troth.core.errors import DataError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_PREFIX = "sha256:"


@dataclass(frozen=True)
class Secret:
    """A secret, and the number of rounds that it serves.

    Examples
    --------
    >>> secret = Secret("00" * 32, rounds=2)
    >>> follows(secret.link(1), secret.commitment), follows(secret.link(2), secret.link(1))
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
        """The hash that is published before anybody reports."""
        return self.link(0)

    def link(self, number: int) -> str:
        """Return the link that a round reveals, counted from 1; link 0 is the commitment."""
        if number > self.rounds:
            raise DataError(f"the secret serves {self.rounds} rounds, and this is round {number}: commit to a new one")
        return _PREFIX + _hashed(self.hexadecimal, self.rounds - number)


def draw_secret(rounds: int = 1) -> Secret:
    """Draw a secret from the system's random source."""
    return Secret(secrets.token_hex(32), rounds)


def follows(link: str, previous: str, steps: int = 1) -> bool:
    """Return whether a link hashes to a previous one in a number of steps."""
    return _hashed(link.removeprefix(_PREFIX), steps) == previous.removeprefix(_PREFIX)


def _hashed(hexadecimal: str, times: int) -> str:
    value = bytes.fromhex(hexadecimal)
    for _ in range(times):
        value = sha256(value).digest()
    return value.hex()


def derive_seed(link: str, roots: Sequence[str], beacon: str | None = None) -> str:
    """Return the seed of a round: a hash of its link, the roots over the reports that it uses, and the beacon's value.

    Examples
    --------
    >>> link = Secret("00" * 32).link(1)
    >>> derive_seed(link, ["ab" * 32]) == derive_seed(link, ["ac" * 32])
    False
    """
    return digest({"link": link, "roots": list(roots), "beacon": beacon})


def generator(seed: str) -> np.random.Generator:
    """Return the random generator of a round."""
    return np.random.default_rng(int(seed.removeprefix(_PREFIX), 16))


def secret_path(campaign: Path) -> Path:
    """Return the path of a campaign's secret."""
    return campaign.with_suffix(".secret")


def save_secret(secret: Secret, path: Path) -> None:
    """Write a secret to a file that only its owner can read; refuse to overwrite another one."""
    try:
        create_private(path, _as_json(secret, {}))
    except FileExistsError:
        raise DataError(
            f"{path.name}: there is already a secret; a published commitment must not be replaced"
        ) from None


def load_secret(path: Path) -> Secret:
    """Read a secret."""
    return _load(path)[0]


def record_use(path: Path, seeds: Mapping[int, str]) -> None:
    """Record each round's seed in the file of the secret, before the round's link is revealed.

    A link that was revealed for some reports is rejected for others, because whoever knows it could choose the report
    that earns most. So a ledger or a database that is restored from a backup cannot be paid again with other reports.
    """
    secret, used = _load(path)
    for number, seed in seeds.items():
        if used.setdefault(str(number), seed) != seed:
            raise DataError(
                f"round {number}: its secret was already used for other reports. If you restored a backup, restore a "
                "newer one; otherwise start a new campaign"
            )
    replace_private(path, _as_json(secret, used))


def _as_json(secret: Secret, used: Mapping[str, str]) -> bytes:
    plain = {"secret": secret.hexadecimal, "rounds": secret.rounds, **({"used": dict(used)} if used else {})}
    return json.dumps(plain).encode() + b"\n"


def _load(path: Path) -> tuple[Secret, dict[str, str]]:
    try:
        plain = json.loads(path.read_text())
        return Secret(plain["secret"], plain["rounds"]), dict(plain.get("used", {}))
    except FileNotFoundError:
        raise DataError(f"{path.name}: the secret that the campaign is committed to is missing; put it back") from None
    except (ValueError, KeyError, TypeError, ParameterError) as error:
        raise DataError(f"{path.name}: this is not a secret that `troth commit` wrote: {error}") from None
