"""Before money moves: the service judges the model, stops if it does not fit, and runs dry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import troth
from service.databases import one_system, opened
from service.test_pages import Browser
from service.world import TERMS, World, make_world, payments_of, read_statistics
from troth.campaigns.records.ledger import Ledger
from troth.cli.service_lines import about_round, preview_lines, verdict_lines
from troth.results.verdict import unchecked_before
from troth.service import accounts, campaigns, limited_payments, rounds, settlement
from troth.service.errors import ConflictError, UnavailableError
from troth.service.sandbox import TimeLimitError

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
    answer = client.post(f"{world.base}/rounds/1/close", json={"anyway": True}, headers=analyst).json()
    assert answer["state"] == "paid"
    assert len(payments_of(world.store, world.campaign)) == 5


def test_pay_anyway_holds_for_one_attempt_alone(world: World) -> None:
    """It was said of the reports of that time: with others the model is judged again."""
    world.report("Oak", *ODD["Oak"])
    settlement.close_round(world.store, world.analyst, world.campaign, 1, anyway=True)
    assert "at least two providers" in world.round().problem
    world.reopen(1)
    world.report_all({name: counts for name, counts in ODD.items() if name != "Oak"})
    world.close()
    assert "the model does not fit" in str(world.round().problem)
    assert payments_of(world.store, world.campaign) == {}


def test_payments_that_cannot_be_judged_are_not_made(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("troth.service.settlement.judge", broken)
    world.report_all(ALIKE)
    stopped = world.client().post(f"{world.base}/rounds/1/close", json={}, headers=world.headers("Ana")).json()
    assert stopped["state"] == "closed"
    assert "something went wrong" in stopped["problem"]
    assert payments_of(world.store, world.campaign) == {}


def test_a_dry_run_changes_nothing(world: World) -> None:
    world.report_all(ALIKE)
    client, analyst = world.client(), world.headers("Ana")
    would = client.post(f"{world.base}/rounds/1/dry-run", json={}, headers=analyst).json()
    assert would["verdict"]["model"] == "fits"
    assert [entry["provider"] for entry in would["payments"]] == list(NAMES)
    assert world.round().state == "open"
    assert payments_of(world.store, world.campaign) == {}
    assert client.post(f"{world.base}/rounds/1/dry-run", json={}, headers=world.headers("Ash")).status_code == 403
    answer = client.post(f"{world.base}/rounds/1/close", json={}, headers=analyst).json()
    assert (answer["state"], answer["verdict"]["model"]) == ("paid", "fits")


@pytest.mark.parametrize("kind", one_system("sqlite"))
@pytest.mark.parametrize("draws", [True, False])
def test_a_dry_run_says_whether_its_amounts_are_those_that_are_paid(database: str, draws: bool) -> None:
    terms = TERMS if draws else {**TERMS, "mechanism": {"rule": "OneTime"}, "limits": {"rows": 50}}
    with opened(database) as store:
        world = make_world(store, NAMES, terms)
        world.report_all(ALIKE)
        client, analyst = world.client(), world.headers("Ana")
        would = client.post(f"{world.base}/rounds/1/dry-run", json={}, headers=analyst).json()
        shown = client.get(world.base, headers=analyst).json()
        browser = Browser(client.app)
        browser.client = client
        with store.write() as tx:
            client.cookies.set("troth_session", accounts.start_session(tx, world.analyst.account))
        browser.get(f"/campaigns/{world.campaign}/rounds/1/close")
        page = browser.post(f"/campaigns/{world.campaign}/rounds/1/dry-run").text
        said = "amounts paid will differ a little: the rule draws"
        assert would["draws"] == draws
        assert (said in page) == draws
        assert (said in "\n".join(preview_lines(shown, would))) == draws
        client.post(f"{world.base}/rounds/1/close", json={"anyway": True}, headers=analyst)
        paid = client.get(f"{world.base}/rounds/1/payments", headers=analyst).json()["payments"]
        amounts = [[entry["payment"] for entry in payments] for payments in (would["payments"], paid)]
        assert (amounts[0] != amounts[1]) == draws


def test_a_dry_run_of_which_nothing_is_paid_says_no_amounts() -> None:
    preview = {"payments": [], "total": "0.00", "draws": True, "verdict": None}
    assert "amounts" not in "\n".join(preview_lines({"currency": "EUR", "task": None}, preview))


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
    assert re.search(r"It does not fit\.</b> p = 0\.00\d\.", dry.text)
    assert 'name="anyway"' in dry.text
    stopped = browser.post(f"{page}/close")
    assert "This round could not be paid" in stopped.text
    assert "Pay anyway" in stopped.text
    assert "under a model that does not fit, lying may pay" in stopped.text.lower()
    answer = browser.post(f"{page}/close", {"anyway": "on"})
    assert "Publish" in answer.text
    assert f'href="/campaigns/{world.campaign}/report.html">page with all payments<' in answer.text


def test_names_differ_by_more_than_capitals_and_the_revoked_are_not_joined(world: World) -> None:
    terms = {
        "campaign": {"name": "more", "budget": "10.00", "about": "One row a patient."},
        "model": {"family": "Bernoulli", "columns": ["x"], "prior": {"alpha": 1, "beta": 1}},
    }
    with world.store.write() as tx:
        campaign = campaigns.create_campaign(tx, world.analyst, terms)
        member = campaigns.add_member(tx, world.analyst, campaign, "North Clinic", "in person")
        with pytest.raises(ConflictError, match="'North Clinic' in this campaign, and names must differ"):
            campaigns.add_member(tx, world.analyst, campaign, "north clinic ", "in person")
        link = campaigns.invite(tx, world.analyst, campaign, member)
    client = world.client()
    assert "One row a patient." in client.get(f"/join/{link}").text
    with world.store.write() as tx:
        campaigns.revoke(tx, world.analyst, world.campaign, world.members["Oak"])
    answer = client.get(world.base, headers=world.headers("Ana")).json()
    assert (answer["joined"], answer["providers"]) == (4, 4)
    for cut_off in ("a" * 32, link[:9], f"{link[:9]}…", "a" * 300):
        for kind in ("join", "enter"):
            wrong = client.get(f"/{kind}/{cut_off}")
            assert wrong.status_code == 404
            assert "This link does not work" in wrong.text
            assert "link is incomplete or unknown, has already been used" in wrong.text
            assert "/sign-in" in wrong.text


@pytest.mark.parametrize("counts", [ALIKE, ODD], ids=["paid", "stuck"])
def test_a_provider_reads_that_its_report_counts_until_payments_are_published(
    world: World, counts: dict[str, tuple[int, int]]
) -> None:
    """Whether the model fits depends on peers, so the sentence is the same in both cases."""
    world.report_all(counts)
    world.close()
    assert (world.round().problem is None) == (counts is ALIKE)
    client = world.client()
    with world.store.write() as tx:
        client.cookies.set("troth_session", accounts.start_session(tx, world.providers["Ash"].account))
    text = client.get(f"/campaigns/{world.campaign}/rounds/1").text
    assert "your report</a> counts" in text
    assert "the analyst checks the round and decides whether it can be paid" in text
    assert "once it is published" in text
    assert "once published" in client.get(f"/campaigns/{world.campaign}").text


def test_a_page_has_one_format_of_money_and_programs_another(world: World) -> None:
    client = world.client()
    with world.store.write() as tx:
        client.cookies.set("troth_session", accounts.start_session(tx, world.analyst.account))
    page = client.get(f"/campaigns/{world.campaign}").text
    assert "1,000.00" in page
    assert "1000.00" not in page.split("As a campaign file")[0]
    assert client.get(world.base, headers=world.headers("Ana")).json()["budget"] == "1000.00"


def test_revoking_says_what_happens_to_caps(world: World) -> None:
    with world.store.write() as tx:
        draft = campaigns.create_campaign(tx, world.analyst, TERMS)
        member = campaigns.add_member(tx, world.analyst, draft, "Yew", "in person")
    client = world.client()
    with world.store.write() as tx:
        client.cookies.set("troth_session", accounts.start_session(tx, world.analyst.account))
    running = f"{world.campaign}/providers/{world.members['Ash']}"
    for path, fresh in ((f"{draft}/providers/{member}", True), (running, False)):
        text = client.get(f"/campaigns/{path}/revoke").text
        assert ("Caps are fixed when the first round opens" in text) == fresh
        assert ("nobody's cap changes" in text) != fresh


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (TERMS["model"], "<code>improved</code> is 0 or 1"),
        ({**TERMS["model"], "categories": ["No", "Yes"]}, "<code>improved</code> is No or Yes"),
        (
            {"family": "Poisson", "columns": ["cars"], "prior": {"shape": 2, "rate": 1}},
            "is a whole number of at least 0",
        ),
    ],
    ids=["codes", "labels", "counts"],
)
@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_a_provider_reads_what_a_row_is(database: str, model: dict[str, Any], words: str) -> None:
    with opened(database) as store:
        world = make_world(store, terms={**TERMS, "model": model})
        client = world.client()
        with world.store.write() as tx:
            client.cookies.set("troth_session", accounts.start_session(tx, world.providers["Ash"].account))
        text = client.get(f"/campaigns/{world.campaign}/rounds/1").text
    assert "One row for each observation: " in text
    assert words in text


def fail_to_judge(monkeypatch: pytest.MonkeyPatch, error: troth.TrothError) -> None:
    """Let payments be computed, and the check of the model fail."""
    run = limited_payments.SANDBOX.run

    def refusing(function: Any, *arguments: Any, **options: Any) -> Any:
        if function is limited_payments._judge:
            raise error
        return run(function, *arguments, **options)

    monkeypatch.setattr(limited_payments.SANDBOX, "run", refusing)


def test_a_round_that_could_not_be_checked_says_so_before_and_after(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_to_judge(monkeypatch, TimeLimitError("it takes longer than 300 s"))
    world.report_all(ALIKE)
    client, analyst, why = world.client(), world.headers("Ana"), "more time or memory"
    browser = Browser(client.app)
    browser.client = client
    with world.store.write() as tx:
        client.cookies.set("troth_session", accounts.start_session(tx, world.analyst.account))
    page, api = f"/campaigns/{world.campaign}/rounds/1", f"{world.base}/rounds/1"
    assert "If the fit cannot be checked, closing pays" in browser.get(f"{page}/close").text
    assert "paid without a check" not in browser.seen.text
    dry = browser.post(f"{page}/dry-run").text
    assert "This round is paid without a check of the model" in dry
    assert why in dry
    assert "Better off with nothing" not in dry  # nobody knows
    would = client.post(f"{api}/dry-run", json={}, headers=analyst).json()["verdict"]
    assert (would["model"], would["below_empty_report"]) == ("not checked", None)
    assert why in would["unchecked"]
    closed = client.post(f"{api}/close", json={}, headers=analyst).json()
    assert closed["state"] == "paid"
    for state in ("paid", "published"):
        answer = client.get(api, headers=analyst).json()
        assert (answer["state"], answer["verdict"]["model"]) == (state, "not checked")
        assert why in answer["unchecked"]
        text = browser.get(page).text
        assert "Not checked." in text
        assert why in text
        assert "goes ahead even if the check cannot run" in text
        assert why in "\n".join([about_round(answer), *verdict_lines(answer["verdict"])])
        client.post(f"{api}/publish", headers=analyst)


def test_what_is_not_checked_for_want_of_a_place_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_judge(monkeypatch, UnavailableError("all places are taken"))
    verdict = limited_payments.judge(troth.Campaign.from_dict(TERMS), Ledger())
    assert verdict["model"] == "not checked"
    assert verdict["unchecked"] == "the check could not be run: all places are taken"


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_a_model_that_cannot_be_checked_is_said_so_while_the_round_is_open(database: str) -> None:
    """A likelihood that is known up to a factor leaves open what data are likely: none can be drawn to compare with."""
    likelihood = {"likelihood": [[0.9, 0.1], [0.2, 0.8]], "normalised": False}
    plain = {"family": "Finite", "columns": ["x"], "prior": [0.5, 0.5], **likelihood}
    rule = {"rule": "OneTime", "range": {"low": -30.0, "high": 30.0}}
    terms = {**TERMS, "model": plain, "limits": {"rows": 20}, "mechanism": rule}
    with opened(database) as store:
        world = make_world(store, terms=terms)
        client, page = world.client(), f"/campaigns/{world.campaign}/rounds/1"
        answer = client.get(f"{world.base}/rounds/1", headers=world.headers("Ana")).json()
        assert (answer["state"], answer["verdict"]) == ("open", None)
        assert "cannot draw data" in answer["unchecked"]
        assert "unchecked" not in client.get(f"{world.base}/rounds/1", headers=world.headers("Ash")).json()
        with world.store.write() as tx:
            client.cookies.set("troth_session", accounts.start_session(tx, world.analyst.account))
        for path in (page, f"{page}/close"):
            text = client.get(path).text
            assert "paid without a check of the model" in text
            assert "cannot draw data" in text
        assert unchecked_before(troth.Campaign.from_dict(TERMS)) == ""


def test_the_pages_say_how_many_candidates_are_left(database: str) -> None:
    """Three candidates, and so many rows that a report alone leaves one: the dry run and the paid round warn of it."""
    model = {"family": "LogisticCandidates", "columns": [], "target": "improved", "intercept": True}
    terms = {**TERMS, "model": {**model, "prior": {"coefficients": [[-1.4], [0.0], [1.4]]}}, "mechanism": {}}
    candidates = troth.models.LogisticCandidates([[-1.4], [0.0], [1.4]])
    with opened(database) as store:
        world = make_world(store, NAMES, terms)
        for name in NAMES:
            y = [1.0] * 40 + [0.0] * 10
            plain = {
                "kind": "troth summary", "format": 2, "provider": name, "family": "LogisticCandidates", "rows": 50,
                "digest": "sha256:" + "0" * 64, "summary": candidates.summary(([[1.0]] * 50, y)).tolist(),
            }  # fmt: skip
            upload = read_statistics(store, world.providers[name], world.campaign, plain)
            with store.write() as tx:
                sent = rounds.add_upload(tx, world.providers[name], world.campaign, 1, upload)
                rounds.confirm(tx, world.providers[name], world.campaign, 1, sent, None)
        client = world.client()
        browser = Browser(client.app)
        browser.client = client
        with store.write() as tx:
            client.cookies.set("troth_session", accounts.start_session(tx, world.analyst.account))
        page = f"/campaigns/{world.campaign}/rounds/1"
        browser.get(f"{page}/close")
        for answer in (browser.post(f"{page}/dry-run"), browser.post(f"{page}/close", {"anyway": "on"})):
            assert (
                "Of 3 candidates, one report alone leaves 1.0 to 1.0, and all reports together leave 1.0" in answer.text
            )
            assert "Few candidates are left:" in answer.text
