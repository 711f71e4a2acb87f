"""Migrations bring every schema that was ever released to this one, whoever starts them and however many at once."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sql
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from registry import SOAK
from service.databases import KINDS, Databases, one_system, opened
from service.world import TERMS, make_world, payments_of
from troth.core.errors import DataError
from troth.service import migrate as migrating
from troth.service.migrate import migrate
from troth.service.schema import attempts, metadata, uploads
from troth.service.store import Store

MIGRATE = """
import json, os, sys
from pathlib import Path
from troth.service import migrate as migrating
from troth.service.store import Store
migrating.files = lambda _: Path(sys.argv[3])
together, start = os.pipe()
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        os.close(start)
        os.read(together, 1)
        try:
            said = migrating.migrate(Store(sys.argv[1]))
        except BaseException as error:
            said = f"failed: {error}"
        os.write(1, json.dumps(said).encode() + b"\\n")
        os._exit(0)
os.close(start)  # all set out at once
for _ in range(int(sys.argv[2])):
    os.wait()
"""
SERVICE = Path(migrating.__file__).parent
REVISIONS = sorted(step.name[:4] for step in (SERVICE / "migrations" / "versions").glob("[0-9]*.py"))
HEAD = REVISIONS[-1]
NEXT = """
from alembic import op
revision, down_revision, branch_labels, depends_on = "9998", {head!r}, None, None
def upgrade():
    op.execute("CREATE TABLE half (x INTEGER)")
    op.execute("ALTER TABLE {table} ADD COLUMN y INTEGER")
"""
SCHEMAS = Path(__file__).with_name("schemas")
"""The tables of every released revision, as each database was told to create them: of the last one, those of now."""


def statements(kind: str) -> str:
    """Return what a database is told to create the tables of now."""
    statements: list[str] = []
    engine: Any = sql.create_mock_engine(
        f"{kind}://", lambda statement, *_, **__: statements.append(str(statement.compile(dialect=engine.dialect)))
    )
    metadata.create_all(engine, checkfirst=False)
    compact = ["\n".join(line.rstrip() for line in statement.splitlines() if line.strip()) for statement in statements]
    # a table's indexes have no order
    compact.sort(key=lambda statement: statement if statement.startswith("CREATE INDEX") else "")
    return "\n\n".join(compact) + "\n"


def create(store: Store, kind: str, revision: str) -> None:
    """Make a database as a released version left it."""
    with store.write() as tx:
        for statement in (SCHEMAS / f"{revision}.{kind}.sql").read_text().strip().split("\n\n"):
            tx.exec_driver_sql(statement)
        tx.execute(sql.text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
        tx.execute(sql.text(f"INSERT INTO alembic_version VALUES ('{revision}')"))


def with_next(folder: Path, table: str = "accounts") -> Path:
    """Return the service's folder as a later version would have it, with one more migration."""
    shutil.copytree(SERVICE / "migrations", folder / "migrations", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "migrations" / "versions" / "9998_next.py").write_text(NEXT.format(head=HEAD, table=table))
    return folder


@pytest.fixture
def empty(databases: Databases, kind: str) -> Iterator[str]:
    url = databases.new(kind, empty=True)
    yield url
    databases.remove(url)


def revision(store: Store) -> str | None:
    with store.engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def differences(store: Store) -> list[Any]:
    with store.engine.connect() as connection:
        return list(compare_metadata(MigrationContext.configure(connection), metadata))


def tables(store: Store) -> set[str]:
    return set(sql.inspect(store.engine).get_table_names())


def start(url: str, many: int, service: Path) -> list[str | None]:
    """Start processes that migrate at the same moment, and return what each says of its backup."""
    command = [sys.executable, "-c", MIGRATE, url, str(many), str(service)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True, timeout=120)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(messages) == many
    return messages


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def test_an_empty_database_gets_the_schema_of_this_version(empty: str) -> None:
    with opened(empty) as store:
        assert migrate(store) is None
        assert revision(store) == HEAD
        assert differences(store) == []
        assert migrate(store) is None


def test_a_difference_from_the_schema_is_seen(empty: str) -> None:
    with opened(empty) as store:
        migrate(store)
        with store.write() as tx:
            tx.execute(sql.text("ALTER TABLE accounts ADD COLUMN surplus TEXT"))
        assert differences(store) != []


