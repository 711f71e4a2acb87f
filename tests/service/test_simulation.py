"""A campaign in which clocks jump, processes die and providers send anything still ends, and pays what it should.

All of it follows from a seed; `make soak` has many.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from registry import SOAK
from service.databases import Databases, opened
from service.test_states import BAD, BAD_LAST, DAILY, EACH_DAY, leave, refusing
from service.world import NAMES, World, make_world, payments_of
from troth.core.errors import TrothError
from troth.service import campaigns, rounds, settlement, store, upload_queue
from troth.service.errors import UnavailableError
from troth.service.limited_payments import ExcessiveWorkError
from troth.service.uploads import Limits


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 5, 4, tzinfo=UTC)

    def now(self, _zone: Any = None) -> datetime:
        self.moment += timedelta(microseconds=1)
        return self.moment

    def __getattr__(self, name: str) -> Any:
        return getattr(datetime, name)


class Simulation:
    """A campaign of days in which everything goes wrong that can, and all of it follows from a seed."""

    def __init__(self, world: World, clock: Clock, seed: int) -> None:
        self.world, self.clock, self.chance = world, clock, random.Random(seed)
        self.fault: Exception | None = None

    def pay(self, *arguments: Any, **options: Any) -> Any:
        """Pay, or fail as the fault of the moment says."""
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault
        return refusing(*arguments, **options)

    def step(self) -> None:
        deeds = [self.report, self.upload, self.read, self.crash, self.wait, self.tick, self.analyse, self.break_down]
        deed = self.chance.choices(deeds, [6, 3, 3, 1, 3, 4, 3, 1])[0]
        with suppress(TrothError):  # what is refused leaves nothing behind, as is seen in the end
            deed()

    def number(self) -> int:
        return self.chance.randint(1, 4)

    def report(self) -> None:
        name, number, good = self.chance.choice(NAMES), self.number(), self.chance.random() < 0.8
        with self.world.store.read() as tx:
            row = rounds.find_round(tx, self.world.campaign, number)
            sent = rounds.my_uploads(tx, self.world.members[name], row.id)
        replaces = next((submission.id for submission in sent if submission.confirmed), None)
        ones = self.chance.randint(2, 9) if good else self.chance.choice([BAD, BAD_LAST])
        self.world.report(name, ones, 20, number, replaces)

    def upload(self) -> None:
        name, number = self.chance.choice(NAMES), self.number()
        here = self.world.store
        here.spool.mkdir(parents=True, exist_ok=True)
        path = here.spool / "troth-upload-x"
        path.write_bytes(b"improved\n1\n0\n" if self.chance.random() < 0.7 else b"nothing,that\nis,of use")
        try:
            with here.write() as tx:
                who = self.world.providers[name]
                upload_queue.enqueue(tx, who, self.world.campaign, number, path, "x.csv", store.now(), None)
        finally:
            path.unlink(missing_ok=True)

    def read(self) -> None:
        upload_queue.read_all(self.world.store, Limits())
        name, number = self.chance.choice(NAMES), self.number()
        with self.world.store.write() as tx:
            row = rounds.find_round(tx, self.world.campaign, number)
            sent = rounds.my_uploads(tx, self.world.members[name], row.id)
            if sent:
                replaces = next((submission.id for submission in sent if submission.confirmed), None)
                who = self.world.providers[name]
                rounds.confirm(tx, who, self.world.campaign, number, sent[0].id, replaces)

    def crash(self) -> None:
        upload_queue.claim(self.world.store)  # and whoever claimed it is gone

    def wait(self) -> None:
        self.clock.moment += timedelta(seconds=self.chance.choice([1, 30, 400, 4000]))

    def tick(self) -> None:
        settlement.close_due(self.world.store)

    def break_down(self) -> None:
        faults = [
            ExcessiveWorkError("it needs more memory"),
            UnavailableError("no process"),
            MemoryError(),
            OSError("full"),
        ]
        self.fault = self.chance.choice(faults)

    def analyse(self) -> None:
        world, number = self.world, self.number()
        deadline = store.after(seconds=self.chance.choice([60, 3600]))
        deed = self.chance.choice(["open", "open", "close", "reopen", "aside", "revoke", "finish"])
        if deed == "open":
            world.open(deadline=deadline if self.chance.random() < 0.7 else None)
        elif deed == "close":
            world.close(number)
        elif deed == "reopen":
            with world.store.write() as tx:
                settlement.reopen(tx, world.analyst, world.campaign, number, deadline)
        elif deed == "aside":
            settlement.set_aside(world.store, world.analyst, world.campaign, number)
        elif deed == "finish" and self.chance.random() < 0.2:
            settlement.finish(world.store, world.analyst, world.campaign)
        elif deed == "revoke" and self.chance.random() < 0.1:
            with world.store.write() as tx:
                campaigns.revoke(tx, world.analyst, world.campaign, world.members["Elm"])


@contextmanager
def simulated(url: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulation]:
    clock = Clock()
    monkeypatch.setattr(store, "datetime", clock)
    with opened(url) as here:
        world = make_world(here, terms=DAILY if seed % 2 else EACH_DAY, opened=False)
        simulation = Simulation(world, clock, seed)
        monkeypatch.setattr(settlement, "pay_rounds", simulation.pay)
        yield simulation


@pytest.mark.parametrize("seed", range(200 if SOAK else 2))
def test_whatever_fails_the_campaign_ends_and_the_ledger_is_right(
    databases: Databases, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = "postgresql" if seed % 4 == 3 else "sqlite"
    url = databases.new(kind)
    with simulated(url, seed, monkeypatch) as simulation:
        world = simulation.world
        world.open(deadline=store.after(seconds=600))
        for _ in range(400 if SOAK else 60):
            simulation.step()
        simulation.fault = None
        for _ in range(8):  # whatever waits is read, refused or given up within hours
            simulation.clock.moment += timedelta(hours=1)
            upload_queue.read_all(world.store, Limits())
            settlement.close_due(world.store)
        leave(world)
        with world.store.read() as tx:
            rows = rounds.list_rounds(tx, world.campaign)
            paid = {row.day: row.amount for row in rows}
            waiting = upload_queue.pending(tx, [row.id for row in rows])
        assert {row.state for row in rows} == {"paid"}
        assert not waiting
        totals: dict[Any, int] = {}
        for (day, _), payment in payments_of(world.store, world.campaign).items():
            totals[day] = totals.get(day, 0) + payment
        assert {day: amount for day, amount in paid.items() if amount} == {
            day: total for day, total in totals.items() if total
        }
        assert all(total <= 100_000 for total in totals.values())
    databases.give_back(url)
