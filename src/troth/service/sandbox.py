"""Work on files that nobody vouches for, in a process of its own with limits on memory, processor time and the clock.

A fresh interpreter takes a second to start, and a server with threads must not fork. So a small process of one thread,
with all modules loaded, waits beside the server and forks a child for each task; it inherits none of the server's
memory, files or environment. A task and its answer travel over a socket that the server makes for it: the task
pickled, for the child trusts the server; the answer as JSON, for the server does not trust the child. Once the child
has ended, the waiting process adds how it ended; if the server closes the socket early, it kills the child.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import pickle
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from math import ceil
from typing import TYPE_CHECKING, Any, NoReturn

from troth.errors import TrothError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LENGTH, _STATUS = struct.Struct(">Q"), struct.Struct(">i")
_BLOCK = 1 << 16
_NO_CHILD = 1 << 20  # a status that no process ends with
_START = "import sys; sys.path[:] = {path!r}; from troth.service.sandbox import serve; serve({socket}, {modules!r})"
_KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "SYSTEMROOT")
_SETTINGS = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # others reserve more address space than they use
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # who forks has one thread
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class OutOfMemoryError(TrothError):
    """The task needs more memory than it may have."""


class OutOfTimeError(TrothError):
    """The task takes longer than it may."""


class BrokenOffError(TrothError):
    """The task ended without an answer, as damaged data may make a parser do."""


class UnavailableError(TrothError):
    """No child could be started, or all places were taken for too long."""


@dataclass(frozen=True)
class Bounds:
    """What a task may use.

    Attributes
    ----------
    memory
        Bytes of address space beyond those that the loaded modules take.
    seconds
        Processor time; the clock allows half as much again, and a second.
    answer
        Bytes of JSON that come back.
    """

    memory: int
    seconds: float
    answer: int = 1 << 20


class Sandbox:
    """Runs functions in children of a warm process; it may be shared by threads.

    Parameters
    ----------
    modules
        What tasks need, loaded once.
    places
        How many tasks run at once; others wait for their turn.
    patience
        Seconds that a task waits for its turn.
    """

    def __init__(self, modules: Sequence[str], places: int | None = None, patience: float = 60.0) -> None:
        self.modules, self.patience = tuple(modules), patience
        self._turn = threading.BoundedSemaphore(places or max(2, os.cpu_count() or 1))
        self._lock = threading.Lock()
        self._owner = 0
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def run(self, function: Callable[..., Any], *arguments: Any, bounds: Bounds) -> Any:
        """Return what a function of a loaded module makes of arguments, as JSON carries it.

        Raises
        ------
        TrothError
            One of this module's, which says how the task failed.
        """
        task = pickle.dumps((bounds, function, arguments))
        if not self._turn.acquire(timeout=self.patience):
            raise UnavailableError("too many tasks are waiting; try again later")
        try:
            for _ in range(2):
                ours, theirs = socket.socketpair()
                with ours:
                    with theirs:
                        process = self._hand_over(theirs)
                    found = _converse(ours, task, bounds)
                if found is not None:
                    return found
                self._discard(process)  # it was killed; another takes its place
        finally:
            self._turn.release()
        raise UnavailableError("the process that reads files does not start; see the server's log")

    def start(self) -> None:
        """Start the warm process now, so that the first task need not wait for it."""
        with self._lock:
            self._ready()

    def close(self) -> None:
        """Stop the warm process and its children."""
        with self._lock:
            self._stop()

    def _hand_over(self, place: socket.socket) -> subprocess.Popen[bytes]:
        with self._lock:
            for attempt in range(2):
                control, process = self._ready()
                try:
                    socket.send_fds(control, [b"."], [place.fileno()])
                    return process
                except OSError:
                    self._stop()
                    if attempt:
                        raise UnavailableError("the process that reads files does not start") from None
        raise AssertionError

    def _discard(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            if self._process is process:
                self._stop()

    def _ready(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        if self._control is None or self._process is None or self._owner != os.getpid():
            ours, theirs = socket.socketpair()
            with theirs:
                code = _START.format(path=sys.path, socket=theirs.fileno(), modules=self.modules)
                kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
                self._process = subprocess.Popen(  # noqa: S603 (our own interpreter and code)
                    [sys.executable, "-I", "-c", code],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env=kept | _SETTINGS,
                    cwd="/",
                    start_new_session=True,
                )
            self._control, self._owner = ours, os.getpid()
        return self._control, self._process

    def _stop(self) -> None:
        control, process, self._control, self._process = self._control, self._process, None, None
        if control is not None:
            control.close()
        if process is None or self._owner != os.getpid():
            return
        try:
            process.wait(2.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _converse(ours: socket.socket, task: bytes, bounds: Bounds) -> Any:
    """Send a task and return its answer, or None if the warm process is gone."""
    allowed = 1.5 * bounds.seconds + 1
    deadline = time.monotonic() + allowed + 5  # with the start of the warm process
    received = bytearray()
    try:
        ours.settimeout(deadline - time.monotonic())
        ours.sendall(_LENGTH.pack(len(task)) + task)
        while len(received) <= bounds.answer + _LENGTH.size + _STATUS.size:
            ours.settimeout(max(1e-3, deadline - time.monotonic()))
            if not received:
                started = ours.recv(1)
                if not started:
                    return None
                received += started
                deadline = time.monotonic() + allowed
                continue
            block = ours.recv(_BLOCK)
            if not block:
                break
            received += block
    except TimeoutError:
        raise OutOfTimeError(f"it takes longer than {allowed:g} s") from None
    except (ConnectionError, BrokenPipeError):
        return None
    return _answer(bytes(received[1:]), bounds)


def _answer(received: bytes, bounds: Bounds) -> Any:
    if len(received) > bounds.answer:
        raise BrokenOffError("its answer is too long")
    length = _LENGTH.unpack_from(received)[0] if len(received) >= _LENGTH.size else None
    if length is not None and len(received) >= _LENGTH.size + length:
        try:
            return json.loads(received[_LENGTH.size : _LENGTH.size + length])
        except (ValueError, RecursionError):
            raise BrokenOffError("its answer cannot be read") from None
    if len(received) < _STATUS.size:
        return None
    status = _STATUS.unpack(received[-_STATUS.size :])[0]
    if status == _NO_CHILD:
        raise UnavailableError("no process can be started")
    if status in (-signal.SIGXCPU, _TIME):
        raise OutOfTimeError(f"it takes longer than {bounds.seconds:g} s of processor time")
    if status in (-signal.SIGKILL, _MEMORY):
        raise OutOfMemoryError("it needs too much memory")
    raise BrokenOffError(f"it broke off with {_named(status)}")


_MEMORY, _TIME = 90, 91  # statuses of children that ended themselves


def _named(status: int) -> str:
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"status {status}"


def serve(place: int, modules: Sequence[str]) -> None:
    """Wait for tasks, and fork a child for each: the life of the warm process."""
    control = socket.socket(fileno=place)
    sys.modules["pandas"] = None  # type: ignore[assignment]  # Arrow would load it in every child
    for module in modules:
        import_module(module)
    gc.collect()
    gc.freeze()
    wake, waking = socket.socketpair()
    wake.setblocking(False)
    waking.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake, select.POLLIN)
    children: dict[int, socket.socket] = {}
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == wake.fileno():
                with suppress(BlockingIOError):
                    wake.recv(4096)
                continue
            if descriptor == control.fileno():
                received, passed, _, _ = socket.recv_fds(control, 1, 1)
                if not received:
                    for child in children:
                        os.kill(child, signal.SIGKILL)
                    return
                job = socket.socket(fileno=passed[0])
                try:
                    child = os.fork()
                except OSError:
                    _tell(job, _NO_CHILD)
                    job.close()
                    continue
                if not child:
                    _be_child(job, [control, wake, waking, *children.values()])
                children[child] = job
                poll.register(job, 0)  # tells only that the server hung up
                continue
            for child, job in children.items():
                if job.fileno() == descriptor:
                    poll.unregister(job)
                    os.kill(child, signal.SIGKILL)  # it was not waited for, so its number is still its own
        while children:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                break
            job = children.pop(child)
            with suppress(KeyError):
                poll.unregister(job)
            _tell(job, os.waitstatus_to_exitcode(status))
            job.close()


def _tell(job: socket.socket, status: int) -> None:
    with suppress(OSError):
        job.send(_STATUS.pack(status), socket.MSG_DONTWAIT)


def _be_child(job: socket.socket, others: Sequence[socket.socket]) -> NoReturn:
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for other in others:
            other.close()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        job.sendall(b".")
        (length,) = _LENGTH.unpack(_received(job, _LENGTH.size))
        bounds, function, arguments = pickle.loads(_received(job, length))  # noqa: S301 (the server's own)
        _limit(bounds)
        answer = json.dumps(function(*arguments), allow_nan=False).encode()
        job.sendall(_LENGTH.pack(len(answer)) + answer)
        status = 0
    except MemoryError:
        status = _MEMORY
    except BaseException:  # noqa: BLE001 (nothing leaves the child but its status)
        status = 1
    finally:
        os._exit(status)


def _limit(bounds: Bounds) -> None:
    with open("/proc/self/statm") as file:  # noqa: PTH123 (in a child, with as little around it as possible)
        used = int(file.read().split()[0]) * resource.getpagesize()
    seconds = max(1, ceil(bounds.seconds))
    for what, soft, hard in (
        (resource.RLIMIT_AS, used + bounds.memory, used + bounds.memory),
        (resource.RLIMIT_CPU, seconds, seconds + 1),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_NOFILE, 64, 64),
    ):
        resource.setrlimit(what, (soft, hard))


def _received(job: socket.socket, length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        block = job.recv(min(_BLOCK, length - len(found)))
        if not block:
            raise EOFError
        found += block
    return bytes(found)
