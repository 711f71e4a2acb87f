"""Attacks on the service that once succeeded, and accidents that once cost somebody a payment."""

from __future__ import annotations

import json
import logging
import re
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.databases import Databases, opened
from service.world import Door
from troth.core.errors import DataError
from troth.operations import SCOPES
from troth.service import accounts, campaigns, limited_payments, rounds, settlement
from troth.service.accounts import User
from troth.service.errors import NotFoundError
from troth.service.migrate import copy_sqlite
from troth.service.schema import rounds as round_table
from troth.service.store import Store, after

PASSWORD = "a few words are easy to keep"
ROWS = [1, 0, 1, 1]


def terms(**parts: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "campaign": {"name": "clinics", "budget": "100.00"},
        "model": {"family": "Bernoulli", "columns": ["x"], "prior": {"alpha": 1, "beta": 1}},
    }
    for part, table in parts.items():
        plain[part] = {**plain.get(part, {}), **table}
    return plain


DAILY: dict[str, Any] = {
    "campaign": {"name": "clinics", "budget": "100.00", "budget_per": "day"},
    "data": {"day": "day"},
}
TWO_DAYS: dict[str, Any] = {"campaign": {"name": "clinics", "budget": "100.00", "days": 2}, "data": {"day": "day"}}
MULTI_DAY: dict[str, Any] = {"mechanism": {"rule": "MultiDay", "exchangeable": True}}


