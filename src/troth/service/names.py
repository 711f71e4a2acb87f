"""Names that look alike are the same name: nobody joins beside "Ash" as another "Ash".

A name is compared by its skeleton, in the spirit of Unicode's report on security: compatibility forms are folded
(NFKC), then case, then letters of other alphabets that look like Latin ones. Characters that are not shown at all are
refused.
"""

from __future__ import annotations

import unicodedata

_LOOKALIKES = str.maketrans(  # Cyrillic, Greek, Armenian, phonetic: small letters, because case is folded first
    "аеорсухіјѕԁԛԝһӏвкмнтαβεζηικμνορτυχϲϳօսհոցյıȷɑɡɩ",
    "aeopcyxijsdqwhlbkmhtabezhikmnoptyxcjouhngjijagi",
)
_NOT_SHOWN = (
    *((0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
    *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF)),
    *((0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF), (0x2800, 0x2800)),
)
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def has_unseen(text: str) -> bool:
    """Say whether text has characters that are not shown, or that change how others are.

    Examples
    --------
    >>> has_unseen("Ash"), has_unseen("A\u200bsh"), has_unseen("A\u034fsh"), has_unseen("Ash\u3164")
    (False, True, True, True)
    """
    return any(
        unicodedata.category(c) in _UNSEEN or any(first <= ord(c) <= last for first, last in _NOT_SHOWN) for c in text
    )


def skeleton(name: str) -> str:
    """Return what a name looks like; of plain English letters, the name in small ones.

    Examples
    --------
    >>> skeleton("Ash") == skeleton("ASH") == skeleton("\uff21sh") == skeleton("\u0410\u0455h") == "ash"
    True
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return " ".join(folded.translate(_LOOKALIKES).split())
