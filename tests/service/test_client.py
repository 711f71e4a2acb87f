"""The whole story by command line, against a service that runs: nobody opens a browser."""

from __future__ import annotations

import http.server
import inspect
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import typer

from troth.cli import app, main, service_rounds
from troth.cli.service_connection import find_round
from troth.cli.service_rounds import rounds
from troth.client import Client, RefusedError, UnreachableError
from troth.client.http import Body, address
from troth.core.errors import DataError
from troth.operations import OPERATIONS, names_in

pytestmark = pytest.mark.xdist_group("client")  # one service
PASSWORD = "three plain words"
CAMPAIGN = """
[campaign]
name = "clinics"
budget = "1000.00"
currency = "EUR"

[model]
family = "Bernoulli"
columns = ["improved"]
prior = { alpha = 1, beta = 1 }
"""


class Person(NamedTuple):
    """Somebody with a home of their own."""

    home: Path

    def run(self, *words: str | Path, say: str = "", code: int = 0, **environment: str) -> str:
        """Run a command and return what it prints; what it says beside that must be on the other stream."""
        done = self.done(*words, say=say, **environment)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def done(self, *words: str | Path, say: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command here, as a process would run it, which takes a second less."""
        arguments = [str(word) for word in words]
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            for key, value in self._environment(environment).items():
                patch.setenv(key, value)
            patch.setattr(sys, "argv", ["troth", *arguments])
            patch.setattr(sys, "stdin", io.StringIO(say))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            try:
                main()
                code: Any = 0
            except SystemExit as end:
                code = end.code
        return subprocess.CompletedProcess(arguments, int(code or 0), out.getvalue(), err.getvalue())

    def apart(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command in a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "troth.cli", *map(str, words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, **self._environment({})},
        )

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        nothing = dict.fromkeys(("TROTH_SERVER", "TROTH_TOKEN", "TROTH_INSECURE"), "")
        return {**nothing, "XDG_CONFIG_HOME": str(self.home), "COLUMNS": "200", **more}

    def json(self, *words: str | Path, **options: Any) -> Any:
        return json.loads(self.run(*words, "--json", **options))


class Running(NamedTuple):
    """A service that runs, and the link that it printed."""

    url: str
    link: str
    process: subprocess.Popen[str]


@contextmanager
def serving(database: Path, port: int) -> Iterator[Running]:
    command = [
        sys.executable,
        "-m",
        "troth.cli",
        "serve",
        "--database",
        str(database),
        "--port",
        str(port),
        "--upload",
        "1",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        lines = [process.stdout.readline(), process.stdout.readline()]
        link = re.search("http://\\S+/enter/\\S+", lines[1])
        assert link is not None, lines
        drain = threading.Thread(target=process.stderr.read, daemon=True)
        drain.start()
        url = f"http://127.0.0.1:{port}"
        _wait(url)
        yield Running(url, link[0], process)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)
        drain.join()
        process.stdout.close()
        process.stderr.close()


def _wait(url: str) -> None:
    deadline = time.monotonic() + 40
    while True:
        try:
            Client(url).health()
        except UnreachableError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("service") / "troth.db", _free_port()) as running:
        yield running


@pytest.fixture(scope="module")
def analyst(service: Running, tmp_path_factory: pytest.TempPathFactory) -> Person:
    person = Person(tmp_path_factory.mktemp("analyst"))
    assert "signed in" in person.run("join", service.link, "--password-stdin", say=PASSWORD + "\n")
    return person


def _rows(path: Path, ones: int, zeros: int) -> Path:
    path.write_text("improved\n" + "1\n" * ones + "0\n" * zeros)
    return path


def test_public_data_are_sent_as_sums(analyst: Person, tmp_path: Path) -> None:
    text = CAMPAIGN.replace("clinics", "known") + '[data]\npublic = "register.csv"\n'
    (tmp_path / "campaign.toml").write_text(text)
    _rows(tmp_path / "register.csv", 30, 10)
    answer = analyst.json("create", tmp_path / "campaign.toml")
    assert answer["terms"]["public"]["summary"] == [10, 30]
    assert "public" not in answer["terms"]["data"]
    assert answer["public"] == {"source": "register.csv", "rows": 40, "digest": answer["terms"]["public"]["digest"]}


def test_the_whole_story(service: Running, analyst: Person, tmp_path: Path) -> None:
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    campaign = analyst.run("create", tmp_path / "campaign.toml").strip()
    assert re.fullmatch("[0-9a-f]{16}", campaign)
    people = {}
    for name in ("Ash", "Birch", "Elm"):
        link = analyst.run("invite", "clinics", name, "--identity", f"{name}, contract 7").strip()
        if name == "Elm":  # the first link is lost, and ends with the second
            lost, link = link, analyst.run("invite", "clinics", name).strip()
            assert "ask for a new one" in Person(tmp_path / "x").run(
                "join", lost, "--password-stdin", say=PASSWORD, code=1
            )
        people[name] = Person(tmp_path / name)
        assert people[name].json("join", link, "--password-stdin", say=PASSWORD)["name"] == name
    assert [provider["joined"] is not None for provider in analyst.json("providers", campaign)] == [True] * 3
    assert "no round is open" in people["Ash"].run("submit", campaign, _rows(tmp_path / "a.csv", 6, 3), "--yes", code=1)
    assert "round 1: open" in analyst.run("round", "open", campaign)

    large = tmp_path / "large.csv"
    large.write_bytes(b"improved\n" + b"1\n" * (4 << 20))
    assert "the file has more than 1,048,576 bytes" in people["Ash"].run("submit", campaign, large, "--yes", code=1)
    with pytest.MonkeyPatch.context() as patch:  # as if the file had changed on its way
        other = sha256(b"other bytes")
        patch.setattr("troth.client.submission.file_digest", lambda *_: other)
        assert "different bytes" in people["Ash"].run("submit", campaign, tmp_path / "a.csv", "--yes", code=1)
    assert people["Ash"].json("round", "show", campaign, "1")["submission"] is None

    signed = tmp_path / "ash.receipt.json"
    ash = people["Ash"].apart("submit", "clinics", tmp_path / "a.csv", "--yes", "--json", "--receipt", signed)
    receipt = json.loads(ash.stdout)
    assert receipt["sha256"] == sha256((tmp_path / "a.csv").read_bytes()).hexdigest()
    assert (receipt["rows"], receipt["provider"]) == (9, "Ash")
    assert receipt["confirmed"] is not None
    assert "a.csv: 9 rows" in ash.stderr
    assert "improved: from 0 to 1" in ash.stderr

    birch = people["Birch"].json("submit", "clinics", _rows(tmp_path / "b.csv", 20, 11), "--yes", "--statistics")
    assert birch["file"] == "b.statistics.json"
    assert birch["data_digest"] == "sha256:" + sha256((tmp_path / "b.csv").read_bytes()).hexdigest()
    assert birch["summary"] == [11.0, 20.0]

    elm = people["Elm"]
    elm.run("submit", campaign, _rows(tmp_path / "c.csv", 1, 9), "--yes")
    refused = elm.run("submit", campaign, _rows(tmp_path / "c.csv", 9, 5), "--yes", code=1)
    assert "pass --replace" in refused
    assert "receipt" in elm.run("submit", campaign, tmp_path / "c.csv", "--yes", "--replace")
    assert [report["rows"] for report in _reports(service, analyst, campaign)] == [9, 31, 14]

    closed = analyst.json("round", "close", campaign)
    assert (closed["state"], closed["reports"]) == ("paid", 3)
    assert "no round is published yet" in people["Ash"].run("payments", campaign, code=1)
    assert "published" in analyst.run("round", "publish", campaign)
    everybody = analyst.json("payments", campaign)["payments"]
    mine = people["Ash"].json("payments", campaign)["payments"]
    assert [payment["provider"] for payment in everybody] == ["Ash", "Birch", "Elm"]
    assert [(payment["id"], payment["payment"]) for payment in mine] == [(everybody[0]["id"], everybody[0]["payment"])]
    file = tmp_path / "ash.payments.json"
    file.write_text(people["Ash"].run("payments", campaign, "--json"))
    assert "one of the 3" in people["Ash"].run("verify-receipt", signed, "--payments", file)
    first = analyst.json("payouts", campaign, tmp_path / "payouts")["written"]
    assert [Path(path).suffix for path in first] == [".json", ".csv"]
    assert analyst.json("payouts", campaign, tmp_path / "payouts")["written"] == []
    about = ("round", "show", campaign), ("export", campaign, tmp_path / "exported")
    shown_heads: list[tuple[Person, tuple[str | Path, ...]]] = [
        (people["Ash"], words) for words in (("payments", campaign), ("why", campaign), *about)
    ]
    shown_heads += [(analyst, words) for words in (("campaigns",), ("payouts", campaign, tmp_path / "payouts"), *about)]
    for person, words in shown_heads:
        noted = person.home / "troth" / "heads.json"
        assert "warning" not in person.done(*words).stderr
        heads = noted.read_text()
        tampered = {place: {**head, "root": "00" * 32} for place, head in json.loads(heads).items()}
        noted.write_text(json.dumps(tampered))
        assert "changed or cut off" in person.done(*words).stderr, words
        noted.write_text(heads)
    why = people["Ash"].run("why", campaign)
    assert f"paid {mine[0]['payment']} EUR" in why
    assert "share × cap, rounded down" in why
    assert "Birch: 31 rows" in analyst.run("why", campaign, "--provider", "Birch")
    assert "Ash" not in analyst.run("why", campaign, "--provider", "Birch")

    folder = tmp_path / "out"
    files = analyst.json("export", campaign, folder)
    assert sorted(files) == ["campaign.toml", "ledger.jsonl", "payments.csv", "report.html"]
    assert ": valid. " in analyst.run("verify", folder / "ledger.jsonl", "--head", closed["head"])
    own = analyst.json("statistics", folder / "campaign.toml", tmp_path / "b.csv", "--provider", "Birch")
    assert own["summary"] == [11.0, 20.0]
    assert "Elm" in (folder / "payments.csv").read_text()
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}  # everybody's statistics are in it
    output = elm.done("export", campaign, tmp_path / "elm")
    assert "does not share" in output.stderr
    assert [path.name for path in (tmp_path / "elm").iterdir()] == ["campaign.toml"]
    assert "Ash" not in (tmp_path / "elm" / "campaign.toml").read_text()


def test_rows_that_are_left_out_are_said_to_everybody(analyst: Person, tmp_path: Path) -> None:
    terms = CAMPAIGN.replace("clinics", "gaps") + '[data]\nmissing = "drop"\n'
    (tmp_path / "campaign.toml").write_text(terms)
    campaign = analyst.run("create", tmp_path / "campaign.toml").strip()
    people = {name: Person(tmp_path / name) for name in ("Quince", "Sorrel", "Thorn")}
    for name, person in people.items():
        link = analyst.run("invite", campaign, name, "--identity", "contract 9").strip()
        person.run("join", link, "--password-stdin", say=PASSWORD)
    analyst.run("round", "open", campaign)
    for name in ("Quince", "Thorn"):
        with _rows(tmp_path / f"{name}.csv", 30, 28).open("a") as file:
            file.write("NA\nn/a\n?\nNA\n")
    said = "4 rows without a value are left out"
    sent = people["Thorn"].done("submit", campaign, tmp_path / "Thorn.csv", "--yes")
    assert "Thorn.csv: 58 rows" in sent.stderr
    assert f"\n  {said}\n" in sent.stderr
    assert re.search(f"^  note +{said}$", sent.stdout, re.MULTILINE)
    own = people["Quince"].done("submit", campaign, tmp_path / "Quince.csv", "--yes", "--statistics")
    assert f"\n  {said}\n" in own.stderr
    none = people["Sorrel"].done("submit", campaign, _rows(tmp_path / "Sorrel.csv", 29, 29), "--yes")
    assert "left out" not in none.stdout + none.stderr
    assert "8 rows without a value are left out: Quince 4, Thorn 4\n" in analyst.run("round", "close", campaign)
    analyst.run("export", campaign, tmp_path / "out")
    ledger = [json.loads(line) for line in (tmp_path / "out" / "ledger.jsonl").read_text().splitlines()]
    assert [entry.get("dropped") for entry in ledger if entry["entry"] == "report"] == [4, None, 4]
    made = analyst.done("statistics", tmp_path / "campaign.toml", tmp_path / "Quince.csv")
    assert f"note: {said}\n" in made.stderr


def test_tasks_from_a_shell(analyst: Person, tmp_path: Path) -> None:
    terms = CAMPAIGN.replace("clinics", "pets").replace('"1000.00"', '"4.00"\nprice = "0.10"')
    terms = terms.replace('"Bernoulli"', '"Finite"').replace(
        '["improved"]', '["label"]\nlikelihood = [[0.8, 0.2], [0.2, 0.8]]'
    )
    terms = (
        terms.replace("{ alpha = 1, beta = 1 }", "[0.5, 0.5]")
        + '[data]\ntask = "item"\nprovider = "worker"\n[limits]\ntasks = 20\n'
    )
    (tmp_path / "campaign.toml").write_text(terms)
    campaign = analyst.run("create", tmp_path / "campaign.toml").strip()
    people, files = {name: Person(tmp_path / name) for name in ("Ivy", "Kit")}, {}
    for place, (name, person) in enumerate(people.items()):
        link = analyst.run("invite", campaign, name, "--identity", "contract 9").strip()
        person.run("join", link, "--password-stdin", say=PASSWORD)
        files[name] = tmp_path / f"{name}.csv"
        files[name].write_text("item,label\n" + "".join(f"p{i},{(i * i + i // 7 * place) % 2}\n" for i in range(20)))
    analyst.run("round", "open", campaign)
    assert "does not work for campaigns of tasks" in people["Ivy"].run(
        "submit", campaign, files["Ivy"], "--statistics", "--yes", code=1
    )
    (tmp_path / "twice.csv").write_text("item,label\np1,0\np1,0\n")
    assert "rows 1, 2); keep one row" in people["Ivy"].run("submit", campaign, tmp_path / "twice.csv", "--yes", code=1)
    for name, person in people.items():
        sent = person.json("submit", campaign, files[name], "--yes", "--receipt", tmp_path / f"{name}.json")
        assert sent["rows"] == 20
    assert "fits (p = " in analyst.run("round", "close", campaign)
    assert "no round is published yet" in people["Kit"].run("why", campaign, code=1)
    analyst.run("round", "publish", campaign)
    why = people["Kit"].run("why", campaign)
    assert "sum of shares × price, rounded down once" in why
    assert len(re.findall(r"^  p\d+ +[01] +\d+% +your answer", why, re.MULTILINE)) == 20
    assert "Kit: 20 tasks, paid" in why
    assert "Ivy" not in why
    (tmp_path / "paid.json").write_text(people["Kit"].run("payments", campaign, "--json"))
    checked = people["Kit"].run("verify-receipt", tmp_path / "Kit.json", "--payments", tmp_path / "paid.json")
    assert "one of the 2" in checked
    written = analyst.json("export", campaign, tmp_path / "out")
    assert "ledger.tasks.parquet" in written
    assert ": valid. " in analyst.run("verify", tmp_path / "out" / "ledger.jsonl")


def test_a_name_that_is_the_role_is_said_once(service: Running, tmp_path: Path) -> None:
    words = ("login", service.url, "--name", "analyst", "--password-stdin")
    assert "as analyst; the token" in Person(tmp_path).run(*words, say=PASSWORD + "\n")


def test_a_campaign_of_init_is_created_and_stopped_as_pay_would(analyst: Person, tmp_path: Path) -> None:
    path = Path(analyst.json("init", tmp_path / "odd", "--family", "Bernoulli")["campaign"])
    path.write_text(
        path.read_text().replace("Example: did the patient improve?", "odd one").replace('"1000', '"100000')
    )
    created = analyst.done("create", path)
    assert "commitment is left out: the service makes its own secret" in created.stderr
    campaign = created.stdout.strip()
    people = {name: Person(tmp_path / name) for name in ("Alder", "Beech", "Cedar", "Larch", "Maple")}
    for name, person in people.items():
        link = analyst.run("invite", campaign, name, "--identity", "contract 7").strip()
        person.run("join", link, "--password-stdin", say=PASSWORD)
    analyst.run("round", "open", campaign)
    for ones, (name, person) in zip((30, 28, 31, 29, 1), people.items(), strict=True):
        person.run("submit", campaign, _rows(tmp_path / f"{name}.csv", ones, 40 - ones), "--yes")
    dry = analyst.done("round", "close", "odd one", "--dry-run")
    assert dry.returncode == 3
    assert re.search(r"would pay \d\d,\d{3}\.\d\d EUR to 5 providers\n", dry.stdout)
    assert "\nthe amounts paid will differ a little: the rule draws" in dry.stdout
    assert re.search(r"does not fit \(p = 0\.00\d+\): ", dry.stdout)
    assert "on average over providers  send a tenth: " in dry.stdout
    assert "this was a dry run" in dry.stderr
    assert "troth round close 'odd one' 1 --anyway pays regardless" in dry.stderr
    assert analyst.done("round", "close", campaign, "--dry-run", "--anyway").returncode == 0
    stopped = analyst.done("round", "close", campaign)
    assert stopped.returncode == 3
    assert "nothing was paid" in stopped.stderr
    assert "troth round set-aside" in stopped.stderr
    assert f"troth round close {campaign} 1 --anyway pays regardless" in stopped.stderr
    assert "round 1: paid" in analyst.run("round", "close", campaign, "--anyway")
    assert re.search(r"Alder +40 .* \d,\d{3}\.\d\d\n", analyst.run("payments", campaign))


class Batches:
    """A service with batches of payouts, each a list of identifiers."""

    def __init__(self, *batches: str) -> None:
        self.batches = batches

    def export_payouts(self, _campaign: str) -> None:
        raise RefusedError(409, "every payment is already in a batch")

    def list_payouts(self, _campaign: str) -> Any:
        return {"payouts": [{"batch": number} for number in range(1, 1 + len(self.batches))]}

    def show_payouts(self, _campaign: str, batch: int) -> Any:
        return {"batch": batch, "payments": [{"id": identifier} for identifier in self.batches[batch - 1]]}

    def payouts_file(self, _campaign: str, batch: int) -> bytes:
        return "\n".join(["id", *self.batches[batch - 1]]).encode()


def test_a_service_that_was_set_back_pays_nobody_out_twice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its next batch has payments that are in a file already, or has the number of another one."""

    def export(*batches: str) -> list[str]:
        monkeypatch.setattr(service_rounds, "find_campaign", lambda *_: (Batches(*batches), {"id": "c"}))
        service_rounds.payouts("c", tmp_path)
        return sorted(path.name for path in tmp_path.iterdir())

    assert len(export("ab")) == 2
    assert (
        export("ab", "cd")
        == export("ab", "cd")
        == [f"payouts-c-000{n}.{end}" for n in (1, 2) for end in ("csv", "json")]
    )
    assert (tmp_path / "payouts-c-0002.json").stat().st_mode & 0o777 == 0o600
    for batches, why in ((("ab", "cde"), "differ from batch 2"), (("ab", "e", "cd"), "2 of the service")):
        with pytest.raises(DataError, match=why):
            export(*batches)
    (tmp_path / "payouts-c-0001.json").rename(tmp_path / "payouts-c-0003.json")
    with pytest.raises(DataError, match="payment a of batch 1 is already in .*0003.json"):
        export("ab")
    for content in ("{}", '{"payments": 1}', '{"payments": [{}]}', "[", ""):
        (tmp_path / "payouts-c-0002.json").write_text(content)
        with pytest.raises(DataError, match="payouts-c-0002.json: this is not a"):
            export("ab")


def test_a_campaign_whose_last_day_is_not_paid_does_not_finish_well(monkeypatch: pytest.MonkeyPatch) -> None:
    last: dict[str, Any] = {"number": 2, "problem": "Ash alone has reported", "verdict": None}
    ended = {"id": "c", "name": "days", "state": "running", "paid": "10.00", "currency": "EUR"}
    service = SimpleNamespace(finish_campaign=lambda _: ended, list_rounds=lambda _: [{"problem": None}, last])
    monkeypatch.setattr(service_rounds, "find_campaign", lambda *_: (service, {"id": "c"}))
    with pytest.raises(DataError, match="round 2 is closed and could not be paid: Ash alone has reported"):
        service_rounds.finish("c")
    last["verdict"] = {"stops": True, "remedy": "look at the report of Ash"}
    with pytest.raises(typer.Exit) as stopped:
        service_rounds.finish("c")
    assert stopped.value.exit_code == 3
    last["problem"] = None
    service_rounds.finish("c")


def test_a_file_that_grows_while_it_is_sent_is_sent_as_it_was(tmp_path: Path) -> None:
    """Its length was announced before; more bytes would belong to the next request."""
    told: list[tuple[int, int]] = []
    path = tmp_path / "rows.csv"
    path.write_bytes(b"1\n" * 50_000)
    blocks = Body(path, "text/csv", lambda sent, total: told.append((sent, total))).blocks()
    first = next(blocks)
    with path.open("ab") as file:
        file.write(b"0\n" * 50_000)
    assert first + b"".join(blocks) == b"1\n" * 50_000
    assert told == [(len(first), 100_000), (100_000, 100_000)]


def test_tokens_that_others_can_read_are_reported(service: Running, analyst: Person) -> None:
    path = analyst.home / "troth" / "credentials.json"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    output = analyst.done("campaigns")
    path.chmod(0o600)
    assert f"other users can read {path}" in output.stderr
    assert "users can read" not in analyst.done("campaigns").stderr


def _token(service: Running, person: Person) -> str:
    credentials = json.loads((person.home / "troth" / "credentials.json").read_text())
    return str(credentials["servers"][service.url]["token"])


def _reports(service: Running, analyst: Person, campaign: str) -> Any:
    return Client(service.url, _token(service, analyst)).list_reports(campaign, 1)


def test_the_example_in_the_documentation_runs(
    service: Running, analyst: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "campaign.toml").write_text(CAMPAIGN.replace("clinics", "by a program"))
    campaign = analyst.run("create", tmp_path / "campaign.toml").strip()
    people = {name: Person(tmp_path / name) for name in ("Hazel", "Rowan")}
    for name, person in people.items():
        link = analyst.run("invite", campaign, name, "--identity", "contract 8").strip()
        person.run("join", link, "--password-stdin", say=PASSWORD)
    analyst.run("round", "open", campaign)
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text("utf-8")
    example = re.search(r"^    from pathlib import Path\n(?:(?:    .*)?\n)+", page, re.MULTILINE)
    assert example is not None
    code = textwrap.dedent(example[0])
    assert "https://troth.example.org" in code
    _rows(tmp_path / "may.csv", 6, 3)
    monkeypatch.chdir(tmp_path)
    names = {"token": _token(service, people["Hazel"]), "campaign": campaign}
    exec(code.replace("https://troth.example.org", service.url), names)
    receipt: Any = names["receipt"]
    assert (receipt["provider"], receipt["rows"]) == ("Hazel", 9)
    assert receipt["confirmed"] is not None


def test_days_close_one_after_the_other(analyst: Person, service: Running, tmp_path: Path) -> None:
    text = CAMPAIGN.replace("clinics", "days").replace('"EUR"', '"EUR"\nbudget_per = "day"')
    (tmp_path / "days.toml").write_text(text + '\n[mechanism]\nrule = "MultiDay"\n\n[data]\nday = "day"\n')
    campaign = analyst.run("create", tmp_path / "days.toml", "--publish-at-once").strip()
    names = ("Oak", "Pine")
    people = {}
    for name in names:
        link = analyst.run("invite", campaign, name, "--identity", "known").strip()
        people[name] = Person(tmp_path / name)
        people[name].run("join", link, "--password-stdin", say=PASSWORD)
    for day in ("2026-05-04", "2026-05-05"):
        assert day in analyst.run("round", "open", campaign, *(["--day", day] if day.endswith("4") else []))
        for name in names:
            path = tmp_path / f"{name}.csv"
            path.write_text("day,improved\n2026-05-04,1\n2026-05-04,0\n2026-05-05,1\n2026-05-05,1\n")
            sent = people[name].json("submit", campaign, path, "--yes", "--statistics")
            assert (sent["day"], sent["rows"]) == (day, 2)
        answer = analyst.run("round", "close", campaign)
    assert "paid once the next day is closed" in answer
    assert "ended" in analyst.run("round", "finish", campaign)
    assert [view["state"] for view in analyst.json("round", "show", campaign)] == ["published", "published"]
    assert len(people["Oak"].json("payments", campaign, "1")["payments"]) == 1


def test_a_round_that_cannot_be_paid_is_told_and_opened_again(analyst: Person, tmp_path: Path) -> None:
    (tmp_path / "campaign.toml").write_text(CAMPAIGN.replace("clinics", "stuck"))
    campaign = analyst.run("create", tmp_path / "campaign.toml").strip()
    link = ""
    for name in ("Fir", "Yew"):
        link = analyst.run("invite", "stuck", name, "--identity", "known").strip()
    analyst.run("round", "open", campaign)
    yew = Person(tmp_path / "yew")
    yew.run("join", link, "--password-stdin", say=PASSWORD)
    yew.run("submit", "stuck", _rows(tmp_path / "y.csv", 3, 3), "--yes")
    assert "could not be paid" in analyst.run("round", "close", campaign, code=1)
    assert "round 1: open" in analyst.run("round", "reopen", campaign)


def test_mistakes_are_told_kindly(service: Running, analyst: Person, tmp_path: Path) -> None:
    nobody = Person(tmp_path)
    assert "sign in first: troth login" in nobody.run("campaigns", code=1)
    wrong = nobody.run("login", service.url, "--name", "analyst", "--password-stdin", say="not this one", code=1)
    assert wrong == "error: the name or the password is wrong\n"
    assert "--password-stdin" in nobody.run("login", service.url, "--name", "analyst", code=1)
    assert not (tmp_path / "troth").exists()
    answer = analyst.run("submit", "clinics", _rows(tmp_path / "a.csv", 1, 1), code=1)
    assert "pass --yes" in answer
    assert "there is no campaign 'nothing'" in analyst.run("payments", "nothing", code=1)
    gone = f"http://127.0.0.1:{_free_port()}"
    assert f"cannot reach {gone}: connection refused; is troth serve running?" in analyst.run(
        "campaigns",
        "--server",
        gone,
        code=1,
        TROTH_TOKEN="troth_x",
    )
    assert "unencrypted" in nobody.run("login", "http://example.org", "--name", "x", code=1)
    assert nobody.done("submit").returncode == 2


def test_signing_in_and_out(service: Running, analyst: Person, tmp_path: Path) -> None:
    me = Person(tmp_path)
    path = tmp_path / "troth" / "credentials.json"
    plain = me.json("login", service.url, "--name", "analyst", "--password-stdin", "--scope", "read", say=PASSWORD)
    assert (plain["role"], plain["scopes"]) == ("analyst", ["read"])
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    (tmp_path / "c.toml").write_text(CAMPAIGN)
    assert "lacks the scope 'manage'" in me.run("create", tmp_path / "c.toml", code=1)
    me.run("login", service.url, "--name", "analyst", "--password-stdin", say=PASSWORD)
    token = json.loads(path.read_text())["servers"][service.url]["token"]
    stranger = Person(tmp_path / "other")
    assert stranger.json("login", service.url, "--token", token)["name"] == "analyst"
    assert isinstance(Person(tmp_path / "third").json("campaigns", TROTH_SERVER=service.url, TROTH_TOKEN=token), list)
    assert "the session or token is missing, unknown" in stranger.run("campaigns", code=1, TROTH_TOKEN="troth_x")
    assert me.json("logout")["revoked"] is True
    assert "sign in first" in stranger.run("campaigns", code=1)
    assert json.loads(path.read_text())["servers"] == {}


class Flaky(http.server.BaseHTTPRequestHandler):
    """Hangs up on the first attempts, and keeps what it was sent."""

    seen: list[tuple[str | None, bytes]]
    losses: int

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((self.headers["Idempotency-Key"], body))
        if len(self.seen) <= self.losses:
            self.close_connection = True
            return
        self._answer(201, {"id": "0" * 16, "sha256": "f" * 64})

    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", "http://127.0.0.1:1/")
        self.end_headers()

    def _answer(self, status: int, plain: dict[str, Any]) -> None:
        raw = json.dumps(plain).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_words: Any) -> None:
        pass


