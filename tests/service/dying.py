"""A program that dies at a chosen moment: it answers one request and kills itself at the k-th touch of the database.

It reads lines of JSON, forks for each, and writes what the child could still acknowledge. The parent has no threads
and no connections, so that forking is safe, and imports everything once, so that it is fast.
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
    """The program, as tests speak to it."""

    def __init__(self) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )

    def ask(self, url: str, path: str, headers: dict[str, str], body: Any, dies_at: int | None) -> dict[str, Any]:
        """Send a request to a service that dies at the k-th touch; return its answer, if it came to one, and touches.

        The answer has ``status`` and ``body`` if the request was acknowledged, and ``touches`` if nobody died.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        order = {"url": url, "path": path, "headers": headers, "body": body, "dies_at": dies_at}
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
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
    """Count touches of the database: before each statement, before and after each commit; die at one of them.

    Reading changes nothing, so a death before a statement that writes stands for those before the reads that precede
    it; `make soak` dies at these too.
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


def _live(app: Any, order: dict[str, Any]) -> dict[str, Any]:
    from fastapi.testclient import TestClient

    from troth.service.store import Store

    store = app.state.store = Store(order["url"])
    with store.read():
        pass  # connected: what follows is the request's own
    touches = listen_and_die(store.engine, order["dies_at"])
    answer = TestClient(app).post(order["path"], json=order["body"], headers=order["headers"])
    return {"status": answer.status_code, "body": answer.text, "touches": touches[0]}


def _warm(app: Any, order: dict[str, Any]) -> None:
    """Do what only the first request to a route takes time for, and leave no thread and no connection behind."""
    from fastapi.testclient import TestClient

    from troth.service.store import Store

    with tempfile.TemporaryDirectory() as folder:
        app.state.store = Store(str(Path(folder) / "none.db"))
        assert TestClient(app).post(order["path"], json=order["body"]).status_code == 401
        app.state.store.close()
    patience = time.monotonic() + 60
    while threading.active_count() > 1 and time.monotonic() < patience:
        time.sleep(0.01)  # the client's threads end in their own time
    assert threading.active_count() == 1


def main() -> None:
    from troth.campaigns.rounds import pay_rounds
    from troth.campaigns.tasks import pay_task_reports
    from troth.service import settlement, uploads
    from troth.service.app import Settings, create_app
    from troth.service.limited_payments import Paid, _judge

    uploads.__dict__.update(was_tried=lambda *_: True, check_bounded=lambda *_: None)

    def pay_here(campaign: Any, reports: Any, ledger: Any, **options: Any) -> Paid:
        """Pay in this process: another one would take long to start for each death."""
        if campaign.task is None:
            return Paid(pay_rounds(campaign, reports, ledger, **options), None)
        return Paid([None], pay_task_reports(campaign, reports, ledger, secret=options["secret"]))

    def judge_here(campaign: Any, ledger: Any, file: bytes | None = None) -> dict[str, Any]:
        return _judge(campaign.plain, list(ledger.lines), file)

    settlement.__dict__.update(pay_rounds=pay_here, judge=judge_here)
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Settings(str(Path(folder) / "empty.db"), tick=0, hosts=("testserver",)))
        app.state.store.close()
    warm = ""
    for line in sys.stdin.buffer:
        if json.loads(line)["path"] != warm:
            warm = json.loads(line)["path"]
            _warm(app, json.loads(line))
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            os.write(writing, json.dumps(_live(app, json.loads(line))).encode())
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