class World:
    """A service with an analyst, and providers with tokens by name."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.client = TestClient(Door(store), raise_server_exceptions=False)
        with self.store.write() as tx:
            account = accounts.create_account(tx, "analyst", "analyst", PASSWORD)
            self.token, _ = accounts.create_token(tx, account, "test", SCOPES, 1)
        self.analyst = User(account, "analyst", "analyst")
        self.tokens: dict[str, str] = {}
        self.members: dict[str, str] = {}

    def call(self, method: str, path: str, name: str | None = None, **options: Any) -> Any:
        token = self.token if name is None else self.tokens[name]
        headers = {"authorization": f"Bearer {token}", **options.pop("headers", {})}
        return self.client.request(method, f"/api/v1{path}", headers=headers, **options)

    def create(self, plain: dict[str, Any], names: str = "ABC", **options: Any) -> str:
        answer = self.call("POST", "/campaigns", json={"terms": plain, **options})
        assert answer.status_code == 201, answer.text
        campaign = str(answer.json()["id"])
        for name in names:
            added = self.call("POST", f"/campaigns/{campaign}/providers", json={"name": name, "identity": "known"})
            self.members[name] = added.json()["id"]
            with self.store.write() as tx:
                given = {"name": f"{name} of {campaign}", "password": PASSWORD}
                account = accounts.accept_invitation(tx, added.json()["invitation"], **given)
                self.tokens[name], _ = accounts.create_token(tx, account, "test", SCOPES, 1)
        return campaign

    def open(self, campaign: str, **options: Any) -> Any:
        return self.call("POST", f"/campaigns/{campaign}/rounds", json=options)

    def send(self, campaign: str, number: int, name: str, day: int | None = None, **options: Any) -> Any:
        column = "x\n" if day is None else "x,day\n"
        lines = "".join(f"{value}\n" if day is None else f"{value},{day}\n" for value in ROWS)
        path = f"/campaigns/{campaign}/rounds/{number}/submissions/file?name=rows.csv"
        return self.call("POST", path, name, content=(column + lines).encode(), **options)

    def report(self, campaign: str, number: int, names: str, day: int | None = None) -> None:
        for name in names:
            sent = self.send(campaign, number, name, day)
            assert sent.status_code == 201, sent.text
            path = f"/campaigns/{campaign}/rounds/{number}/submissions/{sent.json()['id']}/confirm"
            assert self.call("POST", path, name, json={}).status_code == 200

    def close(self, campaign: str, number: int) -> dict[str, Any]:
        done = self.call("POST", f"/campaigns/{campaign}/rounds/{number}/close", json={})
        assert done.status_code == 200, done.text
        return dict(done.json())

    def round(self, campaign: str, number: int) -> dict[str, Any]:
        return dict(self.call("GET", f"/campaigns/{campaign}/rounds/{number}").json())

    def reopen(self, campaign: str, number: int, **options: Any) -> Any:
        return self.call("POST", f"/campaigns/{campaign}/rounds/{number}/reopen", json=options)


@pytest.fixture
def world(databases: Databases) -> Any:
    database = databases.new("sqlite")
    with opened(database) as store:
        yield World(store)
    databases.give_back(database)


def fail_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the next payment fail, as one does whose score lies outside the announced range."""
    real = limited_payments.pay_rounds

    def failing(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(settlement, "pay_rounds", real)
        raise DataError("a score lies outside the range")

    monkeypatch.setattr(settlement, "pay_rounds", failing)


def test_days_are_paid_in_order_when_one_is_opened_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = world.create(terms(**TWO_DAYS, **MULTI_DAY))
    world.open(campaign, day=1)
    world.report(campaign, 1, "ABC", 1)
    world.close(campaign, 1)
    world.open(campaign, day=2)
    world.report(campaign, 2, "ABC", 2)
    fail_once(monkeypatch)
    assert "range" in world.close(campaign, 2)["problem"]
    assert world.reopen(campaign, 1).status_code == 200
    assert world.close(campaign, 2)["state"] == "closed"  # not paid before the first day, as the last of the campaign
    assert world.close(campaign, 1)["state"] == "paid"
    assert world.round(campaign, 2)["state"] == "paid"
    verified = world.call("POST", f"/campaigns/{campaign}/verify").json()
    assert verified["valid"], verified
    assert verified["rounds"] == 2


def test_a_day_with_one_report_pays_the_day_before_or_can_be_opened_again(world: World) -> None:
    campaign = world.create(terms(**DAILY, **MULTI_DAY))
    world.open(campaign, day=1)
    world.report(campaign, 1, "ABC", 1)
    assert world.close(campaign, 1)["problem"] is None
    world.open(campaign, day=2)
    world.report(campaign, 2, "A", 2)
    assert world.close(campaign, 2)["problem"] is None
    assert world.round(campaign, 1)["state"] == "paid"
    campaign = world.create(terms(**DAILY))
    world.open(campaign, day=1)
    world.report(campaign, 1, "A", 1)
    assert "day 1" in world.close(campaign, 1)["problem"]
    refused = world.open(campaign, day=2)
    assert refused.status_code == 409
    assert re.search("day 1 was closed .*: reopen it or set it aside first", refused.text)
    assert world.reopen(campaign, 1).status_code == 200
    world.report(campaign, 1, "BC", 1)
    assert world.close(campaign, 1)["state"] == "paid"


def test_reports_of_a_round_that_opens_again_meanwhile_are_not_paid(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = world.create(terms())
    world.open(campaign)
    world.report(campaign, 1, "ABC")
    fail_once(monkeypatch)
    world.close(campaign, 1)
    real = limited_payments.pay_rounds

    def slow(*arguments: Any, **options: Any) -> Any:
        done = real(*arguments, **options)
        monkeypatch.setattr(settlement, "pay_rounds", real)
        with world.store.write() as tx:
            settlement.reopen(tx, world.analyst, campaign, 1)
        return done

    monkeypatch.setattr(settlement, "pay_rounds", slow)
    settlement.settle(world.store, campaign)
    assert world.round(campaign, 1)["state"] == "open"
    assert world.call("GET", f"/campaigns/{campaign}/ledger").status_code == 409
    assert world.close(campaign, 1)["state"] == "paid"


def test_the_clock_leaves_a_round_with_a_new_deadline_open(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = world.create(terms())
    world.open(campaign, deadline=after(hours=1))
    world.report(campaign, 1, "ABC")
    settlement.close_round(world.store, None, campaign, 1)
    assert world.round(campaign, 1)["state"] == "open"
    with world.store.write() as tx:
        tx.execute(round_table.update().values(deadline=after(seconds=-1)))
    settlement.close_round(world.store, None, campaign, 1)
    assert world.round(campaign, 1)["state"] == "paid"


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"mechanism": {"rule": "OneTime"}, "limits": {"rows": 9}}, "grows without bound"),
        ({"mechanism": {"rule": "Brier"}}, "Brier needs"),
        ({"mechanism": {"rule": "SyntheticPeers", "draws": 1_000_000}}, "numbers"),
    ],
)
def test_terms_that_could_never_pay_open_no_round(world: World, parts: dict[str, Any], reason: str) -> None:
    model = {"family": "Poisson", "columns": ["x"], "prior": {"shape": 2, "rate": 1}}
    names = "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if "draws" in parts["mechanism"] else "AB"
    campaign = world.create({**terms(**parts), "model": model}, "")
    with world.store.write() as tx:
        for name in names:
            campaigns.add_member(tx, world.analyst, campaign, name, "known")
    refused = world.open(campaign)
    assert refused.status_code == 422
    assert reason in refused.json()["error"]
    assert world.call("GET", f"/campaigns/{campaign}").json()["state"] == "draft"


