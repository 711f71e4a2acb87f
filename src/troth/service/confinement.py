"""What a process gives up before it touches untrusted data, as far as the kernel lets it.

No powers of the administrator (a user namespace of its own), no new files but the one to be read (Landlock), no
network, no other program, no child, no look into other processes and no signals to them (seccomp). These are Linux
system calls without a library of their own, so most are called by number. What the kernel does not have is reported,
not assumed.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_NO_NEW_PRIVILEGES, _DUMPABLE, _SECCOMP, _FILTER_MODE = 38, 4, 22, 2  # of prctl
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # of Landlock, the same on every architecture
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_ALL_FILES = (1 << 13) - 1  # what the first version of Landlock governs
_THREAD, _NEW_USERS = 0x10000, 0x10000000  # flags of clone: a thread, and a user namespace
_REFUSED, _UNKNOWN = 0x00050000 | 1, 0x00050000 | 38  # EPERM, and ENOSYS, after which libraries try another call
_ALLOWED, _KILLED = 0x7FFF0000, 0x80000000
_OTHER_NUMBERS = 0x40000000  # from here on the same calls have other numbers
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_TABLE = """
socket 41 198, connect 42 203, accept 43 202, bind 49 200, listen 50 201, accept4 288 242, execve 59 221,
execveat 322 281, clone 56 220, clone3 435 435, kill 62 129, tkill 200 130, tgkill 234 131,
rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240, pidfd_send_signal 424 424, ptrace 101 117,
process_vm_readv 310 270, process_vm_writev 311 271, pidfd_open 434 434, pidfd_getfd 438 438, mount 165 40,
unshare 272 97, setns 308 268, bpf 321 280, perf_event_open 298 241, keyctl 250 219,
io_uring_setup 425 425, open_by_handle_at 304 265, shmget 29 194, shmat 30 196, userfaultfd 323 282,
kexec_load 246 104, init_module 175 105, finit_module 313 273, setpriority 141 140, prlimit64 302 261,
sched_setaffinity 203 122, sched_setscheduler 144 119, sched_setattr 314 274, fork 57 -, vfork 58 -
"""
CALLS: dict[str, dict[str, int]] = {machine: {} for machine in _ARCHITECTURES}
"""The numbers of the system calls that are refused, by architecture and name."""
for _entry in _TABLE.replace("\n", " ").split(","):
    _name, *_numbers = _entry.split()
    for _machine, _number in zip(CALLS, _numbers, strict=True):
        if _number != "-":  # newer architectures have no fork beside clone
            CALLS[_machine][_name] = int(_number)
_lacking: list[str] = []


def confine(files: Iterable[Path]) -> None:
    """Give up all but reading some files and the installed modules; for good, and for every child."""
    system = ctypes.CDLL(None, use_errno=True)
    system.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _lacking.clear()
    if system.unshare(_NEW_USERS) != 0:
        _lacking.append("user: the kernel makes no user namespace, so a file is read with the service's powers")
    own = Path(f"/proc/{os.getpid()}")
    if not _only_read(system, [*files, *_modules(), *([own] if own.exists() else [])]):
        _lacking.append("files: the kernel has no Landlock, so a file could read whatever the service can read")
    if not _refuse_calls(system):
        _lacking.append("network and children: the kernel takes no seccomp filter of this program")


def missing() -> list[str]:
    """Return what this process should have given up and could not."""
    return list(_lacking)


def _modules() -> list[Path]:
    """Return where Python and its modules are; never the working folder, which may hold a database."""
    here = Path.cwd()
    modules = [path for path in map(Path, filter(None, sys.path)) if path.resolve() not in (here, *here.parents)]
    installed = (sys.prefix, sys.base_prefix, "/usr", "/lib", "/lib64", "/etc/localtime", "/dev/null", "/dev/urandom")
    return [path for path in (*modules, *map(Path, installed)) if path.exists()]


def hide_memory() -> None:
    """Keep other processes of the same user from reading this one's memory; the administrator still can."""
    ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)


def _only_read(system: ctypes.CDLL, paths: Iterable[Path]) -> bool:
    attributes = struct.pack("=Q", _ALL_FILES)
    ruleset = system.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    try:
        for path in paths:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                allowed = _READ_FILE | (_READ_FOLDER if path.is_dir() else 0)
                rule = struct.pack("=Qi", allowed, handle)
                if system.syscall(_ADD_RULE, ruleset, 1, rule, 0) < 0:
                    return False
            finally:
                os.close(handle)
        return bool(system.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _refuse_calls(system: ctypes.CDLL) -> bool:
    machine = platform.machine()
    if machine not in CALLS:
        return False
    program = _program(_ARCHITECTURES[machine], dict(CALLS[machine]))
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    return bool(system.prctl(_SECCOMP, _FILTER_MODE, header, 0, 0) == 0)


def _program(architecture: int, calls: dict[str, int]) -> bytes:
    """Return the filter, in the kernel's small language: load a word, compare and jump, return."""
    load, equal, at_least, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
    clone, clone3, limits = calls.pop("clone"), calls.pop("clone3"), calls.pop("prlimit64")
    lines = [
        (load, 0, 0, 4),  # the architecture
        (equal, 1, 0, architecture),
        (give, 0, 0, _KILLED),
        (load, 0, 0, 0),  # the number of the call
        (at_least, 0, 1, _OTHER_NUMBERS),
        (give, 0, 0, _REFUSED),
        (equal, 0, 1, clone3),
        (give, 0, 0, _UNKNOWN),
        (equal, 0, 4, clone),
        (load, 0, 0, 16),  # its flags
        (any_bit, 0, 1, _THREAD),
        (give, 0, 0, _ALLOWED),
        (give, 0, 0, _REFUSED),
        (equal, 0, 4, limits),
        (load, 0, 0, 16),  # whose limits: 0 is its own
        (equal, 0, 1, 0),
        (give, 0, 0, _ALLOWED),
        (give, 0, 0, _REFUSED),
    ]
    for number in sorted(calls.values()):
        lines += [(equal, 0, 1, number), (give, 0, 0, _REFUSED)]
    return b"".join(struct.pack("=HBBI", *line) for line in [*lines, (give, 0, 0, _ALLOWED)])
