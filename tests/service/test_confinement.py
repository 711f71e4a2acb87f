"""What a hostile payload in the process that reads uploads can do: nothing but answer."""

from __future__ import annotations

import errno
import os
import socket
import sqlite3
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError, OperationalError

from service import misbehaving
from service.databases import opened
from service.world import TERMS, make_world
from troth.campaigns.records.ledger import write_atomic
from troth.core.errors import DataError
from troth.service import confinement, serve
from troth.service.app import Settings, create_app
from troth.service.errors import UnavailableError
from troth.service.sandbox import Sandbox, Waiting
from troth.service.store import Store
from troth.service.worker_processes import Bounds

EASY = Bounds(memory=1 << 30, seconds=10.0)


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    waiting = Waiting(["service.misbehaving"])
    yield Sandbox(waiting, places=1)
    waiting.close()


def test_a_payload_reaches_nothing(box: Sandbox, tmp_path: Path) -> None:
    """It may read the file that it is given: no database, no memory of the server, no network, no child, no other user."""
    if box.run(confinement.missing, bounds=EASY):
        pytest.skip("the kernel has no user namespaces, no Landlock or no seccomp")
    given, database = tmp_path / "given", tmp_path / "troth.db"
    for path in (given, database):
        path.write_text("x")
        path.chmod(0o600)
    before = [database.stat(), given.stat()]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        bounds = Bounds(EASY.memory, EASY.seconds, files=(str(given),))
        reached = box.run(misbehaving.attack, str(given), str(database), os.getpid(), port, bounds=bounds)
    assert reached.pop("read the file") == "done"
    assert reached.pop("start a thread") == "done"
    assert len(reached) == 77
    assert not [what for what, outcome in reached.items() if outcome == "done"], reached
    for path, stat in zip((database, given), before, strict=True):
        now = path.stat()
        assert (path.read_text(), now.st_mode, now.st_mtime_ns, now.st_ctime_ns) == (
            "x",
            stat.st_mode,
            stat.st_mtime_ns,
            stat.st_ctime_ns,
        )
    assert sorted(tmp_path.iterdir()) == [given, database]


def test_every_call_that_is_not_needed_is_refused(box: Sandbox) -> None:
    """Of calls that the list does not have, the one that makes threads or children is unknown, the others forbidden."""
    if box.run(confinement.missing, bounds=EASY):
        pytest.skip("the kernel has no user namespaces, no Landlock or no seccomp")
    assert box.run(misbehaving.unlisted_calls, 600, bounds=EASY) == [[435, errno.ENOSYS]]


@pytest.mark.parametrize("version", range(1, 8))
def test_landlock_governs_what_the_kernel_knows(version: int) -> None:
    """Version 3 knows truncation, 5 devices, 6 signals; a kernel refuses what is newer than itself."""

    class Kernel:
        def __init__(self) -> None:
            self.attributes = b""

        def syscall(self, number: int, attributes: bytes | None, _size: int, flags: int = 0) -> int:
            if number == 444 and flags == 1:
                return version
            self.attributes = attributes or b""
            return -1

    kernel = Kernel()
    assert not confinement._only_read(kernel, [])  # type: ignore[arg-type]
    words = struct.unpack(f"={len(kernel.attributes) // 8}Q", kernel.attributes)
    assert words[0].bit_length() == {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)
    assert words[1:] == ((), (3,), (3, 3))[(version >= 4) + (version >= 6)]


