"""The API keeps what its OpenAPI document says, whatever is sent: as the analyst, as a provider, and as nobody."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple

import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case

from registry import SOAK
from service.databases import KINDS, Databases
from troth.service import accounts, views
from troth.service.access import API
from troth.service.api import mounted
from troth.service.app import Settings, create_app
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
pytestmark = pytest.mark.xdist_group("contract")  # the databases are filled once
PASSWORD = "a password of some length"
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
        answer = stage.call("Ana", "POST", "/campaigns", json={"terms": DAILY if state == "daily" else TERMS})
        stage.known["campaign"].append(answer["id"])
        _fill(stage, f"/campaigns/{answer['id']}", state)
    return stage


def _fill(stage: Stage, base: str, state: str) -> None:
    for name in NAMES:
        created = stage.call("Ana", "POST", f"{base}/providers", json={"name": name, "identity": "known"})
        stage.known["member"].append(created["id"])
        joining: dict[str, Any] = {"invitation": created["invitation"]}
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
        created = stage.call(
            name, "POST", f"{sent}/file?name=a.csv", content=_rows(stage, name, base, number, state == "daily")
        )
        stage.known["submission"].append(created["id"])
        stage.call(name, "POST", f"{sent}/{created['id']}/confirm", json={})
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


@cache
def _document() -> Any:
    app = FastAPI(title="Troth", version="0", description="Pays for data.")
    app.include_router(mounted())
    return app.openapi()


def _contract(door: Door, who: str | None) -> Any:
    """Return the OpenAPI document, with what data that fits it may still be refused for.

    Everybody gets the same shapes, so the edges of each are tried by one who may send it, and others try a little.
    """
    # a name that is taken or terms that make no campaign fit the document's shapes all the same
    fits = {"expected-statuses": ["2xx", "401", "403", "404", "409", "415", "422", "429"]}
    little = {"phases": {"coverage": {"enabled": False}}, "generation": {"max-examples": 1}}
    others = [line for line, access in API.items() if who != (access.roles[0] if access.roles else None)]
    config = schemathesis.Config.from_dict(
        {
            "checks": {"positive_data_acceptance": fits},
            "generation": {"max-examples": 200 if SOAK else 3},
            "operations": [] if SOAK else [{"include-name": line, **little} for line in others],
        }
    )
    contract = schemathesis.openapi.from_dict(deepcopy(_document()), config=config)
    contract.app = door
    return contract


door = Door()
of_analyst, of_provider, of_nobody = (_contract(door, who) for who in ("analyst", "provider", None))


@contextmanager
def _opened(database: str) -> Iterator[TestClient]:
    app = create_app(Settings(database, limits=Limits(bytes=1 << 20, seconds=2.0), tick=0, hosts=("testserver",)))
    yield TestClient(app, raise_server_exceptions=False)  # without a start and a stop: waiting processes stay warm
    app.state.store.close()


@pytest.fixture(scope="module")
def prepared(databases: Databases) -> Callable[[str], tuple[str, Stage]]:
    """A database with campaigns in every state, on each system: filled once, and copied."""

    def fill(kind: str) -> tuple[str, Stage]:
        database = databases.new(kind)
        with _opened(database) as client:
            return database, populated(client)

    return cache(fill)


@contextmanager
def _copied(databases: Databases, prepared: Any, kind: str) -> Iterator[Stage]:
    database, stage = prepared(kind)
    with _opened(databases.copy(database)) as client:
        yield stage._replace(client=client)


@pytest.fixture(scope="module", params=KINDS if SOAK else ["sqlite"])
def stage(request: pytest.FixtureRequest, databases: Databases, prepared: Any) -> Iterator[Stage]:
    with _copied(databases, prepared, request.param) as copied:
        door.app = copied.client.app
        yield copied
        door.app = None


@pytest.fixture(scope="module", params=KINDS)
def either(request: pytest.FixtureRequest, databases: Databases, prepared: Any) -> Iterator[Stage]:
    with _copied(databases, prepared, request.param) as copied:
        yield copied


examples = settings(
    deadline=None,
    derandomize=not SOAK,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


def _aim(case: Case[Any], known: dict[str, list[str]], turn: int) -> None:
    """Let identifiers that could be any be those of things that are there."""
    for name, value in dict(case.path_parameters or {}).items():
        if known.get(name) and isinstance(value, str) and re.fullmatch("[0-9a-f]{16}", value):
            case.path_parameters[name] = known[name][turn % len(known[name])]
        if name == "number" and isinstance(value, int) and 1 <= value <= 1_000_000 and turn % 4:
            case.path_parameters[name] = 1


def _asked(case: Case[Any], stage: Stage, who: str | None) -> None:
    turn = sum(json.dumps(str(case.path_parameters)).encode()) + len(str(case.body))
    _aim(case, stage.known, turn)
    headers = {} if who is None else {"Authorization": f"Bearer {stage.tokens[who]}"}
    case.call_and_validate(headers=headers)


@of_analyst.parametrize()  # type: ignore[untyped-decorator]
@examples
def test_for_the_analyst(case: Case[Any], stage: Stage) -> None:
    _asked(case, stage, "Ana")


@of_provider.parametrize()  # type: ignore[untyped-decorator]
@examples
def test_for_a_provider(case: Case[Any], stage: Stage) -> None:
    _asked(case, stage, "Ash")


@of_nobody.parametrize()  # type: ignore[untyped-decorator]
@examples
def test_for_nobody(case: Case[Any], stage: Stage) -> None:
    _asked(case, stage, None)


NASTY = {
    "half of a pair": rb'"\ud800"',
    "NUL": rb'"a\u0000b"',
    "no UTF-8": b'"\xff"',
    "turned around": rb'"\u202e"',
    "beyond the plane": b'"\xf0\x9f\x98\x80"',
    "infinite": b"1e999",
    "not a number": b"NaN",
    "long number": b"1" * 5000,
    "deep": b"[" * 50_000,
}
STATISTICS = b'{"kind":"troth summary","format":2,"family":"Bernoulli","rows":1,"summary":[0,1],'


@pytest.mark.parametrize("what", NASTY)
def test_no_text_breaks_a_database(either: Stage, what: str) -> None:
    x = NASTY[what]
    draft, running, _, _, daily = (f"/campaigns/{key}" for key in either.known["campaign"])
    model = b'"model":{"family":"Bernoulli","columns":["a"],"prior":{"alpha":1,"beta":1}}'
    head = b'"campaign":{"name":"k","budget":"1"},'
    digest = b'"digest":"sha256:' + b"0" * 64 + b'"'
    requests = [
        ("", "/tokens", b'{"name":' + x + b',"password":' + x + b"}"),
        ("", "/tokens", b'{"name":"Ana","password":"' + PASSWORD.encode() + b'","label":' + x + b"}"),
        ("", "/invitations", b'{"invitation":' + x + b',"name":' + x + b"}"),
        ("Ana", "/campaigns", b'{"terms":{"campaign":{"name":' + x + b',"budget":"10"},' + model + b"}}"),
        ("Ana", "/campaigns", b'{"terms":{"data":{"providers":["a",' + x + b"]}," + head + model + b"}}"),
        ("Ana", "/campaigns", b'{"terms":{' + (x if x[:1] == b'"' else b'"x"') + b":" + x + b"}}"),
        ("Ana", f"{draft}/providers", b'{"name":' + x + b',"identity":' + x + b',"group":' + x + b"}"),
        ("Ana", f"{daily}/rounds", b'{"day":' + x + b',"deadline":' + x + b"}"),
        ("Ash", f"{running}/rounds/1/submissions/statistics", STATISTICS + b'"provider":' + x + b"," + digest + b"}"),
        ("Ash", f"{running}/rounds/1/submissions/statistics", STATISTICS + b'"provider":"Ash","digest":' + x + b"}"),
        ("Ash", f"{running}/rounds/1/submissions/{either.known['submission'][0]}/confirm", b'{"replaces":' + x + b"}"),
    ]  # fmt: skip
    for who, path, body in requests:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {either.tokens.get(who, '')}"}
        answer = either.client.post(f"/api/v1{path}", content=body, headers=headers)
        assert answer.status_code < 500, (path, body[:80])
        answer.json()


@pytest.mark.parametrize("name", ["%00.csv", "%ff.csv", "%ed%a0%80.csv", "a.csv%0a", "..", "%F0%9F%98%80.csv"])
def test_no_file_name_breaks_a_database(either: Stage, name: str) -> None:
    path = f"/api/v1/campaigns/{either.known['campaign'][1]}/rounds/1/submissions/file?name={name}"
    headers = {"Authorization": f"Bearer {either.tokens['Ash']}"}
    answer = either.client.post(path, content=b"improved\n1\n0\n", headers=headers)
    assert answer.status_code in (201, 415), answer.text


def test_no_day_comes_after_the_last(either: Stage) -> None:
    created = either.call("Ana", "POST", "/campaigns", json={"terms": DAILY})
    base = f"/campaigns/{created['id']}"
    for name in NAMES:
        either.call("Ana", "POST", f"{base}/providers", json={"name": name, "identity": "known"})
    headers = {"Authorization": f"Bearer {either.tokens['Ana']}"}
    for wrong in ({"day": 10**12}, {"deadline": "0999-01-01T00:00:00Z"}, {"deadline": "9999-12-31T23:59:59-10:00"}):
        assert either.client.post(f"/api/v1{base}/rounds", json=wrong, headers=headers).status_code == 422
    either.call("Ana", "POST", f"{base}/rounds", json={"day": "9999-12-31"})
    either.call("Ana", "POST", f"{base}/rounds/1/close", json={})
    answer = either.client.post(f"/api/v1{base}/rounds", json={}, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (409, "no day comes after 9999-12-31")


def test_a_method_that_an_address_does_not_take(either: Stage) -> None:
    base = f"/api/v1/campaigns/{either.known['campaign'][1]}"
    headers = {"Authorization": f"Bearer {either.tokens['Ash']}"}
    for path, allowed in (
        (base, "GET"),
        (f"{base}/rounds", "GET, POST"),
        (f"{base}/rounds/1/submissions/file", "POST"),
    ):
        answer = either.client.request(
            "DELETE" if path != f"{base}/rounds/1/submissions/file" else "GET", path, headers=headers
        )
        assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)


def test_somebody_elses_ledger_is_not_there(either: Stage) -> None:
    headers = {"Authorization": f"Bearer {either.tokens['Ana']}"}
    assert either.client.post(f"/api/v1/campaigns/{'0' * 16}/verify", headers=headers).status_code == 404


def test_who_may_join_with_a_token(either: Stage) -> None:
    created = either.call("Ana", "POST", "/campaigns", json={"terms": TERMS})
    path = f"/campaigns/{created['id']}/providers"
    body = {"invitation": either.call("Ana", "POST", path, json={"name": "Ash", "identity": "x"})["invitation"]}
    narrow = {"name": "Ash", "password": PASSWORD, "scopes": ["read", "submit"]}
    tokens = [either.client.post("/api/v1/tokens", json=narrow).json()["token"], either.tokens["Ana"]]
    for token, message in zip(tokens, ("lacks the scope", "signed in as an analyst"), strict=True):
        answer = either.client.post("/api/v1/invitations", json=body, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 403
        assert message in answer.json()["error"]
    assert either.client.post("/api/v1/invitations", json=body).status_code == 422
    assert either.call("Ash", "POST", "/invitations", json=body)["name"] == "Ash"


def test_the_document_says_who_needs_a_token() -> None:
    plain = of_analyst.raw_schema
    documented = {
        f"{method.upper()} {path}": "security" in operation
        for path, item in plain["paths"].items()
        for method, operation in item.items()
    }
    assert documented == {line: bool(access.roles) for line, access in API.items() if "openapi.json" not in line}
    names = [operation["operationId"] for item in plain["paths"].values() for operation in item.values()]
    assert len(set(names)) == len(names)
    for item in plain["paths"].values():
        for one in item.values():
            good = [answer for status, answer in one["responses"].items() if status.startswith("2")]
            kinds = [kind for answer in good for kind in answer.get("content", {}).values()]
            assert "204" in one["responses"] or (kinds and all(kind["schema"] for kind in kinds))


def test_what_does_not_fit_its_model_is_not_sent(either: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "health_view", lambda _: {"status": "ok", "version": "1", "secret": "x"})
    answer = either.client.get("/api/v1/health")
    assert (answer.status_code, "secret" in answer.text) == (500, False)
