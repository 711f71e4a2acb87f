"""A service with a campaign and its members, created directly in the database."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import select, update

from troth.operations import SCOPES
from troth.service import accounts, campaigns, incoming, limited_payments, rounds, settlement
from troth.service.accounts import User
from troth.service.app import Settings, create_app
from troth.service.schema import members, tokens
from troth.service.store import Store, now
from troth.service.uploads import Upload, read_upload

TERMS: dict[str, Any] = {
    "campaign": {"name": "clinics", "budget": "1000.00", "currency": "EUR"},
    "model": {"family": "Bernoulli", "columns": ["improved"], "prior": {"alpha": 1, "beta": 1}},
    "mechanism": {"rule": "SyntheticPeers", "draws": 4},
}
NAMES = ("Ash", "Birch", "Elm")


def statistics(provider: str, ones: int, zeros: int, day: Any = None) -> dict[str, Any]:
    """Return the statistics file that a provider submits instead of rows."""
    digest = "sha256:" + sha256(f"{provider} {ones} {zeros}".encode()).hexdigest()
    core = {"rows": ones + zeros, "summary": [zeros, ones]}
    body = core if day is None else {"days": [{"day": day, **core}]}
    return {
        "kind": "troth summary",
        "format": 2,
        "provider": provider,
        "family": "Bernoulli",
        "digest": digest,
        **body,
    }


@lru_cache(maxsize=1)
def one_app() -> FastAPI:
    """Return the application, created once because this and its first request are slow."""
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Settings(str(Path(folder) / "empty.db"), tick=0, hosts=("testserver",)))
        app.state.store.close()
    return app


class Door:
    """The application on a given database."""

    _lock = threading.Lock()

    def __init__(self, store: Store) -> None:
        self.store = store
        with self._lock:
            self.app = one_app()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.app.state.store = self.store
        await self.app(scope, receive, send)


@dataclass
class World:
    """A campaign, its analyst and its providers, with API tokens by name."""

    store: Store
    analyst: User
    campaign: str
    providers: dict[str, User] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def base(self) -> str:
        return f"/api/v1/campaigns/{self.campaign}"

    def headers(self, name: str, key: str | None = None) -> dict[str, str]:
        """Return the headers of an authenticated request."""
        keyed = {} if key is None else {"Idempotency-Key": key}
        return {"Authorization": f"Bearer {self.tokens[name]}", **keyed}

    def client(self) -> TestClient:
        """Return a client of the service in this process; exceptions of the service become answers."""
        return TestClient(Door(self.store), raise_server_exceptions=False)

    def open(self, day: Any = None, deadline: str | None = None) -> int:
        with self.store.write() as tx:
            return rounds.open_round(tx, self.analyst, self.campaign, day, deadline)

    def submit(self, name: str, ones: int, zeros: int, number: int = 1) -> str:
        """Send statistics and return the submission."""
        who = self.providers[name]
        with self.store.read() as tx:
            day = rounds.find_round(tx, self.campaign, number).day
        plain = statistics(name, ones, zeros, day)
        upload = read_statistics(self.store, who, self.campaign, plain, number)
        with self.store.write() as tx:
            return rounds.add_upload(tx, who, self.campaign, number, upload)

    def report(self, name: str, ones: int, zeros: int, number: int = 1, replaces: str | None = None) -> str:
        """Send statistics, confirm them and return the submission."""
        submission = self.submit(name, ones, zeros, number)
        with self.store.write() as tx:
            rounds.confirm(tx, self.providers[name], self.campaign, number, submission, replaces)
        return submission

    def report_all(self, counts: Mapping[str, tuple[int, int]], number: int = 1) -> None:
        for name, (ones, zeros) in counts.items():
            self.report(name, ones, zeros, number)

    def close(self, number: int = 1, *, final: bool = False) -> bool:
        return settlement.close_round(self.store, self.analyst, self.campaign, number, final=final)

    def reopen(self, number: int) -> None:
        with self.store.write() as tx:
            settlement.reopen(tx, self.analyst, self.campaign, number)

    def reports(self, number: int = 1) -> dict[str, str]:
        """Return the time of confirmation by member."""
        with self.store.read() as tx:
            reporters = rounds.reporters(tx, rounds.find_round(tx, self.campaign, number).id)
        return {member: row.confirmed for member, row in reporters.items()}

    def round(self, number: int = 1) -> Any:
        with self.store.read() as tx:
            return rounds.find_round(tx, self.campaign, number)


def read_statistics(store: Store, who: User, campaign: str, plain: Any, number: int = 1) -> Upload:
    """Read statistics as the service reads an upload."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(json.dumps(plain).encode())
        file.flush()
        with store.read() as tx:
            row, member = campaigns.joined(tx, who, campaign)
            day = rounds.find_round(tx, campaign, number).day
        terms = campaigns.terms_of(row)
        limited_payments._tried[terms.digest] = (10**6, 1e6)  # skip the trial payment
        return read_upload(terms, Path(file.name), incoming.STATISTICS, member.name, day)


def make_world(
    store: Store,
    names: tuple[str, ...] | list[str] = NAMES,
    terms: Mapping[str, Any] = TERMS,
    *,
    analyst: str = "Ana",
    opened: bool = True,
    groups: Mapping[str, str] | None = None,
    **options: Any,
) -> World:
    """Create an analyst, a campaign and providers that have joined, and open the first round."""
    with store.write() as tx:
        owner = accounts.create_account(tx, analyst, "analyst")
        who = User(owner, analyst, "analyst")
        campaign = campaigns.create_campaign(tx, who, dict(terms), **options)
        world = World(store, who, campaign)
        world.tokens[analyst] = accounts.create_token(tx, owner, "test", SCOPES, 30)[0]
        for name in names:
            world.members[name] = campaigns.add_member(
                tx, who, campaign, name, f"{name} in person", (groups or {}).get(name)
            )
            join(tx, world, name)
        if opened:
            rounds.open_round(tx, who, campaign)
        tx.execute(update(tokens).values(used=now()))
    return world


def join(tx: Any, world: World, name: str) -> None:
    """Give a member an account and a token."""
    account = accounts.create_account(tx, name, "provider")
    world.providers[name] = User(account, name, "provider")
    world.tokens[name] = accounts.create_token(tx, account, "test", SCOPES, 30)[0]
    tx.execute(update(members).where(members.c.id == world.members[name]).values(account=account, joined=now()))


def payments_of(store: Store, campaign: str) -> dict[tuple[Any, str], int]:
    """Return the payments of the ledger in minor units by day and provider; fail if any provider is paid twice."""
    from troth.results.pay import verify
    from troth.service.ledgers import load_file, load_ledger

    with store.read() as tx:
        ledger, file = load_ledger(tx, campaign), load_file(tx, campaign)
    if not ledger.lines:
        return {}
    result = verify(ledger, file=file)
    payments = [
        ((paid_round.day, entry.provider), entry.payment)
        for paid_round in result.rounds
        for entry in paid_round.payments
    ]
    assert len(payments) == len(dict(payments)), "a provider was paid twice"
    return dict(payments)


def dump(store: Store) -> str:
    """Return the contents of the database as text."""
    from troth.service.schema import metadata

    with store.read() as tx:
        return "\n".join(str(tuple(row)) for table in metadata.sorted_tables for row in tx.execute(select(table)))
