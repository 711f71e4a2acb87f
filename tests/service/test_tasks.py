"""Tasks in the service: each worker sends a file of its own, all are settled together, and each sees its own reasons."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from fractions import Fraction
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import update

import troth
from campaigns.shop import run
from service.databases import Databases, in_turn, one_system, opened
from service.test_secrecy import statements_of
from service.world import World, make_world
from troth.campaigns.records.paid_round import PaymentError, check_paid_round, check_payment
from troth.campaigns.records.statements import RECEIPT, check_signature
from troth.campaigns.records.verify import check_tasks
from troth.campaigns.task_data import read_file, task_request
from troth.campaigns.tasks import FILE_NAME, payments_of, settle_tasks
from troth.campaigns.terms import Campaign
from troth.campaigns.toml import to_toml
from troth.data.task_files import OwnTasks, join_tasks
from troth.data.tasks import read_tasks
from troth.service import campaigns, rounds, settlement, uploads
from troth.service.access import COOKIE
from troth.service.accounts import start_session
from troth.service.errors import InvalidError
from troth.service.ledgers import load_file, load_ledger
from troth.service.pages import terms_form
from troth.service.preview import make_preview
from troth.service.schema import upload_tasks
from troth.service.store import Store
from troth.service.uploads import UploadError, read_public_upload, read_upload

TERMS: dict[str, Any] = {
    "campaign": {"name": "pets", "budget": "20.00", "price": "0.05", "currency": "EUR"},
    "model": {
        "family": "Finite",
        "columns": ["label"],
        "categories": ["cat", "dog"],
        "prior": [0.5, 0.5],
        "likelihood": [[0.8, 0.2], [0.2, 0.8]],
    },
    "data": {"task": "item", "provider": "worker"},
    "limits": {"tasks": 80},
}
DRAWN = TERMS | {"mechanism": {"rule": "LineUp", "decoys": 19}}
WORKERS = ("Ann", "Bo", "Cy", "Di")
Labels = dict[str, dict[str, str]]


def crowd(tasks: int = 40, each: int = 3, seed: int = 5) -> Labels:
    """Return labels by worker and item; the last item is Ann's alone."""
    rng = np.random.default_rng(seed)
    labels: Labels = {name: {} for name in WORKERS}
    for item in range(tasks):
        truth = int(rng.integers(2))
        for name in rng.permutation(WORKERS)[:each]:
            labels[str(name)][f"i{item:03d}"] = ("cat", "dog")[truth if rng.random() < 0.8 else 1 - truth]
    return labels | {"Ann": labels["Ann"] | {"alone": "dog"}}


def as_csv(labels: Mapping[str, str], worker: str | None = None) -> str:
    head, end = ("item,label", "") if worker is None else ("item,label,worker", f",{worker}")
    return "\n".join([head, *(f"{item},{label}{end}" for item, label in labels.items())]) + "\n"


def own_of(labels: Mapping[str, str]) -> OwnTasks:
    """Return labels as the service stores them."""
    names = tuple(sorted(labels))
    return OwnTasks(names, np.eye(2)[[int(labels[name] == "dog") for name in names]])


def read(world: World, folder: Path, name: str, content: str | bytes, file: str = "labels.csv") -> Any:
    path = folder / f"{name}-{file}"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with world.store.read() as tx:
        terms = campaigns.terms_of(campaigns.find_campaign(tx, world.campaign))
    return read_upload(terms, path, file, name, None)


def report(world: World, folder: Path, name: str, content: str | bytes, file: str = "labels.csv") -> str:
    """Send a file of labels and confirm it."""
    upload = read(world, folder, name, content, file)
    with world.store.write() as tx:
        submission = rounds.add_upload(tx, world.providers[name], world.campaign, 1, upload)
        rounds.confirm(tx, world.providers[name], world.campaign, 1, submission, nonce=f"words of {name}")
    return submission


def paid_world(store: Store, folder: Path, terms: Mapping[str, Any] = TERMS, said: Labels | None = None) -> World:
    world = make_world(store, WORKERS, terms)
    for name, labels in (said or crowd()).items():
        report(world, folder, name, as_csv(labels))
    world.close()
    assert world.round().problem is None
    return world


def publish(world: World) -> None:
    with world.store.write() as tx:
        rounds.publish(tx, world.analyst, world.campaign, 1)


