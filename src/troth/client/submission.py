"""What a provider sends: its rows, or statistics that are made of them here, with a digest to compare."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from hashlib import file_digest, sha256
from typing import TYPE_CHECKING, Any

from troth.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from troth.client.api import Client


@dataclass(frozen=True)
class Package:
    """What is sent, under which name, and its digest."""

    content: bytes | Path
    name: str
    sha256: str


def prepare(
    client: Client, campaign: dict[str, Any], held: dict[str, Any], file: Path, *, statistics: bool = False
) -> Package:
    """Return what is sent to a round of a campaign."""
    if not file.is_file():
        raise DataError(f"{file}: there is no such file")
    if not statistics:
        return Package(file, file.name, _digest(file))
    from troth.campaigns.statistics_file import make_statistics
    from troth.campaigns.terms import Campaign
    from troth.data.files import stem

    terms = Campaign.from_dict(tomllib.loads(client.download(campaign["id"], "campaign.toml").decode()))
    made = make_statistics(terms, file, campaign["provider"])
    if held["day"] is not None:
        made["days"] = [entry for entry in made["days"] if entry["day"] == held["day"]]
        if not made["days"]:
            raise DataError(f"{file.name}: has no rows of day {held['day']}, which this round is about")
    raw = (json.dumps(made, indent=1, ensure_ascii=False) + "\n").encode()
    return Package(raw, f"{stem(file)}.statistics.json", sha256(raw).hexdigest())


def send(
    client: Client, campaign: str, number: int, package: Package, watch: Callable[[str, int, int], None] | None
) -> dict[str, Any]:
    """Send it, and tell how far it is."""
    told = None if watch is None else lambda done, total: watch("sending", done, total)
    return client.submit(campaign, number, package.content, package.name, watch=told)


def check_receipt(package: Package, sent: dict[str, Any]) -> None:
    """Refuse to go on if the service has read other bytes than those that are here."""
    if sent.get("sha256") != package.sha256:
        raise DataError(
            f"{package.name}: the service has read other bytes than those here (SHA-256 {sent.get('sha256')}, here "
            f"{package.sha256}); nothing was confirmed: send it again once the file does not change any more"
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
