"""The files of a source, and their formats, names and digests."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Sequence
from hashlib import file_digest
from pathlib import Path
from typing import TypeAlias

from troth.core.errors import DataError
from troth.data.request import file_name

FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".xlsx": "sheet",
    ".xls": "sheet",
    ".ods": "sheet",
    ".json": "statistics",
}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
Source: TypeAlias = str | Path | Sequence[str | Path]


def find_files(source: Source) -> list[tuple[Path, Path]]:
    """Return the files of a source (a file, folder or pattern, or several), each with the folder that was searched."""
    files: list[tuple[Path, Path]] = []
    for entry in [source] if isinstance(source, str | Path) else source:
        path = Path(entry)
        if path.is_dir():
            inside = [p for p in sorted(path.rglob("*")) if p.is_file() and suffix_of(p) in FORMATS]
            usable = [p for p in inside if not any(part[0] in "._" for part in p.relative_to(path).parts)]
            if not usable:
                raise DataError.at(str(entry), f"the folder has no data files ({', '.join(sorted(FORMATS))})")
            files += [(path, p) for p in usable]
        elif path.is_file():
            files.append((path.parent, path))
        elif any(wildcard in str(entry) for wildcard in "*?["):
            matches = [Path(p) for p in sorted(glob.glob(str(entry), recursive=True))]  # noqa: PTH207 (absolute patterns)
            matches = [p for p in matches if p.is_file()]
            if not matches:
                raise DataError.at(str(entry), "no file matches this pattern")
            files += [(path.parent, p) for p in matches]
        else:
            raise DataError.at(str(entry), "there is no such file or folder")
    for path, count in Counter(path.resolve() for _, path in files).items():
        if count > 1:
            raise DataError.at(file_name(path), "named twice by the source; its rows would count twice")
    return files


def format_of(path: Path) -> str:
    """Return the format that a file's suffix stands for."""
    suffix = suffix_of(path)
    if suffix not in FORMATS:
        raise DataError.at(file_name(path), f"unknown kind of file; the name must end in {', '.join(sorted(FORMATS))}")
    return FORMATS[suffix]


def suffix_of(path: Path) -> str:
    """Return the suffix of a file's name in lower case, ignoring the suffix of a compressed file."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() in _COMPRESSED else path.suffix.lower()


def stem(path: Path) -> str:
    """Return a file's name without its suffixes."""
    name = path.name[: -len(path.suffix)] if path.suffix.lower() in _COMPRESSED else path.name
    return name[: -len(Path(name).suffix)] if Path(name).suffix else name


def sha256_of(path: Path) -> str:
    """Return the SHA-256 digest of a file, in hexadecimal."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
