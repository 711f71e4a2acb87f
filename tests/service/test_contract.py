"""The API keeps what its OpenAPI document says, whatever is sent: as the analyst, as a provider, and as nobody."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case

from registry import SOAK
from troth.service import accounts
from troth.service.api import router
from troth.service.app import Settings, create_app
from troth.service.openapi import describe
from troth.service.uploads import Limits

TERMS: dict[str, Any] = {
    "campaign": {"name": "clinics", "budget": "1000.00", "currency": "EUR"},
    "model": {"family": "Bernoulli", "columns": ["improved"], "prior": {"alpha": 1, "beta": 1}},
}
DAILY: dict[str, Any] = {
    "campaign": {"name": "days", "budget": "70.00", "budget_per": "day"},
    "model": {"family": "Bernoulli", "columns": ["improved"], "prior": {"alpha": 1, "beta": 1}},
    "mechanism": {"rule": "MultiDay"},
    "data": {"day": "day"},
}
PASSWORD = "a password of some length"  # noqa: S105
NAMES = ("Ash", "Birch", "Elm")


class Stage(NamedTuple):
    """A service with campaigns in every state, and who may do what in them."""

    client: TestClient
    tokens: dict[str, str]
    known: dict[str, list[str]]

    def call(self, who: str, method: str, path: str, **options: Any) -> Any:
        answer = self.client.request(
            method, f"/api/v1{path}", headers={"Authorization": f"Bearer {self.tokens[who]}"}, **options
        )
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None


def populated(client: TestClient) -> Stage:
    """Fill a service: a draft, an open round, a paid one, one that could not be paid, and a campaign of days."""
    stage = Stage(client, {}, {"campaign": [], "member": [], "submission": [], "token": []})
    with client.app.state.store.write() as tx:  # type: ignore[attr-defined]
        accounts.create_account(tx, "Ana", "analyst", PASSWORD)
    stage.tokens["Ana"] = _token(client, "Ana")
    for state in ("draft", "open", "paid", "stuck", "daily"):
        made = stage.call("Ana", "POST", "/campaigns", json={"terms": DAILY if state == "daily" else TERMS})
        stage.known["campaign"].append(made["id"])
        _fill(stage, f"/campaigns/{made['id']}", state)
    return stage


def _fill(stage: Stage, base: str, state: str) -> None:
    for name in NAMES:
        made = stage.call("Ana", "POST", f"{base}/providers", json={"name": name, "identity": "known"})
        stage.known["member"].append(made["id"])
        joining: dict[str, Any] = {"invitation": made["invitation"]}
        if name in stage.tokens:
            stage.call(name, "POST", "/invitations", json=joining)
        else:
            answer = stage.client.post("/api/v1/invitations", json={**joining, "password": PASSWORD})
            assert answer.json()["name"] == name
            stage.tokens[name] = _token(stage.client, name)
    if state == "draft":
        return
    stage.call("Ana", "POST", f"{base}/rounds", json={})
    for number, name in enumerate(NAMES[: 1 if state == "stuck" else 3]):
        sent = f"{base}/rounds/1/submissions"
        made = stage.call(
            name, "POST", f"{sent}/file?name=a.csv", content=_rows(stage, name, base, number, state == "daily")
        )
        stage.known["submission"].append(made["id"])
        stage.call(name, "POST", f"{sent}/{made['id']}/confirm", json={})
    if state != "open":
        stage.call("Ana", "POST", f"{base}/rounds/1/close", json={"final": True})
    if state == "paid":
        stage.call("Ana", "POST", f"{base}/rounds/1/publish")


def _rows(stage: Stage, name: str, base: str, number: int, daily: bool) -> bytes:
    if not daily:
        return b"improved\n" + b"1\n0\n1\n" * (number + 2)
    day = stage.call(name, "GET", f"{base}/rounds/1")["day"]
    return "\n".join(["day,improved", *[f"{day},1", f"{day},0"] * (number + 2)]).encode()


def _token(client: TestClient, name: str) -> str:
    answer = client.post("/api/v1/tokens", json={"name": name, "password": PASSWORD})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


class Door:
    """The way from what is collected before there is a database to the service that has one."""

    def __init__(self) -> None:
        self.app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self.app(scope, receive, send)
            return
        for event in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{event}.complete"})


def _contract(door: Door) -> Any:
    """Return the OpenAPI document, with what data that fits it may still be refused for."""
    app = FastAPI(title="Troth", version="0", description="Pays for data.")
    app.include_router(router)
    describe(app)
    # a name that is taken or terms that make no campaign fit the document's shapes all the same
    fits = {"expected-statuses": ["2xx", "401", "403", "404", "409", "415", "422", "429"]}
    config = schemathesis.Config.from_dict({"checks": {"positive_data_acceptance": fits}})
    found = schemathesis.openapi.from_dict(app.openapi(), config=config)
    found.app = door
    return found


door = Door()
schema = _contract(door)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    limits = Limits(bytes=1 << 20, seconds=2.0)
    app = create_app(Settings(str(tmp_path_factory.mktemp("contract") / "troth.db"), limits=limits, tick=0))
    with TestClient(app, raise_server_exceptions=False) as client:
        door.app = app
        yield populated(client)
        door.app = None


thorough = settings(
    max_examples=200 if SOAK else 5,
    deadline=None,
    derandomize=not SOAK,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


def _aim(case: Case, known: dict[str, list[str]], turn: int) -> None:
    """Let identifiers that could be any be those of things that are there."""
    for name, value in dict(case.path_parameters or {}).items():
        if known.get(name) and isinstance(value, str) and re.fullmatch("[0-9a-f]{16}", value):
            case.path_parameters[name] = known[name][turn % len(known[name])]
        if name == "number" and isinstance(value, int) and 1 <= value <= 1_000_000 and turn % 4:
            case.path_parameters[name] = 1


def _asked(case: Case, stage: Stage, who: str | None) -> None:
    turn = sum(json.dumps(str(case.path_parameters)).encode()) + len(str(case.body))
    _aim(case, stage.known, turn)
    headers = {} if who is None else {"Authorization": f"Bearer {stage.tokens[who]}"}
    case.call_and_validate(headers=headers)


@schema.parametrize()
@thorough
def test_for_the_analyst(case: Case, stage: Stage) -> None:
    _asked(case, stage, "Ana")


@schema.parametrize()
@thorough
def test_for_a_provider(case: Case, stage: Stage) -> None:
    _asked(case, stage, "Ash")


@schema.parametrize()
@thorough
def test_for_nobody(case: Case, stage: Stage) -> None:
    _asked(case, stage, None)