def test_a_database_among_the_modules_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the environment's root, nor in the working folder, nor in a folder of modules; the last is reported."""
    environment = tmp_path / "environment"
    modules, home = environment / "lib" / "python3" / "site-packages", tmp_path / "home"
    secrets = [environment / "troth.db", home / "troth.db", modules / "troth.db"]
    harmless = environment / "lib" / "python3" / "site-packages" / "module.py"
    for path in (*secrets, harmless):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    everything = [str(path) for path in (*secrets, harmless)]
    monkeypatch.setattr(sys, "path", [*sys.path, str(home), str(modules)])
    monkeypatch.chdir(home)
    for private, expected in ((secrets[:2], everything[2:]), (secrets, [])):
        waiting = Waiting(["service.misbehaving"])
        waiting.private |= frozenset(map(str, private))
        box = Sandbox(waiting, places=1)
        if box.run(confinement.missing, bounds=EASY):
            pytest.skip("the kernel has no user namespaces, no Landlock or no seccomp")
        assert box.run(misbehaving.readable, everything, bounds=EASY) == expected
        waiting.close()
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(modules))
    monkeypatch.setattr(confinement, "_unavailable", [])
    assert modules not in confinement._modules([path.resolve() for path in secrets])
    assert [str(secrets[2]) in line for line in confinement.missing()] == [True]


def test_what_is_lacking_is_said_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unconfined:
        def run(self, *_: object, **__: object) -> list[str]:
            return ["files: no Landlock"]

    monkeypatch.setattr(serve, "Sandbox", lambda _: Unconfined())
    messages: list[str] = []
    serve.check_sandbox(False, messages.append)
    assert messages == ["warning: files: no Landlock"]
    with pytest.raises(DataError, match="--require-sandbox"):
        serve.check_sandbox(True, messages.append)


def test_what_others_can_read_is_said_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uvicorn.run", lambda *_, **__: None)
    monkeypatch.setattr(serve, "check_sandbox", lambda *_: None)
    for name in ("TROTH_KEYS", "TROTH_SERVICE"):
        monkeypatch.setenv(name, "")
    messages: list[str] = []

    def start() -> list[str]:
        messages.clear()
        serve.serve(Settings(str(tmp_path / "troth.db")), host="127.0.0.1", port=0, echo=messages.append)
        return [line for line in messages if "other users can read" in line]

    key = tmp_path / "troth.db.keys" / "signing.key"
    assert not start()
    Store(str(tmp_path / "troth.db")).keys.sign({})
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "troth.db", key.parent, key)] == [0o600, 0o700, 0o600]
    assert not start()
    for path in (tmp_path / "troth.db", key):
        path.chmod(0o644)
    assert [str(path) in line for path, line in zip((tmp_path / "troth.db", key), start(), strict=True)] == [True, True]