@pytest.mark.parametrize(("kind", "case"), in_turn(["all answers", "drawn decoys"]))
def test_a_round_of_tasks_pays_what_troth_pay_pays(
    database: str, tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, terms = crowd(), TERMS if case == "all answers" else DRAWN
    with opened(database) as store:
        world = paid_world(store, tmp_path, terms, said)
        client, ana = world.client(), world.headers("Ana")
        folder = tmp_path / "export"
        folder.mkdir()
        for name, path in (("ledger.jsonl", "ledger"), (FILE_NAME, FILE_NAME), ("campaign.toml", "campaign.toml")):
            answer = client.get(f"{world.base}/{path}", headers=ana)
            assert answer.status_code == 200
            (folder / name).write_bytes(answer.content)
        verified = client.post(f"{world.base}/verify", headers=ana).json()
    exported: Any = troth.verify(folder / "ledger.jsonl")
    assert run(monkeypatch, "verify", folder / "ledger.jsonl") == 0
    table = {
        "item": [item for labels in said.values() for item in labels],
        "worker": [name for name, labels in said.items() for _ in labels],
        "label": [label for labels in said.values() for label in labels.values()],
    }
    assert verified["valid"], verified
    assert verified["paid"] == exported.campaign.text(exported.paid)
    reports = read_tasks(table, task_request(exported.campaign))
    shares = settle_tasks(exported.campaign, reports, None, exported.rounds[0].seed)
    assert list(exported.payments) == payments_of(exported.campaign, reports, shares)
    assert len(exported.payments) == 4
    assert 0 < exported.paid <= 5 * len(table["item"])
    if terms is TERMS:
        pa_csv = "\n".join(["item,worker,label", *map(",".join, zip(*table.values(), strict=True))])
        (folder / "labels.csv").write_text(pa_csv)
        plain = {**terms, "data": {**terms["data"], "source": "labels.csv", "providers": list(WORKERS)}}
        (folder / "again.toml").write_text(to_toml(plain))
        again: Any = troth.pay(folder / "again.toml")
        assert again.payments == exported.payments
        assert again.shares.equals(exported.shares)


@pytest.mark.parametrize("kind", one_system("postgresql"))
def test_public_guesses_are_part_of_the_terms_and_are_not_paid_for_again(
    databases: Databases, kind: str, tmp_path: Path
) -> None:
    said = crowd()
    guessed = {item: label for labels in said.values() for item, label in labels.items()}
    guess = {"prior": [0.5, 0.5], "likelihood": [[0.9, 0.1], [0.1, 0.9]]}
    terms = {**TERMS, "model": {**TERMS["model"], "providers": {"public data": guess}}}
    (tmp_path / "guesses.csv").write_text(as_csv(guessed))
    guesses = read_public_upload(campaigns.checked_terms(terms), tmp_path / "guesses.csv", "guesses.csv")
    assert guesses["tasks"]["alone"] == [0, 1]
    totals = {}
    for name, terms_tried in (("without", terms), ("with", {**terms, "public": guesses})):
        url = databases.new(kind)
        with opened(url) as store:
            world = paid_world(store, tmp_path, terms_tried, said)
            client, ana = world.client(), world.headers("Ana")
            promised = client.get(world.base, headers=world.headers("Ann")).json()["public"]
            assert (promised or {}).get("rows") == (len(guessed) if name == "with" else None)
            folder = tmp_path / name
            folder.mkdir()
            for file, path in (("ledger.jsonl", "ledger"), (FILE_NAME, FILE_NAME)):
                (folder / file).write_bytes(client.get(f"{world.base}/{path}", headers=ana).content)
        databases.give_back(url)
        result: Any = troth.verify(folder / "ledger.jsonl")
        totals[name] = result.paid
        public = read_file(result.file, result.campaign).public
        assert (public is None) == (name == "without")
    assert totals["with"] < totals["without"]
    lines = [json.loads(line) for line in (tmp_path / "with" / "ledger.jsonl").read_text().splitlines()]
    assert lines[0]["terms"]["public"] == guesses
    other = dataclasses.replace(result.campaign.guesses, summaries=result.campaign.guesses.summaries[:, ::-1])
    with pytest.raises(troth.LedgerError, match="the file of shares has other public data than the terms"):
        check_tasks(dataclasses.replace(result.campaign, guesses=other), result.ledger, result.file)


@pytest.mark.parametrize("kind", one_system("postgresql"))
def test_receipts_and_proofs_bind_what_was_said_on_each_task(database: str, tmp_path: Path) -> None:
    with opened(database) as store:
        world = make_world(store, WORKERS, DRAWN)
        said, submissions = crowd(), {}
        for name, labels in said.items():
            submissions[name] = report(world, tmp_path, name, as_csv(labels))
        client = world.client()
        where = f"{world.base}/rounds/1"
        receipts = {
            name: client.get(f"{where}/submissions/{submissions[name]}", headers=world.headers(name)).json()["receipt"]
            for name in WORKERS
        }
        world.close()
        publish(world)
        for name, receipt in receipts.items():
            check_signature(receipt, RECEIPT)
            assert receipt["tasks"] == own_of(said[name]).digest
            assert receipt["rows"] == len(said[name])
            payments = client.get(f"{where}/payments", headers=world.headers(name)).json()
            assert len(check_paid_round(receipt, payments).passed) == 5
            other = next(worker for worker in WORKERS if worker != name)
            with pytest.raises(troth.TrothError, match="not among those"):
                check_paid_round({**receipt, "tasks": receipts[other]["tasks"]}, payments)
            terms = client.get(world.base, headers=world.headers(name)).json()["terms"]
            checked = check_paid_round(receipt, {**payments, "terms": terms})
            assert checked.withheld == []
            assert any("price times the sum of shares" in line for line in checked.passed)
            _check_other_cents(Campaign.from_dict(terms), payments["payments"][0])


def _check_other_cents(terms: Campaign, payment: dict[str, Any]) -> None:
    """Try a tenth of the price, another sum of shares, and two cents more or less than it makes."""
    tasks, share = payment["rows"], payment["share"]
    cap = tasks * Fraction("0.005")
    tenth = {"cap": f"{float(cap):.3f}"[:-1], "payment": f"{float(cap) * share:.3f}"[:-1]}
    wrong = {
        "cap": [tenth, {"cap": f"{tasks * 0.05 + 0.01:.2f}"}],
        "payment": [
            {"terms": {**payment["terms"], "shares": payment["terms"]["shares"] - 2}},
            *(
                {"payment": f"{float(payment['payment']) + more:.2f}", "share": share + more / (tasks * 0.05)}
                for more in (0.02, -0.02)
            ),
        ],
    }
    for field, changes in wrong.items():
        for change in changes:
            with pytest.raises(PaymentError) as raised:
                check_payment(terms, {**payment, **change})
            assert raised.value.field == field


def test_a_label_that_was_changed_in_the_database_is_not_paid(database: str, tmp_path: Path) -> None:
    said = crowd()
    with opened(database) as store:
        world = make_world(store, WORKERS, TERMS)
        submissions = {name: report(world, tmp_path, name, as_csv(labels)) for name, labels in said.items()}
        forged = own_of({item: {"cat": "dog", "dog": "cat"}[label] for item, label in said["Bo"].items()})
        with store.write() as tx:
            tx.execute(
                update(upload_tasks).where(upload_tasks.c.upload == submissions["Bo"]).values(content=forged.to_bytes())
            )
        world.close()
        assert world.round().state == "closed"
        assert "'Bo': the reports on tasks differ from the confirmed ones" in world.round().problem


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_the_analyst_sees_what_would_be_paid_and_pays_it_out(database: str, tmp_path: Path) -> None:
    with opened(database) as store:
        world = make_world(store, WORKERS, TERMS)
        for name, labels in crowd().items():
            report(world, tmp_path, name, as_csv(labels))
        would, verdict = settlement.dry_run(store, world.analyst, world.campaign, 1)
        assert verdict is not None
        assert verdict["model"] == "fits"
        world.close()
        client, ana = world.client(), world.headers("Ana")
        payments = client.get(f"{world.base}/rounds/1/payments", headers=ana).json()["payments"]
        assert {entry["provider"]: entry["payment"] for entry in payments} == {
            payment.provider: would.campaign.text(payment.payment) for payment in would.rounds[0].payments
        }
        batch = client.post(f"{world.base}/payouts", headers=ana).json()
        assert {entry["provider"]: entry["amount"] for entry in batch["payments"]} == {
            entry["provider"]: entry["payment"] for entry in payments
        }
        bonuses = client.get(f"{world.base}/payments.csv", headers=ana).text
        assert bonuses.splitlines()[0] == "provider,tasks,shares,pay_per_task,payment,reason"
        assert "Workers by pay per task" in client.get(f"{world.base}/report", headers=ana).text


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_a_round_whose_laws_do_not_fit_stops_before_money_moves(database: str, tmp_path: Path) -> None:
    """The terms say as many cats as dogs; nearly all labels are dogs, so that every cat had better be one."""
    rng = np.random.default_rng(1)
    with opened(database) as store:
        world = make_world(store, WORKERS, TERMS)
        for name in WORKERS:
            labels = {f"i{item:02}": ("dog", "cat")[int(rng.random() < 0.15)] for item in range(80)}
            report(world, tmp_path, name, as_csv(labels))
        world.close()
        assert "the model does not fit these reports" in world.round().problem
        assert world.round().state == "closed"
        with store.read() as tx:
            assert not load_ledger(tx, world.campaign).of("payment")
        settlement.close_round(store, world.analyst, world.campaign, 1, anyway=True)
        assert world.round().state == "paid"


@pytest.mark.parametrize("kind", one_system("postgresql"))
def test_a_worker_sees_its_pay_and_the_reasons_on_a_sample_of_its_own_items(database: str, tmp_path: Path) -> None:
    labels = crowd()
    with opened(database) as store:
        world = paid_world(store, tmp_path, TERMS, labels)
        client, where = world.client(), f"{world.base}/rounds/1/tasks"
        assert client.get(where, headers=world.headers("Ann")).status_code == 409
        publish(world)
        with store.read() as tx:
            ledger, file = load_ledger(tx, world.campaign), load_file(tx, world.campaign)
        answer = client.get(where, headers=world.headers("Ann")).json()
        assert answer == client.get(where, headers=world.headers("Ann")).json()
        assert client.get(where, headers=world.headers("Ana")).status_code == 403
        for path, user in (("payment", world.providers["Ann"]), (f"payments/{world.members['Ann']}", world.analyst)):
            with store.write() as tx:
                client.cookies.set(COOKIE, start_session(tx, user.account))
            page = client.get(f"/campaigns/{world.campaign}/rounds/1/{path}")
            assert page.status_code == 200, page.text
            assert re.search(r"<dt>Empty share</dt>\s*<dd>20%</dd>", page.text)
            assert answer["pay_per_task"] in page.text
    assert file is not None
    table = pq.read_table(pa.BufferReader(file)).to_pylist()
    mine = {row["task"]: row for row in table if row["provider"] == "Ann"}
    payment = next(entry for entry in ledger.of("payment") if entry["provider"] == "Ann")
    assert (answer["tasks"], answer["payment"]) == (len(labels["Ann"]), payment["payment"])
    assert float(answer["pay_per_task"]) == pytest.approx(float(payment["payment"]) / len(mine), abs=1e-6)
    lonely = [row["share"] for row in mine.values() if row["peers"] == 0]
    assert (answer["without_peers"], answer["empty_share"]) == (len(lonely), 0.2)
    assert float(answer["paid_without_peers"]) == int(5 * fsum(lonely)) / 100
    sample = answer["sample"]
    assert len(sample) == 20
    shares = sorted((row["share"] for row in mine.values()), reverse=True)
    got = [mine[entry["task"]]["share"] for entry in sample]
    assert (got[:7], got[-7:]) == (shares[:7], shares[-7:])
    for each in sample:
        assert each["answer"] == labels["Ann"][each["task"]]
        assert each["share"] == round(mine[each["task"]]["share"], 2)
        assert ("nobody else worked on it" in each["reason"]) == (mine[each["task"]]["peers"] == 0)


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_nothing_that_a_worker_sees_depends_on_who_the_others_are(
    databases: Databases, kind: str, tmp_path: Path
) -> None:
    """Others with other names, one more of them, other labels on items that it did not work on: all looks the same."""
    pages: list[dict[str, str]] = []
    said = crowd()
    foreign = {item for labels in said.values() for item in labels} - said["Ann"].keys()
    assert foreign
    for names in [WORKERS, ("Ann", "Yo", "Ulf", "Zed", "Gus")]:
        url = databases.new(kind)
        with opened(url) as store:
            world = make_world(store, names, TERMS)
            for name, labels in zip(names, [*said.values(), dict.fromkeys(foreign, "cat")], strict=False):
                flip = {"cat": "dog", "dog": "cat"} if names != WORKERS else {"cat": "cat", "dog": "dog"}
                changed = {item: label if item in said["Ann"] else flip[label] for item, label in labels.items()}
                report(world, tmp_path, name, as_csv(changed))
            looks: dict[str, str] = {}
            text = ""
            for phase in ("open", "paid", "published"):
                if phase == "paid":
                    world.close()
                if phase == "published":
                    publish(world)
                for what, path in {"tasks": "tasks", "payments": "payments", "why": "/payment", "round": ""}.items():
                    raw, looks[f"{phase}: {what}"] = look(world, path)
                    text += raw
            pages.append(looks)
            assert not [name for name in names[1:] if re.search(rf"\b{name}\b", text)]
            assert not [item for item in foreign if item in text]
            assert "not published yet" in looks["open: tasks"]
            assert "not published yet" in looks["paid: tasks"]
        databases.give_back(url)
    for what, page in pages[0].items():
        assert page == pages[1][what], what


OWN = re.compile(
    r"sha256:[0-9a-f]{64}|\b[0-9a-f]{16,64}\b|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( UTC|Z)?|(?<![\w-])[\w-]{43,}(?![\w-])"
)


def look(world: World, path: str) -> tuple[str, str]:
    """Return what Ann gets to see, and the same without times, what is random, and the sample, which is drawn by lot.

    With it come the statements that Ann waits for.
    """
    with world.store.write() as tx:
        session = start_session(tx, world.providers["Ann"].account)
    with statements_of(world) as statements:
        raw, shown = _look(world, path, session)
    return raw, f"{OWN.sub('<own>', shown)} {statements}"


def _look(world: World, path: str, session: str) -> tuple[str, str]:
    client = world.client()
    if path and not path.startswith("/"):
        answer = client.get(f"{world.base}/rounds/1/{path}", headers=world.headers("Ann"))
        plain = {key: value for key, value in answer.json().items() if key not in ("sample", "proof", "payment_hashes")}
        if plain.get("line"):  # tells how many others there are, as the proof does, and no more
            plain["line"] = re.sub(r'"reports":\d+', "", plain["line"]["text"])
        shown = json.dumps(plain)
    else:
        client.cookies.set(COOKIE, session)
        answer = client.get(f"/campaigns/{world.campaign}/rounds/1{path}", follow_redirects=False)
        shown = re.sub(r'<tbody id="sample">.*?</tbody>', "", answer.text, flags=re.DOTALL)
    return answer.text, f"{answer.status_code} {shown}"


REFUSED = [
    ("item,label\na,cat\nb,dog\n a,dog\n", "task 'a' occurs 2 times (column 'item', rows 1, 3); keep one row"),
    (
        "item,label\na,cat\nb,bird\n",
        "'label': 1 value not among the categories 'cat', 'dog' (first: row 2 of labels.csv",
    ),
    ("item,label\na,\n", "'label': 1 value empty or marked as missing"),
    ("item,label\n,cat\n", "row 1: column 'item': the name of the task is missing; add it"),
    ("item,label,label\na,cat,dog\n", "there are 2 columns named 'label'; keep one"),
    ("item,item,label\na,b,cat\n", "there are 2 columns named 'item'; keep one"),
    ("item,answer\na,cat\n", "there is no column 'label'; there are 'item', 'answer'"),
    ("item,label,worker\na,cat,Ann\nb,cat,Bo\n", "has rows of 2 providers"),
    ("item,label,worker\na,cat,Bo\n", "row 1 belongs to provider 'Bo', not 'Ann'; send only your own rows"),
    (f"item,label\n{'x' * 201},cat\n", "is 201 characters long; use at most 200 printable characters"),
    ("item,label\n" + "".join(f"i{k},cat\n" for k in range(81)), "more than the 80 rows that [limits] tasks allows"),
    ("item,label\n", "has no rows"),
]


def test_files_that_are_no_reports_on_tasks_are_refused_with_row_and_remedy(
    databases: Databases, tmp_path: Path
) -> None:
    url = databases.new("sqlite")
    with opened(url) as store:
        world = make_world(store, WORKERS, TERMS)
        for content, message in REFUSED:
            with pytest.raises(UploadError, match=re.escape(message)):
                read(world, tmp_path, "Ann", content)
        with pytest.raises(UploadError, match="statistics have no tasks"):
            read(world, tmp_path, "Ann", json.dumps({"kind": "troth summary"}), "labels.json")
        numbers = pa.table({"item": [3, 1, 2], "label": pa.array(["cat", "dog", "cat"]).dictionary_encode()})
        pq.write_table(numbers, tmp_path / "n.parquet")
        upload = read(world, tmp_path, "Ann", (tmp_path / "n.parquet").read_bytes(), "n.parquet")
        assert OwnTasks.from_bytes(upload.report.content).names == ("1", "2", "3")
        assert (upload.report.rows, upload.report.summary.tolist()) == (3, [2.0, 1.0])
    databases.give_back(url)


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("campaign", {"name": "pets", "price": "0.05"}, "[campaign] budget: is missing"),
        ("campaign", {"name": "pets", "budget": "20.00"}, "[campaign] price: is missing"),
        ("limits", {}, "[limits] tasks: is missing; set how many tasks one worker may report"),
        ("limits", {"tasks": 10**8}, "[limits] tasks: is 100,000,000; set"),
        ("data", {**TERMS["data"], "public": "g.csv"}, "the service cannot read your files"),
        ("public", {"tasks": {}}, "[public] tasks: must have a list of numbers under the name of each task"),
        ("public", {"tasks": {"i1\x07": [1, 0]}}, "[public] tasks: must have a list of numbers under the name of each"),
        ("public", {"tasks": {"i1": [1, 0, 0]}}, "[public] tasks: each summary has 3 numbers; Finite needs 2"),
        ("public", {"tasks": {"i1": [1, 0], "i2": [0.5, 0]}}, "[public] tasks: task 'i2': "),
    ],
)
def test_terms_whose_cost_nobody_could_foresee_are_refused(part: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidError, match=re.escape(message)):
        campaigns.checked_terms({**TERMS, part: change})


