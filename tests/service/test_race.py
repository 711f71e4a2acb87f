"""Many providers who send three reports each at once, and eight who close: one report each, paid once.

`make soak` has five hundred of them.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from registry import SOAK
from service.databases import one_system, opened
from service.serving import Answer, Served, concurrently, serving, until
from service.world import World, make_world, payments_of, read_statistics, statistics
from troth.service import accounts, rounds, settlement
from troth.service.errors import ConflictError, RateLimitError
from troth.service.schema import queued
from troth.service.store import after

MANY = 500 if SOAK else 24
FEW = 500 if SOAK else 8
TIMES = 3
CLOSERS = 8
PEOPLE = 16


def numbered(many: int) -> list[str]:
    return [f"provider {number:03d}" for number in range(many)]


def report_to(served: Served, world: World, name: str, turn: int) -> tuple[str, Answer]:
    """Send one report as a provider and confirm it."""
    headers = world.headers(name)
    sent = served.post(f"{world.base}/rounds/1/submissions/statistics", headers, statistics(name, 2 + turn, 3))
    if sent.status not in (201, 202):
        return name, sent
    submission = sent.plain["id"]
    address = f"{world.base}/rounds/1/submissions/{submission}"
    until(lambda: served.ask("GET", address, headers).plain["state"] != "waiting")
    return name, served.post(f"{world.base}/rounds/1/submissions/{submission}/confirm", headers)


def close(served: Served, world: World) -> Answer:
    """Close and pay: many reports that are this much alike are no model's."""
    return served.post(f"{world.base}/rounds/1/close", world.headers(world.analyst.name), {"anyway": True})


def test_a_report_is_replaced_only_by_whoever_names_the_one_that_counts(database: str) -> None:
    with opened(database) as store:
        world = make_world(store, ["Ash", "Birch"])
        first = world.report("Ash", 2, 3)
        second = world.report("Ash", 3, 3, replaces=first)
        for stale in (first, None, "0" * 16):
            with pytest.raises(ConflictError, match="already confirmed"):
                world.report("Ash", 4, 3, replaces=stale)
        with store.read() as tx:
            (report,) = rounds.confirmed_rows(tx, world.campaign, [rounds.find_round(tx, world.campaign, 1).id])
        assert (report.id, report.rows) == (second, 6)


def test_a_provider_sends_so_many_files_to_a_round_and_no_more(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "MAX_UPLOADS", 3)
    with opened(database) as store:
        world = make_world(store, ["Ash", "Birch"])
        for ones in (1, 2, 3):
            world.submit("Ash", ones, 3)
        with pytest.raises(RateLimitError, match="you have sent 3 files to this round"):
            world.submit("Ash", 4, 3)
        world.submit("Birch", 4, 3)


def test_many_report_once_and_one_close_pays(database: str) -> None:
    names = numbered(MANY)
    with opened(database) as store:
        world = make_world(store, names)

        def reporting(item: tuple[str, int]) -> str | None:
            name, turn = item
            who, plain = world.providers[name], statistics(name, 2 + turn, 3)
            assert accounts.user_of_token(store, world.tokens[name]) == who
            upload = read_statistics(store, who, world.campaign, plain)
            with store.write() as tx:
                submission = rounds.add_upload(tx, who, world.campaign, 1, upload)
            try:
                with store.write() as tx:
                    rounds.confirm(tx, who, world.campaign, 1, submission)
            except ConflictError:
                return None
            return name

        def closing(_: Any) -> bool:
            return settlement.close_round(store, world.analyst, world.campaign, 1, anyway=True)

        outcomes = concurrently(reporting, [(name, turn) for name in names for turn in range(TIMES)], PEOPLE)
        assert sorted(name for name in outcomes if name is not None) == names
        assert sorted(concurrently(closing, range(CLOSERS), CLOSERS)) == [False] * (CLOSERS - 1) + [True]
        payments = payments_of(store, world.campaign)
        assert sorted(provider for _, provider in payments) == names
        assert 0 < sum(payments.values()) <= 1000_00
        assert world.round().state == "paid"


