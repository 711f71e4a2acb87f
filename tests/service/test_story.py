"""The whole story in a real browser: a campaign of one round, one of days, and one without scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import troth
from registry import SOAK
from service.databases import KINDS
from service.serving import Served, serving, until
from service.world import statistics
from troth.service.pages import terms_form

PROVIDERS = ("Ash", "Birch", "Elm")
PASSWORD = "four plain words here"
DAYS = 5 if SOAK else 2
FAMILY = terms_form.blank()["family"]
HOSTILE = "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>{{7*7}}"


pytestmark = pytest.mark.xdist_group("story")  # one browser and one service


class Person:
    """Somebody with a browser of their own, who notes every complaint and every request that leaves the service."""

    def __init__(self, browser: Any, served: Served, **options: Any) -> None:
        self.home = f"http://127.0.0.1:{served.port}"
        self.context = browser.new_context(viewport={"width": 1100, "height": 900}, **options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._spoken_to)
        self.page.on("request", self._asked)
        self.context.set_default_timeout(30_000)

    def _spoken_to(self, dialog: Any) -> None:
        self.complaints.append(dialog.message)
        dialog.dismiss()

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.home, "data:", "blob:")):
            self.complaints.append(f"asked {request.url}")

    def go(self, path: str) -> None:
        answer = self.page.goto(path if path.startswith("http") else self.home + path)
        assert answer.status < 400, (path, answer.status, self.text())

    def press(self, name: str) -> None:
        """Press a button and wait for the page that follows."""
        with self.page.expect_navigation():
            self.page.get_by_role("button", name=name, exact=True).first.click()
        assert "That did not work" not in self.text(), self.text()

    def follow(self, name: str) -> None:
        with self.page.expect_navigation():
            self.page.get_by_role("link", name=name, exact=True).first.click()

    def fill(self, **fields: str) -> None:
        for name, value in fields.items():
            self.page.fill(f"main [name={name}]", value)

    def fits_a_phone(self) -> bool:
        self.page.set_viewport_size({"width": 360, "height": 740})
        self.page.wait_for_selector(".htmx-request", state="detached")
        return int(self.page.evaluate("document.documentElement.scrollWidth")) <= 360

    def text(self) -> str:
        return str(self.page.inner_text("main"))

    def address(self) -> str:
        return str(self.page.url).removeprefix(self.home).partition("?")[0]

    def leave(self) -> None:
        assert not self.complaints, self.complaints
        self.context.close()


class Caller:
    """Somebody who joins and reports by the API alone."""

    def __init__(self, served: Served, link: str) -> None:
        self.served = served
        joined = self.sent("/invitations", {"invitation": link.rpartition("/")[2], "password": PASSWORD})
        self.name = joined["name"]
        token = self.sent("/tokens", {"name": self.name, "password": PASSWORD})["token"]
        self.headers = {"Authorization": f"Bearer {token}"}

    def sent(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Any:
        answer = self.served.post(f"/api/v1{path}", headers, body)
        assert answer.status < 300, (path, answer)
        return answer.plain

    def report(self, campaign: str, number: int, ones: int, zeros: int) -> None:
        """Send statistics and confirm them."""
        path = f"{campaign}/rounds/{number}"
        day = self.served.ask("GET", f"/api/v1{path}", self.headers).plain["day"]
        sums = {**statistics(self.name, ones, zeros, day), "family": FAMILY}
        answer = self.sent(f"{path}/submissions/statistics", sums, self.headers)
        submission = f"{path}/submissions/{answer['id']}"
        until(lambda: self.served.ask("GET", f"/api/v1{submission}", self.headers).plain["state"] != "waiting")
        self.sent(f"{submission}/confirm", {}, self.headers)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from shutil import which

    from playwright.sync_api import sync_playwright

    path = which("chromium") or which("chromium-browser") or which("google-chrome")
    assert path, "chromium is missing: make test installs it (apt-get install chromium)"
    with sync_playwright() as play:
        running = play.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


@pytest.fixture(scope="module", params=KINDS if SOAK else ["postgresql"])
def served(
    request: pytest.FixtureRequest, databases: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A service that the tests share: each has a campaign of its own, with providers of its own."""
    with serving(databases.new(request.param, empty=True), tmp_path_factory.mktemp("story")) as running:
        yield running


@pytest.fixture(scope="module")
def session(browser: Any, served: Served) -> Any:
    """What the browser of an analyst who is signed in keeps."""
    analyst = Person(browser, served)
    sign_in_first(served, analyst)
    state = analyst.context.storage_state()
    analyst.leave()
    return state


def sign_in_first(served: Served, analyst: Person) -> None:
    """Follow the link that was printed, and choose a password."""
    link = re.search(r"http://\S+/enter/\S+", served.log.read_text())
    assert link is not None
    analyst.go(link[0])
    analyst.fill(password=PASSWORD, again=PASSWORD)
    with analyst.page.expect_navigation():
        analyst.page.locator("main form button").click()
    assert analyst.address() == "/"
    again = analyst.context.request.get(link[0])
    assert again.status == 404  # the link is used up