def test_the_form_makes_a_campaign_of_tasks_and_previews_it() -> None:
    typed = {"name": "pets", "budget": "20.00", "columns": "label", "task": "item", "price": "0.05", "tasks": "80"}
    terms = campaigns.checked_terms(terms_form.terms_of({**terms_form.blank("Finite"), **typed}))
    assert (terms.task, terms.max_tasks, terms.rule.needs_seed) == ("item", 80, False)
    drawn = terms_form.terms_of({**terms_form.blank("Finite"), **typed, "option_decoys": "50"})
    assert campaigns.checked_terms(drawn).rule.needs_seed
    with pytest.raises(InvalidError) as refused:
        campaigns.checked_terms(terms_form.terms_of({**terms_form.blank("Finite"), **typed, "tasks": ""}))
    assert terms_form.field_of(refused.value, terms_form.blank()) == "tasks"
    preview = make_preview(dict(terms.plain), 5, 50)
    assert {claim["name"]: claim["verdict"] for claim in preview["proofs"]}["wrong labels cost"] == "proved"
    assert {finding["lie"] for finding in preview["lies"]["findings"] if finding["verdict"] == "gains"} == set()
    assert "answer at random" in {finding["lie"] for finding in preview["lies"]["findings"]}


def test_a_round_that_could_cost_more_than_its_budget_is_not_opened(databases: Databases) -> None:
    url = databases.new("sqlite")
    terms = {**TERMS, "campaign": {**TERMS["campaign"], "budget": "15.99"}}
    with opened(url) as store:
        world = make_world(store, WORKERS, terms, opened=False)
        with pytest.raises(InvalidError, match=re.escape("4 providers with 80 tasks each may earn 16.00 EUR, more")):
            world.open()
    databases.give_back(url)


