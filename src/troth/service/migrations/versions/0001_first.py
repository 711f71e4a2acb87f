"""The first schema. New databases get the newest one from `troth.service.schema`; later steps upgrade older ones."""

revision = "0001"
down_revision = None