def test_a_close_comes_through_while_reports_keep_coming(database: str) -> None:
    """Reports hold a round open together for a moment each; who closes waits for those before, not for all to come."""
    names = numbered(PEOPLE)
    with opened(database) as store:
        world = make_world(store, names)
        world.report_all(dict.fromkeys(names, (2, 3)))
        busy = threading.Barrier(PEOPLE + 1)

        def reporting(name: str) -> int:
            who, plain = world.providers[name], statistics(name, 3, 2)
            upload = read_statistics(store, who, world.campaign, plain)
            busy.wait(30)
            for sent in range(rounds.MAX_UPLOADS - 1):
                try:
                    with store.write() as tx:
                        rounds.add_upload(tx, who, world.campaign, 1, upload)
                        time.sleep(0.02)
                except ConflictError:
                    return sent
            return -1

        def closing() -> None:
            busy.wait(30)
            time.sleep(0.2)
            world.close()

        closer = threading.Thread(target=closing)
        closer.start()
        sent = concurrently(reporting, names, PEOPLE)
        closer.join()
        assert -1 not in sent, "everybody could send all they had before the round closed"


@pytest.mark.parametrize("kind", one_system("sqlite"))
@pytest.mark.parametrize("workers", [1, 2] if SOAK else [2])
def test_who_reports_and_closes_at_once_over_http(database: str, tmp_path: Path, workers: int) -> None:
    """In one campaign they close when all have reported; in another they close while reports come in."""
    with opened(database) as store:
        world = make_world(store, numbered(FEW))
        raced = make_world(store, [f"racing {name}" for name in numbered(FEW)], analyst="Bob")
        with serving(database, tmp_path, workers=workers) as served:
            _each_reports_once_and_one_close_pays(served, world)
            _what_was_confirmed_before_the_close_is_paid(served, raced)
    log = served.log.read_text()
    assert "locked" not in log
    assert '"level": "error"' not in log


def _each_reports_once_and_one_close_pays(served: Served, world: World) -> None:
    names = [*world.providers]
    turns = [(name, turn) for name in names for turn in range(TIMES)]
    outcomes = concurrently(lambda item: report_to(served, world, *item), turns, PEOPLE)
    closed = concurrently(lambda _: close(served, world), range(CLOSERS), CLOSERS)
    assert {answer.status for _, answer in outcomes} == {200, 409}
    assert sorted(name for name, answer in outcomes if answer.status == 200) == names
    assert {answer.status for answer in closed} == {200}
    assert {answer.plain["state"] for answer in closed} == {"paid"}
    assert len({answer.plain["head"] for answer in closed}) == 1
    payments = payments_of(world.store, world.campaign)
    assert sorted(provider for _, provider in payments) == names
    assert 0 < sum(payments.values()) <= 1000_00


def _what_was_confirmed_before_the_close_is_paid(served: Served, world: World) -> None:
    names = [*world.providers]
    world.report(names[0], 3, 3)
    world.report(names[1], 3, 3)
    closed: list[Answer] = []
    accepted: list[str] = []
    begun, ended = threading.Event(), threading.Event()
    late = set(names[-FEW // 4 :])

    def closing() -> None:
        begun.wait(60)
        closed.append(close(served, world))
        ended.set()

    def reporting(item: tuple[str, int]) -> int:
        if item[0] in late:
            ended.wait(60)
        name, answer = report_to(served, world, *item)
        if answer.status == 200:
            accepted.append(name)
        if len(accepted) >= FEW // 5:
            begun.set()
        return answer.status

    threads = [threading.Thread(target=closing) for _ in range(CLOSERS)]
    for thread in threads:
        thread.start()
    outcomes = concurrently(reporting, [(name, turn) for name in names[2:] for turn in range(TIMES)], PEOPLE)
    for thread in threads:
        thread.join()
    assert set(outcomes) <= {200, 409}
    assert {answer.status for answer in closed} == {200}
    with world.store.write() as tx:  # what was read late and never confirmed holds the round up for minutes
        tx.execute(update(queued).where(queued.c.done.is_not(None)).values(done=after(minutes=-11)))
    settlement.settle(world.store, world.campaign)
    assert world.round().state == "paid"
    assert accepted
    assert not late & set(accepted)
    assert {provider for _, provider in payments_of(world.store, world.campaign)} == {*names[:2], *accepted}
