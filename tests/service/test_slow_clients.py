"""Nobody who is slow, or sends what nobody wants, keeps others waiting: headers, bodies, shutdown, writers."""

from __future__ import annotations

import bz2
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from sqlalchemy import select, update
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from registry import SOAK
from service.databases import one_system, opened
from service.serving import until
from service.world import Door, World, make_world
from troth.service import accounts, app, connections, incoming, request_limits, serve
from troth.service.access import COOKIE
from troth.service.errors import RateLimitError, SignInRequiredError
from troth.service.schema import queued, tokens
from troth.service.store import after

PASSWORD = "a long password of words"


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextmanager
def running(target: Any, **options: Any) -> Iterator[tuple[uvicorn.Server, int]]:
    """Serve an application in this process as `troth serve` would, and yield its port."""
    config = uvicorn.Config(target, port=0, log_config=None, access_log=False, lifespan="off", **options)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield server, server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        thread.join(20)


def answers(port: int, path: str = "/") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


def options_of_serve(monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    """Return what `troth serve` tells its server."""
    settings: dict[str, Any] = {}
    monkeypatch.setattr(uvicorn, "run", lambda *_, **options: settings.update(options))
    monkeypatch.setenv(app.SETTINGS, "")
    serve.serve(app.Settings(str(folder / "troth.db")), host="127.0.0.1", port=0, echo=lambda _: None)
    return settings


def test_a_thousand_half_sent_headers_keep_nobody_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    protocol = options_of_serve(monkeypatch, tmp_path)["http"]
    with running(_hello, http=protocol) as (server, port), ExitStack() as stack:
        for _ in range(1000):
            half = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            half.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: ")
        assert answers(port) == 200
        assert len(server.server_state.connections) <= connections.MAX_WAITING + 1


def test_headers_that_never_end_are_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
    with (
        running(_hello, http=connections.Connection) as (_, port),
        socket.create_connection(("127.0.0.1", port), timeout=5) as half,
    ):
        half.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while not answer.endswith(b"ok"):
            answer += half.recv(4096)
        half.sendall(b"GET / HTTP/1.1\r\nX-Long: ")  # on a connection that was kept, too
        with pytest.raises(ConnectionResetError):
            if not half.recv(1):
                raise ConnectionResetError


REFUSED_AT_ONCE = {
    "a body in chunks of a byte": (b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 20_000, b" 411 "),
    "chunks in other letters": (b"tRansfer-encoding : chunked\n\n" + b"1\r\nx\r\n" * 20_000, b" 411 "),
    "thousands of headers": (b"a:\r\n" * 5_000 + b"\r\n", b" 431 "),
    "a header without an end": (b"a: " + b"x" * 40_000, b" 431 "),
}


@pytest.mark.parametrize("what", REFUSED_AT_ONCE)
def test_what_is_long_to_read_is_refused_unread(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server reads requests in one thread: four megabytes in chunks of a byte took it nine seconds."""
    sent, status = REFUSED_AT_ONCE[what]
    blocks: list[bytes] = []
    monkeypatch.setattr(AutoHTTPProtocol, "data_received", lambda _, data: blocks.append(data))
    with (
        running(_hello, http=connections.Connection) as (_, port),
        socket.create_connection(("127.0.0.1", port), timeout=5) as client,
    ):
        with suppress(ConnectionError):
            client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n" + sent)
        answer = client.recv(4096)
    assert status in answer.split(b"\r\n")[0]
    assert b"x-content-type-options: nosniff" in answer
    assert not blocks


def test_requests_on_one_connection_follow_each_other() -> None:
    """Bodies and blank lines may come in any pieces; a request before the answer to the last one ends the connection."""
    post, get = (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123456789",
        b"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
    )
    with running(_hello, http=connections.Connection) as (_, port):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            for request, size in ((post, 1000), (get, 1), (post, len(post) - 9), (get, 3), (post, 7)):
                for place in range(0, len(request), size):
                    client.sendall(request[place : place + size])
                    time.sleep(0.001)
                answer = b""
                while not answer.endswith(b"ok"):
                    part = client.recv(4096)
                    assert part
                    answer += part
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            client.sendall(post[:-1])
            time.sleep(0.05)
            client.sendall(b"9" + get)
            with pytest.raises(ConnectionResetError):
                if not client.recv(4096):
                    raise ConnectionResetError


def test_a_body_that_drips_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "IDLE_SECONDS", 0.2)
    guarded = request_limits.BodyLimits(_hello, largest=1 << 20)

    async def refused(scope: Any, receive: Any, send: Any) -> None:
        try:
            await guarded(scope, receive, send)
        except Exception as error:
            status = error.status_code  # type: ignore[attr-defined]
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body"})

    with running(refused) as (_, port), socket.create_connection(("127.0.0.1", port), timeout=5) as dripping:
        dripping.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx")
        assert b" 408 " in dripping.recv(4096)


def test_a_dripping_upload_does_not_block_shutdown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert 0 < options_of_serve(monkeypatch, tmp_path)["timeout_graceful_shutdown"] <= 15
    with (
        running(_hello, timeout_graceful_shutdown=1) as (server, port),
        socket.create_connection(("127.0.0.1", port), timeout=5) as dripping,
    ):
        dripping.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx")
        time.sleep(0.1)
        began, server.should_exit = time.monotonic(), True
        while server.servers[0].is_serving() or server.server_state.tasks:
            assert time.monotonic() < began + 10
            time.sleep(0.02)


@pytest.mark.parametrize(
    ("campaign", "who", "status"), [("0" * 16, "Ash", 404), (None, "Oak", 404), (None, "Ash", 409)]
)
def test_an_upload_nobody_wants_is_refused_at_the_headers(
    database: str, campaign: str | None, who: str, status: int
) -> None:
    with opened(database) as store:
        world = make_world(store)
        other_world = make_world(store, ("Oak", "Fir"), analyst="Bob")
        world.tokens |= other_world.tokens
        world.close()

        def body() -> Iterator[bytes]:
            pytest.fail("the body was read")
            yield b""

        place = f"/api/v1/campaigns/{campaign or world.campaign}/rounds/1/submissions/file?name=rows.csv"
        answer = world.client().post(place, content=body(), headers=world.headers(who))
        assert answer.status_code == status
        assert answer.headers["connection"] == "close"


def test_sixty_hostile_files_hold_up_neither_health_nor_an_honest_report(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From an account of another campaign: nine thousand columns that nobody needs, in a few kilobytes."""
    monkeypatch.setattr(incoming, "READ_TIMEOUT", 1.0)
    header = ",".join(["improved", *(f"c{i}" for i in range(9_000))])
    wide = bz2.compress("\n".join([header, *[",".join(["1"] + ["0"] * 9_000)] * (400 if SOAK else 20)]).encode())
    with opened(database) as store:
        world, other_world = make_world(store), make_world(store, ("Oak", "Fir"), analyst="Bob")
        with running(Door(store), http=connections.Connection) as (_, port):

            def post(whose: World, name: str, file: str, content: bytes) -> int:
                with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
                    place = f"{whose.base}/rounds/1/submissions/file?name={file}"
                    connection.request("POST", place, content, whose.headers(name))
                    return connection.getresponse().status

            def was_read() -> bool:
                with store.read() as tx:
                    mine = queued.c.member == world.members["Ash"]
                    return tx.scalars(select(queued.c.state).where(mine)).all() == ["read"]

            with ThreadPoolExecutor(30) as pool:
                hostile = [pool.submit(post, other_world, "Oak", "wide.csv.bz2", wide) for _ in range(60)]
                honest, times = pool.submit(post, world, "Ash", "x.csv", b"improved\n1\n0\n"), list[float]()
                while not honest.done() or len(times) < 20:
                    began = time.monotonic()
                    assert answers(port, "/health") == 200
                    times.append(time.monotonic() - began)
                assert honest.result() in (201, 202)
                until(was_read)
            statuses = [future.result() for future in hostile]
            with store.write() as tx:
                tx.execute(update(queued).where(queued.c.state == "waiting").values(state="refused"))
            until(lambda: not incoming._tasks)  # nothing more is read
    assert set(statuses) <= {201, 202, 429}
    assert statuses.count(429) > 30
    assert sorted(times)[len(times) // 2] < 0.5


@pytest.mark.parametrize("kind", one_system("sqlite"))
@pytest.mark.parametrize(("who", "status"), [(None, 401), ("Ash", 403), ("Ana", 413)])
def test_terms_of_nobody_who_may_write_them_are_not_read(database: str, who: str | None, status: int) -> None:
    """A body of four megabytes takes long to parse; whoever may send one is asked first."""
    with opened(database) as store:
        world = make_world(store)

        def body() -> Iterator[bytes]:
            if who != "Ana":
                pytest.fail("the body was read")
            yield b"[" * (5 << 20)

        headers = {} if who is None else world.headers(who)
        answer = world.client().post("/api/v1/campaigns", content=body(), headers=headers)
        assert answer.status_code == status


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_public_data_for_a_campaign_that_is_not_there_are_not_read(database: str) -> None:
    with opened(database) as store:
        world = make_world(store, opened=False)
        with store.write() as tx:
            session = accounts.start_session(tx, world.analyst.account)

        def body() -> Iterator[bytes]:
            pytest.fail("the body was read")
            yield b""

        client, place = world.client(), f"/campaigns/{'0' * 16}/public"
        headers = {"Cookie": f"{COOKIE}={session}", "Content-Type": "multipart/form-data; boundary=x"}
        assert client.post(place, content=body(), headers=headers).status_code == 404


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_thousands_of_unknown_fields_are_refused_in_one_line(database: str) -> None:
    """Of 380,000 each was named, in 23 megabytes that took 20 seconds, for anybody who asked."""
    with opened(database) as store:
        world = make_world(store, opened=False)
        many = {str(number): 1 for number in range(20_000)}
        answer = world.client().post("/api/v1/campaigns", json=many, headers=world.headers("Ana"))
        assert (answer.status_code, len(answer.json()["problems"])) == (422, 1)
        assert "has 20,000 fields" in answer.json()["error"]
        few = world.client().post("/api/v1/campaigns", json={"terms": {}, "term": 1}, headers=world.headers("Ana"))
        assert [problem["field"] for problem in few.json()["problems"]] == ["term"]
        assert world.client().post("/api/v1/tokens", json=many).status_code == 413


def test_health_waits_for_no_writer_and_no_reader(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        release, busy = threading.Event(), threading.Barrier(41)

        def hold(number: int) -> None:
            with store.write() if number == 0 else store.read():
                busy.wait(20)
                release.wait(20)

        holders = [threading.Thread(target=hold, args=(number,)) for number in range(40)]
        for holder in holders:
            holder.start()
        busy.wait(20)  # every connection of the pool is taken, and the database's one writer writes
        try:
            began = time.monotonic()
            assert world.client().get("/health").status_code == 200
            assert time.monotonic() - began < 5
        finally:
            release.set()
            for holder in holders:
                holder.join()


def test_a_request_with_a_token_does_not_write(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        with store.write() as tx:
            tx.execute(update(tokens).values(used=None))
        with store.write():  # somebody writes, for as long as they like
            assert world.client().get("/api/v1/me", headers=world.headers("Ash")).status_code == 200
        accounts.write_uses(store)
        with store.read() as tx:
            assert len(tx.scalars(select(tokens.c.used).where(tokens.c.used.is_not(None))).all()) == 1


def test_wrong_passwords_lock_nobody_out_from_elsewhere(database: str) -> None:
    with opened(database) as store:
        with store.write() as tx:
            bob = accounts.create_account(tx, "Bob", "analyst", PASSWORD)
            device = accounts.remember_device(tx, bob)
        waits = []
        for _ in range(accounts.MAX_FAILURES + 2):
            with pytest.raises((SignInRequiredError, RateLimitError)) as refused:
                accounts.check_password(store, "Bob", "a wrong password", "10.0.0.1")
            waits.append(refused.type is RateLimitError)
        assert waits == [False] * accounts.MAX_FAILURES + [True] * 2
        assert accounts.check_password(store, "Bob", PASSWORD, "10.0.0.2") == bob
        # from the same address too, in a browser that Bob has used before
        assert accounts.check_password(store, "Bob", PASSWORD, "10.0.0.1", device) == bob
        with pytest.raises(RateLimitError):
            accounts.check_password(store, "Bob", PASSWORD, "10.0.0.1", "another")


def test_waits_grow_and_have_an_end(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "MAX_FAILURES", 1)
    monkeypatch.setattr(accounts, "FIRST_WAIT", 1.0)
    monkeypatch.setattr(accounts, "MAX_WAIT", 4.0)
    moment = 0.0
    real = after
    monkeypatch.setattr(accounts, "now", lambda: real(seconds=moment))
    monkeypatch.setattr(accounts, "after", lambda **span: real(**{**span, "seconds": span.get("seconds", 0) + moment}))
    waits = []
    with opened(database) as store:
        for _ in range(5):
            with pytest.raises(SignInRequiredError):
                accounts.check_password(store, "Bob", "a wrong password", "10.0.0.1")
            began = moment
            for _ in range(40):
                moment += 0.5
                with pytest.raises((SignInRequiredError, RateLimitError)) as refused:
                    with store.write() as tx:
                        accounts._check_cooldown(tx, "name:bob from:10.0.0.1", 1)
                        raise SignInRequiredError("it need not wait")
                if refused.type is SignInRequiredError:
                    break
            waits.append(moment - began)
    assert waits == pytest.approx([1, 2, 4, 4, 4], abs=0.51)
