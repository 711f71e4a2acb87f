"""Every state has an exit: all orders of what people do, against a small model of what should come of it.

An absent provider is paid nothing and keeps nobody from being paid. A revoked one's reports to open rounds are
withdrawn, and to closed ones when these reopen. A report that cannot be paid stops its round, and days after it, until
the analyst reopens the round (the provider replaces it, or is revoked) or sets it aside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import troth
from registry import SOAK
from service.databases import KINDS, Databases, in_turn, opened
from service.world import NAMES, TERMS, World, make_world, payments_of
from troth.campaigns.rounds import pay_rounds
from troth.core.errors import DataError
from troth.service import campaigns, rounds, settlement, store
from troth.service.errors import RefusedError
from troth.service.limited_payments import Paid, _judge
from troth.service.schema import campaigns as campaign_table

BAD, BAD_LAST = 13, 5  # this many ones cannot be paid, or not by the rule of a last day
DAILY: dict[str, Any] = {
    **TERMS,
    "campaign": {**TERMS["campaign"], "budget_per": "day"},
    "data": {"day": "day"},
    "mechanism": {"rule": "MultiDay"},
}
EACH_DAY = {**DAILY, "mechanism": TERMS["mechanism"]}
people, ones, days = st.sampled_from(NAMES), st.sampled_from([3, 7, BAD_LAST, BAD]), st.integers(0, 3)


def refusing(terms: Any, reports: Any, ledger: Any, **options: Any) -> Any:
    """Pay as always, unless there is a report that cannot be paid; in this process, which is quick."""
    last = max((report.day for report in reports), default=None)
    no_last = options.get("final") and any(r.summary[1] == BAD_LAST for r in reports if r.day == last)
    if no_last or any(report.summary[1] == BAD for report in reports):
        raise DataError("a score lies outside the range")
    return Paid(pay_rounds(terms, reports, ledger, **options), None)


@dataclass
class Day:
    """What should be true of a round."""

    state: str = "open"
    reports: dict[str, int] = field(default_factory=dict)
    problem: bool = False
    final: bool = False
    used: bool = False
    paid: set[str] = field(default_factory=set)


@dataclass
class Reference:
    """What should be true of a campaign, in as few words as possible."""

    waits: bool
    days: list[Day] = field(default_factory=list)
    revoked: set[str] = field(default_factory=set)
    ended: bool = False

    def settle(self) -> None:
        first_open = next((n for n, day in enumerate(self.days) if day.state == "open"), len(self.days))
        waiting = [day for day in self.days[:first_open] if day.state == "closed"]
        lonely = not self.waits and any(len(day.reports) == 1 for day in waiting)
        final = any(day.final for day in self.days) and not any(day.state == "open" for day in self.days)
        reported = [day for day in waiting if day.reports]
        no_last = final and any(BAD_LAST in day.reports.values() for day in reported[-1:])
        bad = lonely or no_last or any(BAD in day.reports.values() for day in waiting)
        for day in waiting:
            day.problem = bad and bool(day.reports)
            if not day.reports:
                day.state = "paid"
        if bad or not waiting:
            return
        for place, day in enumerate(reported):
            following = reported[place + 1 :]
            if self.waits and not following and not final:
                continue
            day.state, day.paid, day.used = "paid", set(day.reports), True
            for other in following[:1] if self.waits else ():
                other.used = True
        self.ended = self.ended or final

    def set_aside(self, day: Day) -> None:
        day.state, day.reports, day.problem = "paid", {}, False
        everything = all(day.state == "paid" for day in self.days)
        self.ended = self.ended or (everything and any(day.final for day in self.days))
        self.settle()

    def may_open(self) -> bool:
        stuck = any(day.state == "open" or day.final or (day.state == "closed" and day.problem) for day in self.days)
        needed = 1 if self.days else 2  # the first opening fixes who takes part
        return not self.ended and not stuck and len(NAMES) - len(self.revoked) >= needed


class Orders(RuleBasedStateMachine):
    """Submit, replace, revoke, reopen, close, set aside, finish, or be absent, in any order."""

    databases: Databases
    kind = "sqlite"
    paid_days: ClassVar[list[int]]

    @initialize(waits=st.booleans())
    def begin(self, waits: bool) -> None:
        self.url = self.databases.new(self.kind)
        self.store = store.Store(self.url)
        self.world = make_world(self.store, terms=DAILY if waits else EACH_DAY, opened=False)
        self.reference = Reference(waits)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            leave(self.world, self.reference)
            self.agree()
            self.paid_days.append(sum(bool(day.paid) for day in self.reference.days))
            self.store.close()
            self.databases.give_back(self.url)

    def attempt(self, allowed: bool, deed: Any, *arguments: Any, **options: Any) -> bool:
        """Do something, which must be refused exactly if the model says so."""
        try:
            deed(*arguments, **options)
        except RefusedError:
            assert not allowed, f"{deed} was refused"
            return False
        assert allowed, f"{deed} was not refused"
        return True

    @rule()
    def open(self) -> None:
        if self.attempt(self.reference.may_open(), self.world.open):
            self.reference.days.append(Day())

    @rule(
        counts=st.lists(st.sampled_from([3, 7, BAD_LAST]), min_size=len(NAMES), max_size=len(NAMES)),
        final=st.booleans(),
    )
    def have_a_good_day(self, counts: list[int], final: bool) -> None:
        """Open a day, have everybody report, and close it: what most days are like."""
        self.open()
        number = len(self.reference.days) - 1
        if number < 0 or self.reference.days[number].state != "open":
            return
        for name, count in zip(NAMES, counts, strict=True):
            self.report(name, count, number)
        self.close(number, final)

    @rule(name=people, count=ones, number=days)
    def report(self, name: str, count: int, number: int) -> None:
        if number >= len(self.reference.days):
            return
        day = self.reference.days[number]
        confirmed = [row for row in self.submissions(name, number) if row.confirmed is not None]
        allowed = day.state == "open" and name not in self.reference.revoked
        replaces = confirmed[0].id if confirmed else None
        if self.attempt(allowed, self.world.report, name, count, 20 - count, number + 1, replaces):
            day.reports[name] = count

    def submissions(self, name: str, number: int) -> Any:
        with self.store.read() as tx:
            row = rounds.find_round(tx, self.world.campaign, number + 1)
            return rounds.my_uploads(tx, self.world.members[name], row.id)

    @rule(number=days, final=st.booleans())
    def close(self, number: int, final: bool) -> None:
        if number >= len(self.reference.days):
            return
        day = self.reference.days[number]
        self.world.close(number + 1, final=final)
        if day.state == "open":
            day.state, day.final, day.problem = "closed", final, False
        self.reference.settle()

    @rule()
    def finish(self) -> None:
        days = self.reference.days
        allowed = bool(days) and not any(day.state == "open" for day in days)
        if self.attempt(allowed, settlement.finish, self.store, self.world.analyst, self.world.campaign):
            waiting = [day for day in days if day.state == "closed"]
            if waiting:
                waiting[-1].final = True
            else:
                self.reference.ended = True
            self.reference.settle()

    @precondition(lambda self: len(self.reference.revoked) < 2)
    @rule(name=people)
    def revoke(self, name: str) -> None:
        with self.store.write() as tx:
            campaigns.revoke(tx, self.world.analyst, self.world.campaign, self.world.members[name])
        self.reference.revoked.add(name)
        for day in self.reference.days:
            if day.state == "open":
                day.reports.pop(name, None)

    @rule(number=days)
    def reopen(self, number: int) -> None:
        if number >= len(self.reference.days):
            return
        day = self.reference.days[number]
        allowed = day.state == "closed" and day.problem and not day.used
        if self.attempt(allowed, self.world.reopen, number + 1):
            day.state, day.problem, day.final = "open", False, False
            for name in self.reference.revoked:
                day.reports.pop(name, None)

    @rule(number=days)
    def set_aside(self, number: int) -> None:
        if number >= len(self.reference.days):
            return
        day = self.reference.days[number]
        last = all(later.state == "paid" for later in self.reference.days[number + 1 :])
        done = day.state == "paid" and not day.paid  # to set aside what pays nobody changes nothing
        allowed = done or (day.state == "closed" and day.problem and (not day.used or (day.final and last)))
        world = self.world
        put_aside = self.attempt(allowed, settlement.set_aside, self.store, world.analyst, world.campaign, number + 1)
        if put_aside and not done:
            self.reference.set_aside(day)

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "world"):
            return
        with self.store.read() as tx:
            rows = rounds.list_rounds(tx, self.world.campaign)
            ended = tx.execute(campaign_table.select()).one().state == "ended"
        states = [(row.state, row.state == "closed" and row.problem is not None, row.final) for row in rows]
        expected = [(day.state, day.state == "closed" and day.problem, day.final) for day in self.reference.days]
        assert states == expected
        assert ended == self.reference.ended
        paid: dict[Any, set[str]] = {}
        for day, name in payments_of(self.store, self.world.campaign):
            paid.setdefault(day, set()).add(name)
        assert sorted(map(sorted, paid.values())) == sorted(sorted(day.paid) for day in self.reference.days if day.paid)


def leave(world: World, reference: Reference | None = None) -> None:
    """Do what an analyst can always do, until the campaign has ended."""
    model, tried = reference or Reference(False), False
    for _ in range(20):
        with world.store.read() as tx:
            rows = rounds.list_rounds(tx, world.campaign)
            ended = tx.execute(campaign_table.select().where(campaign_table.c.id == world.campaign)).one().state
        if ended == "ended" or not rows:
            return
        still_open = [row.number for row in rows if row.state == "open"]
        stuck = [row.number for row in rows if row.state == "closed" and row.problem is not None]
        if still_open:
            world.close(still_open[0])
            if reference is not None:
                day = model.days[still_open[0] - 1]
                day.state, day.final, day.problem = "closed", False, False
                model.settle()
        elif stuck and not tried:
            tried = True
            world.close(stuck[-1])  # again, which retries what a fault kept from being paid
            model.settle()
        elif not any(_set_aside(world, number, reference) for number in reversed(stuck)):
            settlement.finish(world.store, world.analyst, world.campaign)
            waiting = [day for day in model.days if day.state == "closed"]
            if waiting:
                waiting[-1].final = True
            else:
                model.ended = True
            model.settle()
    raise AssertionError(f"there is no way out of {rows}")


def _set_aside(world: World, number: int, reference: Reference | None) -> bool:
    try:
        settlement.set_aside(world.store, world.analyst, world.campaign, number)
    except RefusedError:
        return False
    if reference is not None:
        reference.set_aside(reference.days[number - 1])
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_a_day_that_was_used_and_cannot_be_paid_as_the_last_has_an_exit(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The day after it, on which nobody reported, is no day that could be set aside instead."""
    monkeypatch.setattr(settlement, "pay_rounds", refusing)
    monkeypatch.setattr(settlement, "judge", lambda *_: None)
    with opened(database) as here:
        world = make_world(here, terms=DAILY)
        for number, count in ((1, 7), (2, BAD_LAST), (3, None)):
            if number > 1:
                world.open()
            if count is not None:
                world.report_all(dict.fromkeys(NAMES, (count, 20 - count)), number)
            world.close(number)
        assert [world.round(number).state for number in (1, 2, 3)] == ["paid", "closed", "paid"]
        settlement.finish(here, world.analyst, world.campaign)
        assert world.round(2).problem is not None
        with pytest.raises(RefusedError, match="cannot change"):
            world.reopen(2)
        settlement.set_aside(here, world.analyst, world.campaign, 2)
        assert world.round(2).state == "paid"
        with here.read() as tx:
            assert tx.execute(campaign_table.select()).one().state == "ended"