@contextmanager
def flaky(losses: int) -> Iterator[tuple[str, list[tuple[str | None, bytes]]]]:
    requests: list[tuple[str | None, bytes]] = []
    handler = type("Handler", (Flaky,), {"seen": requests, "losses": losses})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
        server.shutdown()
        thread.join()


def _quick(url: str) -> Client:
    client = Client(url)
    client.retry_delays = (0.0, 0.0, 0.0)
    return client


def test_an_upload_is_sent_again_whole_and_under_the_same_key(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"improved\n" + b"1\n" * 100_000)
    progress: list[tuple[int, int]] = []
    with flaky(losses=2) as (url, requests):
        _quick(url).submit_file(
            "0" * 16, 1, path, name="a.csv", progress=lambda done, total: progress.append((done, total))
        )
    assert len(requests) == 3
    assert {body for _, body in requests} == {path.read_bytes()}
    assert len({key for key, _ in requests}) == 1
    assert requests[0][0] is not None
    assert progress[-1] == (path.stat().st_size, path.stat().st_size)


def test_what_may_not_be_done_twice_is_not_sent_twice() -> None:
    with flaky(losses=1) as (url, requests), pytest.raises(UnreachableError, match="the connection was lost"):
        _quick(url).sign_in("a", "b")
    assert len(requests) == 1


