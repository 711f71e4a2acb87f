"""What a hostile payload in the process that reads uploads can do: nothing but answer."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

from service import misbehaving
from service.databases import opened
from service.world import TERMS, make_world
from troth.campaigns.ledger import write_whole
from troth.core.errors import DataError
from troth.service import confinement, serve
from troth.service.app import Settings, create_app
from troth.service.sandbox import Sandbox, Waiting
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
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        bounds = Bounds(EASY.memory, EASY.seconds, files=(str(given),))
        found = box.run(misbehaving.attack, str(given), str(database), os.getpid(), port, bounds=bounds)
    assert found.pop("read the file") == "done"
    assert found.pop("start a thread") == "done"
    assert len(found) == 14
    assert not [what for what, outcome in found.items() if outcome == "done"], found


def test_what_is_lacking_is_said_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unconfined:
        def run(self, *_: object, **__: object) -> list[str]:
            return ["files: no Landlock"]

    monkeypatch.setattr(serve, "Sandbox", lambda _: Unconfined())
    told: list[str] = []
    serve.check_sandbox(False, told.append)
    assert told == ["warning: files: no Landlock"]
    with pytest.raises(DataError, match="--require-sandbox"):
        serve.check_sandbox(True, told.append)


def test_a_failure_carries_the_security_headers(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(database) as store:
        world = make_world(store, opened=False)
        monkeypatch.setattr("troth.service.campaigns.list_campaigns", None)
        answer = world.client().get("/api/v1/campaigns", headers=world.headers("Ana"))
    assert answer.status_code == 500
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_keys_that_are_stored_have_a_limit(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("troth.service.idempotency.MOST_REPLIES", 2)
    with opened(database) as store:
        world = make_world(store, opened=False)
        statuses = [
            world.client()
            .post("/api/v1/campaigns", headers=world.headers("Ana", key), json={"terms": TERMS})
            .status_code
            for key in ("one", "two", "three", "one")
        ]
    assert statuses == [201, 201, 429, 201]


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
    monkeypatch.setattr("troth.campaigns.ledger.secrets.token_hex", lambda _: "00")
    (tmp_path / f".ledger.jsonl.{os.getpid()}.00.tmp").symlink_to(victim)
    with pytest.raises(OSError, match="exists"):
        write_whole(target, b"x", private=True)
    assert victim.read_text() == "mine"
    write_whole(tmp_path / "other.jsonl", b"x", private=True)
    assert (tmp_path / "other.jsonl").stat().st_mode & 0o777 == 0o600
