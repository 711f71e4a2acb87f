"""Heads of ledgers seen on this machine, which expose a service that later shows a different history."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from troth.campaigns.records.merkle import root
from troth.campaigns.records.statements import StatementError, check_head
from troth.client.credentials import credentials_path, write_private
from troth.client.http import RefusedError
from troth.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from troth.campaigns.records.ledger import Ledger
    from troth.client.api import Client


def heads_path() -> Path:
    """Return where heads are stored."""
    return credentials_path().with_name("heads.json")


def signed_head(client: Client, campaign: Mapping[str, Any], since: int = 0) -> dict[str, Any] | None:
    """Return the latest head of a campaign's ledger, or None if there is none yet.

    It carries a proof that it continues the ledger's first ``since`` lines.
    """
    try:
        head: dict[str, Any] = client.show_head(campaign["id"], since=since)
    except RefusedError as error:
        if error.status != 409:
            raise
        return None
    return head


def check_lines(head: Mapping[str, Any] | None, ledger: Ledger) -> None:
    """Raise unless a downloaded ledger begins with the lines that a head covers."""
    if head is None:
        return
    check_head(None, head)
    if root(ledger.leaves(head["lines"])) != head["root"]:
        raise StatementError(
            f"the ledger that the service sends, of {len(ledger.lines)} lines, does not begin with the {head['lines']} "
            "lines whose head it has signed: one of the two was changed or cut off"
        )


def compare_with_seen(head: Mapping[str, Any]) -> bool:
    """Return whether a signed head was seen on this machine; raise if it contradicts one that was."""
    records = [record for record in _seen_heads().values() if record["campaign"] == head["campaign"]]
    for record in records:
        if (record["key"], record["epoch"]) != (head["key"], head["epoch"]):
            raise StatementError("the head has another key or epoch than the one seen on this machine")
        if record["lines"] == head["lines"] and record["root"] != head["root"]:
            raise StatementError(
                "the ledger's head differs from the one that this machine saw: the service shows two versions"
            )
    return any(record["lines"] == head["lines"] for record in records)


def _seen_heads() -> dict[str, Any]:
    path = heads_path()
    try:
        heads: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    except ValueError:
        raise DataError(f"{path}: cannot be read; keep a copy of it, and remove it") from None
    return heads


def watch_head(client: Client, campaign: Mapping[str, Any]) -> str | None:
    """Compare a campaign's head with the one that was seen before, and return the problem, or None.

    A head replaces an earlier one only if it continues it; otherwise the warning would not be repeated. Providers see
    the published part of the ledger and the analyst all of it, so their heads are stored separately.
    """
    seen_heads = _seen_heads()
    key = f"{client.server} {campaign['id']} {'provider' if 'provider' in campaign else 'analyst'}"
    earlier = seen_heads.get(key)
    head = signed_head(client, campaign, since=0 if earlier is None else earlier["lines"])
    if head is None:
        return None if earlier is None else "the service no longer shows a head, but you have seen one"
    try:
        if head["campaign"] != campaign["id"]:
            raise StatementError("the head belongs to another campaign")
        check_head(earlier, head)
    except StatementError as error:
        return str(error)
    seen_heads[key] = {name: value for name, value in head.items() if name != "proof"}
    write_private(heads_path(), seen_heads)
    return None
