"""The ledger is only ever added to: the database itself refuses anything else."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_POSTGRESQL = """
CREATE FUNCTION troth_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the ledger is append-only';
END $$;
CREATE TRIGGER ledger_lines_stand BEFORE UPDATE OR DELETE ON ledger_lines
  FOR EACH ROW EXECUTE FUNCTION troth_refuse_change();
CREATE TRIGGER ledger_stands BEFORE TRUNCATE ON ledger_lines
  FOR EACH STATEMENT EXECUTE FUNCTION troth_refuse_change();
"""

_SQLITE = """
CREATE TRIGGER ledger_lines_{event}_refused BEFORE {event} ON ledger_lines
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END
"""

_SQLITE_REPLACE = """
CREATE TRIGGER ledger_lines_REPLACE_refused BEFORE INSERT ON ledger_lines
WHEN EXISTS (SELECT 1 FROM ledger_lines WHERE campaign = NEW.campaign AND number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END
"""


def upgrade() -> None:
    """Go forward."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(_POSTGRESQL)
        return
    for event in ("UPDATE", "DELETE"):
        op.execute(_SQLITE.format(event=event))
    op.execute(_SQLITE_REPLACE)  # REPLACE deletes without asking the trigger of DELETE
