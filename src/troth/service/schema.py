"""The tables of a new database. A change here needs a step in `migrations` for existing databases.

Identifiers are random, so that they reveal no counts. Times are text in UTC, money is integer minor units. The ledger
is append-only: triggers reject anything else.
"""

from __future__ import annotations

import json
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
    TypeDecorator,
    UniqueConstraint,
    event,
    false,
)
from sqlalchemy.schema import SchemaItem

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
        # REPLACE deletes rows without firing the trigger of DELETE
        """
CREATE TRIGGER ledger_lines_replace_refused BEFORE INSERT ON ledger_lines
WHEN EXISTS (SELECT 1 FROM ledger_lines WHERE campaign = NEW.campaign AND number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    ),
}


class Json(TypeDecorator[Any]):
    """Plain data, stored as JSON text."""

    impl, cache_ok = Text, True

    def process_bind_param(self, value: Any, dialect: Any) -> str | None:
        """Encode a value."""
        return None if value is None else json.dumps(value)

    def process_result_value(self, value: str | None, dialect: Any) -> Any:
        """Decode a value."""
        return None if value is None else json.loads(value)


def new_id() -> str:
    """Return a random identifier."""
    return secrets.token_hex(8)


def _id() -> Column[str]:
    return Column("id", Text, primary_key=True, default=new_id)


def _reference(name: str, table: str, **options: Any) -> Column[Any]:
    return Column(name, Text, ForeignKey(f"{table}.id"), **{"nullable": False, "index": True, **options})


def _table(name: str, *columns: SchemaItem | str) -> Table:
    """Return a table. A string names a text column, which is nullable if it ends with a question mark."""
    items = [
        Column(item.rstrip("?"), Text, nullable=item.endswith("?")) if isinstance(item, str) else item
        for item in columns
    ]
    return Table(name, metadata, *items)


accounts = _table(
    "accounts",
    _id(),
    "name",
    Column("handle", Text, nullable=False, unique=True),
    *("role", "password?", "created", "revoked?"),
)
sessions = _table(
    "sessions", Column("hash", Text, primary_key=True), _reference("account", "accounts"), "created", "expires"
)
tokens = _table(
    "tokens",
    _id(),
    Column("hash", Text, nullable=False, unique=True),
    _reference("account", "accounts"),
    *("label", "scopes", "created", "expires", "used?", "revoked?"),
)
links = _table(
    "links",
    Column("hash", Text, primary_key=True),
    "kind",
    _reference("account", "accounts", nullable=True),
    _reference("member", "members", nullable=True),
    *("created", "expires", "used?"),
)
attempts = _table("attempts", _id(), Column("subject", Text, nullable=False, index=True), "at")
campaigns = _table(
    "campaigns",
    _id(),
    _reference("owner", "accounts"),
    *("plain", "state"),
    Column("publish_at_once", Boolean, nullable=False),
    Column("share_ledger", Boolean, nullable=False),
    "created",
)
members = _table(
    "members",
    _id(),
    _reference("campaign", "campaigns"),
    *("name", "identity", "group?"),
    _reference("account", "accounts", nullable=True),
    *("created", "joined?", "revoked?"),
    UniqueConstraint("campaign", "name", name="one_name_per_campaign"),
    UniqueConstraint("campaign", "account", name="one_membership_per_account"),
)
rounds = _table(
    "rounds",
    _id(),
    _reference("campaign", "campaigns"),
    Column("number", Integer, nullable=False),
    Column("day", Json),
    "state",
    Column("final", Boolean, nullable=False),
    Column("deadline", Text, index=True),
    *("opened", "closed?", "settled?", "paid?", "published?", "problem?"),
    Column("amount", BigInteger),
    "head?",
    Column("attempts", Integer, nullable=False, server_default="0"),
    "attempted?",
    Column("attempt_process", Integer),
    *("attempt_started?", "attempt_host?", "beacon?"),
    Column("verdict", Json),
    Column("anyway", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("campaign", "number", name="one_round_per_number"),
    UniqueConstraint("campaign", "day", name="one_round_per_day"),
)
uploads = _table(
    "uploads",
    _id(),
    _reference("round", "rounds"),
    _reference("member", "members"),
    *("name", "sha256", "data_digest?"),
    Column("rows", BigInteger, nullable=False),
    Column("summary", Json, nullable=False),
    Column("shown", Json, nullable=False),
    *("created", "nonce", "tasks?"),
    Column("dropped", BigInteger, nullable=False, server_default="0"),
    Column("unnamed", BigInteger, nullable=False, server_default="0"),
    "replaced?",
)
upload_tasks = _table(
    "upload_tasks",
    Column("upload", Text, ForeignKey("uploads.id"), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
queued = _table(
    "queued",
    _id(),
    _reference("round", "rounds"),
    _reference("member", "members"),
    _reference("account", "accounts"),
    *("name", "sha256", "spool"),
    Column("bytes", BigInteger, nullable=False),
    "received",
    Column("state", Text, nullable=False, index=True),
    Column("attempts", Integer, nullable=False),
    *("claimed?", "done?"),
    Column("milliseconds", BigInteger, nullable=False),
    Column("expanded", BigInteger, nullable=False),
    Column("status", Integer),
    *("problem?", "nonce"),
)
reports = _table(
    "reports",
    _id(),
    _reference("campaign", "campaigns"),
    _reference("round", "rounds"),
    _reference("member", "members"),
    _reference("upload", "uploads"),
    *("confirmed", "nonce?", "receipt?", "terms"),
    UniqueConstraint("campaign", "round", "member", name="one_report_per_provider_and_round"),
)
ledger_lines = _table(
    "ledger_lines",
    Column("campaign", Text, ForeignKey("campaigns.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("line", LargeBinary, nullable=False),
)
ledger_files = _table(
    "ledger_files",
    Column("campaign", Text, ForeignKey("campaigns.id"), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
payouts = _table(
    "payouts",
    Column("id", Text, primary_key=True),
    _reference("campaign", "campaigns"),
    Column("batch", Integer),
    *("state", "changed", "reason?"),
)
for _dialect, _statements in _APPEND_ONLY.items():
    for _statement in _statements:
        _trigger: Any = DDL(_statement)  # type: ignore[no-untyped-call]
        event.listen(ledger_lines, "after_create", _trigger.execute_if(dialect=_dialect))

replies = _table(
    "replies",
    Column("account", Text, ForeignKey("accounts.id"), primary_key=True),
    Column("key", Text, primary_key=True),
    "fingerprint",
    Column("status", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    "created",
)
