"""How large a request may be follows from its operation, wherever that is mounted."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

from service.world import one_app
from troth import operations
from troth.operations import OPERATIONS, PREFIX, Operation, names_in, operation_at
from troth.service import request_limits
from troth.service.request_limits import MAX_JSON_BYTES, SMALL_JSON_BYTES, BodyLimits

MOST = {"small": SMALL_JSON_BYTES, "large": MAX_JSON_BYTES, "upload": None}
LARGE = {"create_campaign", "change_terms", "submit_statistics"}


def address(operation: Operation) -> str:
    """Return an address of an operation."""
    return PREFIX + operation.path.format_map(dict.fromkeys(names_in(operation.path), "1"))


def body_sent(operation: Operation, content: Any) -> Any:
    """Return what a body is answered with."""
    app = FastAPI()
    app.add_middleware(BodyLimits, largest=1 << 26)

    @app.api_route("/{path:path}", methods=[operation.method])
    async def fine(path: str, request: Request) -> int:
        return len(await request.body())

    return TestClient(app).request(operation.method, address(operation), content=content)


def refused(operation: Operation) -> dict[int, bool]:
    """Return whether bodies just above each limit are refused."""
    return {
        most: body_sent(operation, b"x" * (most + 1)).status_code == 413 for most in (SMALL_JSON_BYTES, MAX_JSON_BYTES)
    }


def test_what_may_be_large() -> None:
    assert {operation.name for operation in OPERATIONS if operation.size == "large"} == LARGE
    assert {operation.name for operation in OPERATIONS if operation.size == "upload"} == {"submit_file"}


@pytest.mark.parametrize(
    "operation", [operation for operation in OPERATIONS if operation.input], ids=lambda operation: operation.name
)
@pytest.mark.parametrize("renamed", [False, True])
def test_a_limit_belongs_to_its_operation(operation: Operation, renamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if renamed:
        operation = replace(operation, path=f"/elsewhere{operation.path}/renamed")
        monkeypatch.setattr(operations, "OPERATIONS", (operation,))
    most = MOST[operation.size]
    expected = {limit: most is not None and limit >= most for limit in (SMALL_JSON_BYTES, MAX_JSON_BYTES)}
    assert refused(operation) == expected


@pytest.mark.parametrize(("name", "most"), [("create_token", SMALL_JSON_BYTES), ("change_terms", MAX_JSON_BYTES)])
@pytest.mark.parametrize("declared", [False, True])
def test_the_limit_itself_is_allowed(name: str, most: int, declared: bool) -> None:
    operation = next(candidate for candidate in OPERATIONS if candidate.name == name)
    for size, allowed in ((most, True), (most + 1, False)):
        content = b"x" * size
        sent = body_sent(operation, content if declared else iter([content[:100], content[100:]]))
        assert (sent.status_code != 413) == allowed


def read_body(receive: Any) -> None:
    """Have an application behind the limits read a whole body."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass

    scope = {"type": "http", "method": "POST", "path": "/api/v1/tokens", "headers": []}
    asyncio.run(BodyLimits(application, largest=0)(scope, receive, AsyncMock()))


@pytest.mark.parametrize("beyond", [False, True])
def test_the_parts_of_a_body_of_unknown_length_count_together(beyond: bool) -> None:
    sizes = [SMALL_JSON_BYTES // 2, 0, SMALL_JSON_BYTES // 2, int(beyond)]
    parts = iter({"type": "http.request", "body": b"x" * size, "more_body": True} for size in sizes)
    last = {"type": "http.request", "body": b"", "more_body": False}

    async def receive() -> Any:
        return next(parts, last)

    with pytest.raises(HTTPException, match="larger than 65,536 bytes") if beyond else nullcontext():
        read_body(receive)


@pytest.mark.parametrize(("size", "drips"), [(1, True), (3000, False)])
def test_a_body_whose_parts_keep_coming_is_refused_if_it_is_slow_as_a_whole(
    size: int, drips: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one second come 20 parts: a few bytes have 0.4 s, and 60 kB have seven seconds more."""
    monkeypatch.setattr(request_limits, "FIRST_SECONDS", 0.4)
    monkeypatch.setattr(request_limits, "IDLE_SECONDS", 5.0)
    left = iter(range(19, -1, -1))

    async def receive() -> Any:
        await asyncio.sleep(0.05)
        return {"type": "http.request", "body": b"x" * size, "more_body": next(left) > 0}

    with pytest.raises(HTTPException, match="arrived too slowly") if drips else nullcontext():
        read_body(receive)


def test_every_address_has_its_operation() -> None:
    assert [operation_at(operation.method, address(operation)) for operation in OPERATIONS] == [*OPERATIONS]
    assert operation_at("POST", f"{PREFIX}/campaigns/1/terms") is None
    assert operation_at("PUT", "/campaigns/1/terms") is None


def test_health_is_asked_for_in_its_own_lane() -> None:
    assert one_app().state.health == {f"GET {PREFIX}/health", "GET /health"}
