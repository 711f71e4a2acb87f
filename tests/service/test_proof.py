"""Providers need not trust the service: receipts, proofs and heads show what it did, on both databases."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import select, update

from campaigns.shop import run
from service.databases import Databases, one_system, opened
from service.test_ledger import disarm, read_lines, write_lines
from service.world import TERMS, World, dump, make_world
from troth.campaigns.records import merkle
from troth.campaigns.records.ledger import Ledger
from troth.campaigns.records.ledger_entries import recorded_reports
from troth.campaigns.records.paid_round import PaymentError, check_paid_round
from troth.campaigns.records.statements import (
    HEAD,
    RECEIPT,
    StatementError,
    check_head,
    check_signature,
    receipt_leaf,
    sign,
)
from troth.campaigns.rounds import pay_rounds
from troth.campaigns.seed import derive_seed
from troth.campaigns.terms import Campaign
from troth.client.heads import check_lines, watch_head
from troth.client.http import RefusedError
from troth.client.submission import check_signed
from troth.core.errors import DataError
from troth.data.request import Report
from troth.service import heads
from troth.service.campaigns import secret_of
from troth.service.keys import Keys
from troth.service.ledgers import load_ledger
from troth.service.schema import campaigns, payouts, rounds, uploads
from troth.service.schema import reports as report_table
from troth.service.serve import begin_epoch
from troth.service.settlement import close_round

COUNTS = {"Ash": (5, 2), "Birch": (4, 3), "Elm": (6, 1)}


@pytest.fixture
def world(database: str) -> Any:
    with opened(database) as store:
        yield make_world(store)


def get(world: World, name: str, path: str, status: int = 200) -> Any:
    answer = world.client().get(f"{world.base}{path}", headers=world.headers(name))
    assert answer.status_code == status, answer.text
    return answer.json()


def post(world: World, name: str, path: str, body: Any = None, status: int = 200) -> Any:
    answer = world.client().post(f"{world.base}{path}", headers=world.headers(name), json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def confirmed(world: World, name: str, ones: int, zeros: int) -> dict[str, Any]:
    """Report through the API with the provider's nonce, and return the signed receipt."""
    submission = world.submit(name, ones, zeros)
    path = f"/rounds/1/submissions/{submission}/confirm"
    receipt: dict[str, Any] = post(world, name, path, {"nonce": f"words of {name}"})["receipt"]
    return receipt


def test_a_receipt_binds_all_that_it_says(world: World) -> None:
    receipt = confirmed(world, "Ash", 5, 2)
    check_signature(receipt, RECEIPT, world.store.keys.public)
    assert receipt["own_nonce"] == "words of Ash"
    for field, value in receipt.items():
        if field != "signature":
            other = 8 if isinstance(value, int) else [1.0] if isinstance(value, list) else "0" * 64
            with pytest.raises(StatementError):
                check_signature({**receipt, field: other}, RECEIPT)
    with pytest.raises(StatementError, match="signed with the key"):
        check_signature(receipt, RECEIPT, "00" * 32)


