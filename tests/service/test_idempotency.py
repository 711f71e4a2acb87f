"""A request that is sent again under its key is done once and answered with the same bytes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.routing import APIRoute
from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import IntegrityError

from service.databases import in_turn, opened
from service.serving import concurrently
from service.world import TERMS, World, make_world, statistics
from troth.operations import OPERATIONS
from troth.service.api import mounted
from troth.service.payouts import payout_id
from troth.service.schema import campaigns, members, metadata, new_id, replies, reports
from troth.service.store import after, now

Case = tuple[str, str, Any, Any]
"""Who asks, where, with which body, and another body that is just as good."""


def _campaign(world: World) -> Case:
    other = {**TERMS, "campaign": {**TERMS["campaign"], "name": "another"}}
    return "Ana", "/api/v1/campaigns", {"terms": TERMS}, {"terms": other}


def _round(world: World) -> Case:
    return "Ana", f"{world.base}/rounds", {}, {"deadline": "2999-01-01T00:00:00Z"}


def _close(world: World) -> Case:
    world.open()
    world.report_all({"Ash": (1, 2), "Elm": (2, 1)})
    return "Ana", f"{world.base}/rounds/1/close", {}, {"final": True}


def _publish(world: World) -> Case:
    world.open()
    world.report_all({"Ash": (1, 2), "Elm": (2, 1)})
    world.close()
    return "Ana", f"{world.base}/rounds/1/publish", None, None


def _reopen(world: World) -> Case:
    world.open()
    world.report("Ash", 1, 2)
    world.close()
    return "Ana", f"{world.base}/rounds/1/reopen", {}, {"deadline": "2999-01-01T00:00:00Z"}


def _set_aside(world: World) -> Case:
    world.open()
    world.report("Ash", 1, 2)
    world.close()
    return "Ana", f"{world.base}/rounds/1/set-aside", None, None


def _finish(world: World) -> Case:
    world.open()
    world.report_all({"Ash": (1, 2), "Elm": (2, 1)})
    world.close()
    return "Ana", f"{world.base}/finish", None, None


def _statistics(world: World) -> Case:
    world.open()
    path = f"{world.base}/rounds/1/submissions/statistics"
    return "Ash", path, statistics("Ash", 1, 2), statistics("Ash", 2, 1)


def _file(world: World) -> Case:
    world.open()
    path = f"{world.base}/rounds/1/submissions/file?name=rows.csv"
    return "Ash", path, b"improved\n1\n0\n", b"improved\n1\n1\n"


def _confirm(world: World) -> Case:
    world.open()
    submission = world.submit("Ash", 1, 2)
    return "Ash", f"{world.base}/rounds/1/submissions/{submission}/confirm", {}, {"replaces": submission}


def _payouts(world: World) -> Case:
    world.open()
    world.report_all({"Ash": (1, 2), "Elm": (2, 1)})
    world.close()
    return "Ana", f"{world.base}/payouts", None, None


def _void(world: World) -> Case:
    _, path, _, _ = _payouts(world)
    payout = payout_id(world.campaign, None, "Ash")
    return "Ana", f"{path}/{payout}/void", {"reason": "paid in cash"}, {"reason": "a gift"}


CASES: dict[str, Callable[[World], Case]] = {
    "/campaigns": _campaign,
    "/campaigns/{campaign}/rounds": _round,
    "/campaigns/{campaign}/rounds/{number}/close": _close,
    "/campaigns/{campaign}/rounds/{number}/publish": _publish,
    "/campaigns/{campaign}/rounds/{number}/reopen": _reopen,
    "/campaigns/{campaign}/rounds/{number}/set-aside": _set_aside,
    "/campaigns/{campaign}/finish": _finish,
    "/campaigns/{campaign}/payouts": _payouts,
    "/campaigns/{campaign}/payouts/{payout}/void": _void,
    "/campaigns/{campaign}/rounds/{number}/submissions/statistics": _statistics,
    "/campaigns/{campaign}/rounds/{number}/submissions/file": _file,
    "/campaigns/{campaign}/rounds/{number}/submissions/{submission}/confirm": _confirm,
}


def post(world: World, case: Case, key: str | None, body: Any) -> Any:
    who, path, _, _ = case
    sent = {"content": body} if isinstance(body, bytes) else {} if body is None else {"json": body}
    return world.client().post(path, headers=world.headers(who, key), **sent)


def count(world: World, name: str) -> int:
    with world.store.read() as tx:
        return tx.scalar(select(func.count()).select_from(metadata.tables[name])) or 0


def counted(world: World) -> dict[str, int]:
    return {name: count(world, name) for name in metadata.tables if name not in ("replies", "tokens")}


def test_every_route_that_takes_a_key_is_tried() -> None:
    keyed = {
        route.path.removeprefix("/api/v1")
        for route in mounted().routes
        if isinstance(route, APIRoute)
        and any(field.alias == "Idempotency-Key" for field in route.dependant.header_params)
    }
    assert keyed == set(CASES) == {operation.path for operation in OPERATIONS if operation.keyed}


@pytest.mark.parametrize(("kind", "route"), in_turn(CASES))
def test_a_replay_is_answered_with_the_same_bytes(database: str, route: str) -> None:
    with opened(database) as store:
        world = make_world(store, opened=False)
        case = CASES[route](world)
        first = post(world, case, "a key", case[2])
        assert first.status_code == 422, "a key has no spaces"
        first = post(world, case, "key-1", case[2])
        assert first.status_code in (200, 201), first.text
        after = counted(world)
        again = post(world, case, "key-1", case[2])
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert counted(world) == after
        if case[3] is not None:
            other = post(world, case, "key-1", case[3])
            assert other.status_code == 409
            assert "Idempotency-Key" in other.json()["error"]
            assert counted(world) == after


@pytest.mark.parametrize(("kind", "route"), in_turn(CASES))
def test_the_same_key_at_the_same_moment_is_done_once(database: str, route: str) -> None:
    with opened(database) as store:
        world = make_world(store, opened=False)
        case = CASES[route](world)
        together = threading.Barrier(4)

        def asking(_: int) -> Any:
            together.wait(30)
            return post(world, case, "key", case[2])

        before = counted(world)
        answers = concurrently(asking, range(4), 4)
        assert {answer.status_code for answer in answers} <= {200, 201}, [answer.text for answer in answers]
        assert len({answer.content for answer in answers}) == 1
        grown = {name: more - before[name] for name, more in counted(world).items() if more != before[name]}
        assert set(grown.values()) <= {1} or route.endswith(("/close", "/set-aside", "/payouts")), grown
        assert count(world, "replies") == 1


def test_keys_of_different_people_are_their_own(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        path = f"{world.base}/rounds/1/submissions/statistics"
        answers = [
            world.client().post(path, json=statistics(name, 1, 2), headers=world.headers(name, "same"))
            for name in ("Ash", "Elm")
        ]
        assert [answer.status_code for answer in answers] == [201, 201]
        assert answers[0].json()["provider"] != answers[1].json()["provider"]


def test_a_key_may_be_used_again_after_a_week(database: str) -> None:
    with opened(database) as store:
        world = make_world(store, opened=False)
        case = _campaign(world)
        assert post(world, case, "weekly", case[2]).status_code == 201
        for days, status in ((6.9, 409), (7.1, 201)):
            with store.write() as tx:
                tx.execute(update(replies).values(created=after(days=-days)))
            assert post(world, case, "weekly", case[3]).status_code == status
        assert count(world, "campaigns") == 3
        assert count(world, "replies") == 1


def test_the_same_bytes_under_another_name_are_another_request(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        path = f"{world.base}/rounds/1/submissions/file"
        body = json.dumps(statistics("Ash", 1, 2)).encode()
        answers = [
            world.client().post(path, params={"name": name}, content=body, headers=world.headers("Ash", "same"))
            for name in ("may.statistics.json", "june.statistics.json", "may.statistics.json")
        ]
        assert [answer.status_code for answer in answers] == [201, 409, 201]
        assert answers[0].content == answers[2].content
        assert "it was used for another request" in answers[1].text


def test_without_a_key_the_constraint_guards(database: str) -> None:
    """Two reports of one provider to one round cannot be in the database, whatever program writes them."""
    with opened(database) as store:
        world = make_world(store)
        submission, other = world.submit("Ash", 1, 2), world.submit("Ash", 2, 1)
        confirm = f"{world.base}/rounds/1/submissions/{{}}/confirm"
        together = threading.Barrier(4)

        def asking(number: int) -> int:
            together.wait(30)
            path = confirm.format(submission if number % 2 else other)
            return int(world.client().post(path, json={}, headers=world.headers("Ash")).status_code)

        outcomes = concurrently(asking, range(4), 4)
        assert set(outcomes) == {200, 409}
        assert len(world.reports()) == 1
        values = {"campaign": world.campaign, "round": world.round().id, "member": world.members["Ash"]}
        with pytest.raises(IntegrityError), store.write() as tx:
            tx.execute(insert(reports).values(id=new_id(), upload=other, confirmed=now(), **values))


def test_one_name_and_one_account_per_campaign(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        for name, account in (("Ash", None), ("Fir", world.providers["Ash"].account)):
            values = {"name": name, "identity": "again", "created": now(), "account": account}
            with pytest.raises(IntegrityError), store.write() as tx:
                tx.execute(insert(members).values(id=new_id(), campaign=world.campaign, **values))
        with store.read() as tx:
            assert tx.scalar(select(func.count()).select_from(campaigns)) == 1
            assert tx.scalar(select(func.count()).select_from(replies)) == 0
