"""Commands that run as forks of a process with everything imported, which saves a second for each.

`Preloaded` starts this file as a program. For each line of JSON on its input, the program forks a child that runs one
command in a folder and writes its output to a file. It prints the child's process id, then its wait status.
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
    """The result of a command: its exit code, or minus the signal that killed it, and its output."""

    code: int
    output: str


class Preloaded:
    """A process with everything imported, whose forks run commands."""

    def __init__(self) -> None:
        locale = {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}
        self._process: Any = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | locale,
        )

    def start(self, folder: Path, *arguments: object, first: str = "") -> int:
        """Start ``troth`` in a folder, after the Python code ``first``, and return the process id."""
        task = {"arguments": list(map(str, arguments)), "folder": str(folder), "first": first}
        print(json.dumps(task), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def wait(self, folder: Path) -> Done:
        """Wait for the last command started, and return its result."""
        code = os.waitstatus_to_exitcode(int(self._process.stdout.readline()))
        output = folder / _OUTPUT
        text = output.read_text("utf-8") if output.exists() else ""  # none if it was killed immediately
        output.unlink(missing_ok=True)
        return Done(code, text)

    def run(self, folder: Path, *arguments: object, first: str = "") -> Done:
        """Run ``troth`` in a folder, after the Python code ``first``."""
        self.start(folder, *arguments, first=first)
        return self.wait(folder)

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)


def _run(arguments: list[str], folder: str, first: str) -> int:
    """Run the command in this process, without input and with its output in a file; return the exit code."""
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
            os._exit(code)  # a regular exit would take longer than the command
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    for layer in ("results", "campaigns", "data", "history", "audits", "certificates", "mechanisms", "models", "core"):
        for module in pkgutil.walk_packages(importlib.import_module(f"troth.{layer}").__path__, f"troth.{layer}."):
            importlib.import_module(module.name)
    for lazy in ("pandas", "pydantic", "pydantic.type_adapter"):  # imported by pyarrow and typer on first use
        importlib.import_module(lazy)
    commands.command()
    gc.freeze()  # so that children do not copy this memory
    _serve()