def test_several_rows_for_a_task_where_the_terms_allow_them(databases: Databases, tmp_path: Path) -> None:
    """Days settled together: each is a task."""
    terms = {
        "campaign": {"name": "days", "budget": "100.00", "price": "2.50"},
        "model": {"family": "Bernoulli", "columns": ["improved"], "prior": {"alpha": 1, "beta": 1}},
        "data": {"task": "date"},
        "limits": {"tasks": 10, "rows": 3},
    }
    rng, url = np.random.default_rng(1), databases.new("sqlite")
    labels = {name: rng.integers(2, size=(6, 3)) for name in WORKERS}
    with opened(url) as store:
        world = make_world(store, WORKERS, terms)
        for name, values in labels.items():
            rows = [f"d{day},{x}" for day, several in enumerate(values.tolist()) for x in several]
            with pytest.raises(UploadError, match="has 4 rows .* allows 3 for each task"):
                read(world, tmp_path, name, "\n".join(["date,improved", *rows, "d0,1"]))
            report(world, tmp_path, name, "\n".join(["date,improved", *rows]))
        world.close()
        with store.read() as tx:
            ledger, file = load_ledger(tx, world.campaign), load_file(tx, world.campaign)
    result: Any = troth.verify(ledger, file=file)
    assert [payment.rows for payment in result.payments] == [6] * 4
    assert 0 < result.paid <= 100_00
    reports = read_file(result.file, result.campaign).reports
    own = {
        name: OwnTasks(tuple(f"d{d}" for d in range(6)), np.stack([3 - v.sum(1), v.sum(1)], 1))
        for name, v in labels.items()
    }
    assert np.array_equal(reports.summaries, join_tasks(own).summaries)
    databases.give_back(url)


