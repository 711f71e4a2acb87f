"""Commands as children of one process that has already imported what they need, which saves a second for each.

`Preloaded` starts this file as a program. For each line of JSON on its input it forks a child, which runs one command
in a folder, with a file for its output. It prints the child's id, then how the child ended.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, NamedTuple

from troth.cli import commands

_OUTPUT = ".output"


class Done(NamedTuple):
    """How a command ended: its exit code, or minus the signal; and all that it printed."""

    code: int
    output: str


class Preloaded:
    """A process with everything imported, whose children run commands."""

    def __init__(self) -> None:
        given = {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}
        self._process: Any = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | given
        )

    def start(self, folder: Path, *arguments: object, first: str = "") -> int:
        """Start ``troth`` with arguments in a folder, after some Python code, and return the child's id."""
        task = {"arguments": list(map(str, arguments)), "folder": str(folder), "first": first}
        print(json.dumps(task), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def wait(self, folder: Path) -> Done:
        """Wait for the command that was started last, in this folder."""
        code = os.waitstatus_to_exitcode(int(self._process.stdout.readline()))
        output = folder / _OUTPUT
        text = output.read_text("utf-8") if output.exists() else ""  # it may have been killed at once
        output.unlink(missing_ok=True)
        return Done(code, text)

    def run(self, folder: Path, *arguments: object, first: str = "") -> Done:
        """Run ``troth`` with arguments in a folder, after some Python code."""
        self.start(folder, *arguments, first=first)
        return self.wait(folder)

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)


def _run(arguments: list[str], folder: str, first: str) -> int:
    """Be the command, in its folder, with nothing to read and with a file to print to; return the exit code."""
    os.chdir(folder)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream in (1, 2):
        os.dup2(os.open(_OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    sys.argv = ["troth", *arguments]
    try:
        exec(first, {})  # noqa: S102
        commands.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    return 1


def _serve() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = _run(**json.loads(line))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)  # to take everything down again takes longer than the command
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    for layer in ("results", "campaigns", "data", "history", "audits", "certificates", "mechanisms", "models", "core"):
        for module in pkgutil.walk_packages(importlib.import_module(f"troth.{layer}").__path__, f"troth.{layer}."):
            importlib.import_module(module.name)
    for lazy in ("pandas", "pydantic", "pydantic.type_adapter"):  # by pyarrow and typer, when they are used
        importlib.import_module(lazy)
    commands.command()
    gc.freeze()  # memory that no child copies
    _serve()
