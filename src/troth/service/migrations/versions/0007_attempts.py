"""Which process attempts to pay a round: its number, when it started, and its machine, each in a column."""

import sqlalchemy as sql
from alembic import op

revision = "0007"
down_revision = "0006"

_rounds = sql.table(
    "rounds", *(sql.column(name) for name in ("id", "attempted", "attempt_process", "attempt_started", "attempt_host"))
)


def upgrade() -> None:
    """Add three columns, and move what the time of an attempt was stored with into them."""
    op.add_column("rounds", sql.Column("attempt_process", sql.Integer))
    op.add_column("rounds", sql.Column("attempt_started", sql.Text))
    op.add_column("rounds", sql.Column("attempt_host", sql.Text))
    tx = op.get_bind()
    for row in tx.execute(sql.select(_rounds).where(_rounds.c.attempted.is_not(None))).all():
        time, process, started, host = row.attempted.split(" ", 3)
        moved = {"attempt_process": int(process), "attempt_started": started, "attempt_host": host}
        tx.execute(_rounds.update().where(_rounds.c.id == row.id).values(attempted=time, **moved))
