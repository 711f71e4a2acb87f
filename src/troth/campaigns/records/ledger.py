"""The ledger: one line of JSON per entry, chained by hashes so that no byte can change unnoticed.

A line's hash covers the previous hash and the line itself, and the closing line counts the others, so removing lines,
swapping them or changing a byte breaks the chain. Files are written atomically: a ledger file is always either the old
ledger or the new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from troth.campaigns.private_files import sync_folder, write_beside
from troth.campaigns.records.canonical_json import canonical
from troth.campaigns.records.merkle import leaf
from troth.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_START = "0" * 64


class LedgerError(DataError):
    """A ledger that was changed, or that does not belong to the campaign."""


class Ledger:
    """Entries in order; `append` adds an entry, and `to_bytes` serialises all of them with their hashes.

    Examples
    --------
    >>> ledger = Ledger()
    >>> ledger.append({"entry": "campaign", "name": "clinics"})
    >>> Ledger.from_bytes(ledger.to_bytes()).entries == ledger.entries
    True
    """

    def __init__(self, entries: Sequence[dict[str, Any]] = ()) -> None:
        self.entries: list[dict[str, Any]] = []
        self._lines: list[bytes] = []
        self._by_kind: dict[str, list[dict[str, Any]]] = {}
        self._head = _START
        for entry in entries:
            self.append(entry)

    @property
    def head(self) -> str:
        """The hash of the closing line, which identifies the ledger."""
        return _hash_of(self._closing_line())

    def leaves(self, lines: int | None = None) -> list[str]:
        """Return the Merkle leaves of the first lines, by default of all."""
        return [leaf(line) for line in self._lines[:lines]]

    @property
    def lines(self) -> tuple[bytes, ...]:
        """The lines as bytes, without the closing line."""
        return tuple(self._lines)

    def append(self, entry: dict[str, Any]) -> None:
        """Add an entry, stored as it will be read from the file: non-finite numbers are strings."""
        body = canonical(entry)
        self._add(json.loads(body), _sealed(body, self._head))

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the entries of a kind."""
        return list(self._by_kind.get(kind, ()))

    def to_bytes(self) -> bytes:
        """Serialise all lines, including the closing line."""
        return b"".join([*self._lines, self._closing_line()])

    @classmethod
    def from_bytes(cls, raw: bytes, place: str = "ledger") -> Ledger:
        """Parse a ledger and check every byte; errors name the line."""
        if not raw.endswith(b"\n"):
            raise LedgerError(f"{place}: the last line is cut off")
        lines = raw[:-1].split(b"\n")
        ledger = cls()
        for number, line in enumerate(lines, 1):
            location = f"{place}, line {number}"
            plain = _parsed(line, location)
            last = plain.get("entry") == "end"
            if last and number < len(lines):
                raise LedgerError(f"{location}: there are lines after the closing line")
            if number == len(lines) and not last:
                raise LedgerError(f"{location}: the closing line is missing: lines were removed")
            if last and plain != _end(number - 1):
                raise LedgerError(f"{location}: it counts {plain.get('lines')} lines, but there are {number - 1}")
            if _expected_line(plain, ledger._head) != line + b"\n":
                raise LedgerError(
                    f"{location}: the hash chain breaks here; this line was changed, or others "
                    "before it were changed, removed or swapped"
                )
            if not last:
                ledger._add(plain, line + b"\n")
        return ledger

    @classmethod
    def from_lines(cls, lines: Sequence[bytes]) -> Ledger:
        """Parse a ledger from its lines without the closing line, and check every byte."""
        closing = _sealed(canonical(_end(len(lines))), _hash_of(lines[-1]) if lines else _START)
        return cls.from_bytes(b"".join([*lines, closing]))

    def _add(self, plain: dict[str, Any], line: bytes) -> None:
        self.entries.append(plain)
        self._lines.append(line)
        self._head = _hash_of(line)
        self._by_kind.setdefault(str(plain.get("entry")), []).append(plain)

    def _closing_line(self) -> bytes:
        return _sealed(canonical(_end(len(self.entries))), self._head)


def read_ledger(path: str | Path) -> Ledger:
    """Read and check a ledger file."""
    path = Path(path)
    try:
        return Ledger.from_bytes(path.read_bytes(), path.name)
    except (FileNotFoundError, IsADirectoryError):
        raise LedgerError(f"{path}: there is no such ledger") from None
    except OSError as error:
        raise LedgerError(f"{path.name}: cannot be read: {error.strerror}") from None


def first_entry(path: Path) -> dict[str, Any]:
    """Read the first entry of a ledger without checking it; empty if the file is missing or has no valid entry."""
    try:
        with path.open("rb") as lines:
            return _parsed(lines.readline(), path.name)
    except (OSError, LedgerError):
        return {}


def write_atomic(name: str | Path, content: bytes, *, private: bool = False) -> Path:
    """Write a file atomically: even after a power failure it has either the old content or the new.

    Only its owner can read a new private file; an existing file keeps its mode.
    """
    path = Path(name).resolve()  # replace the target of a link, not the link
    temporary = None
    try:
        temporary = write_beside(path, content, 0o600 if private else 0o666, path if path.exists() else None)
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
    sync_folder(path.parent)
    return Path(name)


def remove_leftovers(path: Path) -> None:
    """Remove temporary files of an interrupted write to this file. Call it only while holding the lock."""
    for temporary in path.parent.glob(f".{path.name}.*.tmp"):
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file or folder, so that runs take turns. The lock ends with the process."""
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _end(lines: int) -> dict[str, Any]:
    return {"entry": "end", "lines": lines}


def _hash_of(line: bytes) -> str:
    return line[-67:-3].decode(errors="replace")


def _sealed(body: bytes, previous: str) -> bytes:
    """Return a line: an entry with the previous hash and the hash of both."""
    digest = sha256(previous.encode() + b"\n" + body).hexdigest()
    return body[:-1] + f',"previous":"{previous}","hash":"{digest}"}}\n'.encode()


def _expected_line(plain: dict[str, Any], previous: str) -> bytes | None:
    """Return the line that an entry should have, or None if it cannot be serialised."""
    try:
        return _sealed(canonical(plain), previous)
    except ValueError:  # characters that UTF-8 cannot encode
        return None


def _parsed(line: bytes, place: str) -> dict[str, Any]:
    try:
        entry = json.loads(line.decode())
    except (ValueError, RecursionError):  # invalid UTF-8 is a ValueError
        raise LedgerError(f"{place}: this is not JSON; the line was changed") from None
    if not isinstance(entry, dict) or not {"entry", "previous", "hash"} <= set(entry):
        raise LedgerError(f"{place}: this is not a ledger entry")
    return {key: value for key, value in entry.items() if key not in ("previous", "hash")}
