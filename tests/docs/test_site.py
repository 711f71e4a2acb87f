"""The site: built without a warning, complete, without a dead link, without a network."""

from __future__ import annotations

import inspect
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import typer

import troth
from pages import command_line, gallery, paper
from registry import SOAK

pytestmark = pytest.mark.xdist_group("site")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site, with warnings as errors."""
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-E", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(target / "doctrees"), str(ROOT / "docs"), str(target / "html")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONWARNINGS": "default"},
    )
    assert done.returncode == 0, done.stderr
    return target / "html"


class Links(HTMLParser):
    """What a page links to, what it loads, and what can be linked to in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.targets: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.targets |= {attributes[name] for name in ("id", "name") if name in attributes}
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        if "src" in attributes:
            self.loaded.append(attributes["src"])
        if tag == "link" and attributes.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.loaded.append(attributes["href"])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    return {path: Links(path) for path in site.rglob("*.html") if "_static" not in path.parts}


def test_every_link_leads_somewhere(site: Path, pages: dict[Path, Links]) -> None:
    assert len(pages) > 40
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                assert parts.scheme in ("https", "http"), f"{path.name}: {link}"
                assert re.fullmatch(r"[\w.-]+\.\w+", parts.netloc), f"{path.name}: {link}"
                continue
            aim = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert aim.is_file(), f"{path.relative_to(site)}: {link}"
            if parts.fragment and aim.suffix == ".html":
                assert unquote(parts.fragment) in pages[aim].targets, f"{path.relative_to(site)}: {link}"


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Links]) -> None:
    for path, page in pages.items():
        for source in page.loaded:
            assert not urlsplit(source).scheme, f"{path.name}: {source}"
            assert not urlsplit(source).netloc, f"{path.name}: {source}"
            assert (path.parent / unquote(urlsplit(source).path)).resolve().is_file(), f"{path.name}: {source}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", sheet.read_text("utf-8")), sheet.name


def described(site: Path) -> set[str]:
    """Return everything that the site's inventory has of Python."""
    raw = (site / "objects.inv").read_bytes()
    listed = zlib.decompress(raw.split(b"\n", 4)[4]).decode()
    return {line.split()[0] for line in listed.splitlines() if " py:" in line}


def exported() -> Iterator[tuple[str, object]]:
    """Every public name: of the package, and of all modules in it that say what they export."""
    yield from ((f"troth.{name}", getattr(troth, name)) for name in troth.__all__ if name != "__version__")
    for module_info in pkgutil.walk_packages(troth.__path__, "troth."):
        if module_info.name.split(".")[-1].startswith("_") or "service" in module_info.name:
            continue
        module = import_module(module_info.name)
        yield from ((f"{module_info.name}.{name}", getattr(module, name)) for name in getattr(module, "__all__", ()))
    for name in ("divergences", "strategies", "baselines", "errors"):
        module = import_module({"errors": "troth.core.errors"}.get(name) or getattr(troth, name).__name__)
        for inner, value in vars(module).items():
            own = inspect.isclass(value) or inspect.isfunction(value)
            if own and value.__module__ == module.__name__ and not inner.startswith("_"):
                yield f"{module.__name__}.{inner}", value


def test_every_public_name_is_described(site: Path) -> None:
    objects = {id(paper.look_up(name)) for name in described(site)}
    names = dict(exported())
    assert len(names) > 120
    missing = [name for name, value in names.items() if id(value) not in objects]
    assert not missing, f"not in docs/reference/api: {missing}"
    silent = [name for name, value in names.items() if not (value.__doc__ or "").strip()]
    assert not silent


def undocumented(entries: list[command_line.Entry]) -> list[str]:
    missing = [name for name, command in entries if not (command.help or "").strip()]
    for name, command in entries:
        missing += [f"{name} {command_line.spelled(p)}" for p in command_line.parameters(command) if not p.help]
    return missing


def test_every_command_and_option_is_described(site: Path) -> None:
    entries = command_line.commands()
    assert {"troth", "troth pay", "troth init"} <= {name for name, _ in entries}
    assert undocumented(entries) == []
    page = (site / "reference" / "command-line.html").read_text("utf-8")
    for name, command in entries:
        assert f'id="{name.replace(" ", "-")}"' in page, name
        section = page.split(f'id="{name.replace(" ", "-")}"', 1)[1].split("<section", 1)[0]
        text = re.sub(r"<[^>]+>", "", section)
        for parameter in command_line.parameters(command):
            assert command_line.spelled(parameter) in text, f"{name} {parameter.name}"


def test_a_command_without_help_is_noticed() -> None:
    app = typer.Typer()

    @app.command()
    def silent(option: str = "") -> None:
        del option

    assert undocumented([command_line.Entry("troth", typer.main.get_command(app))]) == ["troth", "troth --option …"]


def sample_pages(site: Path) -> list[Path]:
    """Every page in `make soak`; otherwise of each folder the largest pages, where something wide is likeliest."""
    pages = [path for path in site.rglob("*.html") if not {"_static", "_modules"} & set(path.parts)]
    folders = {path.parent for path in pages}
    of_folders = (
        sorted((p for p in pages if p.parent == folder), key=lambda p: -p.stat().st_size) for folder in folders
    )
    return sorted(path for some in of_folders for path in (some if SOAK else some[:3]))


def test_pages_fit_a_phone_and_ask_nothing_of_a_network(site: Path) -> None:
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program is not None
    requests: list[str] = []
    wide: list[str] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 375, "height": 800})
        page.on("request", lambda request: requests.append(request.url))
        for path in sample_pages(site):
            page.goto(path.as_uri())
            if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
                wide.append(path.name)
        browser.close()
    assert wide == []
    assert requests
    assert all(url.startswith(("file:", "data:")) for url in requests)


def test_links_between_files_of_the_repository_lead_somewhere() -> None:
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"):
        text = path.read_text("utf-8")
        links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset|href)="([^"]+)"', text)
        for link in links:
            if not link.startswith(("https://", "#")):
                aim = ROOT / link.split("#")[0]
                assert aim.exists(), f"{path.name}: {link}"


def test_the_gallery_follows_its_scripts(tmp_path: Path) -> None:
    scripts, images, target = (tmp_path / name for name in ("scripts", "images", "pages"))
    assert gallery.write_pages(target, scripts, images) == []
    assert not target.exists()
    scripts.mkdir()
    images.mkdir()
    (scripts / "waves.py").write_text('"""Waves.\n\nThe story.\n"""\nprint("```")\n')
    (scripts / "_shared.py").write_text("")
    (images / "waves.png").write_bytes(b"")
    (page,) = gallery.write_pages(target, scripts, images)
    text = page.read_text("utf-8")
    assert text.startswith("# Waves\n\nThe story.\n\n![Waves](../images/gallery/waves.png)\n\n````python\nprint(")
    (scripts / "waves.py").unlink()
    assert gallery.write_pages(target, scripts, images) == []
    assert not page.exists()


def test_the_picture_of_the_idea_tells_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    idea = import_module("draw_idea")
    for truth in range(idea.ROWS + 1):
        shares = idea.expected_shares(truth)
        assert shares.argmax() == truth
        assert 0 <= shares.min() < shares.max() <= 1
    for theme in idea.THEMES:
        idea.draw(tmp_path / f"{theme}.svg", theme)
        assert "<svg" in (tmp_path / f"{theme}.svg").read_text("utf-8")
