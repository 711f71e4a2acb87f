"""Names that look alike count as the same name: nobody can join as a second "Ash".

Names are compared by their skeletons, in the spirit of Unicode's report on security (UTS 39): compatibility forms are
folded (NFKC), then case, then letters of other alphabets that look like Latin ones; remaining combining marks are
dropped. Names with invisible characters are rejected, and so are words that mix alphabets.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from importlib.resources import files

_LINES = [line.split() for line in files(__package__).joinpath("lookalikes.txt").read_text("utf-8").splitlines()]
_LOOKALIKES = {int(code, 16): letter for letter, *codes in _LINES if letter != "#" for code in codes}
_LETTERS = {code: "i" if letter == "|" else letter for code, letter in _LOOKALIKES.items()}
_SMALL = {0x3BD: "v", 0x3C5: "u", 0x3C3: "o"}  # letters whose lower case looks different from the capital
_STROKES = str.maketrans("Il10", "|||o") | {code: "|" for code, letter in _LOOKALIKES.items() if letter == "|"}
_COMBINING = ((0x0300, 0x036F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF), (0xFE20, 0xFE2F))
_EAST_ASIAN = {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO"}  # often mixed in one word
_INVISIBLE_RANGES = (
    *((0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
    *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF)),
    *((0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF), (0x2800, 0x2800)),
)
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # Unicode categories
_INVISIBLE = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _INVISIBLE_RANGES) + "]")


def has_invisible(text: str) -> bool:
    """Return whether text has invisible characters, or characters that change how others are displayed.

    Examples
    --------
    >>> has_invisible("Ash"), has_invisible("A\u200bsh"), has_invisible("A\u034fsh"), has_invisible("Ash\u3164")
    (False, True, True, True)
    """
    if text.isascii():
        return not text.isprintable()
    return _INVISIBLE.search(text) is not None or any(unicodedata.category(char) in _HIDDEN for char in text)


def mixed_alphabets(name: str) -> list[str]:
    """Return the alphabets of the first word that mixes several, or an empty list.

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
    """Return a key that names with the same look share; for English letters, the name in lower case.

    Examples
    --------
    >>> skeleton("Ash") == skeleton("ASH") == skeleton("\uff21sh") == skeleton("\u0410\u0455h") == "ash"
    True
    """
    return _appearance(unicodedata.normalize("NFKC", name), _LETTERS)


@lru_cache(maxsize=1 << 15)
def skeletons(name: str) -> frozenset[str]:
    """Return all skeletons of a name: several if one of its characters looks like several letters.

    Examples
    --------
    >>> skeletons("A1") & skeletons("Al") & skeletons("AI"), skeletons("Al") & skeletons("Ai")
    (frozenset({'a|'}), frozenset())
    """
    if name.isascii():
        return frozenset(" ".join(text.lower().split()) for text in (name, name.translate(_STROKES)))
    folded = unicodedata.normalize("NFKC", name)
    texts, tables = (folded, folded.translate(_STROKES)), (_LETTERS, _LETTERS | _SMALL)
    return frozenset(_appearance(text, table) for text in texts for table in tables)


def _appearance(text: str, table: dict[int, str]) -> str:
    folded = unicodedata.normalize("NFKC", text.casefold())
    letters = "".join(map(_small_capital, folded.translate(table)))
    unmarked = "".join(char for char in letters if not any(first <= ord(char) <= last for first, last in _COMBINING))
    return " ".join(unmarked.split())


def _small_capital(char: str) -> str:
    """Return the letter that a small capital looks like, or the character itself."""
    name = "" if char.isascii() else unicodedata.name(char, "")
    letter = name.removeprefix("LATIN LETTER SMALL CAPITAL ")
    return letter.lower() if letter != name and len(letter) == 1 else char
