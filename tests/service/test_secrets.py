"""Secrets have 256 bits and are kept as hashes; they are in no log, work until they end, and cannot be guessed fast."""

from __future__ import annotations

import base64
import json
import logging
import threading
from typing import Any

import pytest
from argon2 import Type
from fastapi.testclient import TestClient
from sqlalchemy import event, insert, select, update
from sqlalchemy.exc import IntegrityError

from service.databases import one_system, opened
from service.serving import concurrently
from service.world import TERMS, World, dump, make_world
from troth.operations import SCOPES
from troth.service import accounts, campaigns, serve
from troth.service.accounts import MAX_FAILURES, MAX_WAIT
from troth.service.errors import NotFoundError, RateLimitError
from troth.service.schema import attempts, links, members, sessions, tokens
from troth.service.store import Store, after
from troth.service.web import JsonLines

PASSWORD = "a long password of words"
HASHER, NOBODY = accounts._hasher, accounts._dummy_hash
"""As they are when the service starts: tests replace them."""


def test_passwords_are_hashed_at_the_recommended_cost() -> None:
    assert HASHER.type is Type.ID
    assert (HASHER.time_cost, HASHER.memory_cost, HASHER.parallelism) == (2, 19_456, 1)
    assert not HASHER.check_needs_rehash(NOBODY), "unknown names would be refused sooner than wrong passwords"


def bits(secret: str) -> int:
    return 8 * len(base64.urlsafe_b64decode(secret.removeprefix("troth_") + "="))


def a_session(client: TestClient, store: Store) -> dict[str, str]:
    """Go through everything that hands out or takes secrets; return them all by what they are."""
    secrets_used = {"password": PASSWORD, "provider's password": "another long password"}
    link = serve.first_link(store, "http://127.0.0.1:8000")
    assert link is not None
    secrets_used["first link"] = link.rsplit("/", 1)[1]
    chosen = client.post("/api/v1/passwords", json={"link": secrets_used["first link"], "password": PASSWORD})
    assert chosen.status_code == 201
    with store.write() as tx:
        secrets_used["session"] = accounts.start_session(tx, chosen.json()["account"])
    secrets_used["second link"] = serve.new_link(store, "http://127.0.0.1:8000", "analyst").rsplit("/", 1)[1]
    answer = client.post("/api/v1/tokens", json={"name": "analyst", "password": PASSWORD})
    assert answer.status_code == 201
    secrets_used["token"] = answer.json()["token"]
    wrong = client.post("/api/v1/tokens", json={"name": "analyst", "password": "wrong " + PASSWORD})
    assert wrong.status_code == 401
    headers = {"Authorization": f"Bearer {secrets_used['token']}"}
    campaign = client.post("/api/v1/campaigns", json={"terms": TERMS}, headers=headers).json()["id"]
    base = f"/api/v1/campaigns/{campaign}"
    for name in ("Ash", "Elm"):
        invited = client.post(f"{base}/providers", json={"name": name, "identity": "seen"}, headers=headers).json()
        secrets_used[f"{name}'s invitation"] = invited["invitation"]
    again = client.post(f"{base}/providers/{invited['id']}/invitation", headers=headers).json()
    secrets_used["Elm's second invitation"] = again["invitation"]
    body = {"invitation": secrets_used["Ash's invitation"], "password": secrets_used["provider's password"]}
    assert client.post("/api/v1/invitations", json=body).status_code == 201
    assert client.post("/api/v1/invitations", json=body).status_code == 404
    answer = client.post("/api/v1/tokens", json={"name": "Ash", "password": secrets_used["provider's password"]})
    secrets_used["provider's token"] = answer.json()["token"]
    assert client.get(f"/api/v1/campaigns/{secrets_used['token']}", headers=headers).status_code == 422
    assert client.get(f"/join/{secrets_used['second link']}").status_code in (200, 303, 404)
    assert client.get(f"/api/v1/tokens/{secrets_used['token']}?token={secrets_used['token']}").status_code in (404, 405)
    assert (
        client.get("/api/v1/me", headers={"Authorization": "Bearer " + secrets_used["provider's token"]}).status_code
        == 200
    )
    return secrets_used


