"""Who may do what: every kind of person at every route of the table, and what is not in the table is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import pytest
from fastapi import FastAPI
from sqlalchemy import update

from registry import SOAK
from service.databases import Databases, opened
from service.world import TERMS, World, make_world, one_app, statistics
from troth.operations import OPERATIONS, SCOPES
from troth.service import accounts, campaigns
from troth.service.access import API, COOKIE, check_table, routes_of
from troth.service.pages import ACCESS as PAGES
from troth.service.payouts import payout_id
from troth.service.schema import members, sessions, tokens
from troth.service.store import after, now

OPEN = {
    "GET /api/v1/openapi.json",
    "GET /api/v1/health",
    "POST /api/v1/tokens",
    "POST /api/v1/invitations",
    "POST /api/v1/passwords",
}
WITHOUT = tuple(f"without {scope}" for scope in SCOPES)
PEOPLE = (
    "nobody",
    "a stranger's token",
    "owner",
    "other analyst",
    "provider",
    "other provider",
    "removed provider",
    "expired",
    "revoked",
    "closed account",
    *(f"owner {lack}" for lack in WITHOUT),
    *(f"provider {lack}" for lack in WITHOUT),
)
BODIES: dict[str, Any] = {
    "POST /api/v1/campaigns": {"terms": TERMS},
    "PUT /api/v1/campaigns/{campaign}/terms": {"terms": TERMS},
    "POST /api/v1/campaigns/{campaign}/providers": {"name": "Yew", "identity": "seen"},
    "PUT /api/v1/campaigns/{campaign}/providers/{member}/group": {"group": None},
    "POST /api/v1/campaigns/{campaign}/payouts/{payout}/void": {"reason": "paid in cash"},
    "POST /api/v1/campaigns/{campaign}/rounds/{number}/submissions/statistics": statistics("Ash", 1, 2),
}
OWN = {"GET /api/v1/me", "GET /api/v1/tokens", "GET /api/v1/campaigns", "POST /api/v1/campaigns"}
"""Routes without an object in their path: everybody has their own."""


@dataclass
class Cast:
    """One campaign and everybody who has, or has not, to do with it."""

    world: World
    secrets: dict[str, str | None] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    submission: str = ""
    own_tokens: dict[str, str] = field(default_factory=dict)

    def path(self, route: str) -> str:
        values = {
            "campaign": self.world.campaign,
            "member": self.world.members["Ash"],
            "number": "1",
            "submission": self.submission,
            "token": self.own_tokens["owner"],
            "payout": payout_id(self.world.campaign, None, "Ash"),
            "secret": "A" * 43,
        }
        return re.sub(r"{(\w+)}", lambda match: values[match.group(1)], route.split(" ")[1])

    def visit(self, who: str, route: str) -> Any:
        """Ask for a page, or send its form, with a session."""
        client, session = self.world.client(), self.sessions.get(who, "")
        if session:
            client.cookies.set(COOKIE, session)
        method, path = route.split(" ")[0], self.path(route)
        form = {"csrf": sha256(f"csrf:{session}".encode()).hexdigest()}
        sent = {"files": {"nothing": b""}, "data": form} if path.endswith("/submissions") else {"data": form}
        return client.request(method, path, follow_redirects=False, **({} if method == "GET" else sent))

    def ask(self, who: str, route: str) -> Any:
        secret = self.secrets[who]
        headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        path, body = self.path(route), BODIES.get(route, {})
        if who == "removed provider" and "provider" in body:
            body = {**body, "provider": "Birch"}
        method = route.split(" ")[0]
        if path.endswith("/file"):
            return self.world.client().request(
                method, path + "?name=rows.csv", headers=headers, content=b"improved\n1\n"
            )
        path += "?since=0" if path.endswith("/head") else ""
        sent = {} if method in ("GET", "DELETE") else {"json": body}
        return self.world.client().request(method, path, headers=headers, **sent)


@pytest.fixture
def cast(databases: Databases, everybody: tuple[str, Cast]) -> Iterator[Cast]:
    """Return everybody on a database of their own: what one does is not there for the next."""
    prepared, people = everybody
    url = databases.copy(prepared)
    with opened(url) as store:
        yield replace(people, world=replace(people.world, store=store))
    databases.remove(url)


@pytest.fixture(scope="module")
def everybody(databases: Databases) -> tuple[str, Cast]:
    url = databases.new("sqlite")
    with opened(url) as store:
        world = make_world(store)
        cast_members = Cast(world, submission=world.submit("Ash", 1, 2))
        world.report("Elm", 1, 2)
        with store.write() as tx:
            stranger = accounts.create_account(tx, "Other", "analyst")
            mine = {"owner": world.analyst.account, "other analyst": stranger}
            mine["provider"] = world.providers["Ash"].account
            mine["other provider"] = accounts.create_account(tx, "Yew", "provider")
            mine["removed provider"] = world.providers["Birch"].account
            tx.execute(update(members).where(members.c.id == world.members["Birch"]).values(revoked=now()))
            for who, account in mine.items():
                cast_members.secrets[who], token = accounts.create_token(tx, account, who, SCOPES, 30)
                cast_members.own_tokens[who] = token.id
                cast_members.sessions[who] = accounts.start_session(tx, account)
            for who in ("owner", "provider"):
                for lack in SCOPES:
                    remaining = [scope for scope in SCOPES if scope != lack]
                    cast_members.secrets[f"{who} without {lack}"] = accounts.create_token(
                        tx, mine[who], "less", remaining, 30
                    )[0]
            ended = {"expired": {"expires": after(seconds=-1)}, "revoked": {"revoked": now()}}
            for who, values in ended.items():
                cast_members.secrets[who], token = accounts.create_token(tx, mine["owner"], who, SCOPES, 30)
                tx.execute(update(tokens).where(tokens.c.id == token.id).values(**values))
            closed = accounts.create_account(tx, "Closed", "analyst")
            cast_members.secrets["closed account"] = accounts.create_token(tx, closed, "closed", SCOPES, 30)[0]
            cast_members.sessions["closed account"] = accounts.start_session(tx, closed)
            cast_members.sessions["expired"] = accounts.start_session(tx, mine["owner"])
            ends = sessions.c.hash == accounts.digest(cast_members.sessions["expired"])
            tx.execute(update(sessions).where(ends).values(expires=after(seconds=-1)))
            cast_members.sessions["a stranger's token"] = "A" * 43
            from troth.service.schema import accounts as table

            tx.execute(update(table).where(table.c.id == closed).values(revoked=now()))
        cast_members.secrets["nobody"] = None
        cast_members.secrets["a stranger's token"] = "troth_" + "A" * 43
    return url, cast_members


def expected(who: str, route: str) -> set[int]:
    """Return what the table promises: 401, 403, 404, or anything but these."""
    access = API[route]
    fine = {200, 201, 204, 400, 409, 415, 422}
    if not access.roles:
        return fine | ({401} if route == "POST /api/v1/tokens" else {404} if "invitations" in route else set())
    if who in ("nobody", "a stranger's token", "expired", "revoked", "closed account"):
        return {401}
    role = "analyst" if who.startswith(("owner", "other analyst")) else "provider"
    if role not in access.roles:
        return {403}
    if who.endswith(f"without {access.scope}"):
        return {403}
    if route in OWN:
        return fine
    if "{token}" in route:
        return fine if who.startswith("owner") else {404}
    if who.startswith("other"):
        return {404}
    if "/payouts/{" in route:
        return {404}  # nothing has been paid yet
    if who == "removed provider":
        sends = route.startswith("POST") and "submissions" in route
        return {403} if sends and "{submission}" not in route else {403, 404} if "{submission}" in route else fine
    return fine


def _concerned(who: str, route: str) -> bool:
    """Whether somebody is told anything of their own there: a lack of one scope tells on routes that need it."""
    lack = who.partition(" without ")[2]
    return SOAK or not lack or route in OWN or API[route].scope == lack


def _order(route: str) -> tuple[int, str]:
    """Ask what ends things last: the round closes, the token that asks is revoked."""
    last = ("close", "finish", "DELETE", "revoke", "password", "sign-out")
    return next((place for place, word in enumerate(last, 1) if word in route), 0), route


@pytest.mark.parametrize("who", PEOPLE)
def test_everybody_at_every_route(cast: Cast, who: str) -> None:
    wrong = []
    routes = [route for route in sorted(API, key=_order) if _concerned(who, route)]
    assert len(routes) > len(OWN)
    for route in routes:
        answer = cast.ask(who, route)
        if answer.status_code not in expected(who, route):
            wrong.append((route, answer.status_code, answer.text[:200]))
    assert not wrong


VISITORS = ("nobody", "a stranger's token", "owner", "other analyst", "provider", "other provider", "removed provider")
OWN_PAGES = {"GET /", "GET /settings", "POST /settings/password", "POST /settings/tokens", "GET /results"}
OWN_PAGES |= {route for route in PAGES if "/campaigns/new" in route}


def expected_page(who: str, route: str) -> set[int]:
    """Return what a visitor may be told: to sign in, that it is not for them, that it is not there, or all else."""
    access, fine = PAGES[route], {200, 303, 400, 409, 413, 422}
    if not access.roles:
        return fine | ({401, 403, 404} if route.startswith("POST") or "{secret}" in route else set())
    if who in ("nobody", "a stranger's token", "expired", "closed account"):
        return {303, 401}
    role = "analyst" if who in ("owner", "other analyst") else "provider"
    if role not in access.roles:
        return {403}
    if route in OWN_PAGES:
        return fine
    if "{token}" in route:
        return fine if who == "owner" else {404}
    if who.startswith("other"):
        return {404}
    if who == "removed provider":
        return fine | {403} | ({404} if "{submission}" in route else set())
    return fine


@pytest.mark.parametrize("who", [*VISITORS, "expired", "closed account"])
def test_every_visitor_at_every_page(cast: Cast, who: str) -> None:
    wrong = []
    for route in sorted(PAGES, key=_order):
        if route.startswith("MOUNT"):
            continue
        answer = cast.visit(who, route)
        signing = answer.headers.get("location", "").startswith("/sign-in")
        refused = answer.status_code == 401 or (answer.status_code == 303 and signing)
        away = expected_page(who, route) == {303, 401}
        if answer.status_code not in expected_page(who, route) or (away and not refused):
            wrong.append((route, answer.status_code, answer.text[:200]))
    assert not wrong


def test_the_table_has_every_route_and_no_other() -> None:
    assert set(routes_of(one_app())) == {*API, *PAGES}
    assert one_app().state.access == {**API, **PAGES}
    assert {route for route, access in API.items() if not access.roles} == OPEN


IN_CAMPAIGN = "/campaigns/{campaign}"
IN_ROUND = f"{IN_CAMPAIGN}/rounds/{{number}}"
OF_PROVIDERS = {
    f"GET {IN_ROUND}/submissions",
    f"GET {IN_ROUND}/submissions/{{submission}}",
    f"GET {IN_ROUND}/tasks",
    f"POST {IN_ROUND}/submissions/file",
    f"POST {IN_ROUND}/submissions/statistics",
    f"POST {IN_ROUND}/submissions/{{submission}}/confirm",
}
OF_BOTH = {
    "GET /me",
    "GET /tokens",
    "DELETE /tokens/{token}",
    "GET /campaigns",
    f"GET {IN_CAMPAIGN}",
    f"GET {IN_CAMPAIGN}/campaign.toml",
    f"GET {IN_CAMPAIGN}/head",
    f"GET {IN_CAMPAIGN}/ledger",
    f"GET {IN_CAMPAIGN}/ledger.tasks.parquet",
    f"GET {IN_CAMPAIGN}/rounds",
    f"GET {IN_ROUND}",
    f"GET {IN_ROUND}/payments",
}
PAGES_OF_PROVIDERS = {
    "GET /results",
    f"GET {IN_ROUND}/payment",
    f"GET {IN_ROUND}/submissions/{{submission}}",
    f"POST {IN_ROUND}/submissions",
    f"POST {IN_ROUND}/submissions/{{submission}}/confirm",
}
PAGES_OF_BOTH = {
    "GET /",
    "GET /settings",
    "POST /settings/password",
    "POST /settings/tokens",
    "POST /settings/tokens/{token}/revoke",
    f"GET {IN_CAMPAIGN}",
    f"GET {IN_CAMPAIGN}/campaign.toml",
    f"GET {IN_CAMPAIGN}/ledger.jsonl",
    f"GET {IN_CAMPAIGN}/ledger.tasks.parquet",
    f"GET {IN_ROUND}",
}
OPEN_PAGES = {
    "GET /assumed",
    "GET /docs",
    "GET /health",
    "MOUNT /static",
    *(f"{method} {path}" for path in ("/enter/{secret}", "/join/{secret}", "/sign-in") for method in ("GET", "POST")),
    "POST /sign-out",
}


def test_what_is_not_only_for_analysts_is_listed_here() -> None:
    """The table itself is what the tests above expect, so that its lines are checked here."""
    for table, prefix, providers, both, everybody in (
        (API, "/api/v1", OF_PROVIDERS, OF_BOTH, OPEN),
        (PAGES, "", PAGES_OF_PROVIDERS, PAGES_OF_BOTH, OPEN_PAGES),
    ):
        by_roles: dict[tuple[str, ...], set[str]] = {}
        for route, access in table.items():
            by_roles.setdefault(access.roles, set()).add(route if not access.roles else route.replace(prefix, "", 1))
        assert set(by_roles) == {(), ("analyst",), ("provider",), ("analyst", "provider")}
        assert by_roles[()] == everybody
        assert by_roles["provider",] == providers
        assert by_roles["analyst", "provider"] == both


@pytest.mark.parametrize("path", ["/api/v1/secret", "/secret"])
def test_a_route_that_is_missing_from_the_table_does_not_start(path: str) -> None:
    app = FastAPI(openapi_url="/api/v1/openapi.json", docs_url=None, redoc_url=None)
    app.router.routes = [*one_app().router.routes]
    check_table(app, one_app().state.access)

    @app.get(path)
    def secret() -> str:
        return "a secret"

    with pytest.raises(RuntimeError, match=path):
        check_table(app, one_app().state.access)
    app.router.routes = app.router.routes[1:-1]
    with pytest.raises(RuntimeError, match="surplus"):
        check_table(app, one_app().state.access)


def test_other_peoples_objects_cannot_be_told_from_none(database: str) -> None:
    """The answer about somebody else's campaign, provider, submission or token is that about one that never was."""
    with opened(database) as store:
        world = make_world(store)
        other_world = make_world(store, ["Fir", "Oak"], analyst="Bob")
        submission = other_world.submit("Fir", 1, 2)
        nothing = "0" * 16
        client = world.client()
        for name, path in (
            ("Ana", "/api/v1/campaigns/{campaign}"),
            ("Ana", "/api/v1/campaigns/{campaign}/providers"),
            ("Ana", "/api/v1/campaigns/{campaign}/ledger"),
            ("Ash", "/api/v1/campaigns/{campaign}"),
            ("Ash", "/api/v1/campaigns/{campaign}/rounds/1"),
            ("Ash", f"{world.base}/rounds/1/submissions/{{submission}}"),
            ("Ash", "/api/v1/campaigns/{campaign}/rounds/1/submissions/{submission}"),
            ("Ana", f"{world.base}/rounds/1/payments/{{member}}"),
        ):
            ids = {"campaign": other_world.campaign, "submission": submission, "member": other_world.members["Fir"]}
            there = client.get(path.format(**ids), headers=world.headers(name))
            none = client.get(path.format(**dict.fromkeys(ids, nothing)), headers=world.headers(name))
            assert there.status_code == none.status_code != 200
            assert there.content == none.content


