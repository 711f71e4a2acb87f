"""A service that is killed at any touch of its database loses nothing it acknowledged and pays nobody twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from registry import SOAK
from service.databases import Databases, in_turn, opened
from service.dying import Dying
from service.test_tasks import TERMS as TASKS
from service.test_tasks import as_csv, report
from service.world import TERMS, World, make_world, payments_of, statistics
from troth.service import settlement
from troth.service.ledgers import load_ledger
from troth.service.schema import reports, rounds, uploads
from troth.service.store import Store, after

COUNTS = {"Ash": (5, 2), "Birch": (4, 3), "Elm": (6, 1)}
DAILY = {
    "campaign": {"name": "daily", "budget": "300.00", "days": 3},
    "model": {"family": "Bernoulli", "columns": ["improved"], "prior": {"alpha": 1, "beta": 1}},
    "mechanism": {"rule": "MultiDay"},
    "data": {"day": "day"},
}


@pytest.fixture(scope="module")
def dying() -> Iterator[Dying]:
    program = Dying()
    yield program
    program.close()


def deaths(
    databases: Databases, dying: Dying, prepared: str, path: str, headers: dict[str, str], body: Any, step: int
) -> Iterator[tuple[str, int]]:
    """Kill the same request at each touch of the same database, or at some; yield its address and the touch."""
    databases.forget_heads()
    databases.keep(prepared)
    touches = dying.ask(prepared, path, headers, body, None)["touches"]
    assert touches > 5
    for touch in range(touches, 0, -1 if SOAK else -step):  # the last commit is among them
        databases.restore(prepared)
        answer = dying.ask(prepared, path, headers, body, touch)
        assert answer == {"died": True}, f"touch {touch} of {touches} was not reached"
        yield prepared, touch


def as_left(world: World, store: Store) -> World:
    """Return the same world as another process sees it."""
    return World(store, world.analyst, world.campaign, world.providers, world.members, world.tokens)


def pay_after_death(world: World, store: Store, touch: int) -> None:
    """Have somebody finish what was left: the analyst closes again, or the clock comes by."""
    if touch % 2:
        world.close(number=max_round(store, world.campaign))
        return
    with store.write() as tx:  # the clock leaves a round alone that was closed just now
        tx.execute(update(rounds).where(rounds.c.state == "closed").values(closed=after(minutes=-1)))
        tx.execute(update(rounds).where(rounds.c.state == "open").values(deadline=after(minutes=-1)))
    assert settlement.close_due(store) <= 1


def max_round(store: Store, campaign: str) -> int:
    with store.read() as tx:
        return int(tx.scalar(select(func.max(rounds.c.number)).where(rounds.c.campaign == campaign)) or 0)


@pytest.mark.parametrize(("kind", "what"), in_turn(["rows", "days", "tasks"]))
def test_a_death_while_closing_and_paying_pays_once(
    databases: Databases, kind: str, dying: Dying, what: str, tmp_path: Path
) -> None:
    prepared, daily = databases.new(kind), what == "days"
    with opened(prepared) as store:
        world = make_world(store, terms={"rows": TERMS, "days": DAILY, "tasks": TASKS}[what])
        last = 1
        if daily:  # closing the second of two days pays both of them
            world.report_all(COUNTS)
            world.close()
            last = world.open()
        if what == "tasks":
            for name, (dogs, cats) in COUNTS.items():
                labels = ["dog"] * dogs + ["cat"] * cats
                report(world, tmp_path, name, as_csv({f"i{number}": label for number, label in enumerate(labels)}))
        else:
            world.report_all(COUNTS, last)
        confirmed = world.reports(last)
        with store.read() as tx:
            begun = len(load_ledger(tx, world.campaign).lines)
    body = {"final": daily}
    copy = databases.copy(prepared)
    path, headers = f"{world.base}/rounds/{last}/close", world.headers("Ana")
    assert json.loads(dying.ask(copy, path, headers, body, None)["body"])["state"] == "paid"
    with opened(copy) as store:
        expected = payments_of(store, world.campaign)
    assert len(expected) == 3 * last
    assert sum(expected.values()) > 0
    states = set()
    for url, touch in deaths(databases, dying, prepared, path, headers, body, 7):
        with opened(url) as store:
            state = as_left(world, store)
            assert state.reports(last) == confirmed
            with store.read() as tx:
                lines = len(load_ledger(tx, world.campaign).lines)
            payments, row = payments_of(store, world.campaign), state.round(last)
            states.add(row.state)
            assert (payments == expected) == (row.state == "paid") == (lines > begun)
            if daily and row.state == "open":
                state.close(last, final=True)
            else:
                pay_after_death(state, store, touch)
            assert payments_of(store, world.campaign) == expected
            assert state.round(last).state == "paid"
            state.close(last)
            assert payments_of(store, world.campaign) == expected
    assert states == {"open", "closed", "paid"}
    databases.remove(prepared)
    databases.remove(copy)


def test_a_death_while_confirming_keeps_all_or_nothing(databases: Databases, kind: str, dying: Dying) -> None:
    prepared = databases.new(kind)
    with opened(prepared) as store:
        world = make_world(store)
        submission = world.submit("Ash", 3, 4)
    path, headers = f"{world.base}/rounds/1/submissions/{submission}/confirm", world.headers("Ash", "once")
    outcomes = set()
    for url, _ in deaths(databases, dying, prepared, path, headers, {}, 3):
        with opened(url) as store:
            before = as_left(world, store).reports()
            outcomes.add(bool(before))
            client = as_left(world, store).client()
            again = client.post(path, json={}, headers=headers)
            assert again.status_code == 200
            assert again.json()["confirmed"] in ([*before.values()] or [again.json()["confirmed"]])
            assert client.post(path, json={}, headers=headers).content == again.content
            assert as_left(world, store).reports() == {world.members["Ash"]: again.json()["confirmed"]}
    assert outcomes == {False, True}
    databases.remove(prepared)


def test_a_death_while_submitting_keeps_one_submission(databases: Databases, kind: str, dying: Dying) -> None:
    prepared = databases.new(kind)
    with opened(prepared) as store:
        world = make_world(store)
    path, headers = f"{world.base}/rounds/1/submissions/statistics", world.headers("Ash", "once")
    body = statistics("Ash", 3, 4)
    outcomes = set()
    for url, _ in deaths(databases, dying, prepared, path, headers, body, 3):
        with opened(url) as store:
            with store.read() as tx:
                before = [*tx.scalars(select(uploads.c.id))]
            outcomes.add(len(before))
            client = as_left(world, store).client()
            again = client.post(path, json=body, headers=headers)
            assert again.status_code == 201
            with store.read() as tx:
                assert [*tx.scalars(select(uploads.c.id))] == [again.json()["id"]]
                assert tx.scalar(select(func.count()).select_from(reports)) == 0
            assert before in ([], [again.json()["id"]])
    assert outcomes == {0, 1}
    databases.remove(prepared)


def test_what_is_acknowledged_is_committed(databases: Databases, kind: str, dying: Dying) -> None:
    """The answer comes after the commit: whoever has it finds what it says in the database."""
    url = databases.new(kind)
    with opened(url) as store:
        world = make_world(store)
        submission = world.submit("Ash", 3, 4)
    path = f"{world.base}/rounds/1/submissions/{submission}/confirm"
    answer = dying.ask(url, path, world.headers("Ash"), {}, None)
    assert answer["status"] == 200
    with opened(url) as store:
        assert as_left(world, store).reports() == {world.members["Ash"]: json.loads(answer["body"])["confirmed"]}
    databases.remove(url)
