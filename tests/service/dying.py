"""A service that kills itself at the k-th access to the database while it answers a request.

The program reads lines of JSON, forks a child for each, and writes the answer, if the child lived to give one. The
parent has no threads and no connections, so that forking is safe, and imports everything once, so that it is fast.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from registry import SOAK


class Dying:
    """A client of this program."""

    def __init__(self) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )

    def ask(self, url: str, path: str, headers: dict[str, str], body: Any, dies_at: int | None) -> dict[str, Any]:
        """Send a request to a service that dies at access number ``dies_at``, and return what it answered.

        ``died`` says whether it died. If it did not, there are also ``status``, ``body`` and ``touches``, the number of
        accesses.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"url": url, "path": path, "headers": headers, "body": body, "dies_at": dies_at}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()


def listen_and_die(engine: Any, dies_at: int | None) -> list[int]:
    """Count accesses to the database, and die at one of them: before each write, and before and after each commit.

    Reads change nothing, so a death before a write stands for deaths before the reads that precede it. Under
    `make soak` reads count too.
    """
    from sqlalchemy import event

    touches = [0]

    def touch() -> None:
        touches[0] += 1
        if touches[0] == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def before_statement(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if SOAK or statement.startswith(("INSERT", "UPDATE", "DELETE")):
            touch()

    event.listen(engine, "before_cursor_execute", before_statement)
    commit = engine.dialect.do_commit

    def commit_and_touch(connection: Any) -> None:
        touch()
        commit(connection)
        touch()

    engine.dialect.do_commit = commit_and_touch
    return touches


def _answer(app: Any, request: dict[str, Any]) -> dict[str, Any]:
    from fastapi.testclient import TestClient

    from troth.service.store import Store

    store = app.state.store = Store(request["url"])
    with store.read():
        pass  # connect now, so that only accesses of the request are counted
    touches = listen_and_die(store.engine, request["dies_at"])
    answer = TestClient(app).post(request["path"], json=request["body"], headers=request["headers"])
    return {"status": answer.status_code, "body": answer.text, "touches": touches[0]}


def _warm_up(app: Any, request: dict[str, Any]) -> None:
    """Send a first request to a route, which is slow, and leave no thread and no connection behind."""
    from fastapi.testclient import TestClient

    from troth.service.store import Store

    with tempfile.TemporaryDirectory() as folder:
        app.state.store = Store(str(Path(folder) / "none.db"))
        assert TestClient(app).post(request["path"], json=request["body"]).status_code == 401
        app.state.store.close()
    deadline = time.monotonic() + 60
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.01)  # until the client's threads end
    assert threading.active_count() == 1


def main() -> None:
    from troth.campaigns.rounds import pay_rounds
    from troth.campaigns.tasks import pay_task_reports
    from troth.service import settlement, uploads
    from troth.service.app import Settings, create_app
    from troth.service.limited_payments import Paid, _judge

    uploads.__dict__.update(was_tried=lambda *_: True, check_bounded=lambda *_: None)

    def pay_here(campaign: Any, reports: Any, ledger: Any, **options: Any) -> Paid:
        """Pay in this process, because starting another for each death would be slow."""
        if campaign.task is None:
            return Paid(pay_rounds(campaign, reports, ledger, **options), None)
        return Paid([None], pay_task_reports(campaign, reports, ledger, secret=options["secret"]))

    def judge_here(campaign: Any, ledger: Any, file: bytes | None = None) -> dict[str, Any]:
        return _judge(campaign.plain, list(ledger.lines), file)

    settlement.__dict__.update(pay_rounds=pay_here, judge=judge_here)
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Settings(str(Path(folder) / "empty.db"), tick=0, hosts=("testserver",)))
        app.state.store.close()
    warm_path = ""
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if request["path"] != warm_path:
            warm_path = request["path"]
            _warm_up(app, request)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            os.write(writing, json.dumps(_answer(app, request)).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            output = pipe.read()
        _, status = os.waitpid(child, 0)
        answer = json.loads(output) if output else {}
        died = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        sys.stdout.buffer.write(json.dumps({"died": died, **answer}).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
