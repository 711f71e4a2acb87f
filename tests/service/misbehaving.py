"""Tasks that a sandbox must end, or that look around in it."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np


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