def test_a_service_that_stays_away_is_given_up() -> None:
    with flaky(losses=9) as (url, requests), pytest.raises(UnreachableError, match="the connection was lost"):
        _quick(url).create_campaign(terms={})
    assert len(requests) == 4


def test_tokens_do_not_follow_redirections() -> None:
    with flaky(losses=0) as (url, _), pytest.raises(RefusedError, match="redirects to another address"):
        Client(url, "troth_secret").list_campaigns()


@pytest.mark.parametrize(
    "text",
    [
        "ftp://a",
        "https://",
        "https://a/path",
        "https://u:p@a",
        "https://a:port",
        "http://a",
        "http://localhost.example.org",
        "http://127.0.0.1.example.org:8000",
    ],
)
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(UnreachableError):
        address(text)
    assert address("https://a:8443/") == "https://a:8443"


def test_every_operation_is_a_method() -> None:
    for operation in OPERATIONS:
        method = getattr(Client, operation.name)
        assert method.__doc__ == operation.summary
        names = names_in(operation.path)
        assert tuple(inspect.signature(method).parameters)[1:][: len(names)] == names
    with pytest.raises(TypeError, match="missing a required argument: 'number'"):
        Client("https://a").show_round("0" * 16)
    with pytest.raises(TypeError, match="unexpected keyword argument 'day'"):
        Client("https://a").show_round("0" * 16, 1, day=1)


