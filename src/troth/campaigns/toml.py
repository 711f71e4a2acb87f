"""Plain data as TOML, as campaign files are written."""

from __future__ import annotations

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
    import tomlkit

    return tomlkit.dumps(_laid_out(plain))


def _laid_out(value: Any) -> Any:
    """Return a value as it is to be written: long matrices row by row."""
    import tomlkit

    if isinstance(value, dict):
        return {key: _laid_out(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        entries = [_laid_out(entry) for entry in value]
        is_matrix = all(isinstance(entry, list | tuple) for entry in value)
        return tomlkit.item(entries).multiline(True) if is_matrix and len(str(entries)) > _WIDTH else entries
    if isinstance(value, str | int) or (isinstance(value, float) and isfinite(value)):
        return value
    raise ParameterError(f"{value!r} cannot be written into a campaign file")
