"""Write plain data as TOML, with one line per row of a matrix.

Of the usual libraries, tomli-w gives each number its own line, and tomlkit is sixty times slower.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from troth.core.errors import ParameterError

_WIDTH = 110


def to_toml(plain: dict[str, Any]) -> str:
    """Return tables of settings as TOML.

    Examples
    --------
    >>> print(to_toml({"model": {"family": "Bernoulli", "prior": {"alpha": 1.0}}}))
    [model]
    family = "Bernoulli"
    <BLANKLINE>
    [model.prior]
    alpha = 1.0
    <BLANKLINE>
    """
    lines: list[str] = []
    _write_table((), plain, lines)
    return "\n".join(lines).lstrip("\n") + "\n"


def _write_table(path: tuple[str, ...], table: dict[str, Any], lines: list[str]) -> None:
    simple = {key: value for key, value in table.items() if not isinstance(value, dict)}
    if path and (simple or not table):
        lines += ["", f"[{'.'.join(map(_key, path))}]"]
    lines += [f"{_key(key)} = {_value(value)}" for key, value in simple.items()]
    for key, value in table.items():
        if isinstance(value, dict):
            _write_table((*path, key), value, lines)


def _key(text: str) -> str:
    plain = text and all(c.isascii() and (c.isalnum() or c in "_-") for c in text)
    return text if plain else _value(text)


def _value(value: Any) -> str:
    """Return a value as TOML: strings, integers and booleans as in JSON, which does not escape DEL."""
    if isinstance(value, list | tuple):
        cells = [_value(entry) for entry in value]
        if sum(map(len, cells)) + 2 * len(cells) > _WIDTH and all(isinstance(entry, list | tuple) for entry in value):
            return "[\n" + "".join(f"  {cell},\n" for cell in cells) + "]"
        return "[" + ", ".join(cells) + "]"
    if isinstance(value, float) and isfinite(value):
        return repr(value)
    if isinstance(value, str | int):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    raise ParameterError(f"{value!r} cannot be written into a campaign file")
