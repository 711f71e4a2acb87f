"""A queue of uploads, and how often a round's payments were attempted."""

import sqlalchemy as sql
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the queue, and two columns to the rounds."""
    op.add_column("rounds", sql.Column("attempts", sql.Integer, nullable=False, server_default="0"))
    op.add_column("rounds", sql.Column("attempted", sql.Text))
    texts = {name: sql.Column(name, sql.Text, nullable=False) for name in ("name", "sha256", "spool", "received")}
    numbers = {name: sql.Column(name, sql.BigInteger, nullable=False) for name in ("bytes", "milliseconds", "expanded")}
    op.create_table(
        "queued",
        sql.Column("id", sql.Text, primary_key=True),
        sql.Column("round", sql.Text, sql.ForeignKey("rounds.id"), nullable=False, index=True),
        sql.Column("member", sql.Text, sql.ForeignKey("members.id"), nullable=False, index=True),
        sql.Column("account", sql.Text, sql.ForeignKey("accounts.id"), nullable=False, index=True),
        texts["name"],
        texts["sha256"],
        texts["spool"],
        numbers["bytes"],
        texts["received"],
        sql.Column("state", sql.Text, nullable=False, index=True),
        sql.Column("attempts", sql.Integer, nullable=False),
        sql.Column("claimed", sql.Text),
        sql.Column("done", sql.Text),
        numbers["milliseconds"],
        numbers["expanded"],
        sql.Column("status", sql.Integer),
        sql.Column("problem", sql.Text),
    )
