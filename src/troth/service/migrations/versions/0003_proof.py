"""Nonces and signatures of receipts, values of beacons, and states of payouts."""

import sqlalchemy as sql
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add what is missing; reports from before have no nonces and no receipts."""
    nonces = [(table, "nonce") for table in ("uploads", "queued", "reports")]
    for table, column in (*nonces, ("reports", "receipt"), ("rounds", "beacon")):
        op.add_column(table, sql.Column(column, sql.Text, nullable=True))
    op.create_table(
        "payouts",
        sql.Column("id", sql.Text, primary_key=True),
        sql.Column("campaign", sql.Text, sql.ForeignKey("campaigns.id"), nullable=False, index=True),
        sql.Column("batch", sql.Integer),
        sql.Column("state", sql.Text, nullable=False),
        sql.Column("changed", sql.Text, nullable=False),
        sql.Column("reason", sql.Text),
    )
