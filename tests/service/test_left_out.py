"""Rows without a value are left out and counted: for the provider before it confirms, for the analyst, in the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from service.databases import one_system, opened
from service.test_pages import Browser
from service.test_tasks import TERMS as PETS
from service.test_tasks import WORKERS, as_csv, crowd
from service.world import TERMS, World, make_world, payments_of
from service.world import statistics as plain_statistics
from troth.campaigns.records.ledger_entries import recorded_reports, report_leaf
from troth.campaigns.statistics_file import make_statistics
from troth.campaigns.terms import Campaign
from troth.service import accounts, campaigns
from troth.service.access import COOKIE
from troth.service.ledgers import load_ledger

pytestmark = pytest.mark.parametrize("kind", one_system("sqlite"))
NAMES = ("Ash", "Birch", "Elm")
DROPS = {**TERMS, "data": {"missing": "drop", "provider": "clinic"}}
FOUR, ONE = "4 rows without a value are left out", "1 row without a provider is left out"


@pytest.fixture(name="world")
def _world(database: str) -> Iterator[World]:
    with opened(database) as store:
        yield make_world(store, NAMES, DROPS)


def rows_of(name: str, ones: int, zeros: int) -> bytes:
    return "\n".join(["clinic,improved", *[f"{name},1"] * ones, *[f"{name},0"] * zeros, ""]).encode()


def send(world: World, name: str, content: bytes, file: str = "rows.csv") -> Any:
    path = f"{world.base}/rounds/1/submissions/file"
    answer = world.client().post(path, params={"name": file}, content=content, headers=world.headers(name))
    assert answer.status_code == 201, answer.text
    return answer.json()


def confirm(world: World, name: str, submission: str) -> Any:
    path = f"{world.base}/rounds/1/submissions/{submission}/confirm"
    answer = world.client().post(path, json={}, headers=world.headers(name))
    assert answer.status_code == 200, answer.text
    return answer.json()


def report(world: World, name: str, content: bytes, file: str = "rows.csv") -> Any:
    return confirm(world, name, send(world, name, content, file)["id"])


def browser_of(world: World, account: str) -> Browser:
    client = world.client()
    browser = Browser(client.app)
    browser.client = client
    with world.store.write() as tx:
        client.cookies.set(COOKIE, accounts.start_session(tx, account))
    return browser


def ledger_of(world: World) -> Any:
    with world.store.read() as tx:
        return load_ledger(tx, world.campaign)


def test_everybody_is_told_how_many_rows_are_left_out(world: World) -> None:
    lacking = b"Ash,NA\nAsh,\nAsh,n/a\nAsh, \n,1\n"
    sent = send(world, "Ash", rows_of("Ash", 10, 8) + lacking)
    assert (sent["rows"], sent["dropped"], sent["unnamed"]) == (18, 4, 1)
    ash = browser_of(world, world.providers["Ash"].account)
    page = f"/campaigns/{world.campaign}/rounds/1"
    asked = ash.get(f"{page}/submissions/{sent['id']}").text
    assert "Is this your data?" in asked
    assert f"<p>{FOUR}.</p>" in asked
    assert f"<p>{ONE}.</p>" in asked

    confirmed = confirm(world, "Ash", sent["id"])
    assert (confirmed["dropped"], confirmed["unnamed"]) == (4, 1)
    assert not {"dropped", "unnamed"} & confirmed["receipt"].keys()  # what is signed stays as it is
    receipt = ash.get(f"{page}/submissions/{sent['id']}").text
    assert "Is this your data?" not in receipt
    assert f"<p>{FOUR}.</p>" in receipt
    birch = report(world, "Birch", rows_of("Birch", 9, 9))
    assert (birch["dropped"], birch["unnamed"]) == (0, 0)
    other = browser_of(world, world.providers["Birch"].account).get(f"{page}/submissions/{birch['id']}").text
    assert "left out" not in other

    client, analyst = world.client(), world.headers("Ana")
    listed = client.get(f"{world.base}/rounds/1/reports", headers=analyst).json()
    assert [(entry["rows"], entry["dropped"], entry["unnamed"]) for entry in listed] == [(18, 4, 1), (18, 0, 0)]
    ana = browser_of(world, world.analyst.account)
    shown = ana.get(page).text
    assert f"<p>{FOUR}: Ash 4.</p>" in shown
    assert f"<p>{ONE}.</p>" in shown
    closed = client.post(f"{world.base}/rounds/1/close", json={"anyway": True}, headers=analyst).json()
    assert [note for note in closed["verdict"]["notes"] if "left out" in note] == [f"{FOUR}: Ash 4", ONE]
    assert ana.get(page).text.count(f"<p>{FOUR}: Ash 4.</p>") == 2  # beside the verdict and the reports


def test_the_ledger_counts_them_and_pays_as_before(world: World) -> None:
    report(world, "Ash", rows_of("Ash", 10, 8) + b"Ash,NA\n" * 4)
    report(world, "Birch", rows_of("Birch", 9, 9))
    world.close()
    ledger = ledger_of(world)
    assert [entry.get("dropped") for entry in ledger.of("report")] == [4, None]
    assert payments_of(world.store, world.campaign)  # it verifies
    ash, _ = recorded_reports(ledger)
    leaf = report_leaf(ash)
    assert ash.dropped == 4
    assert report_leaf(replace(ash, dropped=0)) == leaf


def test_of_reports_that_are_whole_nothing_is_said(world: World) -> None:
    report(world, "Ash", rows_of("Ash", 10, 8))
    ana = browser_of(world, world.analyst.account)
    assert "left out" not in ana.get(f"/campaigns/{world.campaign}/rounds/1").text


def test_statistics_say_how_many_rows_they_leave_out(world: World, tmp_path: Path) -> None:
    (tmp_path / "ash.csv").write_bytes(rows_of("Ash", 10, 8) + b"Ash,NA\n" * 4 + b",1\n")
    with world.store.read() as tx:
        terms = campaigns.terms_of(campaigns.find_campaign(tx, world.campaign))
    plain = make_statistics(terms, tmp_path / "ash.csv", "Ash")
    assert (plain["rows"], plain["dropped"], plain["unnamed"]) == (18, 4, 1)
    sent = report(world, "Ash", json.dumps(plain).encode(), "ash.json")
    assert (sent["rows"], sent["dropped"], sent["unnamed"]) == (18, 4, 1)
    report(world, "Birch", json.dumps(plain_statistics("Birch", 9, 9)).encode(), "birch.json")
    world.close()
    assert [entry.get("dropped") for entry in ledger_of(world).of("report")] == [4, None]
    (tmp_path / "birch.csv").write_bytes(rows_of("Birch", 1, 1))
    assert not {"dropped", "unnamed"} & make_statistics(terms, tmp_path / "birch.csv", "Birch").keys()


def test_statistics_of_days_say_it_for_each_day(tmp_path: Path, kind: str) -> None:
    per_day = {**DROPS["campaign"], "budget_per": "day"}
    daily = {**DROPS, "campaign": per_day, "data": {**DROPS["data"], "day": "day"}}
    (tmp_path / "ash.csv").write_text("day,improved\n1,1\n1,\n1,NA\n2,0\n2,1\n")
    plain = make_statistics(Campaign.from_dict(daily), tmp_path / "ash.csv", "Ash")
    assert [entry.get("dropped") for entry in plain["days"]] == [2, None]


@pytest.mark.parametrize("field", ["dropped", "unnamed"])
def test_what_statistics_leave_out_is_a_number_of_rows(world: World, field: str) -> None:
    path = f"{world.base}/rounds/1/submissions/statistics"
    for count in (-1, True, "4", 1.0, None, 10**13):
        plain = {**plain_statistics("Ash", 3, 1), field: count}
        refused = world.client().post(path, json=plain, headers=world.headers("Ash"))
        assert refused.status_code == 422, count
        assert f"{field} must be a whole number of rows" in refused.json()["error"]


def test_rows_of_tasks_without_a_value_are_counted(database: str) -> None:
    terms = {**PETS, "data": {**PETS["data"], "missing": "drop"}}
    with opened(database) as store:
        world = make_world(store, WORKERS, terms)
        for name, labels in crowd().items():
            lacking = b"x1,\nx2,NA\n" if name == "Ann" else b"x3,?\n" if name == "Bo" else b""
            sent = report(world, name, as_csv(labels).encode() + lacking)
            assert (sent["rows"], sent["dropped"]) == (len(labels), {"Ann": 2, "Bo": 1}.get(name, 0))
        closed = world.client().post(f"{world.base}/rounds/1/close", json={}, headers=world.headers("Ana")).json()
        assert "3 rows without a value are left out" in closed["verdict"]["notes"]
        ledger = ledger_of(world)
        assert ledger.of("tasks")[0]["dropped"] == 3
        assert [entry.get("dropped") for entry in ledger.of("report")] == [2, 1, None, None]
        assert payments_of(store, world.campaign)  # it verifies
