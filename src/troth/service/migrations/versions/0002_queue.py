"""A queue of uploads, and how often a round's payments were attempted."""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

from troth.service.schema import queued

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the queue, and two columns to the rounds."""
    op.add_column("rounds", sql.Column("attempts", sql.Integer, nullable=False, server_default="0"))
    op.add_column("rounds", sql.Column("attempted", sql.Text))
    queued.create(op.get_bind())
