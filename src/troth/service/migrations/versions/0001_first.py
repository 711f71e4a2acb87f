"""The first schema. New databases get the newest one from `troth.service.schema`; later steps change older ones."""

revision = "0001"
down_revision = None
