"""What a round's payments were found to rest on, and whether it is paid although the model does not fit."""

import sqlalchemy as sql
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add two columns to the rounds."""
    op.add_column("rounds", sql.Column("verdict", sql.Text))
    op.add_column("rounds", sql.Column("anyway", sql.Boolean, nullable=False, server_default=sql.false()))
