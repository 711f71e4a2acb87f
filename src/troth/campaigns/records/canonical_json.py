"""Canonical JSON, so that the digest of plain data is the same everywhere."""

from __future__ import annotations

import json
from hashlib import sha256
from math import isfinite
from typing import Any

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical(plain: Any) -> bytes:
    """Return plain data as JSON with sorted keys and no spaces; non-finite numbers become strings.

    Examples
    --------
    >>> canonical({"b": [1.5, float("-inf")], "a": None})
    b'{"a":null,"b":[1.5,"-inf"]}'
    """
    try:
        return _encode(plain).encode()
    except ValueError:
        return _encode(finite(plain)).encode()


def digest(plain: Any) -> str:
    """Return the SHA-256 digest of plain data."""
    return "sha256:" + sha256(canonical(plain)).hexdigest()


def finite(plain: Any) -> Any:
    """Return plain data that JSON can represent: non-finite numbers become strings."""
    if isinstance(plain, float) and not isfinite(plain):
        return str(plain)
    if isinstance(plain, dict):
        return {key: finite(entry) for key, entry in plain.items()}
    if isinstance(plain, list | tuple):
        return [finite(entry) for entry in plain]
    return plain


def read_json(text: str) -> Any:
    """Parse JSON; infinity and NaN, which are not valid JSON, raise `ValueError`."""

    def reject(constant: str) -> None:
        raise ValueError(f"{constant} is not a number")

    return json.loads(text, parse_constant=reject)


def as_json(plain: Any) -> str:
    """Return plain data as indented JSON."""
    return json.dumps(finite(plain), indent=2, ensure_ascii=False, allow_nan=False, default=str)
