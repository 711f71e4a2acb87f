"""Strict parsing of tables of settings: every error names the file, the key and the remedy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from troth.core.errors import ParameterError


class CampaignError(ParameterError):
    """A mistake in a campaign file.

    Attributes
    ----------
    section, key : str or None
        The place of the mistake, such as ``"mechanism"`` and ``"draws"``.
    """

    def __init__(self, message: str, *, section: str | None = None, key: str | None = None) -> None:
        self.section, self.key = section, key
        super().__init__(message)


class Section:
    """One table of a campaign file, or the whole file if its name is empty; keys that are never taken are unknown.

    Examples
    --------
    >>> Section("mechanism", {"draws": 0}).integer("draws", minimum=1)
    Traceback (most recent call last):
    troth.core.settings.CampaignError: [mechanism] draws: must be a whole number of at least 1, not 0
    """

    def __init__(self, name: str, table: Any, *, file: str = "") -> None:
        self.name, self.file = name, file
        if not isinstance(table, dict):
            raise self.error(f"must be a table of settings, not {table!r}")
        self.remaining: dict[str, Any] = dict(table)

    @property
    def place(self) -> str:
        """The name of the table in messages."""
        table = f"[{self.name}]" if self.name else "top level:"
        return f"{self.file}: {table}" if self.file else table

    def error(self, message: str) -> CampaignError:
        """Return an error about the table."""
        return CampaignError(f"{self.place}: {message}", section=self.name)

    def error_at(self, key: str, message: str) -> CampaignError:
        """Return an error at a key."""
        return CampaignError(f"{self.place} {key}: {message}", section=self.name, key=key)

    def take(self, key: str, default: Any = None) -> Any:
        """Take a value of any type; like all methods that take, remove its key from the table."""
        return self.remaining.pop(key, default)

    def text(
        self,
        key: str,
        default: str | None = None,
        *,
        among: Sequence[str] = (),
        required: bool = False,
        custom: str = "",
    ) -> Any:
        """Take a non-empty text, which must be ``among`` these if any are given; ``custom`` says how to add others."""
        if key not in self.remaining:
            if required:
                hint = f"one of {', '.join(among)}" if among else "text in quotes"
                raise self.error_at(key, f"is missing; give {hint}")
            return default
        value = self.remaining.pop(key)
        if not isinstance(value, str) or not value.strip():
            raise self.error_at(key, f"must be text in quotes, not {value!r}")
        choice = closest(value, among) if among else value
        if choice is None:
            raise self.error_at(key, f"{value!r} is not known; choose one of {', '.join(among)}{custom}")
        return choice

    def integer(self, key: str, default: int | None = None, *, minimum: int = 0, maximum: int = 2**53) -> Any:
        """Take an integer."""
        if key not in self.remaining:
            return default
        value = self.remaining.pop(key)
        if problem := integer_problem(value, minimum, maximum):
            raise self.error_at(key, problem)
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """Take a boolean."""
        value = self.remaining.pop(key, default)
        if not isinstance(value, bool):
            raise self.error_at(key, f"must be true or false, not {value!r}")
        return value

    def digest(self, key: str, command: str) -> Any:
        """Take a digest that ``command`` wrote."""
        value = self.remaining.pop(key, None)
        if value is not None and not (isinstance(value, str) and re.fullmatch("sha256:[0-9a-f]{64}", value)):
            remedy = f"must be sha256: and 64 hexadecimal digits, as `troth {command}` writes it, not {value!r}"
            raise self.error_at(key, remedy)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Take a text or a list of texts."""
        value = self.remaining.pop(key, [])
        value = [value] if isinstance(value, str) else value
        if not (isinstance(value, list | tuple) and all(isinstance(entry, str) and entry.strip() for entry in value)):
            raise self.error_at(key, f"must be text or a list of texts, not {value!r}")
        if len(set(value)) < len(value):
            raise self.error_at(key, f"names {Counter(value).most_common(1)[0][0]!r} twice")
        return tuple(value)

    def table(self, key: str) -> Section:
        """Take a nested table."""
        return self.subsection(key, self.take(key, {}))

    def subsection(self, key: str, table: Any) -> Section:
        """Return a nested table as a section."""
        return Section(f"{self.name}.{key}" if self.name else key, table, file=self.file)

    def reject_unknown(self, known: Sequence[str] = ()) -> None:
        """Raise an error for the first key that was not taken."""
        for key in self.remaining:
            near = get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}" if known else ""
            raise self.error_at(key, f"there is no such setting{hint}")


def integer_problem(value: Any, minimum: int, maximum: int) -> str:
    """Return why a value is not an integer from minimum to maximum; an empty string if it is valid."""
    if isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum:
        return ""
    upper = "" if maximum >= 2**53 else f" and at most {maximum:,}"
    shown = value if not isinstance(value, int) or abs(value) < 10**20 else "a number that is too large"
    return f"must be a whole number of at least {minimum}{upper}, not {shown!r}"


def parse_number(text: str) -> int | float:
    """Parse a number, or raise `ValueError`."""
    try:
        return int(text) if re.fullmatch(r"-?\d{1,15}", text, re.ASCII) else float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def closest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that differs at most in case, spaces, dashes and underscores; None if there is none."""

    def normalised(text: str) -> str:
        return "".join(c for c in text.lower() if c.isalnum())

    return next((candidate for candidate in known if normalised(candidate) == normalised(name)), None)


def numbers(value: Any) -> Any:
    """Return a number, or nested lists of numbers, unchanged; raise `ValueError` for anything else."""
    if isinstance(value, list | tuple):
        return [numbers(entry) for entry in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(value)
    if isinstance(value, int) and abs(value) > 10**300:
        raise ValueError("a number that is too large")
    return value


def plain_copy(value: Any) -> Any:
    """Return a deep copy that consists of dictionaries, lists and scalars."""
    if isinstance(value, dict):
        return {str(key): plain_copy(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain_copy(entry) for entry in value]
    return value
