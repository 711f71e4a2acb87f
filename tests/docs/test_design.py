"""The design page names what is there: every function of the walks, every module, every capability of a model."""

from __future__ import annotations

import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from pages import modules
from troth.cli.commands import app
from troth.core import contract, declarations, information, sensitivity
from troth.core.reductions import reduction
from troth.models.family import Family
from troth.results.findings import check_result

if TYPE_CHECKING:
    from types import FrameType

PAGE = (Path(__file__).parents[2] / "docs" / "design.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
PAYING, UPLOADING = "From one CSV file to cents", "From an upload to a published payment"
FILES = (".toml", ".html", ".jsonl", ".parquet")


def names_of(section: str) -> list[str]:
    """Return the dotted names of a section, without those of files."""
    names = re.findall(r"`([A-Za-z_]\w*(?:\.\w+)+)`", SECTIONS[section])
    return [name for name in names if not name.endswith(FILES)]


def resolve(name: str) -> tuple[Any, Any]:
    """Return what has a dotted name in the package, and what it belongs to."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            here: Any = import_module(".".join(("troth", *parts[:length])))
        except ModuleNotFoundError:
            continue
        owner = None
        for part in parts[length:]:
            owner, here = here, inspect.getattr_static(here, part)
        return here, owner
    raise AttributeError(name)


@pytest.mark.parametrize("section", [PAYING, UPLOADING])
def test_every_function_of_the_walks_is_there(section: str) -> None:
    names = names_of(section)
    assert len(names) > 25
    for name in names:
        resolve(name)


def test_a_name_that_is_gone_is_noticed() -> None:
    for name in ("results.Result", "results.pay.settle", "nothing.at.all"):
        with pytest.raises(AttributeError):
            resolve(name)


def is_called(name: str, called: set[tuple[str, str]]) -> bool:
    """Say whether a function was called, or a method of a class or protocol, as whoever implements it has it.

    What was called is known by its file and its name there.
    """
    here, owner = resolve(name)
    if inspect.isclass(here):
        return True
    own = inspect.unwrap(getattr(here, "__func__", here)).__code__
    if not inspect.isclass(owner) or not (getattr(owner, "_is_protocol", False) or owner.__subclasses__()):
        return (own.co_filename, own.co_qualname) in called
    return any(qualname.rpartition(".")[2] == own.co_name for _, qualname in called)


def test_a_payment_calls_every_function_that_the_walk_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"{clinic},{number % 3 // 2}" for clinic in ("Ash", "Birch", "Elm") for number in range(9)]
    (tmp_path / "rows.csv").write_text("\n".join(["clinic,improved", *rows]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(check_result.__kwdefaults__ or {}, "simulations", 50)
    begin = ["init", "study", "--data", "rows.csv", "--provider", "clinic", "--column", "improved"]
    assert CliRunner().invoke(app, [*begin, "--family", "Bernoulli"]).exit_code == 0
    called: set[tuple[str, str]] = set()

    def note(frame: FrameType, *_: Any) -> None:
        called.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    before = sys.gettrace()
    threading.settrace(note)
    sys.settrace(note)
    try:
        result = CliRunner().invoke(app, ["pay", "study/campaign.toml", "--anyway"])
    finally:
        sys.settrace(before)
        threading.settrace(before)
    assert result.exit_code == 0, result.output
    steps = SECTIONS[PAYING].partition("\nCampaigns of tasks")[0]
    assert [name for name in names_of(PAYING) if f"`{name}`" in steps and not is_called(name, called)] == []
    assert not is_called("results.pay.pay_task_campaign", called)


def test_an_upload_calls_every_function_that_the_walk_numbers(tmp_path: Path) -> None:
    """On the page; what is called in the API, by the clock, for statistics or tasks, and in children is not seen."""
    file, tests = tmp_path / "calls.json", Path(__file__).parents[1]
    story = f"{tests}/service/test_pages.py::test_a_story_from_the_printed_link_to_the_second_campaign"
    path = os.pathsep.join([str(tests), *filter(None, [os.environ.get("PYTHONPATH")])])
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "call_trace", "-p", "no:cacheprovider", story],
        env={**os.environ, "TROTH_CALLS": str(file), "PYTHONPATH": path},
        cwd=tests.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    called = {(name, qualname) for name, qualname in json.loads(file.read_text())}
    assert {name for name in names_of(UPLOADING) if not is_called(name, called)} == UNSEEN


UNSEEN = {
    "service.api.handlers.submit_file",
    "service.incoming.check_upload_allowed",
    "service.rounds.add_upload",
    "service.settlement.close_due",
    "service.parse.parse",
    "data.single_provider.read_own_report",
    "data.fragments.Fragment.summarise",
    "service.limited_payments._pay",
    "campaigns.rounds.pay_rounds",
    "campaigns.tasks.pay_task_reports",
}


@pytest.mark.parametrize("folder", ["campaigns", "results", "service"])
def test_every_module_has_its_place_on_the_page(folder: str) -> None:
    package = import_module(f"troth.{folder}")
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    block = re.search(
        rf"^    {folder}/ (.*?)(?=^    \w+/|\n\n)", SECTIONS["Where things are"], re.DOTALL | re.MULTILINE
    )
    assert block is not None
    words = set(re.findall(r"[a-z_]+", block[1]))
    assert sorted(modules - words) == []


def test_every_folder_has_its_place_on_the_page() -> None:
    block = re.findall(r"^    [^\n]*$", SECTIONS["Where things are"], re.MULTILINE)
    shown = set(re.findall(r"\b([a-z_]+)/", "\n".join(block)))
    folders = {name for folder in modules.summaries() for name in folder.split("/")[1:3]}
    assert sorted(folders - shown) == []


def test_every_module_says_what_is_inside() -> None:
    silent = [
        f"{folder}/{name}"
        for folder, lines in modules.summaries().items()
        for name, line in lines.items()
        if not line.endswith((".", "?"))
    ]
    assert silent == []


def first_column(section: str) -> set[str]:
    """Return the names in the first column of a section's tables."""
    return set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\|[^|]*\|", SECTIONS[section], re.MULTILINE))))


def protocols_of(*homes: Any) -> set[str]:
    """Return the names of the protocols that modules define."""
    return {
        name
        for home in homes
        for name, value in vars(home).items()
        if getattr(value, "_is_protocol", False) and value.__module__ == home.__name__
    }


def test_every_capability_is_in_the_table() -> None:
    protocols = protocols_of(contract, information, sensitivity)
    assert protocols - {"Model"} == first_column("Capabilities") - {"troth"}


def test_every_declaration_is_in_the_table_with_its_default_and_families_have_the_same() -> None:
    rows = re.findall(r"^\| (`[^|]*) \|[^|]*\| `([^|]*)` \|", SECTIONS["Declarations"], re.MULTILINE)
    documented = {name: default for names, default in rows for name in re.findall(r"`(\w+)`", names)}
    assert documented == {name: repr(getattr(Family, name)) for name in declarations.DECLARED}


def test_every_protocol_of_a_reduction_is_in_the_table() -> None:
    assert protocols_of(reduction) - {"Reduction"} == first_column("Reductions")
