"""Ledgers in the database: line by line, append-only."""

from __future__ import annotations

from sqlalchemy import Connection, func, insert, select

from troth.campaigns.records.ledger import Ledger
from troth.campaigns.records.verify import campaign_of
from troth.results.result import Result
from troth.results.tasks import result_of
from troth.service.errors import ConflictError
from troth.service.schema import ledger_files, ledger_lines

_MAX_RECENT = 8
_recent: dict[tuple[str, int, bytes], Result] = {}  # by campaign, number of lines and last line


def height(tx: Connection, campaign: str) -> int:
    """Return how many lines a campaign's ledger has."""
    return tx.scalar(select(func.count()).select_from(ledger_lines).where(ledger_lines.c.campaign == campaign)) or 0


def load_ledger(tx: Connection, campaign: str) -> Ledger:
    """Read a campaign's ledger and check its hash chain."""
    query = select(ledger_lines.c.line).where(ledger_lines.c.campaign == campaign).order_by(ledger_lines.c.number)
    return Ledger.from_lines([bytes(line) for line in tx.scalars(query)])


def load_file(tx: Connection, campaign: str) -> bytes | None:
    """Return the file of shares that belongs to a ledger of tasks."""
    content = tx.scalar(select(ledger_files.c.content).where(ledger_files.c.campaign == campaign))
    return None if content is None else bytes(content)


def add_lines(tx: Connection, campaign: str, ledger: Ledger, count: int, file: bytes | None = None) -> None:
    """Append the lines of a ledger after the first ``count``, if the database still has exactly those.

    ``file`` is the file of shares of tasks.
    """
    if height(tx, campaign) != count:
        raise ConflictError("the ledger has grown meanwhile")
    new = [
        {"campaign": campaign, "number": number, "line": line}
        for number, line in enumerate(ledger.lines[count:], count)
    ]
    if new:
        tx.execute(insert(ledger_lines), new)
    if file is not None:
        tx.execute(insert(ledger_files).values(campaign=campaign, content=file))


def load_result(tx: Connection, campaign: str) -> Result | None:
    """Return everything that a campaign has paid, or None if its ledger is empty."""
    lines = height(tx, campaign)
    if not lines:
        return None
    last = select(ledger_lines.c.line).where(ledger_lines.c.campaign == campaign, ledger_lines.c.number == lines - 1)
    key = (campaign, lines, bytes(tx.scalar(last) or b""))
    result = _recent.get(key)
    if result is None:
        ledger = load_ledger(tx, campaign)
        result = _recent[key] = result_of(campaign_of(ledger), ledger, load_file(tx, campaign))
        while len(_recent) > _MAX_RECENT:
            _recent.pop(next(iter(_recent)), None)
    return result
