"""The service: submissions relative to bare commits, and closing a round relative to computing its payments.

Clients send statistics and files to ``troth serve`` and confirm each submission. The limit is a bare loop on the same
disk that commits as often as the service must: once per upload, once per confirmation. Closing a round is compared with
settling the same reports without a database.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

PASSWORD = secrets.token_urlsafe(16)
ROWS = 40
TERMS: dict[str, dict[str, Any]] = {
    "SyntheticPeers": {
        "campaign": {"name": "load", "budget": "1000000.00"},
        "model": {"family": "Bernoulli", "columns": ["x"], "prior": {"alpha": 1, "beta": 1}},
    },
    "MultiDay": {
        "campaign": {"name": "load", "budget": "1000000.00", "budget_per": "day"},
        "model": {"family": "Bernoulli", "columns": ["x"], "prior": {"alpha": 1, "beta": 1}},
        "mechanism": {"rule": "MultiDay"},
        "data": {"day": "day"},
    },
}


class Client:
    """A client with a persistent connection."""

    def __init__(self, port: int, token: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        self.headers = {"Authorization": f"Bearer {token}"}

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def call(self, method: str, path: str, body: Any = None, *, raw: bytes | None = None) -> Any:
        """Send a request and return the parsed answer; raise unless it succeeded."""
        content = json.dumps(body).encode() if body is not None else raw
        kind = "application/json" if raw is None else "application/octet-stream"
        self.connection.request(method, f"/api/v1{path}", content, {**self.headers, "Content-Type": kind})
        answer = self.connection.getresponse()
        answer_body = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer_body[:300]!r}")
        return json.loads(answer_body) if answer_body else None


@contextmanager
def serving(database: str, workers: int) -> Iterator[int]:
    """Run a service and yield its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-m", "troth.cli", "serve", "--database", database, "--port", str(port)]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen([*command, "--workers", str(workers)], stdout=log, stderr=log)  # noqa: S603
        try:
            deadline = time.monotonic() + 60
            while True:
                try:
                    with Client(port, "") as client:
                        client.call("GET", "/health")
                    break
                except OSError:
                    if process.poll() is not None or time.monotonic() > deadline:
                        log.seek(0)
                        raise RuntimeError(log.read()[-2000:]) from None
                    time.sleep(0.1)
            yield port
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def stage(database: str, providers: int, rule: str) -> tuple[str, list[str], str]:
    """Create a campaign whose providers have all joined; return its id, their tokens and the analyst's."""
    from sqlalchemy import insert

    from troth.operations import SCOPES
    from troth.service import accounts, campaigns, schema
    from troth.service.accounts import User
    from troth.service.migrate import migrate
    from troth.service.store import Store, after, now

    store = Store(database)
    migrate(store)
    with store.write() as tx:
        analyst = accounts.create_account(tx, "Ana", "analyst", PASSWORD)
        who = User(analyst, "Ana", "analyst")
        campaign = campaigns.create_campaign(tx, who, TERMS[rule])
        token, _ = accounts.create_token(tx, analyst, "load", SCOPES, 1)
        names = [f"P{i:05}" for i in range(providers)]
        keys = [schema.new_id() for _ in names]
        tokens = ["troth_" + secrets.token_urlsafe(32) for _ in names]
        stamp = {"created": now()}
        tx.execute(
            insert(schema.accounts),
            [
                {"id": k, "name": n, "handle": n.casefold(), "role": "provider", **stamp}
                for k, n in zip(keys, names, strict=True)
            ],
        )
        tx.execute(
            insert(schema.tokens),
            [
                {
                    "id": schema.new_id(),
                    "hash": accounts.digest(t),
                    "account": k,
                    "label": "load",
                    "scopes": "read submit",
                    "expires": after(days=1),
                    "used": now(),
                    **stamp,
                }
                for k, t in zip(keys, tokens, strict=True)
            ],
        )
        tx.execute(
            insert(schema.members),
            [
                {
                    "id": schema.new_id(),
                    "campaign": campaign,
                    "name": n,
                    "identity": "load",
                    "account": k,
                    "joined": now(),
                    **stamp,
                }
                for k, n in zip(keys, names, strict=True)
            ],
        )
    store.close()
    return campaign, tokens, token


