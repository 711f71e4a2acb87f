"""Take screenshots of every page of the service, light and dark: ``python docs/screenshots.py [folder] [width]``.

The script starts a service on a temporary database with three campaigns: a finished one with five clinics, a daily one
in progress, and one with annotators. It needs Pillow and Playwright with Chromium (``CHROMIUM`` is the path of an
installed one).
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright

from troth.service import accounts, campaigns, rounds, settlement
from troth.service.accounts import User
from troth.service.app import Settings, create_app
from troth.service.store import after
from troth.service.uploads import read_upload

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from troth.service.store import Store

PORT = 8765
PASSWORD = "correct horse battery staple"  # noqa: S105 (of a temporary database)
CLINICS = {"Ash Hill": 0.72, "Birch Lane": 0.71, "Cedar Park": 0.72, "Elm Street": 0.73, "Fir Bay": 0.45}
ABOUT = "One row for each patient who took the drug in May, improved = 1 or 0. Send all of them."
TRIAL: dict[str, Any] = {
    "campaign": {"name": "Clinics: does the new drug help?", "budget": "5000.00", "currency": "EUR", "about": ABOUT},
    "model": {"family": "Bernoulli", "columns": ["improved"], "prior": {"alpha": 2, "beta": 2}},
    "limits": {"rows": 500},
}
ARRIVALS: dict[str, Any] = {
    "campaign": {"name": "Arrivals per hour", "budget": "2100.00", "currency": "EUR", "days": 7},
    "model": {"family": "Poisson", "columns": ["arrivals"], "prior": {"shape": 6, "rate": 0.5}},
    "data": {"day": "day"},
}
ANNOTATORS = {"Mara": 0.95, "Noor": 0.9, "Otis": 0.85, "Pia": 0.6}
PHOTOS: dict[str, Any] = {
    "campaign": {"name": "Photos: cat or dog?", "budget": "20.00", "price": "0.05", "currency": "EUR"},
    "model": {
        "family": "Finite",
        "columns": ["label"],
        "categories": ["cat", "dog"],
        "prior": [0.5, 0.5],
        "likelihood": [[0.85, 0.15], [0.15, 0.85]],
    },
    "data": {"task": "photo", "provider": "worker"},
    "limits": {"tasks": 100},
}


def main() -> None:
    """Take all screenshots."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "images" / "service"
    width = int(sys.argv[2]) if len(sys.argv) > 2 else 1180
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        settings = Settings(f"{scratch}/troth.db", url=f"http://127.0.0.1:{PORT}", tick=0)
        app = create_app(settings)
        prepared = prepare(app.state.store)
        server = uvicorn.Server(uvicorn.Config(app, port=PORT, log_level="error"))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        try:
            with sync_playwright() as play:
                browser = play.chromium.launch(executable_path=os.environ.get("CHROMIUM"), args=["--no-sandbox"])
                for theme in ("light", "dark"):
                    shoot(browser, prepared, folder, theme, width)
                browser.close()
        finally:
            server.should_exit = True
            thread.join()


