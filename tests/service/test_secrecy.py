"""While a round is open nothing that a provider can see depends on its peers: not their number, data or timing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import pytest
from sqlalchemy import event, update

from registry import SOAK
from service.databases import Databases, in_turn, one_system, opened
from service.world import World, make_world, statistics
from troth.campaigns.terms import Campaign
from troth.service import accounts, views
from troth.service.access import API, COOKIE
from troth.service.campaigns import digest_of_terms, terms_for
from troth.service.pages import ACCESS as PAGES
from troth.service.rounds import count_reports
from troth.service.schema import rounds
from troth.service.store import after

OWN = {
    "an identifier": r"\b[0-9a-f]{16}\b",
    "a digest": r"\b[0-9a-f]{64}\b",
    "a time": r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( UTC|Z)?",
    "a secret": r"(?<![\w-])[\w-]{43,}(?![\w-])",
}
PHASES = ("alone", "peers have submitted", "peers have confirmed", "closed", "paid")
FEW, MANY = ["Birch", "Elm", "Fir"], [*("BCDEFGH" if SOAK else "BCD"), "Birch", "Elm", "Fir", "Oak"]


class Look(NamedTuple):
    """What a provider gets to see of a request: also how long it takes, as the statements that it waits for."""

    status: int
    text: str
    size: int
    headers: tuple[tuple[str, str], ...]
    statements: tuple[str, ...]


@contextmanager
def statements_of(world: World) -> Iterator[list[str]]:
    statements: list[str] = []

    def note(*arguments: Any) -> None:
        statements.append(arguments[2])

    event.listen(world.store.engine, "before_cursor_execute", note)
    yield statements
    event.remove(world.store.engine, "before_cursor_execute", note)


def masked(text: str) -> str:
    for what, pattern in OWN.items():
        text = re.sub(pattern, f"<{what}>", text)
    return text


def look(world: World, method: str, path: str, session: str, **sent: Any) -> Look:
    client = world.client()
    if path.startswith("/api/"):
        sent["headers"] = {**world.headers("Ash"), **sent.get("headers", {})}
    else:
        client.cookies.set(COOKIE, session)
    with statements_of(world) as statements:
        answer = client.request(method, path, follow_redirects=False, **sent)
    headers = tuple(sorted((name, masked(value)) for name, value in answer.headers.items()))
    return Look(answer.status_code, masked(answer.text), len(answer.content), headers, tuple(statements))


def paths(world: World, submission: str) -> list[str]:
    """Return every address to read of the table, for the provider's own objects and for others'."""
    all_paths = []
    for route in sorted([*API, *PAGES]):
        method, path = route.split(" ")
        if method != "GET":
            continue
        for number in ("1", "2"):
            for mine in (submission, "0" * 16):
                values = {"campaign": world.campaign, "number": number, "submission": mine, "member": "0" * 16}
                all_paths.append(re.sub(r"{(\w+)(:\w+)?}", lambda match: values.get(match.group(1), "x"), path))  # noqa: B023
    return list(dict.fromkeys(all_paths))


def looks(world: World, submission: str, only: str = "") -> dict[str, Look]:
    """Return all that Ash can look at, or what lies below an address, and how it is refused what it may not do."""
    with world.store.write() as tx:
        session = accounts.start_session(tx, world.providers["Ash"].account)
    by_path = {}
    for path in paths(world, submission):
        if only not in path:
            continue
        name = path.replace(world.campaign, "campaign").replace(submission, "submission")
        by_path[name] = look(world, "GET", path, session)
    base = f"{world.base}/rounds/1/submissions"
    refused = {
        "as another": ("statistics", statistics("Birch", 1, 2)),
        "as nobody": ("statistics", statistics("Hazel", 1, 2)),
        "impossible": ("statistics", {**statistics("Ash", 1, 2), "rows": 7}),
        "twice": (f"{submission}/confirm", {"replaces": "0" * 16}),
        "not mine": (f"{'0' * 16}/confirm", {}),
    }
    for what, (path, body) in refused.items():
        by_path[what] = look(world, "POST", f"{base}/{path}", session, json=body)
    by_path["the receipt"] = look(world, "POST", f"{base}/{submission}/confirm", session, json={})
    return by_path


def prepare(world: World, phase: str) -> str:
    """Bring a world to a phase; Ash has confirmed a report and sent another submission."""
    peers = [name for name in world.providers if name != "Ash"]
    submission = world.report("Ash", 3, 4)
    world.submit("Ash", 4, 3)
    reached = PHASES.index(phase)
    for place, name in enumerate(peers):
        if reached == 1 and place % 2:
            world.submit(name, 2 + place % 3, 3)
        elif reached >= 2:
            world.report(name, 2 + place % 3, 3)
    if reached == 3:  # closed by its deadline, and the clock has not come by
        with world.store.write() as tx:
            tx.execute(update(rounds).values(deadline=after(seconds=-60)))
    elif reached == 4:
        world.close()
        assert world.round().state == "paid"
    return submission


def answers_by_path(databases: Databases, kind: str, names: list[str], phase: str, only: str = "") -> dict[str, Look]:
    url = databases.new(kind)
    groups = {"B": "pair", "C": "pair"} if "C" in names else None
    with opened(url) as store:
        world = make_world(store, ["Ash", *names], groups=groups, share_ledger=True)
        by_path = looks(world, prepare(world, phase), only)
    databases.give_back(url)
    return by_path


@pytest.fixture(scope="module")
def few_alone(databases: Databases) -> Callable[[str], dict[str, Look]]:
    """What Ash sees of a round to which only Ash has reported, among few; looked at once."""
    return cache(lambda kind: answers_by_path(databases, kind, FEW, "alone"))


@pytest.mark.parametrize(("kind", "phase"), in_turn(PHASES[1:]))
def test_nothing_tells_of_peers(databases: Databases, few_alone: Any, kind: str, phase: str) -> None:
    """Few and many peers, silent or busy, look the same; a phase is compared with itself where the round has ended."""
    ended = phase in ("closed", "paid")
    few = answers_by_path(databases, kind, FEW, phase) if ended else few_alone(kind)
    many = answers_by_path(databases, kind, MANY, phase)
    assert few.keys() == many.keys()
    for what, answer in few.items():
        for part in Look._fields:
            assert getattr(answer, part) == getattr(many[what], part), f"{part} of {what}"
    text = " ".join(answer.text for what, answer in many.items() if what != "as another")
    assert not [name for name in FEW if re.search(rf"\b{name}\b", text)]
    assert {answer.status for answer in many.values()} >= {200, 403, 404, 409} | (set() if ended else {422})
    assert not [what for what, answer in many.items() if answer.status >= 500]


def test_naming_a_peer_is_refused_like_naming_nobody(databases: Databases, kind: str) -> None:
    by_path = answers_by_path(databases, kind, FEW, "peers have confirmed", only="nothing")
    there, none = by_path["as another"], by_path["as nobody"]
    assert there.text.replace("Birch", "Hazel") == none.text
    assert (there.status, there.statements) == (none.status, none.statements)


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_a_view_that_counts_would_be_seen(databases: Databases, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even one that does not show what it counts: a provider would wait for it."""
    original = views.joined_rounds

    def telling(tx: Any, member: Any, rows: Any) -> Any:
        for row in rows:
            count_reports(tx, row.campaign)
        return original(tx, member, rows)

    before = answers_by_path(databases, kind, FEW, "alone", only="/rounds/1")
    monkeypatch.setattr(views, "joined_rounds", telling)
    with_count = answers_by_path(databases, kind, FEW, "alone", only="/rounds/1")
    assert [what for what in before if before[what] != with_count[what]]
    assert [answer.status for answer in before.values()] == [answer.status for answer in with_count.values()]


def test_terms_are_shown_without_what_describes_other_providers() -> None:
    terms = {
        "campaign": {"name": "clinics", "budget": "100.00"},
        "model": {
            "family": "Normal",
            "columns": ["x"],
            "prior": {"mean": 0, "scale": 1, "noise": 1},
            "providers": {"Ash": {"noise": 2}, "Birch": {"noise": 3}},
        },
        "mechanism": {"rule": "SyntheticPeers"},
        "data": {"provider": "who", "providers": ["Ash", "Birch", "Elm"]},
        "groups": {"hills": ["Birch", "Elm"]},
        "weights": {"Ash": 0.5, "Birch": 0.3, "Elm": 0.2},
    }
    campaign = Campaign.from_dict(terms)
    for name, own in (("Ash", {"Ash": {"noise": 2}}), ("Elm", {})):
        shown = terms_for(campaign, name)
        assert {"groups", "weights"}.isdisjoint(shown)
        assert shown["model"].get("providers", {}) == own
        assert shown["data"] == {"provider": "who"}
        assert not any(other in json.dumps(shown) for other in {"Ash", "Birch", "Elm", "hills"} - {name})
    assert digest_of_terms(campaign, "Ash") != digest_of_terms(campaign, "Elm")
