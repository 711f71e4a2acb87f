"""A service that runs in its own processes, and concurrent clients."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from service.databases import kill_process

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Answer(NamedTuple):
    """The answer of a service."""

    status: int
    body: bytes

    @property
    def plain(self) -> Any:
        return json.loads(self.body)


@dataclass
class Served:
    """A running service; each thread keeps a connection to it."""

    port: int
    log: Path
    _local: threading.local = field(default_factory=threading.local)
    _connections: list[http.client.HTTPConnection] = field(default_factory=list)

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None, body: Any = None) -> Answer:
        raw = None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **(headers or {})}
        for last in (False, True):
            connection = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
                self._connections.append(connection)
            try:
                connection.request(method, path, raw, sent)
                answer = connection.getresponse()
                return Answer(answer.status, answer.read())
            except (http.client.RemoteDisconnected, ConnectionError):
                connection.close()  # the server had closed the idle connection and never saw the request
                self._local.connection = None
                if last:
                    raise
        raise AssertionError

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def post(self, path: str, headers: dict[str, str] | None = None, body: Any = None) -> Answer:
        return self.ask("POST", path, headers, {} if body is None else body)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@contextmanager
def serving(url: str, folder: Path, *, workers: int = 1) -> Iterator[Served]:
    """Run ``troth serve`` on a database."""
    port, log = free_port(), folder / "service.log"
    command = ["-c", "from troth.cli import main; main()", "serve", "--database", url]
    options = ["--port", str(port), "--workers", str(workers)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, *command, *options], stdout=output, stderr=output, env=environment)
    served = Served(port, log)
    try:
        deadline = time.monotonic() + 90
        while True:
            try:
                if served.ask("GET", "/api/v1/health").status == 200:
                    break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the service did not start:\n{log.read_text()}") from None
                time.sleep(0.1)
        yield served
        served.close()
        process.terminate()
        assert process.wait(60) in (0, -15)
    finally:
        served.close()
        process.terminate()  # stops its workers, also after a failure
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        kill_process(process)


def concurrently(call: Callable[[_Item], _Result], items: Sequence[_Item], threads: int) -> list[_Result]:
    """Call a function on items from several threads, and return the results in the order of the items."""
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(call, items))


def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """Wait until a condition holds, and fail if it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {seconds} seconds"
        time.sleep(0.03)
