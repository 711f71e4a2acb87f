"""Strict reading of a table of settings: every mistake names the file, the key and the remedy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from troth.core.errors import ParameterError


class CampaignError(ParameterError):
    """A campaign file with a mistake in it.

    Attributes
    ----------
    section, key : str or None
        Where the mistake is, such as ``"mechanism"`` and ``"draws"``.
    """

    def __init__(self, message: str, *, section: str | None = None, key: str | None = None) -> None:
        self.section, self.key = section, key
        super().__init__(message)


class Section:
    """One table of a campaign file, unnamed if it is the whole file; what is not taken out of it is an unknown key.

    Examples
    --------
    >>> Section("mechanism", {"draws": 0}).integer("draws", minimum=1)
    Traceback (most recent call last):
    troth.core.settings.CampaignError: [mechanism] draws: must be a whole number of at least 1, not 0
    """

    def __init__(self, name: str, plain: Any, *, file: str = "") -> None:
        self.name, self.file = name, file
        if not isinstance(plain, dict):
            raise self.error(f"must be a table of settings, not {plain!r}")
        self.remaining: dict[str, Any] = dict(plain)

    @property
    def place(self) -> str:
        """The table as messages name it."""
        table = f"[{self.name}]" if self.name else "top level:"
        return f"{self.file}: {table}" if self.file else table

    def error(self, message: str) -> CampaignError:
        """Return an error about the table."""
        return CampaignError(f"{self.place}: {message}", section=self.name)

    def error_at(self, key: str, message: str) -> CampaignError:
        """Return an error at a key."""
        return CampaignError(f"{self.place} {key}: {message}", section=self.name, key=key)

    def take(self, key: str, default: Any = None) -> Any:
        """Take a value of any type."""
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
        """Take a non-empty text, or one of several; ``custom`` says how others become known."""
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
        """Take a whole number."""
        if key not in self.remaining:
            return default
        value = self.remaining.pop(key)
        if problem := integer_problem(value, minimum, maximum):
            raise self.error_at(key, problem)
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """Take true or false."""
        value = self.remaining.pop(key, default)
        if not isinstance(value, bool):
            raise self.error_at(key, f"must be true or false, not {value!r}")
        return value

    def digest(self, key: str, command: str) -> Any:
        """Take a digest that a command has written."""
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
        """Take a table within the table."""
        return self.inner(key, self.take(key, {}))

    def inner(self, key: str, plain: Any) -> Section:
        """Return the table under a key of this one."""
        return Section(f"{self.name}.{key}" if self.name else key, plain, file=self.file)

    def reject_unknown(self, known: Sequence[str] = ()) -> None:
        """Raise at the first key that was not taken."""
        for key in self.remaining:
            near = get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}" if known else ""
            raise self.error_at(key, f"there is no such setting{hint}")


def integer_problem(value: Any, minimum: int, maximum: int) -> str:
    """Return what is wrong with a whole number, or nothing."""
    if isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum:
        return ""
    at_most = "" if maximum >= 2**53 else f" and at most {maximum:,}"
    text = value if not isinstance(value, int) or abs(value) < 10**20 else "a number that is too large"
    return f"must be a whole number of at least {minimum}{at_most}, not {text!r}"


def parse_number(text: str) -> int | float:
    """Return the number that somebody typed, or raise `ValueError`."""
    try:
        return int(text) if re.fullmatch(r"-?\d{1,15}", text, re.ASCII) else float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def closest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that is spelled the same but for case, spaces, dashes and underscores."""

    def plain(text: str) -> str:
        return "".join(c for c in text.lower() if c.isalnum())

    return next((candidate for candidate in known if plain(candidate) == plain(name)), None)


def numbers(value: Any) -> Any:
    """Return numbers, or nested lists of numbers, as they are, or raise ValueError."""
    if isinstance(value, list | tuple):
        return [numbers(entry) for entry in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(value)
    if isinstance(value, int) and abs(value) > 10**300:
        raise ValueError("a number that is too large")
    return value


def plain_copy(value: Any) -> Any:
    """Return a deep copy made of dictionaries, lists and scalars."""
    if isinstance(value, dict):
        return {str(key): plain_copy(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain_copy(entry) for entry in value]
    return value
