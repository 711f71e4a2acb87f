"""Explanations of why Arrow could not read a text file."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

Failure: TypeAlias = Literal["row length", "encoding", "number", "other"]

_WORDS: dict[Failure, str] = {
    "row length": r"Expected \d+ columns?, got \d+",
    "encoding": "UTF8",
    "number": "conversion error",
}


def arrow_failure(error: BaseException) -> Failure:
    """Return why Arrow could not read a text file.

    Arrow raises `pyarrow.ArrowInvalid` for all of these, and only the words of the message tell them apart. No other
    module looks at the words. A version of Arrow that changes them makes ``tests/data/test_arrow_failures.py`` fail.

    Examples
    --------
    >>> arrow_failure(ValueError("CSV parse error: Expected 2 columns, got 3: a,1,2"))
    'row length'
    """
    message = str(error)
    return next((failure for failure, words in _WORDS.items() if re.search(words, message)), "other")
