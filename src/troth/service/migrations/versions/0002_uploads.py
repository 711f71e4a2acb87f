"""How many rows of an upload were left out, and when another upload replaced it as the report."""

import sqlalchemy as sql
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add three columns; the counts of earlier uploads are unknown and become 0."""
    for name in ("dropped", "unnamed"):
        op.add_column("uploads", sql.Column(name, sql.BigInteger, nullable=False, server_default="0"))
    op.add_column("uploads", sql.Column("replaced", sql.Text))
