"""What a hostile payload in the process that reads uploads can do: nothing but answer."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from service import misbehaving
from service.databases import opened
from service.world import TERMS, make_world
from troth.core.errors import DataError
from troth.service import confinement, serve
from troth.service.sandbox import Sandbox
from troth.service.worker_processes import Bounds

EASY = Bounds(memory=1 << 30, seconds=10.0)


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    made = Sandbox(["service.misbehaving"], places=1)
    yield made
    made.close()


def test_a_payload_reaches_nothing(box: Sandbox, tmp_path: Path) -> None:
    """It may read the file that it is given; not a database, not the server's memory, no network, no child, no signal."""
    if box.run(confinement.missing, bounds=EASY):
        pytest.skip("the kernel has no Landlock or no seccomp")
    given, database = tmp_path / "given", tmp_path / "troth.db"
    for path in (given, database):
        path.write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        bounds = Bounds(EASY.memory, EASY.seconds, files=(str(given),))
        found = box.run(misbehaving.attack, str(given), str(database), os.getpid(), port, bounds=bounds)
    assert found.pop("read the file") == "done"
    assert found.pop("start a thread") == "done"
    assert len(found) == 11
    assert not [what for what, outcome in found.items() if outcome == "done"], found


def test_what_is_lacking_is_said_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unconfined:
        def run(self, *_: object, **__: object) -> list[str]:
            return ["files: no Landlock"]

        def close(self) -> None: ...

    monkeypatch.setattr(serve, "SANDBOX", Unconfined())
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
