"""Run the whole gallery: ``python -m examples.gallery docs/images/gallery`` from the root of the repository."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from examples.gallery import GALLERY

folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "images")
folder.mkdir(parents=True, exist_ok=True)
for entry in GALLERY:
    print(f"\n{entry.title}: {entry.line}\n")
    import_module(f"examples.gallery.{entry.file}").main(folder)
