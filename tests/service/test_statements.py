"""A page asks the database for what it shows, once, however many rounds there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from service.databases import one_system, opened
from service.world import TERMS, World, make_world
from troth.service import accounts
from troth.service.rounds import publish

DAILY = {**TERMS, "campaign": {**TERMS["campaign"], "budget_per": "day"}, "data": {"day": "day"}}
COUNTS = {"Ash": (5, 2), "Birch": (4, 3), "Elm": (6, 1)}


@pytest.fixture(name="world")
def _world(database: str) -> Any:
    with opened(database) as store:
        yield make_world(store, terms=DAILY, opened=False)


@contextmanager
def noted(world: World) -> Iterator[list[str]]:
    """Yield the statements that the database is sent."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(world.store.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(world.store.engine, "before_cursor_execute", note)


def count(world: World, path: str, name: str = "Ash") -> int:
    """Return how many statements a page takes for a provider, the lookup of its session included."""
    client = world.client()
    with world.store.write() as tx:
        client.cookies.set("troth_session", accounts.start_session(tx, world.providers[name].account))
    with noted(world) as statements:
        answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return sum(statement != "BEGIN" for statement in statements)


def pay(world: World, day: int) -> None:
    world.open(day)
    world.report_all(COUNTS, day)
    world.close(day)
    with world.store.write() as tx:
        publish(tx, world.analyst, world.campaign, day)


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_a_provider_page_takes_as_many_statements_for_two_rounds_as_for_one(world: World, kind: str) -> None:
    del kind
    base = f"/campaigns/{world.campaign}"
    pay(world, 1)
    paths = ("/", base, f"{base}/rounds/1", "/results")
    count(world, base)  # reads the ledger
    once = [count(world, path) for path in paths]
    pay(world, 2)
    count(world, base)
    assert [count(world, path) for path in paths] == once
    assert max(once) <= 9


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_a_page_of_an_open_round_takes_few_statements(world: World, kind: str) -> None:
    del kind
    world.open(1)
    assert count(world, f"/campaigns/{world.campaign}/rounds/1") <= 6


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_a_request_with_a_body_looks_up_its_sender_once(world: World, kind: str) -> None:
    del kind
    body = {"name": "Yew", "identity": "seen"}
    with noted(world) as statements:
        answer = world.client().post(f"{world.base}/providers", json=body, headers=world.headers("Ana"))
    assert answer.status_code == 201, answer.text
    assert sum("tokens.hash = " in statement for statement in statements) == 1