def test_secrets_are_in_no_table_and_no_log(database: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with opened(database) as store:
        world = World(store, None, "")  # type: ignore[arg-type]
        secrets_used = a_session(world.client(), store)
        stored = dump(store)
    records = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    log = "\n".join(JsonLines().format(record) for record in records)
    assert '"route": "/api/v1/tokens"' in log
    for what, secret in secrets_used.items():
        if "password" not in what:
            assert bits(secret) == 256, what
        assert secret not in stored, what
        assert secret not in log, what
        assert secret[:20] not in log.replace("/api/v1", ""), what
    assert len(set(secrets_used.values())) == len(secrets_used)


def test_an_error_in_the_log_has_no_values(database: str, caplog: pytest.LogCaptureFixture) -> None:
    with opened(database) as store:
        world = make_world(store)
        with store.read() as tx:
            row = tx.execute(select(tokens).limit(1)).one()._asdict()
        with pytest.raises(IntegrityError) as failed, store.write() as tx:
            tx.execute(tokens.insert().values(row | {"label": "a telling label"}))
        assert "a telling label" not in str(failed.value)
        assert world.tokens["Ana"] not in str(failed.value)


def test_tokens_end(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        client, mine = world.client(), world.headers("Ana")
        with store.write() as tx:
            secret, token = accounts.create_token(tx, world.analyst.account, "short", SCOPES, 1)
        headers = {"Authorization": f"Bearer {secret}"}
        assert client.get("/api/v1/me", headers=headers).status_code == 200
        with store.write() as tx:
            tx.execute(update(tokens).where(tokens.c.id == token.id).values(expires=after(seconds=-1)))
        assert client.get("/api/v1/me", headers=headers).status_code == 401
        with store.write() as tx:
            tx.execute(update(tokens).where(tokens.c.id == token.id).values(expires=after(days=1)))
        assert client.get("/api/v1/me", headers=headers).status_code == 200
        assert client.delete(f"/api/v1/tokens/{token.id}", headers=mine).status_code == 204
        assert client.get("/api/v1/me", headers=headers).status_code == 401
        assert client.get("/api/v1/me", headers=mine).status_code == 200
        answer = client.get("/api/v1/tokens", headers=mine)
        assert secret not in answer.text
        assert accounts.digest(secret) not in answer.text
        with store.write() as tx:
            accounts.set_password(tx, world.analyst.account, PASSWORD)
        assert client.get("/api/v1/me", headers=mine).status_code == 401


def test_sessions_end(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        with store.write() as tx:
            first, second = (accounts.start_session(tx, world.analyst.account) for _ in range(2))
            assert accounts.user_of_session(tx, first) == world.analyst
            accounts.end_session(tx, first)
            assert accounts.user_of_session(tx, first) is None
            tx.execute(update(sessions).values(expires=after(seconds=-1)))
            assert accounts.user_of_session(tx, second) is None
            third = accounts.start_session(tx, world.analyst.account)
            accounts.end_all_sessions(tx)
            assert accounts.user_of_session(tx, third) is None
        assert world.client().get("/api/v1/me", headers=world.headers("Ana")).status_code == 401


def try_to_sign_in(world: World, name: str, password: str = "wrong password") -> int:
    answer = world.client().post("/api/v1/tokens", json={"name": name, "password": password})
    return int(answer.status_code)


def with_password(store: Store) -> World:
    world = make_world(store)
    with store.write() as tx:
        accounts.create_account(tx, "Bob", "analyst", PASSWORD)
        accounts.create_account(tx, "Cyd", "analyst", PASSWORD)
    return world


@pytest.mark.parametrize("kind", one_system("postgresql"))
def test_the_eleventh_attempt_waits(database: str) -> None:
    with opened(database) as store:
        world = with_password(store)
        statuses = [try_to_sign_in(world, "Bob") for _ in range(MAX_FAILURES + 1)]
        assert statuses == [401] * MAX_FAILURES + [429]
        assert try_to_sign_in(world, " bOB ", PASSWORD) == 429
        assert try_to_sign_in(world, "Cyd", PASSWORD) == 201
        with store.write() as tx:
            tx.execute(update(attempts).values(at=after(minutes=-16)))
        assert try_to_sign_in(world, "Bob", PASSWORD) == 201


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_nobody_waits_longer_than_five_minutes(database: str) -> None:
    with opened(database) as store:
        for ago, waits in ((MAX_WAIT - 30, True), (MAX_WAIT + 1, False)):
            subject = f"name:ash from:{ago}"
            many = [{"id": f"{ago}{k}", "subject": subject, "at": after(seconds=-ago)} for k in range(MAX_FAILURES + 9)]
            with store.write() as tx:
                tx.execute(insert(attempts), many)
                if waits:
                    with pytest.raises(RateLimitError, match="wait 300 s"):
                        accounts._check_cooldown(tx, subject, MAX_FAILURES)
                else:
                    accounts._check_cooldown(tx, subject, MAX_FAILURES)


def test_unknown_names_wait_as_known_ones_do(database: str) -> None:
    with opened(database) as store:
        world = with_password(store)
        statuses = [try_to_sign_in(world, "nobody of that name") for _ in range(MAX_FAILURES + 1)]
        assert statuses == [401] * MAX_FAILURES + [429]


def test_attempts_at_the_same_moment_do_not_slip_through(database: str) -> None:
    with opened(database) as store:
        world = with_password(store)
        together = threading.Barrier(8)

        def trying(_: int) -> list[int]:
            together.wait(30)
            return [try_to_sign_in(world, "Bob") for _ in range(2)]

        statuses = [status for pair in concurrently(trying, range(8), 8) for status in pair]
        assert sorted(statuses) == [401] * MAX_FAILURES + [429] * (16 - MAX_FAILURES)


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_success_forgets_failures(database: str) -> None:
    with opened(database) as store:
        world = with_password(store)
        for _ in range(3):
            assert [try_to_sign_in(world, "Bob") for _ in range(4)] == [401] * 4
            assert try_to_sign_in(world, "Bob", PASSWORD) == 201


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_success_forgets_no_failures_on_other_names(database: str) -> None:
    """Otherwise whoever has an account could try any number of passwords of others from one address."""
    with opened(database) as store:
        world = with_password(store)
        tried = [name for name in range(5) for _ in range(MAX_FAILURES)]
        assert {try_to_sign_in(world, f"name {name}") for name in tried[:-1]} == {401}
        assert try_to_sign_in(world, "Bob", PASSWORD) == 201
        assert try_to_sign_in(world, "Cyd") == 401
        assert try_to_sign_in(world, "Cyd", PASSWORD) == 429
        assert try_to_sign_in(world, "Bob", PASSWORD) == 429


def test_a_link_is_used_for_what_it_is_for(database: str) -> None:
    with opened(database) as store:
        world = make_world(store, opened=False)
        with store.write() as tx:
            member = campaigns.add_member(tx, world.analyst, world.campaign, "Fir", "seen")
            invited = campaigns.invite(tx, world.analyst, world.campaign, member)
            link = accounts.sign_in_link(tx, world.providers["Ash"].account)
        for use, secret in ((accounts.use_sign_in_link, invited), (accounts.accept_invitation, link)):
            with store.write() as tx, pytest.raises(NotFoundError, match="this link is incomplete or unknown"):
                use(tx, secret, password=PASSWORD)
        client = world.client()
        for operation, field, secret in (("invitations", "invitation", link), ("passwords", "link", invited)):
            answer = client.post(f"/api/v1/{operation}", json={field: secret, "password": PASSWORD})
            assert answer.status_code == 404
        with store.write() as tx:
            assert accounts.use_sign_in_link(tx, link) == world.providers["Ash"].account
            assert accounts.find_account(tx, accounts.accept_invitation(tx, invited, password=PASSWORD)).name == "Fir"


def test_one_invitation_makes_one_account(database: str) -> None:
    with opened(database) as store:
        world = make_world(store, opened=False)
        with store.write() as tx:
            member = campaigns.add_member(tx, world.analyst, world.campaign, "Fir", "seen")
            secret = campaigns.invite(tx, world.analyst, world.campaign, member)
        together = threading.Barrier(6)

        def accepting(number: int) -> int:
            together.wait(30)
            body = {"invitation": secret, "name": f"Fir {number}", "password": PASSWORD}
            return int(world.client().post("/api/v1/invitations", json=body).status_code)

        assert sorted(concurrently(accepting, range(6), 6)) == [201] + [404] * 5
        with store.read() as tx:
            row = tx.execute(select(members).where(members.c.id == member)).one()
            assert row.account is not None


def test_one_name_goes_to_one_of_those_who_want_it(database: str) -> None:
    with opened(database) as store:
        world = make_world(store, opened=False)
        invited = []
        with store.write() as tx:
            for name in ("Fir", "Oak", "Yew", "Box"):
                member = campaigns.add_member(tx, world.analyst, world.campaign, name, "seen")
                invited.append(campaigns.invite(tx, world.analyst, world.campaign, member))
        together = threading.Barrier(4)

        def accepting(secret: str) -> int:
            together.wait(30)
            body = {"invitation": secret, "name": "The same", "password": PASSWORD}
            return int(world.client().post("/api/v1/invitations", json=body).status_code)

        assert sorted(concurrently(accepting, invited, 4)) == [201, 409, 409, 409]


def test_links_end(database: str) -> None:
    with opened(database) as store:
        world = make_world(store, opened=False)
        path = f"{world.base}/providers"
        client, headers = world.client(), world.headers("Ana")
        answer = client.post(path, json={"name": "Fir", "identity": "seen"}, headers=headers).json()

        def accept(secret: str) -> int:
            body = {"invitation": secret, "password": PASSWORD}
            return int(client.post("/api/v1/invitations", json=body).status_code)

        newer = client.post(f"{path}/{answer['id']}/invitation", headers=headers).json()["invitation"]
        assert accept(answer["invitation"]) == 404
        with store.write() as tx:
            tx.execute(update(links).values(expires=after(seconds=-1)))
        assert accept(newer) == 404
        newest = client.post(f"{path}/{answer['id']}/invitation", headers=headers).json()["invitation"]
        client.delete(f"{path}/{answer['id']}", headers=headers)
        assert accept(newest) == 404


def test_a_browser_is_remembered_for_a_time(database: str) -> None:
    with opened(database) as store:
        with store.write() as tx:
            bob = accounts.create_account(tx, "Bob", "analyst")
            device = accounts.remember_device(tx, bob)
        with store.write() as tx:
            assert accounts.remember_device(tx, bob, device) == device
            tx.execute(update(links).values(expires=after(seconds=-1)))
            assert accounts.remember_device(tx, bob, device) != device


def test_a_sign_in_link_is_used_once_by_one(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        with store.write() as tx:
            secret = accounts.sign_in_link(tx, world.analyst.account)
        together = threading.Barrier(6)

        def following(_: int) -> str | None:
            together.wait(30)
            try:
                with store.write() as tx:
                    return accounts.use_sign_in_link(tx, secret)
            except NotFoundError:
                return None

        outcomes = concurrently(following, range(6), 6)
        assert sorted(map(str, outcomes)) == sorted([world.analyst.account] + ["None"] * 5)


def test_formulas_in_names_are_neutral_in_csv(database: str) -> None:
    names = ["=1+1", "+2", "-3", "@cmd", 'Ash, "the" first']
    with opened(database) as store:
        world = make_world(store, names)
        for name in names:
            world.report(name, 3, 2)
        world.close()
        assert world.client().post(f"{world.base}/payouts", headers=world.headers("Ana")).status_code == 201
        for file in ("payments.csv", "payouts/1/payouts.csv"):
            text = world.client().get(f"{world.base}/{file}", headers=world.headers("Ana")).text
            cells = [cell.strip('"') for line in text.splitlines() for cell in line.split(",")]
            assert not [cell for cell in cells if cell[:1] in "=+@" and cell]
            assert not [cell for cell in cells if cell.startswith("-") and not _is_number(cell)]
            assert "1+1" in text


def test_a_new_sign_in_link_ends_the_one_before(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        with store.write() as tx:
            ash, elm = (world.providers[name].account for name in ("Ash", "Elm"))
            first, other, second = (accounts.sign_in_link(tx, account) for account in (ash, elm, ash))
        with store.write() as tx, pytest.raises(NotFoundError, match="has already been used or has expired"):
            accounts.use_sign_in_link(tx, first)
        with store.write() as tx:
            assert [accounts.use_sign_in_link(tx, link) for link in (second, other)] == [ash, elm]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_health_asks_the_database(database: str) -> None:
    with opened(database) as store:
        world = World(store, None, "")  # type: ignore[arg-type]
        answer = world.client().get("/api/v1/health")
        assert (answer.status_code, answer.json()["status"]) == (200, "ok")
        touched: list[Any] = []
        event.listen(store.probe, "before_cursor_execute", lambda *arguments: touched.append(arguments[2]))
        world.client().get("/api/v1/health")
        assert any("SELECT 1" in statement for statement in touched)
        assert json.loads(answer.content)["version"]