def bodies(providers: int, rng: np.random.Generator) -> list[bytes]:
    """Return the statistics that each provider submits, as JSON."""
    from troth.campaigns.statistics_file import FORMAT, KIND

    ones = rng.binomial(ROWS, 0.3, providers)
    sent = []
    for i, count in enumerate(ones):
        report = {"rows": ROWS, "summary": [float(ROWS - count), float(count)]}
        head = {"kind": KIND, "format": FORMAT, "provider": f"P{i:05}", "family": "Bernoulli"}
        sent.append(json.dumps({**head, **report, "digest": "sha256:" + sha256(bytes([i % 256])).hexdigest()}).encode())
    return sent


def submit(port: int, base: str, tokens: list[str], sent: list[bytes], kind: str, senders: int = 8) -> float:
    """Submit and confirm all reports from several threads, and return the seconds."""
    problems: list[str] = []

    def send(part: slice) -> None:
        client = Client(port, "")
        try:
            for token, body in zip(tokens[part], sent[part], strict=True):
                client.headers = {"Authorization": f"Bearer {token}"}
                path = f"{base}/submissions"
                if kind == "statistics":
                    submission = client.call("POST", f"{path}/statistics", json.loads(body))
                else:
                    submission = client.call("POST", f"{path}/file?name=x.csv", raw=body)
                client.call("POST", f"{path}/{submission['id']}/confirm", {})
        except Exception as error:
            problems.append(str(error))

    threads = [threading.Thread(target=send, args=(slice(i, None, senders),)) for i in range(senders)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise RuntimeError(problems[0])
    return time.perf_counter() - start


def bare_commits(folder: Path, count: int) -> float:
    """Return the seconds of the SQLite commits that ``count`` submissions need: one for each upload and each report."""
    path = folder / "bare.db"
    path.unlink(missing_ok=True)
    base = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL"):
        base.execute(f"PRAGMA {pragma}")
    base.execute("CREATE TABLE kept (id TEXT PRIMARY KEY, body TEXT)")
    start = time.perf_counter()
    for i in range(2 * count):
        base.execute("BEGIN IMMEDIATE")
        base.execute("INSERT INTO kept VALUES (?, ?)", (f"{i:016x}", "x" * 400))
        base.execute("COMMIT")
    spent = time.perf_counter() - start
    base.close()
    return spent


def bare_settlement(database: str, campaign: str) -> float:
    """Return the seconds to compute the same payments and ledger from reports in memory."""
    from sqlalchemy import select

    from troth.campaigns.records.ledger import Ledger
    from troth.campaigns.rounds import pay_rounds
    from troth.service import campaigns as terms
    from troth.service import rounds, schema
    from troth.service.store import Store

    store = Store(database)
    with store.read() as tx:
        row = tx.execute(select(schema.campaigns).where(schema.campaigns.c.id == campaign)).one()
        listed = rounds.list_rounds(tx, campaign)
        confirmed = rounds.confirmed_rows(tx, campaign, [entry.id for entry in listed])
    reports = [rounds.report_of(row) for row in confirmed]
    store.close()
    start = time.perf_counter()
    pay_rounds(terms.terms_of(row), reports, Ledger.from_lines([]), final=True, secret=terms.secret_of(store.keys, row))
    return time.perf_counter() - start


@contextmanager
def databases() -> Iterator[dict[str, Any]]:
    """Yield a function that creates an empty database for each available system, and the scratch folder."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TROTH_BENCH_FOLDER")) as scratch:
        folder = Path(scratch)
        numbers = iter(range(1000))
        systems: dict[str, Any] = {"SQLite": lambda: str(folder / f"{next(numbers)}.db")}
        url = os.environ.get("TROTH_BENCH_POSTGRESQL")
        if url:
            systems["PostgreSQL"] = lambda: _new_database(url, f"bench_{next(numbers)}_{os.getpid()}")
        systems["folder"] = folder
        yield systems


def _new_database(url: str, name: str) -> str:
    import psycopg
    from sqlalchemy import make_url

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return make_url(url).set(database=name).render_as_string(hide_password=False)


def load(make: Any, folder: Path, system: str, count: int) -> None:
    rng = np.random.default_rng(0)
    for workers in (1, 2):
        for kind, providers in (("statistics", count), ("file", count // 4)):
            database = make()
            campaign, tokens, analyst = stage(database, providers, "SyntheticPeers")
            sent = bodies(providers, rng)
            if kind == "file":
                sent = [b"x\n" + b"1\n" * 12 + b"0\n" * 28 for _ in range(providers)]
            base = f"/campaigns/{campaign}/rounds"
            with serving(database, workers) as port:
                Client(port, analyst).call("POST", base, {})
                spent = submit(port, f"{base}/1", tokens, sent, kind)
                bare = bare_commits(folder, providers)
            print(
                f"{system:<12} {workers:>7} {kind:>12} {providers / spent:>10.0f} {providers / bare:>10.0f} {bare / spent:>7.3f}",
                flush=True,
            )


def fill(database: str, campaign: str, number: int, rng: np.random.Generator) -> None:
    """Insert a confirmed report of every provider into a round."""
    from sqlalchemy import insert

    from troth.service import campaigns, rounds, schema
    from troth.service.accounts import User
    from troth.service.store import Store, now

    store = Store(database)
    with store.write() as tx:
        current = rounds.find_round(tx, campaign, number)
        people = campaigns.list_members(tx, campaign)
        ones = rng.binomial(ROWS, 0.3, len(people))
        keys = [schema.new_id() for _ in people]
        common = {
            "round": current.id,
            "name": "x.csv",
            "sha256": "0" * 64,
            "rows": ROWS,
            "shown": {"preview": [], "columns": []},
            "created": now(),
        }
        sent = [
            {
                "id": key,
                "member": person.id,
                "summary": [float(ROWS - count), float(count)],
                "data_digest": "sha256:" + sha256(key.encode()).hexdigest(),
                "nonce": rounds.new_nonce(),
                **common,
            }
            for key, person, count in zip(keys, people, ones, strict=True)
        ]
        tx.execute(insert(schema.uploads), sent)
        for key, person in zip(keys, people, strict=True):
            rounds.confirm(tx, User(person.account, person.name, "provider"), campaign, number, key)
    store.close()


def closing(make: Any, system: str, providers: int) -> None:
    rng = np.random.default_rng(1)
    for rule in ("SyntheticPeers", "MultiDay"):
        database = make()
        campaign, _, analyst = stage(database, providers, rule)
        base = f"/campaigns/{campaign}/rounds"
        spent, closed = 0.0, {}
        with serving(database, 1) as port:
            for day in (1, 2) if rule == "MultiDay" else (None,):
                with Client(port, analyst) as client:
                    number = client.call("POST", base, {"day": day})["number"]
                fill(database, campaign, number, rng)
                with Client(port, analyst) as client:
                    start = time.perf_counter()
                    closed = client.call("POST", f"{base}/{number}/close", {"final": day == 2})
                    spent += time.perf_counter() - start
        if closed["state"] != "paid":
            raise RuntimeError(closed["problem"])
        bare = bare_settlement(database, campaign)
        print(f"{system:<12} {rule:>15} {providers:>10,} {spent:>8.2f} {bare:>10.2f} {spent / bare:>6.2f}", flush=True)


def main() -> None:
    full = "--full" in sys.argv
    with databases() as systems:
        folder = systems.pop("folder")
        print("Submissions, each with its confirmation, relative to two bare commits to SQLite with synchronous=FULL\n")
        print(f"{'database':<12} {'workers':>7} {'what':>12} {'per second':>10} {'bare':>10} {'share':>7}")
        for system, make in systems.items():
            load(make, folder, system, 2000 if full else 300)
        print(
            "\nClosing: seconds from the analyst's request to the answer, relative to the same payments without a database\n"
        )
        print(f"{'database':<12} {'rule':>15} {'providers':>10} {'seconds':>8} {'bare':>10} {'ratio':>6}")
        for system, make in systems.items():
            closing(make, system, 2000)
    print(
        "\nTo measure PostgreSQL, set TROTH_BENCH_POSTGRESQL to the URL of a server on which databases may be created."
    )


if __name__ == "__main__":
    main()