@pytest.mark.parametrize("old", REVISIONS)
def test_every_released_schema_becomes_that_of_this_version(empty: str, kind: str, old: str) -> None:
    with opened(empty) as store:
        create(store, kind, old)
        backup = migrate(store)
        assert (backup is None) == (old == HEAD)
        assert revision(store) == HEAD
        assert differences(store) == []
        world = make_world(store)
        world.report_all({"Ash": (3, 1), "Elm": (2, 2)})
        world.close()
        assert payments_of(store, world.campaign)
        with pytest.raises(sql.exc.DatabaseError, match="append-only"), store.write() as tx:
            tx.execute(sql.text("DELETE FROM ledger_lines"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_of_the_tables_is_a_new_revision(kind: str) -> None:
    """After adding a revision, write `statements(kind)` to its file; earlier files stay."""
    assert (SCHEMAS / f"{HEAD}.{kind}.sql").read_text() == statements(kind)


def test_the_next_revision_keeps_what_is_there_and_a_backup(
    empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(empty) as store:
        migrate(store)
        world = make_world(store)
        world.report_all({"Ash": (3, 1), "Elm": (2, 2)})
        world.close()
        before = payments_of(store, world.campaign)
        later = with_next(tmp_path)
        monkeypatch.setattr(migrating, "files", lambda _: later)
        backup = migrate(store)
        assert revision(store) == "9998"
        assert payments_of(store, world.campaign) == before
        assert backup is not None
        assert rows_in(empty, backup, "ledger_lines") > 0
        assert rows_in(empty, backup, "reports") == 2
        assert rows_in(empty, backup, f"alembic_version WHERE version_num = '{HEAD}'") == 1  # as it was before
        assert migrate(store) is None


def rows_in(url: str, backup: str, table: str) -> int:
    """Open a backup and count a table's rows."""
    if "://" not in url:
        assert Path(backup).stat().st_mode & 0o777 == 0o600
        with sqlite3.connect(backup) as copy:
            assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            (count,) = copy.execute(f"SELECT count(*) FROM {table}").fetchone()
        copy.close()
        return int(count)
    schema = backup.removeprefix("schema ")
    with psycopg.connect(url) as connection:
        row = connection.execute(f"SELECT count(*) FROM {schema}.{table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("begun", [False, True] if SOAK else [True])
def test_of_six_that_start_at_once_one_migrates(empty: str, begun: bool, tmp_path: Path) -> None:
    if begun:
        with opened(empty) as store:
            migrate(store)
            make_world(store)
    messages = start(empty, 6, with_next(tmp_path) if begun else SERVICE)
    assert not [message for message in messages if message is not None and message.startswith("failed")]
    assert len([backup for backup in messages if backup is not None]) == begun
    with opened(empty) as store:
        assert revision(store) == ("9998" if begun else HEAD)
        assert begun or differences(store) == []
    for backup in filter(None, messages):
        assert rows_in(empty, backup, "campaigns") == 1


def test_a_newer_database_is_refused_and_left_alone(empty: str) -> None:
    with opened(empty) as store:
        migrate(store)
        with store.write() as tx:
            tx.execute(sql.text("UPDATE alembic_version SET version_num = '9999'"))
        there = tables(store)
        with pytest.raises(DataError, match="newer one: upgrade troth"):
            migrate(store)
        assert revision(store) == "9999"
        assert tables(store) == there


def test_a_migration_that_fails_leaves_the_old_schema(
    empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(empty) as store:
        migrate(store)
        world, there = make_world(store), tables(store)
        monkeypatch.setattr(migrating, "files", lambda _: with_next(tmp_path, "nonsense"))
        with pytest.raises(sql.exc.DatabaseError, match="nonsense"):
            migrate(store)
        assert revision(store) == HEAD
        assert tables(store) == there
        assert world.round().state == "open"


LOOK = """
import sys
from sqlalchemy import text
from troth.service.migrate import migrate
from troth.service.store import Store
store = Store(sys.argv[1])
migrate(store)
with store.write() as tx:
    tx.execute(text("INSERT INTO attempts (id, subject, at) VALUES ('" + sys.argv[2] + "', 'another program', 'now')"))
with store.read() as tx:
    print(tx.execute(text("SELECT count(*) FROM attempts")).scalar())
store.close()
"""


@pytest.mark.parametrize("kind", ["sqlite"])
def test_another_program_that_comes_and_goes_takes_nothing_along(database: str) -> None:
    """A program that migrates keeps its locks: when another one ends, the log of this one's changes is not swept."""
    with opened(database) as store:
        migrate(store)
        for number in range(1, 3 if SOAK else 2):
            with store.write() as tx:
                tx.execute(attempts.insert().values(id=str(number), subject="mine", at="now"))
            command = [sys.executable, "-c", LOOK, database, f"other {number}"]
            result = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
            assert int(result.stdout) == 2 * number
        with store.write() as tx:
            tx.execute(attempts.insert().values(id="after", subject="mine", at="now"))
            assert tx.execute(sql.text("SELECT count(*) FROM attempts")).scalar() == 2 * number + 1
    with opened(database) as store, store.read() as tx:
        assert tx.execute(sql.text("SELECT count(*) FROM attempts")).scalar() == 2 * number + 1


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_an_upload_that_an_earlier_version_stored_is_shown_and_confirmed(kind: str, database: str) -> None:
    with opened(database) as store:
        world = make_world(store, ("Ash", "Birch"), TERMS)
        rounds_path = f"{world.base}/rounds/1/submissions"
        rows = b"improved\n1\n0\n1\n"
        client, ash = world.client(), world.headers("Ash")
        sent = client.post(f"{rounds_path}/file", params={"name": "a.csv"}, content=rows, headers=ash).json()
        assert sent["columns"] == [{"name": "improved", "minimum": 0, "maximum": 1, "mean": 2 / 3, "labels": []}]
        with store.write() as tx:
            shown = tx.execute(sql.select(uploads.c.shown)).scalar_one()
            for column in shown["columns"]:
                column["least"], column["greatest"] = column.pop("minimum"), column.pop("maximum")
            tx.execute(sql.update(uploads).values(shown=shown))
        read_again = client.get(f"{rounds_path}/{sent['id']}", headers=ash).json()
        assert read_again["columns"] == sent["columns"]
        confirmed = client.post(f"{rounds_path}/{sent['id']}/confirm", json={}, headers=ash)
        assert (confirmed.status_code, confirmed.json()["columns"]) == (200, sent["columns"])
