"""The service with 200 clients, relative to a bare FastAPI route and bare commits; and its latency under attack.

The clients share one process, keep their connections open and send the next request as soon as they get an answer. One
worker serves them from SQLite. The bare route is a FastAPI application with one JSON answer, served by Uvicorn to the
same clients. In the attack, an account of *another* campaign uploads sixty compressed files with nine thousand unneeded
columns as fast as the service accepts them. Meanwhile ``/health`` is polled and honest providers report.
"""

from __future__ import annotations

import asyncio
import bz2
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.service import ROWS, Client, bare_commits, bodies, serving, stage

CLIENTS = 200
SECONDS = 8.0
FILES = 60
BARE = "import fastapi, uvicorn\napp = fastapi.FastAPI()\n@app.get('/')\nasync def show():\n    return {{'a': 1}}\nuvicorn.run(app, port={port}, log_level='error')\n"


async def _request_rate(port: int, request: bytes) -> float:
    """Return answers per second."""
    answered, deadline = 0, time.perf_counter() + SECONDS

    async def client() -> None:
        nonlocal answered
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < deadline:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            status, *headers = head.decode("latin-1").split("\r\n")
            if not status.startswith("HTTP/1.1 2"):
                raise RuntimeError(status)
            length = next(line for line in headers if line.lower().startswith("content-length"))
            await reader.readexactly(int(length.partition(":")[2]))
            answered += 1
        writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return answered / (time.perf_counter() - start)


def views(port: int, path: str, header: str) -> float:
    """Return answers per second for a path."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{header}\r\n\r\n".encode()
    return asyncio.run(_request_rate(port, request))


@contextmanager
def bare_route() -> Iterator[int]:
    """Run an application with one route."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    process = subprocess.Popen([sys.executable, "-c", BARE.format(port=port)])  # noqa: S603
    try:
        for _ in range(200):
            try:
                http.client.HTTPConnection("127.0.0.1", port, timeout=5).request("GET", "/")
                break
            except OSError:
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(10)