def test_every_order_ends_as_the_model_says(databases: Databases, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settlement, "pay_rounds", refusing)
    monkeypatch.setattr(
        settlement, "judge", lambda terms, ledger, _=None: _judge(terms.plain, list(ledger.lines), None)
    )
    machine: Any = type("OrdersHere", (Orders,), {"databases": databases, "kind": kind, "paid_days": []})
    examples, steps = (150, 60) if SOAK else (10 if kind == "sqlite" else 6, 25)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=not SOAK,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )
    assert sum(machine.paid_days) >= examples // 8, "hardly a day was paid: the orders are not those of real campaigns"


@pytest.mark.parametrize(("kind", "absent"), in_turn(NAMES))
def test_whoever_is_absent_on_the_second_day_blocks_nobody_on_the_first(database: str, absent: str) -> None:
    with opened(database) as here:
        world = make_world(here, terms=DAILY)
        world.report_all(dict.fromkeys(NAMES, (7, 3)))
        world.close()
        world.open()
        world.report_all({name: (6, 4) for name in NAMES if name != absent}, 2)
        world.close(2)
        assert (world.round().state, world.round().problem) == ("paid", None)
        assert {name for _, name in payments_of(here, world.campaign)} == set(NAMES)


@pytest.mark.parametrize(("kind", "rows"), in_turn([10, 11]))
def test_one_report_on_the_second_day_pays_the_first(database: str, rows: int) -> None:
    """With as many rows it is the others' peer; it has none itself, nor has anybody if its number of rows differs."""
    with opened(database) as here:
        world = make_world(here, terms=DAILY)
        world.report_all({"Ash": (7, 3), "Birch": (8, 2), "Elm": (6, 4)})
        world.close()
        world.open()
        world.report("Ash", 6, rows - 6, 2)
        world.close(2)
        assert (world.round().state, world.round().problem, world.round(2).problem) == ("paid", None, None)
        world.open()
        world.report_all(dict.fromkeys(NAMES, (7, 3)), 3)
        world.close(3)
        payments = payments_of(here, world.campaign)
        first, second = (
            {name: cents for (day, name), cents in payments.items() if day == which}
            for which in sorted({day for day, _ in payments})
        )
        empty = int(1000_00 / 3 * troth.divergences.logistic.empty_share)
        assert first["Ash"] == empty
        assert second == {"Ash": empty}
        assert set(first) == set(NAMES)
        assert (first["Birch"] != empty) == (rows == 10)
