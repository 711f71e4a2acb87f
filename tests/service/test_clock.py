"""Deadlines close rounds, deaths leave nothing unpaid, and a round that cannot be paid can be put right."""

from __future__ import annotations

import time
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, text, update

from service.databases import in_turn, one_system, opened
from service.test_ledger import disarm
from service.world import World, make_world, payments_of, statistics
from troth.service import settlement
from troth.service.app import Settings, create_app
from troth.service.errors import ConflictError
from troth.service.rounds import find_open_round
from troth.service.schema import campaigns, ledger_lines, rounds
from troth.service.store import Store, after

COUNTS = {"Ash": (5, 2), "Birch": (4, 3), "Elm": (6, 1)}
DAILY: dict[str, Any] = {
    "campaign": {"name": "daily", "budget": "300.00", "budget_per": "day"},
    "model": {"family": "Bernoulli", "columns": ["improved"], "prior": {"alpha": 1, "beta": 1}},
    "mechanism": {"rule": "MultiDay"},
    "data": {"day": "day"},
}


def state_of(world: World) -> str:
    with world.store.read() as tx:
        return str(tx.scalar(select(campaigns.c.state).where(campaigns.c.id == world.campaign)))


def pass_deadline(store: Store) -> None:
    with store.write() as tx:
        tx.execute(update(rounds).where(rounds.c.state == "open").values(deadline=after(seconds=-1)))


def test_what_arrives_at_the_deadline_is_too_late(database: str) -> None:
    with opened(database) as store:
        world = make_world(store, opened=False)
        world.open(deadline=after(hours=1))
        deadline, sender = world.round().deadline, (world.providers["Ash"], world.campaign, 1)
        with store.write() as tx:
            assert find_open_round(tx, *sender, after(minutes=59))[0].deadline == deadline
        with store.write() as tx, pytest.raises(ConflictError, match="the round is closed"):
            find_open_round(tx, *sender, deadline)


def test_the_clock_closes_and_pays(database: str) -> None:
    with opened(database) as store:
        world = make_world(store, opened=False)
        world.open(deadline=after(hours=1))
        world.report_all(COUNTS)
        assert settlement.close_due(store) == 0
        assert world.round().state == "open"
        pass_deadline(store)
        client, path = world.client(), f"{world.base}/rounds/1"
        late = client.post(f"{path}/submissions/statistics", json=statistics("Ash", 1, 1), headers=world.headers("Ash"))
        assert late.status_code == 409
        assert client.get(path, headers=world.headers("Ash")).json()["state"] == "closed"
        assert settlement.close_due(store) == 1
        assert world.round().state == "paid"
        assert len(payments_of(store, world.campaign)) == 3
        assert settlement.close_due(store) == 0


