"""Fixtures of the tests of the service: databases of both systems, fast passwords and one event loop."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal
from argon2 import PasswordHasher
from fastapi.testclient import TestClient

from service.databases import KINDS, Databases
from troth.service import accounts


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Hash passwords quickly; real costs are tested in test_secrets."""
    with pytest.MonkeyPatch.context() as patch:
        quick = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
        patch.setattr(accounts, "_hasher", quick)
        patch.setattr(accounts, "_dummy_hash", quick.hash("nobody"))
        yield


@pytest.fixture(scope="session", autouse=True)
def one_event_loop() -> Iterator[None]:
    """Let all clients share an event loop: starting one takes longer than most requests."""
    with start_blocking_portal() as portal, pytest.MonkeyPatch.context() as patch:
        patch.setattr(TestClient, "portal", portal)
        yield


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))  # the spool of uploads
    servers = Databases()
    yield servers
    servers.close()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database(databases: Databases, kind: str) -> Iterator[str]:
    """The URL of a database with the schema, on each system."""
    url = databases.new(kind)
    yield url
    databases.give_back(url)
