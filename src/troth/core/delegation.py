"""Delegation of attributes and methods to an attribute of an object."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TypeVar

C = TypeVar("C")


def delegates(attribute: str, *names: str, **renamed: str) -> Callable[[type[C]], type[C]]:
    """Delegate ``names`` of a class to one of its attributes, such as the rule behind a bond.

    A keyword delegates to another name: ``strict="strictly_convex"`` reads ``strictly_convex`` of the attribute.

    Examples
    --------
    >>> @delegates("text", "upper", size="__len__")
    ... class Title:
    ...     text = "truth"
    >>> Title().upper(), Title().size()
    ('TRUTH', 5)
    """

    def decorate(owner: type[C]) -> type[C]:
        for name, target in ({name: name for name in names} | renamed).items():
            setattr(owner, name, property(attrgetter(f"{attribute}.{target}")))
        return owner

    return decorate
