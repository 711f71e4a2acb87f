"""One spelling of plain data as JSON, so that its digest is the same everywhere."""

from __future__ import annotations

import json
from hashlib import sha256
from math import isfinite
from typing import Any

_WRITE = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical(plain: Any) -> bytes:
    """Return plain data as JSON with sorted keys and no spaces; numbers that are not finite become text.

    Examples
    --------
    >>> canonical({"b": [1.5, float("-inf")], "a": None})
    b'{"a":null,"b":[1.5,"-inf"]}'
    """
    try:
        return _WRITE(plain).encode()
    except ValueError:
        return _WRITE(finite(plain)).encode()


def digest(plain: Any) -> str:
    """Return the SHA-256 digest of plain data."""
    return "sha256:" + sha256(canonical(plain)).hexdigest()


def finite(plain: Any) -> Any:
    """Return plain data as JSON has it: numbers that are not finite become text."""
    if isinstance(plain, float) and not isfinite(plain):
        return str(plain)
    if isinstance(plain, dict):
        return {key: finite(entry) for key, entry in plain.items()}
    if isinstance(plain, list | tuple):
        return [finite(entry) for entry in plain]
    return plain


def read_json(text: str) -> Any:
    """Return the plain data of JSON; infinite numbers and NaN, which it cannot have, raise `ValueError`."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a number")

    return json.loads(text, parse_constant=refuse)


def as_json(plain: Any) -> str:
    """Return plain data as JSON for people and programs to read."""
    return json.dumps(finite(plain), indent=2, ensure_ascii=False, allow_nan=False, default=str)
