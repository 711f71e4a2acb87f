"""One spelling for plain data, so that its digest is the same everywhere."""

from __future__ import annotations

import json
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
        return _WRITE(_finite(plain)).encode()


def as_number(value: Any) -> float | None:
    """Read a number back that may have been written as text."""
    return None if value is None else float(value)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value


def as_json(plain: Any) -> str:
    """Return plain data as JSON for people and programs to read."""
    return json.dumps(_finite(plain), indent=2, ensure_ascii=False, allow_nan=False, default=str)
