"""Run migrations on the connection that `troth.service.migrate` passes."""

from alembic import context

from troth.service.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
