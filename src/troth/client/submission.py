"""The payload of a submission: rows, or statistics that are computed from them on the provider's machine."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from hashlib import file_digest, sha256
from typing import TYPE_CHECKING, Any

from troth.campaigns.records.statements import RECEIPT, check_signature
from troth.core.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from troth.client.api import Client


@dataclass(frozen=True)
class Package:
    """The payload of a submission: content, file name and digest."""

    content: bytes | Path
    name: str
    sha256: str


def prepare(
    client: Client, campaign: dict[str, Any], round_shown: dict[str, Any], file: Path, *, statistics: bool = False
) -> Package:
    """Return the payload of a submission to a round."""
    if not file.is_file():
        raise DataError(f"{file}: there is no such file")
    if not statistics:
        with file.open("rb") as rows:
            return Package(file, file.name, file_digest(rows, "sha256").hexdigest())
    if campaign["task"] is not None:
        raise DataError("--statistics does not work for campaigns of tasks; send rows")
    from troth.campaigns.statistics_file import make_statistics
    from troth.campaigns.terms import Campaign
    from troth.data.files import stem

    terms = Campaign.from_dict(tomllib.loads(client.campaign_file(campaign["id"]).decode()))
    plain = make_statistics(terms, file, campaign["provider"])
    day = round_shown["day"]
    if day is not None:
        plain["days"] = [entry for entry in plain["days"] if entry["day"] == day]
        if not plain["days"]:
            raise DataError(f"{file.name}: has no rows for day {day}, the day of this round")
    raw = (json.dumps(plain, indent=1, ensure_ascii=False) + "\n").encode()
    return Package(raw, f"{stem(file)}.statistics.json", sha256(raw).hexdigest())


def check_digest(package: Package, submission: dict[str, Any]) -> None:
    """Raise if the service has read different bytes."""
    if submission.get("sha256") != package.sha256:
        raise DataError(
            f"{package.name}: the service has read different bytes (SHA-256 {submission.get('sha256')}, here "
            f"{package.sha256}); nothing was confirmed: send it again once the file no longer changes"
        )


def check_signed(submission: dict[str, Any], confirmed: dict[str, Any], nonce: str) -> dict[str, Any]:
    """Return the signed receipt of a submission; raise if it is for something else."""
    receipt: dict[str, Any] = confirmed.get("receipt") or {}
    check_signature(receipt, RECEIPT)
    fields = ("campaign", "round", "provider", "sha256", "summary", "tasks")
    matches = all(receipt.get(name) == submission[name] for name in fields)
    if not matches or (receipt["nonce"], receipt["own_nonce"]) != (submission["nonce"], nonce):
        raise DataError("the receipt does not match what you sent; keep a copy of what you sent, and ask the analyst")
    return receipt
