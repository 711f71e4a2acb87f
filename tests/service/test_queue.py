"""Uploads are acknowledged once they are safe, count by when they arrived, and are read in a fair order."""

from __future__ import annotations

import bz2
import os
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest
from sqlalchemy import update

from service.databases import opened
from service.world import TERMS, World, make_world, payments_of
from troth.campaigns.records.ledger_entries import recorded_reports
from troth.campaigns.terms import Campaign
from troth.service import incoming, limited_payments, payment_views, rounds, settlement, upload_queue
from troth.service.errors import ConflictError, RateLimitError
from troth.service.ledgers import load_ledger
from troth.service.parse import parse
from troth.service.schema import queued
from troth.service.schema import rounds as round_table
from troth.service.store import Store, after, now
from troth.service.uploads import Limits

CSV = b"improved\n1\n0\n1\n"


def send(world: World, name: str, number: int = 1, content: bytes = CSV, key: str | None = None) -> str:
    """Receive a file, as a request does, and leave it to be read."""
    store = world.store
    store.spool.mkdir(exist_ok=True, parents=True)
    path = store.spool / f"troth-upload-{name}"
    path.write_bytes(content)
    with store.write() as tx:
        return upload_queue.enqueue(tx, world.providers[name], world.campaign, number, path, "rows.csv", now(), key)


def read_all(store: Store) -> list[str]:
    """Read all that waits, and return it in the order in which it was chosen."""
    claims = []
    while (row := upload_queue.claim(store)) is not None:
        upload_queue._read(store, Limits(), row)
        claims.append(row.id)
    return claims


def state(store: Store, identifier: str) -> str:
    with store.read() as tx:
        row = upload_queue.find(tx, identifier)
    return "" if row is None else str(row.state)


def post(world: World, name: str, content: bytes = CSV, file: str = "rows.csv", key: str | None = None) -> Any:
    place = f"{world.base}/rounds/1/submissions/file?name={file}"
    return world.client().post(place, content=content, headers=world.headers(name, key))


def test_a_file_that_waits_is_acknowledged_and_read_later(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "READ_TIMEOUT", 0.0)
    monkeypatch.setattr(upload_queue, "read_all", lambda *_: None)
    with opened(database) as store:
        world = make_world(store)
        sent = post(world, "Ash", key="k")
        assert sent.status_code == 202, sent.text
        assert (sent.json()["state"], sent.json()["rows"]) == ("waiting", None)
        assert post(world, "Ash", key="k").json() == sent.json()
        assert post(world, "Ash", CSV + b"1\n", key="k").status_code == 409
        place = f"{world.base}/rounds/1/submissions/{sent.json()['id']}"
        early = world.client().post(f"{place}/confirm", json={}, headers=world.headers("Ash"))
        assert (early.status_code, "has not been read yet" in early.text) == (409, True)
        assert world.client().get(place, headers=world.headers("Birch")).status_code == 404
        assert read_all(store) == [sent.json()["id"]]
        answer = world.client().get(place, headers=world.headers("Ash")).json()
        assert (answer["state"], answer["rows"], answer["received"]) == ("read", 3, sent.json()["received"])
        assert answer["nonce"] == sent.json()["nonce"] is not None  # drawn when the bytes arrived
        receipt = world.client().post(f"{place}/confirm", json={}, headers=world.headers("Ash")).json()["receipt"]
        assert (receipt["nonce"], receipt["received"]) == (answer["nonce"], answer["received"])
        assert receipt["confirmed"] > receipt["received"]
        assert not list(store.spool.iterdir())


def test_the_deadline_counts_receipt(database: str) -> None:
    """Read after the deadline, a file that came before it can be confirmed, and the round is paid with it."""
    with opened(database) as store:
        world = make_world(store)
        world.report_all({"Birch": (3, 1), "Elm": (1, 3)})
        waiting = send(world, "Ash")
        assert world.close()
        assert world.round().state == "closed"  # and not paid: something is to be read
        with pytest.raises(ConflictError):
            send(world, "Birch")  # this one comes late
        read_all(store)
        settlement.settle(store, world.campaign)
        assert world.round().state == "closed"  # it can be confirmed
        with store.write() as tx:
            rounds.confirm(tx, world.providers["Ash"], world.campaign, 1, waiting)
        settlement.settle(store, world.campaign)
        assert {name for _, name in payments_of(store, world.campaign)} == {"Ash", "Birch", "Elm"}


