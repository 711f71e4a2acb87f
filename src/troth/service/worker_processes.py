"""The process that waits next to the server with all modules loaded, and its children, which do the work.

It has a single thread, so it can fork, and it shares no memory, files or environment with the server. Each task has its
own socket. The child receives the task pickled, because it trusts the server, and answers in JSON, because the server
does not trust it. When the child ends, its status follows; when the server hangs up, the child is killed.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pickle
import resource
import select
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.abc import MetaPathFinder
from math import ceil
from pathlib import Path
from typing import NoReturn

from troth.service.confinement import confine

LENGTH, STATUS = struct.Struct(">Q"), struct.Struct(">i")
STARTED = b"."
OUT_OF_MEMORY, NO_CHILD = 90, 1 << 20  # an exit status of our own, and a number that is no exit status
BLOCK = 1 << 16
_MAX_OPEN_FILES = 64
_PR_SET_PDEATHSIG = 1  # of prctl: the signal to send when the parent dies


@dataclass(frozen=True)
class Bounds:
    """The resources that a task may use."""

    memory: int  # bytes of address space in addition to those of the loaded modules
    seconds: float  # of processor time, rounded up; elapsed time may be half as much again, plus a second
    answer: int = 1 << 20  # bytes of the answer
    files: tuple[str, ...] = ()  # files and folders that it may read, besides the installed modules


def serve(descriptor: int, modules: Sequence[str]) -> None:
    """Wait for tasks and fork a child for each, until the server is gone."""
    control = socket.socket(fileno=descriptor)
    sys.meta_path.insert(0, _HiddenModules())
    for module in modules:
        try:
            import_module(module)
        except ImportError as error:
            if module.startswith("troth."):
                raise
            sys.stderr.write(f"{module}, which registered a family or a rule, cannot be loaded: {error}\n")
    gc.collect()
    gc.freeze()
    _WaitingProcess(control).run()


class _HiddenModules(MetaPathFinder):
    """Hides pandas, which is not needed, and which Arrow would otherwise load in every child."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


class _WaitingProcess:
    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.wake, self.waking = socket.socketpair()  # so that the end of a child wakes `poll`
        for end in (self.wake, self.waking):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.waking.fileno(), warn_on_full_buffer=False)
        self.poll = select.poll()
        for end in (self.control, self.wake):
            self.poll.register(end, select.POLLIN)
        self.children: dict[int, socket.socket] = {}

    def run(self) -> None:
        while True:
            for descriptor, _ in self.poll.poll():
                if descriptor == self.wake.fileno():
                    with suppress(BlockingIOError):
                        self.wake.recv(4096)
                elif descriptor == self.control.fileno():
                    received, passed, _, _ = socket.recv_fds(self.control, 1, 1)
                    if not received:
                        return  # children end with their parent
                    self._begin(socket.socket(fileno=passed[0]))
                else:
                    self._hang_up(descriptor)
            self._reap()

    def _begin(self, job: socket.socket) -> None:
        _send(job, STARTED)
        try:
            child = os.fork()
        except OSError:
            _send(job, STATUS.pack(NO_CHILD))
            job.close()
            return
        if not child:
            _run_child(job, [self.control, self.wake, self.waking, *self.children.values()])
        with suppress(OSError):  # parent and child both try, because either may be first
            os.setpgid(child, child)
        self.children[child] = job
        self.poll.register(job, 0)  # reports only that the server hung up

    def _hang_up(self, descriptor: int) -> None:
        for child, job in self.children.items():
            if job.fileno() == descriptor:
                self.poll.unregister(job)
                with suppress(ProcessLookupError):  # the child was not reaped yet, so no other group has its number
                    os.killpg(child, signal.SIGKILL)

    def _reap(self) -> None:
        while self.children:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            job = self.children.pop(child)
            with suppress(KeyError):
                self.poll.unregister(job)
            _send(job, STATUS.pack(os.waitstatus_to_exitcode(status)))
            job.close()


def _send(job: socket.socket, content: bytes) -> None:
    with suppress(OSError):
        job.send(content, socket.MSG_DONTWAIT)


def _run_child(job: socket.socket, other_jobs: Sequence[socket.socket]) -> NoReturn:
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setpgid(0, 0)
        for other in other_jobs:
            other.close()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        (length,) = LENGTH.unpack(_receive(job, LENGTH.size))
        bounds, private, function, arguments = pickle.loads(_receive(job, length))  # noqa: S301 (the server's own)
        _limit(bounds)
        confine(map(Path, bounds.files), map(Path, private))
        answer = json.dumps(function(*arguments), allow_nan=False).encode()
        job.sendall(LENGTH.pack(len(answer)) + answer)
        status = 0
    except MemoryError:
        status = OUT_OF_MEMORY
    finally:
        os._exit(status)  # whatever was raised, the child ends here


def _limit(bounds: Bounds) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    seconds = max(1, ceil(bounds.seconds))
    for resource_kind, soft, hard in (
        (resource.RLIMIT_AS, used + bounds.memory, used + bounds.memory),
        (resource.RLIMIT_CPU, seconds, seconds + 1),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_NOFILE, _MAX_OPEN_FILES, _MAX_OPEN_FILES),
    ):
        resource.setrlimit(resource_kind, (soft, hard))


def _receive(job: socket.socket, length: int) -> bytes:
    content = bytearray()
    while len(content) < length:
        block = job.recv(min(BLOCK, length - len(content)))
        if not block:
            raise EOFError
        content += block
    return bytes(content)
