"""Classes that answer to some names as one of their attributes does."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TypeVar

C = TypeVar("C")


def delegates(attribute: str, *names: str, **renamed: str) -> Callable[[type[C]], type[C]]:
    """Make objects of a class answer to ``names`` as their ``attribute`` does, such as the rule behind a bond.

    ``strict="strictly_convex"`` delegates a name to one that is called otherwise there.

    Examples
    --------
    >>> @delegates("text", "upper", size="__len__")
    ... class Title:
    ...     text = "truth"
    >>> Title().upper(), Title().size()
    ('TRUTH', 5)
    """

    def decorate(owner: type[C]) -> type[C]:
        for name, name_there in (dict(zip(names, names, strict=True)) | renamed).items():
            setattr(owner, name, property(attrgetter(f"{attribute}.{name_there}")))
        return owner

    return decorate
