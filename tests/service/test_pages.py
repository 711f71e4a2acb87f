"""The pages, without JavaScript: everything can be done, by those who may, from our own forms, and nothing leaks."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

import troth.service
from campaigns.shop import campaign_for
from troth.campaigns.starter.examples import init
from troth.core.errors import TrothError
from troth.data.request import Report
from troth.mechanisms import offered_rules
from troth.models import FAMILIES
from troth.service import accounts, campaigns, payment_views, rounds, settlement
from troth.service.access import COOKIE
from troth.service.app import Settings, create_app
from troth.service.pages import ACCESS as PAGES
from troth.service.pages import terms_form
from troth.service.pages.explanation import mathml
from troth.service.pages.forms import VISIT
from troth.service.pages.rounds import _beliefs
from troth.service.schema import rounds as round_table
from troth.service.store import now
from troth.service.uploads import Limits, Upload

EVIL = """<img src=x onerror=alert(1)>"'&"""
COLUMN = "</script><b>improved"
pytestmark = pytest.mark.xdist_group("pages")  # one service
PASSWORD = "a password of some length"
TERMS: dict[str, Any] = {
    "campaign": {"name": f"trial {EVIL}", "budget": "1000.00", "currency": "EUR"},
    "model": {"family": "Bernoulli", "columns": [COLUMN], "prior": {"alpha": 1, "beta": 1}},
}


class Browser:
    """Somebody with cookies who fills in the forms of the pages that they see."""

    def __init__(self, app: Any, **headers: str) -> None:
        self.client = TestClient(app, headers={"accept": "text/html", **headers})
        self.seen: Any = None

    def get(self, path: str, **options: Any) -> Any:
        self.seen = self.client.get(path, **options)
        return self.seen

    def post(self, path: str, data: dict[str, Any] | None = None, **options: Any) -> Any:
        """Send a form with the token of the page that was seen last."""
        match = re.search(r'name="csrf" value="(\w+)"', self.seen.text)
        token = {} if match is None else {"csrf": match[1]}
        self.seen = self.client.post(path, data={**token, **(data or {})}, **options)
        return self.seen

    def sign_in(self, app: Any, account: str) -> Browser:
        with app.state.store.write() as tx:
            self.client.cookies.set(COOKIE, accounts.start_session(tx, account))
        self.get("/settings")
        return self


def post_forms(text: str) -> list[str]:
    """Return the forms of a page that change something."""
    return re.findall(r'<form method="post".*?</form>', text, re.DOTALL)


def make_app(folder: Path, **settings: Any) -> Any:
    return create_app(Settings(str(folder / "troth.db"), tick=0, url="http://testserver", **settings))


def make_campaign(app: Any, who: accounts.User, names: list[str], terms: Any = TERMS) -> tuple[str, dict[str, str]]:
    """Create a campaign with providers who have joined, and return their accounts."""
    with app.state.store.write() as tx:
        campaign = campaigns.create_campaign(tx, who, terms)
        people = {}
        for name in names:
            link = campaigns.invite(tx, who, campaign, campaigns.add_member(tx, who, campaign, name, "known"))
            known = accounts.create_account(tx, f"{name} {campaign[:6]}", "provider")
            people[name] = accounts.accept_invitation(tx, link, account=known)
    return campaign, people


