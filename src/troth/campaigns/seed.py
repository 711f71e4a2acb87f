"""The seed of rules that draw: unknown while reports come in, and verifiable by everybody afterwards.

A secret s is hashed N times, and H^N(s) is published before anybody reports. Round k uses and then reveals the link
H^(N−k)(s), whose hash is what was revealed before. The seed of round k is the hash of its link, of the root over all of
its reports, and of a public beacon's value if the terms name one. So whoever chose the secret does not know the seed
before the last report is in, and whoever reports does not know the link.
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
    """A secret and how many rounds it serves.

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
        """What is published before anybody reports."""
        return self.link(0)

    def link(self, number: int) -> str:
        """Return what a round, counted from 1, reveals; number 0 is the commitment."""
        if number > self.rounds:
            raise DataError(f"the secret serves {self.rounds} rounds, and this is round {number}: commit to a new one")
        return _PREFIX + _hashed(self.hexadecimal, self.rounds - number)


def draw_secret(rounds: int = 1) -> Secret:
    """Draw a secret from the system's randomness."""
    return Secret(secrets.token_hex(32), rounds)


def follows(link: str, previous: str, steps: int = 1) -> bool:
    """Return whether a revealed link is the one that was fixed that many steps before."""
    return _hashed(link.removeprefix(_PREFIX), steps) == previous.removeprefix(_PREFIX)


def _hashed(hexadecimal: str, times: int) -> str:
    value = bytes.fromhex(hexadecimal)
    for _ in range(times):
        value = sha256(value).digest()
    return value.hex()


def derive_seed(link: str, roots: Sequence[str], beacon: str | None = None) -> str:
    """Return the seed of a round: a hash of its link, the roots over the reports it is paid by, and the beacon's value.

    Examples
    --------
    >>> link = Secret("00" * 32).link(1)
    >>> derive_seed(link, ["ab" * 32]) == derive_seed(link, ["ac" * 32])
    False
    """
    return digest({"link": link, "roots": list(roots), "beacon": beacon})


def generator(seed: str) -> np.random.Generator:
    """Return the generator of a round's draws."""
    return np.random.default_rng(int(seed.removeprefix(_PREFIX), 16))


def secret_path(campaign: Path) -> Path:
    """Return where a campaign's secret is kept."""
    return campaign.with_suffix(".secret")


def save_secret(secret: Secret, path: Path) -> None:
    """Write a secret that nobody else may read, and never over another one."""
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
    """Note beside a secret which seed each round makes of it, before its link is revealed.

    A link that was revealed for some reports is refused for others: whoever knows it could choose the report that earns
    most. So a ledger or a database that was restored from an older copy cannot be paid again with other reports.
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