def answered(monkeypatch: pytest.MonkeyPatch, folder: Path, terms: dict[str, Any], answer: Any) -> Any:
    """Read a file as if the child that reads it had been taken over, and had answered this."""
    monkeypatch.setattr(uploads.SANDBOX, "run", lambda *_, **__: answer)
    (folder / "rows.csv").write_text("item,label\n1,cat\n2,dog\n")
    return read_upload(Campaign.from_dict(terms), folder / "rows.csv", "rows.csv", "Ann", None)


ANSWER: dict[str, Any] = {"preview": [["label"], ["cat"]], "columns": [], "bytes": 30}


@pytest.mark.parametrize(
    "change",
    [
        *({"tasks": names} for names in (["1", "2.0"], ["1", " 2"], ["2", "1"], ["1", "1"], ["1", "2\n"], ["1", 2])),
        *({"tasks": names} for names in (["1"], [], ["1", "x" * 201], None)),
        *({"summaries": sums} for sums in ([[1, 0]], [[1, 0], [0, 2]], [[1, 0], [0, True]], [[1, 0], [0, "1"]], None)),
        *({"summaries": sums} for sums in ([[1, 0], [0, float("inf")]], [[1, 0], [-1, 2]], [[1, 0], [0.5, 0.5]])),
        {"summaries": [[1, 0, 0], [0, 1, 0]]},
        *({"dropped": count} for count in (-1, True, "4", 10**13)),
        {"preview": None},
        {"columns": [{"name": "label", "labels": [["mouse", 1]]}]},
    ],
    ids=str,
)
def test_reports_on_tasks_are_checked_again_whatever_a_child_answers(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {**ANSWER, "tasks": ["1", "2"], "summaries": [[1, 0], [0, 1]]}
    assert answered(monkeypatch, tmp_path, TERMS, answer).report.rows == 2
    with pytest.raises(UploadError) as refused:
        answered(monkeypatch, tmp_path, TERMS, {**answer, **change})
    assert refused.value.status == 422


@pytest.mark.parametrize(
    "change",
    [
        *({"summary": sums} for sums in ([3], [3, 1, 0], [3, True], [3, "1"], [3, float("nan")], [-1, 4], [2.5, 1.5])),
        {"summary": None},
        *({key: count} for key in ("dropped", "unnamed") for count in (-1, 4.0, 10**13)),
        {"preview": None},
        {"columns": [{"name": "label", "minimum": float("inf")}]},
    ],
    ids=str,
)
def test_sums_are_checked_again_whatever_a_child_answers(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = {key: table for key, table in TERMS.items() if key != "limits"}
    terms = {**terms, "campaign": {"name": "pets", "budget": "20.00"}, "data": {"provider": "worker"}}
    answer = {**ANSWER, "summary": [3, 1]}
    assert answered(monkeypatch, tmp_path, terms, answer).report.rows == 4
    with pytest.raises(UploadError) as refused:
        answered(monkeypatch, tmp_path, terms, {**answer, **change})
    assert refused.value.status == 422
