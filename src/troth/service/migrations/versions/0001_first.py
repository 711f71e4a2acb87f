"""The first schema. New databases get the newest one from `troth.service.schema`; later steps change older ones."""

from __future__ import annotations

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None
