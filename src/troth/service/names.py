"""Names that look alike count as the same name: nobody can join as a second "Ash".

Names are compared by their skeletons, in the spirit of Unicode's report on security (UTS 39): compatibility forms are
folded (NFKC), then case, then letters of other alphabets that look like Latin ones; marks that no letter is written
with are left out. Characters that are not shown at all are refused, and so are words of several alphabets.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from importlib.resources import files

_LINES = [line.split() for line in files(__package__).joinpath("lookalikes.txt").read_text("utf-8").splitlines()]
_ALIKE = {int(code, 16): letter for letter, *codes in _LINES if letter != "#" for code in codes}
_PLAIN = {code: "i" if letter == "|" else letter for code, letter in _ALIKE.items()}
_SMALL = {0x3BD: "v", 0x3C5: "u", 0x3C3: "o"}  # whose small letter looks otherwise than the capital
_STROKES = str.maketrans("Il10", "|||o") | {code: "|" for code, letter in _ALIKE.items() if letter == "|"}
_MARKS = ((0x0300, 0x036F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF), (0xFE20, 0xFE2F))  # of any alphabet
_EAST_ASIAN = {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO"}  # written with others
_NOT_SHOWN = (
    *((0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
    *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF)),
    *((0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF), (0x2800, 0x2800)),
)
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_NEVER_SHOWN = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _NOT_SHOWN) + "]")


def has_unseen(text: str) -> bool:
    """Return whether text has characters that are not shown, or that change how others are.

    Examples
    --------
    >>> has_unseen("Ash"), has_unseen("A\u200bsh"), has_unseen("A\u034fsh"), has_unseen("Ash\u3164")
    (False, True, True, True)
    """
    if text.isascii():
        return not text.isprintable()
    return _NEVER_SHOWN.search(text) is not None or any(unicodedata.category(char) in _UNSEEN for char in text)


def mixed_alphabets(name: str) -> list[str]:
    """Return the alphabets that one word of a name mixes, none if none does.

    Examples
    --------
    >>> mixed_alphabets("Ash"), mixed_alphabets("\u0410\u0448"), mixed_alphabets("\u0410sh")
    ([], [], ['Cyrillic', 'Latin'])
    """
    if name.isascii():
        return []
    for word in re.split(r"[\s\-.,/&()+'’]+", unicodedata.normalize("NFKC", name)):
        letters = [char for char in word if unicodedata.category(char) in ("Lu", "Ll", "Lt", "Lo")]
        alphabets = {unicodedata.name(letter, "unnamed").split()[0] for letter in letters} - _EAST_ASIAN
        if len(alphabets) > 1:
            return sorted(alphabet.capitalize() for alphabet in alphabets)
    return []


def skeleton(name: str) -> str:
    """Return what a name looks like; for plain English letters, the name in lower case.

    Examples
    --------
    >>> skeleton("Ash") == skeleton("ASH") == skeleton("\uff21sh") == skeleton("\u0410\u0455h") == "ash"
    True
    """
    return _appearance(unicodedata.normalize("NFKC", name), _PLAIN)


@lru_cache(maxsize=1 << 15)
def looks(name: str) -> frozenset[str]:
    """Return every skeleton of a name: there are several if one of its letters looks like several.

    Examples
    --------
    >>> looks("A1") & looks("Al") & looks("AI"), looks("Al") & looks("Ai")
    (frozenset({'a|'}), frozenset())
    """
    if name.isascii():
        return frozenset(" ".join(text.lower().split()) for text in (name, name.translate(_STROKES)))
    plain = unicodedata.normalize("NFKC", name)
    return frozenset(
        _appearance(text, table) for text in (plain, plain.translate(_STROKES)) for table in (_PLAIN, _PLAIN | _SMALL)
    )


def _appearance(text: str, table: dict[int, str]) -> str:
    folded = unicodedata.normalize("NFKC", text.casefold())
    drawn = "".join(map(_small_capital, folded.translate(table)))
    bare = "".join(char for char in drawn if not any(first <= ord(char) <= last for first, last in _MARKS))
    return " ".join(bare.split())


def _small_capital(char: str) -> str:
    """Return the letter that a small capital is drawn like, or the character itself."""
    name = "" if char.isascii() else unicodedata.name(char, "")
    letter = name.removeprefix("LATIN LETTER SMALL CAPITAL ")
    return letter.lower() if letter != name and len(letter) == 1 else char
