"""What providers report on tasks, and the file of shares that belongs to a ledger of tasks."""

import sqlalchemy as sql
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add a column and two tables; earlier reports are on no tasks."""
    op.add_column("uploads", sql.Column("tasks", sql.Text))
    for table, key in (("upload_tasks", "upload"), ("ledger_files", "campaign")):
        op.create_table(
            table,
            sql.Column(key, sql.Text, sql.ForeignKey(f"{key}s.id"), primary_key=True),
            sql.Column("content", sql.LargeBinary, nullable=False),
        )