def create(analyst: Person, **fields: str) -> str:
    """Create a campaign in the form, and return its address."""
    analyst.go("/campaigns/new")
    for name, value in fields.items():
        field = analyst.page.locator(f"#campaign-form [name={name}]")
        kind = field.evaluate("e => e.type")
        if kind == "checkbox":
            field.check()
        elif kind == "select-one":
            with analyst.page.expect_response(lambda answer: "/campaigns/new/fields" in answer.url):
                field.select_option(value)
        else:
            field.fill(value)
    analyst.page.wait_for_selector("#preview svg.picture", timeout=60_000)  # the prior, drawn
    assert "proved" in analyst.text()
    analyst.press("Create the campaign")
    assert re.match(r"/campaigns/[0-9a-f]{16}", analyst.address()), analyst.text()
    return analyst.address()[:27]


def invite(analyst: Person, campaign: str, *names: str) -> list[str]:
    """Invite providers, and return their links."""
    links = []
    analyst.go(f"{campaign}/providers")
    for name in names:
        analyst.fill(name=name, identity=f"contract of {name}")
        analyst.press("Invite")
        links.append(analyst.page.locator(".copy input").input_value())
    return links


def join(browser: Any, served: Served, link: str, name: str, **options: Any) -> Person:
    """Follow an invitation in a separate browser."""
    person = Person(browser, served, **options)
    person.go(link)
    assert name in person.text()
    person.fill(password=PASSWORD, again=PASSWORD)
    person.press("Join")
    assert person.context.request.get(link).status == 404
    return person


def send(person: Person, campaign: str, number: int, name: str, text: str, *, replaces: bool = False) -> None:
    """Send a file, look at what was read, and confirm it."""
    person.go(f"{campaign}/rounds/{number}")
    person.page.set_input_files("#file", {"name": name, "mimeType": "text/csv", "buffer": text.encode()})
    person.press("Check it")
    assert f"{text.count(chr(10)) - 1}" in person.text()
    person.press("Replace my report with this" if replaces else "Confirm: this is my report")
    assert "Receipt" in person.text()


def outcomes(ones: int, zeros: int) -> str:
    return "improved\n" + "1\n" * ones + "0\n" * zeros


def verified(analyst: Person, campaign: str, folder: Path, head: str | None = None) -> tuple[Any, bytes]:
    """Download the ledger and check it."""
    ledger = folder / "ledger.jsonl"
    ledger.write_bytes(analyst.context.request.get(f"{analyst.home}{campaign}/ledger.jsonl").body())
    return troth.verify(ledger, head=head), ledger.read_bytes()


def test_a_campaign_from_the_first_link_to_the_verified_ledger(
    browser: Any, served: Served, session: Any, tmp_path: Path
) -> None:
    """Ash and Elm have browsers, Birch has none."""
    analyst = Person(browser, served, storage_state=session)
    campaign = create(analyst, name="Twelve weeks", budget="900.00", currency="EUR", columns="improved")
    links = invite(analyst, campaign, *PROVIDERS)
    ash, elm = (join(browser, served, links[place], PROVIDERS[place]) for place in (0, 2))
    birch = Caller(served, links[1])
    analyst.go(campaign)
    analyst.press("Open and fix the terms")
    send(ash, campaign, 1, "mine.csv", outcomes(14, 6))
    birch.report(campaign, 1, 13, 7)
    send(elm, campaign, 1, "mine.csv", outcomes(3, 17))
    send(elm, campaign, 1, "better.csv", outcomes(12, 8), replaces=True)
    for person in (ash, elm) if SOAK else (elm,):  # nothing about others while it is open
        for path in ("/", campaign, f"{campaign}/rounds/1"):
            person.go(path)
            page = person.page.content()
            assert not any(other in page for other in PROVIDERS if other not in person.page.inner_text(".me"))
            assert "300.00" not in page
    analyst.go(f"{campaign}/rounds/1/close")
    assert "3 of 3" in analyst.text()
    analyst.press("Close and pay")
    ash.go(f"{campaign}/rounds/1")
    assert "once it is published" in ash.text()
    analyst.go(f"{campaign}/rounds/1")
    analyst.page.wait_for_selector("svg.picture")
    assert analyst.fits_a_phone()
    analyst.press("Publish")
    paid = {}
    for person, name in ((ash, "Ash"), (elm, "Elm")):
        person.go(f"{campaign}/rounds/1/payment")
        assert "imaginary groups of peers" in person.text()
        assert "20 rows" in person.text()
        assert person.fits_a_phone()
        paid[name] = Decimal(person.page.inner_text("h1").split()[0])
        head = person.page.locator("code", has_text=re.compile("^[0-9a-f]{64}$")).first.inner_text()
    analyst.go(f"{campaign}/ledger")
    analyst.page.get_by_role("button", name="Verify now").click()
    analyst.page.wait_for_selector("#verified .said")
    assert "The ledger is valid" in analyst.text()
    verification, raw = verified(analyst, campaign, tmp_path, head)
    assert b"better.csv" in raw
    totals = {name: verification.campaign.text(amount) for name, amount in verification.totals.items()}
    assert sum(map(Decimal, totals.values())) <= 900
    assert totals == {"Birch": totals["Birch"], **{name: f"{amount:.2f}" for name, amount in paid.items()}}
    csv = analyst.context.request.get(f"{analyst.home}{campaign}/payments.csv").text()
    assert all(amount in csv for amount in totals.values())
    report = Person(browser, served, storage_state=analyst.context.storage_state())
    report.go(f"{campaign}/report.html")
    assert "What lies would have earned" in report.page.inner_text("body")
    for person in (report, analyst, ash, elm):
        person.leave()