def test_groups_of_a_campaign_file_are_kept(world: World) -> None:
    campaign = world.create(terms(groups={"owner": ["A", "B"]}), "")
    groups = {p["name"]: p["group"] for p in world.call("GET", f"/campaigns/{campaign}/providers").json()}
    assert groups == {"A": "owner", "B": "owner"}
    world.call("PUT", f"/campaigns/{campaign}/terms", json={"terms": terms(groups={"town": ["A"], "land": ["C"]})})
    groups = {p["name"]: p["group"] for p in world.call("GET", f"/campaigns/{campaign}/providers").json()}
    assert groups == {"A": "town", "B": "owner", "C": "land"}


def test_a_seed_is_there_for_every_announced_day(world: World) -> None:
    campaign = world.create(terms(**{**TWO_DAYS, "campaign": {**TWO_DAYS["campaign"], "days": 10_000}}))
    with world.store.read() as tx:
        secret = campaigns.secret_of(world.store.keys, campaigns.owned(tx, world.analyst, campaign))
    assert secret is not None
    assert secret.link(10_000)


@pytest.mark.parametrize(
    "parts",
    [
        {"weights": {"A": "1e-999999999"}},
        {"data": {"providers": [*map(str, range(100_000)), "99999"]}},
        {"campaign": {"name": "x" * 2_000_000, "budget": "1"}},
        {
            "model": {
                "family": "Bernoulli",
                "columns": ["x"],
                "prior": {"alpha": 1, "beta": json.loads("[" * 900 + "]" * 900)},
            }
        },
    ],
)
def test_terms_that_are_hard_to_read_are_refused_soon(world: World, parts: dict[str, Any]) -> None:
    began = time.perf_counter()
    refused = world.call("POST", "/campaigns", json={"terms": terms(**parts)})
    assert refused.status_code == 422
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("chunked", [False, True])
def test_nobody_sends_more_than_is_read(world: World, chunked: bool) -> None:
    body = b'{"name": "' + b"x" * (5 << 20) + b'"}'
    content = (body[i : i + 65536] for i in range(0, len(body), 65536)) if chunked else body
    refused = world.client.post("/api/v1/tokens", content=content)
    assert refused.status_code == 413
    assert "65,536" in refused.json()["error"]


def test_days_and_deadlines_at_the_ends_of_the_calendar_are_refused(world: World) -> None:
    campaign = world.create(terms(**DAILY))
    assert world.open(campaign, day="0001-01-01T00:00+23:00").status_code == 422
    assert world.open(campaign, deadline="0999-01-01T00:00:00Z").status_code == 422
    assert world.open(campaign, day="9999-12-31").status_code == 201
    world.close(campaign, 1)
    assert world.open(campaign).status_code == 409