def submissions(port: int, base: str, tokens: list[str]) -> float:
    """Let all providers submit and confirm statistics, 200 at a time; return submissions per second."""
    sent = bodies(len(tokens), np.random.default_rng(0))
    waiting = iter(zip(tokens, sent, strict=True))
    lock = threading.Lock()
    problems: list[str] = []

    def send() -> None:
        client = Client(port, "")
        try:
            while True:
                with lock:
                    token, body = next(waiting)
                client.headers = {"Authorization": f"Bearer {token}"}
                submission = client.call("POST", f"{base}/submissions/statistics", json.loads(body))
                while submission["state"] == "waiting":
                    time.sleep(0.05)
                    submission = client.call("GET", f"{base}/submissions/{submission['id']}")
                client.call("POST", f"{base}/submissions/{submission['id']}/confirm", {})
        except StopIteration:
            return
        except Exception as error:
            problems.append(str(error))

    threads = [threading.Thread(target=send) for _ in range(CLIENTS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise RuntimeError(problems[0])
    return len(tokens) / (time.perf_counter() - start)


def load(folder: Path) -> None:
    """Measure API views, pages and submissions, and the bare route and bare commits."""
    with bare_route() as port:
        bare = views(port, "/", "Accept: */*")
    database = str(folder / "views.db")
    campaign, tokens, analyst = stage(database, 20, "SyntheticPeers")
    cookie = _session(database, "P00001")
    with serving(database, 1) as port:
        Client(port, analyst).call("POST", f"/campaigns/{campaign}/rounds", {})
        api = views(port, f"/api/v1/campaigns/{campaign}/rounds/1", f"Authorization: Bearer {tokens[0]}")
        pages = views(port, f"/campaigns/{campaign}/rounds/1", f"Cookie: {cookie}")
    database = str(folder / "load.db")
    campaign, tokens, analyst = stage(database, 3 * CLIENTS, "SyntheticPeers")
    with serving(database, 1) as port:
        Client(port, analyst).call("POST", f"/campaigns/{campaign}/rounds", {})
        sent = submissions(port, f"/campaigns/{campaign}/rounds/1", tokens)
        commits = 200 / bare_commits(folder, 200)
    print(f"One worker on SQLite, {CLIENTS} clients\n")
    print(f"{'what':<34} {'per second':>10} {'bare':>9} {'share':>7}")
    print(f"{'API views, beside a bare route':<34} {api:>10.0f} {bare:>9.0f} {api / bare:>7.2f}")
    print(f"{'pages, beside a bare route':<34} {pages:>10.0f} {bare:>9.0f} {pages / bare:>7.2f}")
    print(f"{'submissions, beside two commits':<34} {sent:>10.0f} {commits:>9.0f} {sent / commits:>7.2f}", flush=True)


def _session(database: str, name: str) -> str:
    from sqlalchemy import select

    from troth.service import accounts, schema
    from troth.service.access import COOKIE
    from troth.service.store import Store

    store = Store(database)
    with store.write() as tx:
        key = tx.execute(select(schema.accounts.c.id).where(schema.accounts.c.name == name)).scalar_one()
        secret = accounts.start_session(tx, key)
    store.close()
    return f"{COOKIE}={secret}"


def attack(folder: Path) -> None:
    """Measure the latency of ``/health`` without load, and during an attack from another campaign's account."""
    database = str(folder / "attack.db")
    campaign, tokens, analyst = stage(database, 20, "SyntheticPeers")
    hostile, attackers = _another_campaign(database)
    header = ",".join(["x", *(f"c{i}" for i in range(9_000))])
    wide = bz2.compress("\n".join([header, *[",".join(["1"] + ["0"] * 9_000)] * 400]).encode())
    with serving(database, 1) as port:
        for identifier in (campaign, hostile):
            Client(port, analyst).call("POST", f"/campaigns/{identifier}/rounds", {})
        quiet = _health(port, lambda: time.sleep(5))
        answers: dict[int, int] = {}
        honest: list[float] = []

        def send(count: int) -> None:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
            for _ in range(count):
                path = f"/api/v1/campaigns/{hostile}/rounds/1/submissions/file?name=wide.csv.bz2"
                headers = {"Authorization": f"Bearer {attackers}", "Content-Type": "application/octet-stream"}
                connection.request("POST", path, wide, headers)
                answer = connection.getresponse()
                answer.read()
                answers[answer.status] = answers.get(answer.status, 0) + 1

        def attack_and_report() -> None:
            threads = [threading.Thread(target=send, args=(FILES // 6,)) for _ in range(6)]
            for thread in threads:
                thread.start()
            time.sleep(0.5)
            for token in tokens[:5]:
                start = time.perf_counter()
                client = Client(port, token)
                rows = b"x\n" + b"1\n" * 12 + b"0\n" * (ROWS - 12)
                base = f"/campaigns/{campaign}/rounds/1/submissions"
                submission = client.call("POST", f"{base}/file?name=x.csv", raw=rows)
                client.call("POST", f"{base}/{submission['id']}/confirm", {})
                honest.append(time.perf_counter() - start)
            for thread in threads:
                thread.join()

        busy = _health(port, attack_and_report)
    print(f"\n{FILES} files of {len(wide):,} bytes and 9,000 columns from an account of another campaign\n")
    print(f"{'/health':<10} {'polls':>6} {'median, ms':>11} {'p99, ms':>9} {'max, ms':>9}")
    for name, times in (("quiet", quiet), ("attacked", busy)):
        p99 = float(np.quantile(times, 0.99))
        print(
            f"{name:<10} {len(times):>6} {1e3 * statistics.median(times):>11.0f} {1e3 * p99:>9.0f} {1e3 * max(times):>9.0f}"
        )
    print(f"an honest report, sent, read and confirmed meanwhile: {max(honest):.2f} s at most, of {len(honest)}")
    print(f"answers to the attacker, by status: {dict(sorted(answers.items()))}", flush=True)


def _another_campaign(database: str) -> tuple[str, str]:
    """Add a campaign with two providers; return its id and the token of one of them."""
    from sqlalchemy import insert, select

    from benchmarks.service import TERMS
    from troth.service import accounts, campaigns, schema
    from troth.service.accounts import User
    from troth.service.store import Store, now

    store = Store(database)
    with store.write() as tx:
        analyst = tx.execute(select(schema.accounts.c.id).where(schema.accounts.c.name == "Ana")).scalar_one()
        campaign = campaigns.create_campaign(tx, User(analyst, "Ana", "analyst"), TERMS["SyntheticPeers"])
        key = accounts.create_account(tx, "Mallory", "provider", "four plain words here")
        other = accounts.create_account(tx, "Trent", "provider", "four plain words here")
        token, _ = accounts.create_token(tx, key, "load", ("read", "submit"), 1)
        stamp: dict[str, Any] = {"campaign": campaign, "identity": "load", "joined": now(), "created": now()}
        people = (("Mallory", key), ("Trent", other))
        rows = [{"id": schema.new_id(), "name": name, "account": account, **stamp} for name, account in people]
        tx.execute(insert(schema.members), rows)
    store.close()
    return campaign, token


def _health(port: int, work: Callable[[], None]) -> list[float]:
    """Poll ``/health`` every 20 ms on new connections while ``work`` runs; return the seconds of each answer."""
    times: list[float] = []
    done = threading.Event()

    def poll() -> None:
        while not done.is_set():
            start = time.perf_counter()
            Client(port, "").call("GET", "/health")
            times.append(time.perf_counter() - start)
            time.sleep(0.02)

    polling = threading.Thread(target=poll)
    polling.start()
    try:
        work()
    finally:
        done.set()
        polling.join()
    return times


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        load(Path(scratch))
        attack(Path(scratch))


if __name__ == "__main__":
    main()
