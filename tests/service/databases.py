"""Databases for tests: SQLite files, and a temporary PostgreSQL server."""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TypeVar

import psycopg
from sqlalchemy import make_url

from registry import SOAK
from troth.service.migrate import migrate
from troth.service.schema import metadata
from troth.service.store import Store

KINDS = ("sqlite", "postgresql")
T = TypeVar("T")
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "fsync": "off",  # tests kill programs, never the machine
    "full_page_writes": "off",
    "log_min_messages": "fatal",
    "shared_buffers": "32MB",
    "autovacuum": "off",
}


def one_system(kind: str) -> tuple[str, ...]:
    """Return one database system, for slow tests whose statements other tests run on both; both under `make soak`."""
    return KINDS if SOAK else (kind,)


def in_turn(cases: Iterable[T]) -> list[tuple[str, T]]:
    """Pair each case with one database system, alternating; with both under `make soak`."""
    return [(kind, case) for i, case in enumerate(cases) for k, kind in enumerate(KINDS) if SOAK or i % len(KINDS) == k]


def program(name: str) -> str:
    """Return the path of a PostgreSQL program, which Debian does not put on the PATH."""
    program_path = shutil.which(name)
    if program_path is not None:
        return program_path
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    if not versions:
        raise RuntimeError(f"{name} is not installed; .ci/packages installs PostgreSQL")
    return str(versions[-1])


class Databases:
    """Creates databases, empty or with the schema, and removes them at the end."""

    def __init__(self) -> None:
        memory = "/dev/shm"
        self.folder = Path(tempfile.mkdtemp(prefix="troth-test-", dir=memory if os.access(memory, os.W_OK) else None))
        self.keys = self.folder / "keys"  # shared by all databases, so that copies have the same secrets
        self._saved_keys: dict[Path, bytes] = {}
        os.environ["TROTH_KEYS"] = str(self.keys)
        self.server: Server | None = None
        self._numbers = count(1)
        self._templates: dict[str, str] = {}
        self._empty_pool: list[str] = []

    def new(self, kind: str, *, empty: bool = False) -> str:
        """Return the URL of a new database."""
        if empty:
            return self._new_empty(kind)
        if kind == "postgresql" and self._empty_pool:
            return self._empty_pool.pop()
        if kind not in self._templates:
            self._templates[kind] = self._new_empty(kind)
            store = Store(self._templates[kind])
            migrate(store)
            store.close()
        return self.copy(self._templates[kind])

    def copy(self, url: str) -> str:
        """Return the URL of a copy of a database without connections."""
        if "://" in url:
            name = f"troth_{next(self._numbers)}"
            self._server().run(f"CREATE DATABASE {name} TEMPLATE {make_url(url).database}")
            return self._server().url(name)
        target = self._file()
        for ending in ("", "-wal"):
            if Path(url + ending).exists():
                shutil.copy(url + ending, target + ending)
        return target

    def give_back(self, url: str) -> None:
        """Empty a database for reuse by another test, which is much faster than creating one."""
        if "://" not in url:
            self.remove(url)
            return
        steps = [
            "SET lock_timeout = '10s'",
            "SET session_replication_role = replica",
            f"TRUNCATE {', '.join(_tables())}",
        ]
        steps.append("ALTER TABLE ledger_lines ENABLE TRIGGER ALL")
        with psycopg.connect(url) as connection:
            connection.execute("; ".join(steps).encode())
        store = Store(url)
        shutil.rmtree(store.spool, ignore_errors=True)  # unread uploads
        store.close()
        self._empty_pool.append(url)

    def keep(self, url: str) -> None:
        """Save the contents of a database and of the folder of keys for `restore`."""
        self._saved_keys = {path: path.read_bytes() for path in self.keys.glob("*")}
        if "://" in url:
            with psycopg.connect(url) as connection:
                connection.execute("CREATE SCHEMA kept")
                for table in _tables():
                    connection.execute(f"CREATE TABLE kept.{table} AS TABLE public.{table}".encode())
            return
        shutil.copy(url, url + ".kept")

    def restore(self, url: str, *, keys: bool = True) -> None:
        """Restore what `keep` saved, which is faster than another copy."""
        if keys:
            self.forget_heads()
        for path, content in self._saved_keys.items() if keys else ():
            path.write_bytes(content)
        if "://" in url:
            steps = ["SET session_replication_role = replica", f"TRUNCATE {', '.join(_tables())}"]
            steps += [f"INSERT INTO public.{table} TABLE kept.{table}" for table in _tables()]
            with psycopg.connect(url) as connection:
                connection.execute("; ".join(steps).encode())
            return
        for ending in ("-wal", "-shm"):
            Path(url + ending).unlink(missing_ok=True)
        shutil.copy(url + ".kept", url)

    def forget_heads(self) -> None:
        """Remove all signed heads, so that a copy of a paid database can be paid too."""
        for path in self.keys.glob("*.heads.jsonl"):
            path.unlink()

    def remove(self, url: str) -> None:
        """Remove a database in spite of open connections."""
        if "://" in url:
            self._server().run(f"DROP DATABASE IF EXISTS {make_url(url).database} WITH (FORCE)")
            return
        for path in Path(url).parent.glob(Path(url).name + "*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def close(self) -> None:
        """Stop the server and remove everything."""
        if self.server is not None:
            self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _new_empty(self, kind: str) -> str:
        if kind == "sqlite":
            return self._file()
        name = f"troth_{next(self._numbers)}"
        self._server().run(f"CREATE DATABASE {name}")
        return self._server().url(name)

    def _file(self) -> str:
        return str(self.folder / f"{next(self._numbers)}.db")

    def _server(self) -> Server:
        if self.server is None:
            self.server = Server()
        return self.server


class Server:
    """A PostgreSQL server that listens on a socket in a temporary folder."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="troth-pg-"))
        self.user: str | None = None
        if os.geteuid() == 0:  # PostgreSQL does not run as root
            names = {entry.pw_name for entry in pwd.getpwall()}
            self.user = "postgres" if "postgres" in names else "nobody"
            shutil.chown(self.folder, self.user)
        data = self.folder / "data"
        options = ["--auth=trust", "--username=troth", "--encoding=UTF8", "--locale=C", "--no-sync"]
        self._start([program("initdb"), "-D", str(data), *options], wait=True)
        settings = [f"-c{name}={value}" for name, value in _SETTINGS.items()]
        self.process = self._start([program("postgres"), "-D", str(data), "-k", str(self.folder), *settings])
        atexit.register(self.stop)
        self._wait()

    def url(self, database: str) -> str:
        """Return the URL of one of its databases."""
        return f"postgresql://troth@/{database}?host={self.folder}"

    def run(self, statement: str) -> None:
        """Run a statement outside a transaction."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())

    def stop(self) -> None:
        """Stop the server and remove its folder."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, command: list[str], *, wait: bool = False) -> subprocess.Popen[bytes]:
        log = (self.folder / "log").open("ab")
        with log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, user=self.user
            )
        if wait and process.wait() != 0:
            raise RuntimeError(f"{command[0]} failed:\n{(self.folder / 'log').read_text()}")
        return process

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                self.run("SELECT 1")
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()}") from None
                time.sleep(0.05)
            else:
                return


def _tables() -> list[str]:
    return [table.name for table in metadata.sorted_tables]


@contextmanager
def opened(url: str) -> Iterator[Store]:
    """Open a database, and close it at the end."""
    store = Store(url)
    try:
        yield store
    finally:
        store.close()


def kill_process(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that a test started, unless it has ended, and wait for it."""
    with suppress(ProcessLookupError):
        process.kill()
    process.wait()