HERE = {"troth.cli.client", "troth.cli.service_rounds"}


def test_every_command_is_in_the_documentation_and_speaks_json() -> None:
    text = (Path(__file__).parents[2] / "docs" / "service.md").read_text()
    registered = [*app.registered_commands, *rounds.registered_commands]
    callbacks = {command.name or getattr(command.callback, "__name__", ""): command.callback for command in registered}
    here = {name: call for name, call in callbacks.items() if getattr(call, "__module__", "") in HERE}
    assert {"login", "submit", "open", "close", "publish"} <= set(here)
    for name, call in here.items():
        assert re.search(f"troth (round )?{name}\\b|`{name}`", text), name
        assert "as_json" in getattr(call, "__annotations__", {}), name


def test_without_a_number_the_latest_round_is_meant() -> None:
    states = ["published", "published", "closed", "open"]
    rounds = [{"number": number, "state": state} for number, state in enumerate(states, 1)]
    client: Any = SimpleNamespace(list_rounds=lambda _: rounds)
    campaign = {"id": "c", "name": "clinics"}
    assert find_round(client, campaign, None, ("paid", "published"), "none is paid") == 2
    assert find_round(client, campaign, 1, ("open",), "none is open") == 1
    with pytest.raises(DataError, match="clinics: none is paid"):
        find_round(client, campaign, None, ("paid",), "none is paid")
