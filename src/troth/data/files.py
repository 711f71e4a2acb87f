"""The files of a source, their formats and what their names say."""

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
    """Return the files of a source (a file, a folder, a pattern, or several), each with the folder it was sought in."""
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
        elif any(sign in str(entry) for sign in "*?["):
            matches = [Path(p) for p in sorted(glob.glob(str(entry), recursive=True))]  # noqa: PTH207 (absolute patterns)
            matches = [p for p in matches if p.is_file()]
            if not matches:
                raise DataError.at(str(entry), "no file matches this pattern")
            files += [(path.parent, p) for p in matches]
        else:
            raise DataError.at(str(entry), "there is no such file or folder")
    for path, times in Counter(path.resolve() for _, path in files).items():
        if times > 1:
            raise DataError.at(file_name(path), "named twice by the source; its rows would count twice")
    return files


def format_of(path: Path) -> str:
    """Return the format that a file's name ends in."""
    suffix = suffix_of(path)
    if suffix not in FORMATS:
        raise DataError.at(file_name(path), f"unknown kind of file; the name must end in {', '.join(sorted(FORMATS))}")
    return FORMATS[suffix]


def suffix_of(path: Path) -> str:
    """Return what a file's name ends in, without the ending of a compressed file."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() in _COMPRESSED else path.suffix.lower()


def stem(path: Path) -> str:
    """Return a file's name without its ending."""
    name = path.name[: -len(path.suffix)] if path.suffix.lower() in _COMPRESSED else path.name
    return name[: -len(Path(name).suffix)] if Path(name).suffix else name


def sha256_of(path: Path) -> str:
    """Return the SHA-256 digest of a file, in hexadecimal."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