def test_a_report_that_changes_while_payments_are_computed_is_paid_as_it_is_now(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider with two files that were read late may confirm one and then the other."""
    with opened(database) as store:
        world = make_world(store)
        world.report_all({"Birch": (3, 1), "Elm": (1, 3)})
        first, second = send(world, "Ash"), send(world, "Ash", content=CSV + b"1\n")
        world.close()
        read_all(store)

        def confirm(upload: str, replaces: str | None = None) -> None:
            with store.write() as tx:
                rounds.confirm(tx, world.providers["Ash"], world.campaign, 1, upload, replaces)

        def pay(*arguments: Any, **options: Any) -> Any:
            monkeypatch.setattr(settlement, "pay_rounds", limited_payments.pay_rounds)
            result = limited_payments.pay_rounds(*arguments, **options)
            confirm(second, first)
            return result

        confirm(first)
        monkeypatch.setattr(settlement, "pay_rounds", pay)
        settlement.settle(store, world.campaign)
        with store.read() as tx:
            reports = recorded_reports(load_ledger(tx, world.campaign))
        assert {report.provider: report.rows for report in reports} == {"Ash": 4, "Birch": 4, "Elm": 4}
        assert payment_views.verified(store, world.analyst, world.campaign).valid


def test_what_is_not_confirmed_holds_a_round_up_for_minutes_only(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        world.report_all({"Birch": (3, 1), "Elm": (1, 3)})
        waiting = send(world, "Ash")
        world.close()
        read_all(store)
        with store.write() as tx:
            long_ago = {"done": after(minutes=-11), "received": after(minutes=-30)}
            tx.execute(update(queued).values(**long_ago))
            tx.execute(update(round_table).values(closed=after(minutes=-20)))
        with pytest.raises(ConflictError), store.write() as tx:
            rounds.confirm(tx, world.providers["Ash"], world.campaign, 1, waiting)
        settlement.settle(store, world.campaign)
        assert {name for _, name in payments_of(store, world.campaign)} == {"Birch", "Elm"}


def test_a_file_nobody_can_read_holds_a_round_up_for_an_hour_at_most(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        world.report_all({"Birch": (3, 1), "Elm": (1, 3)})
        lost = send(world, "Ash")
        world.close()
        assert world.round().state == "closed"
        with store.write() as tx:
            tx.execute(update(queued).values(spool="another machine", received=after(hours=-2)))
        settlement.settle(store, world.campaign)
        assert world.round().state == "paid"
        assert upload_queue.claim(store) is None
        assert state(store, lost) == "refused"
        assert not (store.spool / lost).exists()  # nobody fills the disk with it


def test_a_machine_with_a_new_name_reads_what_it_received_under_the_old_one(database: str) -> None:
    """As after a container is made anew; a machine that does not have the bytes leaves them alone."""
    with opened(database) as store:
        world = make_world(store)
        mine, others = send(world, "Ash"), send(world, "Birch")
        (store.spool / others).unlink()
        with store.write() as tx:
            tx.execute(update(queued).values(spool="another machine"))
        assert read_all(store) == [mine]
        assert [state(store, upload) for upload in (mine, others)] == ["read", "waiting"]


def test_whoever_used_least_is_read_first(database: str) -> None:
    with opened(database) as store:
        attacker = make_world(store, ("Oak", "Fir"), analyst="Bob")
        world = make_world(store)
        flood = [send(attacker, "Oak") for _ in range(upload_queue.MAX_WAITING)]
        with pytest.raises(RateLimitError):
            send(attacker, "Oak")
        honest = send(world, "Ash")
        first = upload_queue.claim(store)
        assert first is not None
        assert first.id == flood[0]
        second = upload_queue.claim(store, places=4)  # Oak's others wait while one of them is read
        assert second is not None
        assert second.id == honest
        assert upload_queue.claim(store, places=4) is None
        with store.write() as tx:
            done = {"state": "refused", "done": now(), "milliseconds": 19_000}
            tx.execute(update(queued).where(queued.c.id == first.id).values(**done))
            tx.execute(update(queued).where(queued.c.id == honest).values(state="read", done=now(), milliseconds=5))
        later = send(world, "Ash")
        assert getattr(upload_queue.claim(store), "id", None) == later


def test_one_campaign_never_has_all_places(database: str) -> None:
    with opened(database) as store:
        attacker = make_world(store, ("Oak", "Fir", "Yew"), analyst="Bob")
        world = make_world(store)
        for name in ("Oak", "Fir", "Yew"):
            send(attacker, name)
        honest = send(world, "Ash")
        claims = [upload_queue.claim(store, places=2) for _ in range(3)]
        assert [None if row is None else row.id == honest for row in claims] == [False, True, None]


def test_an_hour_of_reading_is_all_an_account_gets(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        identifier = send(world, "Ash")
        for column, most in (("milliseconds", upload_queue.HOURLY_SECONDS * 1000), ("expanded", 16 << 30)):
            with store.write() as tx:
                fresh = {"milliseconds": 0, "expanded": 0, "state": "refused", "done": now()}
                tx.execute(update(queued).where(queued.c.id == identifier).values(**fresh | {column: most + 1}))
            with pytest.raises(RateLimitError, match="hour"):
                send(world, "Ash")
            send(world, "Birch" if column == "expanded" else "Elm")


def test_a_file_that_ends_its_reader_is_given_up_after_three_attempts(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        identifier = send(world, "Ash")
        for _ in range(upload_queue.MAX_ATTEMPTS):
            assert upload_queue.claim(store) is not None
            assert upload_queue.claim(store) is None
            with store.write() as tx:
                tx.execute(update(queued).values(claimed=after(minutes=-6)))
        assert upload_queue.claim(store) is None
        assert state(store, identifier) == "refused"


def test_unused_columns_are_never_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = ",".join(["improved", *(f"c{i}" for i in range(9_000))])
    row = ",".join(["1"] + ["0"] * 9_000)
    (tmp_path / "wide.csv.bz2").write_bytes(bz2.compress("\n".join([header, *[row] * 30]).encode()))
    decoded: list[int] = []
    real = pyarrow.csv.open_csv

    def opening(*arguments: Any, **options: Any) -> Any:
        reader = real(*arguments, **options)
        if isinstance(arguments[0], str):
            decoded.append(len(reader.schema.names))
        return reader

    monkeypatch.setattr(pyarrow.csv, "open_csv", opening)
    request = Campaign.from_dict(TERMS).request
    monkeypatch.chdir(tmp_path)
    answer = parse(request, str(tmp_path), "wide.csv.bz2", "csv", "Ash", None, 10**6, 10**7, None)
    assert answer["summary"] == [0.0, 30.0]
    assert decoded
    assert set(decoded) == {1}
    refused = parse(request, str(tmp_path), "wide.csv.bz2", "csv", "Ash", None, 10**6, 10**5, None)
    assert refused["status"] == 413


def test_a_file_is_on_the_disk_before_it_is_acknowledged(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def synced(handle: int) -> None:
        done.append("folder" if Path(os.readlink(f"/proc/self/fd/{handle}")).is_dir() else "file")
        fsync(handle)

    def renamed(self: Path, target: Path) -> Path:
        done.append("renamed")
        return rename(self, target)

    with opened(database) as store:
        world = make_world(store)
        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(Path, "rename", renamed)
        send(world, "Ash")
    assert done[:3] == ["file", "renamed", "folder"]


def test_a_commit_is_on_the_disk_once_it_is_answered(database: str) -> None:
    expected = {"PRAGMA synchronous": 2, "PRAGMA foreign_keys": 1, "PRAGMA journal_mode": "wal"}
    if database.startswith("postgresql"):
        expected = {"SHOW synchronous_commit": "on"}
    with opened(database) as store:
        for engine in (store.engine, store.probe):
            with engine.connect() as tx:
                assert {setting: tx.exec_driver_sql(setting).scalar() for setting in expected} == expected


def test_a_file_that_was_read_late_is_not_confirmed_once_the_round_is_paid(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        world.report_all({"Birch": (3, 1), "Elm": (1, 3)})
        waiting = send(world, "Ash")
        world.close()
        read_all(store)
        with store.write() as tx:
            tx.execute(update(round_table).values(state="paid", settled=now()))
        with store.write() as tx, pytest.raises(ConflictError, match="closed"):
            rounds.confirm(tx, world.providers["Ash"], world.campaign, 1, waiting)