def test_a_failure_carries_the_security_headers(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(database) as store:
        world = make_world(store, opened=False)
        monkeypatch.setattr("troth.service.campaigns.list_campaigns", None)
        answer = world.client().get("/api/v1/campaigns", headers=world.headers("Ana"))
    assert answer.status_code == 500
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_keys_that_are_stored_have_a_limit(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("troth.service.idempotency.MAX_REPLIES", 2)
    with opened(database) as store:
        world = make_world(store, opened=False)
        statuses = [
            world.client()
            .post("/api/v1/campaigns", headers=world.headers("Ana", key), json={"terms": TERMS})
            .status_code
            for key in ("one", "two", "three", "one")
        ]
    assert statuses == [201, 201, 429, 201]


def test_bytes_that_are_stored_for_keys_have_a_limit(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few large answers weigh as much as many small ones; without a key nothing is stored, and all is answered."""
    with opened(database) as store:
        world = make_world(store, opened=False)

        def create(key: str | None) -> Any:
            headers = world.headers("Ana") if key is None else world.headers("Ana", key)
            return world.client().post("/api/v1/campaigns", headers=headers, json={"terms": TERMS})

        size = len(create("one").content)
        monkeypatch.setattr("troth.service.idempotency.MAX_BYTES", 2 * size + 50)
        assert [create(key).status_code for key in ("two", "three", "one", None)] == [201, 429, 201, 201]


def test_health_fails_when_writes_fail(database: str) -> None:
    """A disk that is full, or a database that became read-only, is no healthy service."""
    with opened(database) as store:
        world = make_world(store, opened=False)
        store.try_writing()
        assert [world.client().get(path).status_code for path in ("/health", "/api/v1/health")] == [200, 200]
        with store.write() as tx:
            if store.file is None:
                tx.execute(text("CREATE RULE frozen AS ON INSERT TO attempts DO INSTEAD SELECT 1/0"))
            else:
                frozen = "CREATE TRIGGER frozen BEFORE INSERT ON attempts BEGIN SELECT RAISE(ABORT, 'full'); END"
                tx.execute(text(frozen))
        with pytest.raises(DatabaseError):
            store.try_writing()
        assert [world.client().get(path).status_code for path in ("/health", "/api/v1/health")] == [503, 503]
        with store.write() as tx:
            tx.execute(text("DROP RULE frozen ON attempts" if store.file is None else "DROP TRIGGER frozen"))
        store.try_writing()
        assert world.client().get("/health").status_code == 200


@pytest.mark.parametrize("kind", ["sqlite"])
def test_health_fails_soon_when_the_database_is_locked(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who have something to write wait for a minute; a health check does not, whoever has the lock."""
    monkeypatch.setattr("troth.service.store.PROBE_SECONDS", 0.2)
    with opened(database) as store:
        world = make_world(store, opened=False)
        store.try_writing()
        connection = sqlite3.connect(store.file or "", isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(OperationalError, match="locked"):
            store.try_writing()
        assert time.monotonic() - began < 5
        assert world.client().get("/health").status_code == 503
        connection.execute("ROLLBACK")
        connection.close()
        store.try_writing()
        assert world.client().get("/health").status_code == 200
        with store.write():
            began = time.monotonic()
            with pytest.raises(UnavailableError, match="takes too long"):
                store.try_writing()
            assert time.monotonic() - began < 5
        store.try_writing()


@pytest.mark.parametrize("kind", ["sqlite"])
def test_health_is_good_while_others_take_every_turn_to_write(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As three campaigns of 20,000 names did: what is written meanwhile shows that the database takes changes."""
    monkeypatch.setattr("troth.service.store.PROBE_SECONDS", 0.2)
    with opened(database) as store:
        world = make_world(store, opened=False)
        over, busy = threading.Event(), threading.Event()

        def write() -> None:
            while not over.is_set():
                with store.write():
                    busy.set()
                    time.sleep(0.1)

        monkeypatch.setattr(store, "_lock", threading.Lock())  # whose turn never comes
        with store._lock:  # type: ignore[union-attr]
            writer = threading.Thread(target=write)
            writer.start()
            busy.wait(5)
            store.try_writing()
            assert world.client().get("/health").status_code == 200
            over.set()
            writer.join()
            with pytest.raises(UnavailableError):
                store.try_writing()


def test_the_probe_waits_for_nobody_who_waits_for_the_database(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing rounds may wait for a minute; whether the database takes changes is looked at meanwhile."""
    stuck, tried = threading.Event(), threading.Event()
    monkeypatch.setattr("troth.service.settlement.close_due", lambda _: stuck.wait(10))
    with opened(database) as store:
        monkeypatch.setattr(store, "try_writing", tried.set)
        with TestClient(create_app(Settings(database, tick=0.05), store)):
            time.sleep(0.2)
            tried.clear()
            assert tried.wait(5)
            stuck.set()


def test_a_service_answers_to_its_own_names_alone(database: str, tmp_path: Path) -> None:
    with opened(database) as store:
        app = create_app(Settings(database, url="https://troth.example.org", tick=0), store)
        client = TestClient(app)
        hosts = ("troth.example.org", "testserver", "evil.example.org")
        statuses = [client.get("/health", headers={"host": host}).status_code for host in hosts]
    assert statuses == [200, 400, 400]


def test_a_temporary_file_is_never_written_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, victim = tmp_path / "ledger.jsonl", tmp_path / "victim"
    victim.write_text("mine")
    monkeypatch.setattr("troth.campaigns.private_files.secrets.token_hex", lambda _: "00")
    (tmp_path / f".ledger.jsonl.{os.getpid()}.00.tmp").symlink_to(victim)
    with pytest.raises(OSError, match="exists"):
        write_atomic(target, b"x", private=True)
    assert victim.read_text() == "mine"
    write_atomic(tmp_path / "other.jsonl", b"x", private=True)
    assert (tmp_path / "other.jsonl").stat().st_mode & 0o777 == 0o600