def test_a_submission_is_answered_alike_after_the_round_has_closed(world: World) -> None:
    campaign = world.create(terms())
    world.open(campaign)
    key: dict[str, Any] = {"headers": {"Idempotency-Key": "once"}}
    first = world.send(campaign, 1, "A", **key)
    world.close(campaign, 1)
    again = world.send(campaign, 1, "A", **key)
    assert (again.status_code, again.content) == (201, first.content)
    assert world.send(campaign, 1, "A").status_code == 409


def test_that_a_round_could_be_paid_is_not_told_before_it_is_published(world: World) -> None:
    campaign = world.create(terms())
    world.open(campaign)
    world.report(campaign, 1, "ABC")
    world.close(campaign, 1)

    def page_of(name: str | None) -> str:
        return str(world.call("GET", f"/campaigns/{campaign}", name).json()["state"])

    assert (page_of(None), page_of("A")) == ("ended", "running")
    world.call("POST", f"/campaigns/{campaign}/rounds/1/publish")
    assert page_of("A") == "ended"


def test_an_invitation_takes_no_provider_s_place(world: World) -> None:
    campaign = world.create(terms(), "A")
    with world.store.write() as tx:
        late = accounts.invitation(tx, world.members["A"])  # made at the moment when another one was accepted
    with pytest.raises(NotFoundError, match="accepted"), world.store.write() as tx:
        accounts.accept_invitation(tx, late, name="Mallory", password=PASSWORD)
    assert world.call("GET", f"/campaigns/{campaign}", "A").status_code == 200


def test_who_was_revoked_while_waiting_for_the_round_does_not_report(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = world.create(terms())
    world.open(campaign)
    sent = world.send(campaign, 1, "A").json()["id"]
    real = rounds.find_round

    def waiting(tx: Any, *arguments: Any, **options: Any) -> Any:
        if options.get("lock") == "shared":
            campaigns.revoke(tx, world.analyst, campaign, world.members["A"])
        return real(tx, *arguments, **options)

    monkeypatch.setattr(rounds, "find_round", waiting)
    refused = world.call("POST", f"/campaigns/{campaign}/rounds/1/submissions/{sent}/confirm", "A", json={})
    assert refused.status_code == 403


def test_a_new_password_ends_links_to_sign_in(world: World) -> None:
    with world.store.write() as tx:
        link = accounts.sign_in_link(tx, world.analyst.account)
        accounts.set_password(tx, world.analyst.account, PASSWORD + "!")
    with pytest.raises(NotFoundError), world.store.write() as tx:
        accounts.use_sign_in_link(tx, link)


def test_errors_of_the_database_are_logged_without_what_was_sent(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "Ash Grove".replace(" ", "-")  # as no line of a traceback spells it

    def broken(tx: Any, _who: Any) -> Any:
        tx.exec_driver_sql("INSERT INTO accounts (id, name) VALUES (?, ?)", ("1", name))

    monkeypatch.setattr(campaigns, "list_campaigns", broken)
    with caplog.at_level(logging.ERROR):
        assert world.call("GET", "/campaigns").status_code == 500
    messages = "".join(
        str(record.exc_info) + record.getMessage() + (record.exc_text or "") for record in caplog.records
    )
    assert "failed" in messages
    assert "IntegrityError" in messages
    assert name not in messages


def test_a_copy_is_never_readable_to_others(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    real = Path.chmod

    def noting(self: Path, mode: int, **options: Any) -> None:
        if self.exists() and self.stat().st_size:
            seen.append(stat.S_IMODE(self.stat().st_mode))
        real(self, mode, **options)

    monkeypatch.setattr(Path, "chmod", noting)
    assert world.store.file is not None
    copy_sqlite(world.store.file, tmp_path / "copy.db")
    assert seen == []  # nothing was in it before it was closed to others
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
