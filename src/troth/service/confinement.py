"""Permissions that a process gives up before it reads untrusted data, as far as the kernel supports it.

The process gives up the rights of an administrator (with its own user namespace), all files but those that it reads
(Landlock), and all system calls but those that parsing and computing make (seccomp): memory, threads, the clock and
reading. Then it can open no connection, start no program or child, send no signal and change no file. These Linux
system calls have no library of their own, so most are called by number. Whatever the kernel lacks is reported.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

_NO_NEW_PRIVILEGES, _DUMPABLE, _SECCOMP, _FILTER_MODE = 38, 4, 22, 2  # of prctl
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # of Landlock, on every architecture
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}  # how many rights on files Landlock governs, from each version on
_PORTS, _SCOPES = 3, 3  # bind and connect, from version 4 on; abstract sockets and signals, from 6 on
_NEW_USERS = 0x10000000  # flag of unshare: a user namespace
_REFUSED, _UNKNOWN = 0x00050000 | 1, 0x00050000 | 38  # EPERM, and ENOSYS, after which libraries try another call
_ALLOWED, _KILLED = 0x7FFF0000, 0x80000000
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_TABLE = """
read 0 63, write 1 64, open 2 -, close 3 57, stat 4 -, fstat 5 80, lstat 6 -, lseek 8 62, mmap 9 222, mprotect 10 226,
munmap 11 215, brk 12 214, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, ioctl 16 29,
pread64 17 67, readv 19 65, writev 20 66, access 21 -, sched_yield 24 124, mremap 25 216, madvise 28 233,
nanosleep 35 101, getpid 39 172, sendto 44 206, clone 56 220, exit 60 93, uname 63 160, fcntl 72 25, getcwd 79 17,
chdir 80 49, readlink 89 -, gettimeofday 96 169, getrusage 98 165, sysinfo 99 179, getuid 102 174, getgid 104 176,
geteuid 107 175, getegid 108 177, getppid 110 173, sigaltstack 131 132, gettid 186 178, time 201 -, futex 202 98,
sched_getaffinity 204 123, getdents64 217 61, restart_syscall 219 128, fadvise64 221 223, clock_gettime 228 113,
clock_getres 229 114, clock_nanosleep 230 115, exit_group 231 94, mbind 237 235, openat 257 56, newfstatat 262 79,
readlinkat 267 78, faccessat 269 48, set_robust_list 273 99, prlimit64 302 261, getcpu 309 168, getrandom 318 278,
membarrier 324 283, statx 332 291, rseq 334 293, faccessat2 439 439
"""
_CLONE3 = 435  # a filter cannot see its flags; after ENOSYS, libraries call clone
_TO_WRITE = 0o1 | 0o2 | 0o100 | 0o1000 | 0o20000000  # flags of open: write, create, truncate, unnamed file
_CONDITIONS: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "open": (1, _TO_WRITE, ()),
    "openat": (2, _TO_WRITE, ()),
    "clone": (0, 0, (0x3D0F00, 0x7D0F00)),  # a thread, as glibc and musl start one
    "ioctl": (1, 0, (0x5401,)),  # is it a terminal?
    "fcntl": (1, 0, (1, 2, 3)),  # flags of a descriptor; no locks, no owner that receives signals
    "prlimit64": (0, 0, (0,)),  # its own limits
}
"""Conditions on calls: which argument is checked, its forbidden bits, and its allowed values if any are listed."""
CALLS: dict[str, dict[str, int]] = {machine: {} for machine in _ARCHITECTURES}
"""Numbers of the allowed system calls, by architecture and name."""
for _entry in _TABLE.replace("\n", " ").split(","):
    _name, *_numbers = _entry.split()
    for _machine, _number in zip(CALLS, _numbers, strict=True):
        if _number != "-":  # this architecture has only the call that replaces it
            CALLS[_machine][_name] = int(_number)
_unavailable: list[str] = []


def confine(files: Iterable[Path], private: Iterable[Path] = ()) -> None:
    """Give up everything but reading ``files`` and the installed modules, for good and in every thread.

    A folder of modules that contains a ``private`` file or folder, such as the database or the working folder, is not
    readable.
    """
    system = ctypes.CDLL(None, use_errno=True)
    system.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _unavailable.clear()
    if system.unshare(_NEW_USERS) != 0:
        _unavailable.append("user: the kernel allows no user namespace, so uploads are read with the service's rights")
    process = Path(f"/proc/{os.getpid()}")
    if not _only_read(system, [*files, *_modules([*private, Path.cwd()]), *([process] if process.exists() else [])]):
        _unavailable.append("files: the kernel has no Landlock, so an upload could read whatever the service can read")
    if not _allow_calls(system):
        _unavailable.append(
            "calls: the kernel does not accept the seccomp filter, so an upload could open connections, start "
            "programs, and change or signal whatever the service can"
        )


def missing() -> list[str]:
    """Return the permissions that this process could not give up, and the consequences."""
    return list(_unavailable)


def _modules(private: list[Path]) -> list[Path]:
    """Return the folders of Python, its modules and the libraries they load, except those with private files."""
    libraries = {f"{prefix}/{lib}" for prefix in (sys.prefix, sys.base_prefix, "/usr") for lib in ("lib", "lib64")}
    purposes = ("stdlib", "platstdlib", "purelib", "platlib")
    installed = libraries | {"/lib", "/lib64", *(sysconfig.get_path(purpose) for purpose in purposes)}
    single = ("/usr/share/zoneinfo", "/etc/localtime", "/dev/null", "/dev/urandom")
    readable = []
    for path in map(Path, sorted({*installed, *single, *filter(None, sys.path)})):
        folder = path.resolve()
        exposed = [place for place in private if folder in (place, *place.parents)]
        if exposed and str(path) in installed:
            _unavailable.append(f"modules: {exposed[0]} lies in {path}, which reading files needs; move it elsewhere")
        elif not exposed and folder.exists():
            readable.append(folder)
    return readable


def hide_memory() -> None:
    """Keep other processes of the same user from reading this one's memory; root still can."""
    ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)


