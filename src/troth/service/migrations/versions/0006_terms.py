"""The terms that a receipt was signed under."""

import sqlalchemy as sql
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add a column; earlier receipts do not say their terms."""
    op.add_column("reports", sql.Column("terms", sql.Text))
