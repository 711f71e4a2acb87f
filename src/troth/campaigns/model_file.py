"""Model files, for models that are too large for a campaign file: plain numbers, identified by a digest.

The file is the canonical JSON of ``model.to_dict()``. It holds only names and numbers, so reading it runs no code.
Since `save_model` writes canonical JSON, ``sha256sum`` prints the model's digest.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from troth import models
from troth.campaigns.records.canonical_json import canonical, digest, read_json
from troth.campaigns.records.ledger import write_atomic
from troth.core.errors import DataError, ParameterError
from troth.core.settings import Section

if TYPE_CHECKING:
    from collections.abc import Mapping

    from troth.models import Family

_MAX_FILE_BYTES = 1 << 26


def save_model(model: Family, path: str | Path) -> str:
    """Write a model to a file that a campaign file can name, and return its digest.

    Examples
    --------
    >>> import tempfile, troth
    >>> path = Path(tempfile.mkdtemp()) / "candidates.json"
    >>> digest = save_model(troth.models.LogisticCandidates([[0, 1], [1, 0]]), path)
    >>> load_model(path, digest).coefficients
    ((0.0, 1.0), (1.0, 0.0))
    """
    plain = model.to_dict()
    if not models.is_registered(model):
        name = type(model).__name__
        raise ParameterError(f"{name} is not registered, so nobody could load it: call troth.models.register({name})")
    write_atomic(path, canonical(plain))
    return digest(plain)


def load_model(path: str | Path, digest: str | None = None) -> Family:
    """Read a model that `save_model` wrote, and check its digest if one is given."""
    path = Path(path)
    model = models.from_dict(_read(path))
    if digest is not None:
        check_digest(model, digest, path.name)
    return model


def check_digest(model: Family, expected: str, place: str) -> None:
    """Raise unless a model has the announced digest."""
    actual = digest(model.to_dict())
    if actual != expected:
        raise DataError(
            f"{place} has the digest {actual}, but {expected} was announced: "
            "the file was changed, or it is a different file"
        )


def with_model_file(plain: Any, path: Path | None) -> Any:
    """Return the tables of a campaign, with the file that [model] names replaced by its parameters."""
    table = plain.get("model") if isinstance(plain, dict) else None
    if not isinstance(table, dict) or "file" not in table:
        return plain
    section = Section("model", table, file="" if path is None else path.name)
    name, announced = table["file"], table.get("digest")
    if not isinstance(name, str) or not name.strip():
        raise section.error_at("file", f"must be the name of a file, not {name!r}")
    if path is None:
        message = "there is no folder to read it from; give the parameters, or load the campaign from its file"
        raise section.error_at("file", message)
    try:
        model = load_model(path.parent / name, None if announced is None else str(announced))
    except (DataError, ParameterError) as error:
        raise section.error_at("file", str(error)) from None
    read = model.to_dict()
    if announced is None:
        raise section.error_at("digest", f'is missing; write digest = "{digest(read)}"')
    for key, value in read.items():
        if table.get(key, value) != value:
            raise section.error_at(key, f"is given here and in {Path(name).name}; leave it out here")
    other_keys = {key: value for key, value in table.items() if key != "file"}
    return {**plain, "model": {**other_keys, **read}}


def _read(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise DataError(f"{path.name}: has more than {_MAX_FILE_BYTES >> 20} MiB, too large for a model file")
        plain = read_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path.name}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path.name}: not JSON of plain numbers: {error}") from None
    if not isinstance(plain, dict) or not isinstance(plain.get("family"), str):
        raise DataError(f'{path.name}: not a model that troth.save_model wrote ("family" is missing)')
    return plain
