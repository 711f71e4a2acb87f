"""Declarations of hyper-parameters: valid values, meaning and example.

A family declares a hyper-parameter with its field. The constructor, campaign files and forms all read this
declaration::

    noise: float = field(metadata=parameter("standard deviation of one value", positive, 2.0, known=True))
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from troth.core.contract import Array
from troth.core.errors import DataError, ParameterError
from troth.core.settings import parse_number
from troth.core.support import as_floats

MAX_PARAMETER = 1e100


class Kind:
    """The type of a hyper-parameter: its valid values, and how to parse and print them."""

    numeric: ClassVar[bool] = True
    """Whether a campaign file holds it as a number or a list of numbers."""

    choices: Mapping[str, str] = {}
    """The choices in a form with their labels; empty unless there is a fixed list."""

    @property
    def hint(self) -> str:
        """How to write a value, as shown in a form."""
        return ""

    @property
    def wide(self) -> bool:
        """Whether its field takes the full width of a form."""
        return False

    def checked(self, name: str, value: Any, owner: object) -> Any:
        """Return the value as ``owner`` stores it, or raise `ValueError` with the reason."""
        raise NotImplementedError

    def parse(self, text: str) -> Any:
        """Parse text from a form into the value of a campaign file, or raise `ValueError` with the reason."""
        return text

    def text(self, value: Any) -> str:
        """Format a value as you would type it."""
        return str(value)


class Number(Kind):
    """A finite number."""

    def checked(self, name: str, value: Any, owner: object) -> float:
        try:
            x = float(value)
        except OverflowError:
            raise ValueError(f"{name} is too large") from None
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be a number, not {value!r}") from None
        if not np.isfinite(x):
            raise ValueError(f"{name} must be finite, not {value!r}")
        return x

    def parse(self, text: str) -> int | float:
        line = _one_line(text)
        if len(line) != 1:
            raise ValueError("must be one number")
        return line[0]

    def text(self, value: Any) -> str:
        """Format a number with up to 12 significant digits."""
        return format(value, ".12g")


@dataclass(frozen=True)
class Positive(Number):
    """A number above 0 that can be squared and inverted; ``zero`` allows 0 as well."""

    zero: bool = False

    def checked(self, name: str, value: Any, owner: object) -> float:
        """Return a float whose square and inverse neither overflow nor vanish."""
        x = super().checked(name, value, owner)
        if self.zero and x == 0:
            return x
        if not x > 0:
            raise ValueError(f"{name} must be {'0 or above' if self.zero else 'above 0'}, not {x!r}")
        if not 1 / MAX_PARAMETER <= x <= MAX_PARAMETER:
            raise ValueError(
                f"{name} must lie between {1 / MAX_PARAMETER:g} and {MAX_PARAMETER:g} to avoid overflow and "
                f"underflow, not {x!r}"
            )
        return x


@dataclass(frozen=True)
class Integer(Number):
    """An integer of at least ``minimum``."""

    minimum: int

    def checked(self, name: str, value: Any, owner: object) -> Any:
        x = super().checked(name, value, owner)
        if x != int(x) or x < self.minimum:
            raise ValueError(f"{name} must be a whole number of at least {self.minimum}, not {value!r}")
        return int(x)


@dataclass(frozen=True)
class Numbers(Kind):
    """Finite numbers as a vector or a matrix, stored as nested tuples."""

    axes: tuple[int, ...] = (1,)  #: valid numbers of axes: 1 for a vector, 2 for a matrix
    above_zero: bool = False  #: whether every entry must be above 0
    min_size: int = 1  #: minimum number of entries
    length_of: str = ""  #: name of a vector parameter of the same length, if any

    @property
    def hint(self) -> str:
        return "rows separated by semicolons" if self.wide else "numbers separated by commas"

    @property
    def wide(self) -> bool:
        """Whether a value may have several rows."""
        return 2 in self.axes

    def checked(self, name: str, value: Any, owner: object) -> Any:
        return nested_tuple(self.array(name, value, owner))

    def array(self, name: str, value: Any, owner: object) -> Array:
        """Validate the numbers, and return them as an array."""
        try:
            array = as_floats(value, name)
        except DataError as error:
            raise ValueError(f"{name}: {error}") from None
        if array.ndim not in self.axes or array.size == 0:
            expected = " or ".join(("a number", "a vector", "a matrix")[axes] for axes in self.axes)
            raise ValueError(f"{name} must be {expected}, not of shape {array.shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite")
        if self.above_zero and not (array > 0).all():
            smallest = np.unravel_index(int(np.argmin(array)), array.shape)
            index = f"[{', '.join(map(str, smallest))}]" if array.ndim else ""
            raise ValueError(f"{name}{index} must be above 0, not {array.min()}")
        if array.size < self.min_size:
            raise ValueError(f"{name} must have at least {self.min_size} entries, not {array.size}")
        if self.length_of and array.ndim == 1 and len(array) != (size := len(getattr(owner, self.length_of))):
            raise ValueError(f"{name} must have {size} entries, like {self.length_of}, not {len(array)}")
        return array

    def parse(self, text: str) -> list[Any]:
        """Parse one line of numbers, or several lines separated by semicolons."""
        lines = _lines(text)
        return lines if 2 in self.axes and (len(lines) > 1 or 1 not in self.axes) else _one_line(text)

    def text(self, value: Any) -> str:
        """Separate numbers by commas and rows by semicolons."""
        if np.ndim(value) == 2:
            return "; ".join(map(self.text, value))
        return ", ".join(map(number.text, value))


@dataclass(frozen=True)
class Probabilities(Numbers):
    """Positive numbers that sum to 1."""

    def array(self, name: str, value: Any, owner: object) -> Array:
        p = super().array(name, value, owner)
        if not (p > 0).all():
            raise ValueError(f"{name}[{int(np.argmin(p))}] must be above 0; leave out what cannot occur")
        if abs(p.sum() - 1) > 1e-6:
            raise ValueError(f"{name} must sum to 1, not {p.sum():.9g}")
        return p


@dataclass(frozen=True)
class PositiveDefinite(Numbers):
    """A symmetric positive definite matrix, with as many rows as the vector parameter ``length_of`` has entries."""

    axes: tuple[int, ...] = (2,)
    length_of: str = "mean"

    def array(self, name: str, value: Any, owner: object) -> Array:
        """Return the matrix, exactly symmetric."""
        entries = super().array(name, value, owner)
        size = len(getattr(owner, self.length_of))
        if entries.shape != (size, size):
            raise ValueError(f"{name} must be {size} by {size}, not {entries.shape}")
        scale = np.sqrt(np.maximum(np.diagonal(entries), 0))
        if not (np.abs(entries - entries.T) <= 1e-9 * np.outer(scale, scale)).all():
            raise ValueError(f"{name} must be symmetric")
        entries = (entries + entries.T) / 2
        try:
            np.linalg.cholesky(entries)
        except np.linalg.LinAlgError:
            raise ValueError(f"{name} must be positive definite") from None
        return entries


@dataclass(frozen=True)
class Precision(PositiveDefinite):
    """A positive definite matrix, its diagonal, or one number for every entry of the diagonal."""

    axes: tuple[int, ...] = (0, 1, 2)

    def array(self, name: str, value: Any, owner: object) -> Array:
        """Return the matrix, or else the diagonal."""
        if np.ndim(value) == 2:
            return super().array(name, value, owner)
        entries = Numbers((0, 1), above_zero=True, length_of=self.length_of).array(name, value, owner)
        return np.broadcast_to(entries, (len(getattr(owner, self.length_of)),))

    def parse(self, text: str) -> Any:
        entries = Numbers((1, 2)).parse(text)
        return entries[0] if len(entries) == 1 and np.ndim(entries) == 1 else entries

    def text(self, value: Any) -> str:
        return number.text(value) if np.ndim(value) == 0 else super().text(value)


class Word(Kind):
    """One of several words."""

    numeric = False

    def __init__(self, *choices: str) -> None:
        self.choices = {word: word for word in choices}

    def checked(self, name: str, value: Any, owner: object) -> Any:
        if value not in self.choices:
            raise ValueError(f"there is no {name} {value!r}; there are {', '.join(self.choices)}")
        return str(value)


class Flag(Word):
    """True or false."""

    def __init__(self) -> None:
        super().__init__("true", "false")

    def checked(self, name: str, value: Any, owner: object) -> bool:
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name} must be true or false, not {value!r}")
        return bool(value)

    def parse(self, text: str) -> bool:
        return text == "true"

    def text(self, value: Any) -> str:
        return "true" if value else "false"


number, positive, non_negative, flag = Number(), Positive(), Positive(zero=True), Flag()
vector, matrix, vector_or_matrix = Numbers((1,)), Numbers((2,)), Numbers((1, 2))
pseudo_counts, probabilities = Numbers((1,), above_zero=True, min_size=2), Probabilities()
positive_definite = PositiveDefinite()


@dataclass(frozen=True)
class Parameter:
    """A hyper-parameter, as constructors check it and campaign files and forms ask for it.

    ``meaning`` describes it in a few words, and ``kind`` holds its valid values.
    """

    meaning: str
    kind: Kind
    example: Any = None  #: its value in the family's example
    known: bool = False  #: whether it belongs to the likelihood, which may differ between providers, not to the prior
    hidden: bool = False  #: whether the library sets it, so that users are not asked for it
    name: str = ""  #: the name of the field
    required: bool = True  #: whether the field has no default
    default: Any = None  #: the default of the field

    @property
    def label(self) -> str:
        """Its label in a form."""
        return self.name.replace("_", " ")

    @property
    def hint(self) -> str:
        """The text next to it in a form: its meaning, and how to write it."""
        optional = "" if self.required or self.kind.choices else "may be empty"
        return "; ".join(filter(None, (self.meaning, self.kind.hint, optional)))

    @property
    def text(self) -> str:
        """The text in an untouched form: the example, or else the default."""
        value = self.default if self.example is None else self.example
        return "" if value is None else self.kind.text(value)

    def check(self, owner: object) -> None:
        """Validate the argument of a constructor, and replace it with the value to store."""
        value = getattr(owner, self.name)
        if value is None and not self.required:
            return
        try:
            object.__setattr__(owner, self.name, self.kind.checked(self.name, value, owner))
        except ValueError as error:
            raise ParameterError(f"{type(owner).__name__}: {error}", parameter=self.name) from None


def parameter(meaning: str, kind: Kind, example: Any = None, *, known: bool = False, hidden: bool = False) -> Any:
    """Declare a dataclass field as a hyper-parameter: return its metadata, a `Parameter`.

    Examples
    --------
    >>> from dataclasses import field
    >>> @dataclass(frozen=True)
    ... class Prior:
    ...     strength: float = field(metadata=parameter("how many rows it is worth", positive, 2.0))
    >>> [(each.name, each.meaning, each.text) for each in declared_parameters(Prior)]
    [('strength', 'how many rows it is worth', '2')]
    """
    return {"parameter": Parameter(meaning, kind, example, known, hidden)}


def _declared_parameters(owner: Any) -> tuple[Parameter, ...]:
    """Return the hyper-parameters that the fields of a dataclass declare, in order."""
    return tuple(
        dataclasses.replace(
            field.metadata["parameter"],
            name=field.name,
            required=field.default is dataclasses.MISSING,
            default=None if field.default is dataclasses.MISSING else field.default,
        )
        for field in dataclasses.fields(owner)
        if field.init and "parameter" in field.metadata
    )


# mypy does not accept classes as arguments of a cached function
declared_parameters: Callable[[type], tuple[Parameter, ...]] = cache(_declared_parameters)


def documented(family: type) -> str:
    """Return the docstring of a family, with a section on the declared hyper-parameters.

    Examples
    --------
    >>> from troth.models import Poisson
    >>> "Pseudo-count of events." in documented(Poisson)
    True
    """
    doc = inspect.cleandoc(family.__doc__ or "")
    if "\nParameters\n---" in doc:
        return doc
    about, heading, examples = doc.partition("\n\nExamples\n")
    meanings = [
        f"{parameter.name}\n    {parameter.meaning[0].upper()}{parameter.meaning[1:]}."
        for parameter in declared_parameters(family)
    ]
    return "\n".join([about, "", "Parameters", "----------", *meanings]) + heading + examples


def nested_tuple(array: Array) -> tuple[Any, ...]:
    """Return an array as nested tuples of floats, which print, compare and hash."""
    return tuple(nested_tuple(entry) if entry.ndim else float(entry) for entry in array)


def _lines(text: str) -> list[list[int | float]]:
    lines = [line.strip() for line in re.split(r"[;\n]", text) if line.strip()]
    return [[parse_number(cell) for cell in re.split(r"[,\s]+", line)] for line in lines]


def _one_line(text: str) -> list[int | float]:
    lines = _lines(text)
    if len(lines) != 1:
        raise ValueError("must be one line of numbers")
    return lines[0]
