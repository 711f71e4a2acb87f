"""Five hundred providers who send three reports each at once, and eight who close: one report each, paid once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from registry import SOAK
from service.databases import opened
from service.serving import Answer, Served, at_once, serving
from service.world import World, make_world, payments_of, statistics
from troth.service import accounts, incoming, rounds, settlement
from troth.service.refusals import ConflictError
from troth.service.uploads import Limits

MANY = 500
FEW = 500 if SOAK else 40
TIMES = 3
CLOSERS = 8
PEOPLE = 16


def numbered(many: int) -> list[str]:
    return [f"provider {number:03d}" for number in range(many)]


def report_to(served: Served, world: World, name: str, turn: int) -> tuple[str, Answer]:
    """Send one report as a provider and confirm it."""
    headers = world.headers(name)
    sent = served.post(f"{world.base}/rounds/1/submissions/statistics", headers, statistics(name, 2 + turn, 3))
    if sent.status != 201:
        return name, sent
    made = sent.plain["id"]
    return name, served.post(f"{world.base}/rounds/1/submissions/{made}/confirm", headers)


def close(served: Served, world: World) -> Answer:
    return served.post(f"{world.base}/rounds/1/close", world.headers("Ana"))


def test_five_hundred_report_once_and_one_close_pays(database: str) -> None:
    names = numbered(MANY)
    with opened(database) as store:
        world = make_world(store, names)

        def reporting(item: tuple[str, int]) -> str | None:
            name, turn = item
            who, plain = world.providers[name], statistics(name, 2 + turn, 3)
            assert accounts.who_has_token(store, world.tokens[name]) == who
            upload = incoming.read_statistics(store, who, world.campaign, 1, plain, Limits())
            with store.write() as tx:
                made = rounds.add_upload(tx, who, world.campaign, 1, upload)
            try:
                with store.write() as tx:
                    rounds.confirm(tx, who, world.campaign, 1, made)
            except ConflictError:
                return None
            return name

        def closing(_: Any) -> bool:
            return settlement.close_round(store, world.analyst, world.campaign, 1)

        found = at_once(reporting, [(name, turn) for name in names for turn in range(TIMES)], PEOPLE)
        assert sorted(name for name in found if name is not None) == names
        assert sorted(at_once(closing, range(CLOSERS), CLOSERS)) == [False] * (CLOSERS - 1) + [True]
        paid = payments_of(store, world.campaign)
        assert sorted(provider for _, provider in paid) == names
        assert 0 < sum(paid.values()) <= 1000_00
        assert world.round().state == "paid"


@pytest.mark.parametrize("workers", [1, 2] if SOAK else [2])
def test_who_reports_and_closes_at_once_over_http(database: str, tmp_path: Path, workers: int) -> None:
    names = numbered(FEW)
    with opened(database) as store:
        world = make_world(store, names)
        with serving(database, tmp_path, workers=workers) as served:
            turns = [(name, turn) for name in names for turn in range(TIMES)]
            found = at_once(lambda item: report_to(served, world, *item), turns, PEOPLE)
            closed = at_once(lambda _: close(served, world), range(CLOSERS), CLOSERS)
        assert {answer.status for _, answer in found} == {200, 409}
        assert sorted(name for name, answer in found if answer.status == 200) == names
        assert {answer.status for answer in closed} == {200}
        assert {answer.plain["state"] for answer in closed} == {"paid"}
        assert len({answer.plain["head"] for answer in closed}) == 1
        paid = payments_of(store, world.campaign)
        assert sorted(provider for _, provider in paid) == names
        assert 0 < sum(paid.values()) <= 1000_00
    said = served.log.read_text()
    assert "locked" not in said
    assert '"level": "error"' not in said


def test_what_was_confirmed_before_the_close_is_paid_and_nothing_else(database: str, tmp_path: Path) -> None:
    names = numbered(FEW)
    with opened(database) as store:
        world = make_world(store, names)
        world.report(names[0], 3, 3)
        world.report(names[1], 3, 3)
        closed: list[Answer] = []
        accepted: list[str] = []
        begun = threading.Event()
        with serving(database, tmp_path, workers=2) as served:

            def closing() -> None:
                begun.wait(60)
                closed.append(close(served, world))

            def reporting(item: tuple[str, int]) -> tuple[str, Answer]:
                name, answer = report_to(served, world, *item)
                if answer.status == 200:
                    accepted.append(name)
                if len(accepted) == 8:
                    begun.set()
                return name, answer

            threads = [threading.Thread(target=closing) for _ in range(CLOSERS)]
            for thread in threads:
                thread.start()
            turns = [(name, turn) for name in names[2:] for turn in range(TIMES)]
            found = at_once(reporting, turns, PEOPLE)
            for thread in threads:
                thread.join()
        assert {answer.status for _, answer in found} <= {200, 409}
        assert {(answer.status, answer.plain["state"]) for answer in closed} == {(200, "paid")}
        assert len(accepted) < FEW - 2, "the closers came too late to race"
        assert {provider for _, provider in payments_of(store, world.campaign)} == {*names[:2], *accepted}
