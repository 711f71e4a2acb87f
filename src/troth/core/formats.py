"""Formatting of numbers, shares, amounts, names and tables for a terminal, a notebook or a page."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from html import escape
from math import isfinite, isnan
from typing import Any


def _signed(value: Any, spec: str, *, sign: bool = False) -> str:
    """Format a number with a true minus sign, or a plus sign if requested; numbers that round to 0 have no sign."""
    text = f"{value:{'+' if sign else ''}{spec}}"
    return text.replace("-", "−") if any(digit in text for digit in "123456789") else text.lstrip("+-")


def number(value: Any, digits: int = 4, *, sign: bool = False) -> str:
    """Format a number with thousands separators and a fixed number of decimals, with a plus sign if requested.

    Examples
    --------
    >>> number(1234.5), number(-0.5, 2), number(-0.001, 2), number(float("-inf")), number(None)
    ('1,234.5000', '−0.50', '0.00', '−∞', '–')
    """
    if value is None or isnan(value):
        return "–"
    if not isfinite(value):
        return "−∞" if value < 0 else "∞"
    return _signed(value, "," if isinstance(value, int) else f",.{digits}f", sign=sign)


def true_minus(text: str) -> str:
    """Replace hyphens before negative numbers in a text by true minus signs.

    Examples
    --------
    >>> true_minus("shift by -0.25 sd, a-1")
    'shift by −0.25 sd, a-1'
    """
    return re.sub(r"(?<!\S)-(?=\d)", "−", text)


def probability(value: float, digits: int = 3, level: float = 0.01) -> str:
    """Format a p-value, with more digits if rounding would move it across the level or five times the level.

    These are the thresholds of the verdicts "does not fit" and "doubtful".

    Examples
    --------
    >>> probability(0.3217), probability(0.00998), probability(0.0499)
    ('0.322', '0.00998', '0.0499')
    """
    while digits < 12 and any((round(value, digits) < limit) != (value < limit) for limit in (level, 5 * level)):
        digits += 1
    return f"{value:.{digits}f}"


def money(amount: Decimal | str) -> str:
    """Format an amount, given as a number or as text, with thousands separators.

    Examples
    --------
    >>> money(Decimal("1215.40")), money("-0.07")
    ('1,215.40', '−0.07')
    """
    return _signed(Decimal(amount), ",f")


def counted(count: int, noun: str) -> str:
    """Format a count with its noun, in the plural unless the count is 1.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def left_out(count: int, lacking: str) -> str:
    """Report how many rows are left out because they lack something.

    Examples
    --------
    >>> left_out(4, "value"), left_out(1, "provider")
    ('4 rows without a value are left out', '1 row without a provider is left out')
    """
    return f"{counted(count, 'row')} without a {lacking} {'is' if count == 1 else 'are'} left out"


def brief(value: Any) -> str:
    """Format a number with up to six significant digits; anything else as text.

    Examples
    --------
    >>> brief(-1234.56789), brief("north"), brief(None)
    ('−1234.57', 'north', '–')
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "–" if value is None else str(value)
    return number(value) if not isfinite(value) else _signed(value, ".6g")


def few_digits(value: float, digits: int = 4, *, sign: bool = False) -> str:
    """Format a number with a few significant digits, without an exponent unless it is very large or small.

    Examples
    --------
    >>> few_digits(53124.7), few_digits(-2213.4, 3), few_digits(0.1234567), few_digits(3e20)
    ('53,120', '−2,210', '0.1235', '3e+20')
    """
    return _signed(float(f"{value:.{digits}g}"), ",.12g", sign=sign)


def share(value: float, digits: int = 2, *, sign: bool = False) -> str:
    """Format a share in percent, with a plus sign if requested.

    Examples
    --------
    >>> share(0.5), share(-0.031, 1), share(0.031, 1, sign=True)
    ('50.00%', '−3.1%', '+3.1%')
    """
    return _signed(value, f".{digits}%", sign=sign)


def share_in_full(value: float) -> str:
    """Format a share in percent with four decimals, or with two if that is exact.

    Examples
    --------
    >>> share_in_full(0.539739), share_in_full(0.5397)
    ('53.9739%', '53.97%')
    """
    return share(value, 2 if round(value, 4) == value else 4)


def printable(text: str) -> str:
    r"""Replace characters that would move a terminal's cursor, change its colours or reverse its text.

    Examples
    --------
    >>> printable("a\x1b[2Jb")
    'a�[2Jb'
    """
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)


def short(text: str, length: int = 40) -> str:
    """Truncate a text, with an ellipsis, if it is longer than ``length``.

    Examples
    --------
    >>> short("a very long name", 8)
    'a very …'
    """
    return text if len(text) <= length else text[: length - 1] + "…"


def html_table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> str:
    """Return an HTML table with a title and a note, all of it escaped.

    Examples
    --------
    >>> html_table("lies", ["lie", "gain"], [["a < b", 1]])
    '<p><b>lies</b></p><table><tr><th>lie</th><th>gain</th></tr><tr><td>a &lt; b</td><td>1</td></tr></table>'
    """
    cells = [("th", head), *(("td", row) for row in rows)]
    lines = ["".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in row) for tag, row in cells]
    table = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<p><b>{escape(title)}</b></p><table>{table}</table>" + (f"<p>{escape(note)}</p>" if note else "")