def make_analyst(app: Any, name: str) -> accounts.User:
    with app.state.store.write() as tx:
        return accounts.User(accounts.create_account(tx, name, "analyst", PASSWORD), name, "analyst")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A service with a published round, an open one, names that attack, an analyst, a provider and strangers."""
    app = make_app(tmp_path_factory.mktemp("service"))
    ana = make_analyst(app, f"Ana {EVIL}")
    campaign, people = make_campaign(app, ana, [f"Ash {EVIL}", "Birch", "Elm"])
    analyst = Browser(app).sign_in(app, ana.account)
    base = f"/campaigns/{campaign}/rounds/1"
    analyst.post(f"/campaigns/{campaign}/rounds")
    providers, submissions = [], []
    for place, account in enumerate(people.values()):
        provider = Browser(app).sign_in(app, account)
        content = f"{COLUMN}\n".encode() + b"1\n0\n1\n" * (place + 2)
        answer = provider.post(f"{base}/submissions", files={"file": (f"{EVIL}.csv", content)})
        assert answer.status_code == 200, answer.text
        submissions.append(answer.url.path.rsplit("/", 1)[1])
        assert provider.post(f"{answer.url.path}/confirm").url.params["notice"] == "confirmed"
        providers.append(provider)
    assert analyst.post(f"{base}/close").url.params["notice"] == "closed"
    assert analyst.post(f"{base}/publish").url.params["notice"] == "published"
    other, _ = make_campaign(app, ana, ["Ash", "Birch"])
    analyst.post(f"/campaigns/{other}/rounds")
    with app.state.store.read() as tx:
        member = next(m.id for m in campaigns.list_members(tx, campaign) if m.account == next(iter(people.values())))
    token = re.search(r"/tokens/(\w+)/revoke", analyst.post("/settings/tokens", {"label": "x", "scope": "read"}).text)
    assert token is not None
    with app.state.store.write() as tx:
        draft = campaigns.create_campaign(tx, ana, TERMS)
        invited = campaigns.add_member(tx, ana, draft, f"Fir {EVIL}", EVIL)
        invitation = campaigns.invite(tx, ana, draft, invited)
        stranger = accounts.create_account(tx, "Stranger", "provider")
        fresh = accounts.create_account(tx, f"Bo {EVIL}", "analyst")
        enter = accounts.sign_in_link(tx, fresh)
    places = {"campaign": campaign, "number": "1", "member": member, "submission": submissions[0], "token": token[1]}
    yield SimpleNamespace(
        app=app,
        ana=ana,
        campaign=campaign,
        open=other,
        draft=draft,
        base=base,
        analyst=analyst,
        provider=providers[0],
        people=people,
        places=places,
        links={"/enter/{secret}": enter, "/join/{secret}": invitation},
        other_analyst=Browser(app).sign_in(app, make_analyst(app, "Mallory").account),
        stranger=Browser(app).sign_in(app, stranger),
        anybody=Browser(app),
    )
    app.state.store.close()


def address(world: SimpleNamespace, path: str) -> str:
    places = {**world.places, "secret": world.links.get(path, "")}
    if path.endswith("/close"):
        places["campaign"] = world.open
    return path.format(**places)


class Page(HTMLParser):
    """What the rules about all pages need to know of one."""

    void = (
        "area",
        "base",
        "br",
        "col",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "source",
        "rect",
        "circle",
        "line",
        "mspace",
    )

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.inline = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.void:
            while self.open and self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("script", "style"):
            self.inline += data.strip()

    def all(self, *names: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag in names]


def check_page(text: str) -> None:
    """Check what holds for all pages: nothing inline, labels, one heading, a way past the navigation."""
    page = Page(text)
    assert page.inline == ""
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (tag, attributes)
    assert not [image for image in page.all("img") if image.get("src") == "x"]
    assert len(page.all("h1")) == 1
    assert page.tags[0] == ("html", {"lang": "en"})
    assert any(a.get("class") == "skip" for a in page.all("a"))
    labels = {label["for"] for label in page.all("label") if "for" in label}
    boxes = [field for field in page.all("input") if field.get("type") == "checkbox"]
    assert len(re.findall(r"<label[^>]*><input type=.checkbox", text)) == len(boxes)
    for field in page.all("input", "select", "textarea"):
        if field.get("type") not in ("hidden", "checkbox") and field.get("aria-hidden") != "true":
            assert field.get("aria-label") or field.get("id") in labels, field
    for attributes in page.all("form"):
        assert (attributes.get("method") or "").lower() == "post"
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids)), ids
    assert EVIL not in text
    assert "<b>improved" not in text


GETS = [route.split(" ")[1] for route in PAGES if route.startswith("GET ")]
POSTS = [route.split(" ")[1] for route in PAGES if route.startswith("POST ")]
FILES = ("campaign.toml", "ledger.jsonl", "payments.csv", "report.html")


@pytest.mark.parametrize("path", GETS)
def test_a_page_renders_for_its_roles_and_nobody_else(world: SimpleNamespace, path: str) -> None:
    access = PAGES[f"GET {path}"]
    for role, browser in (("analyst", world.analyst), ("provider", world.provider), (None, world.anybody)):
        answer = browser.get(address(world, path), follow_redirects=False)
        if access.roles and role is None:
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/sign-in")
        elif access.roles and role not in access.roles:
            assert answer.status_code == 403
            check_page(answer.text)
        elif path == "/sign-in" and role is not None:
            assert answer.status_code == 303
        elif path.endswith("tasks.parquet") or (path.endswith("ledger.jsonl") and role == "provider"):
            assert answer.status_code == 409  # it has no tasks, and is not shared
        else:
            assert answer.status_code == 200, answer.text
            if not path.endswith(FILES):
                check_page(answer.text)


def test_who_is_invited_to_a_draft_is_text_whatever_they_are_called(world: SimpleNamespace) -> None:
    answer = world.analyst.get(f"/campaigns/{world.draft}/providers")
    assert answer.text.count("&lt;img src=x") >= 4  # the campaign, and a provider's name and identity
    check_page(answer.text)


@pytest.mark.parametrize("path", [path for path in GETS if "{campaign}" in path])
def test_other_peoples_campaigns_are_not_there(world: SimpleNamespace, path: str) -> None:
    roles = PAGES[f"GET {path}"].roles
    for role, browser in (("analyst", world.other_analyst), ("provider", world.stranger)):
        if role in roles:
            assert browser.get(address(world, path)).status_code == 404


@pytest.mark.parametrize("path", POSTS)
def test_forms_are_taken_from_our_own_pages_alone(world: SimpleNamespace, path: str) -> None:
    access, there = PAGES[f"POST {path}"], address(world, path)
    browser = world.analyst if "analyst" in access.roles else world.provider if access.roles else world.anybody
    browser.get("/settings" if access.roles else "/sign-in")
    right = re.search(r'name="csrf" value="(\w+)"', browser.seen.text)
    assert right is not None
    client = browser.client
    world.other_analyst.get("/settings")
    match = re.search(r'name="csrf" value="(\w+)"', world.other_analyst.seen.text)
    assert match is not None
    assert match[1] != right[1]
    for data in ({"label": "x"}, {"csrf": ""}, {"csrf": match[1]}):
        assert client.post(there, data=data).status_code == 403
    assert client.post(there, json={"csrf": right[1]}).status_code == 422
    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "null", "sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        assert client.post(there, data={"csrf": right[1]}, headers=headers).status_code == 403
    if access.roles:
        answer = world.anybody.client.post(there, data={"csrf": right[1]}, follow_redirects=False)
        assert answer.status_code == 303
        assert answer.headers["location"] == "/sign-in"


@pytest.mark.parametrize("cookie", ["", f"{VISIT}=", f"{COOKIE}="])
def test_nobody_can_compute_the_token_of_a_browser_without_a_cookie(world: SimpleNamespace, cookie: str) -> None:
    """Another site can make a new browser send a form, and would sign it in to an account of its own."""
    client = TestClient(world.anybody.client.app, headers={"accept": "text/html"})
    for secret in ("", "None"):
        form = {"csrf": sha256(f"csrf:{secret}".encode()).hexdigest(), "name": "Ana", "password": "nine short words"}
        answer = client.post("/sign-in", data=form, headers={"cookie": cookie} if cookie else {})
        assert answer.status_code == 403
        assert "did not come from this service" in answer.text


@pytest.mark.parametrize("path", GETS)
def test_every_form_that_changes_something_has_a_token(world: SimpleNamespace, path: str) -> None:
    roles = PAGES[f"GET {path}"].roles
    browser = world.analyst if "analyst" in roles else world.provider if roles else world.anybody
    for form in post_forms(browser.get(address(world, path)).text):
        assert 'name="csrf"' in form


def test_the_page_of_a_round_that_could_not_be_paid(tmp_path: Path) -> None:
    """What went wrong is text, whatever it names, and each of the ways on has its token."""
    app = make_app(tmp_path)
    who = make_analyst(app, "Ana")
    campaign, _ = make_campaign(app, who, ["Ash", "Birch"])
    stuck = {"state": "closed", "closed": now(), "settled": now(), "problem": f"provider {EVIL} sent too much"}
    with app.state.store.write() as tx:
        rounds.open_round(tx, who, campaign)
        tx.execute(update(round_table).values(**stuck))
    text = Browser(app).sign_in(app, who.account).get(f"/campaigns/{campaign}/rounds/1").text
    assert "sent too much" in text
    assert "&lt;img src=x" in text
    assert "<img src=x" not in text
    ways = [form for form in post_forms(text) if "/rounds/1/" in form]
    assert len(ways) == 2  # to reopen it, and to set it aside
    assert all('name="csrf"' in form for form in ways)


def test_a_refused_form_is_shown_again_as_it_was_sent(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    analyst = make_analyst(app, "Ana")
    campaign, _ = make_campaign(app, analyst, ["Ash"])
    browser, there = Browser(app).sign_in(app, analyst.account), f"/campaigns/{campaign}"
    assert browser.get(f"{there}/providers").status_code == 200
    again = browser.post(f"{there}/providers", {"name": "ash", "identity": "a contract", "group": "trees"})
    assert again.status_code == 409
    check_page(again.text)
    for text in ("there is already a provider", 'value="ash"', 'value="a contract"', 'value="trees"'):
        assert text in again.text
    again = browser.post(f"{there}/terms", {"toml": "[campaign"})
    assert again.status_code == 422
    for text in ("not valid TOML", ">[campaign<"):
        assert text in again.text
    assert browser.post(f"{there}/finish").status_code == 409
    check_page(browser.seen.text)


def test_our_own_origin_is_ours(world: SimpleNamespace) -> None:
    world.analyst.get("/settings")
    for headers in ({"origin": "http://testserver"}, {"origin": "null", "sec-fetch-site": "same-origin"}):
        assert (
            world.analyst.post("/settings/tokens", {"label": "y", "scope": "read"}, headers=headers).status_code == 200
        )


def test_the_explanation_has_the_numbers_of_the_payment(world: SimpleNamespace) -> None:
    with world.app.state.store.read() as tx:
        payments = payment_views.payments_view(tx, world.ana, world.campaign, 1)
    payment = next(entry for entry in payments.payments if entry.member == world.places["member"])
    own = world.provider.get(f"{world.base}/payment").text
    theirs = world.analyst.get(f"{world.base}/payments/{world.places['member']}").text
    for text in (own, theirs):
        assert f"<h1>{payment.payment}&nbsp;EUR</h1>" in text
        assert f"{payment.terms['decoys'] - payment.terms['above'] - payment.terms['tied']:,.0f} of them" in text
        share = payment.share if text is theirs else payment.payment.minor / payment.cap.minor
        assert f"{share:.2%}" in text
        assert ("log PMI =" in text) == ("your peers&#39; is" in text) == (text is theirs)  # these tell of others' data
        assert text.index("Your rate is") < text.index("imaginary") < text.index("you are paid") < text.index("<math")
        assert str(payments.seed) in text
        assert str(payments.commitment) in text
    others = [str(entry.payment) for entry in payments.payments if entry.payment != payment.payment]
    assert others
    assert not any(other in own for other in others)


RULES: dict[str, tuple[dict[str, Any], str]] = {
    "drawn peers": ({"rule": "SyntheticPeers", "draws": 4}, "drawn 4 times"),
    "days": ({"rule": "MultiDay"}, "peers know nothing about this day"),
    "exact": ({"rule": "OneTime"}, "The score is the log PMI itself"),
    "clipped": ({"rule": "OneTime", "range": "clipped", "low": -4}, "The score is the log PMI itself"),
    "quadratic": ({"rule": "Brier"}, "quadratic rule"),
    "bonded": ({"rule": "SyntheticPeers", "bonded": True}, "The rule is bonded"),
    "bonded quadratic": ({"rule": "Brier", "bonded": True}, "The rule is bonded"),
}


@pytest.mark.parametrize("name", RULES)
def test_every_rule_is_explained(world: SimpleNamespace, name: str) -> None:
    rule, words = RULES[name]
    daily = rule["rule"] == "MultiDay"
    terms: dict[str, Any] = {**TERMS, "mechanism": rule, "limits": {"rows": 10}}
    if daily:
        terms |= {"campaign": {**TERMS["campaign"], "days": 2}, "data": {"day": "day"}}
    campaign, people = make_campaign(world.app, world.ana, ["Ash", "Birch", "Elm"], terms)
    for number in range(1, 3 if daily else 2):
        with world.app.state.store.write() as tx:
            rounds.open_round(tx, world.ana, campaign, number if daily else None)
            for place, (provider, account) in enumerate(people.items()):
                report = Report(
                    provider, number if daily else None, 4, np.array([1.0 + place, 3.0 - place]), "a.csv", None
                )
                who = accounts.User(account, provider, "provider")
                submission = rounds.add_upload(tx, who, campaign, number, Upload(report, "0" * 64, (), ()))
                rounds.confirm(tx, who, campaign, number, submission)
        settlement.close_round(world.app.state.store, world.ana, campaign, number, final=number == 2)
    ash = Browser(world.app).sign_in(world.app, people["Ash"])
    for number in range(1, 3 if daily else 2):
        with world.app.state.store.write() as tx:
            rounds.publish(tx, world.ana, campaign, number)
        text = ash.get(f"/campaigns/{campaign}/rounds/{number}/payment").text
        assert (words if number == 1 else "Nothing is scored") in text
        check_page(text)
        check_page(world.analyst.get(f"/campaigns/{campaign}/rounds/{number}").text)


def test_pictures_carry_names_as_text_and_no_style(world: SimpleNamespace) -> None:
    text = world.analyst.get(world.base).text
    pictures = re.findall(r"<svg[^>]*role=.img.*?</svg>", text, re.DOTALL)
    assert len(pictures) == 2
    assert "&lt;img src=x" in pictures[0]
    assert all("<title>" in picture and "<style" not in picture for picture in pictures)
    assert '<link rel="stylesheet" href="/static/pictures.css">' in text
    assert world.anybody.get("/static/pictures.css").text.startswith(".picture {")


def test_whoever_is_signed_in_can_use_another_link_and_sign_in_again(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    ana, bea = make_analyst(app, "Ana"), make_analyst(app, "Bea")
    browser = Browser(app).sign_in(app, ana.account)
    with app.state.store.write() as tx:
        secret = accounts.sign_in_link(tx, bea.account)
    browser.get(f"/enter/{secret}")
    assert browser.post(f"/enter/{secret}").url.path == "/"
    assert 'title="Bea, analyst"' in browser.seen.text
    assert browser.get("/sign-in").url.path == "/"
    refused = browser.post("/sign-in", {"name": "Ana", "password": "another password"})
    assert (refused.status_code, refused.url.path) == (401, "/sign-in")
    assert "password is wrong" in refused.text
    assert 'value="Ana"' in refused.text
    assert browser.post("/sign-in", {"name": "Ana", "password": PASSWORD}).url.path == "/"
    assert 'title="Ana, analyst"' in browser.seen.text


def test_a_story_from_the_printed_link_to_the_second_campaign(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    with app.state.store.write() as tx:
        secret = accounts.sign_in_link(tx, accounts.create_account(tx, "Ana", "analyst"))
    ana = Browser(app)
    assert ana.get("/campaigns/new").url.path == "/sign-in"
    assert ana.seen.url.params["next"] == "/campaigns/new"
    for _ in range(2):
        assert ana.get(f"/enter/{secret}").status_code == 200
    assert ana.post(f"/enter/{secret}", {"password": PASSWORD, "again": "another"}).status_code == 422
    assert "do not match" in ana.seen.text
    assert ana.post(f"/enter/{secret}").status_code == 422
    assert ana.post(f"/enter/{secret}", {"password": PASSWORD, "again": PASSWORD}).url.path == "/"
    assert Browser(app).get(f"/enter/{secret}").status_code == 404

    typed = {**terms_form.blank("Bernoulli"), "shown": "Bernoulli", "columns": "improved"}
    typed = {name: value for name, value in typed.items() if value}
    assert ana.get("/campaigns/new").status_code == 200
    answer = ana.post("/campaigns/new", typed)
    assert answer.status_code == 422
    assert 'id="name-fault"' in answer.text
    answer = ana.post("/campaigns/new", {**typed, "name": "Trial", "budget": "1,5"})
    assert 'id="budget-fault"' in answer.text
    answer = ana.post("/campaigns/new", {**typed, "name": "Trial", "prior_alpha": "-1"})
    assert 'id="prior_alpha-fault"' in answer.text
    there = ana.post("/campaigns/new", {**typed, "name": "Trial"}).url.path
    assert ana.seen.status_code == 200

    people = {}
    for name in ("Ash", "Birch"):
        ana.get(f"{there}/providers")
        answer = ana.post(f"{there}/providers", {"name": name, "identity": "contract"})
        match = re.search(r"http://testserver(/join/[\w-]+)", answer.text)
        assert match is not None
        assert match[1] not in ana.get(f"{there}/providers").text
        person = people[name] = Browser(app)
        assert "Trial" in person.get(match[1]).text
        answer = person.post(match[1], {"name": name, "password": PASSWORD, "again": PASSWORD})
        assert (answer.url.path, answer.url.params["notice"]) == (there, "joined")
        assert Browser(app).get(match[1]).status_code == 404
    ana.get(there)
    assert ana.post(f"{there}/rounds", {"deadline": "2001-01-01T00:00"}).status_code == 422
    assert "must lie in the future" in ana.seen.text
    assert ana.post(f"{there}/rounds", {"deadline": "2040-01-01T00:00"}).url.params["notice"] == "opened"
    assert "2040-01-01 00:00 UTC" in ana.seen.text

    ash, base = people["Ash"], f"{there}/rounds/1"
    ash.get(base)
    assert ash.post(f"{base}/submissions").status_code == 422
    assert ash.post(f"{base}/submissions", files={"file": ("a.csv", b"other\n1\n")}).status_code == 422
    assert "improved" in ash.seen.text
    assert ash.post(f"{base}/submissions", {"statistics": "{"}).status_code == 422
    first = ash.post(f"{base}/submissions", files={"file": ("a.csv", b"improved\n1\n0\n1\n")}).url.path
    assert sha256(b"improved\n1\n0\n1\n").hexdigest() in ash.seen.text
    ash.post(f"{first}/confirm")
    second = ash.post(f"{base}/submissions", files={"file": ("b.csv", b"improved\n1\n0\n")})
    replaced = re.search(r'name="replaces" value="(\w+)"', second.text)
    assert replaced is not None
    assert ash.post(f"{second.url.path}/confirm").status_code == 409
    assert ash.post(f"{second.url.path}/confirm", {"replaces": replaced[1]}).url.params["notice"] == "confirmed"

    ana.get(f"{base}/close")
    assert "A payment needs at least two reports" in ana.seen.text
    ana.post(f"{base}/close")
    assert "could not be paid" in ana.seen.text
    assert ana.post(f"{base}/reopen").url.params["notice"] == "reopened"
    birch = people["Birch"]
    birch.get(base)
    sent = birch.post(f"{base}/submissions", files={"file": ("c.csv", b"improved\n1\n1\n")}).url.path
    birch.post(f"{sent}/confirm")
    ana.get(base)
    ana.post(f"{base}/close")
    assert ash.get(f"{base}/payment").status_code == 409
    ana.get(base)
    ana.post(f"{base}/publish")
    assert ash.get(f"{base}/payment").status_code == 200
    assert "Why?" in ash.get("/results").text
    ana.get(f"{there}/ledger")
    assert "The ledger is valid" in ana.post(f"{there}/ledger/verify").text
    assert ana.get("/settings").status_code == 200
    assert ana.post("/sign-out").url.path == "/sign-in"
    assert ana.get("/", follow_redirects=False).status_code == 303
    ana.get("/sign-in?next=//evil.example")
    assert 'name="next" value="/"' in ana.seen.text
    assert ana.post("/sign-in", {"name": "Ana", "password": "wrong", "next": "/settings"}).status_code == 401
    answer = ana.post("/sign-in", {"name": "Ana", "password": PASSWORD, "next": there}, follow_redirects=False)
    assert answer.headers["location"] == there
    app.state.store.close()


def test_a_report_that_was_replaced_is_not_said_to_be_unconfirmed(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    ana = make_analyst(app, "Ana")
    campaign, people = make_campaign(app, ana, ["Ash", "Birch"], TERMS)
    Browser(app).sign_in(app, ana.account).post(f"/campaigns/{campaign}/rounds")
    ash, base = Browser(app).sign_in(app, people["Ash"]), f"/campaigns/{campaign}/rounds/1"

    def send(name: str) -> str:
        ash.get(base)
        return str(ash.post(f"{base}/submissions", files={"file": (name, f"{COLUMN}\n1\n".encode())}).url.path)

    def states() -> dict[str, str]:
        rows = re.findall(r'submissions/\w+">(\w+)\.csv</a>.*?<span class="[\w ]+">([\w ]+)</span>', ash.get(base).text)
        return dict(rows)

    first, _unconfirmed, third = send("first.csv"), send("other.csv"), send("third.csv")
    assert states() == dict.fromkeys(("first", "other", "third"), "not confirmed")
    ash.post(f"{first}/confirm")
    ash.post(f"{third}/confirm", {"replaces": first.rsplit("/", 1)[1]})
    assert states() == {"first": "replaced", "other": "not confirmed", "third": "confirmed"}
    assert '<span class="state">replaced</span>' in ash.get(first).text
    ash.post(f"{first}/confirm", {"replaces": third.rsplit("/", 1)[1]})
    assert states() == {"first": "confirmed", "other": "not confirmed", "third": "replaced"}
    app.state.store.close()


def test_nothing_tells_a_provider_about_peers_while_a_round_is_open(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    ana = make_analyst(app, "Ana")
    pages: dict[int, list[str]] = {}
    for peers in (1, 4):
        campaign, people = make_campaign(app, ana, ["Ash", *(f"Peer {k}" for k in range(peers))], TERMS)
        analyst = Browser(app).sign_in(app, ana.account)
        ash = Browser(app).sign_in(app, people["Ash"])
        base = f"/campaigns/{campaign}/rounds/1"
        analyst.post(f"/campaigns/{campaign}/rounds")

        def look(ash: Browser = ash, base: str = base, campaign: str = campaign) -> list[str]:
            return [ash.get(path).text for path in ("/", f"/campaigns/{campaign}", base, "/results")]

        before = look()
        for place in range(peers):
            peer = Browser(app).sign_in(app, people[f"Peer {place}"])
            sent = peer.post(f"{base}/submissions", files={"file": ("a.csv", f"{COLUMN}\n1\n".encode())})
            peer.post(f"{sent.url.path}/confirm")
        assert look() == before
        plain = [re.sub(r"[0-9a-f]{64}|[0-9a-f]{16}|[0-9a-f]{6}\b| \d\d:\d\d UTC", "·", text) for text in before]
        pages[peers] = plain
    for page_of_few, page_of_many in zip(pages[1], pages[4], strict=True):
        assert page_of_few.splitlines() == page_of_many.splitlines()
    assert "Peer 0" not in "".join(pages[4])
    app.state.store.close()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_form_of_every_family_makes_a_campaign(world: SimpleNamespace, family: str) -> None:
    analyst = world.analyst
    analyst.get("/campaigns/new")
    typed = {name: value for name, value in terms_form.blank(family).items() if value}
    answer = analyst.post("/campaigns/new", {**typed, "family": family, "show": "yes", "shown": "Bernoulli"})
    assert f'name="shown" value="{family}"' in answer.text
    check_page(answer.text)
    answer = analyst.post("/campaigns/new", {**typed, "shown": family, "name": f"of {family}"})
    assert answer.status_code == 200, re.findall(r'role="alert".*', answer.text)
    assert answer.url.params["notice"] == "created"
    with world.app.state.store.read() as tx:
        spec = campaigns.terms_of(campaigns.owned(tx, world.ana, answer.url.path.rsplit("/", 1)[1]))
    assert type(spec.model).__name__ == family


def test_the_form_of_a_regression_asks_for_labels_scales_and_levels(world: SimpleNamespace) -> None:
    analyst = world.analyst
    analyst.get("/campaigns/new")
    for family, family_class in FAMILIES.items():
        page = analyst.post("/campaigns/new", {"family": family, "shown": family, "show": "yes"}).text
        for name in ("scales", "levels"):
            assert (f'name="{name}"' in page) == family_class.explains_target, (family, name)
        assert ('name="categories"' in page) == terms_form.reads_labels(family), family
    typed = {
        **terms_form.blank("LogisticRegression"),
        "columns": "age, ward: now",
        "target": "back",
        "categories": "no, yes",
        "intercept": "yes",
        "scales": "age: 60, 15",
        "levels": "ward: now: surgery, medicine, other",
        "prior_mean": "0, 0, 0, 0",
        "name": "Readmission",
        "shown": "LogisticRegression",
    }
    answer = analyst.post("/campaigns/new", {name: value for name, value in typed.items() if value})
    assert answer.url.params["notice"] == "created"
    with world.app.state.store.read() as tx:
        spec = campaigns.terms_of(campaigns.owned(tx, world.ana, answer.url.path.rsplit("/", 1)[1]))
    assert spec.categories == ("no", "yes")
    assert spec.levels == {"ward: now": ("surgery", "medicine", "other")}
    assert spec.scales == (None, (60.0, 15.0), None, None)


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("scales", "60, 15", "must begin with one of the columns and a colon"),
        ("scales", "age: 60, 15; age: 1, 2", "appears twice"),
        ("scales", "age: 60, wide", "'wide' is not a number"),
        ("scales", "age: 60", r"must be \[centre, scale\]"),
        ("levels", "age: one", "at least two different labels"),
    ],
)
def test_scales_and_levels_that_cannot_be_used_are_named_in_the_form(field: str, text: str, message: str) -> None:
    typed = {**terms_form.blank("LogisticRegression"), "columns": "age, stay", "name": "Readmission", field: text}
    with pytest.raises(TrothError, match=message) as refused:
        campaigns.checked_terms(terms_form.terms_of(typed))
    assert terms_form.field_of(refused.value, typed) == field


@pytest.mark.parametrize("family", FAMILIES)
def test_the_form_says_the_model_as_a_new_campaign_file_does(family: str, tmp_path: Path) -> None:
    file = tomllib.loads(init(tmp_path / "new", family).read_text())["model"]
    form = terms_form.terms_of({**terms_form.blank(family), "name": "Trial"})["model"]
    assert form == file


def test_an_untouched_form_has_the_options_and_the_budget_of_a_new_campaign_file(tmp_path: Path) -> None:
    data = tmp_path / "days.csv"
    rows = (f"{who},{day},{(day + place) % 2}\n" for place, who in enumerate("abcde") for day in range(1, 4))
    data.write_text("who,day,y\n" + "".join(rows))
    file = tomllib.loads(campaign_for(tmp_path / "new", data=data, provider="who", day="day").read_text())
    form = terms_form.terms_of({**terms_form.blank(), "name": "Trial", "daily": "yes"})
    assert form["campaign"]["budget_per"] == file["campaign"]["budget_per"] == "day"
    assert form["mechanism"].items() <= file["mechanism"].items()


def test_decimals_follow_the_currency() -> None:
    yen = {**terms_form.blank("Bernoulli"), "name": "Trial", "currency": "JPY", "budget": "1000"}
    assert campaigns.checked_terms(terms_form.terms_of(yen)).show(1000) == "1,000 JPY"
    check_fault(yen, "budget", "1000.50")
    check_fault(yen, "decimals", "2")
    points = {**yen, "currency": "points", "decimals": "3", "budget": "0.001"}
    assert campaigns.checked_terms(terms_form.terms_of(points)).budget == 1


MISTAKES = {
    "name": "",
    "budget": "much",
    "decimals": "two",
    "days": "many",
    "price": "cheap",
    "columns": "",
    "target": "improved",
    "categories": "one",
    "rows": "-1",
    "tasks": "few",
    "values_low": "low",
    "values_high": "high",
}
"""What somebody may type wrongly into a form that is right otherwise."""


@pytest.mark.parametrize(("field", "text"), MISTAKES.items())
def test_a_mistake_is_shown_beside_its_field(field: str, text: str) -> None:
    right = {**terms_form.blank("Bernoulli"), "name": "Trial", "daily": "yes", "days": "5", "columns": "improved"}
    right |= {"values_low": "0", "values_high": "1"}
    if field == "target":
        right = {**terms_form.blank("LinearRegression"), "name": "Trial", "columns": "improved"}
    check_fault(right, field, text)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_mistake_in_any_parameter_is_shown_beside_it(family: str) -> None:
    right = {**terms_form.blank(family), "name": "Trial"}
    campaigns.checked_terms(terms_form.terms_of(right))
    for field in terms_form.parameters_of(family):
        if right[field] not in ("true", "false"):  # which can only be chosen
            check_fault(right, field, "no such thing")


@pytest.mark.parametrize("rule", offered_rules())
def test_a_mistake_in_any_option_is_shown_beside_it(rule: str) -> None:
    right = {**terms_form.blank("Bernoulli", rule), "name": "Trial", "rows": "60", "days": "5"}
    campaigns.checked_terms(terms_form.terms_of(right))
    for field, option in terms_form.options_of(rule).items():
        if option.kind != "flag":
            check_fault(right, field, "no such thing")


@pytest.mark.parametrize("rule", offered_rules())
def test_any_rule_can_be_bonded_in_the_form(rule: str) -> None:
    typed = {**terms_form.blank("Bernoulli", rule), "name": "Trial"}
    assert "bonded" not in terms_form.terms_of(typed)["mechanism"]
    assert terms_form.terms_of({**typed, "option_bonded": "yes"})["mechanism"]["bonded"] is True


def check_fault(right: dict[str, str], field: str, text: str) -> None:
    """Type something wrong into one field of a form, and see that this field is marked."""
    typed = {**right, field: text}
    with pytest.raises(TrothError) as refused:
        campaigns.checked_terms(terms_form.terms_of(typed))
    assert terms_form.field_of(refused.value, typed) == field, refused.value


@pytest.mark.parametrize("rule", offered_rules())
def test_the_preview_says_what_is_proved_and_what_lies_earn(world: SimpleNamespace, rule: str) -> None:
    analyst = world.analyst
    analyst.get("/campaigns/new")
    typed = {
        **terms_form.blank("Bernoulli", rule),
        "shown": "Bernoulli",
        "rows": "20",
        "providers": "3",
        "expected": "5",
    }
    typed = {name: value for name, value in typed.items() if value} | ({"days": "2"} if rule == "MultiDay" else {})
    for headers in ({}, {"hx-request": "true"}):
        answer = analyst.post("/campaigns/new/preview", typed, headers=headers)
        assert answer.status_code == 200
        assert "truthful" in answer.text, answer.text[-3000:]
        assert "Gain over the truth" in answer.text
        assert "Maximum spending" in answer.text
        assert ("<html" in answer.text) == (not headers)
        analyst.get("/campaigns/new")


def test_a_campaign_file_is_taken_pasted_or_chosen(world: SimpleNamespace) -> None:
    analyst = world.analyst
    toml = world.analyst.get(f"/campaigns/{world.draft}/campaign.toml").text
    toml = re.sub(r"commitment = .*\n", "", toml)
    analyst.get("/campaigns/new")
    assert analyst.post("/campaigns/new", {"mode": "file", "toml": toml}).url.params["notice"] == "created"
    analyst.get("/campaigns/new")
    answer = analyst.post("/campaigns/new", {"mode": "file"}, files={"upload": ("campaign.toml", toml.encode())})
    assert answer.url.params["notice"] == "created"
    analyst.get("/campaigns/new")
    seen = analyst.post("/campaigns/new", {"mode": "file", "toml": "[campaign]\nname = 'x'\n"})
    assert seen.status_code == 422
    assert "model" in seen.text


def test_uploads_are_no_larger_than_allowed(tmp_path: Path) -> None:
    app = make_app(tmp_path, limits=Limits(bytes=1000))
    ana = make_analyst(app, "Ana")
    campaign, people = make_campaign(app, ana, ["Ash", "Birch"])
    analyst, ash = Browser(app).sign_in(app, ana.account), Browser(app).sign_in(app, people["Ash"])
    analyst.post(f"/campaigns/{campaign}/rounds")
    there = f"/campaigns/{campaign}/rounds/1/submissions"
    for size in (2000, 200_000):
        answer = ash.post(there, files={"file": ("a.csv", b"1" * size)})
        assert answer.status_code == 413, answer.text
        ash.get("/settings")
    data = b"--x\r\ncontent-disposition: form-data; name=a\r\n\r\n" + b"1" * 200_000

    def stream() -> Iterator[bytes]:
        for start in range(0, len(data), 1000):
            yield data[start : start + 1000]

    answer = ash.client.post(there, content=stream(), headers={"content-type": "multipart/form-data; boundary=x"})
    assert answer.status_code == 413
    app.state.store.close()


def test_passwords_and_tokens(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    ana = make_analyst(app, "Ana")
    here, there = (Browser(app).sign_in(app, ana.account) for _ in range(2))
    answer = here.post("/settings/tokens", {"label": "laptop", "scope": ["read", "manage"], "days": "3"})
    match = re.search(r'value="(troth_[\w-]+)"', answer.text)
    assert match is not None
    assert match[1] not in here.get("/settings").text
    api = TestClient(app, headers={"authorization": f"Bearer {match[1]}"})
    assert api.get("/api/v1/me").json()["name"] == "Ana"
    revoke = re.search(r"/settings/tokens/\w+/revoke", here.seen.text)
    assert revoke is not None
    assert here.post(revoke[0]).url.params["notice"] == "ended"
    assert api.get("/api/v1/me").status_code == 401
    assert here.post("/settings/tokens", {"label": "laptop"}).status_code == 422
    here.get("/settings")
    new = {"current": "wrong", "password": "another good password", "again": "another good password"}
    assert here.post("/settings/password", new).status_code == 422
    assert "current password is wrong" in here.seen.text
    assert here.post("/settings/password", {**new, "current": PASSWORD}).url.params["notice"] == "password"
    assert there.get("/", follow_redirects=False).status_code == 303
    assert here.get("/").status_code == 200
    app.state.store.close()


def test_invitations_can_be_joined_with_an_account(world: SimpleNamespace) -> None:
    with world.app.state.store.write() as tx:
        member = campaigns.add_member(tx, world.ana, world.draft, "Gorse", "known")
        link = campaigns.invite(tx, world.ana, world.draft, member)
    assert "signed in as an analyst" in world.analyst.get(f"/join/{link}").text
    assert world.analyst.post(f"/join/{link}").status_code == 403
    assert "Join with your account" in world.stranger.get(f"/join/{link}").text
    assert world.stranger.post(f"/join/{link}").url.params["notice"] == "joined"
    assert world.stranger.get(f"/join/{link}").status_code == 404
    world.analyst.get(f"/campaigns/{world.draft}/providers")
    world.analyst.post(f"/campaigns/{world.draft}/providers/{member}/group", {"group": "family"})
    assert 'value="family"' in world.analyst.seen.text
    world.analyst.get(f"/campaigns/{world.draft}/providers/{member}/revoke")
    assert "cannot be undone" in world.analyst.seen.text
    world.analyst.post(f"/campaigns/{world.draft}/providers/{member}/revoke")
    assert "revoked your access" in world.stranger.get(f"/campaigns/{world.draft}").text


def test_policies_and_cookies(world: SimpleNamespace, tmp_path: Path) -> None:
    for path in ("/sign-in", "/", world.base, "/static/troth.js"):
        policy = world.analyst.get(path).headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
    docs = world.analyst.get("/docs").headers["content-security-policy"]
    assert "script-src 'self'; style-src 'self' 'unsafe-inline'" in docs
    report = world.analyst.get(f"/campaigns/{world.campaign}/report.html")
    assert report.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'")
    assert world.analyst.client.get("/health", headers={"accept": "*/*"}).json()["status"] == "ok"
    app = create_app(Settings(str(tmp_path / "troth.db"), tick=0, url="https://testserver"))
    make_analyst(app, "Ana")
    browser = Browser(app)
    browser.client.base_url = "https://testserver"
    visit = browser.get("/sign-in").headers["set-cookie"]
    assert all(word in visit for word in ("HttpOnly", "SameSite=lax", "Secure", "Path=/"))
    answer = browser.post("/sign-in", {"name": "Ana", "password": PASSWORD}, follow_redirects=False)
    cookie = next(value for value in answer.headers.get_list("set-cookie") if value.startswith(COOKIE))
    assert all(word in cookie for word in ("HttpOnly", "SameSite=lax", "Secure", "Path=/"))
    app.state.store.close()


def test_what_went_wrong_is_told_without_a_cookie(world: SimpleNamespace) -> None:
    for browser in (world.analyst, world.anybody):
        answer = browser.get("/nowhere")
        assert answer.status_code == 404
        assert "set-cookie" not in answer.headers
        check_page(answer.text)


def test_static_files_are_sent_once(world: SimpleNamespace) -> None:
    first = world.anybody.get("/static/troth.css")
    assert first.headers["cache-control"] == "no-cache"
    again = world.anybody.get("/static/troth.css", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert world.anybody.get("/static/../app.py").status_code == 404


def test_vendored_files_are_those_that_are_named() -> None:
    folder = Path(troth.service.__file__).parent / "static"
    digests = re.findall(r"\| `([\w.-]+)` \|.*`([0-9a-f]{64})` \|", (folder / "VENDORED.md").read_text())
    assert len(digests) == 3
    for name, digest in digests:
        assert sha256((folder / name).read_bytes()).hexdigest() == digest


@pytest.mark.parametrize(
    ("campaign", "said"),
    [
        ({"days": 3, "budget_per": "day"}, "of 3,000.00 EUR"),
        ({"days": 3}, "of 1,000.00 EUR"),
        ({"budget_per": "day"}, "1,000.00 EUR a day"),
    ],
    ids=["of each of three days", "of three days together", "of each of any number of days"],
)
def test_the_budget_beside_what_was_paid_is_that_of_all_days(tmp_path: Path, campaign: Any, said: str) -> None:
    app = make_app(tmp_path)
    ana = make_analyst(app, "Ana")
    make_campaign(
        app, ana, ["Ash", "Birch"], {**TERMS, "campaign": {**TERMS["campaign"], **campaign}, "data": {"day": "day"}}
    )
    assert f"<span>{said}</span>" in Browser(app).sign_in(app, ana.account).get("/").text
    app.state.store.close()


def test_every_line_of_the_ledger_is_on_one_page(world: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("troth.service.pages.ledger._PAGE_LINES", 3)
    address, numbers = f"/campaigns/{world.campaign}/ledger", []
    where: Any = [address]
    while where:
        text = world.analyst.get(where[0]).text
        numbers.append([int(number) for number in re.findall(r'<tr><td class="n">(\d+)</td>', text)])
        where = [f"{address}{query}" for query in re.findall(r'<a href="(\?before=\d+)">', text)]
        assert len(numbers) < 20
    lines = [number for page in numbers for number in page]
    assert lines == list(range(lines[0], 0, -1))
    assert [len(page) for page in numbers[:-1]] == [3] * (len(numbers) - 1)
    assert len(numbers) > 1


def test_formulas_are_broken_on_a_narrow_page() -> None:
    broken = mathml(str(offered_rules()["MultiDay"].score_formula))
    assert broken.count("<math") == 3
    assert "allowbreak" not in broken


def test_what_days_that_were_paid_together_say_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have one head: that of the ledger in which both are."""
    monkeypatch.setattr("troth.service.pages.rounds.learned", lambda _, reports: [report.day for report in reports])
    reports = [SimpleNamespace(day=day) for day in (1, 2)]
    result: Any = SimpleNamespace(campaign=SimpleNamespace(plain={}), reports=reports)
    shown: list[Any] = [_beliefs("campaign", "head", day, result) for day in (1, 2, 1)]
    assert shown == [[1], [2], [1]]
