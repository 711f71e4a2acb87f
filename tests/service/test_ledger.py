"""The ledger is only ever added to; whoever changes it anyway is found out, and anybody can recompute a payment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Executable, delete, exc, select, text, update

from campaigns.shop import run
from service.databases import in_turn, one_system, opened
from service.world import TERMS, World, make_world
from troth.campaigns.records.canonical_json import canonical
from troth.campaigns.records.ledger import Ledger, LedgerError
from troth.campaigns.records.ledger_entries import payment_entry, recorded_reports
from troth.campaigns.records.verify import campaign_of
from troth.campaigns.settle import settle
from troth.results.pay import verify
from troth.service import rounds
from troth.service.ledgers import load_result
from troth.service.schema import ledger_lines
from troth.service.store import Store

COUNTS = {"Ash": (5, 2), "Birch": (4, 3), "Elm": (6, 1)}


@pytest.fixture
def paid(database: str) -> Any:
    with opened(database) as store:
        world = make_world(store)
        world.report_all(COUNTS)
        world.close()
        yield world


def read_lines(world: World) -> list[bytes]:
    with world.store.read() as tx:
        return [bytes(line) for line in tx.scalars(select(ledger_lines.c.line).order_by(ledger_lines.c.number))]


def disarm(store: Store) -> None:
    """Take away what keeps the ledger as it is, as somebody who owns the database can."""
    with store.write() as tx:
        if store.file is None:
            tx.execute(text("ALTER TABLE ledger_lines DISABLE TRIGGER ALL"))
            return
        for event in ("UPDATE", "DELETE"):
            tx.execute(text(f"DROP TRIGGER ledger_lines_{event}_refused"))


def write_lines(world: World, lines: list[bytes]) -> None:
    with world.store.write() as tx:
        tx.execute(delete(ledger_lines))
        rows = [{"campaign": world.campaign, "number": number, "line": line} for number, line in enumerate(lines)]
        if rows:
            tx.execute(ledger_lines.insert(), rows)


def ask_verify(world: World) -> dict[str, Any]:
    answer = world.client().post(f"{world.base}/verify", headers=world.headers("Ana"))
    assert answer.status_code in (200, 409), answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_a_ledger_that_is_changed_is_read_anew_though_it_is_as_long(paid: World) -> None:
    """What was read is kept in memory for the lines that it was read from, not for their number."""
    with paid.store.read() as tx:
        assert load_result(tx, paid.campaign) is load_result(tx, paid.campaign) is not None
    *lines, last = read_lines(paid)
    disarm(paid.store)
    write_lines(paid, [*lines, last.replace(b'"hash":"', b'"hash":"0')])
    with paid.store.read() as tx, pytest.raises(LedgerError):
        load_result(tx, paid.campaign)


def test_the_database_refuses_every_change(paid: World) -> None:
    store, before = paid.store, read_lines(paid)
    first_line = ledger_lines.c.number == 1
    statements: list[Executable] = [
        update(ledger_lines).where(first_line).values(line=b"{}"),
        update(ledger_lines).values(number=ledger_lines.c.number + 100),
        delete(ledger_lines).where(first_line),
        delete(ledger_lines),
        text("REPLACE INTO ledger_lines SELECT campaign, number, 'x' FROM ledger_lines")
        if store.file is not None
        else text("TRUNCATE ledger_lines"),
    ]
    if store.file is None:
        statements.append(text("TRUNCATE campaigns CASCADE"))
    for statement in statements:
        with pytest.raises(exc.DatabaseError, match="append-only"), store.write() as tx:
            tx.execute(statement)
        assert read_lines(paid) == before, str(statement)


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_every_flipped_byte_is_found(paid: World) -> None:
    lines = read_lines(paid)
    assert ask_verify(paid)["valid"] is True
    head = paid.round().head
    for number, line in enumerate(lines):
        for place in range(len(line)):
            changed = [*lines]
            changed[number] = line[:place] + bytes([line[place] ^ 1]) + line[place + 1 :]
            with pytest.raises(LedgerError):
                verify(Ledger.from_lines(changed), head=head)


@pytest.mark.parametrize("place", [3, -4])
def test_a_flipped_byte_in_the_database_is_found_by_asking(paid: World, place: int) -> None:
    lines = read_lines(paid)
    assert ask_verify(paid)["valid"] is True
    disarm(paid.store)
    for number, line in enumerate(lines):
        changed = [*lines]
        at = place % len(line)
        changed[number] = line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]
        write_lines(paid, changed)
        assert ask_verify(paid).get("valid") is False, f"line {number}"
    write_lines(paid, lines)
    assert ask_verify(paid)["valid"] is True


def _cut(lines: list[bytes]) -> list[bytes]:
    return lines[:-1]


def _drop(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], *lines[3:]]


def _swap(lines: list[bytes]) -> list[bytes]:
    return [lines[0], lines[2], lines[1], *lines[3:]]


def _none(lines: list[bytes]) -> list[bytes]:
    return []


def _forge(lines: list[bytes]) -> list[bytes]:
    """Pay somebody more, and seal the ledger anew so that its hash chain is valid."""
    ledger = Ledger()
    for entry in Ledger.from_lines(lines).entries:
        plain = {key: value for key, value in entry.items() if key not in ("previous", "hash")}
        if plain["entry"] == "payment" and plain["provider"] == "Ash":
            plain["payment"] = "333.33"
        ledger.append(plain)
    return [*ledger.lines]


@pytest.mark.parametrize(("kind", "change"), in_turn([_cut, _drop, _swap, _forge, _none]))
def test_lines_that_are_removed_swapped_or_forged_are_found(
    paid: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    lines, head = read_lines(paid), paid.round().head
    copy_path = tmp_path / "ledger.jsonl"
    copy_path.write_bytes(paid.client().get(f"{paid.base}/ledger", headers=paid.headers("Ana")).content)
    assert run(monkeypatch, "verify", copy_path, "--head", head) == 0
    disarm(paid.store)
    write_lines(paid, change(lines))
    assert ask_verify(paid).get("valid") is not True
    if change is _cut:  # cut off and closed anew it is a whole ledger: only who noted its head can tell
        copy_path.write_bytes(Ledger.from_lines(change(lines)).to_bytes())
    else:
        copy_path.write_bytes(b"".join([*change(lines), copy_path.read_bytes().splitlines(keepends=True)[-1]]))
    assert run(monkeypatch, "verify", copy_path, "--head", head) == 1


@pytest.mark.parametrize("kind", one_system("postgresql"))
def test_a_payment_can_be_recomputed_from_the_export(paid: World) -> None:
    raw = paid.client().get(f"{paid.base}/ledger", headers=paid.headers("Ana")).content
    ledger = Ledger.from_bytes(raw)
    campaign = campaign_of(ledger)
    (round_entry,) = ledger.of("round")
    again = settle(campaign, recorded_reports(ledger), seed=round_entry["seed"])
    mine = [payment_entry(campaign, None, payment) for payment in again]
    entries = [{k: v for k, v in entry.items() if k not in ("previous", "hash")} for entry in ledger.of("payment")]
    assert [canonical(entry) for entry in mine] == [canonical(entry) for entry in entries]
    assert {entry["provider"] for entry in entries} == set(COUNTS)


def test_the_head_that_a_provider_is_told_is_the_ledgers(paid: World) -> None:
    client = paid.client()
    client.post(f"{paid.base}/rounds/1/publish", headers=paid.headers("Ana"))
    view = client.get(f"{paid.base}/rounds/1/payments", headers=paid.headers("Ash")).json()
    raw = client.get(f"{paid.base}/ledger", headers=paid.headers("Ana")).content
    assert view["head"] == Ledger.from_bytes(raw).head == ask_verify(paid)["head"]
    assert [payment["provider"] for payment in view["payments"]] == ["Ash"]


def test_a_shared_ledger_is_closed_while_a_day_waits_to_be_paid(database: str) -> None:
    """The payments of the first day were compared with the second, so its ledger has the reports of both."""
    budget = {**TERMS["campaign"], "budget_per": "day"}
    terms = {"campaign": budget, "model": TERMS["model"], "data": {"day": "day"}, "mechanism": {"rule": "MultiDay"}}
    with opened(database) as store:
        world = make_world(store, terms=terms, share_ledger=True)

        def statuses() -> set[int]:
            files = [f"{world.base}/ledger", f"{world.base}/campaign.toml"]
            return {world.client().get(file, headers=world.headers("Ash")).status_code for file in files}

        for number in (1, 2):
            if number > 1:
                world.open()
            world.report_all(COUNTS, number)
            world.close(number)
        with store.write() as tx:
            rounds.publish(tx, world.analyst, world.campaign, 1)
        assert [world.round(number).state for number in (1, 2)] == ["paid", "closed"]
        assert statuses() == {200, 409}
        world.open()
        world.report_all(COUNTS, 3)
        world.close(3, final=True)
        assert statuses() == {200, 409}
        with store.write() as tx:
            for number in (2, 3):
                rounds.publish(tx, world.analyst, world.campaign, number)
        assert statuses() == {200}
