"""Every shell session and every piece of a campaign file in the documentation is run or read."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pages import command_line
from preloaded import Preloaded
from registry import SOAK
from troth.campaigns.tables import TABLES

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
    return [match["text"] for match in BLOCK.finditer(page.read_text("utf-8")) if match["kind"].strip() == kind]


def steps(block: str) -> list[Step]:
    steps_of_page: list[Step] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            steps_of_page.append(Step(line[2:], ""))
        elif line.startswith("> ") and not steps_of_page[-1].output:
            steps_of_page[-1] = Step(f"{steps_of_page[-1].command}\n{line[2:]}", "")
        else:
            steps_of_page[-1] = Step(steps_of_page[-1].command, f"{steps_of_page[-1].output}{line}\n")
    return steps_of_page


PLAIN = re.compile(r"troth [^|&;<>$`*?#~\\\n]*")
"""A command that a shell has nothing to do with but to split it into words."""

SAME_SECRETS = """
import random, secrets
drawn = random.Random(20201206)
secrets.token_hex = lambda size: drawn.randbytes(size).hex()
"""
"""Payments depend on a secret that `troth init` draws: with the same one they are the same in every run."""


@pytest.fixture(scope="module")
def preloaded() -> Iterator[Preloaded]:
    preloaded = Preloaded()
    yield preloaded
    preloaded.close()


def run_step(step: Step, folder: Path, preloaded: Preloaded | None = None) -> str | None:
    """Run a command, and return what is wrong with it, if anything."""
    if preloaded is not None and PLAIN.fullmatch(step.command):
        return wrong_with(step, *preloaded.run(folder, *shlex.split(step.command)[1:], first=SAME_SECRETS))
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
        "PYTHONUTF8": "1",
    }
    done = subprocess.run(
        [str(shutil.which("bash")), "-euo", "pipefail", "-c", step.command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    return wrong_with(step, done.returncode, done.stdout)


def wrong_with(step: Step, code: int, output: str) -> str | None:
    if code != 0:
        return f"exit code {code}:\n{output}"
    if step.output and not CHECKER.check_output(step.output, output, FLAGS):
        return f"expected\n{step.output}\nand got\n{output}"
    return None


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "console")], ids=lambda p: str(p.relative_to(ROOT)))
def test_every_session_runs(page: Path, tmp_path: Path, preloaded: Preloaded) -> None:
    """By a shell, as a reader starts: in the first session of the README; others by a process that has started."""
    for number, block in enumerate(blocks(page, "console")):
        starts = SOAK or (page.name == "README.md" and number == 0)
        for step in steps(block):
            problem = run_step(step, tmp_path, None if starts else preloaded)
            assert problem is None, f"{page.name}: {step.command}\n{problem}"


def test_a_session_that_prints_something_else_is_caught(tmp_path: Path, preloaded: Preloaded) -> None:
    for way in (None, preloaded):
        assert run_step(Step("troth --version", "troth ...\n"), tmp_path, way) is None
        assert "expected" in str(run_step(Step("troth --version", "two\n"), tmp_path, way))
        assert "exit code 1" in str(run_step(Step("troth verify 'no such file'", ""), tmp_path, way))
    assert run_step(Step("echo one", "one\n"), tmp_path) is None
    assert "expected" in str(run_step(Step("echo one", "two\n"), tmp_path))
    assert "exit code 1" in str(run_step(Step("false | cat", ""), tmp_path))
    assert steps("$ a \\\n> b\nout\n$ c\n") == [Step("a \\\nb", "out\n"), Step("c", "")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_block_is_of_a_kind_that_is_run(page: Path) -> None:
    for match in BLOCK.finditer(page.read_text("utf-8")):
        kind, text = match["kind"].strip(), match["text"]
        assert kind in ("python", "console", "toml", "text") or kind.startswith("{"), f"{page.name}: {kind or text}"
        if kind == "python":
            assert text.startswith(">>> "), f"{page.name}: not a session that doctest runs:\n{text}"
        if kind == "toml":
            assert set(tomllib.loads(text)) <= set(TABLES), f"{page.name}: no tables of a campaign file:\n{text}"


COMMANDS = {entry.name: entry.command for entry in command_line.commands()}
INDENTED = re.compile(r"(?<=\n\n)(?:(?: {4}.*)?\n)+")
INLINE = re.compile(r"`(troth [a-z][^`]*)`")


def mentioned(text: str) -> list[str]:
    """Return the commands that a page names without running them: in indented blocks, and within sentences."""
    outside = BLOCK.sub("", text)
    lines = [line.strip() for block in INDENTED.findall(outside) for line in block.splitlines()]
    inline = [" ".join(command.split()) for command in INLINE.findall(outside)]
    return [line for line in [*lines, *inline] if line.startswith("troth ")]


def unknown(mention: str) -> str | None:
    """Return what is wrong with a command: that it, or an option of it, does not exist."""
    words = shlex.split(mention, comments=True)
    name = words[0]
    while len(words) > 1 and f"{name} {words[1]}" in COMMANDS:
        name = f"{name} {words.pop(1)}"
    command = COMMANDS[name]
    if getattr(command, "commands", None) and len(words) > 1 and not words[1].startswith("-"):
        return f"{name} has no command {words[1]}"
    options = {
        spelling for parameter in command.params for spelling in (*parameter.opts, *parameter.secondary_opts)
    } | {"--help", "-h"}
    wrong = [word for word in words[1:] if word.startswith("--") and word.split("=")[0] not in options]
    return f"{name} has no option {wrong[0]}" if wrong else None


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_that_is_named_exists(page: Path) -> None:
    wrong = {mention: problem for mention in mentioned(page.read_text("utf-8")) if (problem := unknown(mention))}
    assert not wrong


def test_a_command_that_does_not_exist_is_noticed() -> None:
    text = "Say\n\n    troth pay x.toml --fnal  # now\n\nor `troth round opne`, or `troth pay`\n"
    text += "\n```console\n$ troth no\n```\n"
    assert [unknown(line) for line in mentioned(text)] == [
        "troth pay has no option --fnal",
        "troth round has no command opne",
        None,
    ]
    assert unknown("troth paid") == "troth has no command paid"