def test_nothing_is_confirmed_after_the_deadline(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        submission = world.submit("Ash", 1, 2)
        pass_deadline(store)
        path = f"{world.base}/rounds/1/submissions/{submission}/confirm"
        assert world.client().post(path, json={}, headers=world.headers("Ash")).status_code == 409
        assert world.reports() == {}


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_the_services_own_clock_ticks(database: str) -> None:
    with opened(database) as store:
        world = make_world(store, opened=False)
        world.open(deadline=after(hours=1))
        world.report_all(COUNTS)
        pass_deadline(store)
        with TestClient(create_app(Settings(database, tick=0.05, hosts=("testserver",)), Store(database))):
            until = time.monotonic() + 30
            while world.round().state != "paid" and time.monotonic() < until:
                time.sleep(0.05)
        assert world.round().state == "paid"


def test_what_a_death_left_closed_is_settled_by_the_clock(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        world.report_all(COUNTS)
        with store.write() as tx:
            tx.execute(update(rounds).values(state="closed", closed=after(seconds=-1)))
        assert settlement.close_due(store) == 0, "whoever closed it may still be computing"
        with store.write() as tx:
            tx.execute(update(rounds).values(closed=after(seconds=-10)))
        assert settlement.close_due(store) == 1
        assert world.round().state == "paid"
        assert len(payments_of(store, world.campaign)) == 3


@pytest.mark.parametrize("kind", one_system("postgresql"))
def test_a_broken_campaign_does_not_keep_others_waiting(database: str) -> None:
    with opened(database) as store:
        worlds = [
            make_world(store, [f"{name} {number}" for name in COUNTS], DAILY, analyst=f"Ana {number}")
            for number in range(3)
        ]
        for number, world in enumerate(worlds):
            world.report_all({f"{name} {number}": counts for name, counts in COUNTS.items()})
            world.close()
            world.open()
            world.report_all({f"{name} {number}": counts for name, counts in COUNTS.items()}, 2)
        disarm(store)
        with store.write() as tx:
            broken = ledger_lines.c.campaign == worlds[1].campaign
            tx.execute(update(ledger_lines).where(broken).values(line=b"{}\n"))
        pass_deadline(store)
        settlement.close_due(store)
        assert [world.round(1).state for world in worlds] == ["paid", "closed", "paid"]


@pytest.mark.parametrize(("kind", "which"), in_turn([2, 1]))
def test_days_of_unequal_size_are_put_right(database: str, which: int) -> None:
    """Peers with other numbers of rows on the two days make faking pay: such days are not paid, and opened anew."""
    with opened(database) as store:
        world = make_world(store, terms=DAILY)
        first = {name: world.report(name, *counts) for name, counts in COUNTS.items()}
        world.close()
        assert world.round().problem is None
        world.open()
        second = {name: world.report(name, ones + 1, zeros, 2) for name, (ones, zeros) in COUNTS.items()}
        world.close(2)
        assert world.round(2).state == "closed"
        assert "rows" in world.round(2).problem
        assert payments_of(store, world.campaign) == {}
        with pytest.raises(ConflictError, match="could not be paid .*: reopen it or set it aside first"):
            world.open()
        world.reopen(which)
        for name, (ones, zeros) in COUNTS.items():
            more = int(which == 1)
            world.report(name, ones + more, zeros, which, replaces=(first if more else second)[name])
        world.close(which)
        assert [world.round(number).state for number in (1, 2)] == ["paid", "closed"]
        assert world.round(2).problem is None
        settlement.finish(store, world.analyst, world.campaign)
        assert world.round(2).state == "paid"
        assert len(payments_of(store, world.campaign)) == 6
        assert state_of(world) == "ended"


def test_days_that_were_opened_anew_are_paid_in_their_order(database: str) -> None:
    """The later of two days that are open again may be closed first, and as the last: it waits for the earlier one."""
    with opened(database) as store:
        world = make_world(store, terms=DAILY)
        first = {name: world.report(name, *counts) for name, counts in COUNTS.items()}
        world.close()
        world.open()
        world.report_all({name: (ones + 1, zeros) for name, (ones, zeros) in COUNTS.items()}, 2)
        world.close(2)
        for number in (1, 2):
            world.reopen(number)
        world.close(2, final=True)
        assert world.round(2).state == "closed"
        for name, (ones, zeros) in COUNTS.items():
            world.report(name, ones + 1, zeros, 1, replaces=first[name])
        world.close(1)
        assert [world.round(number).state for number in (1, 2)] == ["paid", "paid"]


def test_no_day_is_paid_as_the_last_while_one_after_it_is_open_again(database: str) -> None:
    """Under a rule that waits for several days, the second of three may be open again after the last was closed."""
    with opened(database) as store:
        world = make_world(store, terms=DAILY)
        for number in (1, 2, 3):
            world.report_all(COUNTS, number)
            with store.write() as tx:
                tx.execute(update(rounds).where(rounds.c.number == number).values(state="closed", closed=after()))
            if number < 3:
                world.open()
        with store.write() as tx:
            tx.execute(update(rounds).where(rounds.c.number == 2).values(state="open", closed=None))
            tx.execute(update(rounds).where(rounds.c.number == 3).values(final=True))
        settlement.settle(store, world.campaign)
        assert [world.round(number).state for number in (1, 2, 3)] == ["closed", "open", "closed"]
        assert payments_of(store, world.campaign) == {}
        world.close(2)
        assert [world.round(number).state for number in (1, 2, 3)] == ["paid", "paid", "paid"]
        assert len(payments_of(store, world.campaign)) == 9
        assert state_of(world) == "ended"


def test_one_report_is_no_round(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        world.report("Ash", 3, 4)
        world.close()
        assert (world.round().state, world.round().settled is None) == ("closed", False)
        assert "at least two providers" in world.round().problem
        world.reopen(1)
        world.report("Elm", 3, 4)
        world.close()
        assert world.round().state == "paid"
        with pytest.raises(ConflictError, match="could not be paid"):
            world.reopen(1)


def test_a_day_on_which_nobody_reports_does_not_hold_up_the_end(database: str) -> None:
    with opened(database) as store:
        world = make_world(store, terms=DAILY)
        world.report_all(COUNTS)
        world.close()
        world.open()
        world.close(2)
        assert [world.round(number).state for number in (1, 2)] == ["closed", "paid"]
        settlement.finish(store, world.analyst, world.campaign)
        assert world.round(1).state == "paid"
        assert len(payments_of(store, world.campaign)) == 3
        assert state_of(world) == "ended"


def test_no_day_follows_the_last(database: str) -> None:
    """Also where the process that closed the last day died before it paid."""
    with opened(database) as store:
        world = make_world(store, terms=DAILY)
        world.report_all(COUNTS)
        with store.write() as tx:
            tx.execute(update(rounds).values(state="closed", closed=after(minutes=-1), final=True))
        with pytest.raises(ConflictError, match="no day follows"):
            world.open()
        settlement.close_due(store)
        assert world.round().state == "paid"
        assert state_of(world) == "ended"
        with store.read() as tx:
            assert tx.execute(text("SELECT count(*) FROM rounds")).scalar() == 1


def test_a_score_out_of_range_stops_the_round(database: str) -> None:
    """A range that was declared too narrow is not clipped: the round is not paid, and says why."""
    terms = {**DAILY, "campaign": {"name": "once", "budget": "10.00"}, "data": {}}
    terms |= {"mechanism": {"rule": "OneTime", "range": [-0.001, 0.001]}}
    with opened(database) as store:
        world = make_world(store, terms=terms)
        world.report_all({"Ash": (9, 0), "Birch": (9, 0), "Elm": (0, 9)})
        world.close()
        assert world.round().state == "closed"
        assert "range" in world.round().problem
        assert payments_of(store, world.campaign) == {}
        world.reopen(1)
        assert world.round().state == "open"