@pytest.mark.parametrize("scheme", ["light", "dark"] if SOAK else ["dark"])
def test_days_of_providers_with_hostile_names_on_a_phone(
    scheme: str, browser: Any, served: Served, session: Any, tmp_path: Path
) -> None:
    analyst = Person(browser, served, storage_state=session, color_scheme=scheme)
    more = {"daily": "yes", "days": str(DAYS), "rule": "MultiDay"}
    campaign = create(analyst, name=HOSTILE[:100], budget="500.00", currency="<b>€", columns="improved", **more)
    names = (HOSTILE[:60] + scheme, f"=cmd()|calc {scheme}", scheme + "x" * 110)
    first, *others = invite(analyst, campaign, *names)
    provider = join(browser, served, first, names[0])
    callers = [Caller(served, link) for link in others]
    for number in range(1, DAYS + 1):
        analyst.go(campaign)
        analyst.press("Open and fix the terms" if number == 1 else "Open")
        ones = [4 + (number * 3 + turn) % 5 for turn in range(3)]
        send(provider, campaign, number, "<svg onload=alert(3)>.csv", outcomes(ones[0], 12 - ones[0]))
        for caller, some in zip(callers, ones[1:], strict=True):
            caller.report(campaign, number, some, 12 - some)
        analyst.go(f"{campaign}/rounds/{number}/close")
        analyst.press("Close and pay")
        analyst.go(campaign)
        states = analyst.page.locator("table.folds .state").all_inner_texts()[::-1]
        # a day is paid once the next one is in, and the last by its own rule
        assert states == (["paid"] * DAYS if number == DAYS else [*["paid"] * (number - 1), "closed"])
    for number in range(1, DAYS + 1):
        analyst.go(f"{campaign}/rounds/{number}")
        analyst.press("Publish")
    why = analyst.page.locator("a", has_text="Why?").first.get_attribute("href")
    paths = [
        "/",
        "/campaigns/new",
        campaign,
        f"{campaign}/providers",
        f"{campaign}/rounds/1",
        why,
        f"{campaign}/ledger",
    ]
    for path in [*paths, "/settings", "/docs", "/health", "/assumed"]:
        analyst.go(str(path))
        assert analyst.fits_a_phone(), path
    last = f"{campaign}/rounds/{DAYS}"
    for path in ("/", campaign, last, "/settings", f"{last}/payment", "/results"):
        provider.go(path)
        assert provider.fits_a_phone(), path
        assert "no next one" in provider.text() or path != f"{last}/payment"
    assert provider.page.locator("main table tbody tr").count() >= DAYS
    csv = analyst.context.request.get(f"{analyst.home}{campaign}/payments.csv").text()
    assert "'=cmd()" in csv
    background = analyst.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background)[:3])) < 200) == (scheme == "dark")
    verification, raw = verified(analyst, campaign, tmp_path)
    closed = [json.loads(line)["day"] for line in raw.splitlines() if b'"close"' in line]
    assert [paid_round.day for paid_round in verification.rounds] == closed
    assert len(closed) == DAYS
    for person in (analyst, provider):
        person.leave()


@pytest.mark.usefixtures("session")
def test_everything_works_without_scripts(browser: Any, served: Served) -> None:
    analyst = Person(browser, served, java_script_enabled=False)
    analyst.go("/sign-in")
    analyst.fill(name="analyst", password=PASSWORD)
    analyst.press("Sign in")
    analyst.go("/campaigns/new")
    analyst.page.fill("#campaign-form [name=name]", "Plain")
    analyst.page.fill("#campaign-form [name=columns]", "improved")
    analyst.press("Create the campaign")
    campaign = analyst.address()[:27]
    links = invite(analyst, campaign, "Hazel", "Rowan")
    hazel = join(browser, served, links[0], "Hazel", java_script_enabled=False)
    analyst.go(campaign)
    analyst.press("Open and fix the terms")
    send(hazel, campaign, 1, "mine.csv", outcomes(5, 3))
    Caller(served, links[1]).report(campaign, 1, 5, 3)
    analyst.go(f"{campaign}/rounds/1/close")
    analyst.press("Close and pay")
    analyst.press("Publish")
    hazel.go(f"{campaign}/rounds/1/payment")
    analyst.go(f"{campaign}/ledger")
    analyst.press("Verify now")
    assert "The ledger is valid" in analyst.text()
    for person in (analyst, hazel):
        person.leave()
