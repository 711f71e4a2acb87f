"""The terms that a receipt was signed under."""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a column; earlier receipts do not say their terms."""
    op.add_column("reports", sql.Column("terms", sql.Text))