def prepare(store: Store) -> dict[str, Any]:
    """Fill the database, and return sessions by person and the pages to visit: name, person, path."""
    with store.write() as tx:
        ana = User(accounts.create_account(tx, "Ana", "analyst", PASSWORD), "Ana", "analyst")
        fresh = accounts.sign_in_link(tx, accounts.create_account(tx, "Bo", "analyst"))
        trial = campaigns.create_campaign(tx, ana, TRIAL)
        daily = campaigns.create_campaign(tx, ana, ARRIVALS, publish_at_once=True)
        draft = campaigns.create_campaign(tx, ana, {**TRIAL, "campaign": {**TRIAL["campaign"], "name": "Follow-up"}})
        people: dict[str, User] = {}
        for number, campaign in enumerate((trial, daily, draft), start=1):
            for name in CLINICS:
                member = campaigns.add_member(tx, ana, campaign, name, f"contract 2026-{number}")
                link = campaigns.invite(tx, ana, campaign, member)
                if campaign == draft:
                    unused_link = link
                    continue
                known = people.get(name)
                account, password = (None, PASSWORD) if known is None else (known.account, None)
                account_id = accounts.accept_invitation(tx, link, account=account, name=name, password=password)
                people[name] = User(account_id, name, "provider")
    rng = np.random.default_rng(20201206)
    hold_round(store, ana, trial, people, lambda rate: rng.random(int(rng.integers(30, 60))) < rate)
    settlement.close_round(store, ana, trial, 1, anyway=True)  # one clinic fabricates, so the model does not fit
    with store.write() as tx:
        rounds.publish(tx, ana, trial, 1)
    for number in (1, 2):
        hold_round(
            store,
            ana,
            daily,
            people,
            lambda rate, n=number: rng.poisson(9 + 2 * n + 4 * rate, 24),
            f"2026-05-0{number}",
        )
        settlement.close_round(store, ana, daily, number)
    early = dict(list(people.items())[1:4])
    deadline = after(days=2)
    sent = hold_round(store, ana, daily, early, lambda rate: rng.poisson(12 + 4 * rate, 24), "2026-05-03", deadline)
    photos, workers = label_photos(store, ana, rng)
    people |= workers
    first, later = "Ash Hill", "Birch Lane"
    with store.write() as tx:
        sessions = {
            who: accounts.start_session(tx, account) for who, account in _accounts(ana, people, first, later, "Mara")
        }
        waiting = add(tx, people[first], daily, 3, rng.poisson(15, 24), "arrivals")
        members = {member.name: member.id for member in campaigns.list_members(tx, trial)}
        accounts.create_token(tx, ana.account, "laptop", ["read", "manage"], 30)
    a, b, c = f"/campaigns/{trial}", f"/campaigns/{daily}", f"/campaigns/{photos}"
    mine = f"{b}/rounds/3/submissions"
    return {
        "sessions": sessions,
        "pages": [
            ("sign-in", None, "/sign-in"),
            ("enter", None, f"/enter/{fresh}"),
            ("join", None, f"/join/{unused_link}"),
            ("analyst-home", "analyst", "/"),
            ("new-campaign", "analyst", "/campaigns/new"),
            ("campaign", "analyst", b),
            ("campaign-draft", "analyst", f"/campaigns/{draft}"),
            ("terms", "analyst", f"/campaigns/{draft}/terms"),
            ("providers", "analyst", f"/campaigns/{draft}/providers"),
            ("revoke", "analyst", f"{a}/providers/{members[first]}/revoke"),
            ("round-open", "analyst", f"{b}/rounds/3"),
            ("close", "analyst", f"{b}/rounds/3/close"),
            ("dry-run", "analyst", f"{b}/rounds/3/close"),
            ("round-paid", "analyst", f"{a}/rounds/1"),
            ("explanation", "analyst", f"{a}/rounds/1/payments/{members['Fir Bay']}"),
            ("ledger", "analyst", f"{a}/ledger"),
            ("report", "analyst", f"{a}/report.html"),
            ("settings", "analyst", "/settings"),
            ("provider-home", first, "/"),
            ("provider-campaign", first, b),
            ("submit", first, f"{b}/rounds/3"),
            ("confirm", first, f"{mine}/{waiting}"),
            ("receipt", later, f"{mine}/{sent[later]}"),
            ("my-payment", first, f"{a}/rounds/1/payment"),
            ("results", first, "/results"),
            ("tasks-campaign", "Mara", c),
            ("tasks-round", "analyst", f"{c}/rounds/1"),
            ("tasks-payment", "Mara", f"{c}/rounds/1/payment"),
            ("assumed", None, "/assumed"),
            ("docs", "analyst", "/docs"),
            ("health", None, "/health"),
            ("error", "analyst", "/nowhere"),
            ("wrong-link", None, "/join/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ],
    }


def label_photos(store: Store, ana: User, rng: np.random.Generator) -> tuple[str, dict[str, User]]:
    """Run a campaign of tasks with three labels each, and publish the payments."""
    people = {}
    with store.write() as tx:
        campaign = campaigns.create_campaign(tx, ana, PHOTOS)
        for name in ANNOTATORS:
            link = campaigns.invite(tx, ana, campaign, campaigns.add_member(tx, ana, campaign, name, "contract 2026-4"))
            people[name] = User(accounts.accept_invitation(tx, link, name=name, password=PASSWORD), name, "provider")
        rounds.open_round(tx, ana, campaign)
        rows: dict[str, list[str]] = {name: [] for name in ANNOTATORS}
        for photo in range(80):
            dog = bool(rng.random() < 0.5)
            for name in rng.permutation(list(ANNOTATORS))[:3]:
                correct = rng.random() < ANNOTATORS[str(name)]
                rows[str(name)].append(f"IMG_{photo:04},{'dog' if dog == correct else 'cat'}")
        for name, lines in rows.items():
            upload = add_text(tx, people[name], campaign, 1, "photo,label\n" + "\n".join(lines) + "\n")
            rounds.confirm(tx, people[name], campaign, 1, upload)
    settlement.close_round(store, ana, campaign, 1)
    with store.write() as tx:
        rounds.publish(tx, ana, campaign, 1)
    return campaign, people


def _accounts(ana: User, people: dict[str, User], *names: str) -> list[tuple[str, str]]:
    return [("analyst", ana.account), *((name, people[name].account) for name in names)]


def hold_round(
    store: Store,
    ana: User,
    campaign: str,
    people: dict[str, User],
    draw: Any,
    day: str | None = None,
    deadline: Any = None,
) -> dict[str, str]:
    """Open a round, let people report to it, and return their submissions."""
    with store.write() as tx:
        number = rounds.open_round(tx, ana, campaign, day, deadline)
        sent = {}
        for name, who in people.items():
            values = draw(CLINICS[name])
            sent[name] = add(tx, who, campaign, number, values, "improved" if day is None else "arrivals")
            rounds.confirm(tx, who, campaign, number, sent[name])
    return sent


def add(tx: Any, who: User, campaign: str, number: int, values: Any, column: str) -> str:
    """Upload values as a CSV file with one column."""
    return add_text(tx, who, campaign, number, column + "\n" + "\n".join(str(int(value)) for value in values) + "\n")


def add_text(tx: Any, who: User, campaign: str, number: int, text: str) -> str:
    """Upload a CSV file with this text."""
    row, member = campaigns.joined(tx, who, campaign)
    this_round = rounds.find_round(tx, campaign, number)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.csv"
        path.write_text(text)
        name = f"{member.name.split()[0].lower()}.csv"
        upload = read_upload(campaigns.terms_of(row), path, name, member.name, this_round.day)
    return rounds.add_upload(tx, who, campaign, number, upload)


def shoot(browser: Browser, prepared: dict[str, Any], folder: Path, theme: Any, width: int) -> None:
    """Take screenshots of all pages in one theme, and print the browser's errors and warnings."""
    for name, who, path in prepared["pages"]:
        context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": 800})
        if who is not None:
            cookie = {"name": "troth_session", "value": prepared["sessions"][who], "url": f"http://127.0.0.1:{PORT}"}
            context.add_cookies([cookie])  # type: ignore[list-item]
        page: Any = context.new_page()
        page.on(
            "console", lambda message, name=name: message.type in ("error", "warning") and print(name, message.text)
        )
        page.on("pageerror", lambda error, name=name: print(name, error))
        page.goto(f"http://127.0.0.1:{PORT}{path}")
        if name == "dry-run":
            page.get_by_role("button", name="Dry run").click()
            page.get_by_role("heading", name="What would be paid").wait_for()
        if name == "new-campaign":
            page.wait_for_selector("#preview table", timeout=60_000)
        page.wait_for_timeout(900)
        page_width = page.evaluate("document.documentElement.scrollWidth")
        if page_width > width:
            print(f"{name}: {page_width} px wide, more than {width}")
        target = folder / f"{name}-{theme}.png"
        page.screenshot(path=target, full_page=True)
        compress(target)
        context.close()


def compress(path: Path, max_bytes: int = 150_000) -> None:
    """Crop a long screenshot, and reduce its colours until the file is small enough."""
    picture: Any = Image.open(path).convert("RGB")
    picture = picture.crop((0, 0, picture.width, min(picture.height, 2600)))
    by_frequency = sorted(picture.getcolors(1 << 24), reverse=True)
    for colours in (255, 128, 64, 32, 16):
        palette = Image.new("P", (1, 1))
        palette.putpalette([part for _, colour in by_frequency[:colours] for part in colour])
        picture.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)
        if path.stat().st_size < max_bytes:
            return


if __name__ == "__main__":
    main()
