"""The database, its connections and its transactions: SQLite in one file, or PostgreSQL by URL.

All changes are made inside `Store.write`, which commits before it returns, so whatever was acknowledged is stored.
Times are text in UTC, which sorts chronologically.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

import sqlalchemy as sql
from sqlalchemy import Connection

from troth.core.errors import DataError
from troth.service.errors import InvalidError, UnavailableError
from troth.service.keys import OPTION, Keys
from troth.service.schema import attempts

BUSY_SECONDS, _POOL = 60, 20
PROBE_SECONDS = 3
"""How long a health check waits to write, which is much less than other transactions wait."""


class Store:
    """A database, given by a PostgreSQL URL or the path of an SQLite file, and its transactions.

    Keys are by default in the folder that TROTH_KEYS names. If that is not set, they are beside the SQLite file, or for
    PostgreSQL in ``troth.keys``.
    """

    def __init__(self, url: str, *, keys: Keys | None = None) -> None:
        self.url = sqlalchemy_url(url)
        self.file = Path(self.url.database or "") if self.url.get_backend_name() == "sqlite" else None
        self.keys = keys or Keys(_key_folder(self.file))
        # a connection for every thread that may want one, and no values in errors, because these are logged
        options: dict[str, Any] = {"pool_size": _POOL, "max_overflow": _POOL, "hide_parameters": True}
        options["execution_options"] = {OPTION: self.keys}
        self.spool = self._spool()
        self.uses: dict[str, str] = {}  # when tokens were last used, to be stored soon
        # SQLite has only one writer at a time, and a lock is fairer than its polling
        self._lock = None if self.file is None else Lock()
        self._turn: AbstractContextManager[Any] = self._lock or nullcontext()
        self._writes, self._committed = True, 0.0
        self.engine = self._engine(BUSY_SECONDS, options)
        # health checks have connections of their own, because others may be held for long
        probe_options = {"pool_size": 2, "max_overflow": 0, "pool_timeout": PROBE_SECONDS}
        self.probe = self._engine(PROBE_SECONDS, options | probe_options)

    def _engine(self, busy_seconds: float, options: dict[str, Any]) -> sql.Engine:
        if self.file is None:
            return sql.create_engine(self.url, pool_pre_ping=True, **options)
        engine = sql.create_engine(self.url, connect_args={"timeout": busy_seconds}, **options)
        sql.event.listen(engine, "connect", _prepare_sqlite)
        sql.event.listen(engine, "begin", _begin_sqlite)
        return engine

    @property
    def private(self) -> frozenset[str]:
        """The files and folders that only the service may read."""
        paths = (self.file, self.spool, getattr(self.keys, "folder", None))  # keys need not be in a folder
        return frozenset(str(path.resolve()) for path in paths if path is not None)

    def _spool(self) -> Path:
        """Return the folder for uploads that wait to be read: beside the SQLite file, or in the user's state."""
        if self.file is not None:
            return self.file.with_name(f"{self.file.name}.uploads")
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        return Path(state) / "troth" / f"uploads-{sha256(str(self.url).encode()).hexdigest()[:16]}"

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction that writes. It is atomic, and committed when the block ends."""
        with self._turn, self.engine.connect() as connection:
            with connection.begin():
                yield connection
            self._committed = time.monotonic()

    @contextmanager
    def read(self, *, probe: bool = False) -> Iterator[Connection]:
        """Open a transaction that reads one consistent snapshot. Health checks ``probe`` on separate connections."""
        options: dict[str, Any] = {"troth_reads": True}
        if self.file is None:
            options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        engine = self.probe if probe else self.engine
        with engine.connect().execution_options(**options) as connection, connection.begin():
            yield connection

    def try_writing(self) -> None:
        """Insert and delete a row, and record for `check_writes` whether that worked within a few seconds.

        This detects a full disk and a locked database. If other writers take every turn, it is enough that they commit.
        """
        try:
            with self._short_turn(time.monotonic()) as acquired:
                if acquired:
                    with self.probe.connect() as tx, tx.begin():
                        if self.file is None:
                            tx.execute(sql.text(f"SET LOCAL statement_timeout = {PROBE_SECONDS * 1000}"))
                        mark = secrets.token_hex(8)
                        tx.execute(attempts.insert().values(id=mark, subject="health", at=now()))
                        tx.execute(attempts.delete().where(attempts.c.id == mark))
            self._writes = True
        except Exception:
            self._writes = False
            raise

    @contextmanager
    def _short_turn(self, began: float) -> Iterator[bool]:
        """Wait briefly for the turn to write; yield whether it came. Raise if nobody has committed meanwhile."""
        if self._lock is None:
            yield True
        elif self._lock.acquire(timeout=PROBE_SECONDS):
            try:
                yield True
            finally:
                self._lock.release()
        elif self._committed > began:
            yield False
        else:
            raise UnavailableError("the database cannot be written: another change takes too long")

    def check_writes(self) -> None:
        """Raise if the last attempt to write failed."""
        if not self._writes:
            raise UnavailableError("the database cannot be written: its disk may be full or read-only, or it is locked")

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()
        self.probe.dispose()


def _key_folder(file: Path | None) -> Path:
    folder = os.environ.get("TROTH_KEYS")
    if folder:
        return Path(folder)
    return Path("troth.keys") if file is None else file.with_name(f"{file.name}.keys")


def queue(tx: Connection, subject: str, *, shared: bool = False) -> None:
    """Wait for earlier transactions that queue for the same subject; ``shared`` ones run together.

    PostgreSQL's row locks are unfair: an exclusive one waits as long as new shared ones arrive. SQLite has only one
    writer at a time.
    """
    if tx.dialect.name == "postgresql":
        key = int.from_bytes(sha256(subject.encode()).digest()[:8], signed=True)
        lock = sql.func.pg_advisory_xact_lock_shared if shared else sql.func.pg_advisory_xact_lock
        tx.execute(sql.select(lock(key)))


def sqlalchemy_url(url: str) -> sql.URL:
    """Return the URL of a database. A path means an SQLite file."""
    if "://" not in url:
        return sql.URL.create("sqlite+pysqlite", database=str(Path(url).resolve()))
    try:
        parsed = sql.make_url(url)
    except sql.exc.ArgumentError:
        raise DataError("--database: not a URL; write postgresql://user@host/name, or the path of a file") from None
    if parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        return parsed
    raise DataError(f"--database: {parsed.get_backend_name()} is not supported; use PostgreSQL, or a file for SQLite")


def now() -> str:
    """Return the current time in UTC, to the microsecond."""
    return timestamp(datetime.now(UTC))


def after(**span: float) -> str:
    """Return the time this far from now; a negative span lies in the past."""
    return timestamp(datetime.now(UTC) + timedelta(**span))


def timestamp(moment: datetime) -> str:
    """Return a time in the format of the tables.

    Examples
    --------
    >>> timestamp(datetime(2026, 5, 4, tzinfo=UTC))
    '2026-05-04T00:00:00.000000Z'
    """
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def future_deadline(text: str | None) -> str | None:
    """Convert a time with a zone to the format of the tables, and reject one that has passed; None if there is none."""
    if text is None or not text.strip():
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            raise ValueError(text)
        deadline = timestamp(moment)
    except (ValueError, OverflowError):
        raise InvalidError(f"deadline: {text!r} is not a time with a zone, such as 2026-05-04T12:00:00Z") from None
    if deadline <= now():
        raise InvalidError("deadline: must lie in the future")
    return deadline


def _prepare_sqlite(raw: Any, _record: Any) -> None:
    raw.isolation_level = None  # `_begin_sqlite` begins transactions, not the driver
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        raw.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    """Begin a transaction. Writers lock immediately: if two read first, each would wait for the other."""
    reads = connection.get_execution_options().get("troth_reads")
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
