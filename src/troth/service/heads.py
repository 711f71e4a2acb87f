"""Heads of ledgers: signed, stored outside the database, and published, so that nobody can be shown two histories.

The lines of a ledger are the leaves of a Merkle tree. A head is its root, signed; for two heads, a short proof shows
that the later ledger begins with the earlier one. A database that was edited, or restored from an older copy, no longer
continues the last signed head: then nothing is paid until the operator begins a new epoch, which everybody is warned
about.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from sqlalchemy import func, select

from troth.campaigns.records.ledger import Ledger, LedgerError
from troth.campaigns.records.merkle import consistency_proof, root
from troth.campaigns.records.statements import HEAD
from troth.campaigns.rounds import used_seeds
from troth.campaigns.terms import Campaign
from troth.service.keys import Keys
from troth.service.ledgers import load_ledger
from troth.service.schema import ledger_lines
from troth.service.store import Store, now

logger = logging.getLogger("troth.service")
TARGETS = "TROTH_PUBLISH_HEADS"
"""The environment variable with the files and addresses that heads are published to, as a list in JSON."""


def check_continues(keys: Keys, campaign: str, ledger: Ledger) -> None:
    """Raise if a ledger does not begin with the lines of the last signed head."""
    signed = keys.heads(campaign)
    if not signed:
        return
    last = signed[-1]
    leaves = ledger.leaves(last["lines"])
    if len(leaves) < last["lines"] or root(leaves) != last["root"]:
        raise LedgerError(
            f"the database's ledger is not the one whose head was signed at {last['time']} ({last['lines']} "
            f"lines; this one has {len(ledger.lines)}): it was edited, or an older copy was restored. Restore the "
            f"newest copy, or continue from this one with: troth service new-epoch {campaign}"
        )


def record_seeds(keys: Keys, terms: Campaign, ledger: Ledger) -> None:
    """Record the seeds that a campaign's secret has made, and reject any that differ from earlier records."""
    if terms.commitment is not None:
        keys.record_use(terms.commitment, used_seeds(ledger))


def sign_head(keys: Keys, campaign: str, ledger: Ledger) -> None:
    """Sign and publish the head of a ledger that has grown, once its lines are stored."""
    signed = keys.heads(campaign)
    signed_lines, epoch = (signed[-1]["lines"], signed[-1]["epoch"]) if signed else (0, 1)
    for lines, entry in enumerate(ledger.entries, 1):
        last = lines == len(ledger.entries)
        if lines > signed_lines and (last or entry["entry"] == "close"):  # each round can be published by itself
            _add(keys, campaign, ledger if last else Ledger.from_lines(ledger.lines[:lines]), epoch)


def catch_up(store: Store) -> None:
    """Sign the heads of ledgers that a killed process stored but did not sign."""
    with store.read() as tx:
        sizes = select(ledger_lines.c.campaign, func.count()).group_by(ledger_lines.c.campaign)
        for campaign, lines in tx.execute(sizes).all():
            signed = store.keys.heads(campaign)
            if not signed or signed[-1]["lines"] < lines:
                ledger = load_ledger(tx, campaign)
                try:
                    check_continues(store.keys, campaign, ledger)
                except LedgerError as error:
                    logger.error({"event": "head", "campaign": campaign, "error": str(error)})
                else:
                    sign_head(store.keys, campaign, ledger)


def new_epoch(keys: Keys, campaign: str, ledger: Ledger) -> dict[str, Any]:
    """Continue from a ledger that does not match the last head; everybody who has seen that head is warned."""
    signed = keys.heads(campaign)
    return _add(keys, campaign, ledger, signed[-1]["epoch"] + 1 if signed else 1)


def last_head(keys: Keys, campaign: str, lines: int) -> dict[str, Any] | None:
    """Return the last head with at most ``lines`` lines."""
    return next((head for head in reversed(keys.heads(campaign)) if head["lines"] <= lines), None)


def head_with_proof(keys: Keys, campaign: str, ledger: Ledger, lines: int, since: int) -> dict[str, Any] | None:
    """Return the last head with at most ``lines`` lines, and the proof that it continues the one with ``since``."""
    head = last_head(keys, campaign, lines)
    if head is None:
        return None
    return {**head, "proof": consistency_proof(ledger.leaves(head["lines"]), since)}


def _add(keys: Keys, campaign: str, ledger: Ledger, epoch: int) -> dict[str, Any]:
    statement = {"kind": HEAD, "campaign": campaign, "epoch": epoch, "lines": len(ledger.lines)}
    head = keys.sign({**statement, "root": root(ledger.leaves()), "head": ledger.head, "time": now()})
    keys.add_head(campaign, head)
    for target in json.loads(os.environ.get(TARGETS, "[]")):
        _publish(target, head)
    return head


def _publish(target: str, head: dict[str, Any]) -> None:
    """Append a head to a file, or send it to an address; failures are logged and stop no payment."""
    line = json.dumps(head, sort_keys=True).encode() + b"\n"
    try:
        if target.startswith(("https://", "http://")):
            request = Request(target, data=line, headers={"Content-Type": "application/json"}, method="POST")  # noqa: S310
            urlopen(request, timeout=10).close()  # noqa: S310 (the operator's own address, http or https)
            return
        with Path(target).open("ab") as file:
            file.write(line)
    except OSError as error:
        logger.error({"event": "head not published", "target": target, "error": str(error)})