def _only_read(system: ctypes.CDLL, paths: Iterable[Path]) -> bool:
    version = system.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return False
    rights = (1 << max(number for since, number in _FILE_RIGHTS.items() if since <= version)) - 1
    attributes = struct.pack("=QQQ", rights, _PORTS, _SCOPES)[: 8 * (1 + (version >= 4) + (version >= 6))]
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


def _allow_calls(system: ctypes.CDLL) -> bool:
    machine = platform.machine()
    if machine not in CALLS:
        return False
    program = _program(_ARCHITECTURES[machine], CALLS[machine])
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    return bool(system.prctl(_SECCOMP, _FILTER_MODE, header, 0, 0) == 0)


def _program(architecture: int, calls: dict[str, int]) -> bytes:
    """Return the filter as a BPF program: load a word, compare and jump, return."""
    load, equal, any_bit, finish = 0x20, 0x15, 0x45, 0x06
    lines = [
        (load, 0, 0, 4),  # the architecture
        (equal, 1, 0, architecture),
        (finish, 0, 0, _KILLED),
        (load, 0, 0, 0),  # the number of the call
        (equal, 0, 1, _CLONE3),
        (finish, 0, 0, _UNKNOWN),
    ]
    for name, number in calls.items():
        argument, forbidden, values = _CONDITIONS.get(name, (0, 0, ()))
        tests = [(load, 0, 0, 16 + 8 * argument)] if name in _CONDITIONS else []  # its lower half: all have 32 bits
        if forbidden:
            tests += [(any_bit, 0, 1, forbidden), (finish, 0, 0, _REFUSED)]
        for value in values:
            tests += [(equal, 0, 1, value), (finish, 0, 0, _ALLOWED)]
        tests.append((finish, 0, 0, _REFUSED if values else _ALLOWED))
        lines += [(equal, 0, len(tests), number), *tests]
    return b"".join(struct.pack("=HBBI", *line) for line in [*lines, (finish, 0, 0, _REFUSED)])
