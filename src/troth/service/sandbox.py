"""Run functions on untrusted files in a separate process, with limits on memory, processor time and elapsed time.

A fresh interpreter takes most of a second to start, and a server with threads must not fork. So a small process with
all modules loaded waits next to the server, and forks a child for each task (see `troth.service.worker_processes`).
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from troth.core.errors import ParameterError, TrothError
from troth.mechanisms import RULES
from troth.models import FAMILIES
from troth.service.errors import UnavailableError
from troth.service.worker_processes import BLOCK, LENGTH, NO_CHILD, OUT_OF_MEMORY, STARTED, STATUS, Bounds

_START = (
    "import sys; sys.path[:] = {path!r}; from troth.service.worker_processes import serve; serve({socket}, {modules!r})"
)
_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "GLIBC_TUNABLES")
_ARITHMETIC = ("OPENBLAS_", "BLIS_", "MKL_", "NPY_")  # these select instructions, which affect the last bits of sums
_SETTINGS = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # the other pools reserve more address space than they use
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
_PROGRAM = ("__main__", "__mp_main__")  # the program's module, in its main process and its worker processes
_START_SECONDS = 30.0  # until the waiting process must be ready, even on a busy machine


class MemoryLimitError(TrothError):
    """The task exceeds its memory limit."""


class TimeLimitError(TrothError):
    """The task exceeds its time limit."""


class AbortedError(TrothError):
    """The task ended without an answer, for example because damaged data crashed a parser."""


class Waiting:
    """A process that waits with modules loaded. Each server process starts its own when it is first needed.

    Tasks cannot read ``private`` paths: the database, keys, uploads, and the server's working directory.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self.modules = tuple(modules)
        self.private = frozenset([str(Path.cwd())])  # Python may import modules from there
        self._reset()
        os.register_at_fork(after_in_child=self._reset)
        atexit.register(self.close)

    def start(self) -> None:
        """Start it now, so that the first task does not wait for it."""
        with self._lock:
            self._ready()

    def close(self) -> None:
        """Stop it and its children; the next task starts it again."""
        with self._lock:
            self._stop()

    def hand_over(self, end: socket.socket) -> subprocess.Popen[bytes]:
        """Pass it one end of a task's socket, and return the process."""
        with self._lock:
            control, process = self._ready()
            with suppress(OSError):  # it has ended, which the caller notices because the task does not begin
                socket.send_fds(control, [STARTED], [end.fileno()])
            return process

    def replace(self, process: subprocess.Popen[bytes]) -> None:
        """Stop a process that does not answer, unless it has been replaced already."""
        with self._lock:
            if self.process is process:
                self._stop()

    def _reset(self) -> None:
        """Start without a process: at first, and in a fork of the server, which must not share its parent's."""
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._loaded: tuple[str, ...] = ()

    def _ready(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        modules = (*self.modules, *registering_modules())
        if modules != self._loaded:
            self._stop()
        if self._control is None or self.process is None:
            self._loaded = modules
            parent, child = socket.socketpair()
            with child:
                path = [str(Path(entry).absolute()) for entry in sys.path]
                code = _START.format(path=path, socket=child.fileno(), modules=modules)
                inherited = {
                    name: value
                    for name, value in os.environ.items()
                    if name in _INHERITED or name.startswith(_ARITHMETIC)
                }
                self.process = subprocess.Popen(  # noqa: S603 (our own interpreter and code)
                    [sys.executable, "-I", "-c", code],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[child.fileno()],
                    env=inherited | _SETTINGS,
                    cwd="/",
                    start_new_session=True,
                )
            self._control = parent
        return self._control, self.process

    def _stop(self) -> None:
        control, process, self._control, self.process = self._control, self.process, None, None
        if control is not None:
            control.close()
        if process is not None:
            try:
                process.wait(2.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


SCIPY = ("scipy.optimize", "scipy.signal", "scipy.spatial", "scipy.stats")
"""Modules that some rules import, loaded in advance so that they do not count against a child's limits."""
READING = Waiting(["troth.service.parse"])
"""The process whose children read uploads; it is small, so that they start quickly."""
COMPUTING = Waiting(["troth.service.limited_payments", "troth.service.preview", *SCIPY])
"""The process whose children compute payments and preview campaigns."""


class Sandbox:
    """Runs functions in children of a waiting process that has loaded their modules. It is thread-safe.

    At most ``places`` tasks run concurrently, by default one per processor and at least two. Others wait for a place
    for up to ``patience`` seconds.
    """

    def __init__(self, waiting: Waiting, places: int | None = None, patience: float = 60.0) -> None:
        self.waiting, self.patience = waiting, patience
        self._places = places or max(2, os.cpu_count() or 1)
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def run(self, function: Callable[..., Any], *arguments: Any, bounds: Bounds) -> Any:
        """Call a function of a loaded module, and return its value after a round trip through JSON.

        Raises
        ------
        MemoryLimitError, TimeLimitError, AbortedError, UnavailableError
            If there is no answer.
        """
        task = pickle.dumps((bounds, self.waiting.private, function, arguments))
        if not self._turn.acquire(timeout=self.patience):
            raise UnavailableError("too many files are waiting to be read; try again later")
        try:
            for _ in range(2):
                parent, child = socket.socketpair()
                with parent:
                    with child:
                        process = self.waiting.hand_over(child)
                    received = _converse(parent, task, bounds)
                if received is not None:
                    return _decode(received, bounds)
                self.waiting.replace(process)
        finally:
            self._turn.release()
        raise UnavailableError("the process that reads files does not start; see the server's log")

    def _reset(self) -> None:
        """Free all places: initially, and in a fork of the server."""
        self._turn = threading.BoundedSemaphore(self._places)


def registering_modules() -> list[str]:
    """Return the modules outside of troth that registered families and rules, which children must load too.

    Raises
    ------
    ParameterError
        If a family or rule is defined in the main program, which children cannot import.
    """
    added = [plugin for plugin in (*FAMILIES.values(), *RULES.values()) if not plugin.__module__.startswith("troth.")]
    for plugin in added:
        if plugin.__module__ in _PROGRAM:
            raise ParameterError(
                f"{plugin.__name__} is defined in the program that runs the service, and other processes cannot import "
                "it from there: define it in a module, and import that"
            )
    return sorted({plugin.__module__ for plugin in added})


def _converse(parent: socket.socket, task: bytes, bounds: Bounds) -> bytes | None:
    """Send a task and return all bytes received, or None if the waiting process is gone."""
    allowed = 1.5 * bounds.seconds + 1
    try:
        parent.settimeout(_START_SECONDS)
        parent.sendall(LENGTH.pack(len(task)) + task)
        if parent.recv(1) != STARTED:
            return None
    except OSError:
        return None
    received = bytearray()
    deadline = time.monotonic() + allowed
    try:
        while len(received) <= bounds.answer:
            parent.settimeout(max(1e-3, deadline - time.monotonic()))
            block = parent.recv(BLOCK)
            if not block:
                break
            received += block
    except TimeoutError:
        raise TimeLimitError(f"it takes longer than {allowed:g} s") from None
    except ConnectionError:
        return None
    return bytes(received) if len(received) >= STATUS.size else None


def _decode(received: bytes, bounds: Bounds) -> Any:
    if len(received) > bounds.answer:
        raise AbortedError("its answer is too long")
    end = LENGTH.size + LENGTH.unpack_from(received)[0] if len(received) >= LENGTH.size else len(received) + 1
    if len(received) >= end:
        try:
            return json.loads(received[LENGTH.size : end])
        except (ValueError, RecursionError):
            raise AbortedError("its answer cannot be read") from None
    status = STATUS.unpack(received[-STATUS.size :])[0]
    if status == NO_CHILD:
        raise UnavailableError("no process can be started; try again later")
    if status == -signal.SIGXCPU:
        raise TimeLimitError(f"it takes longer than {bounds.seconds:g} s of processor time")
    if status in (-signal.SIGKILL, OUT_OF_MEMORY):
        raise MemoryLimitError(f"it needs more than {bounds.memory:,} bytes")
    names = {-number: f"signal {number.name}" for number in signal.Signals}
    raise AbortedError(f"it crashed ({names.get(status, f'status {status}')})")
