"""The options of a rule, for its constructor, campaign files and forms.

A rule declares an option together with its field: ``draws: int = option(Integer("draws", 64, minimum=1))``.
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
        The name and the default value.
    meaning
        What the option does: its comment in a new campaign file.
    label, hint
        Its label and hint in forms.
    example
        Its value in a new campaign file, if not the default.
    in_form, in_file
        Whether forms, and new campaign files, contain it.
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
    """The kind of field in forms: ``"text"``, ``"choice"`` or ``"flag"``."""

    @property
    def settings(self) -> tuple[Option, ...]:
        """The settings that determine its value."""
        return (self,)

    def problem(self, value: Any) -> str:
        """Return the problem with a value, or an empty string if it is valid."""
        return ""

    def read(self, section: Section) -> Any:
        """Take the value out of a table, or raise an error if it is invalid."""
        value = section.take(self.key, self.default)
        if problem := self.problem(value):
            raise section.error_at(self.key, problem)
        return value

    def write(self, value: Any) -> dict[str, Any] | None:
        """Return the settings that give a value, or None if none can."""
        return {self.key: value}

    def parse(self, text: str) -> Any:
        """Parse text from a form, or raise `ValueError` with the problem."""
        return text

    @property
    def text(self) -> str:
        """The default as shown in forms."""
        return str(self.default)


@dataclass(frozen=True)
class Integer(Option):
    """An integer.

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
        """Return the settings with a Python integer, even if the value is a NumPy one."""
        return {self.key: int(value)}

    def parse(self, text: str) -> int:
        if not re.fullmatch(r"\d{1,15}", text, re.ASCII):
            raise ValueError(f"{text!r} is not a whole number")
        return int(text)


@dataclass(frozen=True)
class Number(Option):
    """A number within open bounds, which error messages call ``expected``."""

    above: float = -np.inf
    below: float = np.inf
    expected: str = "a number"

    def problem(self, value: Any) -> str:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return "" if number and self.above < value < self.below else f"must be {self.expected}, not {value!r}"

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
    """One of several words, each with a label for forms."""

    choices: Mapping[str, str] = field(default_factory=dict)

    kind = "choice"

    def problem(self, value: Any) -> str:
        choices = " or ".join(f'"{word}"' for word in self.choices)
        return "" if isinstance(value, str) and value in self.choices else f"must be {choices}, not {value!r}"

    def read(self, section: Section) -> Any:
        """Take a word, ignoring case, spaces, dashes and underscores."""
        return section.text(self.key, self.default, among=tuple(self.choices))


def option(declaration: Option, default: Any = None) -> Any:
    """Return a dataclass field for an option; the field's default may differ from the setting's."""
    return field(default=declaration.default if default is None else default, metadata={"option": declaration})
