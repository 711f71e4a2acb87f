"""Before money moves: the service judges the model, stops if it does not fit, and runs dry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import troth
from service.databases import opened
from service.test_pages import Browser
from service.world import World, make_world, payments_of
from troth.campaigns.ledger import Ledger
from troth.service import accounts, campaigns, settling
from troth.service.errors import ConflictError

NAMES = ("Ash", "Birch", "Elm", "Fir", "Oak")
ALIKE = dict(zip(NAMES, ((30, 10), (28, 12), (31, 9), (29, 11), (30, 10)), strict=True))
ODD = {**ALIKE, "Oak": (1, 39)}


@pytest.fixture(name="world")
def _world(database: str) -> Iterator[World]:
    with opened(database) as store:
        yield make_world(store, NAMES)


def test_a_model_that_does_not_fit_pays_nobody_until_it_is_told_to(world: World) -> None:
    world.report_all(ODD)
    client, analyst = world.client(), world.headers("Ana")
    stopped = client.post(f"{world.base}/rounds/1/close", json={}, headers=analyst).json()
    assert stopped["state"] == "closed"
    assert stopped["verdict"]["model"] == "does not fit"
    assert stopped["verdict"]["odd_reports"] == ["Oak"]
    assert "without the data of Oak it fits" in stopped["problem"]
    assert payments_of(world.store, world.campaign) == {}
    paid = client.post(f"{world.base}/rounds/1/close", json={"anyway": True}, headers=analyst).json()
    assert paid["state"] == "paid"
    assert len(payments_of(world.store, world.campaign)) == 5


def test_a_dry_run_changes_nothing(world: World) -> None:
    world.report_all(ALIKE)
    client, analyst = world.client(), world.headers("Ana")
    would = client.post(f"{world.base}/rounds/1/dry-run", json={}, headers=analyst).json()
    assert would["verdict"]["model"] == "fits"
    assert [each["provider"] for each in would["payments"]] == list(NAMES)
    assert world.round().state == "open"
    assert payments_of(world.store, world.campaign) == {}
    assert client.post(f"{world.base}/rounds/1/dry-run", json={}, headers=world.headers("Ash")).status_code == 403
    paid = client.post(f"{world.base}/rounds/1/close", json={}, headers=analyst).json()
    assert (paid["state"], paid["verdict"]["model"]) == ("paid", "fits")


def test_the_close_page_runs_dry_and_pays_anyway(world: World) -> None:
    world.report_all(ODD)
    client = world.client()
    browser = Browser(client.app)
    browser.client = client
    with world.store.write() as tx:
        client.cookies.set("troth_session", accounts.start_session(tx, world.analyst.account))
    page = f"/campaigns/{world.campaign}/rounds/1"
    browser.get(f"{page}/close")
    dry = browser.post(f"{page}/dry-run")
    assert "What would be paid" in dry.text
    assert "It does not fit." in dry.text
    assert 'name="anyway"' in dry.text
    stopped = browser.post(f"{page}/close")
    assert "This round could not be paid" in stopped.text
    assert "Pay anyway" in stopped.text
    assert "telling the truth pays best is not supported" in stopped.text.lower()
    paid = browser.post(f"{page}/close", {"anyway": "on"})
    assert "Publish" in paid.text
    assert f'href="/campaigns/{world.campaign}/report.html"' in paid.text


def test_names_differ_by_more_than_capitals_and_the_revoked_are_not_joined(world: World) -> None:
    terms = {
        "campaign": {"name": "more", "budget": "10.00", "about": "One row a patient."},
        "model": {"family": "Bernoulli", "columns": ["x"], "prior": {"alpha": 1, "beta": 1}},
    }
    with world.store.write() as tx:
        campaign = campaigns.create_campaign(tx, world.analyst, terms)
        member = campaigns.add_member(tx, world.analyst, campaign, "North Clinic", "in person")
        with pytest.raises(ConflictError, match="'North Clinic' in this campaign already, and names must differ"):
            campaigns.add_member(tx, world.analyst, campaign, "north clinic ", "in person")
        link = campaigns.invite(tx, world.analyst, campaign, member)
    client = world.client()
    assert "One row a patient." in client.get(f"/join/{link}").text
    with world.store.write() as tx:
        campaigns.revoke(tx, world.analyst, world.campaign, world.members["Oak"])
    shown = client.get(world.base, headers=world.headers("Ana")).json()
    assert (shown["joined"], shown["providers"]) == (4, 4)
    wrong = client.get(f"/join/{'a' * 32}")
    assert wrong.status_code == 404
    assert "This link does not work" in wrong.text
    assert "/sign-in" in wrong.text


def test_a_provider_reads_that_its_report_counts_until_payments_are_published(world: World) -> None:
    world.report_all(ALIKE)
    world.close()
    client = world.client()
    with world.store.write() as tx:
        client.cookies.set("troth_session", accounts.start_session(tx, world.providers["Ash"].account))
    text = client.get(f"/campaigns/{world.campaign}/rounds/1").text
    assert "your report</a> counts" in text
    assert "once it is published" in text
    assert "once published" in client.get(f"/campaigns/{world.campaign}").text


def test_a_check_that_takes_too_much_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise troth.TrothError("out of time")

    monkeypatch.setattr(settling.SANDBOX, "run", refuse)
    plain: dict[str, Any] = {
        "campaign": {"name": "x", "budget": "1.00"},
        "model": {"family": "Bernoulli", "columns": ["x"]},
    }
    campaign = troth.Campaign.from_dict({**plain, "model": {**plain["model"], "prior": {"alpha": 1, "beta": 1}}})
    verdict = settling.judge(campaign, Ledger())
    assert verdict["model"] == "not checked"
    assert "more time or memory" in verdict["meaning"]
