"""Every shell session and every piece of a campaign file in the documentation is run or read."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from troth.campaigns.spec import TABLES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if p.parent.name != "gallery")]
BLOCK = re.compile(r"^(?P<fence>`{3,})(?P<kind>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL)
CHECKER = doctest.OutputChecker()
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Step(NamedTuple):
    """A command, and what it should print."""

    command: str
    output: str


def blocks(page: Path, kind: str) -> list[str]:
    return [found["text"] for found in BLOCK.finditer(page.read_text("utf-8")) if found["kind"].strip() == kind]


def steps(block: str) -> list[Step]:
    found: list[Step] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(Step(line[2:], ""))
        elif line.startswith("> ") and not found[-1].output:
            found[-1] = Step(f"{found[-1].command}\n{line[2:]}", "")
        else:
            found[-1] = Step(found[-1].command, f"{found[-1].output}{line}\n")
    return found


def run_step(step: Step, folder: Path) -> str | None:
    """Run a command, and return what is wrong with it, if anything."""
    told = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
        "PYTHONUTF8": "1",
    }
    done = subprocess.run(
        [str(shutil.which("bash")), "-euo", "pipefail", "-c", step.command],
        cwd=folder,
        env=told,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode != 0:
        return f"exit code {done.returncode}:\n{done.stdout}"
    if step.output and not CHECKER.check_output(step.output, done.stdout, FLAGS):
        return f"expected\n{step.output}\nand got\n{done.stdout}"
    return None


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "console")], ids=lambda p: str(p.relative_to(ROOT)))
def test_every_session_runs(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "console"):
        for step in steps(block):
            problem = run_step(step, tmp_path)
            assert problem is None, f"{page.name}: {step.command}\n{problem}"


def test_a_session_that_prints_something_else_is_caught(tmp_path: Path) -> None:
    assert run_step(Step("echo one", "one\n"), tmp_path) is None
    assert "expected" in str(run_step(Step("echo one", "two\n"), tmp_path))
    assert "exit code 1" in str(run_step(Step("false | cat", ""), tmp_path))
    assert steps("$ a \\\n> b\nout\n$ c\n") == [Step("a \\\nb", "out\n"), Step("c", "")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_block_is_of_a_kind_that_is_run(page: Path) -> None:
    for found in BLOCK.finditer(page.read_text("utf-8")):
        kind, text = found["kind"].strip(), found["text"]
        assert kind in ("python", "console", "toml", "text") or kind.startswith("{"), f"{page.name}: {kind or text}"
        if kind == "python":
            assert text.startswith(">>> "), f"{page.name}: not a session that doctest runs:\n{text}"
        if kind == "toml":
            assert set(tomllib.loads(text)) <= set(TABLES), f"{page.name}: no tables of a campaign file:\n{text}"
