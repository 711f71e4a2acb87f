"""The options of a rule, as its constructor checks them and as a campaign file and a form ask for them.

A rule declares an option where it declares the field: ``draws: int = option(Integer("draws", 64, minimum=1))``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.settings import Section, integer_problem, parse_number

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Option:
    """One key of a campaign file's ``[mechanism]`` table and one field of a form.

    An option that takes several keys overrides ``settings``.

    Attributes
    ----------
    key, default
        Its name, and its value if none is given.
    meaning
        What it does, as the comment beside it in a new campaign file.
    label, hint
        What a form calls it.
    example
        What a new campaign file says, if not the default.
    in_form, in_file
        Whether a form asks for it, and whether a new campaign file shows it.
    """

    key: str
    default: Any = None
    meaning: str = ""
    label: str = ""
    hint: str = ""
    example: Any = None
    in_form: bool = True
    in_file: bool = True

    kind = "text"
    """How a form asks for it: as a ``"text"``, a ``"choice"`` or a ``"flag"``."""

    @property
    def settings(self) -> tuple[Option, ...]:
        """The keys that set it."""
        return (self,)

    def problem(self, value: Any) -> str:
        """Return what is wrong with a value, or nothing."""
        return ""

    def read(self, section: Section) -> Any:
        """Take the value out of a table, or raise what is wrong with it."""
        value = section.take(self.key, self.default)
        if problem := self.problem(value):
            raise section.error_at(self.key, problem)
        return value

    def write(self, value: Any) -> dict[str, Any] | None:
        """Return the settings for a value, or None if there are none."""
        return {self.key: value}

    def parse(self, text: str) -> Any:
        """Return the value that somebody typed, or raise `ValueError` with what is wrong."""
        return text

    @property
    def text(self) -> str:
        """The default as a form shows it."""
        return str(self.default)


@dataclass(frozen=True)
class Integer(Option):
    """A whole number.

    Examples
    --------
    >>> Integer("draws", 64, minimum=1, maximum=1000).problem(0)
    'must be a whole number of at least 1 and at most 1,000, not 0'
    """

    minimum: int = 0
    maximum: int = 2**53

    def problem(self, value: Any) -> str:
        return integer_problem(int(value) if isinstance(value, np.integer) else value, self.minimum, self.maximum)

    def write(self, value: Any) -> dict[str, Any] | None:
        """Return it as Python's own integer."""
        return {self.key: int(value)}

    def parse(self, text: str) -> int:
        if not re.fullmatch(r"\d{1,15}", text, re.ASCII):
            raise ValueError(f"{text!r} is not a whole number")
        return int(text)


@dataclass(frozen=True)
class Number(Option):
    """A number within open bounds, or what ``wanted`` says in words."""

    above: float = -np.inf
    below: float = np.inf
    wanted: str = "a number"

    def problem(self, value: Any) -> str:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return "" if number and self.above < value < self.below else f"must be {self.wanted}, not {value!r}"

    def parse(self, text: str) -> int | float:
        return parse_number(text)


@dataclass(frozen=True)
class Flag(Option):
    """True or false."""

    kind = "flag"

    def problem(self, value: Any) -> str:
        return "" if isinstance(value, bool) else f"must be true or false, not {value!r}"

    def parse(self, text: str) -> bool:
        return bool(text)

    @property
    def text(self) -> str:
        return "yes" if self.default else ""


@dataclass(frozen=True)
class Choice(Option):
    """One of several words, each with what a form calls it."""

    choices: Mapping[str, str] = field(default_factory=dict)

    kind = "choice"

    def problem(self, value: Any) -> str:
        choices = " or ".join(f'"{word}"' for word in self.choices)
        return "" if isinstance(value, str) and value in self.choices else f"must be {choices}, not {value!r}"

    def read(self, section: Section) -> Any:
        """Take a word, spelled as in the list but for case, spaces, dashes and underscores."""
        return section.text(self.key, self.default, among=tuple(self.choices))


def option(how: Option, default: Any = None) -> Any:
    """Return a field of a rule that is an option; the field's default may differ from the setting's."""
    return field(default=how.default if default is None else default, metadata={"option": how})
