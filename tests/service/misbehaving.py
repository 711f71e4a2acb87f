"""Tasks that a sandbox must stop, or that inspect it from inside."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import resource
import signal
import socket
import subprocess
import termios
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


def limits() -> dict[str, tuple[int, int]]:
    names = ("RLIMIT_CORE", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE")
    return {name: resource.getrlimit(getattr(resource, name)) for name in names}


def surroundings() -> list[Any]:
    return [sorted(os.environ), sorted(os.listdir("/proc/self/fd"))]


_NUMBERS = """
tgkill 234 131, pidfd_open 434 434, ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, mount 165 40,
unshare 272 97, setns 308 268, bpf 321 280, perf_event_open 298 241, keyctl 250 219, add_key 248 217,
io_uring_setup 425 425, open_by_handle_at 304 265, name_to_handle_at 303 264, shmget 29 194, semget 64 190,
msgget 68 186, mq_open 240 180, inotify_init1 294 26, fanotify_init 300 262, userfaultfd 323 282, memfd_create 319 279,
memfd_secret 447 447, fchmodat2 452 452, setxattrat 463 463, renameat2 316 276, openat2 437 437, pidfd_getfd 438 438,
truncate 76 45, fallocate 285 47, syslog 103 116, personality 135 92, landlock_create_ruleset 444 444,
setpriority 141 140, sched_setscheduler 144 119, setresuid 117 147, capset 126 91, chroot 161 51, pivot_root 155 41,
move_mount 429 429, fsopen 430 430, sendmsg 46 211, sendmmsg 307 269, recvmsg 47 212, socketpair 53 199, flock 73 32
"""


def _call(name: str, *arguments: int | bytes) -> None:
    """Make a system call for which Python has no function."""
    column = list(confinement.CALLS).index(platform.machine())
    numbers = {entry.split()[0]: int(entry.split()[1 + column]) for entry in _NUMBERS.replace("\n", " ").split(",")}
    _call_number(numbers[name], *arguments)


def _call_number(number: int, *arguments: int | bytes) -> None:
    if ctypes.CDLL(None, use_errno=True).syscall(number, *arguments) < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def unlisted_calls(highest: int) -> list[list[int]]:
    """Return the system calls that are not on the list but do not fail with EPERM, with their errors."""
    allowed, unexpected = set(confinement.CALLS[platform.machine()].values()), []
    for number in set(range(highest)) - allowed - {335, 336}:  # uprobes, which the kernel never filters
        try:
            _call_number(number, -1, -1, -1, -1, -1, -1)
        except OSError as error:
            if error.errno != errno.EPERM:
                unexpected.append([number, error.errno or 0])
        else:
            unexpected.append([number, 0])
    return unexpected


def readable(paths: list[str]) -> list[str]:
    """Return the paths that can be read."""
    return [path for path in paths if not _fails(Path(path).read_bytes)]


def _fails(attempt: Callable[[], Any]) -> str:
    """Return the name of the exception that an attempt raises, or an empty string."""
    try:
        attempt()
    except BaseException as error:
        return type(error).__name__
    return ""


def attack(path: str, database: str, server: int, port: int) -> dict[str, str]:
    """Try everything that a malicious file might do, and return the outcome of each attempt."""
    beside, handle = f"{database}.new", os.open(path, os.O_RDONLY)
    attempts: dict[str, Callable[[], Any]] = {
        "read the file": Path(path).read_bytes,
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
        "truncate": lambda: os.truncate(database, 0),
        "truncate on opening": lambda: os.open(database, os.O_RDONLY | os.O_TRUNC),
        "truncate the file on opening": lambda: os.open(path, os.O_RDONLY | os.O_TRUNC),
        "truncate a handle": lambda: os.ftruncate(handle, 0),
        "open to append": lambda: os.open(database, os.O_WRONLY | os.O_APPEND),
        "create": lambda: os.open(beside, os.O_CREAT | os.O_RDONLY),
        "create without a name": lambda: os.open(os.path.dirname(database), os.O_TMPFILE | os.O_RDWR),
        "chmod": lambda: os.chmod(database, 0o666),
        "chmod a handle": lambda: os.fchmod(handle, 0o666),
        "chmod without following": lambda: _call("fchmodat2", -100, database.encode(), 0o666, 0x100),
        "chown": lambda: os.chown(database, os.getuid(), -1),
        "lchown": lambda: os.lchown(database, os.getuid(), -1),
        "utime": lambda: os.utime(database, (0, 0)),
        "setxattr": lambda: os.setxattr(database, "user.x", b"1"),
        "setxattr, a newer call": lambda: _call("setxattrat", -100, database.encode(), 0, b"user.x", b"", 0),
        "rename": lambda: os.rename(database, beside),
        "exchange": lambda: _call("renameat2", -100, database.encode(), -100, path.encode(), 2),
        "unlink": lambda: os.unlink(database),
        "rmdir": lambda: os.rmdir(os.path.dirname(database)),
        "mkdir": lambda: os.mkdir(beside),
        "link": lambda: os.link(database, beside),
        "symlink": lambda: os.symlink(database, beside),
        "mknod": lambda: os.mknod(beside),
        "mkfifo": lambda: os.mkfifo(beside),
        "lock": lambda: _call("flock", handle, 2),
        "lock a range": lambda: fcntl.lockf(handle, fcntl.LOCK_SH | fcntl.LOCK_NB),
        "have the server signalled": lambda: fcntl.fcntl(handle, fcntl.F_SETOWN, server),
        "control a device": lambda: fcntl.ioctl(handle, termios.FIONREAD, b"1234"),
        "watch files": lambda: _call("inotify_init1", 0),
        "watch a file system": lambda: _call("fanotify_init", 0, 0),
        "share memory": lambda: _call("shmget", 0x1234, 4096, 0o1600),
        "share semaphores": lambda: _call("semget", 0x1234, 1, 0o1600),
        "send messages": lambda: _call("msgget", 0x1234, 0o1600),
        "send POSIX messages": lambda: _call("mq_open", b"troth", 0o102, 0o600, 0),
        "make a pair of sockets": socket.socketpair,
        "send a handle": lambda: _call("sendmsg", 0, 0, 0),
        "make a pipe": os.pipe,
        "trace": lambda: _call("ptrace", 16, server, 0, 0),
        "be traced": lambda: _call("ptrace", 0, 0, 0, 0),
        "read another's memory": lambda: _call("process_vm_readv", server, 0, 0, 0, 0, 0),
        "write another's memory": lambda: _call("process_vm_writev", server, 0, 0, 0, 0, 0),
        "point at a process": lambda: _call("pidfd_open", server, 0),
        "kill its group": lambda: os.killpg(0, 0),
        "kill everybody": lambda: os.kill(-1, 0),
        "keep a file in memory": lambda: os.memfd_create("x"),
        "keep a secret in memory": lambda: _call("memfd_secret", 0),
        "run a file by its handle": lambda: os.execve(handle, ["x"], {}),
        "queue calls in a ring": lambda: _call("io_uring_setup", 1, bytes(120)),
        "open by handle": lambda: _call("open_by_handle_at", -100, bytes(136), 0),
        "name a handle": lambda: _call("name_to_handle_at", -100, database.encode(), bytes(136), bytes(8), 0),
        "open, a newer call": lambda: _call("openat2", -100, database.encode(), bytes(24), 24),
        "mount": lambda: _call("mount", b"none", b"/tmp", b"tmpfs", 0, 0),
        "open a file system": lambda: _call("fsopen", b"tmpfs", 0),
        "change its root": lambda: os.chroot("/"),
        "enter new namespaces": lambda: _call("unshare", 0x20000),
        "enter a namespace": lambda: _call("setns", handle, 0),
        "regain powers": lambda: _call("capset", bytes(8), bytes(24)),
        "add a key": lambda: _call("add_key", b"user", b"x", b"y", 1, -3),
        "load a program into the kernel": lambda: _call("bpf", 0, bytes(128), 128),
        "measure the machine": lambda: _call("perf_event_open", bytes(128), 0, -1, -1, 0),
        "handle page faults": lambda: _call("userfaultfd", 1),
        "read the kernel's log": lambda: _call("syslog", 10, 0, 0),
        "be nicer to itself": lambda: _call("setpriority", 0, 0, 5),
        "start a thread": lambda: threading.Thread(target=list).start(),
    }
    return {what: _fails(attempt) or "done" for what, attempt in attempts.items()}
