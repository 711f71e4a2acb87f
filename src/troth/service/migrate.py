"""Migrate a database to this version's schema: one process at a time, after a backup, all or nothing.

A new database gets the tables of `schema`; an older one is upgraded step by step. The backup of an SQLite database is a
file next to it; in PostgreSQL it is another schema. A database of a newer version than this program is refused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path

import sqlalchemy as sql
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError

from troth.campaigns.records.ledger import locked
from troth.core.errors import DataError
from troth.service.schema import metadata
from troth.service.store import Store

_LOCK = 7_264_511_908  # any number, the same in every process


def migrate(store: Store) -> str | None:
    """Create or upgrade the schema; return the location of the backup, or None if none was needed."""
    with _migration_lock(store), as_file(files("troth.service") / "migrations") as folder:
        config = Config()
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        script = ScriptDirectory.from_config(config)
        with store.engine.connect() as connection:
            current = MigrationContext.configure(connection).get_current_revision()
        if current == script.get_current_head():
            return None
        if current is None:
            with store.write() as connection:
                metadata.create_all(connection)
                MigrationContext.configure(connection).stamp(script, "head")
            return None
        try:
            script.get_revision(current)
        except CommandError:
            raise DataError(
                f"the database has schema {current}, which this version of troth does not know; "
                "it was written by a newer one: upgrade troth"
            ) from None
        backup = back_up(store, current)
        with store.write() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        return backup


def back_up(store: Store, label: str) -> str:
    """Copy the database and return the location of the copy."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    if store.file is not None:
        copy = store.file.with_name(f"{store.file.name}.{label}.{stamp}.backup")
        copy_sqlite(store.file, copy)
        return str(copy)
    schema = f"troth_backup_{label}_{stamp}".lower()
    with store.write() as connection:
        quote = connection.dialect.identifier_preparer.quote
        connection.execute(sql.schema.CreateSchema(schema))
        for table in sql.inspect(connection).get_table_names():
            connection.exec_driver_sql(f"CREATE TABLE {quote(schema)}.{quote(table)} AS TABLE {quote(table)}")
    return f"schema {schema}"


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a consistent snapshot of an SQLite file that others may be writing to."""
    target.touch(mode=0o600)  # before it has any content
    target.chmod(0o600)
    with sqlite3.connect(source, timeout=60) as origin, sqlite3.connect(target) as copy:
        origin.backup(copy)
    copy.close()
    origin.close()


@contextmanager
def _migration_lock(store: Store) -> Iterator[None]:
    """Let one process migrate at a time; the lock ends with its process."""
    if store.file is not None:
        store.file.touch(mode=0o600)
        # not the file itself: closing it would drop the locks that SQLite holds on it for this process
        with locked(store.file.parent):
            yield
        return
    with store.engine.connect() as connection:
        connection.execute(sql.select(sql.func.pg_advisory_lock(_LOCK)))
        try:
            yield
        finally:
            connection.execute(sql.select(sql.func.pg_advisory_unlock(_LOCK)))