def test_a_provider_checks_its_payment_offline(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    receipts = {name: confirmed(world, name, *counts) for name, counts in COUNTS.items()}
    world.close()
    post(world, "Ana", "/rounds/1/publish")
    for name, receipt in receipts.items():
        payments = {**get(world, name, "/rounds/1/payments"), "terms": get(world, name, "")["terms"]}
        checked = check_paid_round(receipt, payments)
        assert (len(checked.passed), checked.withheld) == (6, [])
        (tmp_path / "receipt.json").write_text(json.dumps(receipt))
        (tmp_path / "payments.json").write_text(json.dumps(payments))
        parts = (tmp_path / "receipt.json", "--payments", tmp_path / "payments.json")
        assert run(monkeypatch, "verify-receipt", *parts, "--key", receipt["key"]) == 0
        assert "you still have to trust" in capsys.readouterr().out
        assert run(monkeypatch, "verify-receipt", *parts, "--key", "00" * 32) == 1  # signed by somebody else
        assert "signed with the key" in capsys.readouterr().err
        with pytest.raises(StatementError, match="not among those"):
            check_paid_round({**receipt, "summary": [0.0, 7.0]}, payments)
        with pytest.raises(StatementError, match="seed is .*, but .* in the ledger"):
            check_paid_round(receipt, {**payments, "seed": payments["link"]})
        with pytest.raises(StatementError, match="link is .*, but .* in the ledger"):
            check_paid_round(receipt, {**payments, "link": "sha256:" + "00" * 32})
        more = [{**entry, "payment": f"{float(entry['payment']) + 1:.2f}"} for entry in payments["payments"]]
        with pytest.raises(StatementError, match="not the one in the ledger"):
            check_paid_round(receipt, {**payments, "payments": more})
        alone = {**payments, "line": None}
        with pytest.raises(StatementError, match="seed does not derive"):
            check_paid_round(receipt, {**alone, "seed": payments["link"]})
        with pytest.raises(PaymentError, match="not the share"):
            check_paid_round(receipt, {**alone, "payments": more})
        with pytest.raises(StatementError, match="committed to"):
            check_paid_round(receipt, {**alone, "link": "sha256:" + "00" * 32})
        other_terms = {**payments["terms"], "mechanism": {**payments["terms"]["mechanism"], "draws": 5}}
        with pytest.raises(StatementError, match="terms differ from those on the receipt"):
            check_paid_round(receipt, {**payments, "terms": other_terms})
    (tmp_path / "receipt.json").write_text(json.dumps({**receipts["Ash"], "rows": 8}))
    assert run(monkeypatch, "verify-receipt", tmp_path / "receipt.json") == 1


@pytest.fixture
def ash(world: World) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ash's receipt, and what the service shows of a round that was paid."""
    receipts = {name: confirmed(world, name, *counts) for name, counts in COUNTS.items()}
    world.close()
    post(world, "Ana", "/rounds/1/publish")
    return receipts["Ash"], {**get(world, "Ash", "/rounds/1/payments"), "terms": get(world, "Ash", "")["terms"]}


def test_a_tree_of_its_own_for_each_provider_is_found(world: World, ash: Any) -> None:
    """The operator makes a round for one provider alone: its own leaf, made-up ones, and the seed that suits."""
    receipt, payments = ash
    leaves = [receipt_leaf(receipt), "ab" * 32]
    own: dict[str, Any] = {"root": merkle.root(leaves), "proof": {"place": 0, "size": 2, "hashes": leaves[1:]}}
    own["seed"] = derive_seed(payments["link"], [own["root"]])
    with pytest.raises(StatementError, match="root is .*, but .* in the ledger"):
        check_paid_round(receipt, {**payments, **own})
    body = {**json.loads(payments["line"]["text"]), **own, "reports": 2}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    with pytest.raises(StatementError, match="not a line of the ledger whose head is signed"):
        check_paid_round(receipt, {**payments, **own, "line": {**payments["line"], "text": text}})
    key = Ed25519PrivateKey.generate()
    stated = {name: value for name, value in payments["line"]["head"].items() if name not in ("key", "signature")}
    line_root = merkle.leaf(f"{text}\n".encode())
    forged = sign(key, {**stated, "lines": 1, "root": line_root})
    line = {"text": text, "place": 0, "hashes": [], "head": forged}
    with pytest.raises(StatementError, match="signed with the key"):
        check_paid_round(receipt, {**payments, **own, "line": line})
    other = world.store.keys.sign({**stated, "campaign": "0" * 16, "lines": 1, "root": line_root})
    with pytest.raises(StatementError, match="not a line of the ledger"):
        check_paid_round(receipt, {**payments, **own, "line": {**line, "head": other}})
    believed = check_paid_round(receipt, {**payments, **own, "line": None})
    assert not any("one of the" in done for done in believed.passed)
    assert [what for what in believed.withheld if "line of the ledger" in what]


def test_the_number_of_reports_and_the_payment_are_those_in_the_ledger(ash: Any) -> None:
    receipt, payments = ash
    assert json.loads(payments["line"]["text"])["reports"] == 3
    assert merkle.includes(
        payments["root"], 3, payments["proof"]["place"], receipt_leaf(receipt), payments["proof"]["hashes"]
    )
    sizes = {}
    for size in (2, 4, 5):
        for place in range(size):
            with pytest.raises(StatementError) as wrong:
                check_paid_round(receipt, {**payments, "proof": {**payments["proof"], "size": size, "place": place}})
            sizes[size, place] = str(wrong.value)
    assert any("reports, but" in message for message in sizes.values())
    (mine,) = payments["payments"]
    for change in ({"cap": "0.00", "exact_cap": "0", "payment": "0.00", "share": 0.0}, {"cap": "1.00"}):
        with pytest.raises(StatementError, match="not the one in the ledger"):
            check_paid_round(receipt, {**payments, "payments": [{**mine, **change}]})


def test_the_head_is_compared_with_the_one_that_was_seen(
    ash: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    receipt, payments = ash
    (tmp_path / "receipt.json").write_text(json.dumps(receipt))
    (tmp_path / "payments.json").write_text(json.dumps(payments))
    monkeypatch.setattr("troth.client.heads.heads_path", lambda: tmp_path / "heads.json")
    parts = (tmp_path / "receipt.json", "--payments", tmp_path / "payments.json", "--key", receipt["key"])
    head = payments["line"]["head"]
    for change, status, message in (
        (None, 0, "that others see this head"),
        ({}, 0, "the head is the one that was seen"),
        ({"lines": head["lines"] - 4, "root": "ab" * 32}, 0, "that others see this head"),
        ({"root": "ab" * 32}, 1, "two versions"),
        ({"epoch": 2}, 1, "another key or epoch"),
        ({"key": "ab" * 32}, 1, "another key or epoch"),
    ):
        if change is not None:
            (tmp_path / "heads.json").write_text(json.dumps({"a place": {**head, **change}}))
        assert run(monkeypatch, "verify-receipt", *parts) == status
        answer = capsys.readouterr()
        assert message in answer.out + answer.err


WITHHELD: dict[str, dict[str, Any]] = {
    "payments": {"payments": []},
    "link": {"line": None, "link": None},
    "seed": {"line": None, "link": None, "seed": None},
    "terms": {"terms": None},
    "line": {"line": None},
}
WRONG: dict[str, dict[str, Any]] = {
    "day": {"day": "2020-01-01"},
    "twice": {"payments": "twice"},
    "link": {"link": None, "seed": None},
    "proof": {"proof": None},
    "commitment": {"commitment": None},
    "payment_hashes": {"payment_hashes": None},
    "malformed": {"payments": [{"payment": True}]},
    "list": {"payments": {"Ash": 1}},
    "number": {"line": None, "payments": [{"payment": True}]},
    "nothing": {"line": None, "payments": [{"share": None}]},
    "infinite": {"line": None, "payments": [{"share": float("nan")}]},
    "money": {"line": None, "payments": [{"payment": "nan"}]},
    "deposit": {"line": None, "payments": [{"deposit": "1/0"}]},
    "endless": {"line": None, "payments": [{"payment": "1e-999999999"}]},
    "endless cap": {"line": None, "payments": [{"exact_cap": "1e-999999999"}]},
    "line": {"line": []},
    "hashes": {"line": {"hashes": [7]}},
    "hexadecimal": {"line": {"hashes": ["x"] * 3}},
    "text": {"line": {"text": "{"}},
    "size": {"proof": {"size": "3"}},
    "root": {"root": None},
    "terms": {"terms": {"campaign": 7}},
}


def test_what_is_withheld_is_not_valid_and_what_is_malformed_is_named(
    ash: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    receipt, payments = ash
    (tmp_path / "receipt.json").write_text(json.dumps(receipt))

    def status(change: dict[str, Any]) -> int:
        shown = dict(payments)
        for name, value in change.items():
            if name == "payments" and value == "twice":
                shown[name] = payments["payments"] * 2
            elif name == "payments" and value and isinstance(value, list):
                shown[name] = [{**payments["payments"][0], **value[0]}]
            elif name in ("line", "proof") and isinstance(value, dict):
                shown[name] = {**payments[name], **value}
            else:
                shown[name] = value
        (tmp_path / "payments.json").write_text(json.dumps(shown))
        parts = (tmp_path / "receipt.json", "--payments", tmp_path / "payments.json", "--key", receipt["key"])
        return run(monkeypatch, "verify-receipt", *parts)

    assert status({}) == 0
    assert "withheld" not in capsys.readouterr().out
    for name, change in WITHHELD.items():
        assert status(change) == 3, name
        output = capsys.readouterr().out
        assert output.startswith("incomplete: Ash"), output
        assert "not checked, because the service withholds it:" in output
    for name, change in WRONG.items():
        assert status(change) == 1, name
        answer = capsys.readouterr()
        assert (answer.out, "Traceback" in answer.err) == ("", False), name
    for content in ("[]", "{", '{"kind": "troth receipt"}', json.dumps({"receipt": 7}), json.dumps({"receipt": {}})):
        (tmp_path / "receipt.json").write_text(content)
        assert run(monkeypatch, "verify-receipt", tmp_path / "receipt.json") == 1


def test_an_edited_report_is_not_paid(world: World) -> None:
    """Somebody who can write to the database, but has not the key, cannot change what was confirmed."""
    for name, counts in COUNTS.items():
        confirmed(world, name, *counts)
    with world.store.write() as tx:
        tx.execute(update(uploads).where(uploads.c.summary == [2.0, 5.0]).values(summary=[0.0, 7.0]))
    world.close()
    assert world.round().state == "closed"
    assert "'Ash'" in str(world.round().problem)
    assert "receipt" in str(world.round().problem)


def test_a_round_is_not_paid_under_other_terms_than_those_on_receipts(world: World) -> None:
    for name, counts in COUNTS.items():
        confirmed(world, name, *counts)
    with world.store.write() as tx:
        plain = json.loads(tx.scalar(select(campaigns.c.plain)) or "")
        plain["campaign"]["budget"] = "900.00"
        tx.execute(update(campaigns).values(plain=json.dumps(plain)))
    world.close()
    assert world.round().state == "closed"
    assert "the terms differ from those under which 'Ash' reported" in str(world.round().problem)


def test_a_report_whose_receipt_was_erased_is_not_paid(world: World) -> None:
    for name, counts in COUNTS.items():
        confirmed(world, name, *counts)
    with world.store.write() as tx:
        tx.execute(update(report_table).values(receipt=None, nonce=None))
        tx.execute(update(uploads).where(uploads.c.summary == [2.0, 5.0]).values(summary=[0.0, 7.0]))
    world.close()
    assert world.round().state == "closed"
    assert "does not match its signed receipt" in str(world.round().problem)


def test_a_receipt_that_does_not_name_the_terms_is_not_proof_of_them(ash: Any) -> None:
    receipt, payments = ash
    checked = check_paid_round({name: value for name, value in receipt.items() if name != "terms"}, payments)
    assert any("the receipt does not say" in line for line in checked.believed)


def test_a_forged_history_is_found(world: World) -> None:
    """A ledger that was rewritten from its first line on, with the heads in the database too, continues no signed head."""
    world.report_all(COUNTS)
    world.close()
    assert post(world, "Ana", "/verify")["valid"] is True
    entries = [
        {key: value for key, value in entry.items() if key not in ("previous", "hash")}
        for entry in Ledger.from_lines(read_lines(world)).entries
    ]
    with world.store.read() as tx:
        row = tx.execute(select(campaigns).where(campaigns.c.id == world.campaign)).one()
    forged = Ledger()
    reports = recorded_reports(Ledger(entries))
    reports[0] = Report("Ash", None, 7, reports[0].summary * 0 + [0, 7], "", None, reports[0].nonce)
    terms = Campaign.from_dict(json.loads(row.plain))
    # pays other reports with the secret that is known by now
    pay_rounds(terms, reports, forged, secret=secret_of(world.store.keys, row))
    disarm(world.store)
    write_lines(world, list(forged.lines))
    with world.store.write() as tx:
        tx.execute(update(rounds).values(head=forged.head))
    answer = post(world, "Ana", "/verify")
    assert answer["valid"] is False
    assert "signed" in answer["problem"]


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_a_restored_copy_pays_no_other_reports_with_a_secret_that_is_known(
    databases: Databases, database: str, kind: str
) -> None:
    with opened(database) as store:
        world = make_world(store)
        world.report_all(COUNTS)
    databases.keep(database)
    try:
        with opened(database) as store:
            world.store = store
            world.close()
            head = get(world, "Ana", "/head?since=0")
            check_head(None, head)
        databases.restore(database, keys=False)
        with opened(database) as store:
            world.store = store
            assert world.round().state == "open"
            with store.read() as tx:
                old = tx.scalar(select(uploads.c.id).where(uploads.c.summary == [2.0, 5.0]))
            world.report("Ash", 7, 0, replaces=old)
            close_round(store, world.analyst, world.campaign, 1)
            assert world.round().state == "closed"
            assert "older copy" in str(world.round().problem)
            assert read_lines(world) == []
            begin_epoch(store, world.campaign)  # heads go on, and everybody is warned
            close_round(store, world.analyst, world.campaign, 1)
            assert "already used for other reports" in str(world.round().problem)
            assert read_lines(world) == []
    finally:
        if "://" in database:
            with psycopg.connect(database) as connection:
                connection.execute("DROP SCHEMA kept CASCADE")


def test_heads_continue_each_other_and_a_new_epoch_is_seen(world: World) -> None:
    world.report_all(COUNTS)
    world.close()
    get(world, "Ash", "/head?since=0", 409)  # not published yet
    post(world, "Ana", "/rounds/1/publish")
    head = get(world, "Ash", "/head?since=0")
    check_head(None, head)
    with world.store.read() as tx:
        ledger = load_ledger(tx, world.campaign)
    longer = Ledger([*ledger.entries, {"entry": "note"}])
    heads.sign_head(world.store.keys, world.campaign, longer)
    later = heads.head_with_proof(world.store.keys, world.campaign, longer, 10**9, head["lines"])
    assert later is not None
    check_head(head, later)
    cut = Ledger(ledger.entries[:3])
    again = heads.new_epoch(world.store.keys, world.campaign, cut)
    with pytest.raises(StatementError, match="epoch 2"):
        check_head(head, {**again, "proof": []})
    statement = {name: later[name] for name in ("kind", "campaign", "epoch", "lines", "head", "time")}
    forged = world.store.keys.sign({**statement, "root": "00" * 32})
    with pytest.raises(StatementError, match="does not begin"):
        check_head(head, {**forged, "proof": later["proof"]})


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_providers_see_a_head_up_to_the_first_round_that_is_not_published(database: str) -> None:
    """A later round that is published does not disclose the lines of one before it."""
    with opened(database) as store:
        campaign = {**TERMS["campaign"], "budget_per": "day"}
        world = make_world(store, terms={**TERMS, "campaign": campaign, "data": {"day": "day"}}, opened=False)
        for day in (1, 2, 3):
            world.open(day)
            world.report_all(COUNTS, day)
            world.close(day)
        ends = [line for line, entry in enumerate(read_lines(world), 1) if b'"entry":"close"' in entry]
        post(world, "Ana", "/rounds/3/publish")
        get(world, "Ash", "/head?since=0", 409)
        for day, seen in ((1, 1), (2, 3)):
            post(world, "Ana", f"/rounds/{day}/publish")
            assert get(world, "Ash", "/head?since=0")["lines"] == ends[seen - 1]


def test_an_analyst_and_a_provider_on_one_machine_see_different_heads(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider sees less of the ledger, which is no other history."""
    monkeypatch.setattr("troth.client.heads.heads_path", lambda: tmp_path / "heads.json")
    world.report_all(COUNTS)
    world.close()

    class Seen:
        server = "https://troth.example.org"

        def __init__(self, name: str) -> None:
            self.name = name

        def show_head(self, campaign: str, *, since: int) -> Any:
            path = f"/api/v1/campaigns/{campaign}/head?since={since}"
            answer = world.client().get(path, headers=world.headers(self.name))
            if answer.status_code != 200:
                raise RefusedError(answer.status_code, answer.text)
            return answer.json()

    analyst, provider = {"id": world.campaign}, {"id": world.campaign, "provider": "Ash"}
    clients: dict[str, Any] = {name: Seen(name) for name in ("Ana", "Ash")}
    for _ in range(2):
        assert watch_head(clients["Ana"], analyst) is None
        assert watch_head(clients["Ash"], provider) is None
    post(world, "Ana", "/rounds/1/publish")
    assert watch_head(clients["Ash"], provider) is None
    assert len(json.loads((tmp_path / "heads.json").read_text())) == 2


def test_a_head_of_a_ledger_that_grew_continues_the_one_that_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("troth.client.heads.heads_path", lambda: tmp_path / "heads.json")
    keys, entries = Keys(tmp_path / "keys"), [{"entry": "report", "number": number} for number in range(9)]

    class Client:
        server = "https://troth.example.org"

        def __init__(self, ledger: Ledger) -> None:
            self.ledger = ledger

        def show_head(self, campaign: str, *, since: int) -> Any:
            return heads.head_with_proof(keys, campaign, self.ledger, len(self.ledger.lines), since)

    for lines in (2, 5, 9):
        ledger = Ledger(entries[:lines])
        heads.sign_head(keys, "a", ledger)
        for _ in range(2):
            client: Any = Client(ledger)
            assert watch_head(client, {"id": "a"}) is None
    other = Ledger([*entries[:4], {"entry": "report", "number": 7}, *entries[5:]])
    heads.new_epoch(keys, "a", other)
    client = Client(other)
    assert "epoch 2" in str(watch_head(client, {"id": "a"}))


def test_a_ledger_that_is_sent_is_the_one_whose_head_was_signed(world: World) -> None:
    world.report_all(COUNTS)
    world.close()
    post(world, "Ana", "/rounds/1/publish")
    path, analyst = f"/api/v1/campaigns/{world.campaign}", world.headers("Ana")
    head = world.client().get(f"{path}/head?since=0", headers=analyst).json()
    sent = Ledger.from_bytes(world.client().get(f"{path}/ledger", headers=analyst).content)
    check_lines(head, sent)
    entries = [{**entry, "share": 0.5} if entry["entry"] == "payment" else entry for entry in sent.entries]
    for other in (Ledger(entries), Ledger(sent.entries[:-1])):
        with pytest.raises(StatementError, match="does not begin with the"):
            check_lines(head, other)
    check_lines(None, Ledger())


def test_heads_are_published_to_a_file(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(heads.TARGETS, json.dumps([str(tmp_path / "heads.jsonl"), "http://127.0.0.1:9/unreachable"]))
    world.report_all(COUNTS)
    world.close()
    (line,) = (tmp_path / "heads.jsonl").read_text().splitlines()
    check_signature(json.loads(line), HEAD, world.store.keys.public)
    assert world.round().state == "paid"


def test_a_head_that_a_killed_process_did_not_sign_is_signed_at_the_next_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(heads, "sign_head", lambda *_: None)  # as if it had died before
        world.report_all(COUNTS)
        world.close()
    assert world.store.keys.heads(world.campaign) == []
    heads.catch_up(world.store)
    heads.catch_up(world.store)
    (head,) = world.store.keys.heads(world.campaign)
    assert head["head"] == world.round().head


def test_secrets_of_open_rounds_are_not_in_the_database(world: World) -> None:
    world.report_all(COUNTS)
    with world.store.read() as tx:
        row = tx.execute(select(campaigns).where(campaigns.c.id == world.campaign)).one()
    secret = secret_of(world.store.keys, row)
    assert secret is not None
    stored = dump(world.store)
    assert secret.hexadecimal not in stored
    assert secret.link(1).removeprefix("sha256:") not in stored


def test_the_nonce_of_a_provider_moves_the_seed(world: World) -> None:
    """So who draws the other part of the nonce cannot choose the seed by it: that part came first."""
    submission = world.submit("Ash", 5, 2)
    answer = get(world, "Ash", f"/rounds/1/submissions/{submission}")
    receipt = post(world, "Ash", f"/rounds/1/submissions/{submission}/confirm", {"nonce": "dice: 4 1 6 6"})["receipt"]
    assert (receipt["nonce"], receipt["own_nonce"]) == (answer["nonce"], "dice: 4 1 6 6")


def test_a_provider_is_shown_rounded_numbers(world: World) -> None:
    world.report_all(COUNTS)
    world.close()
    post(world, "Ana", "/rounds/1/publish")
    (mine,) = get(world, "Ash", "/rounds/1/payments")["payments"]
    analysts = {entry["provider"]: entry for entry in get(world, "Ana", "/rounds/1/payments")["payments"]}
    exact = analysts["Ash"]
    assert mine["payment"] == exact["payment"]
    assert mine["log_pmi"] == round(exact["log_pmi"], 1) != exact["log_pmi"]
    assert mine["score"] == round(exact["score"], 2) != exact["score"]
    assert all(value == round(exact["terms"][key], 2) for key, value in mine["terms"].items())
    assert mine["share"] == round(float(mine["payment"]) / float(mine["cap"]), 4)
    assert f"{exact['log_pmi']:.4f}" not in json.dumps(mine["steps"])
    assert mine["id"] == exact["id"]


def test_where_the_order_counts_a_provider_sees_its_place_alone(database: str) -> None:
    with opened(database) as store:
        world = make_world(store, terms={**TERMS, "mechanism": {"rule": "LineUp", "decoys": 19}})
        world.report_all(COUNTS)
        world.close()
        post(world, "Ana", "/rounds/1/publish")
        (mine,) = get(world, "Ash", "/rounds/1/payments")["payments"]
        exact = next(
            entry for entry in get(world, "Ana", "/rounds/1/payments")["payments"] if entry["provider"] == "Ash"
        )
        assert mine["terms"] == exact["terms"]
        assert exact["log_pmi"] is not None
        assert mine["log_pmi"] is None
        assert "log PMI" not in json.dumps(mine["steps"])


@pytest.mark.parametrize("kind", one_system("postgresql"))
def test_a_round_that_waits_for_two_days_is_checked_with_their_roots(database: str) -> None:
    rule = {"rule": "LineUp", "rivals": 2, "decoys": 2, "source": "days"}
    with opened(database) as store:
        campaign = {**TERMS["campaign"], "budget_per": "day"}
        terms = {**TERMS, "campaign": campaign, "mechanism": rule, "data": {"day": "day"}}
        world = make_world(store, terms=terms, opened=False)
        receipts = {}
        for day in (1, 2, 3):
            world.open(day)
            for name, (ones, zeros) in COUNTS.items():
                submission = world.submit(name, ones - day, zeros + day, day)
                path = f"/rounds/{day}/submissions/{submission}/confirm"
                receipts[name, day] = post(world, name, path, {"nonce": f"{name} {day}"})["receipt"]
            world.close(day, final=day == 3)
        for day in (1, 2, 3):
            post(world, "Ana", f"/rounds/{day}/publish")
            for name in COUNTS:
                payments = get(world, name, f"/rounds/{day}/payments")
                assert len(payments["next_roots"]) == 3 - day
                assert len(check_paid_round(receipts[name, day], payments).passed) == 5
        with pytest.raises(StatementError, match="seed does not derive"):
            payments = get(world, "Ash", "/rounds/1/payments")
            check_paid_round(receipts["Ash", 1], {**payments, "next_roots": payments["next_roots"][:1]})
        for day in (1, 2, 3):
            paid, link = get(world, "Ash", f"/rounds/{day}/payments"), "sha256:" + "1" * 64
            seed = derive_seed(link, [paid["root"], *paid["next_roots"]], paid["beacon"])
            with pytest.raises(StatementError, match="the revealed secret is not the one that was committed to"):
                check_paid_round(receipts["Ash", day], {**paid, "link": link, "seed": seed, "line": None})
        assert post(world, "Ana", "/verify")["valid"] is True


def test_whoever_pays_out_every_batch_pays_once(world: World) -> None:
    world.report_all(COUNTS)
    post(world, "Ana", "/payouts", status=409)
    world.close()
    due = get(world, "Ana", "/payouts")["payouts"]
    assert {payout["state"] for payout in due} == {"pending"}
    post(world, "Ana", f"/payouts/{due[0]['id']}/void", {"reason": "paid in cash"})
    client, headers = world.client(), world.headers("Ana", "one-key")
    first = client.post(f"{world.base}/payouts", headers=headers)
    assert first.status_code == 201, first.text
    assert client.post(f"{world.base}/payouts", headers=headers).content == first.content
    post(world, "Ana", "/payouts", status=409)  # nothing is left
    batch = first.json()
    assert {line["id"] for line in batch["payments"]} == {payout["id"] for payout in due[1:]}
    assert all(line["head"] == world.round().head for line in batch["payments"])
    assert get(world, "Ana", "/payouts/1") == batch
    file = client.get(f"{world.base}/payouts/1/payouts.csv", headers=world.headers("Ana")).text
    rows = [dict(line, batch=1) for line in batch["payments"]]
    expected = [{name: "" if entry is None else str(entry) for name, entry in row.items()} for row in rows]
    assert list(csv.DictReader(file.splitlines())) == expected
    post(world, "Ana", f"/payouts/{due[1]['id']}/void", {"reason": "bounced"})
    assert get(world, "Ana", "/payouts/1") == batch  # what was exported does not change
    states = [payout["state"] for payout in get(world, "Ana", "/payouts")["payouts"]]
    assert states == ["void", "void", "posted"]
    with world.store.read() as tx:
        assert len(tx.execute(select(payouts)).all()) == len(due)


def test_amounts_in_a_batch_are_for_programs(database: str) -> None:
    """People write 4,000.00; a program that reads CSV needs 4000.00."""
    with opened(database) as store:
        world = make_world(store, terms={**TERMS, "campaign": {**TERMS["campaign"], "budget": "12000.00"}})
        world.report_all(COUNTS)
        world.close()
        amounts = [line["amount"] for line in post(world, "Ana", "/payouts", status=201)["payments"]]
        headers = world.headers("Ana")
        file = world.client().get(f"{world.base}/payouts/1/payouts.csv", headers=headers).text
    assert [row["amount"] for row in csv.DictReader(file.splitlines())] == amounts
    assert max(map(float, amounts)) > 1000


def test_batches_are_numbered_by_campaign(database: str) -> None:
    """The names of files on the analyst's machine, and the addresses of batches, go by that number."""
    with opened(database) as store:
        worlds = [make_world(store), make_world(store, ("Fir", "Oak", "Yew"), analyst="Bea")]
        for world, analyst in zip(worlds, ("Ana", "Bea"), strict=True):
            for name in world.providers:
                world.report(name, 5, 2)
            world.close()
            assert post(world, analyst, "/payouts", status=201)["batch"] == 1


def test_a_named_beacon_is_waited_for(database: str) -> None:
    terms = {**TERMS, "mechanism": {**TERMS["mechanism"], "beacon": "the lottery of Saturday"}}
    with opened(database) as store:
        world = make_world(store, terms=terms)
        world.report_all(COUNTS)
        post(world, "Ana", "/rounds/1/close", {})
        assert "lottery" in str(world.round().problem)
        answer = post(world, "Ana", "/rounds/1/close", {"beacon": "3 14 15 92"})
        assert answer["state"] == "paid"
        payments = get(world, "Ana", "/rounds/1/payments")
        assert payments["seed"] == derive_seed(payments["link"], [payments["root"]], "3 14 15 92")
        assert post(world, "Ana", "/verify")["valid"] is True


def test_a_beacon_that_was_given_is_not_exchanged_for_another(database: str) -> None:
    """Whoever could give a second one would choose between two seeds."""
    terms = {**TERMS, "mechanism": {**TERMS["mechanism"], "beacon": "the lottery of Saturday"}}
    with opened(database) as store:
        world = make_world(store, terms=terms)
        world.report_all({"Ash": (90, 10), "Birch": (10, 90), "Elm": (50, 50)})
        post(world, "Ana", "/rounds/1/close", {})
        post(world, "Ana", "/rounds/1/close", {"beacon": "3 14 15 92"})
        assert "does not fit" in str(world.round().problem)
        post(world, "Ana", "/rounds/1/close", {"beacon": "2 71 82 81", "anyway": True})
        payments = get(world, "Ana", "/rounds/1/payments")
        assert payments["seed"] == derive_seed(payments["link"], [payments["root"]], "3 14 15 92")


def test_a_receipt_of_something_else_is_refused(world: World) -> None:
    submission = world.submit("Ash", 5, 2)
    shown = get(world, "Ash", f"/rounds/1/submissions/{submission}")
    answer = post(world, "Ash", f"/rounds/1/submissions/{submission}/confirm", {"nonce": "dice"})
    assert check_signed(shown, answer, "dice") == answer["receipt"]
    other = {"campaign": "0" * 16, "round": 2, "provider": "Elm", "sha256": "0" * 64, "summary": [7.0, 0.0]}
    other |= {"tasks": "sha256:" + "0" * 64, "nonce": "0" * 64}
    for name, value in other.items():
        with pytest.raises(DataError, match="does not match what you sent"):
            check_signed({**shown, name: value}, answer, "dice")
    with pytest.raises(DataError, match="does not match what you sent"):
        check_signed(shown, answer, "other dice")
    with pytest.raises(StatementError, match="not a troth receipt"):
        check_signed(shown, {**answer, "receipt": None}, "dice")


def test_a_head_that_is_hidden_later_is_missed(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("troth.client.heads.heads_path", lambda: tmp_path / "heads.json")
    world.report_all(COUNTS)
    world.close()

    class Client:
        server, hides = "https://troth.example.org", True

        def show_head(self, campaign: str, *, since: int) -> Any:
            if self.hides:
                raise RefusedError(409, "nothing is published yet")
            return get(world, "Ana", f"/head?since={since}")

    client: Any = Client()
    campaign = {"id": world.campaign}
    assert watch_head(client, campaign) is None  # there may be none yet
    client.hides = False
    assert watch_head(client, campaign) is None
    client.hides = True
    assert watch_head(client, campaign) == "the service no longer shows a head, but you have seen one"
