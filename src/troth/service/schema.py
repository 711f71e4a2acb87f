"""The tables, as new databases get them. A change here needs a step in `migrations` for databases that are older.

Identifiers are random: they tell nothing about how many others there are. Times are text in UTC, money is whole minor
units. The ledger is only ever added to: the database itself refuses anything else.
"""

from __future__ import annotations

import secrets
from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    event,
)

metadata = MetaData()
_APPEND_ONLY = {
    "postgresql": (
        """
CREATE FUNCTION troth_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the ledger is append-only';
END $$""",
        """
CREATE TRIGGER ledger_lines_stand BEFORE UPDATE OR DELETE ON ledger_lines
  FOR EACH ROW EXECUTE FUNCTION troth_refuse_change()""",
        """
CREATE TRIGGER ledger_stands BEFORE TRUNCATE ON ledger_lines
  FOR EACH STATEMENT EXECUTE FUNCTION troth_refuse_change()""",
    ),
    "sqlite": (
        """
CREATE TRIGGER ledger_lines_update_refused BEFORE UPDATE ON ledger_lines
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
        """
CREATE TRIGGER ledger_lines_delete_refused BEFORE DELETE ON ledger_lines
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
        # REPLACE deletes without asking the trigger of DELETE
        """
CREATE TRIGGER ledger_lines_replace_refused BEFORE INSERT ON ledger_lines
WHEN EXISTS (SELECT 1 FROM ledger_lines WHERE campaign = NEW.campaign AND number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    ),
}


def new_id() -> str:
    """Return a random identifier."""
    return secrets.token_hex(8)


def _id() -> Column[str]:
    return Column("id", Text, primary_key=True, default=new_id)


def _of(name: str, table: str, **options: Any) -> Column[Any]:
    return Column(name, Text, ForeignKey(f"{table}.id"), **{"nullable": False, "index": True, **options})


def _time(name: str, **options: Any) -> Column[Any]:
    return Column(name, Text, **options)


accounts = Table(
    "accounts",
    metadata,
    _id(),
    Column("name", Text, nullable=False),
    Column("handle", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("password", Text),
    _time("created", nullable=False),
    _time("revoked"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", Text, primary_key=True),
    _of("account", "accounts"),
    _time("created", nullable=False),
    _time("expires", nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    _id(),
    Column("hash", Text, nullable=False, unique=True),
    _of("account", "accounts"),
    Column("label", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    _time("created", nullable=False),
    _time("expires", nullable=False),
    _time("used"),
    _time("revoked"),
)

links = Table(
    "links",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    _of("account", "accounts", nullable=True),
    _of("member", "members", nullable=True),
    _time("created", nullable=False),
    _time("expires", nullable=False),
    _time("used"),
)

attempts = Table(
    "attempts",
    metadata,
    _id(),
    Column("subject", Text, nullable=False, index=True),
    _time("at", nullable=False),
)

campaigns = Table(
    "campaigns",
    metadata,
    _id(),
    _of("owner", "accounts"),
    Column("plain", Text, nullable=False),
    Column("secret", Text),
    Column("secret_rounds", Integer),
    Column("state", Text, nullable=False),
    Column("publish_at_once", Boolean, nullable=False),
    Column("share_ledger", Boolean, nullable=False),
    _time("created", nullable=False),
)

members = Table(
    "members",
    metadata,
    _id(),
    _of("campaign", "campaigns"),
    Column("name", Text, nullable=False),
    Column("identity", Text, nullable=False),
    Column("related", Text),
    _of("account", "accounts", nullable=True),
    _time("created", nullable=False),
    _time("joined"),
    _time("revoked"),
    UniqueConstraint("campaign", "name", name="one_name_per_campaign"),
    UniqueConstraint("campaign", "account", name="one_membership_per_account"),
)

rounds = Table(
    "rounds",
    metadata,
    _id(),
    _of("campaign", "campaigns"),
    Column("number", Integer, nullable=False),
    Column("day", Text),
    Column("state", Text, nullable=False),
    Column("final", Boolean, nullable=False),
    _time("deadline", index=True),
    _time("opened", nullable=False),
    _time("closed"),
    _time("settled"),
    _time("paid"),
    _time("published"),
    Column("problem", Text),
    Column("amount", BigInteger),
    Column("head", Text),
    UniqueConstraint("campaign", "number", name="one_round_per_number"),
    UniqueConstraint("campaign", "day", name="one_round_per_day"),
)

uploads = Table(
    "uploads",
    metadata,
    _id(),
    _of("round", "rounds"),
    _of("member", "members"),
    Column("name", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("data_digest", Text),
    Column("rows", BigInteger, nullable=False),
    Column("summary", Text, nullable=False),
    Column("shown", Text, nullable=False),
    _time("created", nullable=False),
)

reports = Table(
    "reports",
    metadata,
    _id(),
    _of("campaign", "campaigns"),
    _of("round", "rounds"),
    _of("member", "members"),
    _of("upload", "uploads"),
    _time("confirmed", nullable=False),
    UniqueConstraint("campaign", "round", "member", name="one_report_per_provider_and_round"),
)

ledger_lines = Table(
    "ledger_lines",
    metadata,
    Column("campaign", Text, ForeignKey("campaigns.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("line", LargeBinary, nullable=False),
)
for _dialect, _statements in _APPEND_ONLY.items():
    for _statement in _statements:
        _trigger: Any = DDL(_statement)  # type: ignore[no-untyped-call]
        event.listen(ledger_lines, "after_create", _trigger.execute_if(dialect=_dialect))

replies = Table(
    "replies",
    metadata,
    Column("account", Text, ForeignKey("accounts.id"), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    _time("created", nullable=False),
)