def test_nobody_acts_on_anothers_provider_or_submission(database: str) -> None:
    with opened(database) as store:
        world = make_world(store, opened=False)
        other_world = make_world(store, ["Fir", "Oak"], analyst="Bob", opened=False)
        client, member = world.client(), other_world.members["Fir"]
        for method, path, body in (
            ("PUT", "group", {"group": "x"}),
            ("POST", "invitation", None),
        ):
            answer = client.request(
                method, f"{world.base}/providers/{member}/{path}", headers=world.headers("Ana"), json=body
            )
            assert answer.status_code == 404
        gone = client.delete(f"{world.base}/providers/{member}", headers=world.headers("Ana"))
        assert gone.status_code == 404
        world.open()
        submission = world.submit("Ash", 1, 2)
        path = f"{world.base}/rounds/1/submissions/{submission}/confirm"
        assert client.post(path, json={}, headers=world.headers("Elm")).status_code == 404
        assert world.reports() == {}


def test_a_session_opens_no_api_and_a_token_no_page(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        with store.write() as tx:
            secret = accounts.start_session(tx, world.analyst.account)
        client = world.client()
        client.cookies.set("troth_session", secret)
        assert client.get("/api/v1/me").status_code == 401
        assert world.client().get("/api/v1/me", headers={"Authorization": f"Bearer {secret}"}).status_code == 401


def test_who_is_invited_later_sees_nothing_before_joining(database: str) -> None:
    with opened(database) as store:
        world = make_world(store, opened=False)
        with store.write() as tx:
            world.members["Fir"] = campaigns.add_member(tx, world.analyst, world.campaign, "Fir", "seen")
            account = accounts.create_account(tx, "Fir", "provider")
            world.tokens["Fir"] = accounts.create_token(tx, account, "test", SCOPES, 30)[0]
        assert world.client().get(world.base, headers=world.headers("Fir")).status_code == 404
        with store.write() as tx:
            tx.execute(update(members).where(members.c.id == world.members["Fir"]).values(account=account))
        assert world.client().get(world.base, headers=world.headers("Fir")).status_code == 200


def test_what_a_token_that_only_reads_may_send() -> None:
    by_scope: dict[Any, set[str]] = {}
    for operation in OPERATIONS:
        if operation.method != "GET":
            by_scope.setdefault(operation.access.scope, set()).add(operation.name)
    assert by_scope["read"] == {"verify_ledger"}
    assert by_scope["submit"] == {"submit_file", "submit_statistics", "confirm_submission"}
    assert by_scope[None] == {"create_token", "accept_invitation", "choose_password"}


def test_a_token_accepts_an_invitation_only_with_the_scope_to_manage(database: str) -> None:
    with opened(database) as store:
        world, other_world = make_world(store), make_world(store, (), analyst="Bob", opened=False)
        with store.write() as tx:
            member = campaigns.add_member(tx, other_world.analyst, other_world.campaign, "Fir", "seen")
            sent = {"invitation": campaigns.invite(tx, other_world.analyst, other_world.campaign, member)}
            ash = world.providers["Ash"].account
            some, all_of_them = (
                accounts.create_token(tx, ash, "test", scopes, 1)[0] for scopes in (SCOPES[:2], SCOPES)
            )
        statuses = [
            world.client()
            .post("/api/v1/invitations", json=sent, headers={"Authorization": f"Bearer {token}"})
            .status_code
            for token in (some, all_of_them)
        ]
        assert statuses == [403, 201]
