"""How numbers, shares and names look to people, on the page and in the service."""

from __future__ import annotations

import unicodedata
from math import isfinite
from typing import Any


def number(value: Any, digits: int = 4, *, sign: bool = False) -> str:
    """Return a number with thousands apart and a fixed number of digits, with a plus where it is asked for.

    Examples
    --------
    >>> number(1234.5), number(-0.5, 2), number(float("-inf")), number(None)
    ('1,234.5000', '−0.50', '−∞', '–')
    """
    if value is None:
        return "–"
    if not isfinite(value):
        return "−∞" if value < 0 else "∞"
    plus = "+" if sign else ""
    shown = f"{value:{plus},}" if isinstance(value, int) else f"{value:{plus},.{digits}f}"
    return shown.replace("-", "−")


def counted(count: int, noun: str) -> str:
    """Return a number of things.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def brief(value: Any) -> str:
    """Return a number with few digits.

    Examples
    --------
    >>> brief(-1234.56789), brief("north"), brief(None)
    ('−1234.57', 'north', '–')
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "–" if value is None else str(value)
    return number(value) if not isfinite(value) else f"{value:.6g}".replace("-", "−")


def share(value: float, digits: int = 2, *, sign: bool = False) -> str:
    """Return a share as percent, with a plus where it is asked for.

    Examples
    --------
    >>> share(0.5), share(-0.031, 1), share(0.031, 1, sign=True)
    ('50.00%', '−3.1%', '+3.1%')
    """
    return f"{value:{'+' if sign else ''}.{digits}%}".replace("-", "−")


def printable(text: str) -> str:
    r"""Return text without what would move a terminal's cursor, change its colours or turn its lines around.

    Examples
    --------
    >>> printable("a\x1b[2Jb")
    'a�[2Jb'
    """
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)


def short(text: str, most: int = 40) -> str:
    """Return a name that is not too long to show.

    Examples
    --------
    >>> short("a very long name", 8)
    'a very …'
    """
    return text if len(text) <= most else text[: most - 1] + "…"
