"""Tasks that a sandbox must end, or that look around in it."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from troth.service import confinement


def eat() -> int:
    return len(np.ones(1 << 28))


def burn() -> None:
    while True:
        pass


def sleep() -> None:
    threading.Event().wait()


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def write(path: str) -> None:
    Path(path).write_text("x")


def flood() -> str:
    return "x" * (4 << 20)


def fail() -> None:
    raise RuntimeError


def surroundings() -> list[Any]:
    return [sorted(os.environ), sorted(os.listdir("/proc/self/fd"))]


def _call(name: str, *arguments: int) -> None:
    """Make a system call that Python has no function for."""
    system = ctypes.CDLL(None, use_errno=True)
    if system.syscall(confinement.CALLS[platform.machine()][name], *arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


def attack(given: str, database: str, server: int, port: int) -> dict[str, str]:
    """Try everything that a payload might want, and return how each attempt went."""
    attempts: dict[str, Callable[[], Any]] = {
        "read the file": Path(given).read_bytes,
        "read a database": Path(database).read_bytes,
        "read accounts": Path("/etc/passwd").read_bytes,
        "list a folder": lambda: os.listdir(Path(database).parent),
        "write": lambda: Path(database).write_bytes(b""),
        "read the server's memory": lambda: os.close(os.open(f"/proc/{server}/mem", os.O_RDONLY)),
        "read the server's environment": Path(f"/proc/{server}/environ").read_bytes,
        "connect": lambda: socket.create_connection(("127.0.0.1", port)),
        "open a socket": lambda: socket.socket(socket.AF_UNIX),
        "leave a daemon": os.fork,
        "run a program": lambda: subprocess.run(["/bin/true"], check=True),
        "signal the server": lambda: os.kill(server, 0),
        "signal a thread of the server": lambda: _call("tgkill", server, server, 0),
        "limit the server": lambda: resource.prlimit(server, resource.RLIMIT_CORE),
        "become another user": lambda: os.setuid(1),
        "start a thread": lambda: threading.Thread(target=list).start(),
    }
    outcomes = {}
    for what, attempt in attempts.items():
        try:
            attempt()
        except BaseException as error:
            outcomes[what] = type(error).__name__
        else:
            outcomes[what] = "done"
    return outcomes
