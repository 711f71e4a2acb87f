"""Registries of classes by name, which accept new classes at run time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from troth.core.errors import ParameterError

C = TypeVar("C")

IF_CUSTOM = "; if it is a custom one, start troth from the script that registers it"
"""The remedy for an unknown name."""


def check_entry(registry: Mapping[str, type[C]], entry: Any, base: type[C]) -> None:
    """Raise an error unless ``entry`` is a subclass of ``base`` and a dataclass, and its name is free.

    A class that is defined again in the same place, such as a notebook cell, may replace the old one.

    Examples
    --------
    >>> check_entry({}, int, str)
    Traceback (most recent call last):
    troth.core.errors.ParameterError: <class 'int'> cannot be registered: it is not a subclass of str
    """
    if not (isinstance(entry, type) and issubclass(entry, base)):
        raise ParameterError(f"{entry!r} cannot be registered: it is not a subclass of {base.__name__}")
    if "__dataclass_params__" not in vars(entry) and _declares_fields(entry):
        raise ParameterError(f"{entry.__name__}: write @dataclass(frozen=True) above the class")
    other = registry.get(entry.__name__)
    if other and (other.__module__, other.__qualname__) != (entry.__module__, entry.__qualname__):
        raise ParameterError(
            f"{entry.__name__} is taken by {other.__module__}.{other.__qualname__}: give your class another name"
        )


def _declares_fields(entry: type) -> bool:
    """Return whether the body of a class declares fields, which have no effect without `@dataclass`."""
    body, inherited = vars(entry), getattr(entry, "__dataclass_fields__", {})
    unset = [name for name in body.get("__annotations__", ()) if name not in inherited and not hasattr(entry, name)]
    return bool(unset) or any(isinstance(value, dataclasses.Field) for value in body.values())
